/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a batch that holds steps, and what decoding shares. Private to probe/wire. */
#ifndef SLOWRANK_PROBE_WIRE_DECODE_STEPS_H
#define SLOWRANK_PROBE_WIRE_DECODE_STEPS_H

#include "probe/wire/arena.h"
#include "probe/wire/reader.h"

struct message_batch;

/*
 * Reads four fields: communicator ids, tokens, schedules, steps; the inverse of
 * wire_pack_steps(). unpack: into the batch's steps, else packed_steps. Returns 0 or the arena's
 * error; problems of the bytes are left in reader.
 */
int wire_read_steps(struct wire_reader *reader, struct wire_arena *arena, int64_t base, bool unpack,
	struct message_batch *batch) __attribute__((warn_unused_result));

/* cursor + the next number, as quanta within 0..WIRE_QUANTA_MAX. */
int64_t wire_read_quanta_after(struct wire_reader *reader, int64_t cursor);
/* cursor + the next number, which is not negative. */
int64_t wire_read_quanta_length(struct wire_reader *reader, int64_t cursor);

#endif
