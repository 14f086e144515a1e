/* SPDX-License-Identifier: Apache-2.0 */
/* What a job has gathered, as the next batch. */
#include <stdio.h>
#include <stdlib.h>

#include "probe/job_internal.h"

enum { POOL_KEPT_BYTES = 128 * 1024 };

static void announce_rank(struct job *job, struct rank_process *process)
{
	struct message_rank *rank = &job->ranks[job->rank_count++];

	*rank = (struct message_rank){
		.rank = process->rank,
		.world_size = process->world_size,
		.local_rank = process->launcher.local_rank,
		.pid = (uint32_t)process->pid,
		.exited = process->exited,
		.exit_code = process->exit_code,
		.restarts = process->launcher.restarts,
	};
	snprintf(rank->host, sizeof(rank->host), "%s", job->host);
	snprintf(rank->program, sizeof(rank->program), "%s", process->program);
	process->announced = true;
}

static void announce_process(struct job *job, struct rank_process *process)
{
	if (!process->builder || !process->rank_known)
		return;
	if (!process->announced && job->rank_count < PENDING_RECORDS_MAX)
		announce_rank(job, process);
	for (size_t i = 0; i < process->communicator_count; i++) {
		struct known_communicator *known = &process->communicators[i];

		if (known->announced || known->communicator.id == 0 ||
			job->communicator_count == PENDING_RECORDS_MAX)
			continue;
		job->communicators[job->communicator_count++] = (struct message_communicator){
			.rank = process->rank,
			.communicator = known->communicator,
		};
		known->announced = true;
	}
}

bool job_fill_batch(struct job *job, struct message_batch *batch)
{
	size_t offset = 0;

	for (size_t i = 0; i < job->process_count; i++)
		announce_process(job, job->processes[i]);
	for (size_t i = 0; i < job->step_count; i++) {
		job->steps[i].parts = job->steps[i].part_count ? job->parts + offset : NULL;
		offset += job->steps[i].part_count;
	}
	batch->rank_count = job->rank_count;
	batch->ranks = job->ranks;
	batch->communicator_count = job->communicator_count;
	batch->communicators = job->communicators;
	batch->step_count = job->step_count;
	batch->steps = job->steps;
	batch->interval_count = job->interval_count;
	batch->intervals = job->intervals;
	return job->rank_count || job->communicator_count || job->step_count || job->interval_count;
}

/* What a burst took goes back by halves, with each batch that needs a quarter or less. */
static void give_back(void **array, size_t *capacity, size_t count, size_t item_bytes)
{
	void *moved;

	if (count > *capacity / 4 || *capacity * item_bytes <= POOL_KEPT_BYTES)
		return;
	moved = realloc(*array, *capacity / 2 * item_bytes);
	if (!moved)
		return;
	*array = moved;
	*capacity /= 2;
}

void job_batch_done(struct job *job)
{
	give_back((void **)&job->steps, &job->step_capacity, job->step_count, sizeof(*job->steps));
	give_back((void **)&job->parts, &job->part_capacity, job->part_count, sizeof(*job->parts));
	job->rank_count = 0;
	job->communicator_count = 0;
	job->step_count = 0;
	job->part_count = 0;
	job->interval_count = 0;
	job->is_urgent = false;
}

void job_introduce(struct job *job)
{
	for (size_t i = 0; i < job->process_count; i++) {
		struct rank_process *process = job->processes[i];

		process->announced = false;
		for (size_t c = 0; c < process->communicator_count; c++)
			process->communicators[c].announced = false;
	}
}
