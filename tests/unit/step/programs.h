/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that call collectives in known steps, for tests of step detection: what training
 * loops of several kinds do, call by call, with the truth of how many steps there were.
 */
#ifndef SLOWRANK_TESTS_UNIT_STEP_PROGRAMS_H
#define SLOWRANK_TESTS_UNIT_STEP_PROGRAMS_H

#include <stdlib.h>

#include "analysis/base/step.h"

struct call {
	uint64_t communicator;
	uint64_t length_bytes;
	int32_t root;
	uint8_t operation;
	uint8_t first_of_step; /* 1: a training step starts here */
};

struct calls {
	struct call *items;
	size_t count, capacity;
	uint64_t step_count; /* training steps begun */
	uint64_t random;
};

static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline void call_add(struct calls *calls, enum operation operation, uint64_t communicator,
	uint64_t length_bytes, int32_t root)
{
	if (calls->count == calls->capacity) {
		calls->capacity = calls->capacity ? 2 * calls->capacity : 1024;
		calls->items = realloc(calls->items, calls->capacity * sizeof(*calls->items));
		if (!calls->items)
			abort();
	}
	calls->items[calls->count++] = (struct call){.communicator = communicator,
		.length_bytes = length_bytes,
		.root = root,
		.operation = (uint8_t)operation};
}

static inline void all_reduce(struct calls *calls, uint64_t communicator, uint64_t length_bytes)
{
	call_add(calls, OPERATION_ALL_REDUCE, communicator, length_bytes, STEP_ROOT_NONE);
}

enum program_kind {
	PROGRAM_ONE = 0,	    /* one all-reduce a step */
	PROGRAM_DDP = 1,	    /* buckets of different lengths, one communicator */
	PROGRAM_DDP_SPLIT = 2,	    /* every second bucket on a group */
	PROGRAM_ACCUMULATE = 3,	    /* equal micro-steps, then buckets */
	PROGRAM_NESTED = 4,	    /* equal all-reduces, then one on another communicator */
	PROGRAM_NESTED_TWICE = 5,   /* loops in loops */
	PROGRAM_PIPELINE = 6,	    /* receive, layers, send for each micro-batch, then gradients */
	PROGRAM_SHARDED = 7,	    /* gathers forward, gathers and scatters backward */
	PROGRAM_VARIABLE = 8,	    /* lengths differ in every step */
	PROGRAM_EXPERTS = 9,	    /* all-to-alls of varying lengths between fixed all-reduces */
	PROGRAM_LONG = 10,	    /* thousands of different calls */
	PROGRAM_PAIR_VARIABLE = 11, /* two calls a step, both of varying length */
	PROGRAM_NR
};

static const char *const program_names[PROGRAM_NR] = {"one", "ddp", "ddp-split", "accumulate",
	"nested", "nested-twice", "pipeline", "sharded", "variable", "experts", "long",
	"pair-variable"};

struct program {
	enum program_kind kind;
	uint64_t step_count;
	uint32_t size;		 /* calls of a step, roughly; layers for PIPELINE and SHARDED */
	uint32_t rounds;	 /* micro-batches, inner loops */
	uint32_t evaluate_every; /* 0 = never */
	bool evaluate_at_random; /* distances vary around evaluate_every */
	uint32_t barrier_every;	 /* checkpoint: a barrier between two steps, about that often */
	bool changed_batch;	 /* half-way: other lengths, two calls more */
	uint32_t warm_up;	 /* broadcasts at the start */
};

static inline void program_long_step(struct calls *calls, const struct program *program)
{
	uint64_t random = 42;

	for (uint32_t i = 0; i < program->size; i++) {
		uint64_t value = random_next(&random);

		call_add(calls, (enum operation)(1 + value % 8), 1 + value / 8 % 4,
			256 + value / 64 % 65536, STEP_ROOT_NONE);
	}
}

