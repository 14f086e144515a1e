/* SPDX-License-Identifier: Apache-2.0 */
/* Deep looks: whom to look at, and verdicts that are told when a look, or a sample, came late. */
#include <errno.h>
#include <stdlib.h>

#include "analysis/judge/internal.h"

/* More than was told: a cause, where there was none or one that stacks say more of; or where in the program it is. */
static bool says_more(const struct verdict *late, const struct verdict *told)
{
	bool placed = late->where.text[0] && !told->where.text[0];

	if (told->cause == CAUSE_UNKNOWN)
		return late->cause != CAUSE_UNKNOWN || placed;
	return cause_rule(late->cause)->sources & EVIDENCE_STACKS ||
	       (late->cause == told->cause && placed);
}

/*
 * A look comes when its verdict is quiet already, or has ended: what is slow for a few seconds only
 * deserves its cause as well. What is kept of a verdict until another one takes its incident will do.
 */
static void tell_late(struct judge *judge)
{
	for (size_t t = 0; t < judge->incidents.count; t++) {
		struct incident *incident = &judge->incidents.list[t];
		struct verdict *verdict = judge_verdict(judge, incident), late = *verdict;
		int64_t since_ns;
		bool more;

		if (incident->kind != INCIDENT_RANKS ||
			(verdict->cause != CAUSE_UNKNOWN && !stacks_can_add(verdict)))
			continue;
		since_ns = judge_tell_cause(judge, incident, &late);
		more = says_more(&late, verdict);
		if (more || verdict->cause == CAUSE_UNKNOWN) {
			*verdict = late;
			judge_date_since_cause(judge, incident, since_ns);
		}
		if (more && !incident->active && judge->options.on_verdict)
			judge->options.on_verdict(
				judge->options.context, VERDICT_EVENT_UPDATE, verdict);
	}
}

/*
 * A sample, likewise: it tells of the time since the one before, and comes some seconds later where a sampler is dear.
 */
static bool awaits_samples(const struct judge *judge, const struct incident *incident)
{
	return incident->kind == INCIDENT_RANKS && !incident->every &&
	       judge_verdict(judge, incident)->cause == CAUSE_UNKNOWN &&
	       judge_now_ns(judge) - incident->loud_until_ns <= EVIDENCE_BEFORE_NS;
}

