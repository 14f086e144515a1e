/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/device_looks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/device_look.h"
#include "probe/looks/requests.h"

enum {
	RANKS_MAX = 4096,
};

/* The helper in the process looks every 20 ms; CUPTI's start can take a second. */
static const int64_t answer_patience_ns = 10000000000;
/* After the end: what CUPTI still holds, and the last step before it. */
static const int64_t drain_patience_ns = 3000000000;

enum look_phase { LOOK_IDLE = 0, LOOK_COUNTING, LOOK_ASKED, LOOK_ON, LOOK_DRAINING };

struct process_look {
	pid_t pid;
	enum look_phase phase;
	uint32_t rank, request, steps_wanted, limit_ms;
	uint32_t ring_request; /* as the process knows it */
	uint32_t looks_begun;
	struct host_ns asked, stop, on, off, newest_step_end;
	int64_t newest_step_ns;
	uint64_t invalid, lost;
	struct device_look *look; /* NULL while idle */
	uint64_t steps_seen;	  /* of the process, ever */
	bool baseline_tried;
	enum look_result refused;	     /* LOOK_DONE: it was not */
	uint32_t launches_a_second;	     /* of LOOK_MANY_LAUNCHES */
	struct host_ns refused_at, ended_at; /* ended_at 0: no look yet */
	int64_t spent_ns;		     /* looked at for so long, when the last one ended */
};

struct device_looks {
	struct device_looks_options options;
	struct ring_source *rings;
	struct job *job;
	const struct launch_rates *rates;
	struct host_ns now;
	size_t process_count;
	struct process_look *processes[RING_SOURCE_PROCESSES_MAX];
	struct look_requests requests;
	size_t done_count, taken_count;
	struct kernel_profile done[2 * DEVICE_LOOKS_AT_ONCE];
	uint64_t lost_results;
};

static struct process_look *find_process(const struct device_looks *looks, pid_t pid)
{
	for (size_t i = 0; i < looks->process_count; i++) {
		if (looks->processes[i]->pid == pid)
			return looks->processes[i];
	}
	return NULL;
}

/* A process in which it did not work is left alone for a while. */
static bool is_resting(const struct device_looks *looks, const struct process_look *process)
{
	return process->refused != LOOK_DONE &&
	       looks->now.value - process->refused_at.value < DEVICE_LOOKS_REST_NS;
}

static int64_t spent_ns(const struct device_looks *looks, const struct process_look *process)
{
	int64_t since_ns = looks->now.value - process->ended_at.value;
	int64_t back_ns = (int64_t)(DEVICE_LOOKS_SHARE * (double)since_ns);

	return process->spent_ns > back_ns ? process->spent_ns - back_ns : 0;
}

static size_t count_active(const struct device_looks *looks)
{
	size_t count = 0;

	for (size_t i = 0; i < looks->process_count; i++)
		count += looks->processes[i]->phase != LOOK_IDLE;
	return count;
}

void device_looks_step(struct device_looks *looks, pid_t pid, const struct step_entry *step)
{
	struct process_look *process = find_process(looks, pid);

	/* While no period is known, stretches of time are no steps to count by. */
	if (!process || step->flags & STEP_WINDOW)
		return;
	process->steps_seen++;
	process->newest_step_end = step->end;
	process->newest_step_ns = step->end.value - step->start.value;
	if (process->phase == LOOK_ON || process->phase == LOOK_DRAINING)
		device_look_step(process->look, step->start, step->end);
}

struct device_looks *device_looks_create(const struct device_looks_options *options,
	struct ring_source *rings, struct job *job, const struct launch_rates *rates)
{
	struct device_looks *looks = calloc(1, sizeof(*looks));

	if (!looks)
		return NULL;
	looks->options = *options;
	looks->rings = rings;
	looks->job = job;
	looks->rates = rates;
	return looks;
}

void device_looks_destroy(struct device_looks *looks)
{
	if (!looks)
		return;
	for (size_t i = 0; i < looks->process_count; i++) {
		device_look_destroy(looks->processes[i]->look);
		free(looks->processes[i]);
	}
	free(looks);
}

static bool is_allowed(const struct device_looks *looks)
{
	return looks->options.deep != PROBE_DEEP_OFF &&
	       (looks->options.deep == PROBE_DEEP_ON || !looks->options.attached);
}

/* Who asks for looks in words has them whatever they cost; else the job comes first. */
static bool needs_rate(const struct device_looks *looks)
{
	return looks->options.deep != PROBE_DEEP_ON || looks->options.attached;
}

