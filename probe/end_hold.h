/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where all that outlives the command is killed, as in a step of Slurm, and the job's coordinator runs
 * beside it: `run` stays until the coordinator has ended, which serves the ranks of other nodes. The probe
 * asks for it, the relay watches the coordinator, the supervisor believes the relay for a moment at a time;
 * whichever of them makes no progress, `run` ends. In memory that these processes share. NULL: nothing is held.
 */
#ifndef SLOWRANK_PROBE_END_HOLD_H
#define SLOWRANK_PROBE_END_HOLD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct end_hold;

/* Before the processes part; theirs until they end. NULL where there is no memory. */
struct end_hold *end_hold_create(void);

/*
 * In the probe, when it has nothing more to send: the coordinator goes on without it. False where `run`
 * does not stay for it.
 */
bool end_hold_ask(struct end_hold *hold, pid_t coordinator);

/* In the supervisor: the command failed, or a signal came. */
void end_hold_refuse(struct end_hold *hold);

/*
 * In the relay, at its limit: whether the coordinator has run since *seen_ns (of its CPU time; 0 at first), as
 * one does a few times a second that is not stopped and does not hang. If so, the supervisor will
 * wait until until_ms.
 */
bool end_hold_goes_on(struct end_hold *hold, int64_t *seen_ns, int64_t until_ms);

/* In the supervisor: until when the relay wants to stay (CLOCK_MONOTONIC); 0 = no longer than usual. */
int64_t end_hold_until_ms(const struct end_hold *hold);

#endif
