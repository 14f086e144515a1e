/* SPDX-License-Identifier: Apache-2.0 */
/* One clock and one start time of a process, in whatever time namespace one looks. */
#include "probe/ring/host_clock.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "probe/ring/ring_writer.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80 /* linux/sched.h */
#endif

struct view {
	int64_t now_ns, plain_ns;
	uint64_t parent_start;
};

static void look(struct view *view)
{
	struct timespec plain;
	char parent[16];

	snprintf(parent, sizeof(parent), "%d", (int)getppid());
	view->now_ns = host_clock_now_ns();
	clock_gettime(CLOCK_MONOTONIC, &plain);
	view->plain_ns = (int64_t)plain.tv_sec * 1000000000 + plain.tv_nsec;
	if (ring_start_time(-1, parent, &view->parent_start))
		view->parent_start = 0;
}

/* In a child whose clocks are changed; false where that is not allowed. */
static bool look_elsewhere(const char *offsets, struct view *view)
{
	int ends[2], status;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		int fd = unshare(CLONE_NEWTIME) ? -1 : open("/proc/self/timens_offsets", O_WRONLY);

		if (fd < 0 || write(fd, offsets, strlen(offsets)) < 0)
			_exit(77);
		close(fd);
		pid_t inner = fork();
		if (inner == 0) { /* a program of its own: what was read is kept */
			dup2(ends[1], 1);
			execl("/proc/self/exe", "test_host_clock", "look", (char *)NULL);
			_exit(1);
		}
		waitpid(inner, &status, 0);
		_exit(WEXITSTATUS(status));
	}
	close(ends[1]);
	waitpid(child, &status, 0);
	bool looked = WEXITSTATUS(status) != 77;
	if (looked)
		assert_int_equal(read(ends[0], view, sizeof(*view)), sizeof(*view));
	close(ends[0]);
	return looked;
}

static void test_one_clock(void **state)
{
	static const char *const offsets[] = {"monotonic 86400 5000000\nboottime 7200 0\n",
		"monotonic -5 0\nboottime 1000000 0\n"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct view here, there;

		look(&here);
		if (!look_elsewhere(offsets[i], &there))
			skip();
		assert_true(there.now_ns >= here.now_ns);
		assert_true(there.now_ns - here.now_ns < INT64_C(2000000000));
		assert_true(llabs(there.plain_ns - here.plain_ns) > INT64_C(2000000000));
	}
}

static void test_one_start_time(void **state)
{
	uint64_t start;
	struct view there;
	char own[16];

	(void)state;
	snprintf(own, sizeof(own), "%d", (int)getpid());
	assert_int_equal(ring_start_time(-1, own, &start), 0);
	/* Its parent there is our child, which began when we looked, at most some seconds after us. */
	if (!look_elsewhere("monotonic 0 0\nboottime 1000000 0\n", &there))
		skip();
	assert_true(there.parent_start >= start);
	assert_true(there.parent_start - start < 60 * 100);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_clock),
		cmocka_unit_test(test_one_start_time),
	};

	if (argc > 1 && strcmp(argv[1], "look") == 0) {
		struct view view;

		look(&view);
		return write(1, &view, sizeof(view)) != (ssize_t)sizeof(view);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
