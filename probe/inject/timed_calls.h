/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device times of collectives, sends and receives in a process whose NCCL was there before us (attach --deep): pointers to
 * NCCL's functions, wherever the loaded libraries keep them, become pointers to wrappers, which record an
 * event before and after the call on its stream (timed_events.h). The probe asks for it, and again in
 * time (ring_control.timed_until_host_ns); when it does not any more, the pointers are as they were.
 *
 * A group's calls are launched by its end, so the events are recorded around that one. Calls of several
 * communicators on one stream of a group are not timed, nor are those of communicators that do not block.
 */
#ifndef SLOWRANK_PROBE_INJECT_TIMED_CALLS_H
#define SLOWRANK_PROBE_INJECT_TIMED_CALLS_H

/* Follows the probe's wish, and tells what was timed. The helper's. */
void timed_calls_poll(void);

#endif
