/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * What a process launches on its devices, counted in the kernel while a window is open: how often, and
 * how long it was silent in between. Time in calls that wait for the device is no silence. A launch
 * makes no record; the counts leave with the next collective, or with the wait behind it.
 *
 * After a wait for all that was launched, a collective behind the work included, the device has nothing
 * to do until the next launch: that silence is idle time of the device. In other gaps it may still have
 * had work.
 */
#ifndef SLOWRANK_BPF_LAUNCHES_BPF_H
#define SLOWRANK_BPF_LAUNCHES_BPF_H

#include "call_arguments.bpf.h"
#include "state.bpf.h"

/* Between launches of one busy host lie 2 to 20 us: that is no silence. */
enum { LAUNCH_SILENCE_MIN_NS = 100000 };

static __always_inline void fill_launches(
	struct event_launches *out, const struct rank_process_state *process)
{
	bool open = launch_window && process->launches.window == launch_window;

	out->window = open ? launch_window : 0;
	out->launches = open ? process->launches.launches : 0;
	out->graph_launches = open ? process->launches.graph_launches : 0;
	out->reserved = 0;
	out->silence_ns = open ? process->launches.silence_ns : 0;
	out->idle_ns = open ? process->launches.idle_ns : 0;
	out->device_wait_ns = process->host.device_wait_ns;
}

static __always_inline void take_launch(struct rank_process_state *process, bool graph)
{
	struct event_launches *launches = &process->launches;
	__u64 now = bpf_ktime_get_ns(), last = process->last_launch_ns, gap;

	if (launches->window != launch_window) { /* what lay before it was not seen */
		launches->window = launch_window;
		launches->launches = 0;
		launches->graph_launches = 0;
		launches->silence_ns = 0;
		launches->idle_ns = 0;
		last = now;
		process->launcher_pid = visible_pid(bpf_get_current_task_btf());
	}
	__sync_fetch_and_add(&launches->launches, 1);
	if (graph)
		__sync_fetch_and_add(&launches->graph_launches, 1);
	gap = now > last ? now - last : 0;
	if (process->drained)
		__sync_fetch_and_add(&launches->idle_ns, gap);
	if (process->drained || gap >= LAUNCH_SILENCE_MIN_NS)
		__sync_fetch_and_add(&launches->silence_ns, gap);
	process->drained = 0;
	process->last_launch_ns = now;
}

SEC("uprobe")
int on_launch(struct pt_regs *ctx)
{
	__u64 number = bpf_get_attach_cookie(ctx) & RANK_COOKIE_ROW_MASK;
	struct rank_process_state *process;
	struct thread_state *thread;

	if (paused || !launch_window || number >= RANK_ROWS_MAX)
		return 0;
	process = tracked(bpf_get_current_pid_tgid() >> 32);
	if (!process)
		return 0;
	thread = thread_of(bpf_get_current_task_btf(), BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (thread)
		thread->launches = 1;
	take_launch(process, row_of(number)->action == RANK_ACTION_GRAPH);
	return 0;
}

/* A stream waits for an event from now on; behind a collective, that is most likely its end. */
SEC("uprobe")
int on_stream_wait(struct pt_regs *ctx)
{
	__u64 number = bpf_get_attach_cookie(ctx) & RANK_COOKIE_ROW_MASK, stream;
	struct rank_process_state *process;

	if (paused || number >= RANK_ROWS_MAX)
		return 0;
	process = tracked(bpf_get_current_pid_tgid() >> 32);
	if (!process || !process->enqueued_ns)
		return 0;
	stream = call_argument(ctx, row_of(number)->position[RANK_ARGUMENT_STREAM]);
	for (__u64 i = 0; i < RANK_JOINED_MAX; i++) {
		if (i == process->joined_count) {
			process->joined[i] = stream;
			process->joined_count++;
			break;
		}
		if (process->joined[i] == stream)
			break;
	}
	return 0;
}

/* Whether a wait includes the last collective: it was for all streams, for its own, or for one that waits for it. */
static __always_inline bool includes_collective(
	const struct rank_process_state *process, __u8 action, __u64 stream)
{
	if (action == RANK_ACTION_WAIT_ALL || stream == process->enqueued_stream)
		return true;
	for (__u64 i = 0; i < RANK_JOINED_MAX; i++) {
		if (i < process->joined_count && process->joined[i] == stream)
			return true;
	}
	return false;
}

static __always_inline void note_enqueue(
	struct rank_process_state *process, __u64 time_ns, __u64 stream)
{
	process->enqueued_ns = time_ns;
	process->enqueued_stream = stream;
	process->joined_count = 0;
}

/*
 * A wait for the device has ended. Threads that launch nothing (loaders that pin memory) wait for
 * copies of theirs: these waits say nothing of what the others launched.
 */
static __always_inline void take_device_wait(
	struct thread_state *thread, struct rank_process_state *process, __u8 action, __u64 now)
{
	struct event_device_wait *event;

	if (!thread->launches)
		return;
	process->last_launch_ns = now;
	if (action != RANK_ACTION_WAIT_ALL && action != RANK_ACTION_WAIT_STREAM)
		return;
	if (!process->enqueued_ns || thread->entry_ns < process->enqueued_ns ||
		!includes_collective(process, action, thread->arguments[RANK_ARGUMENT_STREAM]))
		return;
	process->enqueued_ns = 0;
	process->drained = 1;
	event = event_reserve(sizeof(*event));
	if (!event)
		return;
	fill_header(&event->header, EVENT_DEVICE_WAIT, sizeof(*event));
	event->start_ns = thread->entry_ns;
	event->end_ns = now;
	fill_launches(&event->launches, process);
	event_submit(event, sizeof(*event));
}

#endif
