/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The looks at stacks of a probe: starts a sampler (sampler.h) for a rank when the coordinator asks for it, follows the rank's
 * steps meanwhile, and makes a profile of what comes. A coordinator gone wild gets few of them: so many at once, so much of a
 * rank's time, and rests. One thread.
 */
#ifndef SLOWRANK_PROBE_LOOKS_HOST_LOOKS_H
#define SLOWRANK_PROBE_LOOKS_HOST_LOOKS_H

#include "probe/looks/sampler.h"
#include "probe/wire/message.h"

enum {
	HOST_LOOKS_AT_ONCE = 4,
	HOST_LOOKS_STEPS_MAX = 10000,
	HOST_LOOKS_LIMIT_MS_MAX = 60000,
};
/* Of a rank: so much of its time on average, and so long in a row. */
#define HOST_LOOKS_SHARE 0.1
#define HOST_LOOKS_SPENT_NS_MAX INT64_C(90000000000)
/* After a look that came to nothing. */
#define HOST_LOOKS_REST_NS INT64_C(60000000000)
/* After one without the right to look, the coverage says so for as long, and nobody asks. */
#define HOST_LOOKS_MISSING_NS INT64_C(600000000000)

struct host_looks;

/* wanted: else every look is refused, and the coverage says that nobody asked for them. NULL without memory. */
struct host_looks *host_looks_create(bool wanted);
void host_looks_destroy(struct host_looks *looks); /* NULL is fine; samplers are ended */

/* Does what a directive says, once for each request number. pid: the rank's; 0: it is not known here, or has ended. */
void host_looks_ask(struct host_looks *looks, const struct message_directive *directive, pid_t pid,
	struct host_ns now);

/* A step of a rank, in order. */
void host_looks_step(struct host_looks *looks, pid_t pid, const struct step_entry *step);

/* Takes what samplers told, and ends looks. */
void host_looks_tick(struct host_looks *looks, struct host_ns now);

/* Profiles that are done since the last call, WIRE_STACK_PROFILES_PER_BATCH_MAX at most: they stay until the next call. */
size_t host_looks_take(struct host_looks *looks, struct stack_profile ***profiles);

/* The job has ended: looks that are under way end at the next ticks, and what they saw counts. */
void host_looks_end(struct host_looks *looks);

/* Some look is under way. */
bool host_looks_are_busy(const struct host_looks *looks);

/* "host.stacks". */
void host_looks_state(const struct host_looks *looks, struct message_source *out);

#endif
