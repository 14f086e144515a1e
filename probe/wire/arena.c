/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#include "probe/wire/arena.h"

enum {
	ALIGNMENT = alignof(max_align_t),
	CHUNK_BYTES = 64 * 1024, /* below the size from which malloc() asks the kernel each time */
};

struct wire_arena_chunk {
	struct wire_arena_chunk *older;
	size_t length_bytes; /* of bytes */
	alignas(max_align_t) unsigned char bytes[];
};

void wire_arena_init(struct wire_arena *arena, size_t limit_bytes)
{
	*arena = (struct wire_arena){.limit_bytes = limit_bytes};
}

void wire_arena_fini(struct wire_arena *arena)
{
	struct wire_arena_chunk *chunk = arena->chunks;

	while (chunk) {
		struct wire_arena_chunk *older = chunk->older;

		free(chunk);
		chunk = older;
	}
	*arena = (struct wire_arena){0};
}

static int add_chunk(struct wire_arena *arena, size_t length)
{
	size_t chunk_length = length > CHUNK_BYTES ? length : CHUNK_BYTES;
	struct wire_arena_chunk *chunk;

	if (chunk_length > arena->limit_bytes - arena->taken_bytes)
		return -EMSGSIZE;
	chunk = malloc(sizeof(*chunk) + chunk_length);
	if (!chunk)
		return -ENOMEM;
	chunk->older = arena->chunks;
	chunk->length_bytes = chunk_length;
	arena->chunks = chunk;
	arena->free_bytes = chunk_length;
	arena->taken_bytes += chunk_length;
	return 0;
}

void *wire_arena_take(struct wire_arena *arena, size_t count, size_t size)
{
	unsigned char *taken;
	size_t length;

	if (arena->error) /* it stays: who takes several looks once */
		return NULL;
	if (__builtin_mul_overflow(count, size, &length) || length > arena->limit_bytes) {
		arena->error = -EMSGSIZE;
		return NULL;
	}
	length = (length + ALIGNMENT - 1) & ~((size_t)ALIGNMENT - 1);
	if (length > arena->free_bytes || !arena->chunks) {
		arena->error = add_chunk(arena, length);
		if (arena->error)
			return NULL;
	}
	taken = arena->chunks->bytes + arena->chunks->length_bytes - arena->free_bytes;
	arena->free_bytes -= length;
	return taken;
}
