/* SPDX-License-Identifier: Apache-2.0 */
/* The step builder: times, phases, markers, windows, bounds. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/step/builder.h"

#define MS 1000000ll

static struct step_builder *create(size_t part_count_max, int64_t window_ns)
{
	struct step_builder_options options = {
		.rank = 7, .part_count_max = part_count_max, .window_ns = window_ns};
	struct step_builder *builder;

	assert_int_equal(step_builder_create(&options, &builder), 0);
	return builder;
}

static struct collective_part part_at(int64_t arrival, int64_t departure)
{
	return (struct collective_part){.communicator_id = 11,
		.length_bytes = 100,
		.arrival = {arrival},
		.departure = {departure},
		.root = STEP_ROOT_NONE,
		.operation = OPERATION_ALL_REDUCE};
}

static void push(struct step_builder *builder, struct collective_part part)
{
	struct activity others = {.preempted_ns = part.departure.value / 10};

	step_builder_push(builder, &part, &others);
}

static void assert_sum(const struct step_entry *entry)
{
	assert_true(entry->input_ns >= 0 && entry->compute_ns >= 0 && entry->host_ns >= 0 &&
		    entry->comm_ns >= 0);
	assert_int_equal(entry->input_ns + entry->compute_ns + entry->host_ns + entry->comm_ns,
		entry->end.value - entry->start.value);
}

static void test_options(void **state)
{
	struct step_builder_options options = {.part_count_max = STEP_PART_COUNT_MAX + 1};
	struct step_builder *builder = NULL;

	(void)state;
	assert_int_equal(step_builder_create(&options, &builder), -EINVAL);
	options = (struct step_builder_options){.window_ns = -1};
	assert_int_equal(step_builder_create(&options, &builder), -EINVAL);
	assert_null(builder);
	step_builder_destroy(NULL);
}

static void test_nothing(void **state)
{
	struct step_builder *builder = create(0, 0);
	struct step_entry entry;

	(void)state;
	step_builder_tick(builder, (struct host_ns){5});
	step_builder_lost(builder, 3);
	step_builder_finish(builder);
	assert_false(step_builder_take(builder, &entry));
	step_builder_destroy(builder);
}

/* One marked step with everything in it: each time goes where it belongs. */
static void test_phases(void **state)
{
	struct step_builder *builder = create(0, 0);
	struct collective_part part;
	struct step_entry entry;

	(void)state;
	step_builder_mark(builder, true, 41, (struct host_ns){1000 * MS});
	part = part_at(1010 * MS, 1013 * MS);
	part.before = (struct activity){.preempted_ns = 2 * MS,
		.throttled_ns = 1 * MS,
		.block_io_ns = 3 * MS,
		.comm_call_ns = 1 * MS};
	push(builder, part);
	part = part_at(1020 * MS, 1024 * MS);
	part.before = (struct activity){
		.asleep_ns = 1 * MS, .major_fault_ns = 1 * MS, .minor_fault_ns = 2 * MS};
	push(builder, part);
	step_builder_mark(builder, false, 41, (struct host_ns){1028 * MS});
	step_builder_mark(builder, true, 42, (struct host_ns){1030 * MS});
	/* The segment from 1024 to 1042 was asleep for 9 of 18 ms; 6 of them lie in step 41. */
	part = part_at(1042 * MS, 1043 * MS);
	part.before = (struct activity){.asleep_ns = 9 * MS, .minor_faults = 9};
	push(builder, part);

	assert_true(step_builder_take(builder, &entry));
	assert_int_equal(entry.rank, 7);
	assert_int_equal(entry.flags, STEP_MARKED);
	assert_int_equal(entry.index, 41);
	assert_int_equal(entry.part_count, 2);
	assert_int_equal(entry.start.value, 1000 * MS);
	assert_int_equal(entry.end.value, 1030 * MS);
	assert_int_equal(entry.comm_ns, 8 * MS);
	assert_int_equal(entry.input_ns, 3 * MS);
	assert_int_equal(entry.host_ns, 10 * MS);
	assert_int_equal(entry.compute_ns, 9 * MS);
	assert_int_equal(entry.tail.asleep_ns, 3 * MS);
	assert_int_equal(entry.tail.minor_faults, 3);
	assert_false(step_builder_take(builder, &entry));

	step_builder_mark(builder, true, 43, (struct host_ns){1050 * MS});
	step_builder_finish(builder);
	assert_true(step_builder_take(builder, &entry));
	assert_int_equal(entry.index, 42);
	assert_int_equal(entry.parts[0].before.asleep_ns, 6 * MS);
	assert_int_equal(entry.parts[0].before.minor_faults, 6);
	assert_int_equal(entry.start.value, 1030 * MS);
	assert_int_equal(entry.end.value, 1050 * MS);
	assert_sum(&entry);
	step_builder_destroy(builder);
}

