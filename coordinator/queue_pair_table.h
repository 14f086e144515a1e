/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RDMA queue pairs of all ranks, and whose other end each one is: a queue pair's peer is known
 * by number and address (gid or lid) from both sides, so two ranks are joined when each names the
 * other. What two queue pairs claim is attributed to neither. Counts go on as increments per pair of ranks.
 * Bounded; what is beyond is counted. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_QUEUE_PAIR_TABLE_H
#define SLOWRANK_COORDINATOR_QUEUE_PAIR_TABLE_H

#include "analysis/locate/link_flows.h"
#include "coordinator/report/model.h"

enum {
	QUEUE_PAIRS_MAX = 1 << 18,    /* of the job; about 700 bytes each */
	QUEUE_PAIR_MATCHES_MAX = 256, /* entries of one address and number that are looked at */
};

struct queue_pair_entry {
	struct message_queue_pair last;	  /* its latest counts */
	struct message_queue_pair before; /* of an earlier owner of the same number: sums */
	struct job_ns first_time, last_time;
	uint64_t first_bytes; /* completed, when first heard of */
	uint32_t peer_rank;   /* STEP_RANK_UNKNOWN: not joined */
	bool indexed;
	/* What the analysis was told of. */
	uint64_t told_count, told_sum_ns, told_retries, told_posted, told_read;
};

/* Growth of the port counters that a rank's probe tells. */
struct port_growth {
	bool has_retransmits, has_packets;
	int64_t first_retransmits, last_retransmits, first_packets, last_packets;
};

struct queue_pair_table {
	struct queue_pair_entry *entries;
	size_t count, capacity, most; /* most: QUEUE_PAIRS_MAX, or less in a small job */
	uint32_t *by_name;	      /* hash tables: index + 1 */
	uint32_t *by_address;
	size_t place_count;
	struct port_growth *ports; /* by rank */
	size_t port_capacity;
	uint64_t unseen; /* updates of queue pairs beyond the limit */
	struct report_pair *report;
	size_t report_capacity;
};

void queue_pair_table_init(struct queue_pair_table *table);
void queue_pair_table_fini(struct queue_pair_table *table);

/*
 * Takes the latest counts of a queue pair. *has_sample: *sample says what went on since the last
 * time, when the other end is known. Returns 0 or -ENOMEM.
 */
int queue_pair_table_take(struct queue_pair_table *table, const struct message_queue_pair *pair,
	struct job_ns time, struct link_sample *sample, bool *has_sample)
	__attribute__((warn_unused_result));

/* Port counters among the samples of a rank; others are passed over. Returns 0 or -ENOMEM. */
int queue_pair_table_sample(struct queue_pair_table *table, const struct metric_sample *sample)
	__attribute__((warn_unused_result));

/* All pairs of ranks, by rank and peer, into the model; valid until the next call. */
void queue_pair_table_report(struct queue_pair_table *table, struct report_model *model);

#endif
