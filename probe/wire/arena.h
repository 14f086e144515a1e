/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one decoded message: taken piece by piece, freed at once, bounded. One thread. */
#ifndef SLOWRANK_PROBE_WIRE_ARENA_H
#define SLOWRANK_PROBE_WIRE_ARENA_H

#include <stddef.h>

struct wire_arena_chunk;

struct wire_arena {
	struct wire_arena_chunk *chunks;
	size_t free_bytes;  /* at the end of the newest chunk */
	size_t taken_bytes; /* by chunks */
	size_t limit_bytes;
	int error; /* why a take failed: -ENOMEM, or -EMSGSIZE over the limit */
};

void wire_arena_init(struct wire_arena *arena, size_t limit_bytes);
void wire_arena_fini(struct wire_arena *arena);
/* Takes count * size bytes, aligned for any type, not cleared. NULL: see error. */
void *wire_arena_take(struct wire_arena *arena, size_t count, size_t size);

#endif
