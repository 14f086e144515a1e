/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach_kernels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/base/robust_stats.h"

/* Asked for again in time; when we end, the library ends it by itself. */
static const int64_t length_ns = 120000000000, renew_ns = 60000000000;
static const int64_t answer_ns = 3000000000, rest_ns = 15000000000;
/* Launches are counted in windows: without a count until then, the steps' lengths alone decide. */
static const int64_t count_patience_ns = 10000000000;

enum { STEPS_BEFORE = 8, STEPS_AFTER = 16, STEPS_SKIPPED = 2 };
static const double longer_max = 1.10; /* steps with kernels shown against those before */

struct shown_process {
	pid_t pid;
	bool on;
	int64_t next_ns;  /* when to ask (again) */
	uint32_t request; /* the last one */
	uint32_t refused; /* enum ring_deep_state; RING_DEEP_ON: was not */
};

struct attach_kernels {
	struct ring_source *rings;
	struct job *job;
	const struct attach_events *events;
	const struct device_looks *looks;
	const struct launch_rates *rates;
	struct host_ns now;
	bool any;			/* ever */
	char why_not[LOOK_TEXT_LENGTH]; /* given up, for all */
	int64_t first_ns;		/* when the first process came */
	/* Steps of the first process, before and with kernels shown; counts are of all ever. */
	double before_ns[STEPS_BEFORE], after_ns[STEPS_AFTER];
	size_t before_count, after_count;
	size_t count;
	struct shown_process processes[RING_SOURCE_PROCESSES_MAX];
};

struct attach_kernels *attach_kernels_create(struct ring_source *rings, struct job *job,
	const struct attach_events *events, const struct device_looks *looks,
	const struct launch_rates *rates)
{
	struct attach_kernels *kernels = calloc(1, sizeof(*kernels));

	if (!kernels)
		return NULL;
	kernels->rings = rings;
	kernels->job = job;
	kernels->events = events;
	kernels->looks = looks;
	kernels->rates = rates;
	return kernels;
}

void attach_kernels_destroy(struct attach_kernels *kernels)
{
	/* What was asked for of the job ends with the watch. */
	for (size_t i = 0; kernels && i < kernels->count; i++) {
		if (kernels->processes[i].on)
			(void)!ring_source_request_deep(kernels->rings, kernels->processes[i].pid,
				RING_DEEP_STEADY, kernels->now, NULL);
	}
	free(kernels);
}

static struct shown_process *find(struct attach_kernels *kernels, pid_t pid)
{
	for (size_t i = 0; kernels && i < kernels->count; i++) {
		if (kernels->processes[i].pid == pid)
			return &kernels->processes[i];
	}
	return NULL;
}

void attach_kernels_hello(struct attach_kernels *kernels, pid_t pid, const struct ring_hello *hello)
{
	/* With the plug-in in NCCL, its own times are better. */
	if (!kernels || hello->nccl_profiler_version != 0 || find(kernels, pid) ||
		kernels->count == RING_SOURCE_PROCESSES_MAX)
		return;
	kernels->any = true;
	kernels->processes[kernels->count++] =
		(struct shown_process){.pid = pid, .refused = RING_DEEP_ON};
}

void attach_kernels_report(
	struct attach_kernels *kernels, pid_t pid, const struct ring_deep_report *report)
{
	struct shown_process *process = find(kernels, pid);

	/* A deep look is served by the same kernels. */
	if (!process || report->request != process->request)
		return;
	process->on = report->state == RING_DEEP_ON;
	process->next_ns = kernels->now.value;
	process->refused = RING_DEEP_ON;
	job_kernels_shown(kernels->job, pid, process->on);
	if (process->on) {
		process->next_ns += renew_ns;
	} else if (report->state != RING_DEEP_OFF) {
		process->refused = report->state;
		process->next_ns += rest_ns;
	}
}

/* What being shown costs the job, once. */
static void check_cost(struct attach_kernels *kernels)
{
	double before = median_double(kernels->before_ns, STEPS_BEFORE);
	double after =
		median_double(kernels->after_ns + STEPS_SKIPPED, STEPS_AFTER - STEPS_SKIPPED);

	if (after > before * longer_max)
		snprintf(kernels->why_not, sizeof(kernels->why_not),
			"switched off: steps were %.0f %% longer with it",
			(after / before - 1) * 100);
}

