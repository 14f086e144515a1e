/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a coordinator came to, as it stands in the record beside the batches: verdicts, and sums from the job's begin
 * on. Bytes of another's file: every number is checked. No state; any thread.
 */
#ifndef SLOWRANK_COORDINATOR_HISTORY_SUMS_H
#define SLOWRANK_COORDINATOR_HISTORY_SUMS_H

#include "coordinator/report/model.h"

enum {
	SUMS_RANKS_MAX = 1024,	     /* in one frame */
	SUMS_VERDICTS_MAX = 65536,   /* ids are below */
	SUMS_BYTES_MAX = 512 * 1024, /* of each of the three when encoded */
	SUMS_TEXT_BYTES = STEP_NAME_LENGTH_MAX + 1,
};

struct sums_rank {
	struct rank_totals totals;
	bool known;
	uint32_t pid;
	uint8_t exited;
	int32_t exit_code;
	char host[SUMS_TEXT_BYTES];
};

struct sums_job {
	char job_id[SUMS_TEXT_BYTES];
	uint32_t world_size, node_count;
	uint8_t enqueue_only;
	int64_t unix_offset_ns;
	struct job_totals totals;
	size_t cost_count;
	struct job_cost costs[COSTS_MAX];
	struct message_counters counters;
	double probe_cpu_percent;
	uint64_t frames, frames_refused;
	size_t source_count;
	struct report_source sources[WIRE_SOURCES_MAX];
};

struct sums_ranks {
	size_t count;
	struct sums_rank ranks[SUMS_RANKS_MAX];
};

/* What a report says of one rank, or of the job. */
struct sums_rank sums_of_rank(const struct report_rank *rank);
struct sums_job sums_of_job(const struct report_model *model);

/* Into SUMS_BYTES_MAX bytes. Return how many. */
size_t sums_put_verdict(const struct verdict *verdict, uint8_t *bytes);
size_t sums_put_job(const struct sums_job *job, uint8_t *bytes);
size_t sums_put_ranks(struct sums_ranks *ranks, uint8_t *bytes);

/* Return 0, or -EBADMSG for bytes that are none, or of a later version; what they point to is then undefined. */
int sums_get_verdict(const uint8_t *bytes, size_t length, struct verdict *verdict)
	__attribute__((warn_unused_result));
int sums_get_job(const uint8_t *bytes, size_t length, struct sums_job *job)
	__attribute__((warn_unused_result));
int sums_get_ranks(const uint8_t *bytes, size_t length, struct sums_ranks *ranks)
	__attribute__((warn_unused_result));

#endif
