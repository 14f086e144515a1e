/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of training programs as they are on GPUs, with their bytes and pauses: what repeats
 * inside a step, and what comes between steps now and then. Counts within 2 % of the truth, over
 * many seeds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "probe/step/builder.h"
#include "tests/unit/seeds.h"
#include "tests/unit/step/programs.h"

enum shape {
	SHAPE_TRAINER = 0,	   /* buckets, a broadcast before and a count behind them */
	SHAPE_TENSOR_PARALLEL = 1, /* equal all-reduces, and nothing else */
	SHAPE_TENSOR_NORM = 2,	   /* the same and a norm */
	SHAPE_SHARDED = 3,	   /* gathers and scatters, in each micro-batch */
	SHAPE_SHARDED_NORM = 4,	   /* the same and a norm */
	SHAPE_MEGATRON = 5,	   /* layers on one communicator, gradients on another */
	SHAPE_SEQUENCE = 6,	   /* gathers and scatters of layers, then gradients */
	SHAPE_EXPERTS = 7,	   /* all-to-alls of lengths that vary, then gradients */
	SHAPE_PIPELINE = 8,	   /* sends and receives, then gradients */
	SHAPE_BUCKETS = 9,	   /* buckets alone */
	SHAPE_NR
};

static const char *const shape_names[SHAPE_NR] = {"trainer", "tensor-parallel", "tensor-norm",
	"sharded", "sharded-norm", "megatron", "sequence", "experts", "pipeline", "buckets"};

struct job {
	enum shape shape;
	uint32_t layers, micro_batches, step_count;
	uint32_t log_every, save_every, evaluate_every, slow_input_every; /* 0 = never */
	double unit_ms; /* of work between two calls */
	double optimizer_ms;
	uint64_t seed;
};

struct program_run {
	struct step_builder *builder;
	int64_t now;
	uint64_t random, sequence;
	uint64_t regular, irregular, windows;
};

static double uniform(uint64_t *random)
{
	return (double)(random_next(random) >> 11) * 0x1p-53;
}

static void take(struct program_run *run)
{
	struct step_entry entry;

	while (step_builder_take(run->builder, &entry)) {
		if (entry.flags & STEP_WINDOW)
			run->windows++;
		else if (entry.flags & STEP_IRREGULAR)
			run->irregular++;
		else
			run->regular++;
	}
}

/* After so much work, give or take a fifth, and once in 2,000 calls a stall. */
static void call(struct program_run *run, double work_ms, enum operation operation,
	uint64_t communicator, uint64_t length_bytes)
{
	struct collective_part part = {.communicator_id = communicator * 7919,
		.sequence = run->sequence++,
		.length_bytes = length_bytes,
		.root = operation == OPERATION_BROADCAST ? 0 : STEP_ROOT_NONE,
		.operation = (uint8_t)operation,
		.flags = PART_DEVICE_TIME};
	struct activity others = {0};

	if (random_next(&run->random) % 2000 == 0)
		work_ms += 50 * uniform(&run->random);
	run->now += (int64_t)(work_ms * 1e6 * (0.8 + 0.4 * uniform(&run->random)));
	part.arrival.value = run->now;
	run->now +=
		20000 + (int64_t)((double)length_bytes / 200 * (0.9 + 0.4 * uniform(&run->random)));
	part.departure.value = run->now;
	step_builder_push(run->builder, &part, &others);
	take(run);
}

