/* SPDX-License-Identifier: Apache-2.0 */
/* Stolen time and cycles: real /proc text, hostile text, real threads counted by the kernel. */
#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/sources/busy_threads.h"
#include "probe/sources/clock_rate.h"
#include "probe/sources/cpu_throttles.h"
#include "probe/sources/cycles.h"
#include "probe/sources/steal.h"
#include "probe/sources/text_file.h"
#include "probe/sources/thread_counters.h"
#include "tests/unit/sources/child.h"
#include "tests/unit/sources/samples.h"

enum { SPIN_NS = 60000000, PAGES = 1024 };

static void *spin_for_ever(void *nothing)
{
	while (!nothing)
		spin(SPIN_NS);
	return NULL;
}

/* Runs a little, and is switched to thousands of times a second. */
static void *nap_for_ever(void *nothing)
{
	const struct timespec nap = {.tv_nsec = 1000};

	while (!nothing) {
		spin(20000);
		nanosleep(&nap, NULL);
	}
	return NULL;
}

/* 's': spin; 'f': touch pages; 't' and 'n': start a thread that spins, that naps; 'x': nothing. */
static void serve(char order)
{
	pthread_t thread;

	if (order == 's') {
		spin(SPIN_NS);
	} else if (order == 'f') {
		touch_pages(PAGES * 4096);
	} else if (order == 't' || order == 'n') {
		if (pthread_create(
			    &thread, NULL, order == 't' ? spin_for_ever : nap_for_ever, NULL) != 0)
			abort();
	}
}

static void wait_ms(long ms)
{
	const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&time, NULL);
}

static void stat_is_parsed(void **state)
{
	/* Of a guest with two CPUs. */
	static const char text[] = "cpu  6322298 6118 1812242 5321544 29404 0 35794 9913 0 0\n"
				   "cpu0 3079343 2479 925908 2722167 6292 0 14513 5006 0 0\n"
				   "cpu1 3242955 3638 886333 2599377 23112 0 21281 4906 0 0\n"
				   "intr 1234 0 9\nctxt 99\nbtime 1700000000\nprocesses 26442\n";
	static struct cpu_ticks ticks[CPU_TIMES_CPUS_MAX];

	(void)state;
	assert_int_equal(cpu_times_parse(text, ticks), 2);
	assert_int_equal(ticks[0].stolen, 5006);
	assert_int_equal(ticks[0].wanted, 3079343 + 2479 + 925908 + 14513 + 5006);
	assert_int_equal(ticks[1].stolen, 4906);
	assert_false(ticks[2].present);
}

