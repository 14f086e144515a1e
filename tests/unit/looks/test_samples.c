/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at made times become sums by segment; what a sampler cannot have seen is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "probe/looks/samples.h"

#define MS INT64_C(1000000)
#define BEGIN_NS (1000 * MS)
enum { COMMUNICATOR = 77, STEP_MS = 100 };

static struct samples *samples;
static const uint32_t nodes[] = {0, 1, 2}; /* main, and two functions that it calls */

static void add_node(uint32_t parent, const char *name, uint32_t *text)
{
	const struct stack_node node = {
		.parent = parent, .function = *text, .kind = STACK_FRAME_PYTHON};

	assert_int_equal(samples_text(samples, name, strlen(name) + 1), 0);
	assert_int_equal(samples_node(samples, &node), 0);
	*text += (uint32_t)strlen(name) + 1;
}

static int set_up(void **state)
{
	const struct stack_thread_info thread = {.pid = 10, .tid = 10};
	uint32_t text = 1;

	(void)state;
	samples = samples_create();
	assert_non_null(samples);
	add_node(STACK_NODE_NONE, "main", &text);
	add_node(0, "forward", &text);
	add_node(0, "load", &text);
	assert_int_equal(samples_thread(samples, 0, &thread), 0);
	return 0;
}

static int clean_up(void **state)
{
	(void)state;
	samples_destroy(samples);
	return 0;
}

static void look(int64_t at_ms, uint32_t node)
{
	const struct sample_seen seen = {.node = node, .state = STACK_STATE_SLEEP};

	assert_int_equal(
		samples_look(samples, (struct host_ns){BEGIN_NS + at_ms * MS}, &seen, 1), 0);
}

/* Steps of 100 ms: a collective from 40 to 50, one from 80 to 90. */
static void step(int64_t number)
{
	int64_t start_ns = BEGIN_NS + number * STEP_MS * MS;
	struct collective_part parts[2] = {
		{.communicator_id = COMMUNICATOR,
			.operation = OPERATION_ALL_REDUCE,
			.arrival = {start_ns + 40 * MS},
			.departure = {start_ns + 50 * MS}},
		{.communicator_id = COMMUNICATOR,
			.operation = OPERATION_BARRIER,
			.arrival = {start_ns + 80 * MS},
			.departure = {start_ns + 90 * MS}},
	};
	const struct step_entry entry = {.index = (uint64_t)number,
		.start = {start_ns},
		.end = {start_ns + STEP_MS * MS},
		.part_count = 2,
		.parts = parts};

	assert_int_equal(samples_step(samples, &entry), 0);
}

static struct stack_profile *finish(void)
{
	const struct stack_profile fields = {.rank = 3, .request = 9};
	struct stack_profile *profile = samples_finish(samples, &fields, true);

	assert_non_null(profile);
	assert_true(stack_profile_is_valid(profile));
	return profile;
}

/* What a function took in a segment, in ms. */
static double time_of(const struct stack_profile *profile, const char *function, uint32_t ordinal,
	unsigned operation, bool inside)
{
	double time_ms = 0;

	for (uint32_t i = 0; i < profile->sum_count; i++) {
		const struct stack_sum *sum = &profile->sums[i];
		const struct stack_segment *segment = &profile->segments[sum->segment];

		if (strcmp(profile->text + profile->nodes[sum->node].function, function) == 0 &&
			segment->ordinal == ordinal && segment->operation == operation &&
			segment->inside == inside)
			time_ms += (double)sum->time_ns / 1e6;
	}
	return time_ms;
}

/* Looks every 10 ms: in forward() up to the first collective, in load() from there on. */
static void look_at_steps(int64_t count)
{
	for (int64_t at_ms = -5; at_ms < count * STEP_MS; at_ms += 10)
		look(at_ms, (at_ms + STEP_MS) % STEP_MS < 50 ? nodes[1] : nodes[2]);
}

