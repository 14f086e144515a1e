/* SPDX-License-Identifier: Apache-2.0 */
/* Off-CPU time and page faults, each against what the kernel itself counts elsewhere. */
#include "tests/kernel/harness.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORLD ((test_communicator)0x7f0012345678)

enum { PAGE_BYTES = 4096, PAGES = 3000, FILE_PAGES = 400 };

/* The second barrier's record: what happened between the two. */
static const struct event_collective *segment(
	const struct harness *harness, pid_t pid, int64_t *length_ns)
{
	const struct event_collective *event = harness_collective(harness, pid, 1);

	*length_ns =
		(int64_t)(event->arrival_ns - harness_collective(harness, pid, 0)->departure_ns);
	return event;
}

static int64_t off_cpu_ns(const struct event_activity *activity)
{
	return (int64_t)(activity->preempted_ns + activity->throttled_ns + activity->block_io_ns +
			 activity->asleep_ns);
}

/* The second field of schedstat: time spent waiting on a run queue. */
static int64_t run_delay_ns(int schedstat)
{
	char text[96] = "";
	long long delay = 0;

	if (pread(schedstat, text, sizeof(text) - 1, 0) < 0 ||
		sscanf(text, "%*d %lld", &delay) != 1)
		abort();
	return delay;
}

/* What the machine below a virtual one took: it is in no clock of a thread. */
static int64_t stolen_ns(void)
{
	long long ticks = 0;
	FILE *file = fopen("/proc/stat", "re");

	if (!file || fscanf(file, "cpu %*d %*d %*d %*d %*d %*d %*d %lld", &ticks) != 1)
		abort();
	fclose(file);
	return ticks * 1000000000 / sysconf(_SC_CLK_TCK);
}

static char group[128];

/* cgroup v1's throttled_time is in ns, v2's throttled_usec in us. */
static int64_t throttled_by_cgroup_ns(void)
{
	char path[192], line[128];
	long long value, found = 0;
	FILE *file;

	if (!group[0])
		return 0;
	snprintf(path, sizeof(path), "%s/cpu.stat", group);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "throttled_time %lld", &value) == 1)
			found = value;
		else if (sscanf(line, "throttled_usec %lld", &value) == 1)
			found = value * 1000;
	}
	if (file)
		fclose(file);
	return found;
}

/* What the kernel counts for the thread. */
enum count {
	COUNT_CPU_NS = 0,
	COUNT_DELAY_NS = 1,
	COUNT_THROTTLED_NS = 2, /* of its cgroup, when the test made one */
	COUNT_MINOR = 3,
	COUNT_MAJOR = 4,
	COUNT_NR
};

/* Notes: the counts over a stretch within the segment, and over one around it. */
enum { NOTE_INNER = 0, NOTE_OUTER = COUNT_NR, NOTE_STOLEN_NS = 2 * COUNT_NR };

static int schedstat = -1;

static void take_counts(volatile int64_t *counts, int sign)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	counts[COUNT_CPU_NS] += sign * clock_ns(CLOCK_THREAD_CPUTIME_ID);
	counts[COUNT_DELAY_NS] += sign * run_delay_ns(schedstat);
	counts[COUNT_THROTTLED_NS] += sign * throttled_by_cgroup_ns();
	counts[COUNT_MINOR] += sign * usage.ru_minflt;
	counts[COUNT_MAJOR] += sign * usage.ru_majflt;
}

/* The segment lies between the two barriers. */
static void note_start(void)
{
	memset((void *)harness_notes, 0, (NOTE_STOLEN_NS + 1) * sizeof(*harness_notes));
	schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	harness_notes[NOTE_STOLEN_NS] = -stolen_ns();
	take_counts(harness_notes + NOTE_OUTER, -1);
	MPI_Barrier(WORLD);
	take_counts(harness_notes + NOTE_INNER, -1);
}

