/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that a report says, as plain values: filled by the pipeline, written by text.c and
 * json.c. The pipeline owns the arrays; they stay valid until it is destroyed or fed again.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_MODEL_H
#define SLOWRANK_COORDINATOR_REPORT_MODEL_H

#include "analysis/base/verdict.h"
#include "coordinator/output/alert_gate.h"
#include "probe/wire/message.h"

/* What a rank did when its probe last listed it as one that has not moved. */
struct report_stall {
	bool known;
	uint8_t kind, state; /* enum open_call_kind; the letter of /proc/PID/stat */
	char where[OPEN_CALL_WHERE_LENGTH];
	struct message_stall told;
	struct job_ns seen, since, launched; /* launched: of the device's call */
};

struct report_rank {
	struct rank_totals totals;
	uint32_t pid;
	uint8_t exited;
	int32_t exit_code;
	const char *host;
	const struct kernel_profile *look; /* its newest deep look; NULL = none */
	const struct report_stall *stall;  /* NULL = none, or a probe that does not tell */
};

struct report_source {
	struct message_source source; /* the worst state over all probes */
	uint32_t probe_count;	      /* probes that report it */
	uint32_t on_count;	      /* of these, on or degraded */
};

/* What one rank did for another over RDMA, all their queue pairs together. */
struct report_pair {
	uint32_t rank;
	uint32_t peer; /* STEP_RANK_UNKNOWN: the other end is not a rank that is seen */
	uint32_t queue_pairs, live;
	uint8_t timeout, retry_count; /* the last one's */
	uint16_t flags;		      /* enum message_queue_pair_flag of any of them */
	uint64_t posted_requests, posted_bytes, read_bytes, post_errors;
	uint64_t completed_requests, completed_bytes;
	uint64_t received_requests, received_bytes;
	uint64_t latency_count, latency_sum_ns, latency_max_ns, latency_unmeasured;
	uint64_t statuses[WIRE_QUEUE_PAIR_STATUS_NR];
	uint64_t latency[WIRE_QUEUE_PAIR_BUCKET_NR];
	double bytes_per_s; /* completed, while it was heard of; negative: not measurable */
	double port_loss;   /* retransmits per packet of the ports that the rank uses, likewise */
};

/* Batches of which the record has sums alone. */
struct report_stretch {
	struct job_ns first, last; /* when they were received */
	uint64_t batches;
};

enum { REPORT_RANKS_LENGTH = 80 };

struct report_sheets;

struct report_model {
	const char *job_id;
	uint32_t rank_count; /* ranks seen */
	uint32_t world_size; /* what the job says; 0 = unknown */
	/* Of it those that were not seen, and those whose probe came late ("2-3, 7", cut). */
	char missing_ranks[REPORT_RANKS_LENGTH], late_ranks[REPORT_RANKS_LENGTH];
	uint32_t late_count;
	double late_s; /* the latest, behind the first */
	uint32_t node_count;
	int64_t unix_offset_ns; /* add to job_ns for the time of the epoch */
	struct job_totals totals;
	size_t verdict_count;
	const struct verdict *verdicts;		/* by id */
	const struct stack_looks *stacks;	/* explain/stack_looks.h; NULL: none */
	const struct stack_looks *asked_stacks; /* those that somebody asked for; NULL: none */
	const struct alert_gate *alerts;	/* which were alerted of; NULL: all */
	size_t cost_count;
	const struct job_cost *costs;	 /* by kind, the dearest first */
	const struct report_rank *ranks; /* rank_count of them, by rank */
	size_t source_count;
	const struct report_source *sources;
	struct message_counters counters; /* summed over probes; resident_bytes: the largest */
	double probe_cpu_percent;	  /* of one core, the worst probe */
	struct job_ns last_heard;	  /* when the newest batch came that the record holds */
	size_t pair_count;
	const struct report_pair *pairs;    /* by rank, then by peer */
	const struct report_sheets *sheets; /* why ranks were named, or not; NULL: nobody asked */
	uint64_t pairs_unseen;		    /* updates of queue pairs beyond what is kept */
	size_t summed_count;
	const struct report_stretch *summed; /* in order of time */
	uint64_t frames;
	uint64_t frames_refused;
	uint8_t record_truncated; /* 1: the record ends in the middle of a frame */
	uint8_t enqueue_only; /* 1: some collectives were seen by enqueue time only: not judged */
};

#endif
