/* SPDX-License-Identifier: Apache-2.0 */
/* Steps found in generated programs, against the truth of the generator, over many seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "probe/step/builder.h"
#include "tests/unit/seeds.h"
#include "tests/unit/step/programs.h"

struct outcome {
	uint64_t regular; /* entries that are steps, complete or not */
	uint64_t irregular;
	uint64_t windows;
	uint64_t parts;
	uint64_t aligned;  /* steps that start where a training step starts */
	uint64_t cut_hash; /* of the places of all cuts between steps */
};

struct feed {
	int64_t step_ns;      /* time from one step to the next */
	uint64_t drop_one_in; /* 0 = none */
	uint64_t seed;
};

static void take_all(struct step_builder *builder, const struct calls *calls, const size_t *origin,
	struct outcome *outcome, int64_t *end_ns)
{
	struct step_entry entry;

	while (step_builder_take(builder, &entry)) {
		bool step = !(entry.flags & (STEP_WINDOW | STEP_IRREGULAR));

		assert_true(entry.part_count > 0);
		if (*end_ns)
			assert_int_equal(entry.start.value, *end_ns);
		*end_ns = entry.end.value;
		assert_int_equal(entry.input_ns + entry.compute_ns + entry.host_ns + entry.comm_ns,
			entry.end.value - entry.start.value);
		assert_true(entry.input_ns >= 0 && entry.compute_ns >= 0 && entry.host_ns >= 0 &&
			    entry.comm_ns >= 0);
		if (step) {
			outcome->regular++;
			outcome->aligned += calls->items[origin[outcome->parts]].first_of_step;
			outcome->cut_hash = outcome->cut_hash * 31 + outcome->parts;
		} else if (entry.flags & STEP_WINDOW) {
			outcome->windows++;
		} else {
			outcome->irregular++;
		}
		outcome->parts += entry.part_count;
	}
}

static struct outcome run(const struct calls *calls, const struct feed *feed)
{
	struct step_builder_options options = {.rank = 3};
	struct outcome outcome = {0};
	struct activity others = {0};
	struct step_builder *builder;
	size_t *origin = malloc((calls->count + 1) * sizeof(*origin));
	uint64_t random = feed->seed, pushed = 0;
	int64_t now = 1000000000, end_ns = 0;
	int64_t gap = feed->step_ns * (int64_t)calls->step_count / (int64_t)calls->count;

	assert_non_null(origin);
	assert_int_equal(step_builder_create(&options, &builder), 0);
	for (size_t i = 0; i < calls->count; i++) {
		const struct call *call = &calls->items[i];
		struct collective_part part = {.communicator_id = call->communicator * 7919,
			.sequence = i,
			.length_bytes = call->length_bytes,
			.root = call->root,
			.operation = call->operation};

		/* Parameters are broadcast at once, before any work. */
		now += call->operation == OPERATION_BROADCAST && i < 300
			       ? gap / 100
			       : gap / 2 + (int64_t)(random_next(&random) % (uint64_t)(gap + 1));
		part.arrival.value = now;
		part.departure.value = now + gap / 8;
		part.before.preempted_ns = (int64_t)(random_next(&random) % (uint64_t)(gap + 1));
		if (feed->drop_one_in && random_next(&random) % feed->drop_one_in == 0) {
			step_builder_lost(builder, 1);
			continue;
		}
		origin[pushed++] = i;
		step_builder_push(builder, &part, &others);
		take_all(builder, calls, origin, &outcome, &end_ns);
		if (i % 16 == 0)
			step_builder_tick(builder, (struct host_ns){now + gap / 4});
		take_all(builder, calls, origin, &outcome, &end_ns);
	}
	step_builder_finish(builder);
	take_all(builder, calls, origin, &outcome, &end_ns);
	assert_int_equal(outcome.parts, pushed);
	step_builder_destroy(builder);
	free(origin);
	return outcome;
}

static int failures;

static void check(const struct program *program, const struct feed *feed, double error_max)
{
	struct calls calls = program_run(program, feed->seed);
	struct outcome outcome = run(&calls, feed);
	double error =
		((double)outcome.regular - (double)calls.step_count) / (double)calls.step_count;
	bool good = error <= error_max && error >= -error_max;

	if (!good || getenv("VERBOSE"))
		printf("%s size %u rounds %u eval %u%s barrier %u changed %d warm-up %u step %.0f "
		       "ms "
		       "drop 1/%lu seed %lu: %lu steps of %lu, %lu aligned, %lu irregular, %lu "
		       "windows%s\n",
			program_names[program->kind], program->size, program->rounds,
			program->evaluate_every, program->evaluate_at_random ? "~" : "",
			program->barrier_every, program->changed_batch, program->warm_up,
			(double)feed->step_ns / 1e6, feed->drop_one_in, feed->seed, outcome.regular,
			calls.step_count, outcome.aligned, outcome.irregular, outcome.windows,
			good ? "" : " WRONG");
	failures += !good;
	free(calls.items);
}

