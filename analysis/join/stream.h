/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks' streams of step entries as they wait to be cut into job steps, with what joins them:
 * the ranks' communicators and their hosts' clocks. Entries point into their batch's block of
 * memory, which is released with the last of them. Filled by the caller of the assembly. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_JOIN_STREAM_H
#define SLOWRANK_ANALYSIS_JOIN_STREAM_H

#include "analysis/base/clock_fit.h"
#include "analysis/join/packed_step.h"
#include "analysis/join/sequence_shift.h"

/* What a batch says of its host's clock, to be taken with the first of its steps; pending: not yet. */
struct stream_stamps {
	bool pending;
	struct host_ns sent, previous_sent, previous_reply_received;
	struct job_ns received, previous_received, previous_reply_sent;
};

/* A batch's steps lie behind it, in one block of malloc()'s. */
struct stream_batch {
	size_t references;
	size_t length_bytes; /* of the block */
	size_t *counted_in;  /* a sum that it is part of as long as it is there; NULL: none */
	struct stream_stamps stamps; /* none until the owner sets them */
};

void stream_batch_unref(struct stream_batch *batch);

struct stream_entry {
	struct stream_batch *batch;
	const struct packed_step *entry;
};

/* A communicator as one of its ranks sees it. */
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
	bool on_device;	      /* the device told the times of calls on it before */
	size_t slot;	      /* where the communicator was found, in a table of that capacity */
	size_t slot_capacity;
};

struct communicator_list {
	struct rank_communicator *items;
	size_t count, capacity, last; /* last: asked for */
};

/* What the earliest batch that names a rank says of its host's clock: the same in any order of arrival. */
struct rank_stamp {
	bool valid;
	uint64_t number; /* of the batch */
	struct host_ns sent;
	int64_t high_ns;	/* received - sent */
	int64_t unix_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC there */
};

struct rank_stream {
	bool known;	/* announced, or a step of it came */
	bool exited;	/* no more entries will come */
	bool lagging;	/* the analysis goes on without it until it has caught up */
	bool hole;	/* entries were lost before the head */
	bool on_device; /* its device told the times of calls before */
	uint32_t host;	/* index into hosts; UINT32_MAX: not known */
	struct rank_stamp stamp;
	struct stream_entry *entries; /* ring, by start time */
	size_t entry_capacity, entry_head, entry_count;
	size_t entry_bytes;    /* what they take, about */
	size_t part_head;      /* parts of the head entry that are done */
	struct host_ns newest; /* end of the newest entry */
	struct host_ns done;   /* up to here it was analysed */
	struct communicator_list communicators;
	size_t communicator_most; /* later ones are not joined, and counted */
	/* Sends and receives: a communicator for each direction between two ranks; assembly_parts.c. */
	struct communicator_list channels;
	uint32_t history_count; /* of communicators and channels; see assembly_shift.c */
};

struct host_entry {
	uint64_t host_id;
	struct clock_fit clock;
	uint32_t clock_level; /* instances between it and the reference; 0 = not yet linked to it */
	uint64_t rank_count;
};

struct rank_streams {
	struct rank_stream *ranks; /* by rank; rank_capacity of them, some not known */
	size_t rank_capacity;
	uint32_t known_count;
	uint32_t end; /* highest known rank + 1 */
	uint32_t world_size;
	struct host_entry *hosts; /* in order of appearance */
	size_t host_count, host_capacity;
};

/* Frees what a stream holds. */
void stream_fini(struct rank_stream *rank);

static inline struct stream_entry *stream_at(const struct rank_stream *rank, size_t index)
{
	return &rank->entries[(rank->entry_head + index) & (rank->entry_capacity - 1)];
}
/* The head entry is done; what it took is given back. */
void stream_pop(struct rank_stream *rank);
/* What an entry takes, about: whoever queues it adds that to its stream's entry_bytes. */
size_t stream_entry_bytes(const struct packed_step *entry);

/* NULL: it is not in the list. */
const struct rank_communicator *communicator_list_find(
	const struct communicator_list *list, uint64_t id);
/* Added when new; NULL when there are count_max of them already, or without memory. */
struct rank_communicator *communicator_list_add(
	struct communicator_list *list, uint64_t id, size_t count_max);

/*
 * The communicator of that id as this rank sees it; added when new; NULL when there is no room.
 * Asked for each part, mostly for the one of the part before: in line.
 */
static inline struct rank_communicator *stream_communicator(struct rank_stream *rank, uint64_t id)
{
	struct communicator_list *list = &rank->communicators;

	if (list->last < list->count && list->items[list->last].id == id)
		return &list->items[list->last];
	return communicator_list_add(list, id, rank->communicator_most);
}

#endif