static void note_end(void)
{
	take_counts(harness_notes + NOTE_INNER, 1);
	MPI_Barrier(WORLD);
	take_counts(harness_notes + NOTE_OUTER, 1);
	harness_notes[NOTE_STOLEN_NS] += stolen_ns();
}

/* A number of the segment lies between those of the two stretches. */
static void expect_counted(int64_t value, enum count count, int64_t tolerance)
{
	int64_t inner = harness_notes[NOTE_INNER + count];
	int64_t outer = harness_notes[NOTE_OUTER + count];

	if (value < inner - tolerance || value > outer + tolerance)
		fail_msg("%lld is not within %lld of %lld to %lld", (long long)value,
			(long long)tolerance, (long long)inner, (long long)outer);
}

/*
 * run_delay goes by the run queue's clock, which is some microseconds off at each switch: seen with
 * 500 switches in 300 ms, 155.5 ms in run_delay, 153.1 ms between the switches that ftrace wrote,
 * and 153.1 ms here.
 */
static int64_t delay_tolerance_ns(int64_t length_ns)
{
	return MILLISECONDS + length_ns / 30;
}

/* The time on the CPU is the rest: it must be what the thread's own clock counted. */
static void expect_rest_on_cpu(const struct event_activity *before, int64_t length_ns)
{
	int64_t tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);

	expect_counted(length_ns - off_cpu_ns(before), COUNT_CPU_NS,
		length_ns / 100 + tick_ns + harness_notes[NOTE_STOLEN_NS]);
}

/* A process outside the job that takes CPU 0 for 4 ms in 8, from everybody else. */
static pid_t start_hog(void)
{
	pid_t hog = fork();

	assert_true(hog >= 0);
	if (hog == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "hog-of-the-test");
		pin_to_cpu(0);
		struct sched_param priority = {.sched_priority = 1};
		if (sched_setscheduler(0, SCHED_FIFO, &priority) < 0)
			abort();
		for (;;) {
			spin_ns(4 * MILLISECONDS);
			sleep_ns(4 * MILLISECONDS);
		}
	}
	return hog;
}

static void stop_hog(pid_t hog)
{
	kill(hog, SIGKILL);
	waitpid(hog, NULL, 0);
}

static void work_beside_hog(void)
{
	pin_to_cpu(0);
	spin_ns(20 * MILLISECONDS);
	note_start();
	spin_ns(300 * MILLISECONDS);
	note_end();
}

static void preempted(void **state)
{
	struct harness *harness = *state;
	pid_t hog = start_hog();
	pid_t pid = harness_run(harness, work_beside_hog);
	const struct event_off_cpu *interval;
	size_t named = 0, count = 0;
	int64_t length_ns;

	stop_hog(hog);
	const struct event_collective *event = segment(harness, pid, &length_ns);
	assert_true(event->before.preempted_ns > 20 * MILLISECONDS);
	expect_counted(
		(int64_t)event->before.preempted_ns, COUNT_DELAY_NS, delay_tolerance_ns(length_ns));
	expect_rest_on_cpu(&event->before, length_ns);
	while ((interval = harness_find(harness, EVENT_OFF_CPU, pid, count))) {
		bool by_pid = interval->other_pid == (uint32_t)hog;

		assert_int_equal(interval->reason, OFF_CPU_PREEMPTED);
		assert_true(interval->end_ns - interval->start_ns >= 500000);
		assert_int_equal(
			by_pid, strcmp((const char *)interval->other_name, "hog-of-the-test") == 0);
		named += by_pid;
		count++;
	}
	print_message("preempted: %zu of %zu intervals by the hog\n", named, count);
	assert_true(named > 0); /* others may run on that CPU, too */
}

static void sleep_beside_hog(void)
{
	struct sched_param none = {0};

	pin_to_cpu(0);
	note_start();
	/* The lowest class of all: after each sleep it waits for the CPU. */
	sched_setscheduler(0, SCHED_IDLE, &none);
	for (int i = 0; i < 20; i++)
		sleep_ns(1 * MILLISECONDS);
	sched_setscheduler(0, SCHED_OTHER, &none);
	note_end();
}

