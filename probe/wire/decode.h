/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns bytes from the network or a record back into messages, trusting none of them: every
 * claimed length is checked against the bytes that are left before memory is taken, and the
 * memory of one message is bounded (WIRE_DECODED_BYTES_MAX). No state; any thread.
 */
#ifndef SLOWRANK_PROBE_WIRE_DECODE_H
#define SLOWRANK_PROBE_WIRE_DECODE_H

#include "probe/wire/message.h"

enum { WIRE_DECODED_BYTES_MAX = 128 * 1024 * 1024 };

/*
 * Decodes one message. Returns 0; -EPROTONOSUPPORT for another wire version; -EBADMSG
 * for bytes that are not such a message; -EMSGSIZE over a limit; -ENOMEM. On failure why (when
 * not NULL) holds one line that says what is wrong, and the result is untouched.
 *
 * A decoded batch keeps these promises: ranks are below STEP_RANK_COUNT_MAX; counts are within
 * the limits of message.h; strings are UTF-8 without control characters and end in a NUL; times
 * are not negative; no end is before its start; parts are in order of arrival; a step's four
 * times are not negative; stack profiles are valid (stack_profile_is_valid()). Enums may hold numbers that this version does not know.
 *
 * The caller owns *batch and frees it with message_batch_destroy().
 */
int wire_decode_batch(const void *bytes, size_t length, struct message_batch **batch,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));
/* The same, with packed_steps (packed_steps.h) instead of steps: a quarter of the time and memory. */
int wire_decode_packed_batch(const void *bytes, size_t length, struct message_batch **batch,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));
int wire_decode_reply(const void *bytes, size_t length, struct message_reply *reply,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));

int wire_decode_question(const void *bytes, size_t length, struct message_question *question,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));
/* The caller owns *answer and frees it with message_answer_destroy(). Its looks are as those of a decoded batch. */
int wire_decode_answer(const void *bytes, size_t length, struct message_answer **answer,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));

/* Whose batch or question it is, of its first bytes: the rest is not looked at. Returns 0; -EPROTONOSUPPORT; -EBADMSG. */
int wire_sender_id(const void *bytes, size_t length, uint64_t *sender_id)
	__attribute__((warn_unused_result));

/* Frees what one of these made, and nothing else. NULL is fine. */
void message_batch_destroy(struct message_batch *batch);
void message_answer_destroy(struct message_answer *answer);

#endif
