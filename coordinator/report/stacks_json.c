/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/stacks_json.h"

#include <stdio.h>

#include "coordinator/report/look.h"

enum { DECIMALS_S = 3, DECIMALS_MS = 4, THREADS_TOLD = 4 };

static void write_frames(
	struct json_writer *writer, const struct stack_profile *profile, uint32_t node)
{
	uint32_t nodes[STACKS_INNERMOST_MAX];
	size_t count = stacks_innermost(profile, node, nodes);

	json_array_begin(writer, "frames");
	for (size_t i = 0; i < count; i++) {
		char text[STACKS_FRAME_LENGTH];
		struct line line;

		line_init(&line, text, sizeof(text));
		stacks_add_node(&line, profile, nodes[i]);
		json_string(writer, NULL, text);
	}
	json_array_end(writer);
}

static void write_threads(struct json_writer *writer, const struct stack_profile *profile)
{
	struct stacks_caller callers[THREADS_TOLD];
	size_t count = stacks_callers(profile, callers, THREADS_TOLD);

	json_array_begin(writer, "threads");
	for (size_t i = 0; i < count; i++) {
		const struct stack_thread_info *thread = &profile->threads[callers[i].thread];

		json_object_begin(writer, NULL);
		json_string(writer, "name", thread->name);
		json_signed(writer, "tid", thread->tid);
		json_string(writer, "state", stacks_state_name(callers[i].state));
		write_frames(writer, profile, callers[i].node);
		json_object_end(writer);
	}
	json_array_end(writer);
}

void stacks_json_why(struct json_writer *writer, const struct stack_profile *profile)
{
	char why[STACKS_WHY_LENGTH];
	struct line line;

	line_init(&line, why, sizeof(why));
	stacks_add_why(&line, profile);
	json_string(writer, "why", why);
}

void stacks_json_extent(struct json_writer *writer, const struct report_model *model,
	const struct kept_stacks *look)
{
	const struct stack_profile *profile = look->profile;

	json_signed(writer, "start_unix_ns",
		look_unix_ns((struct job_ns){look->start_ns}, model->unix_offset_ns));
	json_decimal(writer, "seconds", (double)(look->stop_ns - look->start_ns) / 1e9, DECIMALS_S);
	json_unsigned(writer, "steps", profile->steps);
	json_unsigned(writer, "looks", profile->looks);
	json_unsigned(writer, "incomplete", profile->incomplete);
}

static void write_look(struct json_writer *writer, const struct report_model *model,
	const struct kept_stacks *look, const char *part, bool with_frames)
{
	static const char *const results[STACK_RESULT_NR] = {[STACK_RESULT_DONE] = "done",
		[STACK_RESULT_ENDED] = "ended",
		[STACK_RESULT_NO_RIGHT] = "no-right",
		[STACK_RESULT_NO_STEPS] = "no-steps",
		[STACK_RESULT_OVER_COST] = "over-cost",
		[STACK_RESULT_FAILED] = "failed",
		[STACK_RESULT_BUSY] = "busy"};
	const struct stack_profile *profile = look->profile;

	json_object_begin(writer, NULL);
	json_unsigned(writer, "rank", profile->rank);
	json_string(writer, "part", part);
	json_string(writer, "result",
		profile->result < STACK_RESULT_NR ? results[profile->result] : "unknown");
	stacks_json_why(writer, profile);
	stacks_json_extent(writer, model, look);
	json_decimal(writer, "cost_ms", (double)profile->cost_ns / 1e6, DECIMALS_MS);
	if (with_frames && profile->sum_count)
		write_threads(writer, profile);
	json_object_end(writer);
}

void report_json_stacks(
	struct json_writer *writer, const struct report_model *model, const struct verdict *verdict)
{
	const struct kept_stacks *shown[STACKS_HANG_SHOWN];
	struct stacks_pair pair = {0};
	size_t shown_count = 0;
	bool any = false;

	if (!model->stacks)
		return;
	(void)stacks_of_verdict(model, verdict, &pair);
	if (verdict->verdict_class == VERDICT_HANG)
		shown_count = stacks_of_hang(model, verdict, shown);
	for (size_t i = 0; i < model->stacks->count; i++) {
		const struct kept_stacks *look = &model->stacks->kept[i];
		const char *part = stacks_part_in(verdict, &pair, look);
		bool with_frames = false;

		if (!part)
			continue;
		if (!any)
			json_array_begin(writer, "stacks");
		any = true;
		for (size_t k = 0; k < shown_count; k++)
			with_frames |= shown[k] == look;
		write_look(writer, model, look, part, with_frames);
	}
	if (any)
		json_array_end(writer);
}
