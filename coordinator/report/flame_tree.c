/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/flame_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/hash.h"
#include "analysis/explain/stack_frames.h"
#include "coordinator/report/look.h"

/* The tables have twice as many places as there are names, so that some are always free. */
static uint32_t find_name(struct flame_tree *tree, const char *text)
{
	uint64_t at = hash_bytes(hash_bytes_begin(), text, strlen(text));
	uint32_t *slot;

	for (;; at++) {
		slot = &tree->name_slots[at & tree->mask];
		if (!*slot)
			break;
		if (strcmp(tree->names[*slot - 1], text) == 0)
			return *slot - 1;
	}
	tree->names[tree->name_count] = text;
	*slot = ++tree->name_count;
	return *slot - 1;
}

static bool same_node(const struct flame_node *one, const struct flame_node *other)
{
	return one->parent == other->parent && one->name == other->name &&
	       one->file == other->file && one->line == other->line && one->kind == other->kind;
}

static uint32_t find_node(struct flame_tree *tree, uint32_t parent, uint8_t kind,
	const char *function, const char *file, int32_t line)
{
	const struct flame_node node = {.parent = parent,
		.name = find_name(tree, function),
		.file = find_name(tree, file),
		.short_file = find_name(tree, stack_file_short(file)),
		.line = line,
		.kind = kind};
	uint64_t at = hash_mix(hash_mix(hash_mix(hash_mix(node.parent, node.name), node.file),
				       (uint32_t)node.line),
		node.kind);
	uint32_t *slot;

	for (;; at++) {
		slot = &tree->slots[at & tree->mask];
		if (!*slot)
			break;
		if (same_node(&tree->nodes[*slot - 1], &node))
			return *slot - 1;
	}
	tree->nodes[tree->node_count] = node;
	*slot = ++tree->node_count;
	return *slot - 1;
}

static uint32_t find_label(
	struct flame_label *labels, uint32_t *count, const struct flame_label *wanted)
{
	for (uint32_t i = 0; i < *count; i++) {
		if (strcmp(labels[i].key, wanted->key) == 0)
			return i;
	}
	labels[*count] = *wanted;
	return (*count)++;
}

static uint32_t find_thread(
	struct flame_tree *tree, const struct stack_profile *profile, uint32_t thread)
{
	struct flame_label label = {.role = profile->threads[thread].role};
	struct line line;

	line_init(&line, label.text, sizeof(label.text));
	stacks_add_thread(&line, profile, thread, true);
	line_init(&line, label.key, sizeof(label.key));
	stacks_add_thread(&line, profile, thread, false);
	return find_label(tree->threads, &tree->thread_count, &label);
}

static uint32_t find_segment(struct flame_tree *tree, const struct stack_segment *segment)
{
	struct flame_label label = {.role = 0};
	struct line line;

	line_init(&line, label.text, sizeof(label.text));
	stacks_add_segment(&line, segment);
	memcpy(label.key, label.text, sizeof(label.key));
	return find_label(tree->segments, &tree->segment_count, &label);
}

/* A profile's indices in the tree. */
struct indices {
	uint32_t *nodes, *threads, *segments;
	uint32_t *targets; /* of nodes: where the text says on what they wait; 0: nowhere */
};

/*
 * What is called before a program's, or a thread's, own code is in some stacks of a thread and not in others: where native
 * frames are not known, Python's alone are. Without it both are one.
 */
static bool is_start(const struct stack_profile *profile, const struct stack_node *node)
{
	static const char *const functions[] = {"_start", "__libc_start_main",
		"__libc_start_main_impl", "__libc_start_call_main", "start_thread", "clone",
		"clone3", "__clone3"};
	const char *function = profile->text + node->function;

	if (node->kind != STACK_FRAME_NATIVE)
		return false;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		if (strcmp(functions[i], function) == 0)
			return true;
	}
	return !*function && strncmp(stack_file_short(profile->text + node->file), "libc.", 5) == 0;
}

