/* SPDX-License-Identifier: Apache-2.0 */
/* A child of this process that waits in a known function, runs in another one, and ends. */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/stacks/names.h"
#include "probe/stacks/running.h"
#include "probe/stacks/target.h"

enum { LOOKS_MAX = 200, PAUSE_US = 20000 };

static int ready[2], go[2];

__attribute__((noinline)) static void spin_here(volatile uint64_t *count)
{
	for (;;)
		(*count)++;
}

__attribute__((noinline)) static void wait_here(void)
{
	char byte;

	if (read(go[0], &byte, 1) != 1)
		_exit(1);
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

/* Both on CPUs of their own, where there are two; and others give way, where that is allowed. */
static void take_cpu(size_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
	(void)setpriority(PRIO_PROCESS, 0, -15);
}

static pid_t start_child(void)
{
	uint64_t count = 0;
	pid_t child;
	char byte;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		take_cpu(1);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		wait_here();
		spin_here(&count);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	usleep(PAUSE_US);
	return child;
}

#if defined(__x86_64__)
static bool has_frame(const struct stack_lines *lines, const char *name)
{
	for (size_t i = 0; i < lines->count; i++) {
		if (lines->lines[i].kind == STACK_LINE_NATIVE &&
			strncmp(lines->lines[i].name, name, strlen(name)) == 0) /* ".isra.0" */
			return true;
	}
	return false;
}

/* Looks until a frame of that name is there; running: while it is on a CPU. */
static bool look_for(struct stack_target *target, struct stack_names *names,
	struct stack_sample *sample, const char *name, bool running)
{
	static struct stack_lines lines;

	for (unsigned i = 0; i < LOOKS_MAX; i++) {
		assert_int_equal(stack_target_sample(target, i, UINT64_MAX, sample), 0);
		assert_int_equal(sample->count, 1);
		stack_names_learn(names, sample);
		assert_int_equal(stack_names_merge(names, &sample->threads[0], &lines), 0);
		if (sample->threads[0].now.on_cpu == running && has_frame(&lines, name))
			return true;
		usleep(PAUSE_US);
	}
	return false;
}

static bool may_ask_running(void)
{
	struct running_threads threads = {0};
	bool may;

	running_ask(&threads, getpid());
	may = threads.count == 1;
	running_end(&threads);
	return may;
}

/* Where BPF may be used at all, and the kernel has iterators of one process's tasks (6.1). */
static bool may_use_bpf(void)
{
	int major = 0, minor = 0, map = bpf_map_create(BPF_MAP_TYPE_ARRAY, NULL, 4, 4, 1, NULL);
	struct utsname kernel;

	if (map < 0)
		return false;
	close(map);
	return uname(&kernel) == 0 && sscanf(kernel.release, "%d.%d", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 1)) &&
	       access("/sys/kernel/btf/vmlinux", R_OK) == 0;
}
#endif

enum { OTHERS = 8 };

static void *wait_in_thread(void *unused)
{
	(void)unused;
	if (write(ready[1], "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* The main thread and OTHERS that wait. */
static pid_t start_threads(void)
{
	pid_t child;
	char byte;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned i = 0; i < OTHERS; i++) {
			if (pthread_create(&thread, NULL, wait_in_thread, NULL))
				_exit(1);
		}
		for (;;)
			pause();
	}
	for (unsigned i = 0; i < OTHERS; i++)
		assert_int_equal(read(ready[0], &byte, 1), 1);
	usleep(PAUSE_US);
	return child;
}

static size_t count_read(const struct stack_sample *sample)
{
	size_t count = 0;

	for (size_t i = 0; i < sample->count; i++)
		count += !sample->threads[i].torn;
	return count;
}

/* Of the process, with what is not the program's own: a sanitizer's, a translator's. */
static size_t count_threads(pid_t pid)
{
	char path[32];
	struct dirent *entry;
	size_t count = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	assert_non_null(tasks);
	while ((entry = readdir(tasks)))
		count += entry->d_name[0] != '.';
	closedir(tasks);
	return count;
}

/* Without time for more, the main thread is read and one other, until all had their turn; then they stay as they were seen. */
static void test_no_time_for_all(void **state)
{
	static struct stack_sample sample;
	struct stack_target *target;
	pid_t child = start_threads();
	size_t others = count_threads(child) - 1;

	(void)state;
	assert_true(others >= OTHERS);
	assert_int_equal(stack_target_open(child, &target), 0);
	for (size_t i = 1; i <= others; i++) {
		assert_int_equal(stack_target_sample(target, i, 0, &sample), 0);
		assert_int_equal(sample.count, 1 + others);
		assert_int_equal(sample.threads[0].now.tid, child);
		assert_false(sample.threads[0].torn);
		assert_int_equal(count_read(&sample), 1 + i);
		assert_int_equal(sample.torn, others - i);
	}
	memset(&sample, 0, sizeof(sample));
	assert_int_equal(stack_target_sample(target, 0, UINT64_MAX, &sample), 0);
	assert_int_equal(count_read(&sample), 1 + others);
	stack_target_close(target);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_child(void **state)
{
	static struct stack_sample sample;
	struct stack_target *target;
	struct stack_names *names;
	pid_t child = start_child();
	const char *reason;

	(void)state;
	take_cpu(0);
	assert_int_equal(stack_target_open(child, &target), 0);
	assert_int_equal(stack_names_create(target, &names), 0);
#if defined(__x86_64__)
	if (may_use_bpf())
		assert_null(stack_target_without_bpf(target));
#else
	assert_non_null(strstr(stack_target_without_bpf(target), "x86-64"));
#endif
	assert_null(stack_target_python(target, &reason));
	assert_string_equal(reason, "no Python interpreter was found");
#if defined(__x86_64__)
	assert_true(look_for(target, names, &sample, "wait_here", false));
	assert_string_equal(sample.threads[0].now.name, "unit_stacks_tes");
	/* It waits still: nothing is read again, and its stack is what it was. */
	assert_int_equal(stack_target_sample(target, 0, UINT64_MAX, &sample), 0);
	assert_true(sample.threads[0].as_before);
	assert_int_equal(sample.reads, 0);
	assert_true(sample.threads[0].native_count > 1);
	assert_int_equal(write(go[1], "", 1), 1);
	if (may_ask_running())
		assert_true(look_for(target, names, &sample, "spin_here", true));
#endif
	kill(child, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)child, NULL, WEXITED | WNOWAIT), 0);
	assert_int_equal(
		stack_target_sample(target, 0, UINT64_MAX, &sample), -ESRCH); /* a zombie */
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(stack_target_sample(target, 0, UINT64_MAX, &sample), -ESRCH);
	stack_names_destroy(names);
	stack_target_close(target);
	assert_int_equal(stack_target_open(child, &target), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_child), cmocka_unit_test(test_no_time_for_all)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
