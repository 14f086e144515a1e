/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by pipeline_hang.c, which finds who is missing, and pipeline_hang_text.c, which says where
 * they are. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_PIPELINE_HANG_INTERNAL_H
#define SLOWRANK_COORDINATOR_PIPELINE_HANG_INTERNAL_H

#include "coordinator/pipeline_hang.h"

struct meeting_place {
	struct hang_call call;
	size_t missing_count; /* in pipeline_hang.missing */
	size_t inside_count, member_count;
	bool begun, all_begun; /* of those inside: on some device, on all */
	bool for_anybody;      /* whom they wait for is not known: it may be anybody who moves */
};

enum hang_end { HANG_FOUND = 0, HANG_CIRCLE = 1 };

/* What the rank waits in: where its device is known to wait, that; kind OPEN_CALL_NONE: in nothing. */
static inline struct hang_call pipeline_hang_call(const struct hang_rank *rank)
{
	if (!rank->listed)
		return (struct hang_call){.kind = OPEN_CALL_NONE};
	return rank->device.kind == OPEN_CALL_NONE ? rank->host : rank->device;
}

/* Writes what is waited for and, for each who is missing, where it is; finding has the ranks. */
void pipeline_hang_describe(const struct pipeline_hang *hang, const struct rank_table *table,
	const struct meeting_place *place, enum hang_end end, struct job_ns now,
	struct hang_finding *finding);

#endif
