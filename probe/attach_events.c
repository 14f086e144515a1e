/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach_events.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Asked for again in time; when we end, the library ends it by itself. */
static const int64_t length_ns = 10000000000, renew_ns = 3000000000;
/* The library waits for a second, the first call of a context is not timed: a few steps. */
static const int64_t patience_ns = 8000000000;

/* Of a caller's time, at most, in this long; less where nobody asked for it. */
#define SPENT_SHARE_MAX 0.03
#define SPENT_SHARE_UNASKED_MAX 0.01
static const int64_t spent_window_ns = 5000000000;

/* Of so many calls that the plug-in tells of, one in eight is without times: events are worth their cost. */
enum { TOLD_CALLS = 64, UNTOLD_ONE_IN = 8 };
/* Of so many calls, half get no times by events either: they are of no use here. */
enum { FILLED_CALLS_MIN = 1000 };

struct timed_process {
	pid_t pid;
	bool told;   /* by the plug-in: its calls without times alone are timed */
	bool wanted; /* there are many of these */
	uint32_t told_count, untold_count;
	int64_t window_ns; /* when what is spent was looked at; 0: not yet */
	uint64_t window_spent_ns;
	int64_t first_ns, next_ns; /* when it came, and to be asked again */
	bool timed;		   /* some call was */
	struct ring_timed_state state;
};

struct attach_events {
	struct ring_source *rings;
	struct job *job;
	struct host_ns now;
	uint64_t captured, unplaced, failed; /* of processes that ended */
	unsigned over_budget_percent; /* of a caller's time: it was switched off; 0: it was not */
	bool attached, asked;
	bool in_vain; /* likewise switched off */
	size_t count;
	struct timed_process processes[RING_SOURCE_PROCESSES_MAX];
};

struct attach_events *attach_events_create(
	struct ring_source *rings, struct job *job, bool attached, bool asked)
{
	struct attach_events *events = calloc(1, sizeof(*events));

	if (!events)
		return NULL;
	events->rings = rings;
	events->job = job;
	events->attached = attached;
	events->asked = asked;
	return events;
}

void attach_events_destroy(struct attach_events *events)
{
	for (size_t i = 0; events && i < events->count; i++)
		(void)!ring_source_time_calls(
			events->rings, events->processes[i].pid, (struct host_ns){0});
	free(events);
}

static struct timed_process *find(const struct attach_events *events, pid_t pid)
{
	for (size_t i = 0; events && i < events->count; i++) {
		if (events->processes[i].pid == pid)
			return (struct timed_process *)&events->processes[i];
	}
	return NULL;
}

void attach_events_hello(struct attach_events *events, pid_t pid, const struct ring_hello *hello)
{
	if (!events || find(events, pid) || events->count == RING_SOURCE_PROCESSES_MAX)
		return;
	events->processes[events->count++] = (struct timed_process){
		.pid = pid, .told = hello->nccl_profiler_version != 0 || !events->attached};
}

void attach_events_told(struct attach_events *events, pid_t pid, bool with_times)
{
	struct timed_process *process = find(events, pid);

	if (!process || !process->told)
		return;
	process->untold_count += !with_times;
	if (++process->told_count < TOLD_CALLS)
		return;
	process->wanted |= process->untold_count * UNTOLD_ONE_IN >= process->told_count;
	process->told_count = process->untold_count = 0;
}

static bool is_off(const struct attach_events *events)
{
	return events->over_budget_percent || events->in_vain;
}

void attach_events_call(struct attach_events *events, const struct ring_source_timed_call *call)
{
	struct timed_process *process = find(events, call->pid);

	if (!process || is_off(events))
		return;
	if (!process->timed && process->told)
		job_calls_filled(events->job, call->pid, events->now);
	else if (!process->timed)
		job_calls_timed(events->job, call->pid, events->now);
	process->timed = true;
	job_call_time(events->job, call->pid,
		&(struct call_times_event){.handle = call->handle,
			.thread = call->thread_id,
			.entered = call->entered,
			.returned = call->returned,
			.launched = call->launched,
			.start = call->start,
			.stop = call->stop});
}

/* For all processes: ranks with device times beside others without are compared with nobody. */
static void switch_off(struct attach_events *events)
{
	for (size_t i = 0; i < events->count; i++) {
		(void)!ring_source_time_calls(
			events->rings, events->processes[i].pid, (struct host_ns){0});
		job_calls_untimed(events->job, events->processes[i].pid, events->now);
	}
}