/* Activities beyond their segment, overlapping threads, parts out of order: the sum holds. */
static void test_sum_holds(void **state)
{
	struct step_builder *builder = create(0, 0);
	struct collective_part part;
	struct step_entry entry;

	(void)state;
	step_builder_mark(builder, true, 1, (struct host_ns){100 * MS});
	part = part_at(130 * MS, 140 * MS);
	part.before = (struct activity){.throttled_ns = 40 * MS, .block_io_ns = 20 * MS};
	push(builder, part);
	push(builder, part_at(110 * MS, 160 * MS)); /* another thread, around the first */
	push(builder, part_at(150 * MS, 145 * MS)); /* departs before it arrives */
	push(builder, part_at(90 * MS, 120 * MS));  /* began before the step */
	part = part_at(165 * MS, 300 * MS);	    /* goes on after it */
	part.before.preempted_ns = -5;
	push(builder, part);
	step_builder_mark(builder, true, 2, (struct host_ns){200 * MS});
	step_builder_finish(builder);
	assert_true(step_builder_take(builder, &entry));
	assert_sum(&entry);
	assert_int_equal(entry.end.value - entry.start.value, 100 * MS);
	assert_int_equal(entry.comm_ns, 95 * MS);
	assert_int_equal(entry.compute_ns, 5 * MS);
	for (size_t i = 1; i < entry.part_count; i++)
		assert_true(entry.parts[i].arrival.value >= entry.parts[i - 1].arrival.value);
	step_builder_destroy(builder);

	builder = create(0, 0);
	step_builder_mark(builder, true, 1, (struct host_ns){100 * MS});
	part = part_at(130 * MS, 140 * MS);
	part.before = (struct activity){.throttled_ns = 40 * MS, .block_io_ns = 20 * MS};
	push(builder, part);
	step_builder_finish(builder);
	assert_true(step_builder_take(builder, &entry));
	assert_int_equal(entry.host_ns, 20 * MS);
	assert_int_equal(entry.input_ns, 10 * MS);
	assert_int_equal(entry.comm_ns, 10 * MS);
	assert_int_equal(entry.compute_ns, 0);
	step_builder_destroy(builder);
}

/* Only ends: from end to end; what lies before the first is the rest of some step. */
static void test_ends_only(void **state)
{
	struct step_builder *builder = create(0, 0);
	struct step_entry entry;

	(void)state;
	push(builder, part_at(10 * MS, 11 * MS));
	step_builder_mark(builder, false, 5, (struct host_ns){20 * MS});
	push(builder, part_at(30 * MS, 31 * MS));
	push(builder, part_at(35 * MS, 36 * MS));
	step_builder_mark(builder, false, 6, (struct host_ns){40 * MS});
	push(builder, part_at(50 * MS, 51 * MS));
	assert_true(step_builder_take(builder, &entry));
	assert_int_equal(entry.flags, STEP_MARKED | STEP_IRREGULAR);
	assert_int_equal(entry.index, 5);
	assert_true(step_builder_take(builder, &entry));
	assert_int_equal(entry.flags, STEP_MARKED);
	assert_int_equal(entry.index, 6);
	assert_int_equal(entry.part_count, 2);
	assert_int_equal(entry.start.value, 20 * MS);
	assert_int_equal(entry.end.value, 40 * MS);
	assert_false(step_builder_take(builder, &entry));
	/* A begin comes after all: from now on begins count, and ends do not. */
	step_builder_mark(builder, true, 8, (struct host_ns){60 * MS});
	step_builder_mark(builder, false, 8, (struct host_ns){65 * MS});
	push(builder, part_at(70 * MS, 71 * MS));
	step_builder_mark(builder, true, 9, (struct host_ns){80 * MS});
	push(builder, part_at(90 * MS, 91 * MS));
	assert_true(step_builder_take(builder, &entry));
	assert_int_equal(entry.flags, STEP_IRREGULAR);
	assert_true(step_builder_take(builder, &entry));
	assert_int_equal(entry.index, 8);
	assert_int_equal(entry.flags, STEP_MARKED);
	assert_int_equal(entry.start.value, 60 * MS);
	assert_int_equal(entry.end.value, 80 * MS);
	step_builder_destroy(builder);
}

