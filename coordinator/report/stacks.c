/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/stacks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/stack_frames.h"
#include "analysis/policy.h"
#include "coordinator/report/look.h"

static int64_t until_ns(const struct verdict *verdict)
{
	return verdict->ended ? verdict->end.value : INT64_MAX;
}

/* A look that saw more of another time shows a rank that is well. */
static bool is_of_time(const struct verdict *verdict, const struct kept_stacks *look)
{
	int64_t middle_ns = look->start_ns + (look->stop_ns - look->start_ns) / 2;

	return middle_ns >= verdict->onset.value && middle_ns <= until_ns(verdict);
}

/* A rank's best look that saw whole steps, or else the best that saw anything. verdict: NULL = at any time. */
static const struct kept_stacks *best_of(
	const struct report_model *model, const struct verdict *verdict, uint32_t rank)
{
	int64_t from_ns = verdict ? verdict->onset.value : INT64_MIN;
	int64_t to_ns = verdict ? until_ns(verdict) : INT64_MAX;
	const struct kept_stacks *steps =
		stack_looks_best(model->stacks, rank, from_ns, to_ns, STACK_LOOK_STEPS);

	return steps ? steps
		     : stack_looks_best(model->stacks, rank, from_ns, to_ns, STACK_LOOK_SEEN);
}

static uint32_t role_of(const struct report_model *model, uint32_t rank)
{
	const struct report_rank *row = look_rank(model, rank);

	return row ? row->totals.role : UINT32_MAX;
}

static bool is_named_then(const struct report_model *model, const struct kept_stacks *look)
{
	for (size_t i = 0; i < model->verdict_count; i++) {
		if (verdict_names(&model->verdicts[i], look->profile->rank) &&
			is_of_time(&model->verdicts[i], look))
			return true;
	}
	return false;
}

/* Of a rank of the same role that is in no verdict then, the nearest in time; of whole steps if the own look is. */
static const struct kept_stacks *control_of(
	const struct report_model *model, const struct kept_stacks *own)
{
	bool steps = stack_look_is(own->profile, STACK_LOOK_STEPS);
	const struct kept_stacks *nearest = NULL;

	for (size_t i = 0; i < model->stacks->count; i++) {
		const struct kept_stacks *look = &model->stacks->kept[i];
		uint32_t rank = look->profile->rank;
		int64_t apart_ns = llabs(look->start_ns - own->start_ns);

		if (rank == own->profile->rank || apart_ns > LOOK_PAIR_NS ||
			!stack_look_is(look->profile, STACK_LOOK_SEEN) ||
			stack_look_is(look->profile, STACK_LOOK_STEPS) != steps ||
			role_of(model, rank) != role_of(model, own->profile->rank) ||
			is_named_then(model, look))
			continue;
		if (!nearest || apart_ns < llabs(nearest->start_ns - own->start_ns))
			nearest = look;
	}
	return nearest;
}

static const struct kept_stacks *waiting_of(
	const struct report_model *model, const struct verdict *verdict)
{
	const struct kept_stacks *look = NULL;

	for (size_t i = 0; !look && i < look_at_most(verdict->victim_count, VERDICT_VICTIMS_MAX);
		i++)
		look = best_of(model, verdict, verdict->victims[i]);
	return look;
}

/* Of the rank's looks of whole steps the best one that has a control; that one may have come a little late. */
static void find_pair(const struct report_model *model, const struct verdict *verdict,
	uint32_t rank, struct stacks_pair *pair)
{
	for (size_t i = 0; i < model->stacks->count; i++) {
		const struct kept_stacks *look = &model->stacks->kept[i], *control;

		if (look->profile->rank != rank || (verdict && !is_of_time(verdict, look)) ||
			!stack_look_is(look->profile, STACK_LOOK_STEPS) ||
			(pair->control && !stack_look_is_better(look, pair->own)))
			continue;
		control = control_of(model, look);
		if (!control)
			continue;
		pair->own = look;
		pair->control = control;
	}
}

