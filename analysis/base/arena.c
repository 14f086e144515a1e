/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/base/arena.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
	struct arena_block *before;
	size_t capacity, used; /* of memory, in its elements */
	max_align_t memory[];
};

#define BYTES_MAX (PTRDIFF_MAX >> 24) /* 512 GiB: more than any machine gives to one array */

/* False: it is more than there can be. */
static bool fits(size_t count, size_t size, size_t *bytes)
{
	return !__builtin_mul_overflow(count, size, bytes) && *bytes <= BYTES_MAX;
}

static void free_blocks(struct arena *arena)
{
	while (arena->blocks) {
		struct arena_block *before = arena->blocks->before;

		free(arena->blocks);
		arena->blocks = before;
	}
}

static void add_block(struct arena *arena, size_t capacity)
{
	struct arena_block *block = malloc(sizeof(*block) + capacity * sizeof(max_align_t));

	if (!block)
		return;
	*block = (struct arena_block){.before = arena->blocks, .capacity = capacity};
	arena->blocks = block;
}

void arena_fini(struct arena *arena)
{
	free_blocks(arena);
	arena->failed = false;
}

void arena_reset(struct arena *arena)
{
	size_t used = 0;

	arena->failed = false;
	if (!arena->blocks)
		return;
	for (const struct arena_block *block = arena->blocks; block; block = block->before)
		used += block->used;
	if (arena->blocks->before) {
		free_blocks(arena);
		add_block(arena, used + used / 4);
	}
	if (arena->blocks)
		arena->blocks->used = 0;
}

void *arena_take(struct arena *arena, size_t count, size_t size)
{
	struct arena_block *block = arena->blocks;
	size_t bytes, needed;

	if (!fits(count, size, &bytes)) {
		arena->failed = true;
		return NULL;
	}
	needed = bytes / sizeof(max_align_t) + 1;
	if (!block || block->capacity - block->used < needed) {
		add_block(arena, needed);
		if (arena->blocks == block) {
			arena->failed = true;
			return NULL;
		}
		block = arena->blocks;
	}
	block->used += needed;
	return &block->memory[block->used - needed];
}

void *arena_take_zeroed(struct arena *arena, size_t count, size_t size)
{
	void *taken = arena_take(arena, count, size);

	return taken ? memset(taken, 0, count * size) : NULL;
}

int arena_error(const struct arena *arena)
{
	return arena->failed ? -ENOMEM : 0;
}

int array_grow(void **array, size_t *capacity, size_t count, size_t size)
{
	size_t grown_count, bytes;
	void *grown;

	if (count <= *capacity)
		return 0;
	grown_count = count + count / 8;
	if (!fits(grown_count, size, &bytes))
		return -ENOMEM;
	grown = reallocarray(*array, grown_count, size);
	if (!grown)
		return -ENOMEM;
	memset((char *)grown + *capacity * size, 0, (grown_count - *capacity) * size);
	*array = grown;
	*capacity = grown_count;
	return 0;
}
