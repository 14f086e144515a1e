/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup, psi and procfs samplers against a real process, a real quota and real moves. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/sources/cgroup.h"
#include "probe/sources/cgroup_place.h"
#include "probe/sources/procfs.h"
#include "probe/sources/psi.h"
#include "tests/unit/sources/child.h"
#include "tests/unit/sources/samples.h"

/* 's': spin for 60 ms of wall time; 'f': touch 4 MiB of fresh pages. */
static void serve(char order)
{
	if (order == 's')
		spin(60000000);
	else if (order == 'f')
		touch_pages(4 << 20);
}

static void procfs_counts_time_and_faults(void **state)
{
	struct child child = child_start(serve);
	struct sampler *sampler;
	int64_t cpu, faults;

	(void)state;
	assert_int_equal(procfs_sampler_create(child.pid, TEST_RANK, &sampler), 0);
	assert_int_equal(sampler_state(sampler)->state, SOURCE_ON);
	cpu = sample_of(sampler, METRIC_PROCESS_CPU_NS);
	assert_true(cpu >= 0);
	child_do(&child, 's');
	assert_in_range(sample_of(sampler, METRIC_PROCESS_CPU_NS) - cpu, 1000000, 200000000);
	faults = sample_of(sampler, METRIC_PROCESS_MINOR_FAULTS);
	child_do(&child, 'f');
	assert_in_range(sample_of(sampler, METRIC_PROCESS_MINOR_FAULTS) - faults, 1024,
		16384); /* sanitizers add some */
	print_cost(sampler, "procfs");
	child_end(&child);
	assert_int_equal(sample_of(sampler, METRIC_PROCESS_CPU_NS), -1);
	sampler_destroy(sampler);
}

static void psi_parses_totals(void **state)
{
	static const char text[] = "some avg10=8.31 avg60=44.11 avg300=27.25 total=123554681\n"
				   "full avg10=0.00 avg60=0.00 avg300=0.00 total=17\n";
	int64_t total = -1;

	(void)state;
	assert_true(psi_parse_total(text, "some", &total));
	assert_int_equal(total, 123554681);
	assert_true(psi_parse_total(text, "full", &total));
	assert_int_equal(total, 17);
	assert_false(psi_parse_total("some avg10=1\nfull total", "some", &total));
	assert_false(psi_parse_total("", "some", &total));
}

/* Of a count that is none: a broken driver, a counter that went backwards past zero. */
static void a_counter_grows_by_what_can_be(void **state)
{
	struct growing_counter counter = {0};

	(void)state;
	assert_int_equal(growing_counter_step(&counter, 5), 0);
	assert_int_equal(growing_counter_step(&counter, 7), 2);
	assert_int_equal(growing_counter_step(&counter, INT64_MAX), 0);
	assert_int_equal(growing_counter_step(&counter, INT64_MIN), 0);
	assert_int_equal(growing_counter_step(&counter, INT64_MAX), 0);
	assert_int_equal(growing_counter_step(&counter, 3), 0);
	assert_int_equal(growing_counter_step(&counter, 4), 1);
}

static void psi_grows(void **state)
{
	struct child child = child_start(serve);
	struct sampler *sampler;
	int64_t first, second;

	(void)state;
	assert_int_equal(psi_sampler_create(child.pid, TEST_RANK, &sampler), 0);
	if (access("/proc/pressure/memory", R_OK) != 0) {
		assert_int_equal(sampler_state(sampler)->state, SOURCE_MISSING);
		assert_true(sampler_state(sampler)->why[0]);
		assert_int_equal(sample_of(sampler, METRIC_PSI_MEMORY_SOME_NS), -1);
	} else {
		assert_int_equal(sampler_state(sampler)->state, SOURCE_ON);
		first = sample_of(sampler, METRIC_PSI_MEMORY_SOME_NS);
		child_do(&child, 's');
		second = sample_of(sampler, METRIC_PSI_MEMORY_SOME_NS);
		assert_true(first >= 0 && second >= first);
		print_cost(sampler, "psi");
	}
	child_end(&child);
	sampler_destroy(sampler);
}

/* A group made for the test, below the place of this process. */
static bool make_group(const struct cgroup_place *place, const char *name, char path[1024])
{
	snprintf(path, 1024, "%s/slowrank-test-%d-%s", place->directory, (int)getpid(), name);
	return mkdir(path, 0755) == 0;
}

static bool write_in(const char *directory, const char *name, const char *text)
{
	char path[1200];
	FILE *file;
	bool good;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "we");
	if (!file)
		return false;
	good = fputs(text, file) >= 0;
	return fclose(file) == 0 && good;
}

static bool set_quota(const struct cgroup_place *place, const char *directory, int percent)
{
	char text[64];

	snprintf(text, sizeof(text), place->unified ? "%d 20000" : "%d", percent * 200);
	if (place->unified)
		return write_in(directory, "cpu.max", text);
	return write_in(directory, "cpu.cfs_period_us", "20000") &&
	       write_in(directory, "cpu.cfs_quota_us", text);
}

static bool move_to(const char *directory, pid_t pid)
{
	char text[32];

	snprintf(text, sizeof(text), "%d", (int)pid);
	return write_in(directory, "cgroup.procs", text);
}

static bool find_own_place(struct cgroup_place *place)
{
	char text[4096];
	FILE *file = fopen("/proc/self/cgroup", "re");
	size_t length;

	if (!file)
		return false;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	return cgroup_place_find(getpid(), text, "cpu", place);
}

