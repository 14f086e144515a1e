/* SPDX-License-Identifier: Apache-2.0 */
/* Off-CPU time against what the kernel itself counts: cgroup quotas and run-queue delays. */
#include "tests/bpf/harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct bpf_source_options options = {.collectives = true, .sched = true};

/* enum off_cpu_reason of analysis/base/step.h */
enum { PREEMPTED = OFF_CPU_PREEMPTED, THROTTLED = OFF_CPU_THROTTLED };

static bool write_text(const char *folder, const char *file, const char *text)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return written;
}

static bool exists(const char *folder, const char *file)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	return access(path, F_OK) == 0;
}

/* A cgroup with 8 ms of CPU in each 20 ms. */
static bool make_cgroup(char folder[128])
{
	static const char *const roots[] = {
		"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"};

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		if (!exists(roots[i], "cpu.stat") && !exists(roots[i], "cgroup.controllers"))
			continue;
		if (exists(roots[i], "cgroup.subtree_control"))
			write_text(roots[i], "cgroup.subtree_control", "+cpu");
		snprintf(folder, 128, "%s/slowrank-bpf-test-%d", roots[i], (int)getpid());
		if (mkdir(folder, 0755) < 0)
			continue;
		if (write_text(folder, "cpu.max", "8000 20000") ||
			(write_text(folder, "cpu.cfs_period_us", "20000") &&
				write_text(folder, "cpu.cfs_quota_us", "8000"))) {
			/* Against others on this machine. */
			if (!write_text(folder, "cpu.shares", "262144"))
				write_text(folder, "cpu.weight", "10000");
			return true;
		}
		rmdir(folder);
	}
	print_message("skipped: no cgroup folder that takes a CPU quota\n");
	return false;
}

static int64_t throttled_ns(const char *folder)
{
	char path[256], key[64];
	long long value;
	int64_t result = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/cpu.stat", folder);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fscanf(file, "%63s %lld", key, &value) == 2) {
		if (strcmp(key, "throttled_time") == 0)
			result = value;
		if (strcmp(key, "throttled_usec") == 0)
			result = value * 1000;
	}
	fclose(file);
	return result;
}

/* The last of the CPUs we may use: interrupts like the first. */
static int some_cpu(void)
{
	cpu_set_t set;
	int cpu = -1;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET((size_t)i, &set))
			cpu = i;
	}
	return cpu;
}

static const struct event_activity *last_segment(struct harness *harness, pid_t pid)
{
	harness_collect(harness);
	const struct event_collective *event = harness_find(
		harness, EVENT_COLLECTIVE, pid, harness_count(harness, EVENT_COLLECTIVE, pid) - 1);
	return &event->before;
}

static void throttled_time_is_the_cgroups(void **state)
{
	struct harness harness;
	struct rank rank;
	char folder[128], pid[16];

	(void)state;
	if (!make_cgroup(folder))
		skip();
	harness_start(&harness, &options);
	rank = rank_start();
	rank_do(&rank, "pin %d", some_cpu());
	snprintf(pid, sizeof(pid), "%d", (int)rank.pid);
	assert_true(write_text(folder, "cgroup.procs", pid));
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	rank_do(&rank, "sleep 25"); /* a fresh period */
	rank_do(&rank, "barrier 0");
	int64_t before = throttled_ns(folder);
	rank_do(&rank, "spin 1500");
	int64_t expected = throttled_ns(folder) - before;
	rank_do(&rank, "barrier 0");
	const struct event_activity *seen = last_segment(&harness, rank.pid);
	print_message("throttled: cpu.stat %.1f ms, seen %.1f ms; preempted %.1f ms\n",
		(double)expected / 1e6, (double)seen->throttled_ns / 1e6,
		(double)seen->preempted_ns / 1e6);
	uint64_t sum = seen->throttled_ns;
	const struct event_off_cpu *event = NULL;
	for (size_t i = 0; (event = harness_find(&harness, EVENT_OFF_CPU, rank.pid, i)); i++) {
		if (event->reason == THROTTLED)
			break;
	}
	bool named = event != NULL;
	rank_end(&rank);
	for (int i = 0; i < 100 && rmdir(folder) < 0; i++)
		usleep(10000);
	harness_end(&harness);
	assert_true(expected > 200000000);
	assert_in_range(sum, expected * 9 / 10, expected * 11 / 10);
	assert_true(named);
}

static pid_t start_hog(int cpu)
{
	pid_t hog = fork();
	cpu_set_t set;

	assert_true(hog >= 0);
	if (hog)
		return hog;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "hog-of-the-test");
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	for (;;)
		now_ns();
}

