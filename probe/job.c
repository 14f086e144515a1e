/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/attach/collective_table.h"
#include "probe/job_internal.h"

/* How long a process may take part without its rank being known, before it gets a number. */
static const int64_t RANK_PATIENCE_NS = 2000000000;

int job_create(const struct job_options *options, struct job **result)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	job->intervals = calloc(PENDING_INTERVALS_MAX, sizeof(*job->intervals));
	job->ranks = calloc(PENDING_RECORDS_MAX, sizeof(*job->ranks));
	job->communicators = calloc(PENDING_RECORDS_MAX, sizeof(*job->communicators));
	if (!job->intervals || !job->ranks || !job->communicators) {
		job_destroy(job);
		return -ENOMEM;
	}
	snprintf(job->host, sizeof(job->host), "%s", options->host);
	job->attached = options->attached;
	*result = job;
	return 0;
}

void job_destroy(struct job *job)
{
	if (!job)
		return;
	for (size_t i = 0; i < job->process_count; i++)
		rank_process_destroy(job->processes[i]);
	free(job->processes);
	free(job->steps);
	free(job->parts);
	free(job->intervals);
	free(job->ranks);
	free(job->communicators);
	free(job);
}

/* Grows an array to hold one more of `wanted` items, at most limit. */
static bool reserve(void **array, size_t *capacity, size_t wanted, size_t limit, size_t item_bytes)
{
	size_t grown = *capacity ? *capacity : 64;
	void *moved;

	if (wanted <= *capacity)
		return true;
	if (wanted > limit)
		return false;
	while (grown < wanted)
		grown *= 2;
	moved = realloc(*array, grown * item_bytes);
	if (!moved)
		return false;
	*array = moved;
	*capacity = grown;
	return true;
}

