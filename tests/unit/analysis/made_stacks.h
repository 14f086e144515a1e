/* SPDX-License-Identifier: Apache-2.0 */
/* Stack profiles out of lines of text. */
#ifndef SLOWRANK_TESTS_MADE_STACKS_H
#define SLOWRANK_TESTS_MADE_STACKS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/stack_profile.h"

enum {
	MADE_NODES_MAX = 1024,
	MADE_SUMS_MAX = 256,
	MADE_THREADS_MAX = 16,
	MADE_TEXT_MAX = 32768,
	MADE_SEGMENTS = 4,	/* before the first call, in it, before the second one, in that */
	MADE_LOOK_NS = 5000000, /* so often it was looked at */
};

struct made_stacks {
	struct stack_profile profile;
	struct stack_node nodes[MADE_NODES_MAX];
	struct stack_sum sums[MADE_SUMS_MAX];
	struct stack_thread_info threads[MADE_THREADS_MAX];
	struct stack_segment segments[MADE_SEGMENTS];
	char text[MADE_TEXT_MAX];
};

static inline void made_stacks_init(struct made_stacks *made, uint32_t rank, uint32_t steps)
{
	memset(made, 0, sizeof(*made));
	for (uint32_t i = 0; i < MADE_SEGMENTS; i++)
		made->segments[i] = (struct stack_segment){.communicator_id = 7,
			.ordinal = i / 2,
			.operation = OPERATION_ALL_REDUCE,
			.inside = i % 2};
	made->profile = (struct stack_profile){.rank = rank,
		.steps = steps,
		.looks = 20 * steps, /* steps of 100 ms */
		.python_minor = 11,
		.stop = {(int64_t)steps * 100000000},
		.segment_count = MADE_SEGMENTS,
		.text_length = 1,
		.nodes = made->nodes,
		.sums = made->sums,
		.threads = made->threads,
		.segments = made->segments,
		.text = made->text};
}

static inline uint32_t made_text(struct made_stacks *made, const char *text, size_t length)
{
	struct stack_profile *profile = &made->profile;
	uint32_t at = profile->text_length;

	if (length == 0)
		return 0;
	memcpy(made->text + at, text, length);
	profile->text_length += (uint32_t)length + 1;
	if (profile->text_length > MADE_TEXT_MAX)
		abort();
	return at;
}

static inline uint32_t made_thread(
	struct made_stacks *made, enum stack_thread_role role, const char *name, int32_t pid)
{
	struct stack_profile *profile = &made->profile;
	struct stack_thread_info *thread = made->threads;

	while (thread < made->threads + profile->thread_count &&
		(thread->role != role || thread->pid != pid || strcmp(thread->name, name) != 0))
		thread++;
	if (thread == made->threads + profile->thread_count) {
		if (profile->thread_count++ == MADE_THREADS_MAX)
			abort();
		*thread = (struct stack_thread_info){.pid = pid,
			.tid = pid,
			.role = (uint8_t)role,
			.cpu_ns = -1,
			.blocked_ns = -1,
			.major_faults = -1};
		snprintf(thread->name, sizeof(thread->name), "%s", name);
	}
	return (uint32_t)(thread - made->threads);
}

/*
 * frames: the outermost first, "FUNCTION@FILE:LINE" of Python, "FUNCTION@FILE" native, "~FUNCTION@WHAT" a wait, with "|" between. Each
 * call makes nodes of its own. ms: over the whole look, in so many of its steps.
 */
static inline void made_add(struct made_stacks *made, uint32_t thread, enum stack_state state,
	uint32_t segment, const char *frames, uint32_t steps, int64_t ms)
{
	struct stack_profile *profile = &made->profile;
	uint32_t parent = STACK_NODE_NONE;

	while (*frames) {
		size_t length = strcspn(frames, "|"), function, file;
		bool wait = *frames == '~';
		const char *name = frames + wait, *end = frames + length, *colon = end;
		struct stack_node *node = &made->nodes[profile->node_count];

		if (profile->node_count == MADE_NODES_MAX)
			abort();
		function = strcspn(name, "@|");
		file = function + (name[function] == '@');
		while (!wait && colon > name + file && *colon != ':')
			colon--;
		if (colon == name + file)
			colon = end;
		*node = (struct stack_node){.parent = parent,
			.function = made_text(made, name, function),
			.file = made_text(made, name + file, (size_t)(colon - name) - file),
			.line = colon < end ? atoi(colon + 1) : 0,
			.kind = wait	      ? STACK_FRAME_WAIT
				: colon < end ? STACK_FRAME_PYTHON
					      : STACK_FRAME_NATIVE};
		parent = profile->node_count++;
		frames = end + (*end == '|');
	}
	if (profile->sum_count == MADE_SUMS_MAX)
		abort();
	made->sums[profile->sum_count++] = (struct stack_sum){.node = parent,
		.thread = thread,
		.segment = segment,
		.state = (uint8_t)state,
		.looks = (uint32_t)(ms * 1000000 / MADE_LOOK_NS),
		.steps = steps,
		.time_ns = ms * 1000000};
}

#endif