static void put_result(struct device_looks *looks, const struct kernel_profile *profile)
{
	if (looks->taken_count) { /* what was handed out is sent by now */
		looks->done_count = 0;
		looks->taken_count = 0;
	}
	if (looks->done_count == sizeof(looks->done) / sizeof(looks->done[0]))
		looks->lost_results++;
	else
		looks->done[looks->done_count++] = *profile;
}

/* process: of LOOK_MANY_LAUNCHES; else it may be NULL. */
static void refuse(struct device_looks *looks, const struct process_look *process, uint32_t rank,
	uint32_t request, enum look_result result)
{
	put_result(looks,
		&(struct kernel_profile){.rank = rank,
			.request = request,
			.result = (uint8_t)result,
			.launches_a_second =
				result == LOOK_MANY_LAUNCHES ? process->launches_a_second : 0,
			.start = looks->now,
			.stop = looks->now});
}

/* Ends a look that came to nothing. */
static void fail(struct device_looks *looks, struct process_look *process, enum look_result result)
{
	refuse(looks, process, process->rank, process->request, result);
	device_look_destroy(process->look);
	process->look = NULL;
	process->phase = LOOK_IDLE;
	process->refused = result;
	process->refused_at = looks->now;
}

static void finish(struct device_looks *looks, struct process_look *process)
{
	struct kernel_profile profile;

	device_look_finish(process->look, process->on, process->off, process->invalid,
		process->lost, &profile);
	profile.rank = process->rank;
	profile.request = process->request;
	put_result(looks, &profile);
	device_look_destroy(process->look);
	process->look = NULL;
	process->phase = LOOK_IDLE;
	process->refused = LOOK_DONE;
	process->spent_ns = spent_ns(looks, process) + process->off.value - process->on.value;
	process->ended_at = looks->now;
}

static void begin(struct device_looks *looks, struct process_look *process)
{
	const uint32_t kinds = RING_DEEP_KERNELS | RING_DEEP_COPIES | RING_DEEP_SYNCHRONISATION |
			       RING_DEEP_LAUNCHES;

	process->asked = looks->now;
	process->stop.value = looks->now.value + (int64_t)process->limit_ms * 1000000;
	process->on = process->off = (struct host_ns){0};
	process->invalid = process->lost = 0;
	process->look = device_look_create();
	process->phase = LOOK_ASKED;
	process->looks_begun++;
	if (!process->look)
		fail(looks, process, LOOK_FAILED);
	else if (ring_source_request_deep(looks->rings, process->pid, kinds, process->stop,
			 &process->ring_request) < 0)
		fail(looks, process, LOOK_UNREACHABLE);
}

/* Begins if what the process launches allows it; not known is no. */
static void begin_if_cheap(struct device_looks *looks, struct process_look *process)
{
	switch (launch_rates_get(
		looks->rates, process->pid, looks->now, &process->launches_a_second)) {
	case LAUNCH_RATE_LOW:
		begin(looks, process);
		break;
	case LAUNCH_RATE_HIGH:
		fail(looks, process, LOOK_MANY_LAUNCHES);
		break;
	case LAUNCH_RATE_UNKNOWN:
		if (!looks->options.can_count ||
			looks->now.value - process->asked.value > DEVICE_LOOKS_COUNT_NS)
			fail(looks, process, LOOK_NOT_COUNTED);
		break;
	}
}

static void take_directive(struct device_looks *looks, struct process_look *process, uint32_t rank,
	const struct message_directive *directive)
{
	uint32_t steps = directive->steps < DEVICE_LOOKS_STEPS_MAX ? directive->steps
								   : DEVICE_LOOKS_STEPS_MAX;

	process->rank = rank;
	process->request = directive->request;
	process->steps_wanted = steps ? steps : 1;
	process->limit_ms = directive->limit_ms < DEVICE_LOOKS_LIMIT_MS_MAX
				    ? directive->limit_ms
				    : DEVICE_LOOKS_LIMIT_MS_MAX;
	if (!needs_rate(looks)) {
		begin(looks, process);
		return;
	}
	process->asked = looks->now;
	process->phase = LOOK_COUNTING;
	begin_if_cheap(looks, process);
}

void device_looks_ask(
	struct device_looks *looks, const struct message_directive *directive, struct host_ns now)
{
	struct process_look *process;