static void hostile_stat_is_left_out(void **state)
{
	static const char *const texts[] = {"", "\n\n\n", "cpu\n", "cpu0\n", "cpu0 1 2 3\n",
		"cpu0 1 2 3 4 5 6 7\n",				  /* no steal: an old kernel */
		"cpu0 1 2 3 4 5 6 7 8",				  /* cut short */
		"cpu0 1 2 3 4 5 6 7 8x 9\n",			  /* no number */
		"cpu0 1 2 3 4 5 6 -7 8 9 10\n",			  /* never */
		"cpu0 1 2 3 4 5 6 7 99999999999999999999 9 10\n", /* more than fits */
		"cpu0 1 2 3 4 5 6 7 922337203685477580 9 10\n",	  /* more than fits in ns */
		"cpu4096 1 2 3 4 5 6 7 8 9 10\n", "cpu18446744073709551616 1 2 3 4 5 6 7 8 9 10\n",
		"cpu-1 1 2 3 4 5 6 7 8 9 10\n", "cpux 1 2 3 4 5 6 7 8 9 10\n",
		"xcpu0 1 2 3 4 5 6 7 8 9 10\n", "cpu0  1 2 3 4 5 6 7 8 9 10\n"};
	static struct cpu_ticks ticks[CPU_TIMES_CPUS_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(cpu_times_parse(texts[i], ticks), 0);
	/* The same CPU twice is one; eight numbers are enough. */
	assert_int_equal(cpu_times_parse("cpu7 1 2 3 4 5 6 7 8\ncpu7 1 2 3 4 5 6 7 9\n", ticks), 1);
	assert_int_equal(ticks[7].stolen, 9);
	assert_int_equal(ticks[7].wanted, 1 + 2 + 3 + 6 + 7 + 9);
}

static void steal_is_sampled(void **state)
{
	struct child child = child_start(serve);
	struct cpu_times *times;
	struct sampler *sampler;
	int64_t wanted;

	(void)state;
	assert_int_equal(cpu_times_create(&times), 0);
	assert_int_equal(steal_sampler_create(child.pid, TEST_RANK, times, &sampler), 0);
	wanted = sample_of(sampler, METRIC_CPU_WANTED_NS);
	if (sampler_state(sampler)->state == SOURCE_ON) {
		assert_int_equal(wanted, 0);
		for (int i = 0; i < 4; i++)
			child_do(&child, 's');
		wanted = sample_of(sampler, METRIC_CPU_WANTED_NS);
		/* Its CPUs ran it, or something else, or were stolen. Ticks are of 10 ms. */
		assert_in_range(wanted, 4 * SPIN_NS / 2, INT64_C(100000000000));
		assert_in_range(sample_of(sampler, METRIC_CPU_STOLEN_NS), 0, wanted + 1000000000);
	} else { /* a guest that is never told */
		assert_int_equal(sampler_state(sampler)->state, SOURCE_MISSING);
		assert_int_equal(wanted, -1);
		assert_true(strlen(sampler_state(sampler)->why) > 0);
	}
	print_cost(sampler, "steal");
	child_end(&child);
	assert_int_equal(sample_of(sampler, METRIC_CPU_WANTED_NS), -1);
	sampler_destroy(sampler);
	cpu_times_destroy(times);
}

static const struct counted_event software[] = {
	{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
	{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
};

/* False where counting is not allowed at all (a container); the test is skipped then. */
static bool may_count(void)
{
	struct thread_counters *counters;
	pid_t self = getpid();
	int result;

	assert_int_equal(thread_counters_create(software, 2, &counters), 0);
	result = thread_counters_follow(counters, &self, 1);
	thread_counters_destroy(counters);
	return result != -EACCES && result != -EPERM;
}

static void threads_are_counted(void **state)
{
	struct child child = child_start(serve), other = child_start(serve);
	const pid_t both[2] = {child.pid, other.pid};
	struct thread_counters *counters;
	struct thread_counts before, after;

	(void)state;
	if (!may_count())
		skip();
	assert_int_equal(thread_counters_create(software, 2, &counters), 0);
	assert_int_equal(thread_counters_follow(counters, both, 1), 1);
	before = thread_counters_read(counters);
	child_do(&child, 's');
	child_do(&child, 'f');
	child_do(&other, 's'); /* not followed */
	after = thread_counters_read(counters);
	assert_in_range(after.values[0] - before.values[0], PAGES, 16 * PAGES);
	assert_in_range(after.values[1] - before.values[1], SPIN_NS / 1000, 2 * SPIN_NS);
	assert_in_range(after.counted_ns - before.counted_ns, SPIN_NS / 1000, 2 * SPIN_NS);
	/* Another one from now on: what was counted stays in the sums, what comes is of both. */
	child_do(&child, 'f');
	assert_int_equal(thread_counters_follow(counters, &both[1], 1), 1);
	child_do(&other, 'f');
	before = after;
	after = thread_counters_read(counters);
	assert_in_range(after.values[0] - before.values[0], 2 * PAGES, 32 * PAGES);
	before = after;
	child_do(&child, 'f'); /* not any more */
	after = thread_counters_read(counters);
	assert_int_equal(after.values[0], before.values[0]);
	child_end(&child);
	child_end(&other);
	before = thread_counters_read(counters);
	assert_int_equal(thread_counters_follow(counters, &child.pid, 1), -ESRCH);
	assert_true(thread_counters_read(counters).values[0] >= before.values[0]);
	thread_counters_destroy(counters);
}

static void missing_events_say_why(void **state)
{
	static const struct counted_event none[] = {{0xfffff, 0}};
	struct thread_counters *counters;
	pid_t self = getpid();

	(void)state;
	if (!may_count())
		skip();
	assert_int_equal(thread_counters_create(none, 1, &counters), 0);
	assert_int_equal(thread_counters_follow(counters, &self, 1), -ENOENT);
	assert_int_equal(thread_counters_read(counters).counted_ns, 0);
	thread_counters_destroy(counters);
}

/* Looks until so many are found: on a full machine none may get its twentieth of the time at once. */
static void look_until(struct busy_threads *threads, const struct child *child, char order,
	int count, pid_t *found)
{
	for (int tries = 0; tries < 100; tries++) {
		for (int i = 0; i < 4; i++)
			child_do(child, order);
		wait_ms(order == 'x' ? 300 : 0);
		if (busy_threads_look(threads, clock_now(), found, 4) == count)
			return;
	}
	fail_msg("never %d busy threads", count);
}

static void busiest_threads_are_found(void **state)
{
	struct child child = child_start(serve);
	struct busy_threads *threads;
	pid_t found[4] = {0};

	(void)state;
	assert_int_equal(busy_threads_create(child.pid, &threads), 0);
	child_do(&child, 't');
	/* What was before is not known: the main thread. */
	assert_int_equal(busy_threads_look(threads, clock_now(), found, 4), 1);
	assert_int_equal(found[0], child.pid);
	look_until(threads, &child, 'x', 1, found); /* the main thread sleeps */
	assert_int_not_equal(found[0], child.pid);
	look_until(threads, &child, 's', 2, found);
	assert_true(found[0] == child.pid || found[1] == child.pid);
	child_end(&child);
	assert_int_equal(busy_threads_look(threads, clock_now(), found, 4), -ESRCH);
	busy_threads_destroy(threads);
}

static void threads_that_nap_are_left_out(void **state)
{
	struct child child = child_start(serve);
	struct busy_threads *threads;
	pid_t found[4] = {0};

	(void)state;
	assert_int_equal(busy_threads_create(child.pid, &threads), 0);
	child_do(&child, 'n');
	assert_int_equal(busy_threads_look(threads, clock_now(), found, 4), 1);
	wait_ms(300);
	assert_int_equal(busy_threads_look(threads, clock_now(), found, 4), 0);
	child_end(&child);
	busy_threads_destroy(threads);
}

static void stat_of_a_thread_is_parsed(void **state)
{
	static const char *const hostile[] = {"", "1 (a", "1 (a)", "1 (a) ", "1 (a) R",
		"1 (a) R 1 2 3",
		"1 (a) R 1 1 1 34816 1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 9 2 1 3 4 5 6 7 8 9 0 0 0 "
		"0 0 "
		"17 "};
	char text[1024], letter = 0;
	unsigned cpu = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++)
		assert_false(clock_rate_parse_stat(hostile[i], &letter, &cpu));
	assert_int_equal(cpu, 77);
	assert_true(clock_rate_parse_stat(
		"42 (a) S 1 (b c) R 1 42 42 0 -1 4194560 83 0 0 0 5 6 0 0 20 0 1 0 1000 8192 111 "
		"18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 5 0 0 0 0 0\n",
		&letter, &cpu));
	assert_int_equal(letter, 'R');
	assert_int_equal(cpu, 5);
	assert_int_equal(text_file_read("/proc/self/stat", text, sizeof(text)), 0);
	assert_true(clock_rate_parse_stat(text, &letter, &cpu));
	assert_int_equal(letter, 'R'); /* it reads */
	assert_true(cpu < (unsigned)sysconf(_SC_NPROCESSORS_CONF));
}

static void cpus_are_chosen_evenly(void **state)
{
	static const unsigned sizes[] = {1, 7, 8, 9, 100};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct cpu_throttles throttles = {0};
		unsigned half = 0;
		cpu_set_t cpus;

		CPU_ZERO(&cpus);
		for (unsigned cpu = 0; cpu < sizes[i]; cpu++)
			CPU_SET(2 * cpu + 1, &cpus);
		cpu_throttles_look(&throttles, &cpus);
		assert_int_equal(throttles.count, sizes[i] < 8 ? sizes[i] : 8);
		for (unsigned c = 0; c < throttles.count; c++) {
			assert_true(CPU_ISSET(throttles.chosen[c], &cpus));
			assert_true(c == 0 || throttles.chosen[c] > throttles.chosen[c - 1]);
			half += throttles.chosen[c] < sizes[i];
		}
		assert_in_range(half, (throttles.count - 1) / 2, throttles.count / 2 + 1);
	}
}

static void cycles_are_sampled_or_missing(void **state)
{
	struct child child = child_start(serve);
	struct sampler *sampler;
	int64_t cycles, counted;

	(void)state;
	assert_int_equal(cycles_sampler_create(child.pid, TEST_RANK, &sampler), 0);
	(void)sample_of(sampler, METRIC_CPU_CYCLES);
	for (int i = 0; i < 4; i++)
		child_do(&child, 's');
	cycles = sample_of(sampler, METRIC_CPU_CYCLES);
	counted = sample_of(sampler, METRIC_CPU_COUNTED_NS);
	if (sampler_state(sampler)->state == SOURCE_MISSING) {
		assert_int_equal(cycles, -1);
		assert_int_equal(counted, -1);
		assert_true(strlen(sampler_state(sampler)->why) > 0);
	} else {
		/* No CPU has less than 0.1 or more than 10 cycles a ns. */
		assert_in_range(counted, SPIN_NS / 1000, 8 * SPIN_NS);
		assert_in_range(cycles, counted / 10, 10 * counted);
	}
	print_cost(sampler, "cycles");
	child_end(&child);
	sampler_destroy(sampler);
}

static double thread_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* The fastest of some exchanges of a letter with a child: two switches of threads each. */
static double exchange_us(const struct child *child)
{
	double least = 1e9;

	for (int i = 0; i < 2000; i++) {
		int64_t start = clock_now().value;

		child_do(child, 'x');
		least = fmin(least, (double)(clock_now().value - start) / 1e3);
	}
	return least;
}

/* What a rank with 200 threads costs, measured by events that each kernel has. Printed: no check of times. */
static void many_threads_cost_little(void **state)
{
	struct child child = child_start(serve);
	struct thread_counters *counters;
	struct busy_threads *threads;
	double start, alone, counted;
	pid_t found[4];

	(void)state;
	if (!may_count())
		skip();
	assert_int_equal(thread_counters_create(software, 2, &counters), 0);
	alone = exchange_us(&child);
	assert_int_equal(thread_counters_follow(counters, &child.pid, 1), 1);
	counted = exchange_us(&child);
	printf("an exchange with a thread: %.2f us, %.2f us while it is counted\n", alone, counted);
	start = thread_us();
	for (int i = 0; i < 1000; i++)
		(void)thread_counters_read(counters);
	printf("cost of reading a thread's counters: %.2f us\n", (thread_us() - start) / 1e3);
	child_do(&child, 't');
	for (int i = 0; i < 200; i++)
		child_do(&child, 'n');
	assert_int_equal(busy_threads_create(child.pid, &threads), 0);
	start = thread_us();
	for (int i = 0; i < 20; i++)
		assert_true(busy_threads_look(threads, clock_now(), found, 4) >= 0);
	printf("cost of a look through 202 threads: %.0f us\n", (thread_us() - start) / 20);
	thread_counters_destroy(counters);
	busy_threads_destroy(threads);
	child_end(&child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stat_is_parsed),
		cmocka_unit_test(hostile_stat_is_left_out),
		cmocka_unit_test(steal_is_sampled),
		cmocka_unit_test(threads_are_counted),
		cmocka_unit_test(missing_events_say_why),
		cmocka_unit_test(busiest_threads_are_found),
		cmocka_unit_test(threads_that_nap_are_left_out),
		cmocka_unit_test(stat_of_a_thread_is_parsed),
		cmocka_unit_test(cpus_are_chosen_evenly),
		cmocka_unit_test(cycles_are_sampled_or_missing),
		cmocka_unit_test(many_threads_cost_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
