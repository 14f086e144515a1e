/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pass of the training loop calls: a sequence of collectives, each after its share of
 * the step's work. The same on every rank for the same seed. Pure: no clock, no I/O.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_SCHEDULE_H
#define SLOWRANK_TESTS_WORKLOAD_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum schedule_kind {
	SCHEDULE_DDP = 0,	 /* buckets, then a gradient norm */
	SCHEDULE_ACCUMULATE = 1, /* four micro-batches with a loss each, then the buckets */
	SCHEDULE_EVAL = 2,	 /* ddp, with an evaluation pass every 40 steps */
	SCHEDULE_CHANGING = 3,	 /* ddp; halfway the batch changes: other buckets, other count */
	SCHEDULE_NESTED = 4, /* an inner loop of equal pairs, its length fixed, then the buckets */
	SCHEDULE_IRREGULAR = 5, /* warm-up, evaluations at odd distances, checkpoints, changes */
	SCHEDULE_KIND_NR
};
const char *schedule_kind_name(enum schedule_kind kind);
/* Returns false for a name it does not know. */
bool schedule_kind_parse(const char *name, enum schedule_kind *kind);

enum collective {
	COLLECTIVE_ALL_REDUCE = 0,
	COLLECTIVE_ALL_GATHER = 1,
	COLLECTIVE_REDUCE_SCATTER = 2,
	COLLECTIVE_BROADCAST = 3,
	COLLECTIVE_BARRIER = 4,
	COLLECTIVE_REDUCE = 5,
};

enum pass_kind {
	PASS_TRAIN = 0, /* a true step */
	PASS_WARM_UP = 1,
	PASS_EVALUATE = 2,
	PASS_CHECKPOINT = 3,
	PASS_END = 4, /* no more passes */
};
const char *pass_kind_name(enum pass_kind kind);

enum { SCHEDULE_COLLECTIVES_MAX = 4096, SCHEDULE_ITEMS_MAX = SCHEDULE_COLLECTIVES_MAX + 64 };

struct schedule_item {
	enum collective collective;
	bool group;	      /* on the rank's group, not on the world */
	size_t element_count; /* of 4 bytes; per rank for gathers and scatters */
	double share;	      /* of the step's work that comes before it */
};

struct schedule_options {
	enum schedule_kind kind;
	uint64_t step_count;  /* true steps */
	uint32_t collectives; /* per step of kind ddp, 1 to SCHEDULE_COLLECTIVES_MAX */
	size_t length_bytes;  /* of all buckets of a step together */
	bool split;	      /* every second bucket on the rank's group */
	uint64_t seed;
};

struct schedule {
	struct schedule_options options;
	uint64_t step;	      /* true steps handed out so far */
	uint64_t pass_count;  /* all passes handed out so far */
	uint64_t other_count; /* passes that are no true step */
	uint64_t next_evaluation;
	uint64_t random;
};

void schedule_init(struct schedule *schedule, const struct schedule_options *options);

/*
 * Hands out the next pass: its kind and its items, at most SCHEDULE_ITEMS_MAX. *step is the
 * number of the true step, from 0, or of the next one for other passes.
 */
enum pass_kind schedule_next(
	struct schedule *schedule, struct schedule_item *items, size_t *item_count, uint64_t *step);

/* The largest item_count * element size over all passes, in bytes, for a world of that size. */
size_t schedule_buffer_bytes(const struct schedule_options *options, uint32_t world_size);

/* splitmix64: the next number of a sequence. */
uint64_t random_next(uint64_t *state);

#endif
