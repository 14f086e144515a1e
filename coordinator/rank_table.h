/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the coordinator knows of each rank: who it is, on which host, its communicators, and the
 * step entries that wait to be analysed. Entries point into their batch's held_steps, which are
 * released when the last of them is gone. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_RANK_TABLE_H
#define SLOWRANK_COORDINATOR_RANK_TABLE_H

#include "analysis/base/clock_fit.h"
#include "analysis/join/sequence_shift.h"
#include "coordinator/held_steps.h"
#include "probe/wire/message.h"

enum {
	RANK_COMMUNICATORS_MAX = 1024, /* of one rank; later ones are not joined, and counted */
	RANK_COMMUNICATORS_MANY = 256, /* the same of ranks that come behind this many: */
	RANK_FIRST_RANKS = 64,
	RANK_CHANNELS_MAX = 64,	  /* ways to and from other ranks that cuts follow */
	RANK_ENTRIES_MAX = 65536, /* waiting entries of one rank; the oldest are dropped */
	/* And where the entries of all ranks take more than this, a rank whose own take more than its part. */
	RANK_TABLE_HELD_BYTES = 48 << 20,
	RANK_HELD_BYTES = 32 << 10,
	RANK_TABLE_LIMIT_MIN = 1024, /* ranks that a job may have whose world is smaller */
};

struct queued_entry {
	struct held_steps *held;
	const struct packed_step *entry;
};

struct rank_communicator {
	uint64_t id;
	uint32_t size; /* 0 = unknown */
	uint32_t own_index;
	struct sequence_shift shift;   /* for parts counted from an attach */
	struct shift_history *history; /* its latest calls; NULL when they are not needed */
	/* Of the cut that is being looked for (assembly_reach.c): */
	uint64_t reached_cut; /* which; of an older one the rest says nothing */
	uint64_t reached;     /* the latest sequence before it */
	uint64_t wanted;      /* up to here the rank must be followed */
	bool uncounted;	      /* its parts' shift is not known yet: they join nothing */
	bool announced;	      /* its probe told of it */
	size_t slot;	      /* where the communicator was found, in a table of that capacity */
	size_t slot_capacity;
};

struct host_entry {
	uint64_t host_id;
	struct clock_fit clock;
	uint32_t clock_level; /* instances between it and the reference; 0 = not yet linked to it */
	uint64_t rank_count;
};

/* What the earliest batch that names a rank says of its host's clock: the same in any order of arrival. */
struct rank_stamp {
	bool valid;
	uint64_t number; /* of the batch */
	struct host_ns sent;
	int64_t high_ns;	/* received - sent */
	int64_t unix_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC there */
};

struct rank_entry {
	bool known; /* announced, or a step of it came */
	bool exited;
	bool lagging; /* the analysis goes on without it until it has caught up */
	int32_t exit_code;
	uint32_t pid;
	uint32_t host; /* index into hosts */
	struct rank_stamp stamp;
	bool owned;		 /* a probe announced it: */
	struct job_ns announced; /* for the first time */
	uint64_t probe_id;	 /* the latest one */
	uint32_t restarts;	 /* of the process that it announced */
	char host_name[STEP_NAME_LENGTH_MAX + 1];
	uint64_t evidence_mask; /* what its probe can measure; see evidence.h */

	struct queued_entry *entries; /* ring, by start time */
	size_t entry_capacity, entry_head, entry_count;
	size_t entry_bytes;    /* what they take, about */
	size_t part_head;      /* parts of the head entry that are done */
	bool hole;	       /* entries were lost before the head */
	struct host_ns newest; /* end of the newest entry */
	struct host_ns done;   /* up to here it was analysed */
	uint64_t entries_dropped;
	int64_t input_ns, compute_ns, host_ns, comm_ns; /* sums over its entries */

	struct rank_communicator *communicators;
	size_t communicator_count, communicator_capacity, communicator_last, communicator_most;
	uint32_t history_count; /* of communicators; see assembly_shift.c */
	/* Sends and receives: a communicator for each direction between two ranks; assembly_reach.c. */
	struct rank_communicator *channels;
	size_t channel_count, channel_capacity;
};

struct rank_table {
	struct rank_entry *ranks; /* by rank; rank_capacity of them, some not known */
	size_t rank_capacity;
	uint32_t known_count;
	uint32_t end;			       /* highest known rank + 1 */
	uint32_t world_size, first_world_size; /* the largest, and what was told first; 0 = none */
	size_t held_bytes;		       /* of what entries point into */
	struct host_entry *hosts;	       /* in order of appearance */
	size_t host_count, host_capacity;
	uint32_t *host_table; /* hash of host ids: index + 1, 0 = free */
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

static inline struct queued_entry *rank_entry_at(const struct rank_entry *rank, size_t index)
{
	return &rank->entries[(rank->entry_head + index) & (rank->entry_capacity - 1)];
}
void rank_entry_pop(struct rank_entry *rank); /* the head entry is done */

struct rank_communicator *rank_entry_find_communicator(struct rank_entry *rank, uint64_t id);
/* NULL: the rank is no member of it, as far as is known. */
const struct rank_communicator *rank_entry_member(const struct rank_entry *rank, uint64_t id);

/*
 * The communicator of that id as this rank sees it; added when new; NULL when there is no room.
 * Asked for each part, mostly for the one of the part before: in line.
 */
static inline struct rank_communicator *rank_entry_communicator(
	struct rank_entry *rank, uint64_t id)
{
	if (rank->communicator_last < rank->communicator_count &&
		rank->communicators[rank->communicator_last].id == id)
		return &rank->communicators[rank->communicator_last];
	return rank_entry_find_communicator(rank, id);
}

#endif