static const struct program plain[] = {
	{.kind = PROGRAM_ONE},
	{.kind = PROGRAM_DDP, .size = 2},
	{.kind = PROGRAM_DDP, .size = 9},
	{.kind = PROGRAM_DDP, .size = 64},
	{.kind = PROGRAM_DDP_SPLIT, .size = 6},
	{.kind = PROGRAM_DDP_SPLIT, .size = 11},
	{.kind = PROGRAM_ACCUMULATE, .size = 3, .rounds = 4},
	{.kind = PROGRAM_ACCUMULATE, .size = 1, .rounds = 16},
	{.kind = PROGRAM_NESTED, .rounds = 4},
	{.kind = PROGRAM_NESTED, .rounds = 30},
	{.kind = PROGRAM_NESTED, .rounds = 200},
	{.kind = PROGRAM_NESTED_TWICE, .size = 5, .rounds = 7},
	{.kind = PROGRAM_NESTED_TWICE, .size = 2, .rounds = 3},
	{.kind = PROGRAM_PIPELINE, .size = 4, .rounds = 4},
	{.kind = PROGRAM_PIPELINE, .size = 12, .rounds = 8},
	{.kind = PROGRAM_SHARDED, .size = 32},
	{.kind = PROGRAM_VARIABLE, .size = 5},
	{.kind = PROGRAM_EXPERTS, .size = 6},
	{.kind = PROGRAM_LONG, .size = 300},
	{.kind = PROGRAM_PAIR_VARIABLE},
};

/* Every program, alone and with each disturbance, at several speeds. */
static void test_schedules(void **state)
{
	static const int64_t step_ns[] = {3000000, 50000000, 400000000};

	(void)state;
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		for (uint64_t seed = 0; seed < 15; seed += SEED_STEP) {
			struct program program = plain[i];
			struct feed feed = {.step_ns = step_ns[seed % 3], .seed = seed};

			program.step_count = 500;
			switch (seed / 3) {
			case 0:
				break;
			case 1:
				program.evaluate_every = 50;
				program.warm_up = 20;
				break;
			case 2:
				program.evaluate_every = 35;
				program.evaluate_at_random = true;
				program.barrier_every = 40;
				break;
			case 3:
				program.changed_batch = true;
				program.warm_up = 3;
				break;
			case 4:
				program.barrier_every = 25;
				program.warm_up = 300;
				break;
			}
			check(&program, &feed, 0.01);
		}
	}
	assert_int_equal(failures, 0);
}

/* Sizes, rounds, distances and speeds at random. */
static void test_random(void **state)
{
	const char *runs = getenv("SLOWRANK_TEST_RUNS"); /* a longer search by hand */
	uint64_t run_count = runs ? strtoull(runs, NULL, 10) : SEEDS_OF(250);

	(void)state;
	failures = 0;
	for (uint64_t seed = 0; seed < run_count; seed++) {
		uint64_t random = seed * 1000003;
		struct program program = {
			.kind = (enum program_kind)(random_next(&random) % PROGRAM_NR),
			.step_count = 600 + random_next(&random) % 400,
			.size = (uint32_t)(1 + random_next(&random) % 40),
			.rounds = (uint32_t)(2 + random_next(&random) % 12),
			.warm_up = (uint32_t)(random_next(&random) % 40),
		};
		struct feed feed = {
			.step_ns = (int64_t)(2000000 + random_next(&random) % 200000000),
			.seed = seed,
		};

		if (program.kind == PROGRAM_LONG)
			program.size *= 10;
		/* More equal calls in a row look like many steps of one call: see period.h. */
		if (program.kind == PROGRAM_ACCUMULATE)
			program.rounds = 1 + 20 / program.size;
		if (program.kind == PROGRAM_NESTED_TWICE)
			program.size = 1 + program.size / 2;
		if (random_next(&random) % 2) {
			program.evaluate_every = (uint32_t)(40 + random_next(&random) % 100);
			program.evaluate_at_random = random_next(&random) % 2;
		}
		if (random_next(&random) % 3 == 0)
			program.barrier_every = (uint32_t)(30 + random_next(&random) % 200);
		program.changed_batch = random_next(&random) % 4 == 0;
		check(&program, &feed, 0.01);
	}
	assert_int_equal(failures, 0);
}

/* Now and then an event is lost: such steps are incomplete, and still steps. */
static void test_lost(void **state)
{
	(void)state;
	failures = 0;
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		for (uint64_t seed = 0; seed < SEEDS_OF(6); seed++) {
			struct program program = plain[i];
			struct calls calls;
			struct feed feed = {.step_ns = 20000000, .seed = seed};

			program.step_count = 1000;
			program.evaluate_every = seed % 2 ? 60 : 0;
			calls = program_run(&program, seed);
			/* One in 25 steps loses one call: with one call a step, that step is gone. */
			feed.drop_one_in = 25 * calls.count / calls.step_count;
			free(calls.items);
			check(&program, &feed, plain[i].kind == PROGRAM_ONE ? 0.06 : 0.03);
		}
	}
	assert_int_equal(failures, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schedules),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_lost),
	};

	return cmocka_run_group_tests_name("step.programs", tests, NULL, NULL);
}