	looks->now = now;
	if (directive->kind != DIRECTIVE_DEEP ||
		look_requests_know(&looks->requests, directive->request))
		return;
	process = find_process(looks, job_pid_of_rank(looks->job, directive->rank));
	/* Not now: the directive comes again. */
	if (process && (process->phase != LOOK_IDLE ||
			       spent_ns(looks, process) >= DEVICE_LOOKS_SPENT_NS_MAX ||
			       count_active(looks) >= DEVICE_LOOKS_AT_ONCE))
		return;
	look_requests_add(&looks->requests, directive->request);
	if (!is_allowed(looks) || !process)
		refuse(looks, NULL, directive->rank, directive->request, LOOK_UNREACHABLE);
	else if (is_resting(looks, process))
		refuse(looks, process, directive->rank, directive->request, process->refused);
	else if (process->looks_begun >= DEVICE_LOOKS_OF_PROCESS_MAX)
		refuse(looks, NULL, directive->rank, directive->request, LOOK_ENOUGH);
	else
		take_directive(looks, process, directive->rank, directive);
}

void device_looks_hello(struct device_looks *looks, pid_t pid)
{
	struct process_look *process;

	if (find_process(looks, pid) || looks->process_count == RING_SOURCE_PROCESSES_MAX)
		return;
	process = calloc(1, sizeof(*process));
	if (!process)
		return;
	process->pid = pid;
	looks->processes[looks->process_count++] = process;
}

bool device_looks_is_busy(const struct device_looks *looks, pid_t pid)
{
	const struct process_look *process = find_process(looks, pid);

	return process && process->phase != LOOK_IDLE;
}

static struct process_look *find_look(const struct device_looks *looks, pid_t pid)
{
	struct process_look *process = find_process(looks, pid);

	return process && (process->phase == LOOK_ON || process->phase == LOOK_DRAINING) ? process
											 : NULL;
}

void device_looks_kernel(struct device_looks *looks, const struct ring_source_kernel *kernel)
{
	struct process_look *process = find_look(looks, kernel->pid);

	if (process)
		device_look_kernel(process->look, kernel);
}

void device_looks_copy(struct device_looks *looks, const struct ring_source_memcpy *copy)
{
	struct process_look *process = find_look(looks, copy->pid);

	if (process)
		device_look_copy(process->look, copy);
}

void device_looks_synchronisation(
	struct device_looks *looks, const struct ring_source_synchronisation *synchronisation)
{
	struct process_look *process = find_look(looks, synchronisation->pid);

	if (process)
		device_look_synchronisation(process->look, synchronisation);
}

static enum look_result result_of(uint32_t state)
{
	switch (state) {
	case RING_DEEP_NO_LIBRARY:
		return LOOK_NO_LIBRARY;
	case RING_DEEP_OTHER_SUBSCRIBER:
		return LOOK_OTHER_PROFILER;
	default:
		return LOOK_FAILED;
	}
}

void device_looks_report(
	struct device_looks *looks, pid_t pid, const struct ring_deep_report *report)
{
	struct process_look *process = find_process(looks, pid);

	if (!process || report->request != process->ring_request)
		return; /* attach's windows are reported, too */
	if (process->phase == LOOK_ASKED && report->state == RING_DEEP_ON) {
		process->phase = LOOK_ON;
		process->on.value = report->host_ns;
	} else if (process->phase == LOOK_ASKED) {
		fail(looks, process, result_of(report->state));
	} else if (process->phase == LOOK_ON && report->state == RING_DEEP_OFF) {
		process->phase = LOOK_DRAINING;
		process->off.value = report->host_ns;
		process->invalid = report->invalid;
		process->lost = report->dropped;
	} else if (process->phase == LOOK_ON && report->state != RING_DEEP_ON) {
		fail(looks, process, result_of(report->state));
	}
}

void device_looks_ended(struct device_looks *looks, pid_t pid)
{
	for (size_t i = 0; i < looks->process_count; i++) {
		struct process_look *process = looks->processes[i];

		if (process->pid != pid)
			continue;
		if (process->phase == LOOK_DRAINING)
			finish(looks, process);
		else if (process->phase != LOOK_IDLE)
			fail(looks, process, LOOK_UNREACHABLE);
		free(process);
		looks->processes[i] = looks->processes[--looks->process_count];
		return;
	}
}