static void preempted_by_a_hog(void **state)
{
	enum { SPIN_MS = 1000 };
	struct sched_param realtime = {.sched_priority = 10};
	struct harness harness;
	struct rank rank;
	int cpu = some_cpu();
	bool named = false;

	(void)state;
	harness_start(&harness, &options);
	rank = rank_start();
	rank_do(&rank, "pin %d", cpu);
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	rank_do(&rank, "sleep 2");
	rank_do(&rank, "barrier 0");
	pid_t hog = start_hog(cpu);
	/* Between the two alone, also on a busy machine: round-robin, 100 ms each. */
	if (sched_setscheduler(rank.pid, SCHED_RR, &realtime) < 0 ||
		sched_setscheduler(hog, SCHED_RR, &realtime) < 0)
		print_message("no real-time class in this cgroup: others may be named\n");
	int64_t before = run_delay_ns(rank.pid);
	rank_do(&rank, "spin %d", SPIN_MS);
	kill(hog, SIGKILL);
	waitpid(hog, NULL, 0);
	rank_do(&rank, "barrier 0");
	int64_t expected = run_delay_ns(rank.pid) - before;
	const struct event_activity *seen = last_segment(&harness, rank.pid);
	print_message("run-queue delay %.1f ms, seen %.1f ms\n", (double)expected / 1e6,
		(double)seen->preempted_ns / 1e6);
	/* Half with one hog alone; more on a busy machine. */
	assert_true(seen->preempted_ns > SPIN_MS * 1000000ull * 4 / 10);
	assert_in_range(seen->preempted_ns, expected * 9 / 10, expected * 11 / 10);
	size_t count = harness_count(&harness, EVENT_OFF_CPU, rank.pid);
	for (size_t i = 0; i < count; i++) {
		const struct event_off_cpu *event =
			harness_find(&harness, EVENT_OFF_CPU, rank.pid, i);

		assert_true(event->start_ns < event->end_ns);
		if (event->other_pid == (uint32_t)hog && event->reason == PREEMPTED)
			named |= strcmp((const char *)event->other_name, "hog-of-the-test") == 0;
	}
	rank_end(&rank);
	harness_end(&harness);
	assert_true(named);
}

/*
 * A task of the real-time class that, at a byte from go, takes the CPU 100 times for 0.1 ms, then
 * for 150 ms. Ends with 1 where there is no such class.
 */
static pid_t start_bursts(int cpu, int *go)
{
	struct sched_param realtime = {.sched_priority = 10};
	int ready[2], start[2];
	char byte;
	pid_t hog;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(start), 0);
	hog = fork();
	assert_true(hog >= 0);
	if (hog) {
		close(ready[1]);
		close(start[0]);
		assert_true(read(ready[0], &byte, 1) >= 0);
		close(ready[0]);
		*go = start[1];
		return hog;
	}
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	close(start[1]);
	if (sched_setscheduler(0, SCHED_FIFO, &realtime) < 0 || write(ready[1], "r", 1) != 1 ||
		read(start[0], &byte, 1) != 1)
		_exit(1);
	for (int i = 0; i < 101; i++) {
		int64_t stop = now_ns() + (i < 100 ? 100000 : 150000000);

		while (now_ns() < stop)
			;
		usleep(1000);
	}
	_exit(0);
}

/*
 * Short intervals are many: they must not use up the places of the long one that explains a
 * slow step.
 */
static void a_long_interval_finds_a_place(void **state)
{
	static const struct bpf_source_options sensitive = {
		.collectives = true, .sched = true, .off_cpu_event_ns = 1000};
	struct harness harness;
	struct rank rank;
	int cpu = some_cpu(), go;
	uint64_t longest = 0;

	(void)state;
	harness_start(&harness, &sensitive);
	rank = rank_start();
	rank_do(&rank, "pin %d", cpu);
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	rank_do(&rank, "barrier 0");
	pid_t hog = start_bursts(cpu, &go);
	rank_order(&rank, "spin 800");
	usleep(20000);
	assert_int_equal(write(go, "g", 1), 1);
	close(go);
	int status;
	waitpid(hog, &status, 0);
	rank_answer(&rank);
	harness_collect(&harness);
	size_t count = harness_count(&harness, EVENT_OFF_CPU, rank.pid);
	for (size_t i = 0; i < count; i++) {
		const struct event_off_cpu *event =
			harness_find(&harness, EVENT_OFF_CPU, rank.pid, i);

		if (event->end_ns - event->start_ns > longest)
			longest = event->end_ns - event->start_ns;
	}
	rank_end(&rank);
	harness_end(&harness);
	if (WEXITSTATUS(status) == 1) {
		print_message("skipped: no real-time class in this cgroup\n");
		skip();
	}
	assert_true(longest > 100000000);
	assert_in_range(count, 10, 130); /* 64 a second */
}