/* Markers take over from what was found: steps stay contiguous, no part is lost. */
static void test_markers_win(void **state)
{
	struct step_builder *builder = create(0, 100 * MS);
	struct step_entry entry;
	size_t parts = 0, marked = 0;
	int64_t now = 0, end = -1;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		if (i >= 1000 && i % 3 == 0)
			step_builder_mark(builder, true, (uint64_t)i, (struct host_ns){now + 1});
		push(builder, part_at(now + MS, now + 2 * MS));
		now += 3 * MS;
	}
	step_builder_finish(builder);
	while (step_builder_take(builder, &entry)) {
		assert_sum(&entry);
		if (end >= 0)
			assert_int_equal(entry.start.value, end);
		end = entry.end.value;
		parts += entry.part_count;
		if (entry.flags & STEP_MARKED) {
			marked++;
			assert_int_equal(entry.index % 3, 0);
			assert_int_equal(entry.part_count, 3);
		}
	}
	assert_int_equal(parts, 2000);
	assert_int_equal(marked, 332);
	step_builder_destroy(builder);
}

/* Without a cycle, windows of about the asked length; none longer while parts come. */
static void test_windows(void **state)
{
	struct step_builder *builder = create(0, 100 * MS);
	struct step_entry entry;
	uint64_t random = 12345;
	int64_t now = 0, longest = 0;
	size_t parts = 0, windows = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct collective_part part = part_at(now + MS / 2, now + MS);

		random = random * 6364136223846793005u + 1442695040888963407u;
		part.operation = (uint8_t)(1 + (random >> 40) % 9);
		part.communicator_id = (random >> 50) % 7;
		push(builder, part);
		now += MS;
		while (step_builder_take(builder, &entry)) {
			assert_sum(&entry);
			assert_int_equal(entry.flags & STEP_WINDOW, STEP_WINDOW);
			assert_int_equal(entry.index, windows);
			if (entry.end.value - entry.start.value > longest)
				longest = entry.end.value - entry.start.value;
			parts += entry.part_count;
			windows++;
		}
	}
	assert_true(longest <= 400 * MS);
	assert_true(windows >= 150);
	/* A quiet rank: time alone closes the window. */
	step_builder_tick(builder, (struct host_ns){now + 2000 * MS});
	while (step_builder_take(builder, &entry))
		parts += entry.part_count;
	assert_int_equal(parts, 20000);
	step_builder_destroy(builder);
}

/* The bound on parts holds, with and without a cycle, with and without markers. */
static void test_bound(void **state)
{
	(void)state;
	for (int marked = 0; marked < 2; marked++) {
		struct step_builder *builder = create(64, 0);
		struct step_entry entry;
		size_t parts = 0;

		if (marked)
			step_builder_mark(builder, true, 3, (struct host_ns){1});
		for (int i = 0; i < 1000; i++) {
			struct collective_part part = part_at(10 * i, 10 * i + 5);

			part.communicator_id = (uint64_t)(i * i);
			push(builder, part);
			while (step_builder_take(builder, &entry)) {
				assert_int_equal(entry.flags, STEP_WINDOW);
				assert_true(entry.part_count <= 64);
				parts += entry.part_count;
			}
		}
		assert_true(parts >= 1000 - 64);
		step_builder_destroy(builder);
	}
}

/* Nobody takes anything: memory stays bounded, and the first step taken says what is missing. */
static void test_not_taken(void **state)
{
	struct step_builder *builder = create(64, 0);
	struct step_entry entry;
	int64_t end = -1;

	(void)state;
	step_builder_mark(builder, true, 0, (struct host_ns){0});
	for (int i = 1; i < 20000; i++) {
		push(builder, part_at(10 * i, 10 * i + 5));
		if (i % 4 == 0)
			step_builder_mark(builder, true, (uint64_t)i, (struct host_ns){10 * i + 6});
	}
	step_builder_finish(builder);
	assert_true(step_builder_take(builder, &entry));
	assert_int_equal(entry.flags & STEP_INCOMPLETE, STEP_INCOMPLETE);
	do {
		if (end >= 0)
			assert_int_equal(entry.start.value, end);
		end = entry.end.value;
		assert_sum(&entry);
	} while (step_builder_take(builder, &entry));
	assert_int_equal(end, 19999 * 10 + 5);
	step_builder_destroy(builder);
}