/* One pass, forward and backward. */
static void micro_batch(struct program_run *run, const struct job *job, double first_ms, bool last)
{
	double unit = job->unit_ms;

	switch (job->shape) {
	case SHAPE_TRAINER:
	case SHAPE_BUCKETS:
		if (job->shape == SHAPE_TRAINER && last)
			call(run, first_ms, OPERATION_BROADCAST, 1, 256);
		for (uint32_t i = 0; i < job->layers && last; i++)
			call(run, i ? unit : first_ms + job->layers * unit, OPERATION_ALL_REDUCE, 2,
				20000000 + 4096 * (i % 5) + 1000000 * (i / 10) +
					(i ? 0 : 40000000));
		if (!last)
			run->now += (int64_t)(1.5 * job->layers * unit * 1e6);
		break;
	case SHAPE_TENSOR_PARALLEL:
	case SHAPE_TENSOR_NORM:
		for (uint32_t i = 0; i < 2 * job->layers; i++)
			call(run, i ? unit * (i < job->layers ? 1 : 2) : first_ms,
				OPERATION_ALL_REDUCE, 1, 4194304);
		break;
	case SHAPE_SHARDED:
	case SHAPE_SHARDED_NORM:
		for (uint32_t i = 0; i < job->layers; i++)
			call(run, i ? unit : first_ms, OPERATION_ALL_GATHER, 1,
				i ? 67129344 : 9000000);
		for (uint32_t i = 0; i < job->layers; i++) {
			call(run, unit, OPERATION_ALL_GATHER, 1,
				i + 1 < job->layers ? 67129344 : 9000000);
			call(run, unit, OPERATION_REDUCE_SCATTER, 1,
				i + 1 < job->layers ? 67129344 : 9000000);
		}
		break;
	case SHAPE_MEGATRON:
		for (uint32_t i = 0; i < 4 * job->layers; i++)
			call(run, i ? unit : first_ms, OPERATION_ALL_REDUCE, 1, 16777216);
		break;
	case SHAPE_SEQUENCE:
		for (uint32_t i = 0; i < 2 * job->layers; i++) {
			call(run, i ? unit : first_ms, OPERATION_ALL_GATHER, 1, 16777216);
			call(run, unit, OPERATION_REDUCE_SCATTER, 1, 16777216);
		}
		break;
	case SHAPE_EXPERTS:
		for (uint32_t i = 0; i < 4 * job->layers; i++)
			call(run, i ? unit : first_ms, OPERATION_ALL_TO_ALL, 1,
				8192 * (500 + random_next(&run->random) % 500));
		break;
	case SHAPE_PIPELINE: /* the last stage */
		call(run, first_ms, OPERATION_RECEIVE, 1, 16777216);
		call(run, unit, OPERATION_SEND, 1, 16777216);
		break;
	case SHAPE_NR:
		break;
	}
}

static void gradients(struct program_run *run, const struct job *job)
{
	double unit = job->unit_ms;

	switch (job->shape) {
	case SHAPE_TRAINER:
		call(run, job->optimizer_ms, OPERATION_ALL_GATHER, 1, 8);
		break;
	case SHAPE_TENSOR_NORM:
	case SHAPE_SHARDED_NORM:
		call(run, unit, OPERATION_ALL_REDUCE, 1, 4);
		break;
	case SHAPE_MEGATRON:
	case SHAPE_SEQUENCE:
		call(run, unit, OPERATION_REDUCE_SCATTER, 2, 400000000);
		call(run, unit, OPERATION_ALL_REDUCE, 3, 4);
		call(run, job->optimizer_ms, OPERATION_ALL_GATHER, 2, 400000000);
		break;
	case SHAPE_EXPERTS:
	case SHAPE_PIPELINE:
		for (uint32_t i = 0; i < 8; i++)
			call(run, unit, OPERATION_ALL_REDUCE, 2, 20000000 + 1000 * i);
		break;
	default:
		break;
	}
}

static void between_steps(struct program_run *run, const struct job *job, uint32_t step)
{
	if (job->log_every && step % job->log_every == 0) {
		call(run, 0.6, OPERATION_ALL_GATHER, 1, 4);
		call(run, 1, OPERATION_ALL_GATHER, 1, 4);
	}
	if (job->save_every && step % job->save_every == 0)
		run->now += (int64_t)(300e6 + 100e6 * uniform(&run->random));
	if (job->slow_input_every && step % job->slow_input_every == 0)
		run->now += (int64_t)(20e6 + 5e6 * uniform(&run->random));
	if (job->evaluate_every && step % job->evaluate_every == 0) {
		for (uint32_t i = 0; i < 6; i++) {
			if (job->shape == SHAPE_SHARDED || job->shape == SHAPE_SHARDED_NORM) {
				for (uint32_t j = 0; j < job->layers; j++)
					call(run, job->unit_ms, OPERATION_ALL_GATHER, 1,
						j ? 67129344 : 9000000);
			}
			call(run, job->unit_ms, OPERATION_ALL_REDUCE, 1, 12);
		}
	}
}

