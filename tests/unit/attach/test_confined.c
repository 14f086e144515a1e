/* SPDX-License-Identifier: Apache-2.0 */
/* What work on a rank's files can do: hand back its result, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach/confined.h"

enum { LARGE = 1 << 20 };

struct state {
	int in;
	char out[LARGE];
};

static struct state state;

static int answer(void *context)
{
	struct state *own = context;

	memset(own->out, own->in, sizeof(own->out));
	return -own->in;
}

static int read_file(void *context)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ssize_t got = read(fd, ((struct state *)context)->out, 4);

	close(fd);
	return (int)got;
}

static int hang(void *context)
{
	while (((volatile struct state *)context)->in)
		;
	return 0;
}

static int take_memory(void *context)
{
	(void)context;
	for (int i = 0; i < 4 * CONFINED_MIB; i++) {
		char *taken = malloc(1 << 20);

		if (!taken)
			return i;
		memset(taken, 1, 1 << 20);
	}
	return -1;
}

static int write_file(void *context)
{
	(void)context;
	return open("/tmp/slowrank-confined", O_RDWR | O_CREAT, 0600);
}

static int signal_parent(void *context)
{
	(void)context;
	return kill(getppid(), SIGKILL);
}

static int open_socket(void *context)
{
	(void)context;
	return socket(AF_INET, SOCK_STREAM, 0);
}

static int crash(void *context)
{
	(void)context;
	__builtin_trap();
}

static void a_result_comes_back(void **unused)
{
	(void)unused;
	state.in = 7;
	assert_int_equal(confined_call(answer, &state, sizeof(state)), -7);
	assert_int_equal(state.out[LARGE - 1], 7);
	assert_int_equal(confined_call(read_file, &state, sizeof(state)), 4);
	assert_memory_equal(state.out, "\177ELF", 4);
}

static void nothing_else_does(void **unused)
{
	struct timespec began, ended;

	(void)unused;
	state.in = 3;
	clock_gettime(CLOCK_MONOTONIC, &began);
	assert_int_equal(confined_call(hang, &state, sizeof(state)), -ENOEXEC);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	assert_in_range(ended.tv_sec - began.tv_sec, 1, 10);
	assert_int_equal(confined_call(crash, &state, sizeof(state)), -ENOEXEC);
	assert_int_equal(state.in, 3);
}

static void it_reads_and_no_more(void **unused)
{
	(void)unused;
	if (!CONFINED_IS_WHOLE)
		skip(); /* a sanitizer needs calls and memory of its own */
	assert_in_range(confined_call(take_memory, &state, sizeof(state)), 200, CONFINED_MIB);
	assert_int_equal(confined_call(write_file, &state, sizeof(state)), -ENOEXEC);
	assert_int_equal(access("/tmp/slowrank-confined", F_OK), -1);
	assert_int_equal(confined_call(signal_parent, &state, sizeof(state)), -ENOEXEC);
	assert_int_equal(confined_call(open_socket, &state, sizeof(state)), -ENOEXEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_result_comes_back),
		cmocka_unit_test(nothing_else_does), cmocka_unit_test(it_reads_and_no_more)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