static bool fill_pair(const struct report_model *model, const struct verdict *verdict,
	uint32_t rank, struct stacks_pair *pair)
{
	const struct kept_stacks *own = best_of(model, verdict, rank);

	if (!own)
		return false;
	*pair = (struct stacks_pair){.verdict = verdict, .own = own};
	if (verdict && verdict->verdict_class == VERDICT_HANG && verdict_names(verdict, rank))
		pair->control = waiting_of(model, verdict);
	else if (stack_look_is(own->profile, STACK_LOOK_STEPS))
		find_pair(model, verdict, rank, pair);
	else
		pair->control = control_of(model, own);
	return true;
}

bool stacks_of_verdict(
	const struct report_model *model, const struct verdict *verdict, struct stacks_pair *pair)
{
	for (size_t i = 0; i < look_at_most(verdict->rank_count, VERDICT_RANKS_MAX); i++) {
		if (fill_pair(model, verdict, verdict->ranks[i], pair))
			return true;
	}
	return false;
}

size_t stacks_of_hang(const struct report_model *model, const struct verdict *verdict,
	const struct kept_stacks *looks[STACKS_HANG_SHOWN])
{
	const struct kept_stacks *waiting = waiting_of(model, verdict);
	size_t count = 0;

	for (size_t i = 0; i < look_at_most(verdict->rank_count, VERDICT_RANKS_MAX) &&
			   count < STACKS_MISSING_SHOWN;
		i++) {
		looks[count] = best_of(model, verdict, verdict->ranks[i]);
		count += looks[count] != NULL;
	}
	if (waiting)
		looks[count++] = waiting;
	return count;
}

const char *stacks_part_in(const struct verdict *verdict, const struct stacks_pair *pair,
	const struct kept_stacks *look)
{
	bool hang = verdict->verdict_class == VERDICT_HANG;
	uint32_t rank = look->profile->rank;

	if (look == pair->control)
		return hang ? "waiting" : "control";
	if (!is_of_time(verdict, look))
		return NULL;
	if (verdict_names(verdict, rank))
		return hang ? "missing" : "suspect";
	return hang && verdict_has_victim(verdict, rank) ? "waiting" : NULL;
}

/* The newest that somebody asked for by hand and that saw something. */
static bool find_asked(
	const struct report_model *model, const struct stacks_wish *wish, struct stacks_pair *pair)
{
	const struct stack_looks *asked = model->asked_stacks;

	for (size_t i = asked ? asked->count : 0; i-- > 0;) {
		const struct kept_stacks *look = &asked->kept[i];

		if ((wish->has_rank && look->profile->rank != wish->rank) ||
			!stack_look_is(look->profile, STACK_LOOK_SEEN))
			continue;
		*pair = (struct stacks_pair){.own = look};
		return true;
	}
	return false;
}

static const struct verdict *find_verdict(const struct report_model *model, uint32_t id)
{
	for (size_t i = 0; i < model->verdict_count; i++) {
		if (model->verdicts[i].id == id)
			return &model->verdicts[i];
	}
	return NULL;
}

static bool find_any(
	const struct report_model *model, const struct stacks_wish *wish, struct stacks_pair *pair)
{
	for (size_t i = 0; i < model->verdict_count; i++) {
		const struct verdict *verdict = &model->verdicts[i];

		if (!wish->has_rank && stacks_of_verdict(model, verdict, pair))
			return true;
		if (wish->has_rank && verdict_names(verdict, wish->rank) &&
			fill_pair(model, verdict, wish->rank, pair))
			return true;
	}
	return (wish->has_rank && fill_pair(model, NULL, wish->rank, pair)) ||
	       find_asked(model, wish, pair);
}

/* Whom the question was of. */
static bool is_asked_for(const struct stacks_wish *wish, const struct verdict *verdict,
	const struct kept_stacks *look)
{
	if (verdict && !is_of_time(verdict, look))
		return false;
	if (wish->has_rank)
		return look->profile->rank == wish->rank;
	return !verdict || verdict_names(verdict, look->profile->rank);
}

static void add_source(struct line *line, const struct report_model *model)
{
	for (size_t i = 0; i < model->source_count; i++) {
		const struct message_source *source = &model->sources[i].source;

		if (strcmp(source->name, "host.stacks") != 0 || !source->why[0])
			continue;
		line_add(line, " (host.stacks: ");
		line_add_outside(line, source->why);
		line_add(line, ")");
	}
}