static bool check(const struct job *job)
{
	struct step_builder_options options = {.rank = 0};
	struct program_run run = {.random = job->seed, .now = 1000000000};
	double error;

	assert_int_equal(step_builder_create(&options, &run.builder), 0);
	for (uint32_t i = 0; i < 20; i++)
		call(&run, 20, OPERATION_BROADCAST, 1, 100000 + i % 3);
	for (uint32_t step = 1; step <= job->step_count; step++) {
		for (uint32_t i = 0; i < job->micro_batches; i++)
			micro_batch(&run, job,
				job->unit_ms * (job->shape == SHAPE_SHARDED_NORM ||
								       job->shape == SHAPE_SHARDED
							       ? 0.1
							       : 1) +
					(i || job->shape == SHAPE_TRAINER ? 0 : job->optimizer_ms),
				i + 1 == job->micro_batches);
		gradients(&run, job);
		between_steps(&run, job, step);
	}
	step_builder_finish(run.builder);
	take(&run);
	step_builder_destroy(run.builder);
	error = ((double)run.regular - job->step_count) / job->step_count;
	if (error <= 0.02 && error >= -0.02)
		return true;
	print_error("%s, %u layers, %u micro-batches, log %u, save %u, evaluate %u, slow input %u, "
		    "unit %.2f ms, optimizer %.1f "
		    "ms, seed %lu: %lu steps of %u, %lu irregular, %lu windows\n",
		shape_names[job->shape], job->layers, job->micro_batches, job->log_every,
		job->save_every, job->evaluate_every, job->slow_input_every, job->unit_ms,
		job->optimizer_ms, (unsigned long)job->seed, (unsigned long)run.regular,
		job->step_count, (unsigned long)run.irregular, (unsigned long)run.windows);
	return false;
}

static uint32_t one_of(uint64_t *random, const uint32_t *values, uint32_t count)
{
	return values[random_next(random) % count];
}

static void test_shapes(void **state)
{
	static const uint32_t logs[] = {0, 0, 10, 25, 50, 100, 500},
			      saves[] = {0, 0, 0, 10, 50, 100}, evaluations[] = {0, 0, 0, 50, 100},
			      micro_batches[] = {1, 1, 2, 4, 8},
			      layers[] = {8, 12, 16, 24, 32, 40, 80, 100},
			      inputs[] = {0, 0, 0, 0, 2, 4, 8};
	const char *runs = getenv("SLOWRANK_TEST_RUNS"); /* a longer search by hand */
	uint64_t run_count = runs ? strtoull(runs, NULL, 10) : SEEDS_OF(100);
	uint64_t wrong = 0;

	(void)state;
	for (uint64_t seed = 0; seed < run_count; seed++) {
		uint64_t random = seed * 1000003 + 7;
		struct job job = {
			.shape = (enum shape)(seed % SHAPE_NR),
			.layers = one_of(&random, layers, 8),
			.micro_batches = one_of(&random, micro_batches, 5),
			.step_count = 600,
			.log_every = one_of(&random, logs, 7),
			.save_every = one_of(&random, saves, 6),
			.evaluate_every = one_of(&random, evaluations, 5),
			.slow_input_every = one_of(&random, inputs, 7),
			.unit_ms = 0.1 + 3 * uniform(&random),
			.optimizer_ms = 1,
			.seed = seed,
		};
		/* Where calls are alike, nothing but the optimizer's time shows the step. */
		job.optimizer_ms =
			job.unit_ms *
			(job.shape == SHAPE_TENSOR_PARALLEL || job.shape == SHAPE_TENSOR_NORM
					? 8 + 20 * uniform(&random)
					: 2 + 10 * uniform(&random));
		/* What takes longer than a few seconds is found later than is waited for. */
		if (job.layers > 24 && job.micro_batches > 2)
			job.micro_batches = 2;

		wrong += !check(&job);
	}
	assert_int_equal(wrong, 0);
}

