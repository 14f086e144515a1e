/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach --deep to a job whose NCCL loads no plug-in any more: its processes time their collectives by
 * events around NCCL's calls (probe/inject/timed_calls.h), which costs so little that it is on whatever they
 * launch; but what it takes of their callers' time is measured, and it ends where that is too much. Where there is the
 * plug-in, its times are better; but a process of which it leaves many calls without, as NCCL tells those of other calls
 * for them (docs/clocks.md), has these timed by events as well, unless with --deep off. Calls through pointers that the library does not find are not timed: then CUPTI may be shown
 * (attach_kernels.h). One thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_EVENTS_H
#define SLOWRANK_PROBE_ATTACH_EVENTS_H

#include "probe/job.h"
#include "probe/sources/ring_source.h"

struct attach_events;

/*
 * rings and job outlive it. attached: also of processes without the plug-in, of whose calls uprobes tell. asked: by
 * --deep on; without, it may cost less. Returns NULL without memory.
 */
struct attach_events *attach_events_create(
	struct ring_source *rings, struct job *job, bool attached, bool asked);
void attach_events_destroy(struct attach_events *events); /* NULL is fine; ends the timing */

/* What the rings tell. NULL is fine for all of these. */
void attach_events_hello(struct attach_events *events, pid_t pid, const struct ring_hello *hello);
void attach_events_call(struct attach_events *events, const struct ring_source_timed_call *call);
/* The plug-in told of a call, with its device times or without. */
void attach_events_told(struct attach_events *events, pid_t pid, bool with_times);
void attach_events_state(
	struct attach_events *events, pid_t pid, const struct ring_timed_state *state);
void attach_events_ended(struct attach_events *events, pid_t pid);

/* Asks the processes for it, and again in time. */
void attach_events_tick(struct attach_events *events, struct host_ns now);

/* Its calls are timed, or it is too early to say that they are not. */
bool attach_events_serve(const struct attach_events *events, pid_t pid);

/* "device.time". False: it was not switched off. */
bool attach_events_off(const struct attach_events *events, struct message_source *out);
/* "device.time". False: no call of any process was timed. */
bool attach_events_coverage(const struct attach_events *events, struct message_source *out);

#endif
