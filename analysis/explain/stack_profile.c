/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/explain/stack_profile.h"

#include <stdlib.h>
#include <string.h>

const char *stack_result_text(enum stack_result result)
{
	static const char *const texts[STACK_RESULT_NR] = {
		[STACK_RESULT_DONE] = "",
		[STACK_RESULT_ENDED] = "the process ended",
		[STACK_RESULT_NO_RIGHT] = "slowrank may not trace the process",
		[STACK_RESULT_NO_STEPS] = "no whole step lay within the look",
		[STACK_RESULT_OVER_COST] = "a look at its threads takes too long",
		[STACK_RESULT_FAILED] = "the sampler ended early",
		[STACK_RESULT_BUSY] = "it was looked at long enough for now",
	};

	return (unsigned)result < STACK_RESULT_NR ? texts[result] : "it failed";
}

static bool counts_within_limits(const struct stack_profile *profile)
{
	return profile->node_count <= STACK_PROFILE_NODES_MAX &&
	       profile->sum_count <= STACK_PROFILE_SUMS_MAX &&
	       profile->thread_count <= STACK_PROFILE_THREADS_MAX &&
	       profile->segment_count <= STACK_PROFILE_SEGMENTS_MAX &&
	       profile->text_length <= STACK_PROFILE_TEXT_MAX;
}

size_t stack_profile_bytes(const struct stack_profile *profile)
{
	return sizeof(*profile) + profile->sum_count * sizeof(*profile->sums) +
	       profile->thread_count * sizeof(*profile->threads) +
	       profile->segment_count * sizeof(*profile->segments) +
	       profile->node_count * sizeof(*profile->nodes) + profile->text_length;
}

/* One block: the arrays in the order of their alignment. */
struct stack_profile *stack_profile_create(const struct stack_profile *fields)
{
	struct stack_profile *profile;

	if (!counts_within_limits(fields))
		return NULL;
	profile = calloc(1, stack_profile_bytes(fields));
	if (!profile)
		return NULL;
	*profile = *fields;
	profile->sums = (struct stack_sum *)(profile + 1);
	profile->threads = (struct stack_thread_info *)(profile->sums + profile->sum_count);
	profile->segments = (struct stack_segment *)(profile->threads + profile->thread_count);
	profile->nodes = (struct stack_node *)(profile->segments + profile->segment_count);
	profile->text = (char *)(profile->nodes + profile->node_count);
	return profile;
}

/* An empty array may be NULL. */
static void copy_array(void *to, const void *from, size_t count, size_t size)
{
	if (count)
		memcpy(to, from, count * size);
}

struct stack_profile *stack_profile_copy(const struct stack_profile *profile)
{
	struct stack_profile *copy = stack_profile_create(profile);

	if (!copy)
		return NULL;
	copy_array(copy->sums, profile->sums, profile->sum_count, sizeof(*copy->sums));
	copy_array(copy->threads, profile->threads, profile->thread_count, sizeof(*copy->threads));
	copy_array(
		copy->segments, profile->segments, profile->segment_count, sizeof(*copy->segments));
	copy_array(copy->nodes, profile->nodes, profile->node_count, sizeof(*copy->nodes));
	copy_array(copy->text, profile->text, profile->text_length, 1);
	return copy;
}

void stack_profile_destroy(struct stack_profile *profile)
{
	free(profile);
}

static bool text_is_valid(const struct stack_profile *profile)
{
	size_t at = 0;

	if (!profile->text_length)
		return profile->node_count == 0;
	if (profile->text[0] || profile->text[profile->text_length - 1])
		return false;
	while (at < profile->text_length) {
		size_t length = strlen(profile->text + at);

		if (length > STACK_PROFILE_NAME_MAX)
			return false;
		at += length + 1;
	}
	return true;
}

static bool is_name(const struct stack_profile *profile, uint32_t at)
{
	return at < profile->text_length && (at == 0 || !profile->text[at - 1]);
}

static bool nodes_are_valid(const struct stack_profile *profile)
{
	uint16_t depths[STACK_PROFILE_NODES_MAX];

	for (uint32_t i = 0; i < profile->node_count; i++) {
		const struct stack_node *node = &profile->nodes[i];

		if (node->parent != STACK_NODE_NONE && node->parent >= i)
			return false;
		depths[i] =
			node->parent == STACK_NODE_NONE ? 1 : (uint16_t)(depths[node->parent] + 1);
		if (depths[i] > STACK_PROFILE_DEPTH_MAX || node->line < 0 ||
			!is_name(profile, node->function) || !is_name(profile, node->file))
			return false;
	}
	return true;
}

static bool threads_are_valid(const struct stack_profile *profile)
{
	for (uint32_t i = 0; i < profile->thread_count; i++) {
		const struct stack_thread_info *thread = &profile->threads[i];

		if (thread->pid < 0 || thread->tid < 0 || thread->cpu_ns < -1 ||
			thread->blocked_ns < -1 || thread->major_faults < -1 ||
			!memchr(thread->name, 0, sizeof(thread->name)))
			return false;
	}
	return true;
}

static bool sums_are_valid(const struct stack_profile *profile)
{
	for (uint32_t i = 0; i < profile->sum_count; i++) {
		const struct stack_sum *sum = &profile->sums[i];

		if (sum->node >= profile->node_count || sum->thread >= profile->thread_count ||
			sum->segment >= profile->segment_count || sum->time_ns < 0)
			return false;
	}
	return true;
}

bool stack_profile_is_valid(const struct stack_profile *profile)
{
	return counts_within_limits(profile) && text_is_valid(profile) &&
	       nodes_are_valid(profile) && threads_are_valid(profile) && sums_are_valid(profile) &&
	       profile->cost_ns >= 0 && profile->start.value >= 0 &&
	       profile->stop.value >= profile->start.value &&
	       memchr(profile->why, 0, sizeof(profile->why));
}