/* Equal calls, and before each step a pause hardly longer than others; where a loss is read, a much longer one. */
static void test_slight_pauses(void **state)
{
	static const uint32_t layers[] = {8, 12, 16, 24}, inputs[] = {0, 10, 50};
	uint64_t wrong = 0;

	(void)state;
	for (uint64_t seed = 0; seed < SEEDS_OF(60); seed++) {
		uint64_t random = seed * 1000003 + 7;
		struct job job = {
			.shape = SHAPE_TENSOR_PARALLEL,
			.layers = one_of(&random, layers, 4),
			.micro_batches = 1,
			.step_count = 1000,
			.slow_input_every = one_of(&random, inputs, 3),
			.unit_ms = 0.2 + 0.4 * uniform(&random),
			.seed = seed,
		};

		job.optimizer_ms = job.unit_ms * (3 + uniform(&random));
		wrong += !check(&job);
	}
	assert_int_equal(wrong, 0);
}

/* Equal calls, forward slower than backward, and a slight pause between the two: the optimizer's is the step. */
static void test_two_passes(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < SEEDS_OF(20); seed++) {
		struct step_builder_options options = {.rank = 0};
		struct program_run run = {.random = seed, .now = 1000000000};
		uint32_t layers = 8 + 4 * (uint32_t)(seed % 5), steps = 600;

		assert_int_equal(step_builder_create(&options, &run.builder), 0);
		for (uint32_t i = 0; i < steps * 2 * layers; i++) {
			uint32_t place = i % (2 * layers);
			double work_ms = place == 0	   ? 20
					 : place == layers ? 2.4
					 : place < layers  ? 1.2
							   : 0.8;

			call(&run, work_ms, OPERATION_ALL_REDUCE, 1, 4194304);
		}
		step_builder_finish(run.builder);
		take(&run);
		step_builder_destroy(run.builder);
		assert_in_range(run.regular, steps * 98 / 100, steps * 102 / 100);
	}
}

/* Equal calls that take ten times as long as the work between them, give or take more than the pause before each step (sockets). */
static void test_slow_transfers(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < SEEDS_OF(20); seed++) {
		struct step_builder_options options = {.rank = 0};
		struct program_run run = {.random = seed, .now = 1000000000};
		uint32_t layers = 6 + 5 * (uint32_t)(seed % 4), steps = 300,
			 read_every = seed % 3 ? 10 : UINT32_MAX;

		assert_int_equal(step_builder_create(&options, &run.builder), 0);
		for (uint32_t i = 0; i < steps * 2 * layers; i++) {
			uint32_t place = i % (2 * layers), step = i / (2 * layers);
			double work_ms = place > layers ? 0.9 : 0.45;

			if (!place)
				work_ms = step % read_every ? 2.4 : 8;
			call(&run, work_ms, OPERATION_ALL_REDUCE, 1, 2150000000);
		}
		step_builder_finish(run.builder);
		take(&run);
		step_builder_destroy(run.builder);
		assert_in_range(run.regular, steps * 98 / 100, steps * 102 / 100);
	}
}

static uint64_t regular_of(struct program_run *run)
{
	step_builder_finish(run->builder);
	take(run);
	step_builder_destroy(run->builder);
	return run->regular;
}

/* Two broadcasts of a model's buffers, then gradients. */
static void pictures_step(struct program_run *run, double unit_ms, double input_ms)
{
	call(run, 1 + input_ms, OPERATION_BROADCAST, 1, 212480);
	call(run, 0.2, OPERATION_BROADCAST, 1, 424);
	for (uint32_t i = 0; i < 5; i++)
		call(run, i ? unit_ms : 4 * unit_ms, OPERATION_ALL_REDUCE, 1, 8000000 * (i + 1));
}

