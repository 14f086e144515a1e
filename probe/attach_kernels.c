/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach_kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "probe/look_pace.h"

/* When we end in a window, the library ends it by itself. */
static const int64_t length_ns = 2 * LOOK_PACE_LENGTH_NS_MAX;
static const int64_t answer_ns = 3000000000, rest_ns = 15000000000;

struct shown_process {
	pid_t pid;
	bool on;
	int64_t next_ns;  /* when to ask (again) */
	uint32_t request; /* the last one for a window */
	uint32_t refused; /* enum ring_deep_state; RING_DEEP_ON: was not */
};

struct attach_kernels {
	struct ring_source *rings;
	struct job *job;
	const struct device_looks *looks;
	struct host_ns now;
	struct look_pace pace;
	bool any;	   /* ever */
	bool was_on;	   /* at the last tick */
	int64_t shown_ns;  /* of windows that have ended, and of all time since the first began */
	int64_t turned_ns; /* when the last window began or ended */
	int64_t all_ns;
	size_t count;
	struct shown_process processes[RING_SOURCE_PROCESSES_MAX];
};

struct attach_kernels *attach_kernels_create(
	struct ring_source *rings, struct job *job, const struct device_looks *looks)
{
	struct attach_kernels *kernels = calloc(1, sizeof(*kernels));

	if (!kernels)
		return NULL;
	kernels->rings = rings;
	kernels->job = job;
	kernels->looks = looks;
	look_pace_init(&kernels->pace);
	return kernels;
}

void attach_kernels_destroy(struct attach_kernels *kernels)
{
	/* What was asked for of the job ends with the watch. */
	for (size_t i = 0; kernels && i < kernels->count; i++) {
		if (kernels->processes[i].on)
			(void)!ring_source_request_deep(kernels->rings, kernels->processes[i].pid,
				0, kernels->now, 0, NULL);
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

	if (!process)
		return;
	/* Kernels are shown by a deep look, too. */
	job_kernels_shown(kernels->job, pid, report->state == RING_DEEP_ON);
	if (report->request != process->request)
		return;
	process->on = report->state == RING_DEEP_ON;
	process->next_ns = kernels->now.value;
	process->refused = RING_DEEP_ON;
	if (report->state == RING_DEEP_ON || report->state == RING_DEEP_OFF)
		return;
	process->refused = report->state;
	process->next_ns = kernels->now.value + rest_ns;
}

void attach_kernels_step(struct attach_kernels *kernels, pid_t pid, const struct step_entry *step)
{
	if (kernels && kernels->count && kernels->processes[0].pid == pid &&
		!(step->flags & (STEP_WINDOW | STEP_IRREGULAR)))
		look_pace_step(&kernels->pace, step->start, step->end);
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

static int64_t wall_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void note_share(struct attach_kernels *kernels, bool on)
{
	int64_t passed_ns = kernels->turned_ns ? kernels->now.value - kernels->turned_ns : 0;

	if (kernels->turned_ns && on == kernels->was_on)
		return;
	kernels->shown_ns += kernels->was_on ? passed_ns : 0;
	kernels->all_ns += passed_ns;
	kernels->turned_ns = kernels->now.value;
	kernels->was_on = on;
}

void attach_kernels_tick(struct attach_kernels *kernels, struct host_ns now)
{
	const uint32_t kinds = RING_DEEP_KERNELS | RING_DEEP_LAUNCHES | RING_DEEP_STEADY;
	bool wanted;

	if (!kernels)
		return;
	kernels->now = now;
	if (!kernels->count)
		return;
	wanted = look_pace_want(&kernels->pace, now, wall_clock_ns());
	note_share(kernels, wanted);
	for (size_t i = 0; i < kernels->count; i++) {
		struct shown_process *process = &kernels->processes[i];

		if (process->on == wanted || now.value < process->next_ns ||
			device_looks_is_busy(kernels->looks, process->pid))
			continue;
		process->next_ns = now.value + answer_ns;
		(void)!ring_source_request_deep(kernels->rings, process->pid, wanted ? kinds : 0,
			(struct host_ns){now.value + length_ns}, 0,
			wanted ? &process->request : NULL);
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

/* In few steps, so that it is not told anew all the time. */
static const char *share_words(const struct attach_kernels *kernels)
{
	int64_t shown_ns = kernels->shown_ns, all_ns = kernels->all_ns;

	return shown_ns * 2 > all_ns	? "more than half"
	       : shown_ns * 5 > all_ns	? "more than a fifth"
	       : shown_ns * 20 > all_ns ? "more than a twentieth"
					: "less than a twentieth";
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
			"about %" PRIu64 "0 %% of the collectives could be matched to a kernel",
			counts.matched * 10 / all);
	else if (counts.unshown) {
		out->state = SOURCE_DEGRADED;
		snprintf(out->why, sizeof(out->why),
			"in windows, %s of the time: they cost about %.0f %% of a step",
			share_words(kernels), ceil(look_pace_cost(&kernels->pace) * 20) * 5);
	}
	return true;
}
