/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the coordinator knows of each rank: who it is, and the stream of its step entries that wait
 * to be analysed (analysis/join/stream.h). Entries point into their batch's held_steps, which are
 * released when the last of them is gone. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_RANK_TABLE_H
#define SLOWRANK_COORDINATOR_RANK_TABLE_H

#include "coordinator/held_steps.h"
#include "probe/wire/message.h"

enum {
	RANK_COMMUNICATORS_MAX = 1024, /* of one rank; later ones are not joined, and counted */
	RANK_COMMUNICATORS_MANY = 256, /* the same of ranks that come behind this many: */
	RANK_FIRST_RANKS = 64,
	RANK_ENTRIES_MAX = 65536, /* waiting entries of one rank; the oldest are dropped */
	/* And where the entries of all ranks take more than this, a rank whose own take more than its part. */
	RANK_TABLE_HELD_BYTES = 48 << 20,
	RANK_HELD_BYTES = 32 << 10,
	RANK_TABLE_LIMIT_MIN = 1024, /* ranks that a job may have whose world is smaller */
};

/* Who a rank is, and what its entries say in sum; its stream is beside it. */
struct rank_entry {
	int32_t exit_code;
	uint32_t pid;
	bool owned;		 /* a probe announced it: */
	struct job_ns announced; /* for the first time */
	uint64_t probe_id;	 /* the latest one */
	uint32_t restarts;	 /* of the process that it announced */
	char host_name[STEP_NAME_LENGTH_MAX + 1];
	uint64_t entries_dropped;
	int64_t input_ns, compute_ns, host_ns, comm_ns; /* sums over its entries */
};

struct rank_table {
	struct rank_streams streams;
	struct rank_entry *ranks;  /* as those of the streams */
	uint32_t first_world_size; /* what was told first; 0 = none */
	size_t held_bytes;	   /* of what entries point into */
	uint32_t *host_table;	   /* hash of host ids: index + 1, 0 = free */
	size_t host_table_capacity;
};

void rank_table_init(struct rank_table *table);
void rank_table_fini(struct rank_table *table);

/* The ranks of the world that are not known, as "2-3, 7"; cut at the capacity. Returns how many they are. */
uint32_t rank_table_missing(const struct rank_table *table, char *text, size_t capacity_bytes);

/* Likewise those that were announced after that time. */
uint32_t rank_table_late(
	const struct rank_table *table, struct job_ns after, char *text, size_t capacity_bytes);

/*
 * How many ranks the job can have: twice as many as it said first, for elastic ones grow, and not less than
 * RANK_TABLE_LIMIT_MIN. told: the world as a batch says it that may be the first.
 */
uint32_t rank_table_limit(const struct rank_table *table, uint32_t told);

int rank_table_host(struct rank_table *table, uint64_t host_id, uint32_t *index)
	__attribute__((warn_unused_result));

/* Takes what a message says of a rank. */
int rank_table_announce(struct rank_table *table, const struct message_rank *message, uint32_t host)
	__attribute__((warn_unused_result));
/* Takes the stamp of a batch that names the rank. */
void rank_table_stamp(struct rank_table *table, uint32_t rank, const struct rank_stamp *stamp);
/* Takes what a probe says of one of the rank's communicators; *first: it had not said so before, and
 * there is room for it. */
int rank_table_communicator(struct rank_table *table, uint32_t rank,
	const struct communicator *communicator, bool *first) __attribute__((warn_unused_result));

/*
 * Queues one of the held steps, by start time. Takes one reference. Entries that start
 * before what was analysed already, and doubles, are counted and not queued. Returns 0 or -ENOMEM.
 */
int rank_table_queue(struct rank_table *table, struct held_steps *held,
	const struct packed_step *step, uint32_t host) __attribute__((warn_unused_result));

#endif