/* What a thread waits on (a pipe's number, an address) differs from rank to rank: it becomes the innermost frame. */
static void take_nodes(
	struct flame_tree *tree, const struct stack_profile *profile, const struct indices *indices)
{
	for (uint32_t i = 0; i < profile->node_count; i++) {
		const struct stack_node *node = &profile->nodes[i];
		bool outermost = node->parent == STACK_NODE_NONE;
		bool waits = node->kind == STACK_FRAME_WAIT && profile->text[node->function];
		uint32_t parent = outermost ? STACK_NODE_NONE : indices->nodes[node->parent];

		indices->targets[i] = waits	  ? node->file
				      : outermost ? 0
						  : indices->targets[node->parent];
		if (parent == STACK_NODE_NONE && is_start(profile, node))
			indices->nodes[i] = STACK_NODE_NONE;
		else
			indices->nodes[i] =
				find_node(tree, parent, node->kind, profile->text + node->function,
					profile->text + (waits ? 0 : node->file), node->line);
	}
}

static void take_profile(struct flame_tree *tree, const struct stack_profile *profile,
	enum flame_side side, const struct indices *indices)
{
	double us = tree->unit == FLAME_US_PER_STEP ? 1e-3 / profile->steps : 1e-3;

	take_nodes(tree, profile, indices);
	for (uint32_t i = 0; i < profile->thread_count; i++)
		indices->threads[i] = find_thread(tree, profile, i);
	for (uint32_t i = 0; i < profile->segment_count; i++)
		indices->segments[i] = find_segment(tree, &profile->segments[i]);
	for (uint32_t i = 0; i < profile->sum_count; i++) {
		const struct stack_sum *sum = &profile->sums[i];
		const char *target = profile->text + indices->targets[sum->node];
		uint32_t node = indices->nodes[sum->node];

		if (node == STACK_NODE_NONE)
			node = find_node(tree, node, STACK_FRAME_NATIVE, "", "", 0);
		if (*target)
			node = find_node(tree, node, STACK_FRAME_WAIT, "", target, 0);
		tree->sums[tree->sum_count++] = (struct flame_sum){.node = node,
			.thread = indices->threads[sum->thread],
			.segment = indices->segments[sum->segment],
			.looks = sum->looks,
			.side = (uint8_t)side,
			.state = sum->state,
			.value =
				tree->unit == FLAME_LOOKS ? sum->looks : (double)sum->time_ns * us};
	}
}

/* Sums by kernel say neither who launched it nor before which collective: they have a thread and a segment to themselves. */
static void take_kernels(struct flame_tree *tree, const struct report_model *model,
	const struct kept_stacks *stacks, enum flame_side side)
{
	const struct report_rank *rank = look_rank(model, stacks->profile->rank);
	const struct kernel_profile *look = rank ? rank->look : NULL;
	const struct flame_label device = {
		"device (kernels, by name)", "device (kernels, by name)", FLAME_ROLE_DEVICE};
	const struct flame_label whole = {"whole step", "whole step", 0};

	if (tree->unit != FLAME_US_PER_STEP || !look || !look->steps)
		return;
	for (size_t i = 0; i < look_at_most(look->sum_count, KERNEL_PROFILE_KERNELS_MAX); i++) {
		const struct kernel_sum *sum = &look->sums[i];

		tree->sums[tree->sum_count++] =
			(struct flame_sum){.node = find_node(tree, STACK_NODE_NONE,
						   FLAME_KIND_DEVICE, sum->name, "", 0),
				.thread = find_label(tree->threads, &tree->thread_count, &device),
				.segment = find_label(tree->segments, &tree->segment_count, &whole),
				.side = (uint8_t)side,
				.value = (double)sum->time_ns / look->steps / 1e3};
	}
}

