/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * Step markers: the two-function C API, and NVTX ranges named ProfilerStep#N. Also the reading
 * of call arguments.
 */
#ifndef SLOWRANK_BPF_MARKERS_BPF_H
#define SLOWRANK_BPF_MARKERS_BPF_H

#include "state.bpf.h"

#if defined(__TARGET_ARCH_x86)
enum { REGISTER_ARGUMENTS = 6 };
#else
enum { REGISTER_ARGUMENTS = 8 };
#endif

/* Integer and pointer arguments by position, from 0: System V on x86-64, AAPCS64 on arm64. */
static __always_inline __u64 call_argument(struct pt_regs *ctx, int position)
{
	__u64 value = 0;

	if (position < 0)
		return 0;
#if defined(__TARGET_ARCH_x86)
	switch (position) {
	case 0:
		return ctx->di;
	case 1:
		return ctx->si;
	case 2:
		return ctx->dx;
	case 3:
		return ctx->cx;
	case 4:
		return ctx->r8;
	case 5:
		return ctx->r9;
	}
#else
	struct user_pt_regs *registers = (struct user_pt_regs *)ctx;

	switch (position) {
	case 0:
		return registers->regs[0];
	case 1:
		return registers->regs[1];
	case 2:
		return registers->regs[2];
	case 3:
		return registers->regs[3];
	case 4:
		return registers->regs[4];
	case 5:
		return registers->regs[5];
	case 6:
		return registers->regs[6];
	case 7:
		return registers->regs[7];
	}
#endif
	/* On the stack, above the return address where there is one. */
	bpf_probe_read_user(&value, sizeof(value),
		(void *)(PT_REGS_SP(ctx) + RANK_RETURN_SLOT_BYTES +
			 8 * (__u64)(position - REGISTER_ARGUMENTS)));
	return value;
}

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