static void explain_none(const struct report_model *model, const struct stacks_wish *wish,
	const struct verdict *verdict, struct line *line)
{
	const struct kept_stacks *last = NULL;

	for (size_t i = 0; model->stacks && i < model->stacks->count; i++) {
		if (is_asked_for(wish, verdict, &model->stacks->kept[i]))
			last = &model->stacks->kept[i];
	}
	line_add(line, "no stacks");
	if (wish->has_rank)
		line_add(line, " of rank %" PRIu32, wish->rank);
	if (verdict)
		line_add(line, " in incident %" PRIu32, verdict->id);
	if (last) {
		line_add(line, ": the look at rank %" PRIu32 " saw nothing: ", last->profile->rank);
		stacks_add_why(line, last->profile);
	} else {
		line_add(line, ": no look was made");
		add_source(line, model);
	}
}

bool stacks_find(const struct report_model *model, const struct stacks_wish *wish,
	struct stacks_pair *pair, char why[STACKS_WHY_LENGTH])
{
	const struct verdict *verdict =
		wish->has_incident ? find_verdict(model, wish->incident) : NULL;
	struct line line;
	bool found;

	line_init(&line, why, STACKS_WHY_LENGTH);
	if (wish->has_incident && !verdict) {
		line_add(&line, "no incident %" PRIu32 ": there are %zu", wish->incident,
			model->verdict_count);
		return false;
	}
	if (!verdict)
		found = find_any(model, wish, pair);
	else
		found = wish->has_rank ? fill_pair(model, verdict, wish->rank, pair)
				       : stacks_of_verdict(model, verdict, pair);
	if (!found)
		explain_none(model, wish, verdict, &line);
	return found;
}

void stacks_add_why(struct line *line, const struct stack_profile *profile)
{
	const char *text = stack_result_text((enum stack_result)profile->result);

	line_add(line, "%s%s", text, text[0] && profile->why[0] ? ": " : "");
	line_add_outside(line, profile->why);
}

void stacks_add_frame(
	struct line *line, uint8_t kind, const char *function, const char *file, int32_t number)
{
	if (kind == STACK_FRAME_WAIT) {
		line_add(line, function[0] ? "[waiting: " : "[on ");
		line_add_outside(line, function);
		line_add(line, "%s", function[0] && file[0] ? " " : "");
		line_add_outside(line, file);
		line_add(line, "]");
		return;
	}
	line_add_outside(line, function[0] ? function : "?");
	if (kind == STACK_FRAME_KERNEL)
		line_add(line, "_[k]"); /* as perf's and bcc's folded stacks mark them */
	if (!file[0])
		return;
	line_add(line, " (");
	line_add_outside(line, stack_file_short(file));
	if (number)
		line_add(line, ":%" PRId32, number);
	line_add(line, ")");
}

void stacks_add_node(struct line *line, const struct stack_profile *profile, uint32_t index)
{
	const struct stack_node *node = &profile->nodes[index];

	stacks_add_frame(line, node->kind, profile->text + node->function,
		profile->text + node->file, node->line);
}

static void add_name(struct line *line, const char *name, bool numbers)
{
	char text[STACK_THREAD_NAME_LENGTH];
	size_t used = 0;

	for (const char *c = name; *c; c++) {
		if (numbers || *c < '0' || *c > '9')
			text[used++] = *c;
	}
	text[used] = '\0';
	line_add_outside(line, text);
}

void stacks_add_thread(
	struct line *line, const struct stack_profile *profile, uint32_t index, bool numbers)
{
	const struct stack_thread_info *thread = &profile->threads[index];
	unsigned number = 1;

	if (thread->role == STACK_THREAD_WORKER) {
		/* Each process once: by its first thread in the list. */
		for (uint32_t i = 0; i < profile->thread_count; i++) {
			const struct stack_thread_info *other = &profile->threads[i];
			bool first = other->role == STACK_THREAD_WORKER && other->pid < thread->pid;

			for (uint32_t j = 0; first && j < i; j++)
				first = profile->threads[j].pid != other->pid;
			number += first;
		}
		line_add(line, "worker %u ", number);
	} else if (thread->pid == thread->tid) {
		line_add(line, "main");
		return;
	}
	add_name(line, thread->name, numbers);
}