void attach_kernels_step(struct attach_kernels *kernels, pid_t pid, const struct step_entry *step)
{
	struct shown_process *process = find(kernels, pid);
	int64_t step_ns = step->end.value - step->start.value;

	if (!process || step->flags & STEP_WINDOW || step_ns <= 0)
		return;
	if (process != kernels->processes)
		return;
	if (!process->on) {
		kernels->before_ns[kernels->before_count++ % STEPS_BEFORE] = (double)step_ns;
	} else if (kernels->after_count < STEPS_AFTER && kernels->before_count >= STEPS_BEFORE) {
		kernels->after_ns[kernels->after_count++] = (double)step_ns;
		if (kernels->after_count == STEPS_AFTER)
			check_cost(kernels);
	}
}

void attach_kernels_kernel(struct attach_kernels *kernels, const struct ring_source_kernel *kernel)
{
	if (!find(kernels, kernel->pid))
		return;
	job_kernel(kernels->job, kernel->pid,
		&(struct kernel_calls_kernel){.name = kernel->name,
			.stream = kernel->stream,
			.launch = kernel->launch,
			.start = kernel->start,
			.stop = kernel->stop});
}

void attach_kernels_ended(struct attach_kernels *kernels, pid_t pid)
{
	struct shown_process *process = find(kernels, pid);

	if (process)
		*process = kernels->processes[--kernels->count];
}

/* Enough is known of what it will cost. */
static bool is_time(struct attach_kernels *kernels)
{
	bool counted = true;
	uint32_t a_second;

	for (size_t i = 0; i < kernels->count; i++) {
		const struct shown_process *process = &kernels->processes[i];
		enum launch_rate rate;

		if (attach_events_serve(kernels->events, process->pid))
			continue;
		rate = launch_rates_get(kernels->rates, process->pid, kernels->now, &a_second);
		counted &= rate != LAUNCH_RATE_UNKNOWN;
		if (rate == LAUNCH_RATE_HIGH && !process->on)
			look_result_tell(LOOK_MANY_LAUNCHES, a_second, kernels->why_not);
	}
	return kernels->before_count >= STEPS_BEFORE && !*kernels->why_not &&
	       (counted || kernels->now.value - kernels->first_ns > count_patience_ns);
}

void attach_kernels_tick(struct attach_kernels *kernels, struct host_ns now)
{
	const uint32_t kinds = RING_DEEP_KERNELS | RING_DEEP_COPIES | RING_DEEP_LAUNCHES;
	bool wanted;

	if (!kernels)
		return;
	kernels->now = now;
	if (!kernels->count)
		return;
	if (!kernels->first_ns)
		kernels->first_ns = now.value;
	wanted = is_time(kernels);
	for (size_t i = 0; i < kernels->count; i++) {
		struct shown_process *process = &kernels->processes[i];

		if ((!wanted && !process->on) || (wanted && now.value < process->next_ns) ||
			attach_events_serve(kernels->events, process->pid))
			continue;
		/* While it is on, a look is part of it; before, it would have to end the look. */
		if (!process->on && device_looks_is_busy(kernels->looks, process->pid))
			continue;
		process->next_ns = now.value + (process->on ? renew_ns : answer_ns);
		if (!wanted)
			process->on = false;
		(void)!ring_source_request_deep(kernels->rings, process->pid,
			(wanted ? kinds : 0) | RING_DEEP_STEADY,
			(struct host_ns){now.value + length_ns}, wanted ? &process->request : NULL);
	}
}

static const char *reason(uint32_t state)
{
	switch (state) {
	case RING_DEEP_NO_LIBRARY:
		return "no CUPTI in the process or beside its CUDA runtime";
	case RING_DEEP_OTHER_SUBSCRIBER:
		return "another profiler uses CUPTI: we give way";
	default:
		return "CUPTI could not be started";
	}
}

bool attach_kernels_state(const struct attach_kernels *kernels, struct message_source *out)
{
	struct kernel_calls_counts counts;
	const char *why = "";
	uint64_t all;

	if (!kernels || !kernels->any)
		return false;
	for (size_t i = 0; i < kernels->count; i++) {
		if (kernels->processes[i].refused != RING_DEEP_ON)
			why = reason(kernels->processes[i].refused);
	}
	if (*kernels->why_not)
		why = kernels->why_not;
	job_kernel_counts(kernels->job, &counts);
	all = counts.matched + counts.unmatched;
	if (!all && !*why)
		return false;
	snprintf(out->name, sizeof(out->name), "device.time");
	out->state = counts.matched == 0		     ? SOURCE_MISSING
		     : counts.unmatched * 100 < all && !*why ? SOURCE_ON
							     : SOURCE_DEGRADED;
	/* In steps of tenths, so that it is not told anew all the time. */
	if (*why)
		snprintf(out->why, sizeof(out->why), "%s", why);
	else if (out->state != SOURCE_ON)
		snprintf(out->why, sizeof(out->why),
			"about %" PRIu64 "0 %% of the calls could be matched to a kernel",
			counts.matched * 10 / all);
	return true;
}