/* A call with another rank, the next one of a stage. */
static void push_message(struct step_builder *builder, int64_t *now, bool sends, uint32_t peer)
{
	struct collective_part part = part_at(*now + 1000, *now + 2000);

	part.operation = sends ? OPERATION_SEND : OPERATION_RECEIVE;
	part.peer = peer;
	part.length_bytes = 1 << 20;
	push(builder, part);
	*now += 3000;
}

static void assert_steps(struct step_builder *builder, size_t part_count, size_t least)
{
	struct step_entry entry;
	size_t count = 0;

	step_builder_finish(builder);
	while (step_builder_take(builder, &entry))
		count += entry.flags == 0 && entry.part_count == part_count;
	assert_true(count >= least);
	step_builder_destroy(builder);
}

/*
 * A stage does nothing but send and receive, and does that in a loop: in the middle of GPipe the calls are the same
 * forward and backward but for the other rank; at an end of 1F1B they fill, repeat and drain.
 */
static void test_pipelines(void **state)
{
	enum { STEPS = 60, MICROBATCHES = 40, WARM_UP = 3 };
	struct step_builder *middle = create(0, 0), *first = create(0, 0);
	int64_t middle_now = 0, first_now = 0;

	(void)state;
	for (int s = 0; s < STEPS; s++) {
		for (uint32_t m = 0; m < 2 * MICROBATCHES; m++) {
			push_message(middle, &middle_now, false, m < MICROBATCHES ? 1 : 3);
			push_message(middle, &middle_now, true, m < MICROBATCHES ? 3 : 1);
		}
		for (uint32_t m = 0; m < MICROBATCHES + WARM_UP; m++) {
			if (m < MICROBATCHES)
				push_message(first, &first_now, true, 2);
			if (m >= WARM_UP)
				push_message(first, &first_now, false, 2);
		}
	}
	assert_steps(middle, 4 * MICROBATCHES, STEPS - 1);
	assert_steps(first, 2 * MICROBATCHES, STEPS - 1);
}

/* Steps of equal calls have equal signatures, also on a peer with other communicators. */
static void test_signature(void **state)
{
	uint64_t signatures[2] = {0};

	(void)state;
	for (uint64_t rank = 0; rank < 2; rank++) {
		struct step_builder *builder = create(0, 0);
		struct step_entry entry;
		int64_t now = 0;

		for (int i = 0; i < 3000; i++) {
			struct collective_part part = part_at(now + 1000, now + 2000);

			part.communicator_id = i % 5 < 3 ? 100 + rank : 5;
			part.length_bytes = (uint64_t)i;
			part.operation = i % 5 == 4 ? OPERATION_ALL_GATHER : OPERATION_ALL_REDUCE;
			push(builder, part);
			now += 3000;
		}
		step_builder_finish(builder);
		assert_true(step_builder_take(builder, &entry));
		assert_int_equal(entry.flags, 0);
		signatures[rank] = entry.signature;
		for (int i = 0; i < 500; i++) {
			assert_true(step_builder_take(builder, &entry));
			assert_int_equal(entry.part_count, 5);
			assert_int_equal(entry.signature, signatures[rank]);
		}
		step_builder_destroy(builder);
	}
	assert_int_equal(signatures[0], signatures[1]);
	assert_int_not_equal(signatures[0], 0);
}

/* The totals of other threads: what was added to them in the step. */
static void test_other_threads(void **state)
{
	struct step_builder *builder = create(0, 0);
	struct step_entry entry;

	(void)state;
	step_builder_mark(builder, true, 0, (struct host_ns){0});
	push(builder, part_at(100, 200));
	push(builder, part_at(300, 400));
	step_builder_mark(builder, true, 1, (struct host_ns){500});
	push(builder, part_at(600, 1000));
	step_builder_mark(builder, true, 2, (struct host_ns){1100});
	step_builder_finish(builder);
	assert_true(step_builder_take(builder, &entry));
	assert_int_equal(entry.other_threads.preempted_ns, 20);
	assert_true(step_builder_take(builder, &entry));
	assert_int_equal(entry.other_threads.preempted_ns, 60);
	step_builder_destroy(builder);
}