/* Woken up, but not yet on the CPU: that is preempted, not asleep. */
static void waits_after_sleep(void **state)
{
	struct harness *harness = *state;
	pid_t hog = start_hog();
	pid_t pid = harness_run(harness, sleep_beside_hog);
	int64_t length_ns, slept_ns = 20 * MILLISECONDS;

	stop_hog(hog);
	const struct event_collective *event = segment(harness, pid, &length_ns);
	expect_counted(
		(int64_t)event->before.preempted_ns, COUNT_DELAY_NS, delay_tolerance_ns(length_ns));
	assert_true(event->before.preempted_ns > 2 * MILLISECONDS);
	assert_in_range(event->before.asleep_ns, slept_ns, slept_ns * 3);
}

static void sleep_and_spin(void)
{
	note_start();
	sleep_ns(30 * MILLISECONDS);
	spin_ns(20 * MILLISECONDS);
	note_end();
}

static void asleep(void **state)
{
	struct harness *harness = *state;
	pid_t pid = harness_run(harness, sleep_and_spin);
	int64_t length_ns;
	const struct event_collective *event = segment(harness, pid, &length_ns);

	assert_in_range(event->before.asleep_ns, 29 * MILLISECONDS, 60 * MILLISECONDS);
	assert_int_equal(event->before.block_io_ns, 0);
	assert_int_equal(event->before.throttled_ns, 0);
	expect_rest_on_cpu(&event->before, length_ns);
}

/* ---- throttling ---- */

static void write_group(const char *file, const char *text)
{
	char path[192];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s", group, file);
	out = fopen(path, "we");
	if (!out || fputs(text, out) < 0 || fclose(out) != 0)
		fail_msg("cannot write %s to %s", text, path);
}

static bool make_group(void)
{
	static const char *const parents[] = {
		"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"};

	char statistics[192];

	for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
		snprintf(group, sizeof(group), "%s/slowrank-test-%d", parents[i], (int)getpid());
		if (mkdir(group, 0755) < 0)
			continue;
		snprintf(statistics, sizeof(statistics), "%s/cpu.stat", group);
		if (access(statistics, R_OK) == 0)
			return true;
		rmdir(group);
	}
	group[0] = '\0';
	return false;
}

static void work_in_group(void)
{
	char text[32];

	snprintf(text, sizeof(text), "%d", (int)getpid());
	write_group("cgroup.procs", text);
	child_wait();
	note_start();
	/* 80 ms of CPU at 8 % of one: throttled most of a second, on a busy machine too. */
	int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 80 * MILLISECONDS;
	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		;
	note_end();
}

static void throttled(void **state)
{
	struct harness *harness = *state;
	const struct event_off_cpu *interval;
	int64_t length_ns;
	size_t count = 0;

	if (!make_group()) {
		print_message("skipped: no cgroup with a CPU controller can be made here\n");
		skip();
	}
	if (access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0)
		write_group("cpu.max", "8000 100000");
	else
		write_group("cpu.cfs_quota_us", "8000");
	pid_t pid = harness_start(harness, work_in_group);
	harness_let_go(harness);
	harness_wait_for_child(harness);
	harness_let_go(harness);
	harness_finish(harness, pid);
	assert_int_equal(rmdir(group), 0);
	group[0] = '\0';
	const struct event_collective *event = segment(harness, pid, &length_ns);
	print_message("throttled: %.1f ms seen, %.1f to %.1f ms in cpu.stat\n",
		(double)event->before.throttled_ns / 1e6,
		(double)harness_notes[NOTE_INNER + COUNT_THROTTLED_NS] / 1e6,
		(double)harness_notes[NOTE_OUTER + COUNT_THROTTLED_NS] / 1e6);
	expect_counted((int64_t)event->before.throttled_ns, COUNT_THROTTLED_NS,
		harness_notes[NOTE_OUTER + COUNT_THROTTLED_NS] / 50);
	expect_rest_on_cpu(&event->before, length_ns);
	if (event->before.throttled_ns < 100 * MILLISECONDS) {
		print_message("skipped: the machine is too busy to use up a quota\n");
		skip();
	}
	while ((interval = harness_find(harness, EVENT_OFF_CPU, pid, count)) &&
		interval->reason != OFF_CPU_THROTTLED)
		count++;
	assert_non_null(interval);
}