void judge_late_samples(struct judge *judge)
{
	for (size_t t = 0; t < judge->incidents.count; t++) {
		struct incident *incident = &judge->incidents.list[t];
		struct verdict *verdict = judge_verdict(judge, incident), late = *verdict;
		int64_t since_ns;

		if (!awaits_samples(judge, incident))
			continue;
		since_ns = judge_tell_cause(judge, incident, &late);
		if (late.cause == CAUSE_UNKNOWN)
			continue;
		*verdict = late;
		judge_date_since_cause(judge, incident, since_ns);
		if (!incident->active && judge->options.on_verdict)
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

/* Of a job that hangs; NULL: it does not. */
static const struct verdict *hang_of(const struct judge *judge)
{
	size_t number = judge->incidents.hang.verdict;

	return number ? &judge->incidents.verdicts[number - 1] : NULL;
}

/* What a rank does that did not arrive, or one that waits for it: each is asked for once. */
static void tell_hang(const struct judge *judge, uint32_t rank)
{
	const struct verdict *hang = hang_of(judge);

	if (hang && (verdict_names(hang, rank) || verdict_has_victim(hang, rank)) &&
		judge->options.on_verdict)
		judge->options.on_verdict(judge->options.context, VERDICT_EVENT_UPDATE, hang);
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
	if (error == 0) {
		tell_late(judge);
		tell_hang(judge, profile->rank);
	}
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

static bool can_look(const struct rank_state *state, enum judge_look_kind kind)
{
	return state->in_block &&
	       state->evidence_mask &
		       (kind == JUDGE_LOOK_KERNELS ? EVIDENCE_KERNELS : EVIDENCE_STACKS);
}

/* Not in a verdict yet, but half of what is needed for one is there. */
static bool is_about_to_be_named(const struct judge *judge, uint32_t rank)
{
	const struct run *run = &judge->ranks[rank].signal.runs[RUN_QUICK];
	struct explanation why;

	return run->change.sum >= CHANGE_THRESHOLD / 2 && run->sums.on_device &&
	       judge_worth_telling(judge, rank, RUN_QUICK, &why, NULL);
}

/* More than noise, and large enough to be told if it goes on. */
static bool is_suspected(const struct judge *judge, uint32_t rank)
{
	const struct run *run = &judge->ranks[rank].signal.runs[RUN_QUICK];
	struct explanation why;

	if (run->change.sum < CHANGE_NEAR || run_level(run) < run_least(run))
		return false;
	judge_explain_run(judge, rank, run, &why);
	return stacks_can_tell(run->sums.on_device, why.verdict_class, why.cause);
}

static const struct incident *incident_of(const struct judge *judge, uint32_t rank)
{
	uint32_t incident = judge->ranks[rank].incident;

	return incident ? &judge->incidents.list[incident - 1] : NULL;
}

/* early: a suspicion may be looked at; one at a time. */
static bool is_suspect(
	const struct judge *judge, uint32_t rank, enum judge_look_kind kind, bool early)
{
	const struct incident *incident = incident_of(judge, rank);
	const struct verdict *verdict;

	if (!can_look(&judge->ranks[rank], kind))
		return false;
	if (!incident)
		return kind == JUDGE_LOOK_KERNELS ? is_about_to_be_named(judge, rank)
						  : early && is_suspected(judge, rank);
	verdict = judge_verdict(judge, incident);
	return kind == JUDGE_LOOK_STACKS ? stacks_can_add(verdict)
					 : looks_can_tell(incident->sums.on_device,
						   verdict->verdict_class, verdict->cause);
}

/* The suspect is in a verdict, and was not looked at since its onset. */
static bool is_first(const struct judge *judge, uint32_t suspect, enum judge_look_kind kind)
{
	const struct incident *incident = incident_of(judge, suspect);

	if (!incident)
		return false;
	if (kind == JUDGE_LOOK_KERNELS)
		return !looks_newest(judge->looks, suspect, incident->onset_ns, INT64_MAX, true);
	return !stack_looks_best(
		judge->stacks, suspect, incident->onset_ns, INT64_MAX, STACK_LOOK_STEPS);
}

/* Nothing is suspected of it, and of the other is; else it is usually late for less. */
static bool is_quieter(const struct rank_state *one, const struct rank_state *other)
{
	bool suspected = judge_suspected_any(one);

	return suspected == judge_suspected_any(other) ? one->usual.long_run < other->usual.long_run
						       : !suspected;
}

/*
 * The quietest rank of the same role that nothing is suspected of. On a busy machine there is none for long: of a rank that a
 * verdict names, one that none names will do.
 */
static bool find_control(const struct judge *judge, uint32_t suspect, enum judge_look_kind kind,
	judge_may_look *may_look, void *context, uint32_t *control)
{
	const struct rank_state *own = &judge->ranks[suspect];
	bool found = false;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (r == suspect || state->incident || !can_look(state, kind) ||
			(!own->incident && judge_suspected_any(state)) ||
			state->totals.role != own->totals.role ||
			(found && !is_quieter(state, &judge->ranks[*control])) ||
			!may_look(context, kind, r, true))
			continue;
		*control = r;
		found = true;
	}
	return found;
}

/* Of late, by the median: the latest step alone may be the slow one of ten. */
static int64_t usual_step_ns(const struct judge *judge)
{
	uint64_t next = judge->times.next;
	double usual = step_usual_ns(
		&judge->times, next > STEPS_KNOWN_MIN ? next - STEPS_KNOWN_MIN : 0, next);

	return (int64_t)(usual > 0 ? usual : step_length_ns(&judge->times, next - 1));
}

size_t judge_look_wants(const struct judge *judge, enum judge_look_kind kind,
	judge_may_look *may_look, void *context, struct judge_look_want *wants, size_t capacity)
{
	bool early = may_look(context, kind, JUDGE_LOOK_EARLY, false);
	size_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end && count < capacity; r++) {
		const struct incident *incident = incident_of(judge, r);
		struct judge_look_want want = {.suspect = r,
			.first = is_first(judge, r, kind),
			.early = !incident && kind == JUDGE_LOOK_STACKS};

		if (!is_suspect(judge, r, kind, early && !count) ||
			!may_look(context, kind, r, want.first) ||
			!find_control(judge, r, kind, may_look, context, &want.control))
			continue;
		want.period_steps = incident ? incident->every : 0;
		want.step_ns = usual_step_ns(judge);
		wants[count++] = want;
	}
	return count;
}

static bool wants_stacks(const struct judge *judge, const struct verdict *verdict, uint32_t rank,
	judge_may_look *may_look, void *context)
{
	return rank < judge->rank_end && judge->ranks[rank].evidence_mask & EVIDENCE_STACKS &&
	       !stack_looks_best(
		       judge->stacks, rank, verdict->onset.value, INT64_MAX, STACK_LOOK_ANY) &&
	       may_look(context, JUDGE_LOOK_STACKS, rank, true);
}

size_t judge_hang_look_wants(const struct judge *judge, judge_may_look *may_look, void *context,
	uint32_t *ranks, size_t capacity)
{
	const struct verdict *hang = hang_of(judge);
	size_t count = 0;

	if (!hang)
		return 0;
	for (uint32_t r = 0; r < hang->rank_count && count + 1 < capacity; r++) {
		if (wants_stacks(judge, hang, hang->ranks[r], may_look, context))
			ranks[count++] = hang->ranks[r];
	}
	if (hang->victim_count && count < capacity &&
		wants_stacks(judge, hang, hang->victims[0], may_look, context))
		ranks[count++] = hang->victims[0];
	return count;
}