static void check_cost(struct attach_events *events, struct timed_process *process)
{
	int64_t window_ns = events->now.value - process->window_ns;
	double share, share_max = events->asked ? SPENT_SHARE_MAX : SPENT_SHARE_UNASKED_MAX;

	if (process->window_ns && window_ns < spent_window_ns)
		return;
	share = (double)(process->state.spent_ns - process->window_spent_ns) / (double)window_ns;
	if (process->window_ns && share > share_max && !events->over_budget_percent) {
		events->over_budget_percent = (unsigned)(share * 100);
		switch_off(events);
	}
	process->window_ns = events->now.value;
	process->window_spent_ns = process->state.spent_ns;
}

/* As with a plug-in that does not tell when a group's calls were made. */
static void check_use(struct attach_events *events)
{
	struct call_times_counts counts;

	job_call_times_counts(events->job, &counts);
	if (counts.timed + counts.untimed < FILLED_CALLS_MIN || counts.timed >= counts.untimed)
		return;
	events->in_vain = true;
	switch_off(events);
}

void attach_events_state(
	struct attach_events *events, pid_t pid, const struct ring_timed_state *state)
{
	struct timed_process *process = find(events, pid);

	if (!process)
		return;
	process->state = *state;
	job_calls_settled(events->job, pid, (struct host_ns){state->settled_host_ns}, events->now);
	check_cost(events, process);
	if (process->told && !is_off(events))
		check_use(events);
}

void attach_events_ended(struct attach_events *events, pid_t pid)
{
	struct timed_process *process = find(events, pid);

	if (!process)
		return;
	events->captured += process->state.captured;
	events->unplaced += process->state.unplaced;
	events->failed += process->state.failed;
	*process = events->processes[--events->count];
}

void attach_events_tick(struct attach_events *events, struct host_ns now)
{
	if (!events)
		return;
	events->now = now;
	for (size_t i = 0; i < events->count; i++) {
		struct timed_process *process = &events->processes[i];

		if (!process->first_ns)
			process->first_ns = now.value;
		if (now.value < process->next_ns || is_off(events) ||
			(process->told && !process->wanted))
			continue;
		process->next_ns = now.value + renew_ns;
		(void)!ring_source_time_calls(
			events->rings, process->pid, (struct host_ns){now.value + length_ns});
	}
}

bool attach_events_serve(const struct attach_events *events, pid_t pid)
{
	const struct timed_process *process = find(events, pid);

	return process && !process->told &&
	       (process->timed || events->over_budget_percent || !process->first_ns ||
		       events->now.value - process->first_ns < patience_ns);
}

/* Why most of them are not timed. */
static const char *reason(const struct attach_events *events, uint64_t untimed)
{
	uint64_t captured = events->captured, unplaced = events->unplaced, failed = events->failed;

	for (size_t i = 0; i < events->count; i++) {
		captured += events->processes[i].state.captured;
		unplaced += events->processes[i].state.unplaced;
		failed += events->processes[i].state.failed;
	}
	if (captured * 2 > untimed)
		return "the others were captured into graphs";
	if (unplaced * 2 > untimed)
		return "for the others, too many were in flight";
	if (failed * 2 > untimed)
		return "the others belong to groups whose kernels cannot be told apart, or their "
		       "events failed";
	return "the others were called through pointers that no library's data holds";
}

bool attach_events_off(const struct attach_events *events, struct message_source *out)
{
	if (!events || !is_off(events))
		return false;
	snprintf(out->name, sizeof(out->name), "device.time");
	out->state = SOURCE_MISSING;
	if (events->over_budget_percent)
		snprintf(out->why, sizeof(out->why),
			"switched off: timing calls by events took %u %% of a rank's time",
			events->over_budget_percent);
	else
		snprintf(out->why, sizeof(out->why),
			"switched off: most calls that NCCL tells no times of got none by events");
	return true;
}

bool attach_events_coverage(const struct attach_events *events, struct message_source *out)
{
	struct call_times_counts counts = {0};
	uint64_t all;

	if (attach_events_off(events, out))
		return true;
	if (events)
		job_call_times_counts(events->job, &counts);
	if (!counts.timed)
		return false;
	all = counts.timed + counts.untimed;
	snprintf(out->name, sizeof(out->name), "device.time");
	out->state = counts.untimed * 100 < all ? SOURCE_ON : SOURCE_DEGRADED;
	/* In steps of tenths, so that it is not told anew all the time. */
	if (out->state == SOURCE_DEGRADED)
		snprintf(out->why, sizeof(out->why),
			"about %" PRIu64 "0 %% of the calls are timed; %s", counts.timed * 10 / all,
			reason(events, counts.untimed));
	return true;
}
