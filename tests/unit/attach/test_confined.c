/* SPDX-License-Identifier: Apache-2.0 */
/* What work on a rank's files can do: hand back its result, and nothing else. */
#include <elf.h>
#include <errno.h>
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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach/confined.h"
#include "probe/attach/verbs_attach.h"

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

/* Some 50 ms of CPU, without a system call. */
static int work_briefly(void *context)
{
	for (volatile int i = 0; i < 20000000; i++)
		;
	(void)context;
	return 5;
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
	struct rusage before, after;

	(void)unused;
	state.in = 3;
	assert_int_equal(getrusage(RUSAGE_CHILDREN, &before), 0);
	assert_int_equal(confined_call(hang, &state, sizeof(state)), -ENOEXEC);
	assert_int_equal(getrusage(RUSAGE_CHILDREN, &after), 0);
	assert_in_range(after.ru_utime.tv_sec - before.ru_utime.tv_sec, 0, 3);
	assert_int_equal(confined_call(crash, &state, sizeof(state)), -ENOEXEC);
	assert_int_equal(state.in, 3);
}

/* Beside a process that has hundreds of times its weight, it waits for a CPU for longer than its two seconds. */
static void waiting_for_a_cpu_is_not_its_time(void **unused)
{
	cpu_set_t before, first;
	pid_t busy;

	(void)unused;
	if (geteuid() != 0)
		skip(); /* a process more important than others is root's to make */
	CPU_ZERO(&first);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	for (size_t cpu = 0; CPU_COUNT(&first) == 0; cpu++) {
		if (CPU_ISSET(cpu, &before))
			CPU_SET(cpu, &first);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(first), &first), 0);
	busy = fork();
	if (busy == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)setpriority(PRIO_PROCESS, 0, -10);
		for (volatile int i = 0;; i = !i)
			;
	}
	assert_true(busy > 0);
	assert_int_equal(setpriority(PRIO_PROCESS, 0, 10), 0);
	int result = confined_call(work_briefly, &state, sizeof(state.in));

	assert_int_equal(setpriority(PRIO_PROCESS, 0, 0), 0);
	assert_int_equal(kill(busy, SIGKILL), 0);
	assert_int_equal(waitpid(busy, NULL, 0), busy);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(result, 5);
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

/* A table of 408 MiB, of a library that is a rank's own. */
static void a_library_is_read_with_little_memory(void **unused)
{
	const Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					   ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_DYN,
		.e_version = EV_CURRENT,
		.e_shoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 2};
	const Elf64_Shdr sections[2] = {{0}, {.sh_type = SHT_DYNSYM,
						     .sh_offset = 4096,
						     .sh_size = sizeof(Elf64_Sym) * (17 << 20),
						     .sh_entsize = sizeof(Elf64_Sym)}};
	int fd = memfd_create("library", MFD_CLOEXEC);
	struct verbs_library library;
	struct rusage used;
	char path[64];

	(void)unused;
	assert_int_equal(ftruncate(fd, 409 << 20), 0);
	assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
	assert_int_equal(pwrite(fd, sections, sizeof(sections), sizeof(header)), sizeof(sections));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(verbs_library_read(path, &library), -ENOEXEC);
	assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
	assert_in_range(used.ru_maxrss, 0, 200 << 10); /* KiB */
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_result_comes_back),
		cmocka_unit_test(a_library_is_read_with_little_memory),
		cmocka_unit_test(nothing_else_does),
		cmocka_unit_test(waiting_for_a_cpu_is_not_its_time),
		cmocka_unit_test(it_reads_and_no_more)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
