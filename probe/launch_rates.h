/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each process launches on its devices a second, and whether CUPTI may be started in it: the one
 * rule for deep looks and for attach --deep. Once started, CUPTI makes each call into CUDA dearer,
 * recorded or not, until the process ends. One thread.
 *
 * The rate is that of a usual step: launches of a step, over the length of the fastest steps seen. A job
 * that a straggler holds up launches less often than it will again when the straggler has recovered.
 */
#ifndef SLOWRANK_PROBE_LAUNCH_RATES_H
#define SLOWRANK_PROBE_LAUNCH_RATES_H

#include <sys/types.h>

#include "analysis/base/step.h"

/*
 * With 60,000 launches a second a step took half as long again for good, also with 30,000 in steps of 20 ms;
 * with 6,000 as before (H200, CUDA 13.0).
 */
enum { LAUNCHES_A_SECOND_MAX = 25000 };
/* A rate that is known holds for so long. */
#define LAUNCH_RATE_HOLDS_NS INT64_C(300000000000)

enum launch_rate {
	LAUNCH_RATE_UNKNOWN = 0,
	LAUNCH_RATE_LOW = 1,
	LAUNCH_RATE_HIGH = 2, /* CUPTI would slow the process down */
};

/* Launches of a process that were counted in a window. */
struct launch_count {
	uint64_t launches;
	struct host_ns from, until;
};

struct launch_rates;

/* Returns NULL without memory. */
struct launch_rates *launch_rates_create(void);
void launch_rates_destroy(struct launch_rates *rates); /* NULL is fine */

/* A process comes, and ends. Of others nothing is known. */
void launch_rates_add(struct launch_rates *rates, pid_t pid);
void launch_rates_ended(struct launch_rates *rates, pid_t pid);

/* A step of a process, in order. */
void launch_rates_step(struct launch_rates *rates, pid_t pid, const struct step_entry *step);

/* A window has ended: its rate is known as soon as its last step is. */
void launch_rates_counted(struct launch_rates *rates, pid_t pid, const struct launch_count *count);

/* a_second: in hundreds; not set while the rate is unknown. */
enum launch_rate launch_rates_get(
	const struct launch_rates *rates, pid_t pid, struct host_ns now, uint32_t *a_second);

/* The rate is unknown, and no count is there to tell it soon. */
bool launch_rates_needs_count(const struct launch_rates *rates, pid_t pid, struct host_ns now);

#endif
