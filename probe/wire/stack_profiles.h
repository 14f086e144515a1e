/* SPDX-License-Identifier: Apache-2.0 */
/* The stack profiles of a batch, private to probe/wire. One thread. */
#ifndef SLOWRANK_PROBE_WIRE_STACK_PROFILES_H
#define SLOWRANK_PROBE_WIRE_STACK_PROFILES_H

#include "probe/wire/arena.h"
#include "probe/wire/message.h"
#include "probe/wire/pack.h"
#include "probe/wire/reader.h"

/* Returns 0, or -EINVAL for a profile that is not valid. cursor: what times count from, in quanta. */
int wire_pack_stack_profiles(struct wire_packer *packer, const struct message_batch *batch,
	int64_t cursor) __attribute__((warn_unused_result));
/* Returns 0, -ENOMEM or -EMSGSIZE; what is damaged is noted in the reader. */
int wire_read_stack_profiles(struct wire_reader *reader, struct wire_arena *arena, int64_t cursor,
	struct message_batch *batch) __attribute__((warn_unused_result));

#endif