static void count_sizes(const struct kept_stacks *stacks, size_t *nodes, size_t *sums,
	size_t *threads, size_t *segments)
{
	*nodes += stacks->profile->node_count + stacks->profile->sum_count +
		  KERNEL_PROFILE_KERNELS_MAX + 1;
	*sums += stacks->profile->sum_count + KERNEL_PROFILE_KERNELS_MAX;
	*threads += stacks->profile->thread_count + 1;
	*segments += stacks->profile->segment_count + 1;
}

static int allocate(
	struct flame_tree *tree, size_t nodes, size_t sums, size_t threads, size_t segments)
{
	size_t names = 3 * nodes + 1, slots = 1;

	while (slots < 2 * names)
		slots *= 2;
	tree->mask = (uint32_t)(slots - 1);
	tree->names = calloc(names, sizeof(*tree->names));
	tree->nodes = calloc(nodes, sizeof(*tree->nodes));
	tree->sums = calloc(sums, sizeof(*tree->sums));
	tree->threads = calloc(threads, sizeof(*tree->threads));
	tree->segments = calloc(segments, sizeof(*tree->segments));
	tree->name_slots = calloc(slots, sizeof(*tree->name_slots));
	tree->slots = calloc(slots, sizeof(*tree->slots));
	return tree->names && tree->nodes && tree->sums && tree->threads && tree->segments &&
			       tree->name_slots && tree->slots
		       ? 0
		       : -ENOMEM;
}

static bool has_time(const struct stack_profile *profile)
{
	for (uint32_t i = 0; i < profile->sum_count; i++) {
		if (profile->sums[i].time_ns > 0)
			return true;
	}
	return false;
}

/* What both have. */
static enum flame_unit unit_of(const struct kept_stacks *const looks[FLAME_SIDES])
{
	enum flame_unit unit = FLAME_US_PER_STEP;

	for (int side = 0; side < FLAME_SIDES; side++) {
		if (looks[side] && !has_time(looks[side]->profile))
			return FLAME_LOOKS;
		if (looks[side] && !looks[side]->profile->steps)
			unit = FLAME_US;
	}
	return unit;
}

int flame_tree_init(
	struct flame_tree *tree, const struct report_model *model, const struct stacks_pair *pair)
{
	const struct kept_stacks *const looks[FLAME_SIDES] = {pair->own, pair->control};
	size_t nodes = 0, sums = 0, threads = 0, segments = 0;
	struct indices indices;
	uint32_t *room;

	*tree = (struct flame_tree){.pair = *pair};
	tree->unit = unit_of(looks);
	for (int side = 0; side < FLAME_SIDES; side++) {
		if (looks[side])
			count_sizes(looks[side], &nodes, &sums, &threads, &segments);
	}
	room = calloc(2 * nodes + threads + segments, sizeof(*room));
	if (!room || allocate(tree, nodes, sums, threads, segments) < 0) {
		free(room);
		flame_tree_fini(tree);
		return -ENOMEM;
	}
	indices = (struct indices){.nodes = room,
		.targets = room + nodes,
		.threads = room + 2 * nodes,
		.segments = room + 2 * nodes + threads};
	find_name(tree, "");
	for (int side = 0; side < FLAME_SIDES; side++) {
		if (looks[side])
			take_profile(tree, looks[side]->profile, (enum flame_side)side, &indices);
	}
	for (int side = 0; side < FLAME_SIDES; side++) {
		if (looks[side])
			take_kernels(tree, model, looks[side], (enum flame_side)side);
	}
	free(room);
	return 0;
}

void flame_tree_fini(struct flame_tree *tree)
{
	free(tree->names);
	free(tree->nodes);
	free(tree->sums);
	free(tree->threads);
	free(tree->segments);
	free(tree->name_slots);
	free(tree->slots);
	*tree = (struct flame_tree){0};
}

void flame_tree_add_frame(struct line *line, const struct flame_tree *tree, uint32_t index)
{
	const struct flame_node *node = &tree->nodes[index];

	stacks_add_frame(
		line, node->kind, tree->names[node->name], tree->names[node->file], node->line);
}
