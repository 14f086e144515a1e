/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a job: shared by job.c, job_batch.c and job_device.c alone. One thread. */
#ifndef SLOWRANK_PROBE_JOB_INTERNAL_H
#define SLOWRANK_PROBE_JOB_INTERNAL_H

#include "probe/job.h"
#include "probe/rank_process.h"

#define LONG_STEP_NS INT64_C(1000000000) /* its end is worth a look at sockets */
enum {
	SUSPECT_STEPS = 2, /* long ones in a row: one may be a stall */
	PROCESS_COUNT_MAX = 65536,
	/* Finished steps wait here for the next batch, some tenths of a second. */
	PENDING_STEPS_MAX = 65536,
	PENDING_PARTS_MAX = 1 << 20,
	PENDING_INTERVALS_MAX = 4096,
	PENDING_RECORDS_MAX = 4096, /* ranks, communicators */
};

struct job {
	char host[STEP_NAME_LENGTH_MAX + 1];
	bool attached;
	bool enqueue_only;
	bool finished;
	int64_t step_ns; /* length of the last finished step */
	struct job_news news;
	bool is_urgent; /* one was longer than usual since the last batch */
	uint64_t dropped;
	uint64_t steps_incomplete;
	job_step *on_step; /* NULL: nobody watches */
	void *step_context;

	size_t process_count;
	size_t process_capacity;
	struct rank_process **processes; /* ascending by pid */
	size_t last_process;		 /* where the last look-up ended */

	/* What the next batch takes. */
	size_t step_count, step_capacity;
	struct step_entry *steps; /* parts hold an offset into the pool until the batch is filled */
	size_t part_count, part_capacity;
	struct collective_part *parts;
	size_t interval_count;
	struct off_cpu_interval *intervals;
	size_t rank_count;
	struct message_rank *ranks;
	size_t communicator_count;
	struct message_communicator *communicators;
};

struct rank_process *job_find_process(struct job *job, pid_t pid); /* NULL: not known */

/* NULL: no memory, or too many. */
struct rank_process *job_find_or_add_process(struct job *job, pid_t pid);

/* A step builder from the process's first part on. False: no memory. */
bool job_ensure_builder(struct rank_process *process, int64_t now_ns);

/* What follows must not come before the call that is held. */
void job_flush_host_call(struct rank_process *process);

/* Moves the builder's finished steps to the next batch. */
void job_take_steps(struct job *job, struct rank_process *process);

#endif