static inline void program_step(struct calls *calls, const struct program *program, bool second)
{
	uint64_t unit = second ? 3000 : 4000;
	uint32_t size = program->size + (second ? 2 : 0);

	switch (program->kind) {
	case PROGRAM_ONE:
		all_reduce(calls, 1, unit);
		break;
	case PROGRAM_DDP:
	case PROGRAM_DDP_SPLIT:
		for (uint32_t i = 0; i < size; i++)
			all_reduce(calls, program->kind == PROGRAM_DDP_SPLIT && i % 2 ? 2 : 1,
				unit * (i + 1));
		break;
	case PROGRAM_ACCUMULATE:
		for (uint32_t i = 0; i < program->rounds; i++) {
			for (uint32_t j = 0; j < size; j++)
				all_reduce(calls, 1, unit);
		}
		call_add(calls, OPERATION_REDUCE_SCATTER, 1, unit * 7, STEP_ROOT_NONE);
		break;
	case PROGRAM_NESTED:
		for (uint32_t i = 0; i < program->rounds; i++)
			all_reduce(calls, 1, unit);
		all_reduce(calls, 2, unit * 9);
		break;
	case PROGRAM_NESTED_TWICE:
		for (uint32_t i = 0; i < program->rounds; i++) {
			for (uint32_t j = 0; j < size; j++)
				all_reduce(calls, 1, unit);
			call_add(calls, OPERATION_ALL_GATHER, 1, unit, STEP_ROOT_NONE);
		}
		call_add(calls, OPERATION_BROADCAST, 3, 64, 0);
		all_reduce(calls, 2, unit * 9);
		break;
	case PROGRAM_PIPELINE:
		for (uint32_t i = 0; i < program->rounds; i++) {
			call_add(calls, OPERATION_RECEIVE, 5, unit, 0);
			for (uint32_t j = 0; j < 2 * size; j++)
				all_reduce(calls, 1, unit);
			call_add(calls, OPERATION_SEND, 5, unit, 1);
		}
		for (uint32_t i = 0; i < program->rounds; i++) {
			call_add(calls, OPERATION_RECEIVE, 5, unit, 1);
			for (uint32_t j = 0; j < 2 * size; j++)
				all_reduce(calls, 1, unit);
			call_add(calls, OPERATION_SEND, 5, unit, 0);
		}
		for (uint32_t i = 0; i < 3; i++)
			all_reduce(calls, 2, unit * (i + 5));
		break;
	case PROGRAM_SHARDED:
		for (uint32_t i = 0; i < size; i++)
			call_add(calls, OPERATION_ALL_GATHER, 1, unit, STEP_ROOT_NONE);
		for (uint32_t i = 0; i < size; i++) {
			call_add(calls, OPERATION_ALL_GATHER, 1, unit, STEP_ROOT_NONE);
			call_add(calls, OPERATION_REDUCE_SCATTER, 1, unit, STEP_ROOT_NONE);
		}
		break;
	case PROGRAM_VARIABLE:
		for (uint32_t i = 0; i < size; i++) {
			all_reduce(calls, 1, 8 * (1 + random_next(&calls->random) % 4096));
			call_add(calls, OPERATION_ALL_GATHER, 1,
				8 * (1 + random_next(&calls->random) % 4096), STEP_ROOT_NONE);
		}
		all_reduce(calls, 2, unit);
		break;
	case PROGRAM_EXPERTS:
		for (uint32_t i = 0; i < size; i++) {
			all_reduce(calls, 1, unit);
			for (uint32_t j = 0; j < 2; j++)
				call_add(calls, OPERATION_ALL_TO_ALL, 4,
					8 * (1 + random_next(&calls->random) % 512),
					STEP_ROOT_NONE);
		}
		for (uint32_t i = 0; i < 4; i++)
			all_reduce(calls, 2, unit * (i + 2));
		break;
	case PROGRAM_LONG:
		program_long_step(calls, program);
		break;
	case PROGRAM_PAIR_VARIABLE:
		all_reduce(calls, 1, 8 * (1 + random_next(&calls->random) % 100000));
		call_add(calls, OPERATION_ALL_GATHER, 1,
			8 * (1 + random_next(&calls->random) % 100000), STEP_ROOT_NONE);
		break;
	case PROGRAM_NR:
		break;
	}
}

static inline void program_evaluate(struct calls *calls)
{
	uint64_t batches = 3 + random_next(&calls->random) % 5;

	for (uint64_t i = 0; i < batches; i++)
		all_reduce(calls, 1, 12);
	call_add(calls, OPERATION_GATHER, 1, 64, 0);
}

/* The calls of a whole run. The caller frees items. */
static inline struct calls program_run(const struct program *program, uint64_t seed)
{
	struct calls calls = {.random = seed};
	uint64_t next_evaluation = program->evaluate_every;

	for (uint32_t i = 0; i < program->warm_up; i++)
		call_add(&calls, OPERATION_BROADCAST, 1, 4096 + 8 * (i % 7), 0);
	for (uint64_t step = 0; step < program->step_count; step++) {
		size_t first = calls.count;

		program_step(
			&calls, program, program->changed_batch && step >= program->step_count / 2);
		calls.items[first].first_of_step = 1;
		calls.step_count++;
		if (program->evaluate_every && step + 1 == next_evaluation) {
			program_evaluate(&calls);
			next_evaluation += program->evaluate_every;
			if (program->evaluate_at_random)
				next_evaluation +=
					random_next(&calls.random) % program->evaluate_every;
		}
		if (program->barrier_every &&
			random_next(&calls.random) % program->barrier_every == 0)
			call_add(&calls, OPERATION_BARRIER, 1, 0, STEP_ROOT_NONE);
	}
	return calls;
}

#endif