/* ---- page faults ---- */

static void touch_memory(void)
{
	unsigned char *memory = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	madvise(memory, PAGES * PAGE_BYTES, MADV_NOHUGEPAGE);
	note_start();
	for (size_t i = 0; i < PAGES; i++)
		memory[i * PAGE_BYTES] = 1;
	note_end();
}

static void minor_faults(void **state)
{
	struct harness *harness = *state;
	pid_t pid = harness_run(harness, touch_memory);
	int64_t length_ns;
	const struct event_activity *before = &segment(harness, pid, &length_ns)->before;

	assert_true(before->minor_faults >= PAGES);
	expect_counted(before->minor_faults, COUNT_MINOR, 0);
	assert_int_equal(before->major_faults, 0);
	/* The loop does nothing else: most of its time on the CPU is faults. */
	print_message("minor faults: %.0f ns each estimated, %.0f ns each at most\n",
		(double)before->minor_fault_ns / before->minor_faults,
		(double)harness_notes[NOTE_INNER + COUNT_CPU_NS] / before->minor_faults);
	assert_in_range(before->minor_fault_ns, harness_notes[NOTE_INNER + COUNT_CPU_NS] / 4,
		harness_notes[NOTE_INNER + COUNT_CPU_NS]);
}

static int file_fd;

static void touch_file(void)
{
	volatile unsigned char *bytes =
		mmap(NULL, FILE_PAGES * PAGE_BYTES, PROT_READ, MAP_PRIVATE, file_fd, 0);

	if (bytes == MAP_FAILED)
		abort();
	madvise((void *)bytes, FILE_PAGES * PAGE_BYTES, MADV_RANDOM); /* no read-ahead */
	note_start();
	for (size_t i = 0; i < FILE_PAGES; i++)
		(void)bytes[i * PAGE_BYTES];
	note_end();
}

static void major_faults(void **state)
{
	struct harness *harness = *state;
	char path[] = "/var/tmp/slowrank-test-XXXXXX";
	static char page[PAGE_BYTES];
	int64_t length_ns;

	file_fd = mkstemp(path);
	assert_true(file_fd >= 0);
	unlink(path);
	for (size_t i = 0; i < FILE_PAGES; i++)
		assert_int_equal(write(file_fd, page, PAGE_BYTES), PAGE_BYTES);
	assert_int_equal(fsync(file_fd), 0);
	assert_int_equal(posix_fadvise(file_fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	pid_t pid = harness_run(harness, touch_file);
	close(file_fd);
	const struct event_activity *before = &segment(harness, pid, &length_ns)->before;
	if (harness_notes[NOTE_INNER + COUNT_MAJOR] < FILE_PAGES / 2) {
		print_message("skipped: the file system keeps the pages\n");
		skip();
	}
	print_message("major faults: %u, %.0f us each, of %.0f us each in all\n",
		before->major_faults, (double)before->major_fault_ns / 1e3 / before->major_faults,
		(double)length_ns / 1e3 / before->major_faults);
	expect_counted(before->major_faults, COUNT_MAJOR, 0);
	assert_in_range(
		before->major_fault_ns, (length_ns - (int64_t)before->preempted_ns) / 2, length_ns);
	assert_true(before->block_io_ns < before->major_fault_ns / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(asleep),
		cmocka_unit_test(preempted),
		cmocka_unit_test(waits_after_sleep),
		cmocka_unit_test(throttled),
		cmocka_unit_test(minor_faults),
		cmocka_unit_test(major_faults),
	};
	return cmocka_run_group_tests(tests, harness_set_up, harness_tear_down);
}
