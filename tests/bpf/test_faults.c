/* SPDX-License-Identifier: Apache-2.0 */
/* Page faults: how many, and what they cost. */
#include "tests/bpf/harness.h"

#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, FILE_PAGES = 512, ANONYMOUS_PAGES = 8192 };

static const struct bpf_source_options options = {
	.collectives = true, .sched = true, .faults = true};

struct fixture {
	struct harness harness;
	struct rank rank;
};

static struct fixture start(const struct bpf_source_options *chosen)
{
	struct fixture fixture;

	harness_start(&fixture.harness, chosen);
	fixture.rank = rank_start();
	assert_int_equal(bpf_source_track(fixture.harness.source, (uint32_t)fixture.rank.pid), 0);
	return fixture;
}

static void end(struct fixture *fixture)
{
	rank_end(&fixture->rank);
	harness_end(&fixture->harness);
}

static const struct event_collective *from_last(struct fixture *fixture, unsigned back)
{
	return harness_find(&fixture->harness, EVENT_COLLECTIVE, fixture->rank.pid,
		harness_count(&fixture->harness, EVENT_COLLECTIVE, fixture->rank.pid) - 1 - back);
}

/* What the rank did between its last two collectives. */
static const struct event_activity *last_segment(struct fixture *fixture)
{
	harness_collect(&fixture->harness);
	return &from_last(fixture, 0)->before;
}

/* How long it was on the CPU in it. */
static uint64_t on_cpu_ns(struct fixture *fixture)
{
	const struct event_collective *last = from_last(fixture, 0);
	const struct event_activity *seen = &last->before;

	return last->arrival_ns - from_last(fixture, 1)->departure_ns - seen->preempted_ns -
	       seen->throttled_ns - seen->block_io_ns - seen->asleep_ns - seen->major_fault_ns;
}

/* How much of a time it was not waiting for others to leave the CPU. */
static int64_t had_cpu(const struct event_activity *seen, int64_t length)
{
	int64_t preempted = (int64_t)seen->preempted_ns;

	return preempted < length ? length - preempted : 0;
}

/* A file on a disk: page cache that can be dropped. False where there is no such folder. */
static bool make_file(char path[64])
{
	static const char *const folders[] = {"/var/tmp", "/tmp", "."};
	char page[PAGE_BYTES];
	struct statfs status;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		if (statfs(folders[i], &status) < 0 || status.f_type == TMPFS_MAGIC ||
			status.f_type == RAMFS_MAGIC)
			continue;
		snprintf(path, 64, "%s/slowrank-faults-XXXXXX", folders[i]);
		int fd = mkstemp(path);
		if (fd < 0)
			continue;
		memset(page, 7, sizeof(page));
		for (int k = 0; k < FILE_PAGES; k++)
			assert_int_equal(write(fd, page, sizeof(page)), sizeof(page));
		assert_int_equal(fsync(fd), 0);
		close(fd);
		return true;
	}
	print_message("skipped: no folder on a disk (tmpfs only)\n");
	return false;
}

static void major_faults_of_a_shared_mapping(void **state)
{
	struct fixture f = start(&options);
	char path[64];

	(void)state;
	if (!make_file(path)) {
		end(&f);
		skip();
	}
	rank_do(&f.rank, "barrier 0");
	int64_t begin = now_ns();
	int64_t count = rank_do(&f.rank, "major %d %s", FILE_PAGES, path);
	int64_t length = now_ns() - begin;
	rank_do(&f.rank, "barrier 0");
	unlink(path);
	assert_true(count > 0);
	const struct event_activity *seen = last_segment(&f);
	print_message("%lld major faults in %.1f ms: seen %u, %.1f ms; block I/O %.1f ms\n",
		(long long)count, (double)length / 1e6, seen->major_faults,
		(double)seen->major_fault_ns / 1e6, (double)seen->block_io_ns / 1e6);
	assert_in_range(seen->major_faults, count, count + 4);
	assert_in_range(seen->major_fault_ns, 1, length);
	/* They are faults, not reads: the wait for the page is not told as block I/O. */
	assert_true(seen->major_fault_ns > seen->block_io_ns);
	assert_in_range(seen->major_fault_ns, had_cpu(seen, length) / 20, length);
	end(&f);
}

/* How often a process has slept; negative: not known. */
static long times_slept(pid_t pid)
{
	char path[64], line[128];
	long count = -1;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *file = fopen(path, "re");

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "voluntary_ctxt_switches: %ld", &count);
	if (file)
		fclose(file);
	return count;
}

