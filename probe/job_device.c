/* SPDX-License-Identifier: Apache-2.0 */
/* What a job learns of its devices: their calls, and the kernels that are matched to calls. */
#include "probe/job_internal.h"
#include "probe/sources/run_delay.h"

void job_device_process(struct job *job, pid_t pid)
{
	struct rank_process *process = job_find_or_add_process(job, pid);

	if (!process || process->device_calls)
		return;
	job_flush_host_call(process);
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

	if (process && process->device_calls)
		device_calls_done(process->device_calls, part, number);
	else
		job->dropped++;
}

bool job_device_launcher(struct job *job, pid_t pid, pid_t thread)
{
	struct rank_process *process = job_find_process(job, pid);

	if (!process || !process->device_calls)
		return false;
	if (!process->run_delay)
		process->run_delay = run_delay_create(pid);
	if (!process->run_delay)
		return false;
	run_delay_thread(process->run_delay, thread);
	return run_delay_is_known(process->run_delay);
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

void job_match_kernels(struct job *job, struct host_ns now)
{
	struct collective_part part;

	for (size_t i = 0; i < job->process_count; i++) {
		struct rank_process *process = job->processes[i];

		while (process->kernel_calls && kernel_calls_take(process->kernel_calls, now,
							process->exited || job->finished, &part)) {
			job->enqueue_only |= (part.flags & PART_ENQUEUE_ONLY) != 0;
			device_calls_done(process->device_calls, &part, 0);
		}
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

static void join_device_calls(struct job *job, struct rank_process *process)
{
	struct collective_part part;
	struct activity others;
	bool any = false;

	if (process->run_delay)
		device_calls_run_delay(process->device_calls, run_delay_look(process->run_delay));
	while (device_calls_take(
		process->device_calls, process->exited || job->finished, &part, &others)) {
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
		if (job->processes[i]->device_calls)
			join_device_calls(job, job->processes[i]);
	}
}
