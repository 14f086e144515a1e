/* SPDX-License-Identifier: Apache-2.0 */
/* What a job learns of its devices: their calls, and the kernels that are matched to calls. */
#include "probe/job_internal.h"
#include "probe/sources/launcher_delays.h"

void job_device_process(struct job *job, pid_t pid)
{
	struct rank_process *process = job_find_or_add_process(job, pid);

	if (!process || process->device_calls)
		return;
	job_flush_host_call(process);
	/* Its steps have more calls from now on. */
	if (process->builder && process->messages_left_out)
		step_builder_finish(process->builder);
	process->device_calls = device_calls_create();
}

void job_device_communicator(struct job *job, pid_t pid, const struct communicator *communicator)
{
	struct rank_process *process = job_find_process(job, pid);

	if (process)
		rank_process_device_communicator(process, communicator);
}

void job_device_call(
	struct job *job, pid_t pid, const struct collective_part *part, uint64_t number)
{
	struct rank_process *process = job_find_process(job, pid);

	if (!process || !process->device_calls) {
		job->dropped++;
		return;
	}
	if (part->enqueue.value > process->last_call_ns) /* where no uprobe has told it */
		process->last_call_ns = part->enqueue.value;
	device_calls_done(process->device_calls, part, number);
}

bool job_device_launcher(struct job *job, pid_t pid, pid_t thread)
{
	struct rank_process *process = job_find_process(job, pid);

	if (!process || !process->device_calls)
		return false;
	if (!process->delays)
		process->delays = launcher_delays_create(pid);
	if (!process->delays)
		return false;
	launcher_delays_thread(process->delays, thread);
	return launcher_delays_are_known(process->delays);
}

void job_kernels_shown(struct job *job, pid_t pid, bool shown)
{
	struct rank_process *process = job_find_process(job, pid);

	if (!process || (!process->kernel_calls && (!shown || process->device_calls)))
		return;
	if (!process->kernel_calls)
		process->kernel_calls = kernel_calls_create();
	if (process->kernel_calls)
		job_device_process(job, pid);
	if (process->kernel_calls)
		kernel_calls_switch(process->kernel_calls, shown);
}

void job_kernel(struct job *job, pid_t pid, const struct kernel_calls_kernel *kernel)
{
	struct rank_process *process = job_find_process(job, pid);

	if (process && process->kernel_calls)
		kernel_calls_kernel(process->kernel_calls, kernel);
}

void job_calls_timed(struct job *job, pid_t pid, struct host_ns now)
{
	struct rank_process *process = job_find_process(job, pid);

	if (!process || process->device_calls || process->call_times)
		return;
	process->call_times = call_times_create(now);
	if (process->call_times)
		job_device_process(job, pid);
}

void job_calls_filled(struct job *job, pid_t pid, struct host_ns now)
{
	struct rank_process *process = job_find_process(job, pid);

	if (!process || !process->device_calls || process->call_times || process->kernel_calls)
		return;
	process->call_times = call_times_create(now);
	process->fills_times = process->call_times != NULL;
}

bool job_untold_call(struct job *job, pid_t pid, const struct collective_part *part, pid_t thread,
	uint64_t number)
{
	struct rank_process *process = job_find_process(job, pid);

	if (!process || !process->fills_times)
		return false;
	if (part->enqueue.value > process->last_call_ns)
		process->last_call_ns = part->enqueue.value;
	call_times_told_call(process->call_times, part, thread, number);
	return true;
}

void job_call_time(struct job *job, pid_t pid, const struct call_times_event *event)
{
	struct rank_process *process = job_find_process(job, pid);

	if (process && process->call_times)
		call_times_event(process->call_times, event);
}

void job_calls_settled(struct job *job, pid_t pid, struct host_ns settled, struct host_ns now)
{
	struct rank_process *process = job_find_process(job, pid);

	if (process && process->call_times)
		call_times_settled(process->call_times, settled, now);
}

/* The next call of a process whose times are known by now, or will not be. */
static bool take_matched(const struct rank_process *process, struct host_ns now, bool finish,
	struct collective_part *part, uint64_t *number)
{
	*number = 0;
	if (process->call_times)
		return call_times_take(process->call_times, now, finish, part, number);
	return process->kernel_calls && kernel_calls_take(process->kernel_calls, now, finish, part);
}

static void match_times(
	struct job *job, struct rank_process *process, struct host_ns now, bool finish)
{
	struct collective_part part;
	uint64_t number;

	while (process->device_calls && take_matched(process, now, finish, &part, &number)) {
		job->enqueue_only |= (part.flags & PART_ENQUEUE_ONLY) != 0;
		device_calls_done(process->device_calls, &part, number);
	}
}

void job_match_times(struct job *job, struct host_ns now)
{
	for (size_t i = 0; i < job->process_count; i++) {
		struct rank_process *process = job->processes[i];

		match_times(job, process, now, process->exited || job->finished);
	}
}

void job_call_times_counts(const struct job *job, struct call_times_counts *sum)
{
	*sum = (struct call_times_counts){0};
	for (size_t i = 0; i < job->process_count; i++) {
		struct call_times_counts counts;

		if (!job->processes[i]->call_times)
			continue;
		call_times_get_counts(job->processes[i]->call_times, &counts);
		sum->timed += counts.timed;
		sum->untimed += counts.untimed;
		sum->dropped += counts.dropped;
	}
}

void job_kernel_counts(const struct job *job, struct kernel_calls_counts *sum)
{
	*sum = (struct kernel_calls_counts){0};
	for (size_t i = 0; i < job->process_count; i++) {
		struct kernel_calls_counts counts;

		if (!job->processes[i]->kernel_calls)
			continue;
		kernel_calls_get_counts(job->processes[i]->kernel_calls, &counts);
		sum->matched += counts.matched;
		sum->unmatched += counts.unmatched;
		sum->dropped += counts.dropped;
	}
}

static void join_device_calls(struct job *job, struct rank_process *process, bool finish)
{
	struct collective_part part;
	struct activity others;
	bool any = false;

	if (process->delays) {
		struct launcher_delay delay = launcher_delays_look(process->delays);

		device_calls_delay(process->device_calls, delay.queued_ns, delay.block_io_ns);
	}
	while (device_calls_take(process->device_calls, finish, &part, &others)) {
		if (!job_ensure_builder(process, part.arrival.value)) {
			job->dropped++;
			continue;
		}
		step_builder_push(process->builder, &part, &others);
		any = true;
	}
	if (process->exited && process->builder)
		step_builder_finish(process->builder);
	if (any || process->exited)
		job_take_steps(job, process);
}

void job_join_device_calls(struct job *job)
{
	for (size_t i = 0; i < job->process_count; i++) {
		struct rank_process *process = job->processes[i];

		if (process->device_calls)
			join_device_calls(job, process, process->exited || job->finished);
	}
}

void job_calls_untimed(struct job *job, pid_t pid, struct host_ns now)
{
	struct rank_process *process = job_find_process(job, pid);
	struct call_times_counts counts;

	if (!process || !process->call_times)
		return;
	match_times(job, process, now, true);
	join_device_calls(job, process, !process->fills_times);
	call_times_get_counts(process->call_times, &counts);
	job->dropped += counts.dropped;
	call_times_destroy(process->call_times);
	process->call_times = NULL;
	if (process->fills_times) {
		process->fills_times = false;
		return;
	}
	job->dropped += device_calls_dropped(process->device_calls);
	device_calls_destroy(process->device_calls);
	process->device_calls = NULL;
}
