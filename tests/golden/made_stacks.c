/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/golden/made_stacks.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void made_stacks_begin(struct made_stacks *made, uint32_t rank, uint32_t steps)
{
	memset(made, 0, sizeof(*made));
	made->profile = (struct stack_profile){.rank = rank,
		.steps = steps,
		.python_minor = 11,
		.start = {1000000000},
		.stop = {steps ? 1000000000 + steps * INT64_C(20000000) : 2000000000},
		.cost_ns = 1500000,
		.text_length = 1,
		.nodes = made->nodes,
		.sums = made->sums,
		.threads = made->threads,
		.segments = made->segments,
		.text = made->text};
}

uint32_t made_stacks_thread(struct made_stacks *made, enum stack_thread_role role, int32_t pid,
	int32_t tid, const char *name)
{
	struct stack_thread_info *thread = &made->threads[made->profile.thread_count];

	assert(made->profile.thread_count < 16);
	*thread = (struct stack_thread_info){.pid = pid, .tid = tid, .role = (uint8_t)role};
	snprintf(thread->name, sizeof(thread->name), "%s", name);
	return made->profile.thread_count++;
}

uint32_t made_stacks_segment(
	struct made_stacks *made, uint32_t ordinal, enum operation operation, bool inside)
{
	assert(made->profile.segment_count < 16);
	made->segments[made->profile.segment_count] =
		(struct stack_segment){0x1a2b, ordinal, (uint8_t)operation, (uint8_t)inside};
	return made->profile.segment_count++;
}

/* Where the name begins in the text; it is there once. */
static uint32_t add_name(struct made_stacks *made, const char *name)
{
	uint32_t at = 0, length = (uint32_t)strlen(name) + 1;

	while (at < made->profile.text_length && strcmp(made->text + at, name) != 0)
		at += (uint32_t)strlen(made->text + at) + 1;
	if (at == made->profile.text_length) {
		assert(at + length <= sizeof(made->text));
		memcpy(made->text + at, name, length);
		made->profile.text_length += length;
	}
	return at;
}

static uint32_t add_node(struct made_stacks *made, uint32_t parent, const struct made_frame *frame)
{
	const struct stack_node node = {parent, add_name(made, frame->function),
		add_name(made, frame->file), frame->line, frame->kind};
	uint32_t i = 0;

	while (i < made->profile.node_count &&
		(made->nodes[i].parent != parent || made->nodes[i].function != node.function ||
			made->nodes[i].file != node.file || made->nodes[i].line != node.line))
		i++;
	assert(i < 512);
	made->nodes[i] = node;
	if (i == made->profile.node_count)
		made->profile.node_count++;
	return i;
}

void made_stacks_add(struct made_stacks *made, uint32_t thread, uint32_t segment,
	enum stack_state state, double ms, const struct made_frame frames[MADE_FRAMES_MAX])
{
	uint32_t node = STACK_NODE_NONE, looks = (uint32_t)(ms / 2) + 1;

	for (int i = 0; i < MADE_FRAMES_MAX && frames[i].kind; i++)
		node = add_node(made, node, &frames[i]);
	assert(made->profile.sum_count < 128);
	made->sums[made->profile.sum_count++] = (struct stack_sum){.node = node,
		.thread = thread,
		.segment = segment,
		.state = (uint8_t)state,
		.looks = looks,
		.steps = 1,
		.time_ns = (int64_t)(ms * 1e6)};
	made->profile.looks += looks;
}