/* A loader's workers become slow: every n-th step of a running job waits for them, for a while. They make no step of n. */
static void test_pauses_begin(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < SEEDS_OF(60); seed++) {
		struct step_builder_options options = {.rank = 0};
		struct program_run run = {.random = seed * 1000003 + 7, .now = 1000000000};
		uint32_t workers = 2U << seed % 3, steps = 800;
		uint32_t first = 64 + (uint32_t)(random_next(&run.random) % 200);
		uint32_t last = first + 60 + (uint32_t)(random_next(&run.random) % 200);
		double unit_ms = 1 + 5 * uniform(&run.random);

		assert_int_equal(step_builder_create(&options, &run.builder), 0);
		for (uint32_t i = 0; i < steps; i++) {
			bool waits = i >= first && i < last && i % workers == 0;

			pictures_step(&run, unit_ms, waits ? 150 * unit_ms : 0);
		}
		assert_in_range(regular_of(&run), steps * 98 / 100, steps * 102 / 100);
	}
}

/*
 * Gradients of equal layers, each sent as soon as it is known: a call follows the one before at once or after its layer's
 * work, as its transfer is long or short. In so many places some order comes by chance.
 */
static void test_queued_by_chance(void **state)
{
	uint64_t wrong = 0;

	(void)state;
	for (uint64_t seed = 0; seed < SEEDS_OF(200); seed++) {
		struct step_builder_options options = {.rank = 0};
		struct program_run run = {.random = seed * 1000003 + 7, .now = 1000000000};
		uint32_t layers = 8 + (uint32_t)(seed % 12), steps = 300;

		assert_int_equal(step_builder_create(&options, &run.builder), 0);
		for (uint32_t i = 0; i < steps * 2 * layers; i++) {
			uint32_t place = i % (2 * layers);
			bool queued = random_next(&run.random) % 5 < 2;

			call(&run,
				!place	 ? 12
				: queued ? 0.007
					 : 0.4,
				OPERATION_ALL_REDUCE, 1, place < layers ? 16781312 : 16793600);
		}
		wrong += regular_of(&run) < steps * 98 / 100;
	}
	assert_int_equal(wrong, 0);
}

/* Few buckets, and what comes now and then on another communicator, or after a pause: their lengths show that they are no layers. */
static void test_few_buckets(void **state)
{
	static const uint32_t logs[] = {0, 10, 25}, inputs[] = {0, 8};
	uint64_t wrong = 0;

	(void)state;
	for (uint64_t seed = 0; seed < SEEDS_OF(60); seed++) {
		uint64_t random = seed * 1000003 + 7;
		struct job job = {
			.shape = SHAPE_BUCKETS,
			.layers = 5 + (uint32_t)(seed % 4),
			.micro_batches = 1,
			.step_count = 600,
			.log_every = one_of(&random, logs, 3),
			.save_every = 10,
			.slow_input_every = one_of(&random, inputs, 2),
			.unit_ms = 0.2 + 0.4 * uniform(&random),
			.seed = seed,
		};

		job.optimizer_ms = job.unit_ms * (4 + 8 * uniform(&random));
		wrong += !check(&job);
	}
	assert_int_equal(wrong, 0);
}

/* Steps of few calls, handed out for a while, and an evaluation of many small passes: those are no steps. */
static void test_long_evaluation(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < SEEDS_OF(20); seed++) {
		struct step_builder_options options = {.rank = 0};
		struct program_run run = {.random = seed, .now = 1000000000};
		uint32_t steps = 600, passes = 12 + (uint32_t)(seed % 8);

		assert_int_equal(step_builder_create(&options, &run.builder), 0);
		for (uint32_t i = 1; i <= steps; i++) {
			pictures_step(&run, 4, 0);
			call(&run, 2, OPERATION_ALL_GATHER, 1, 8);
			for (uint32_t j = 0; j < passes && i % 200 == 0; j++) {
				call(&run, 3, OPERATION_ALL_GATHER, 1, 64);
				call(&run, 0.2, OPERATION_ALL_GATHER, 1, 128);
			}
		}
		assert_in_range(regular_of(&run), steps * 99 / 100, steps * 101 / 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_passes),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_slight_pauses),
		cmocka_unit_test(test_slow_transfers),
		cmocka_unit_test(test_pauses_begin),
		cmocka_unit_test(test_queued_by_chance),
		cmocka_unit_test(test_few_buckets),
		cmocka_unit_test(test_long_evaluation),
	};

	return cmocka_run_group_tests_name("step.shapes", tests, NULL, NULL);
}
