/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a batch that holds steps. Private to probe/wire. */
#ifndef SLOWRANK_PROBE_WIRE_ENCODE_STEPS_H
#define SLOWRANK_PROBE_WIRE_ENCODE_STEPS_H

#include "probe/wire/pack.h"

/*
 * Packs four fields: communicator ids, tokens, schedules, steps. base: quanta that the first
 * start is counted from. Returns 0, -EINVAL (rank), -EMSGSIZE (counts) or -ENOMEM; errors of
 * the packer itself are left to wire_pack_finish().
 */
int wire_pack_steps(struct wire_packer *packer, const struct step_entry *steps, size_t step_count,
	int64_t base) __attribute__((warn_unused_result));

#endif
