/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the stack profiles of a record: one JSON object a line, with its sums, the stacks from the outermost frame.
 * usage: record_stacks FILE
 */
#include <inttypes.h>
#include <stdio.h>

#include "tests/cluster/record_batches.h"

static void print_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

static void print_frames(const struct stack_profile *profile, uint32_t index)
{
	const struct stack_node *node = &profile->nodes[index];

	if (node->parent != STACK_NODE_NONE) {
		print_frames(profile, node->parent);
		printf(", ");
	}
	printf("[%d, ", node->kind);
	print_text(profile->text + node->function);
	printf(", ");
	print_text(profile->text + node->file);
	printf(", %" PRId32 "]", node->line);
}

static void print_sum(const struct stack_profile *profile, const struct stack_sum *sum)
{
	const struct stack_segment *segment = &profile->segments[sum->segment];
	const struct stack_thread_info *thread = &profile->threads[sum->thread];

	printf("{\"frames\": [");
	print_frames(profile, sum->node);
	printf("], \"pid\": %" PRId32 ", \"tid\": %" PRId32
	       ", \"role\": %d, \"state\": %d, \"operation\": %d, \"ordinal\": %" PRIu32
	       ", \"inside\": %d, \"looks\": %" PRIu32 ", \"steps\": %" PRIu32 ", \"ms\": %.3f}",
		thread->pid, thread->tid, thread->role, sum->state, segment->operation,
		segment->ordinal, segment->inside, sum->looks, sum->steps,
		(double)sum->time_ns / 1e6);
}

static void print_profile(const struct stack_profile *profile)
{
	printf("{\"rank\": %" PRIu32 ", \"request\": %" PRIu32
	       ", \"result\": %d, \"python\": %d, \"steps\": %" PRIu32 ", \"looks\": %" PRIu32
	       ", \"incomplete\": %" PRIu32 ", \"cost_ms\": %.3f, \"length_ms\": %.3f, \"why\": ",
		profile->rank, profile->request, profile->result, profile->python_minor,
		profile->steps, profile->looks, profile->incomplete, (double)profile->cost_ns / 1e6,
		(double)(profile->stop.value - profile->start.value) / 1e6);
	print_text(profile->why);
	printf(", \"threads\": [");
	for (uint32_t i = 0; i < profile->thread_count; i++) {
		const struct stack_thread_info *thread = &profile->threads[i];

		printf("%s{\"pid\": %" PRId32 ", \"tid\": %" PRId32
		       ", \"role\": %d, \"cpu_ms\": %.3f, \"major_faults\": %" PRId64 "}",
			i ? ", " : "", thread->pid, thread->tid, thread->role,
			(double)thread->cpu_ns / 1e6, thread->major_faults);
	}
	printf("], \"sums\": [");
	for (uint32_t i = 0; i < profile->sum_count; i++) {
		printf("%s", i ? ", " : "");
		print_sum(profile, &profile->sums[i]);
	}
	printf("]}\n");
}

static void print_profiles(const struct message_batch *batch)
{
	for (size_t i = 0; i < batch->stack_profile_count; i++)
		print_profile(batch->stack_profiles[i]);
}

int main(int argc, char **argv)
{
	return record_batches(argc, argv, "record_stacks", print_profiles);
}
