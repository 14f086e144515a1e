/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * Step markers: the two-function C API, and NVTX ranges named ProfilerStep#N. Also the reading
 * of call arguments.
 */
#ifndef SLOWRANK_BPF_MARKERS_BPF_H
#define SLOWRANK_BPF_MARKERS_BPF_H

#include "call_arguments.bpf.h"
#include "state.bpf.h"

static __always_inline void emit_marker(__u64 step, __u32 action, bool from_nvtx)
{
	struct event_marker *event = event_reserve(sizeof(*event));

	if (!event)
		return;
	fill_header(&event->header, EVENT_MARKER, sizeof(*event));
	event->step = step;
	event->action = action;
	event->from_nvtx = from_nvtx;
	event_submit(event, sizeof(*event));
}

enum { RANGE_PREFIX_LENGTH = 13, RANGE_NAME_LENGTH = 32 };

/* The N of "ProfilerStep#N"; false for other names. */
static __always_inline bool read_range_step(const void *name, __u64 *step)
{
	const char prefix[RANGE_PREFIX_LENGTH] = "ProfilerStep#";
	char text[RANGE_NAME_LENGTH] = "";

	if (bpf_probe_read_user_str(text, sizeof(text), name) < RANGE_PREFIX_LENGTH + 2)
		return false;
	for (int i = 0; i < RANGE_PREFIX_LENGTH; i++) {
		if (text[i] != prefix[i])
			return false;
	}
	*step = 0;
	for (int i = RANGE_PREFIX_LENGTH; i < RANGE_NAME_LENGTH - 1; i++) {
		if (text[i] < '0' || text[i] > '9')
			break;
		*step = *step * 10 + (__u64)(text[i] - '0');
	}
	return true;
}

static __always_inline void take_marker(
	struct pt_regs *ctx, struct thread_state *thread, const volatile struct rank_row *row)
{
	__u64 step;

	switch (row->action) {
	case RANK_ACTION_MARK_BEGIN:
		emit_marker(call_argument(ctx, 0), EVENT_MARKER_STEP_BEGIN, false);
		break;
	case RANK_ACTION_MARK_END:
		emit_marker(call_argument(ctx, 0), EVENT_MARKER_STEP_END, false);
		break;
	case RANK_ACTION_NVTX_PUSH:
		thread->range_depth++;
		if (!read_range_step((void *)call_argument(ctx, 0), &step))
			break;
		thread->range_step = step;
		thread->range_step_depth = thread->range_depth;
		emit_marker(step, EVENT_MARKER_STEP_BEGIN, true);
		break;
	case RANK_ACTION_NVTX_POP:
		if (!thread->range_depth)
			break; /* opened before we looked */
		if (thread->range_step_depth == thread->range_depth) {
			thread->range_step_depth = 0;
			emit_marker(thread->range_step, EVENT_MARKER_STEP_END, true);
		}
		thread->range_depth--;
		break;
	}
}

#endif