static void check_three_steps(const struct stack_profile *profile)
{
	assert_int_equal(profile->result, STACK_RESULT_DONE);
	assert_int_equal(profile->steps, 3);
	assert_int_equal(profile->looks, 30);
	assert_int_equal(profile->start.value, BEGIN_NS);
	assert_int_equal(profile->stop.value, BEGIN_NS + 3 * STEP_MS * MS);
	assert_true(time_of(profile, "forward", 0, OPERATION_ALL_REDUCE, false) == 120);
	assert_true(time_of(profile, "forward", 0, OPERATION_ALL_REDUCE, true) == 30);
	assert_true(time_of(profile, "load", 1, OPERATION_BARRIER, false) == 90);
	assert_true(time_of(profile, "load", 1, OPERATION_BARRIER, true) == 30);
	/* Behind the last one: before the next step's first. */
	assert_true(time_of(profile, "load", 0, OPERATION_ALL_REDUCE, false) == 30);
	for (uint32_t i = 0; i < profile->sum_count; i++)
		assert_int_equal(profile->sums[i].steps, 3);
}

static void test_segments(void **state)
{
	struct stack_profile *profile;

	(void)state;
	look_at_steps(5);
	for (int64_t number = -1; number < 4;
		number++) /* the first began before the looks, the last has no successor */
		step(number);
	profile = finish();
	check_three_steps(profile);
	stack_profile_destroy(profile);
}

/* Steps are told sooner than the looks in them, as happens when the sampler has to wait for a CPU. */
/*
 * A device that is a step behind: its host calls at 40 and at 80 of a step, in which the device still does what it was given
 * in the step before, the second call first.
 */
static void device_step(int64_t number)
{
	int64_t start_ns = BEGIN_NS + number * STEP_MS * MS, device_ns = start_ns + STEP_MS * MS;
	struct collective_part parts[2] = {
		{.communicator_id = COMMUNICATOR,
			.operation = OPERATION_BARRIER,
			.enqueue = {start_ns + 80 * MS},
			.arrival = {device_ns + 10 * MS},
			.departure = {device_ns + 60 * MS},
			.flags = PART_DEVICE_TIME},
		{.communicator_id = COMMUNICATOR,
			.operation = OPERATION_ALL_REDUCE,
			.enqueue = {start_ns + 40 * MS},
			.arrival = {device_ns + 60 * MS},
			.departure = {device_ns + 90 * MS},
			.flags = PART_DEVICE_TIME},
	};
	const struct step_entry entry = {.index = (uint64_t)number,
		.start = {device_ns - 10 * MS},
		.end = {device_ns + 90 * MS},
		.part_count = 2,
		.parts = parts};

	assert_int_equal(samples_step(samples, &entry), 0);
}

/* What a host does is told by its calls, not by what its device does meanwhile: none of it is inside of a collective. */
static void test_host_ahead(void **state)
{
	struct stack_profile *profile;

	(void)state;
	look_at_steps(5);
	for (int64_t number = -1; number < 5; number++)
		device_step(number);
	look(601, nodes[0]);
	profile = finish();
	assert_int_equal(profile->steps, 3); /* the one that had begun before is left out */
	assert_float_equal(time_of(profile, "forward", 1, OPERATION_ALL_REDUCE, false), 120, 0.1);
	assert_float_equal(time_of(profile, "load", 0, OPERATION_BARRIER, false), 90, 0.1);
	for (uint32_t i = 0; i < profile->segment_count; i++)
		assert_false(profile->segments[i].inside);
	stack_profile_destroy(profile);
}

static void test_late_looks(void **state)
{
	struct stack_profile *profile;

	(void)state;
	look(-5, nodes[2]);
	for (int64_t number = 0; number < 4; number++)
		step(number);
	for (int64_t at_ms = 5; at_ms < 3 * STEP_MS + 10; at_ms += 10)
		look(at_ms, at_ms % STEP_MS < 50 ? nodes[1] : nodes[2]);
	profile = finish();
	check_three_steps(profile);
	stack_profile_destroy(profile);
}

