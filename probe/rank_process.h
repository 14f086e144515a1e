/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process of the job: who it is (rank), which communicators it holds, and its step builder
 * once it has taken part in a collective. Used by job.c alone; one thread.
 */
#ifndef SLOWRANK_PROBE_RANK_PROCESS_H
#define SLOWRANK_PROBE_RANK_PROCESS_H

#include <sys/types.h>

#include "bpf/event_layout.h"
#include "probe/attach/launcher_environment.h"
#include "probe/attach/mpi_objects.h"
#include "probe/call_times.h"
#include "probe/device_calls.h"
#include "probe/host_calls.h"
#include "probe/kernel_calls.h"
#include "probe/rank_grid.h"
#include "probe/rank_groups.h"
#include "probe/step/builder.h"
#include "probe/step/pace.h"
#include "probe/wire/message.h"

enum {
	/* Communicators remembered per process; further ones are seen but not joined. */
	RANK_PROCESS_COMMUNICATORS_MAX = 1024,
};

struct known_communicator {
	uint64_t handle;
	struct communicator communicator;
	bool from_start; /* its creation was seen, so its sequence numbers are absolute */
	bool announced;	 /* was put into a batch */
	struct rank_grid grid;
	bool any_order;	     /* of a grid: its ranks' order may be another than the parent's */
	const char *made_by; /* the function; NULL = not seen */
};

/* What a process had used when it was first looked at after it last moved. */
struct used_before {
	struct host_ns last, looked;
	uint64_t cpu_ms, io_bytes;
};

struct rank_process {
	pid_t pid;
	bool exited;
	int32_t exit_code;
	bool examined;	/* environment and world handle were read */
	bool attached;	/* ran before the probe did */
	bool announced; /* was put into a batch, and nothing changed since */
	bool rank_known;
	uint32_t rank;
	uint32_t world_size;
	bool mpi_examined; /* its library's objects were looked for */
	struct mpi_objects mpi;
	uint64_t world_id;
	int64_t last_call_ns; /* when it last left, or enqueued, a collective; 0 = not yet */
	struct used_before used_before;
	int64_t first_part_ns; /* when it first took part in a collective; 0 = not yet */
	struct launcher_environment launcher;
	char program[STEP_NAME_LENGTH_MAX + 1];
	struct step_builder *builder;	   /* NULL until it takes part */
	struct step_usual usual;	   /* lengths of its steps */
	struct step_pace pace;		   /* likewise, in the mean */
	struct device_calls *device_calls; /* NULL: no device times */
	struct launcher_delays *delays;	   /* NULL: not asked for */
	struct host_calls host_calls;	   /* while there are no device times */
	bool messages_left_out;		   /* likewise: sends and receives are no parts */
	struct activity
		alone; /* of calls by itself, which are no parts: it belongs to the next one */
	struct kernel_calls *kernel_calls; /* NULL: device times, if any, come with the calls */
	struct call_times *call_times;	   /* likewise; one of the two at most */
	bool fills_times; /* it has those calls alone that NCCL tells no times of */
	size_t communicator_count;
	struct known_communicator *communicators;
	size_t last_communicator; /* where the last look-up ended */
	struct rank_groups groups;
	/* Calls on communicators of several ranks that have no identity; what made the last of them. */
	uint64_t not_joined;
	const char *not_joined_made_by;
};

/* Returns NULL without memory. */
struct rank_process *rank_process_create(pid_t pid, bool attached);
void rank_process_destroy(struct rank_process *process); /* NULL is fine */

/* Reads rank and world size from the live process, once. */
void rank_process_examine(struct rank_process *process);

/* A library told the process a rank or a size. */
void rank_process_told(struct rank_process *process, const struct event_rank *event);

/* A communicator or a group was made or freed. */
void rank_process_communicator(
	struct rank_process *process, const struct event_communicator *event);

/*
 * The in-process library tells of a communicator (of one operation: each counts by itself). A rank
 * of the largest one is the process's, where no launcher said so.
 */
void rank_process_device_communicator(
	struct rank_process *process, const struct communicator *communicator);

/* Fills a part from a record; false for rows that are neither a collective nor a send or a receive. */
bool rank_process_part(struct rank_process *process, const struct event_collective *event,
	struct collective_part *part);

/*
 * A communicator of this process alone, in a job of several: a call on it waits for nobody, and others may make none, as on
 * the rows and columns of a grid of one by two processes.
 */
bool rank_process_alone(struct rank_process *process, uint64_t handle);

void launches_from_event(struct step_launches *out, const struct event_launches *in);
void activity_from_event(struct activity *out, const struct event_activity *in);

#endif
