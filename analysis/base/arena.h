/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for one step: arrays are taken one after the other, and all of them are given back at once. What a step
 * took in pieces lies in one piece from the next step on, so that steady state asks nobody for memory. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_BASE_ARENA_H
#define SLOWRANK_ANALYSIS_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_block;

/* Zero-initialised is empty. */
struct arena {
	struct arena_block *blocks; /* the latest first */
	bool failed;		    /* some array could not be taken since the last reset */
};
void arena_fini(struct arena *arena);

/* Gives back all that was taken. */
void arena_reset(struct arena *arena);

/*
 * Room for count elements of a size, not set, aligned for any type. NULL without memory, which is remembered: who takes
 * several asks arena_error() once, before the first use.
 */
void *arena_take(struct arena *arena, size_t count, size_t size);
void *arena_take_zeroed(struct arena *arena, size_t count, size_t size);

/* 0 or -ENOMEM. */
int arena_error(const struct arena *arena);

/*
 * What outlives a step, such as what is known of each rank: makes an array of elements of a size at least count
 * long. Its contents stay, and what is new is 0. Returns 0 or -ENOMEM.
 */
int array_grow(void **array, size_t *capacity, size_t count, size_t size)
	__attribute__((warn_unused_result));

#endif