/* A look that took long counts until the next one: all time is somebody's. */
static void test_gaps(void **state)
{
	struct stack_profile *profile;
	int64_t time_ns = 0;

	(void)state;
	for (int64_t at_ms = -30; at_ms < 10 * STEP_MS; at_ms += 37)
		look(at_ms, nodes[1]);
	for (int64_t number = 0; number < 9; number++)
		step(number);
	profile = finish();
	assert_int_equal(profile->steps, 8);
	for (uint32_t i = 0; i < profile->sum_count; i++)
		time_ns += profile->sums[i].time_ns;
	assert_in_range(time_ns, (8 * STEP_MS - 37) * MS, (8 * STEP_MS + 37) * MS);
	stack_profile_destroy(profile);
}

static void test_no_steps(void **state)
{
	struct stack_profile *profile;

	(void)state;
	look_at_steps(2);
	profile = finish();
	assert_int_equal(profile->result, STACK_RESULT_NO_STEPS);
	assert_int_equal(profile->steps, 0);
	assert_int_equal(profile->sum_count, 2);
	assert_int_equal(profile->sums[0].steps, 0);
	assert_true(
		time_of(profile, "forward", 0, 0, false) + time_of(profile, "load", 0, 0, false) ==
		200);
	stack_profile_destroy(profile);
}

/* More stacks than a profile holds: those that took least are left out, and that is said. */
static void test_rare_stacks_are_left_out(void **state)
{
	struct stack_profile *profile;
	uint32_t last = 0;

	(void)state;
	for (uint32_t i = 0; i < STACK_PROFILE_SUMS_MAX + 1000; i++) {
		const struct stack_node node = {.parent = 0, .function = 1, .line = (int32_t)i + 1};

		assert_int_equal(samples_node(samples, &node), 0);
		look(i, last = 3 + i);
	}
	look(STACK_PROFILE_SUMS_MAX + 2000, last); /* so its last look took long */
	profile = finish();
	assert_int_equal(profile->sum_count, STACK_PROFILE_SUMS_MAX);
	assert_non_null(strstr(profile->why, "left out"));
	assert_int_equal(profile->nodes[profile->sums[0].node].line, STACK_PROFILE_SUMS_MAX + 1000);
	assert_int_equal(profile->incomplete, 1000);
	stack_profile_destroy(profile);
}

static void test_hostile_records(void **state)
{
	const struct stack_node bad_nodes[] = {{.parent = 3}, {.function = 2}, {.file = 1000000},
		{.line = -1}, {.parent = 0, .file = UINT32_MAX}};
	const struct stack_thread_info thread = {.pid = 1}, bad = {.pid = -1};
	const struct sample_seen bad_seen[] = {{.thread = 1, .node = 0}, {.thread = 0, .node = 3}};

	(void)state;
	for (size_t i = 0; i < sizeof(bad_nodes) / sizeof(bad_nodes[0]); i++)
		assert_int_equal(samples_node(samples, &bad_nodes[i]), -EBADMSG);
	assert_int_equal(samples_text(samples, "abc", 3), -EBADMSG);
	assert_int_equal(samples_text(samples, "", 0), -EBADMSG);
	assert_int_equal(samples_thread(samples, 2, &thread), -EBADMSG);
	assert_int_equal(samples_thread(samples, 1, &bad), -EBADMSG);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(
			samples_look(samples, (struct host_ns){5}, &bad_seen[i], 1), -EBADMSG);
	assert_int_equal(samples_look(samples, (struct host_ns){INT64_MAX}, NULL, 0), -EBADMSG);
	look(10, nodes[1]);
	assert_int_equal(samples_look(samples, (struct host_ns){5}, NULL, 0), -EBADMSG);
	stack_profile_destroy(finish());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_segments, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_host_ahead, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_late_looks, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_gaps, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_no_steps, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_rare_stacks_are_left_out, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_hostile_records, set_up, clean_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