/* The place of pid in the sorted table, or where it would go. */
static size_t process_position(const struct job *job, pid_t pid)
{
	size_t low = 0, high = job->process_count;

	if (job->last_process < job->process_count && job->processes[job->last_process]->pid == pid)
		return job->last_process;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (job->processes[middle]->pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct rank_process *job_find_process(struct job *job, pid_t pid)
{
	size_t position = process_position(job, pid);

	if (position == job->process_count || job->processes[position]->pid != pid)
		return NULL;
	job->last_process = position;
	return job->processes[position];
}

void job_started_before(struct job *job)
{
	job->attached = true;
	for (size_t i = 0; i < job->process_count; i++)
		job->processes[i]->attached = true;
}

struct rank_process *job_find_or_add_process(struct job *job, pid_t pid)
{
	struct rank_process *process = job_find_process(job, pid);
	size_t position = process_position(job, pid);

	if (process)
		return process;
	if (!reserve((void **)&job->processes, &job->process_capacity, job->process_count + 1,
		    PROCESS_COUNT_MAX, sizeof(struct rank_process *)))
		return NULL;
	process = rank_process_create(pid, job->attached);
	if (!process)
		return NULL;
	memmove(&job->processes[position + 1], &job->processes[position],
		(job->process_count - position) * sizeof(struct rank_process *));
	job->processes[position] = process;
	job->process_count++;
	return process;
}

bool job_ensure_builder(struct rank_process *process, int64_t now_ns)
{
	struct step_builder_options options = {.rank = process->rank};

	if (process->builder)
		return true;
	process->first_part_ns = now_ns;
	return step_builder_create(&options, &process->builder) == 0;
}

/* A call by the host's times. */
static void push_host_call(struct rank_process *process, const struct host_call *call)
{
	step_builder_launches(process->builder, &call->launches);
	step_builder_push(process->builder, &call->part, &call->others);
}

void job_flush_host_call(struct rank_process *process)
{
	struct host_call done;

	if (host_calls_flush(&process->host_calls, &done))
		push_host_call(process, &done);
}

/* A process that was no rank leaves no trace; a rank stays, for its last steps and the report. */
static void process_exited(struct job *job, pid_t pid, int32_t exit_code)
{
	struct rank_process *process = job_find_process(job, pid);

	if (!process)
		return;
	if (process->builder) {
		process->exited = true;
		process->exit_code = exit_code;
		process->announced = false;
		job_flush_host_call(process);
		if (!process->device_calls) /* else the last of them are still to be joined */
			step_builder_finish(process->builder);
		return;
	}
	size_t position = process_position(job, pid);
	rank_process_destroy(process);
	job->process_count--;
	memmove(&job->processes[position], &job->processes[position + 1],
		(job->process_count - position) * sizeof(struct rank_process *));
}

void job_watch_steps(struct job *job, job_step *on_step, void *context)
{
	job->on_step = on_step;
	job->step_context = context;
}

/* Of a step that has ended, job->step_ns long. Long ones are looked at where they end, slower or not. */
static void note_length(struct job *job, struct rank_process *process)
{
	bool slower = step_pace_is_slower(&process->pace, job->step_ns);

	job->is_urgent |= step_usual_is_long(&process->usual, job->step_ns);
	if (job->step_ns >= LONG_STEP_NS)
		job->news.long_step_ended = true;
	else
		job->news.slower |= slower;
}

void job_take_steps(struct job *job, struct rank_process *process)
{
	struct step_entry entry;

	if (!process->rank_known || !process->builder)
		return;
	while (step_builder_take(process->builder, &entry)) {
		if (job->on_step)
			job->on_step(job->step_context, process->pid, &entry);
		if (!reserve((void **)&job->steps, &job->step_capacity, job->step_count + 1,
			    PENDING_STEPS_MAX, sizeof(*job->steps)) ||
			!reserve((void **)&job->parts, &job->part_capacity,
				job->part_count + entry.part_count, PENDING_PARTS_MAX,
				sizeof(*job->parts))) {
			job->dropped++;
			continue;
		}
		if (entry.part_count)
			memcpy(job->parts + job->part_count, entry.parts,
				entry.part_count * sizeof(*entry.parts));
		job->step_ns = entry.end.value - entry.start.value;
		if (!(entry.flags & (STEP_WINDOW | STEP_IRREGULAR)))
			note_length(job, process);
		entry.rank = process->rank;
		entry.parts = NULL;
		job->steps[job->step_count++] = entry;
		job->part_count += entry.part_count;
		job->steps_incomplete += (entry.flags & STEP_INCOMPLETE) != 0;
	}
}

static void take_device_wait(struct job *job, const struct event_device_wait *event)
{
	struct rank_process *process = job_find_process(job, (pid_t)event->header.pid);
	struct step_launches launches;
	struct host_call done;

	launches_from_event(&launches, &event->launches);
	if (!process || !host_calls_wait(&process->host_calls,
				(struct host_ns){(int64_t)event->end_ns}, &launches, &done))
		return;
	push_host_call(process, &done);
	job_take_steps(job, process);
}

/* Its times will come from elsewhere. */
static void take_device_call(struct rank_process *process, const struct event_collective *event,
	const struct collective_part *part, const struct activity *others)
{
	bool with_oneself = collective_is_message(&collective_rows[event->row]) && !part->peer;

	if (process->call_times && !process->fills_times && !with_oneself)
		call_times_call(process->call_times, part, event->handle);
	else if (process->kernel_calls && !with_oneself)
		kernel_calls_call(process->kernel_calls, part, event->handle);
	device_calls_host(process->device_calls, part->arrival, &part->before,
		(int64_t)event->before.device_wait_ns, others);
}

/*
 * By the host's times alone. A wait for the device behind a send or a receive says nothing of it, and it would end
 * the wait for a collective before it: so these tell of the steps of programs that call nothing else.
 */
static void take_host_call(struct job *job, struct rank_process *process,
	const struct event_collective *event, const struct host_call *call)
{
	const struct collective_row *row = &collective_rows[event->row];
	struct host_call done;

	job->enqueue_only |= (call->part.flags & PART_ENQUEUE_ONLY) != 0;
	if (collective_is_message(row) && process->host_calls.any) {
		process->messages_left_out = true;
		host_calls_did(&process->host_calls, &call->part.before);
	} else if (collective_library(row)->on_device && !collective_is_message(row)) {
		if (host_calls_enqueue(&process->host_calls, call, &done))
			push_host_call(process, &done);
	} else if (rank_process_alone(process, event->handle)) {
		activity_add(&process->alone, &call->part.before);
		activity_add(&process->alone, &call->part.inside);
	} else {
		struct collective_part part = call->part;

		activity_add(&part.before, &process->alone);
		process->alone = (struct activity){0};
		job_flush_host_call(process);
		step_builder_push(process->builder, &part, &call->others);
	}
	job_take_steps(job, process);
}

static void take_collective(struct job *job, const struct event_collective *event)
{
	struct rank_process *process = job_find_or_add_process(job, (pid_t)event->header.pid);
	struct host_call call = {0};

	if (!process || !rank_process_part(process, event, &call.part)) {
		job->dropped++;
		return;
	}
	process->last_call_ns = call.part.departure.value;
	activity_from_event(&call.others, &event->others);
	if (process->device_calls &&
		collective_library(&collective_rows[event->row])->device_times) {
		take_device_call(process, event, &call.part, &call.others);
		return;
	}
	if (!job_ensure_builder(process, call.part.arrival.value)) {
		job->dropped++;
		return;
	}
	launches_from_event(&call.launches, &event->launches);
	take_host_call(job, process, event, &call);
}

/* It is no part: what the host did until then belongs to the next one. */
static void take_enqueue(struct job *job, const struct event_enqueue *event)
{
	struct rank_process *process = job_find_process(job, (pid_t)event->header.pid);
	struct activity before, others;

	if (!process)
		return;
	activity_from_event(&before, &event->before);
	activity_from_event(&others, &event->others);
	if (process->device_calls)
		device_calls_host(process->device_calls,
			(struct host_ns){(int64_t)event->header.time_ns}, &before,
			(int64_t)event->before.device_wait_ns, &others);
	else
		host_calls_did(&process->host_calls, &before);
}

static void take_off_cpu(struct job *job, const struct event_off_cpu *event)
{
	struct rank_process *process = job_find_process(job, (pid_t)event->header.pid);

	if (!process || !process->rank_known || !process->builder)
		return;
	if (job->interval_count == PENDING_INTERVALS_MAX) {
		job->dropped++;
		return;
	}
	struct off_cpu_interval *interval = &job->intervals[job->interval_count++];
	*interval = (struct off_cpu_interval){
		.rank = process->rank,
		.thread_id = event->header.tid,
		.start = {(int64_t)event->start_ns},
		.end = {(int64_t)event->end_ns},
		.other_pid = event->other_pid,
		.reason = (uint8_t)event->reason,
	};
	memcpy(interval->other_name, event->other_name, sizeof(interval->other_name));
	interval->other_name[sizeof(interval->other_name) - 1] = '\0';
}

static void take_marker(struct job *job, const struct event_marker *event)
{
	struct rank_process *process = job_find_or_add_process(job, (pid_t)event->header.pid);

	if (!process)
		return;
	rank_process_examine(process);
	if (!job_ensure_builder(process, (int64_t)event->header.time_ns))
		return;
	job_flush_host_call(process);
	step_builder_mark(process->builder, event->action == EVENT_MARKER_STEP_BEGIN, event->step,
		(struct host_ns){(int64_t)event->header.time_ns});
	job_take_steps(job, process);
}

void job_event(struct job *job, const struct event_header *header, job_new_program *on_new_program,
	void *context)
{
	const struct event_process *change = (const struct event_process *)(const void *)header;
	struct rank_process *process;

	switch (header->kind) {
	case EVENT_COLLECTIVE:
		take_collective(job, (const void *)header);
		break;
	case EVENT_COMMUNICATOR:
		process = job_find_or_add_process(job, (pid_t)header->pid);
		if (process)
			rank_process_communicator(process, (const void *)header);
		break;
	case EVENT_RANK:
		process = job_find_or_add_process(job, (pid_t)header->pid);
		if (process)
			rank_process_told(process, (const void *)header);
		break;
	case EVENT_OFF_CPU:
		take_off_cpu(job, (const void *)header);
		break;
	case EVENT_MARKER:
		take_marker(job, (const void *)header);
		break;
	case EVENT_DEVICE_WAIT:
		take_device_wait(job, (const void *)header);
		break;
	case EVENT_ENQUEUE:
		take_enqueue(job, (const void *)header);
		break;
	case EVENT_PROCESS:
		if (change->action == EVENT_PROCESS_EXIT)
			process_exited(job, (pid_t)header->pid, change->exit_code);
		else if (change->action == EVENT_PROCESS_EXEC)
			on_new_program(context, (pid_t)header->pid);
		break;
	default:
		job->dropped++;
	}
}

bool job_next_stalled(
	const struct job *job, struct host_ns since, size_t *next, struct job_stalled *stalled)
{
	while (*next < job->process_count) {
		const struct rank_process *process = job->processes[(*next)++];

		if (!process->builder || !process->rank_known || process->exited ||
			!process->last_call_ns || process->last_call_ns > since.value)
			continue;
		*stalled = (struct job_stalled){process->rank, process->pid,
			{process->last_call_ns}, &job->processes[*next - 1]->used_before};
		return true;
	}
	return false;
}

bool job_open_part(struct job *job, pid_t pid, const struct event_collective *call,
	struct collective_part *part)
{
	struct rank_process *process = job_find_process(job, pid);

	return process && rank_process_part(process, call, part);
}

void job_process_ended(struct job *job, pid_t pid)
{
	process_exited(job, pid, 0);
}

void job_add_process(struct job *job, pid_t pid)
{
	(void)job_find_or_add_process(job, pid);
}

void job_lost(struct job *job, uint64_t event_count)
{
	for (size_t i = 0; i < job->process_count; i++) {
		if (job->processes[i]->builder)
			step_builder_lost(job->processes[i]->builder, event_count);
	}
}

/* The lowest number that no rank of this host has. */
static uint32_t free_rank(const struct job *job)
{
	for (uint32_t candidate = 0;; candidate++) {
		bool used = false;

		for (size_t i = 0; i < job->process_count && !used; i++)
			used = job->processes[i]->rank_known &&
			       job->processes[i]->rank == candidate;
		if (!used)
			return candidate;
	}
}

void job_tick(struct job *job, struct host_ns now)
{
	for (size_t i = 0; i < job->process_count; i++) {
		struct rank_process *process = job->processes[i];

		if (!process->builder)
			continue;
		if (!process->rank_known &&
			(job->finished || now.value - process->first_part_ns > RANK_PATIENCE_NS)) {
			if (process->rank == STEP_RANK_UNKNOWN)
				process->rank = free_rank(job);
			process->rank_known = true;
			process->announced = false;
		}
		if (!process->exited)
			step_builder_tick(process->builder, now);
		job_take_steps(job, process);
	}
}

void job_finish(struct job *job, struct host_ns now)
{
	job->finished = true;
	for (size_t i = 0; i < job->process_count; i++) {
		job_flush_host_call(job->processes[i]);
		if (job->processes[i]->builder)
			step_builder_finish(job->processes[i]->builder);
	}
	job_tick(job, now);
}

size_t job_ranks(const struct job *job, struct job_rank *ranks, size_t capacity)
{
	size_t count = 0;

	for (size_t i = 0; i < job->process_count && count < capacity; i++) {
		const struct rank_process *process = job->processes[i];

		if (process->builder && process->rank_known)
			ranks[count++] = (struct job_rank){
				process->rank, process->pid, process->exited, process->delays};
	}
	return count;
}

pid_t job_pid_of_rank(const struct job *job, uint32_t rank)
{
	for (size_t i = 0; i < job->process_count; i++) {
		const struct rank_process *process = job->processes[i];

		if (process->builder && process->rank_known && process->rank == rank &&
			!process->exited)
			return process->pid;
	}
	return 0;
}

size_t job_process_count(const struct job *job)
{
	size_t count = 0;

	for (size_t i = 0; i < job->process_count; i++)
		count += !job->processes[i]->exited;
	return count;
}

uint64_t job_dropped(const struct job *job)
{
	struct call_times_counts times;
	uint64_t dropped = job->dropped;

	job_call_times_counts(job, &times);
	dropped += times.dropped;
	for (size_t i = 0; i < job->process_count; i++) {
		if (job->processes[i]->device_calls)
			dropped += device_calls_dropped(job->processes[i]->device_calls);
	}
	return dropped;
}

uint64_t job_steps_incomplete(const struct job *job)
{
	return job->steps_incomplete;
}

bool job_enqueue_only(const struct job *job)
{
	return job->enqueue_only;
}

bool job_wants_launches(const struct job *job)
{
	for (size_t i = 0; i < job->process_count; i++) {
		const struct rank_process *process = job->processes[i];

		if (process->host_calls.any && !process->device_calls && !process->exited)
			return true;
	}
	return false;
}

int64_t job_step_ns(const struct job *job)
{
	return job->step_ns;
}

bool job_is_suspected(const struct job *job)
{
	for (size_t i = 0; i < job->process_count; i++) {
		const struct rank_process *process = job->processes[i];

		if (!process->exited && process->usual.long_run >= SUSPECT_STEPS)
			return true;
	}
	return false;
}

struct job_news job_take_news(struct job *job)
{
	struct job_news news = job->news;

	news.step_ns = job->step_ns;
	job->news = (struct job_news){0};
	return news;
}

bool job_is_urgent(const struct job *job)
{
	return job->is_urgent;
}

void job_say_not_joined(const struct job *job, char *text, size_t capacity)
{
	*text = '\0';
	for (size_t i = 0; i < job->process_count; i++) {
		const struct rank_process *process = job->processes[i];

		if (!process->not_joined)
			continue;
		if (process->not_joined_made_by)
			snprintf(text, capacity,
				"calls on communicators made by %s are not joined: who is in them "
				"cannot be seen",
				process->not_joined_made_by);
		else
			snprintf(text, capacity,
				"calls on communicators that were not seen being made are not "
				"joined");
		return;
	}
}
