/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's events, whatever the version of the plug-in: communicators, collectives in flight, their
 * kernels' channels. One record per collective is written when its last channel has stopped; as
 * incomplete, when kernels that were launched after it have ended (its own end was not told), or
 * when its communicator ends. Without a place it is counted as dropped. Any
 * thread; memory is taken at the first communicator, never after.
 *
 * An exchange with oneself leaves no record: nobody waits for it, and NCCL (2.26 to 2.30), whose
 * kernel does it as a copy, tells of its begin only. The times that NCCL then tells of the same
 * channels are not used: they are other calls'.
 *
 * From 2.29 on NCCL may make a broadcast one part of a gathering of its own (NCCL_ALLGATHERV_ENABLE): it
 * tells of the call, of no task, and from then on of times that are other calls'. So a task has times only
 * when every broadcast called before it had its task.
 *
 * A handle is a number, never followed as a pointer: kind, communicator, place, generation and the
 * process's key. One that is late, from a parent process (PXN) or made up is told apart and ignored.
 */
#ifndef SLOWRANK_PROBE_INJECT_TRACKER_H
#define SLOWRANK_PROBE_INJECT_TRACKER_H

#include <stdbool.h>
#include <stdint.h>

enum {
	TRACKER_COMMUNICATORS_MAX = 64, /* at a time, per process */
	TRACKER_EVENTS_MAX = 1024,	/* in flight per communicator; a power of two */
	TRACKER_PEERS_MAX = 65536,	/* whose sends and receives are numbered */
};

struct tracker_task {
	const char *function; /* NCCL's name of it; NULL is fine */
	const char *datatype;
	uint64_t sequence;
	uint64_t element_count;
	int root; /* or peer */
	int rank;
	uint8_t channels; /* 0: no device times will come */
	bool point_to_point;
	bool copy_engine;
	void *api; /* handle of tracker_api_start(), or NULL */
};

/* hash 0: learnt from the first event. The result is a context for the others; NULL: no place. */
void *tracker_begin(uint64_t hash, int rank, int rank_count, int node_count);
/* For versions whose init() is told nothing. */
void tracker_learn(void *context, uint64_t hash, int rank);
/* Writes what is in flight as incomplete. The context is invalid then, and may be passed again. */
void tracker_end(void *context);

/* The moment of the user's call. */
void *tracker_api_start(void *context, const char *function, bool graph_captured);

void *tracker_task_start(void *context, const struct tracker_task *task);
/* timer: globaltimer, 0 = not known. */
void *tracker_channel_start(void *task, uint8_t channel, uint64_t timer);
void tracker_channel_time(void *channel, uint64_t timer); /* of its stop */
void tracker_stop(void *handle);			  /* any kind */

/* Tells of each communicator's oldest call that has not ended for RING_IN_FLIGHT_NS; the helper's, once a second. */
void tracker_report_in_flight(void);

#endif
