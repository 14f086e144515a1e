/* SPDX-License-Identifier: Apache-2.0 */
/* Deep looks: whom to look at, and verdicts that are told when a look came late. */
#include <errno.h>
#include <stdlib.h>

#include "analysis/judge/internal.h"

/*
 * A look comes when its verdict is quiet already, or has ended: what is slow for a few seconds only
 * deserves its cause as well. What is kept of a verdict until another one takes its incident will do.
 */
static void tell_late(struct judge *judge)
{
	for (size_t t = 0; t < judge->incidents.count; t++) {
		struct incident *incident = &judge->incidents.list[t];
		struct verdict *verdict = judge_verdict(judge, incident);
		bool placed = verdict->where.text[0] != '\0';

		if (incident->kind != INCIDENT_RANKS || verdict->cause != CAUSE_UNKNOWN)
			continue;
		judge_tell_cause(judge, incident, verdict);
		if ((verdict->cause != CAUSE_UNKNOWN || (!placed && verdict->where.text[0])) &&
			!incident->active && judge->options.on_verdict)
			judge->options.on_verdict(
				judge->options.context, VERDICT_EVENT_UPDATE, verdict);
	}
}

int judge_kernel_profile(struct judge *judge, const struct kernel_profile *profile,
	struct job_ns start, struct job_ns stop)
{
	const struct kept_look look = {start.value, stop.value, *profile};
	int error;

	if (!judge->looks)
		judge->looks = calloc(1, sizeof(*judge->looks));
	if (!judge->looks)
		return -ENOMEM;
	error = looks_keep(judge->looks, &look);
	if (error == 0)
		tell_late(judge);
	return error;
}

int judge_stack_profile(struct judge *judge, const struct stack_profile *profile,
	struct job_ns start, struct job_ns stop)
{
	int error;

	if (!judge->stacks)
		judge->stacks = calloc(1, sizeof(*judge->stacks));
	if (!judge->stacks)
		return -ENOMEM;
	error = stack_looks_keep(judge->stacks, profile, start.value, stop.value);
	if (error == 0)
		tell_late(judge);
	return error;
}

const struct stack_looks *judge_stacks(const struct judge *judge)
{
	return judge->stacks;
}

const struct kernel_profile *judge_look(const struct judge *judge, size_t index)
{
	return judge->looks && index < judge->looks->count ? &judge->looks->kept[index]->profile
							   : NULL;
}

static bool is_suspect(const struct judge *judge, uint32_t rank)
{
	const struct rank_state *state = &judge->ranks[rank];
	const struct verdict *verdict;
	struct explanation why;

	if (!(state->evidence_mask & EVIDENCE_KERNELS) || !state->in_block)
		return false;
	if (!state->incident)
		return state->signal.runs[RUN_QUICK].change.sum >= CHANGE_THRESHOLD / 2 &&
		       state->signal.runs[RUN_QUICK].sums.on_device &&
		       judge_worth_telling(judge, rank, RUN_QUICK, &why, NULL);
	verdict = &judge->incidents.verdicts[judge->incidents.list[state->incident - 1].verdict];
	return looks_can_tell(judge->incidents.list[state->incident - 1].sums.on_device,
		(enum verdict_class)verdict->verdict_class, (enum cause)verdict->cause);
}

/* The suspect is in a verdict, and was not looked at since its onset. */
static bool is_first(const struct judge *judge, uint32_t suspect)
{
	uint32_t incident = judge->ranks[suspect].incident;

	return incident && !looks_newest(judge->looks, suspect,
				   judge->incidents.list[incident - 1].onset_ns, INT64_MAX, true);
}

/* The quietest rank of the same role that is in no verdict. */
static bool find_control(const struct judge *judge, uint32_t suspect,
	bool (*may_look)(void *context, uint32_t rank, bool first), void *context,
	uint32_t *control)
{
	bool found = false;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (r == suspect || state->incident || !state->in_block ||
			!(state->evidence_mask & EVIDENCE_KERNELS) || judge_suspected_any(state) ||
			state->totals.role != judge->ranks[suspect].totals.role ||
			(found && state->usual.long_run >= judge->ranks[*control].usual.long_run) ||
			!may_look(context, r, true))
			continue;
		*control = r;
		found = true;
	}
	return found;
}

size_t judge_look_wants(const struct judge *judge,
	bool (*may_look)(void *context, uint32_t rank, bool first), void *context,
	struct judge_look_want *wants, size_t capacity)
{
	size_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end && count < capacity; r++) {
		struct judge_look_want want = {.suspect = r, .first = is_first(judge, r)};

		if (!is_suspect(judge, r) || !may_look(context, r, want.first) ||
			!find_control(judge, r, may_look, context, &want.control))
			continue;
		want.step_ns = (int64_t)step_length_ns(&judge->times, judge->times.next - 1);
		wants[count++] = want;
	}
	return count;
}
