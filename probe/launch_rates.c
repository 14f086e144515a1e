/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/launch_rates.h"

#include <stdlib.h>

#include "probe/sources/ring_source.h"

enum {
	STEPS_KEPT = 256, /* a window spans fewer, or is judged by these */
	STEPS_USUAL = 8,  /* in a row: as fast as that the process can be */
};
#define COVERED_MIN 0.5 /* of a window, by steps that are known */

struct span {
	int64_t start_ns, end_ns;
};

struct process_rate {
	pid_t pid;
	uint64_t step_count; /* ever; the newest are kept */
	struct span steps[STEPS_KEPT];
	double fastest_ns; /* mean length of the fastest steps in a row; 0: not known */
	bool counted;	   /* count waits for the window's last step */
	struct launch_count count;
	uint32_t a_second;
	int64_t known_ns; /* when it was counted; 0: never */
};

struct launch_rates {
	size_t count;
	struct process_rate *processes[RING_SOURCE_PROCESSES_MAX];
};

struct launch_rates *launch_rates_create(void)
{
	return calloc(1, sizeof(struct launch_rates));
}

void launch_rates_destroy(struct launch_rates *rates)
{
	for (size_t i = 0; rates && i < rates->count; i++)
		free(rates->processes[i]);
	free(rates);
}

static struct process_rate *find(const struct launch_rates *rates, pid_t pid)
{
	for (size_t i = 0; i < rates->count; i++) {
		if (rates->processes[i]->pid == pid)
			return rates->processes[i];
	}
	return NULL;
}

void launch_rates_add(struct launch_rates *rates, pid_t pid)
{
	struct process_rate *process;

	if (find(rates, pid) || rates->count == RING_SOURCE_PROCESSES_MAX)
		return;
	process = calloc(1, sizeof(*process));
	if (!process)
		return;
	process->pid = pid;
	rates->processes[rates->count++] = process;
}

void launch_rates_ended(struct launch_rates *rates, pid_t pid)
{
	for (size_t i = 0; i < rates->count; i++) {
		if (rates->processes[i]->pid != pid)
			continue;
		free(rates->processes[i]);
		rates->processes[i] = rates->processes[--rates->count];
		return;
	}
}

/* The nth newest step, from 0. */
static const struct span *newest(const struct process_rate *process, uint64_t n)
{
	return &process->steps[(process->step_count - 1 - n) % STEPS_KEPT];
}

static void note_fastest(struct process_rate *process)
{
	double sum_ns = 0;

	if (process->step_count < STEPS_USUAL)
		return;
	for (uint64_t n = 0; n < STEPS_USUAL; n++)
		sum_ns += (double)(newest(process, n)->end_ns - newest(process, n)->start_ns);
	if (process->fastest_ns == 0 || sum_ns / STEPS_USUAL < process->fastest_ns)
		process->fastest_ns = sum_ns / STEPS_USUAL;
}

static int64_t overlap_ns(const struct span *step, const struct span *window)
{
	int64_t start_ns = step->start_ns > window->start_ns ? step->start_ns : window->start_ns;
	int64_t end_ns = step->end_ns < window->end_ns ? step->end_ns : window->end_ns;

	return end_ns > start_ns ? end_ns - start_ns : 0;
}

/* Its steps are known. Where they cover too little of the window, it tells nothing. */
static void take_count(struct process_rate *process)
{
	const struct span window = {process->count.from.value, process->count.until.value};
	double length_ns = (double)(window.end_ns - window.start_ns), covered_ns = 0, steps = 0;
	double a_second, longer;

	process->counted = false;
	for (uint64_t n = 0; n < process->step_count && n < STEPS_KEPT; n++) {
		const struct span *step = newest(process, n);
		double ns = (double)overlap_ns(step, &window);

		covered_ns += ns;
		steps += ns / (double)(step->end_ns - step->start_ns);
	}
	if (covered_ns < COVERED_MIN * length_ns)
		return;
	a_second = (double)process->count.launches * 1e9 / length_ns;
	longer = process->fastest_ns > 0 ? covered_ns / steps / process->fastest_ns : 1;
	if (longer > 1)
		a_second *= longer;
	process->a_second = a_second < 1e9 ? (uint32_t)(a_second / 100) * 100 : 1000000000;
	process->known_ns = window.end_ns;
}

void launch_rates_step(struct launch_rates *rates, pid_t pid, const struct step_entry *step)
{
	struct process_rate *process = find(rates, pid);

	if (!process || step->flags & (STEP_WINDOW | STEP_IRREGULAR) ||
		step->end.value <= step->start.value)
		return;
	process->steps[process->step_count++ % STEPS_KEPT] =
		(struct span){step->start.value, step->end.value};
	note_fastest(process);
	if (process->counted && step->end.value >= process->count.until.value)
		take_count(process);
}

void launch_rates_counted(struct launch_rates *rates, pid_t pid, const struct launch_count *count)
{
	struct process_rate *process = find(rates, pid);

	/* One that waits is older, and soon known. */
	if (!process || process->counted || count->until.value <= count->from.value)
		return;
	process->counted = true;
	process->count = *count;
}

enum launch_rate launch_rates_get(
	const struct launch_rates *rates, pid_t pid, struct host_ns now, uint32_t *a_second)
{
	const struct process_rate *process = find(rates, pid);

	if (!process || !process->known_ns || now.value - process->known_ns >= LAUNCH_RATE_HOLDS_NS)
		return LAUNCH_RATE_UNKNOWN;
	*a_second = process->a_second;
	return process->a_second > LAUNCHES_A_SECOND_MAX ? LAUNCH_RATE_HIGH : LAUNCH_RATE_LOW;
}

bool launch_rates_needs_count(const struct launch_rates *rates, pid_t pid, struct host_ns now)
{
	const struct process_rate *process = find(rates, pid);
	uint32_t a_second;

	return process && !process->counted &&
	       launch_rates_get(rates, pid, now, &a_second) == LAUNCH_RATE_UNKNOWN;
}