static void reads_are_block_io(void **state)
{
	struct fixture f = start(&options);
	char path[64];
	long slept;

	(void)state;
	if (!make_file(path)) {
		end(&f);
		skip();
	}
	rank_do(&f.rank, "barrier 0");
	slept = times_slept(f.rank.pid);
	int64_t length = rank_do(&f.rank, "read %d %s", FILE_PAGES, path);
	slept = times_slept(f.rank.pid) - slept;
	rank_do(&f.rank, "barrier 0");
	unlink(path);
	assert_true(length > 0);
	const struct event_activity *seen = last_segment(&f);
	print_message(
		"reads of %.1f ms: block I/O %.1f ms, major faults %.1f ms; slept %ld times\n",
		(double)length / 1e6, (double)seen->block_io_ns / 1e6,
		(double)seen->major_fault_ns / 1e6, slept);
	if (slept < FILE_PAGES / 4) { /* a host may have read before its guest goes on */
		end(&f);
		skip();
	}
	assert_in_range(seen->block_io_ns, had_cpu(seen, length) / 20, length + 20000000);
	assert_true(seen->major_fault_ns < seen->block_io_ns);
	end(&f);
}

static void minor_faults(void **state)
{
	struct fixture f = start(&options);

	(void)state;
	for (int round = 0; round < 2; round++) {
		rank_do(&f.rank, "barrier 0");
		int64_t length = rank_do(&f.rank, "touch %d", ANONYMOUS_PAGES);
		rank_do(&f.rank, "barrier 0");
		const struct event_activity *seen = last_segment(&f);
		print_message("%d minor faults in %.2f ms: seen %u, %.2f ms\n", ANONYMOUS_PAGES,
			(double)length / 1e6, seen->minor_faults,
			(double)seen->minor_fault_ns / 1e6);
		assert_in_range(seen->minor_faults, ANONYMOUS_PAGES, ANONYMOUS_PAGES * 105 / 100);
		assert_int_equal(seen->major_faults, 0);
		/* However few were timed, and one of these interrupted: never more than there was. */
		assert_in_range(seen->minor_fault_ns, ANONYMOUS_PAGES * 50, on_cpu_ns(&f) + 100000);
	}
	end(&f);
}

/* The first segment begins when tracking begins: what was before is not in it. */
static void first_segment_of_a_late_start(void **state)
{
	struct fixture f;

	(void)state;
	harness_start(&f.harness, &options);
	f.rank = rank_start();
	rank_do(&f.rank, "touch %d", ANONYMOUS_PAGES);
	assert_int_equal(bpf_source_track(f.harness.source, (uint32_t)f.rank.pid), 0);
	rank_do(&f.rank, "sleep 1");
	rank_do(&f.rank, "barrier 0");
	assert_true(last_segment(&f)->minor_faults < ANONYMOUS_PAGES / 20);
	/* From here on all are counted, with the first call too. */
	rank_end(&f.rank);
	f.rank = rank_start();
	assert_int_equal(bpf_source_track(f.harness.source, (uint32_t)f.rank.pid), 0);
	rank_do(&f.rank, "sleep 1");
	rank_do(&f.rank, "touch %d", ANONYMOUS_PAGES);
	rank_do(&f.rank, "barrier 0");
	const struct event_activity *seen = last_segment(&f);
	assert_in_range(seen->minor_faults, ANONYMOUS_PAGES, ANONYMOUS_PAGES * 105 / 100);
	assert_true(seen->minor_fault_ns > ANONYMOUS_PAGES * 50);
	end(&f);
}

static void counts_without_the_source_of_times(void **state)
{
	static const struct bpf_source_options fewer = {.collectives = true, .sched = true};
	struct fixture f = start(&fewer);

	(void)state;
	rank_do(&f.rank, "barrier 0");
	rank_do(&f.rank, "touch %d", ANONYMOUS_PAGES);
	rank_do(&f.rank, "barrier 0");
	const struct event_activity *seen = last_segment(&f);
	assert_in_range(seen->minor_faults, ANONYMOUS_PAGES, ANONYMOUS_PAGES * 105 / 100);
	assert_int_equal(seen->minor_fault_ns, 0);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(major_faults_of_a_shared_mapping),
		cmocka_unit_test(reads_are_block_io),
		cmocka_unit_test(minor_faults),
		cmocka_unit_test(first_segment_of_a_late_start),
		cmocka_unit_test(counts_without_the_source_of_times),
	};
	int skipped = harness_check();

	return skipped ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
