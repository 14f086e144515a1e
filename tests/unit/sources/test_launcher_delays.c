/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread waits for a CPU, and for storage, as the kernel of this machine counts it. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/sources/launcher_delays.h"

enum { MS = 1000000, BLOCK_BYTES = 1 << 20 };

static int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void spin(int64_t length_ns)
{
	int64_t until_ns = now_ns() + length_ns;

	while (now_ns() < until_ns)
		;
}

static struct launcher_delays *watch_own_thread(void)
{
	struct launcher_delays *delays = launcher_delays_create(getpid());

	assert_non_null(delays);
	launcher_delays_thread(delays, gettid());
	launcher_delays_thread(delays, gettid()); /* is known */
	return delays;
}

/* Two on one CPU: each waits while the other runs. */
static void a_shared_cpu_is_waited_for(void **state)
{
	struct launcher_delays *delays = watch_own_thread();
	cpu_set_t all, one;
	pid_t rival;
	struct launcher_delay before, delay, sum;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	rival = fork();
	assert_true(rival >= 0);
	if (rival == 0) {
		spin(5000 * (int64_t)MS);
		_exit(0);
	}
	(void)launcher_delays_look(delays);
	before = launcher_delays_sum(delays);
	spin(400 * (int64_t)MS);
	delay = launcher_delays_look(delays);
	sum = launcher_delays_sum(delays);
	kill(rival, SIGKILL);
	waitpid(rival, NULL, 0);
	sched_setaffinity(0, sizeof(all), &all);
	assert_true(launcher_delays_are_known(delays));
	assert_in_range(delay.queued_ns, 50 * MS, 5000 * (int64_t)MS);
	assert_in_range(delay.cpu_ns, 1, 5000 * (int64_t)MS);
	assert_int_equal(sum.queued_ns - before.queued_ns, delay.queued_ns);
	assert_int_equal(sum.cpu_ns - before.cpu_ns, delay.cpu_ns);
	launcher_delays_destroy(delays);
}

/* A thread that is gone, and one that never was. */
static void what_cannot_be_read_is_not_known(void **state)
{
	struct launcher_delays *delays = launcher_delays_create(getpid());

	(void)state;
	assert_non_null(delays);
	launcher_delays_thread(delays, 1 << 30);
	assert_false(launcher_delays_are_known(delays));
	assert_int_equal(launcher_delays_look(delays).queued_ns, 0);
	assert_int_equal(launcher_delays_look(delays).block_io_ns, 0);
	launcher_delays_destroy(delays);
}

static void storage_is_waited_for(void **state)
{
	char path[] = "/var/tmp/slowrank-storage-XXXXXX";
	int64_t begun_ns = now_ns(), length_ns = 0, waited_ns = 0;
	struct launcher_delays *delays = watch_own_thread();
	char *block = aligned_alloc(4096, BLOCK_BYTES);
	int file = mkstemp(path);

	(void)state;
	assert_true(file >= 0 && block);
	unlink(path);
	memset(block, 1, BLOCK_BYTES);
	if (!launcher_delays_have_block_io() || fcntl(file, F_SETFL, O_RDWR | O_DIRECT) < 0) {
		puts("not run: kernel.task_delayacct is 0, or files here have no O_DIRECT");
		waited_ns = -1;
	}
	while (waited_ns >= 0 && waited_ns < 50 * MS && length_ns < 20000 * (int64_t)MS) {
		assert_int_equal(pwrite(file, block, BLOCK_BYTES, 0), BLOCK_BYTES);
		waited_ns += launcher_delays_look(delays).block_io_ns;
		length_ns = now_ns() - begun_ns;
	}
	close(file);
	free(block);
	launcher_delays_destroy(delays);
	if (waited_ns < 0)
		skip();
	assert_in_range(waited_ns, 50 * MS, length_ns + 10 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shared_cpu_is_waited_for),
		cmocka_unit_test(what_cannot_be_read_is_not_known),
		cmocka_unit_test(storage_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