static void sleep_is_sleep(void **state)
{
	struct harness harness;
	struct rank rank;

	(void)state;
	harness_start(&harness, &options);
	rank = rank_start();
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	rank_do(&rank, "barrier 0");
	rank_do(&rank, "sleep 120");
	rank_do(&rank, "barrier 0");
	const struct event_activity *seen = last_segment(&harness, rank.pid);
	assert_in_range(seen->asleep_ns, 119000000, 200000000);
	assert_int_equal(seen->throttled_ns, 0);
	assert_int_equal(seen->block_io_ns, 0);
	rank_end(&rank);
	harness_end(&harness);
}

static const struct event_off_cpu *find_stop(const struct harness *harness, pid_t pid)
{
	size_t count = harness_count(harness, EVENT_OFF_CPU, pid);

	for (size_t i = 0; i < count; i++) {
		const struct event_off_cpu *event = harness_find(harness, EVENT_OFF_CPU, pid, i);

		if (event->reason == OFF_CPU_STOPPED)
			return event;
	}
	return NULL;
}

/* Stopped for 80 ms while it works, by a signal or by us as its debugger. */
static void stop_it(const struct rank *rank, bool as_debugger)
{
	int status;

	rank_do(rank, "barrier 0");
	rank_order(rank, "spin 40");
	usleep(10000);
	if (as_debugger) {
		assert_int_equal(ptrace(PTRACE_SEIZE, rank->pid, NULL, NULL), 0);
		assert_int_equal(ptrace(PTRACE_INTERRUPT, rank->pid, NULL, NULL), 0);
		assert_int_equal(waitpid(rank->pid, &status, __WALL), rank->pid);
	} else {
		assert_int_equal(kill(rank->pid, SIGSTOP), 0);
	}
	usleep(80000);
	if (as_debugger)
		assert_int_equal(ptrace(PTRACE_DETACH, rank->pid, NULL, NULL), 0);
	else
		assert_int_equal(kill(rank->pid, SIGCONT), 0);
	rank_answer(rank);
	rank_do(rank, "barrier 0");
}

static void a_stop_is_told(void **state)
{
	struct harness harness;
	struct rank rank;

	(void)state;
	harness_start(&harness, &options);
	rank = rank_start();
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	rank_do(&rank, "barrier 0");
	rank_do(&rank, "sleep 20");
	harness_collect(&harness);
	assert_null(find_stop(&harness, rank.pid));
	for (int as_debugger = 0; as_debugger < 2; as_debugger++) {
		const struct event_off_cpu *stop;

		harness_clear(&harness);
		stop_it(&rank, as_debugger);
		assert_in_range(last_segment(&harness, rank.pid)->asleep_ns, 70000000, 300000000);
		stop = find_stop(&harness, rank.pid);
		assert_non_null(stop);
		assert_in_range(stop->end_ns - stop->start_ns, 70000000, 300000000);
		assert_int_equal(stop->other_pid, as_debugger ? getpid() : 0);
		assert_true(!stop->other_name[0] == !as_debugger);
	}
	rank_end(&rank);
	harness_end(&harness);
}

/* Stopped for 80 ms within a receive that polls for so long. Returns what the segment with it says. */
static const struct event_activity *stop_in_a_call(
	struct harness *harness, const struct rank *rank, int polls_ms)
{
	rank_do(rank, "behave 1 0 %d", polls_ms);
	rank_do(rank, "barrier 0");
	harness_clear(harness);
	rank_order(rank, "recv 1");
	usleep(20000);
	assert_int_equal(kill(rank->pid, SIGSTOP), 0);
	usleep(80000);
	assert_int_equal(kill(rank->pid, SIGCONT), 0);
	rank_answer(rank);
	rank_do(rank, "barrier 0");
	return last_segment(harness, rank->pid);
}

/* What it waits for comes while it is stopped: the stop holds the call up. Else the call waits as long without it. */
static void a_stop_in_a_call_counts_where_it_held_it_up(void **state)
{
	struct harness harness;
	struct rank rank;
	const struct event_activity *before;

	(void)state;
	harness_start(&harness, &options);
	rank = rank_start();
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	before = stop_in_a_call(&harness, &rank, 60);
	assert_in_range(before->asleep_ns, 70000000, 300000000);
	assert_in_range(before->comm_call_ns, 0, 60000000);
	assert_non_null(find_stop(&harness, rank.pid));
	before = stop_in_a_call(&harness, &rank, 600);
	assert_in_range(before->asleep_ns, 0, 60000000);
	assert_in_range(before->comm_call_ns, 450000000, 2000000000);
	assert_null(find_stop(&harness, rank.pid));
	rank_end(&rank);
	harness_end(&harness);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(throttled_time_is_the_cgroups),
		cmocka_unit_test(preempted_by_a_hog),
		cmocka_unit_test(a_long_interval_finds_a_place),
		cmocka_unit_test(sleep_is_sleep),
		cmocka_unit_test(a_stop_is_told),
		cmocka_unit_test(a_stop_in_a_call_counts_where_it_held_it_up),
	};
	int skipped = harness_check();

	return skipped ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
