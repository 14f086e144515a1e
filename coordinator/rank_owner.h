/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank belongs to the probe that announced it, as long as that one is heard: another probe that speaks
 * of the rank is refused, not merged. No clock: times come with the batches. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_RANK_OWNER_H
#define SLOWRANK_COORDINATOR_RANK_OWNER_H

#include "coordinator/probe_table.h"
#include "coordinator/rank_table.h"

/* A probe samples once a second; one that was killed with its rank must not hold back the next for long. */
enum { RANK_OWNER_SILENCE_MS = 5000 };

/*
 * Returns true when the batch speaks of a rank that another probe announced, which has neither said
 * that the rank ended nor been silent for RANK_OWNER_SILENCE_MS. *rank is the first such rank. Where
 * batches are proven, one that announces the rank with more restarts is the next start of the same job,
 * and takes it at once.
 */
bool rank_owner_conflicts(const struct rank_table *ranks, const struct probe_table *probes,
	const struct message_batch *batch, struct job_ns received, bool proven, uint32_t *rank);

/* Whether a probe was heard within RANK_OWNER_SILENCE_MS; NULL was not. */
bool rank_owner_is_heard(const struct probe_entry *probe, struct job_ns received);

#endif