void stacks_add_segment(struct line *line, const struct stack_segment *segment)
{
	if (!segment->operation)
		line_add(line, "after the last collective");
	else
		line_add(line, "%s collective %" PRIu32 ", %s",
			segment->inside ? "inside" : "before", segment->ordinal + 1,
			operation_name((enum operation)segment->operation));
}

const char *stacks_state_name(uint8_t state)
{
	static const char *const names[] = {
		[STACK_STATE_RUNNING] = "running",
		[STACK_STATE_RUNNABLE] = "waits for a CPU",
		[STACK_STATE_LOCK] = "waits for a lock or a thread",
		[STACK_STATE_SLEEP] = "sleeps",
		[STACK_STATE_FILE] = "waits for a file",
		[STACK_STATE_SOCKET] = "waits for a socket, a pipe or a process",
		[STACK_STATE_DEVICE] = "waits for a device",
		[STACK_STATE_FAULT] = "waits for a page",
	};

	return state < sizeof(names) / sizeof(names[0]) && names[state] ? names[state] : "waits";
}

static bool is_main(const struct stack_profile *profile, uint32_t thread)
{
	return profile->threads[thread].pid == profile->threads[thread].tid;
}

size_t stacks_callers(
	const struct stack_profile *profile, struct stacks_caller *callers, size_t capacity)
{
	size_t count = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t t = 0; t < profile->thread_count && count < capacity; t++) {
			const struct stack_sum *longest = NULL;

			if (profile->threads[t].role != STACK_THREAD_CALLER ||
				is_main(profile, t) != (pass == 0))
				continue;
			for (uint32_t i = 0; i < profile->sum_count; i++) {
				const struct stack_sum *sum = &profile->sums[i];

				if (sum->thread == t &&
					(!longest || sum->time_ns > longest->time_ns))
					longest = sum;
			}
			if (longest)
				callers[count++] =
					(struct stacks_caller){t, longest->node, longest->state};
		}
	}
	return count;
}

size_t stacks_innermost(
	const struct stack_profile *profile, uint32_t node, uint32_t nodes[STACKS_INNERMOST_MAX])
{
	/* A wait's native frames are mostly a library's way into the kernel; where the program is, Python says. */
	static const unsigned most[] = {[STACK_FRAME_PYTHON] = 8,
		[STACK_FRAME_NATIVE] = 4,
		[STACK_FRAME_WAIT] = 1,
		[STACK_FRAME_KERNEL] = 7};
	unsigned seen[sizeof(most) / sizeof(most[0])] = {0};
	size_t count = 0;

	for (; node != STACK_NODE_NONE; node = profile->nodes[node].parent) {
		uint8_t kind = profile->nodes[node].kind;

		if (kind < sizeof(most) / sizeof(most[0]) && seen[kind] < most[kind]) {
			seen[kind]++;
			nodes[count++] = node;
		}
	}
	return count;
}

/* The innermost frame of a kind; STACK_NODE_NONE: there is none. */
static uint32_t innermost_of(
	const struct stack_profile *profile, uint32_t node, enum stack_frame_kind kind)
{
	while (node != STACK_NODE_NONE && profile->nodes[node].kind != kind)
		node = profile->nodes[node].parent;
	return node;
}

void stacks_add_short(struct line *line, const struct stack_profile *profile)
{
	struct stacks_caller caller;
	uint32_t wait, place;

	if (stacks_callers(profile, &caller, 1) == 0) {
		line_add(line, "not seen");
		return;
	}
	wait = innermost_of(profile, caller.node, STACK_FRAME_WAIT);
	if (wait != STACK_NODE_NONE)
		stacks_add_node(line, profile, wait);
	else
		line_add(line, "%s", stacks_state_name(caller.state));
	place = innermost_of(profile, caller.node, STACK_FRAME_PYTHON);
	if (place == STACK_NODE_NONE)
		place = innermost_of(profile, caller.node, STACK_FRAME_NATIVE);
	if (place == STACK_NODE_NONE)
		return;
	line_add(line, " in ");
	stacks_add_node(line, profile, place);
}