/* A step that lies in one window has its difference; one that a window begins or ends in has none. */
static void test_launches(void **state)
{
	static const struct {
		struct step_launches total;
		uint32_t window, launches;
		int64_t silence_ns, wait_ns;
	} steps[] = {
		{{0}, 0, 0, 0, 0},
		{{.window = 3, .launches = 5, .silence_ns = 9, .wait_ns = 70}, 0, 0, 0, 0},
		{{.window = 3, .launches = 12, .silence_ns = 10, .wait_ns = 90}, 3, 7, 1, 20},
		{{.window = 3, .launches = 20, .silence_ns = 40, .wait_ns = 90}, 3, 8, 30, 0},
		{{.window = 4, .launches = 25, .silence_ns = 50, .wait_ns = 95}, 0, 0, 0, 0},
		{{.window = 0, .wait_ns = 99}, 0, 0, 0, 0},
	};
	struct step_builder *builder = create(0, 0);
	struct step_entry entry;

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		int64_t time = (int64_t)(10 * (i + 1)) * MS;

		step_builder_mark(builder, true, i, (struct host_ns){time});
		step_builder_launches(builder, &steps[i].total);
		push(builder, part_at(time + 2 * MS, time + 4 * MS));
		step_builder_mark(builder, false, i, (struct host_ns){time + 5 * MS});
	}
	step_builder_finish(builder);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]);) {
		assert_true(step_builder_take(builder, &entry));
		if (entry.part_count == 0)
			continue; /* between two marked steps */
		assert_int_equal(entry.launches.window, steps[i].window);
		assert_int_equal(entry.launches.launches, steps[i].launches);
		assert_int_equal(entry.launches.silence_ns, steps[i].silence_ns);
		assert_int_equal(entry.launches.wait_ns, steps[i].wait_ns);
		i++;
	}
	step_builder_destroy(builder);
}

/* By the host's times: its own part of the gap, and a stay that is mostly the device's work. */
static void test_host_time_phases(void **state)
{
	struct step_builder *builder = create(0, 0);
	struct collective_part part = part_at(30 * MS, 50 * MS);
	struct step_entry entry;

	(void)state;
	part.flags = PART_HOST_TIME;
	part.before.host_ns = 12 * MS;
	part.before.preempted_ns = 4 * MS;
	step_builder_mark(builder, true, 0, (struct host_ns){10 * MS});
	push(builder, part);
	step_builder_mark(builder, false, 0, (struct host_ns){50 * MS});
	step_builder_finish(builder);
	assert_true(step_builder_take(builder, &entry));
	assert_sum(&entry);
	assert_int_equal(entry.host_ns, 12 * MS);
	assert_int_equal(entry.comm_ns, 0);
	assert_int_equal(entry.compute_ns, 28 * MS);
	step_builder_destroy(builder);
}

static size_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	size_t all, resident;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%zu %zu", &all, &resident), 2);
	fclose(file);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* What was taken makes room for what comes: memory follows what waits, not all that came. */
static void test_memory(void **state)
{
	struct step_builder *builder = create(0, 0);
	size_t before = 0;

	(void)state;
	for (int64_t i = 0; i < 60000; i++) {
		int64_t time = i * MS;
		struct collective_part part = part_at(time, time + MS / 2);
		struct step_entry entry;

		part.length_bytes = (uint64_t)(i % 16);
		push(builder, part);
		while (i % 16 == 5 && step_builder_take(builder, &entry))
			;
		if (i == 3000) /* the period is found */
			before = resident_bytes();
	}
	assert_true(resident_bytes() < before + (1 << 20));
	step_builder_destroy(builder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_sum_holds),
		cmocka_unit_test(test_ends_only),
		cmocka_unit_test(test_markers_win),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_not_taken),
		cmocka_unit_test(test_signature),
		cmocka_unit_test(test_pipelines),
		cmocka_unit_test(test_launches),
		cmocka_unit_test(test_host_time_phases),
		cmocka_unit_test(test_other_threads),
		cmocka_unit_test(test_memory),
	};

	mallopt(M_MMAP_THRESHOLD, 128 * 1024); /* as in a probe: tables are pages of their own */
	return cmocka_run_group_tests_name("step.builder", tests, NULL, NULL);
}
