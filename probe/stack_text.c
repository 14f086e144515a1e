/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stack_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void put_line(FILE *out, const struct stack_line *line)
{
	const char *slash;

	switch (line->kind) {
	case STACK_LINE_WAIT:
		fprintf(out, "[waiting: %s]", line->name);
		break;
	case STACK_LINE_PYTHON:
		slash = strrchr(line->place, '/');
		fprintf(out, "%s (%s:%" PRId32 ")", line->name, slash ? slash + 1 : line->place,
			line->line);
		break;
	case STACK_LINE_NATIVE:
		if (!line->name[0])
			fprintf(out, "%s+0x%" PRIx64, line->place, line->address);
		else
			fprintf(out, "%s (%s)", line->name, line->place);
		break;
	case STACK_LINE_KERNEL:
		fprintf(out, "%s_[k]",
			line->name); /* as perf's and bcc's folded stacks mark them */
		break;
	}
}

void stack_text_folded(
	FILE *out, const struct stack_text_thread *thread, const struct stack_lines *lines)
{
	fprintf(out, "%s (%d)", thread->name, thread->tid);
	for (size_t i = lines->count; i-- > 0;) {
		char *text = NULL;
		size_t length = 0;
		FILE *frame = open_memstream(&text, &length);

		if (!frame)
			continue;
		put_line(frame, &lines->lines[i]);
		fclose(frame);
		for (char *c = text; c && *c; c++) {
			if (*c == ';')
				*c = ':';
		}
		fprintf(out, ";%s", text ? text : "?");
		free(text);
	}
}

void stack_text_write(
	FILE *out, const struct stack_text_thread *thread, const struct stack_lines *lines)
{
	fprintf(out, "thread %d \"%s\"%s\n", thread->tid, thread->name,
		thread->running ? ", running" : "");
	for (size_t i = 0; i < lines->count; i++) {
		fprintf(out, "    ");
		put_line(out, &lines->lines[i]);
		fprintf(out, "\n");
	}
	if (lines->python_alone)
		fprintf(out, "    (native frames are not known: it runs)\n");
	else if (lines->count == 0)
		fprintf(out, "    (not known: it runs)\n");
	else if (lines->truncated)
		fprintf(out, "    (its outermost frames are not known)\n");
}

/* Which stack of which thread was seen how often, wherever in the step. */
struct seen {
	uint32_t thread, node, looks;
	uint8_t role, state;
};

static int compare_stacks(const void *a, const void *b)
{
	const struct seen *one = a, *other = b;

	if (one->thread != other->thread)
		return one->thread < other->thread ? -1 : 1;
	return one->node < other->node ? -1 : one->node > other->node;
}

static int compare_times(const void *a, const void *b)
{
	const struct seen *one = a, *other = b;

	if (one->role != other->role)
		return one->role == STACK_THREAD_CALLER	    ? -1
		       : other->role == STACK_THREAD_CALLER ? 1
							    : (int)other->role - (int)one->role;
	if (one->looks != other->looks)
		return one->looks > other->looks ? -1 : 1;
	return compare_stacks(a, b);
}

static size_t sum_stacks(const struct stack_profile *profile, struct seen *seen)
{
	size_t count = 0;

	for (uint32_t i = 0; i < profile->sum_count; i++) {
		const struct stack_sum *sum = &profile->sums[i];

		seen[i] = (struct seen){sum->thread, sum->node, sum->looks,
			profile->threads[sum->thread].role, sum->state};
	}
	qsort(seen, profile->sum_count, sizeof(*seen), compare_stacks);
	for (uint32_t i = 0; i < profile->sum_count; i++) {
		if (count && compare_stacks(&seen[count - 1], &seen[i]) == 0)
			seen[count - 1].looks += seen[i].looks;
		else
			seen[count++] = seen[i];
	}
	qsort(seen, count, sizeof(*seen), compare_times);
	return count;
}

static struct stack_line line_of(const struct stack_profile *profile, const struct stack_node *node)
{
	const char *function = profile->text + node->function;
	struct stack_line line = {.name = function[0] ? function : "?",
		.place = profile->text + node->file,
		.line = node->line};

	line.kind = node->kind == STACK_FRAME_PYTHON   ? STACK_LINE_PYTHON
		    : node->kind == STACK_FRAME_KERNEL ? STACK_LINE_KERNEL
						       : STACK_LINE_NATIVE;
	return line;
}

/* A native frame without any name stands for a thread that ran: nothing is known of where. */
static void lines_of(const struct stack_profile *profile, uint32_t index, struct stack_lines *lines)
{
	lines->count = 0;
	for (; index != STACK_NODE_NONE && lines->count < STACK_LINES_MAX;
		index = profile->nodes[index].parent) {
		const struct stack_node *node = &profile->nodes[index];
		const char *function = profile->text + node->function;
		const char *file = profile->text + node->file;

		if (node->kind == STACK_FRAME_WAIT) {
			snprintf(lines->wait, sizeof(lines->wait), "%s%s%s", function,
				function[0] && file[0] ? " " : "", file);
			lines->lines[lines->count++] =
				(struct stack_line){.kind = STACK_LINE_WAIT, .name = lines->wait};
		} else if (node->kind != STACK_FRAME_NATIVE || function[0] || file[0]) {
			lines->lines[lines->count++] = line_of(profile, node);
		}
	}
}

void stack_text_profile(FILE *out, const struct stack_profile *profile, bool folded)
{
	struct seen *seen = calloc(profile->sum_count + 1, sizeof(*seen));
	struct stack_lines *lines = calloc(1, sizeof(*lines));
	size_t count = seen && lines ? sum_stacks(profile, seen) : 0;

	for (size_t i = 0; i < count; i++) {
		const struct stack_thread_info *info = &profile->threads[seen[i].thread];
		const struct stack_text_thread thread = {.name = info->name,
			.tid = info->tid,
			.running = seen[i].state == STACK_STATE_RUNNING};

		lines_of(profile, seen[i].node, lines);
		if (folded) {
			stack_text_folded(out, &thread, lines);
			fprintf(out, " %" PRIu32 "\n", seen[i].looks);
			continue;
		}
		if (profile->looks > 1)
			fprintf(out, "\n%" PRIu32 " of %" PRIu32 " looks: ", seen[i].looks,
				profile->looks);
		else
			fprintf(out, "\n");
		stack_text_write(out, &thread, lines);
	}
	free(seen);
	free(lines);
}