/* On a busy machine the child may get little of the CPU, and so little throttling. */
static int64_t spin_until_throttled(const struct child *child, struct sampler *sampler)
{
	int64_t throttled = 0;

	for (int i = 0; i < 50 && throttled < 20000000; i++) {
		child_do(child, 's');
		throttled = sample_of(sampler, METRIC_CGROUP_THROTTLED_NS);
	}
	return throttled;
}

static void check_throttling(struct child *child, const char *tight, const char *loose)
{
	struct sampler *sampler;
	int64_t throttled, periods;

	assert_int_equal(cgroup_sampler_create(child->pid, TEST_RANK, &sampler), 0);
	assert_int_not_equal(sampler_state(sampler)->state, SOURCE_MISSING);
	/* Not throttled is measured, and is zero. */
	assert_int_equal(sample_of(sampler, METRIC_CGROUP_THROTTLED_NS), 0);
	assert_true(move_to(tight, child->pid));
	assert_int_equal(sample_of(sampler, METRIC_CGROUP_QUOTA_MILLICPU), 200);
	throttled = spin_until_throttled(child, sampler);
	assert_in_range(throttled, 20000000, 4000000000);
	periods = sample_of(sampler, METRIC_CGROUP_THROTTLED_PERIODS);
	assert_in_range(periods, 1, 200);
	assert_true(sample_of(sampler, METRIC_CGROUP_PERIODS) >= periods);
	print_cost(sampler, "cgroup");
	/* A move to a group that never throttled takes nothing back. */
	assert_true(move_to(loose, child->pid));
	assert_int_equal(sample_of(sampler, METRIC_CGROUP_QUOTA_MILLICPU), 900);
	assert_true(sample_of(sampler, METRIC_CGROUP_THROTTLED_NS) >= throttled);
	/* And back: the group's old counts are not new ones. */
	throttled = sample_of(sampler, METRIC_CGROUP_THROTTLED_NS);
	assert_true(move_to(tight, child->pid));
	assert_true(sample_of(sampler, METRIC_CGROUP_THROTTLED_NS) - throttled < 10000000);
	child_end(child);
	assert_int_equal(sample_of(sampler, METRIC_CGROUP_THROTTLED_NS), -1);
	sampler_destroy(sampler);
}

static void cgroup_sees_a_real_quota(void **state)
{
	char parent[1024], tight[1200], loose[1200];
	struct cgroup_place place;
	struct child child;

	(void)state;
	if (!find_own_place(&place) || !make_group(&place, "parent", parent))
		skip(); /* no cgroups here, or no right to make one */
	if (place.unified)
		(void)write_in(parent, "cgroup.subtree_control", "+cpu");
	snprintf(tight, sizeof(tight), "%s/tight", parent);
	snprintf(loose, sizeof(loose), "%s/loose", parent);
	if (mkdir(tight, 0755) < 0 || mkdir(loose, 0755) < 0 || !set_quota(&place, tight, 20) ||
		!set_quota(&place, loose, 90)) {
		rmdir(tight);
		rmdir(loose);
		rmdir(parent);
		skip(); /* the controller is not delegated here */
	}
	child = child_start(serve);
	check_throttling(&child, tight, loose);
	assert_int_equal(rmdir(tight), 0);
	assert_int_equal(rmdir(loose), 0);
	assert_int_equal(rmdir(parent), 0);
}

/* The rank's group has no quota of its own; the one above it has. */
static void cgroup_sees_an_ancestors_quota(void **state)
{
	char parent[1024], below[1200];
	struct cgroup_place place;
	struct sampler *sampler;
	struct child child;

	(void)state;
	if (!find_own_place(&place) || !make_group(&place, "above", parent))
		skip();
	snprintf(below, sizeof(below), "%s/below", parent);
	if (mkdir(below, 0755) < 0 || !set_quota(&place, parent, 25)) {
		rmdir(below);
		rmdir(parent);
		skip();
	}
	child = child_start(serve);
	assert_true(move_to(below, child.pid));
	assert_int_equal(cgroup_sampler_create(child.pid, TEST_RANK, &sampler), 0);
	assert_int_equal(sample_of(sampler, METRIC_CGROUP_THROTTLED_NS), 0);
	assert_int_equal(sample_of(sampler, METRIC_CGROUP_QUOTA_MILLICPU), 250);
	assert_in_range(spin_until_throttled(&child, sampler), 1000000, 4000000000);
	child_end(&child);
	sampler_destroy(sampler);
	assert_int_equal(rmdir(below), 0);
	assert_int_equal(rmdir(parent), 0);
}

static void gone_process(void **state)
{
	struct child child = child_start(serve);
	struct sampler *samplers[3];

	(void)state;
	child_end(&child);
	assert_int_equal(cgroup_sampler_create(child.pid, TEST_RANK, &samplers[0]), 0);
	assert_int_equal(psi_sampler_create(child.pid, TEST_RANK, &samplers[1]), 0);
	assert_int_equal(procfs_sampler_create(child.pid, TEST_RANK, &samplers[2]), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(sample_of(samplers[i], METRIC_PROCESS_CPU_NS), -1);
		sampler_destroy(samplers[i]);
	}
	sampler_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(procfs_counts_time_and_faults),
		cmocka_unit_test(psi_parses_totals),
		cmocka_unit_test(a_counter_grows_by_what_can_be),
		cmocka_unit_test(psi_grows),
		cmocka_unit_test(cgroup_sees_a_real_quota),
		cmocka_unit_test(cgroup_sees_an_ancestors_quota),
		cmocka_unit_test(gone_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