static void tick_process(struct device_looks *looks, struct process_look *process)
{
	int64_t now_ns = looks->now.value;

	switch (process->phase) {
	case LOOK_IDLE:
		break;
	case LOOK_COUNTING:
		begin_if_cheap(looks, process);
		break;
	case LOOK_ASKED:
		if (now_ns - process->asked.value > answer_patience_ns) {
			(void)!ring_source_request_deep(
				looks->rings, process->pid, 0, looks->now, NULL);
			fail(looks, process, LOOK_FAILED);
		}
		break;
	case LOOK_ON:
		/* One more than wanted: the first is left out. */
		if (device_look_step_count(process->look, process->on) > process->steps_wanted &&
			process->stop.value > now_ns) {
			process->stop.value = now_ns;
			(void)!ring_source_request_deep(
				looks->rings, process->pid, 0, looks->now, NULL);
		}
		if (now_ns - process->stop.value > answer_patience_ns)
			fail(looks, process, LOOK_FAILED);
		break;
	case LOOK_DRAINING:
		/* Another step like the last would end after it. */
		if (process->newest_step_end.value + process->newest_step_ns >=
				process->off.value ||
			now_ns - process->off.value > drain_patience_ns)
			finish(looks, process);
		break;
	}
}

/* At the same step on all ranks, which move in step: the job pays once, and they can be compared. */
static void begin_baseline(struct device_looks *looks, struct process_look *process)
{
	const struct message_directive own = {.kind = DIRECTIVE_DEEP,
		.steps = DEVICE_LOOKS_BASELINE_STEPS,
		.limit_ms = DEVICE_LOOKS_LIMIT_MS_MAX};
	static struct job_rank ranks[RANKS_MAX];
	size_t count;

	/* An attach is allowed looks by --deep: it does not ask for more of them. */
	if (looks->options.deep != PROBE_DEEP_ON || looks->options.attached ||
		process->baseline_tried || process->phase != LOOK_IDLE ||
		process->steps_seen < DEVICE_LOOKS_BASELINE_STEP ||
		count_active(looks) >= DEVICE_LOOKS_AT_ONCE)
		return;
	count = job_ranks(looks->job, ranks, RANKS_MAX);
	for (size_t i = 0; i < count; i++) {
		if (ranks[i].pid != process->pid)
			continue;
		process->baseline_tried = true;
		take_directive(looks, process, ranks[i].rank, &own);
		return;
	}
}

bool device_looks_wants_launches(const struct device_looks *looks)
{
	for (size_t i = 0; i < looks->process_count; i++) {
		const struct process_look *process = looks->processes[i];

		if (process->phase == LOOK_COUNTING &&
			launch_rates_needs_count(looks->rates, process->pid, looks->now))
			return true;
	}
	return false;
}

void device_looks_tick(struct device_looks *looks, struct host_ns now)
{
	looks->now = now;
	for (size_t i = 0; i < looks->process_count; i++) {
		begin_baseline(looks, looks->processes[i]);
		tick_process(looks, looks->processes[i]);
	}
}

size_t device_looks_take(struct device_looks *looks, struct kernel_profile **profiles)
{
	size_t count = looks->taken_count ? 0 : looks->done_count;

	*profiles = looks->done;
	if (count)
		looks->taken_count = count;
	return count;
}

uint64_t device_looks_lost(const struct device_looks *looks)
{
	return looks->lost_results;
}

static void put_state(struct message_source *out, enum source_state state, const char *why)
{
	snprintf(out->name, sizeof(out->name), "device.kernels");
	out->state = (uint8_t)state;
	snprintf(out->why, sizeof(out->why), "%s", why);
}

/* Processes that refused lately, and the first one's reason. */
static size_t count_refused(const struct device_looks *looks, char *why, size_t capacity)
{
	char text[LOOK_TEXT_LENGTH];
	size_t count = 0;

	for (size_t i = 0; i < looks->process_count; i++) {
		const struct process_look *process = looks->processes[i];

		if (!is_resting(looks, process))
			continue;
		if (count++ == 0)
			snprintf(why, capacity, "rank %u: %s", process->rank,
				look_result_tell(
					process->refused, process->launches_a_second, text));
	}
	return count;
}

bool device_looks_state(const struct device_looks *looks, struct message_source *out)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "", text[LOOK_TEXT_LENGTH];
	size_t refused;

	if (!looks->process_count)
		return false;
	refused = count_refused(looks, why, sizeof(why));
	if (looks->options.deep == PROBE_DEEP_OFF)
		put_state(out, SOURCE_OFF, "--deep off");
	else if (!is_allowed(looks))
		put_state(out, SOURCE_OFF, "attach looks at kernels only with --deep");
	else if (needs_rate(looks) && !looks->options.can_count)
		put_state(out, SOURCE_MISSING, look_result_tell(LOOK_NOT_COUNTED, 0, text));
	else if (refused == looks->process_count)
		put_state(out, SOURCE_MISSING, why);
	else
		put_state(out, refused ? SOURCE_DEGRADED : SOURCE_ON, why);
	return true;
}
