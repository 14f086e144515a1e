/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns messages into bytes: msgpack positional arrays, laid out in docs/wire.md. No state
 * between calls: every batch can be decoded alone. Functions may be called from any thread on
 * different buffers.
 *
 * What encoding changes, so that a batch stays small:
 *  - times of steps, parts, intervals and samples are rounded to the nearest 100 ns of the
 *    host's clock (WIRE_TIME_QUANTUM_NS). Rounding is the same everywhere, so order, equality
 *    and end >= start survive; a length may differ by 100 ns.
 *  - activity times are rounded to 100 ns; an activity of less than 1 us altogether and without
 *    a major fault is sent as none (WIRE_ACTIVITY_NOISE_NS).
 *  - what a step or part may not have is repaired: a negative time becomes 0, an end before its
 *    start becomes the start, parts out of order are sorted by arrival.
 *  - bytes in names that are not UTF-8, and control characters, become '?'.
 */
#ifndef SLOWRANK_PROBE_WIRE_ENCODE_H
#define SLOWRANK_PROBE_WIRE_ENCODE_H

#include "probe/wire/message.h"

/* Bytes that grow as needed. Start with {0}; may be used for one encoding after another. */
struct wire_buffer {
	uint8_t *bytes;
	size_t length;	 /* bytes in use */
	size_t capacity; /* bytes allocated */
};

/* Frees the bytes and makes the buffer {0} again. NULL is fine. */
void wire_buffer_fini(struct wire_buffer *buffer);

/*
 * Encodes a message into buffer, in place of what it held; the buffer keeps its memory for the
 * next one. Returns 0; -EINVAL for a rank of STEP_RANK_COUNT_MAX or more; -EMSGSIZE when a
 * count is over its limit in message.h or the bytes are over WIRE_MESSAGE_LENGTH_MAX (send
 * fewer steps at a time); -ENOMEM. After a failure buffer->length is 0.
 */
int wire_encode_batch(const struct message_batch *batch, struct wire_buffer *buffer)
	__attribute__((warn_unused_result));
int wire_encode_reply(const struct message_reply *reply, struct wire_buffer *buffer)
	__attribute__((warn_unused_result));
int wire_encode_question(const struct message_question *question, struct wire_buffer *buffer)
	__attribute__((warn_unused_result));
/* -EMSGSIZE over WIRE_ANSWER_LENGTH_MAX, too. */
int wire_encode_answer(const struct message_answer *answer, struct wire_buffer *buffer)
	__attribute__((warn_unused_result));

#endif
