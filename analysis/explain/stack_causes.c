/* SPDX-License-Identifier: Apache-2.0 */
/* Causes that stacks of a rank beside a healthy one's tell, and where in the program the excess is. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/explain/measures.h"
#include "analysis/explain/stack_causes.h"
#include "analysis/explain/stack_looks.h"
#include "analysis/policy.h"

static enum stack_class class_of(enum cause cause)
{
	switch (cause) {
	case CAUSE_CHECKPOINT:
		return STACK_CLASS_CHECKPOINT;
	case CAUSE_LOGGING:
		return STACK_CLASS_LOGGING;
	case CAUSE_DATA_LOADER:
		return STACK_CLASS_DATA_LOADER;
	case CAUSE_HOST_TO_DEVICE_COPY:
		return STACK_CLASS_COPY;
	case CAUSE_MEMORY_ALLOCATOR:
		return STACK_CLASS_ALLOCATOR;
	case CAUSE_FILE_SYSTEM:
		return STACK_CLASS_FILE;
	case CAUSE_LOCK:
		return STACK_CLASS_LOCK;
	case CAUSE_HOST_CODE:
		return STACK_CLASS_CODE;
	default:
		return STACK_CLASS_NONE;
	}
}

static void put_missing(struct stack_seen *seen, const char *why)
{
	seen->known = KNOWN_UNASKED;
	snprintf(seen->why, sizeof(seen->why), "stacks: %.120s", why);
}

/* The look at the first of the ranks that has one. NULL: none; seen says why. */
static const struct kept_stacks *own_look(const struct explain_context *context,
	const struct episode *episode, struct stack_seen *seen)
{
	const struct kept_stacks *own = NULL, *failed = NULL;

	for (uint32_t i = 0; i < episode->rank_count && !own; i++) {
		own = stack_looks_best(context->stacks, episode->ranks[i], episode->onset_ns,
			episode->loud_until_ns, STACK_LOOK_STEPS);
		if (!failed)
			failed = stack_looks_best(context->stacks, episode->ranks[i],
				episode->onset_ns, episode->loud_until_ns, STACK_LOOK_ANY);
	}
	if (!own && failed)
		put_missing(seen,
			failed->profile->why[0]
				? failed->profile->why
				: stack_result_text((enum stack_result)failed->profile->result));
	return own;
}

void explain_stacks(const struct explain_context *context, const struct episode *episode,
	struct stack_seen *seen)
{
	const struct excess_sums *sums = &episode->sums;
	const struct kept_stacks *own, *control;
	const struct stack_compared *compared;

	*seen = (struct stack_seen){.known = KNOWN_NOTHING};
	/* The device's time is its own; what its host waits for, stacks do not tell. */
	if (!context->stacks || episode->excess_ns <= 0 ||
		(sums->on_device && episode->class_so_far == VERDICT_COMPUTE_SLOW))
		return;
	own = own_look(context, episode, seen);
	if (!own)
		return;
	control = stack_looks_control(context, episode, own);
	if (!control) {
		put_missing(seen, "no healthy rank could be looked at");
		return;
	}
	compared = stack_looks_compare(context->stacks, own, control, episode->every_steps);
	if (!compared || compared->result) {
		put_missing(seen, compared ? compared->why : "out of memory");
		return;
	}
	seen->difference = &compared->difference;
	seen->known = KNOWN_SHARE;
	/* Steps of the episode, as long as those of the look. */
	seen->steps = episode->every_steps
			      ? sums->program_steps
			      : (double)sums->time_ns * own->profile->steps /
					fmax((double)(own->stop_ns - own->start_ns), 1);
}

static double share_of(const struct episode *episode, const struct stack_excess *excess)
{
	double over = (excess->own_ns - excess->control_ns) * episode->stacks->steps;

	return fmin(fmax(over / episode->excess_ns, 0), 1);
}

bool explain_stacks_tell(const struct episode *episode, enum cause cause)
{
	const struct stack_seen *seen = episode->stacks;
	enum stack_class class = class_of(cause);

	return class != STACK_CLASS_NONE && seen->known == KNOWN_SHARE &&
	       share_of(episode, &seen->difference->classes[class]) >= cause_rule(cause)->share_min;
}

void explain_stacks_where(
	const struct episode *episode, enum cause cause, struct verdict_where *where)
{
	const struct stack_seen *seen = episode->stacks;

	if (seen->known != KNOWN_SHARE)
		return;
	if (class_of(cause) != STACK_CLASS_NONE)
		*where = seen->difference->classes[class_of(cause)].where;
	else if (share_of(episode, &seen->difference->all) >= LOOK_SHARE_MIN)
		*where = seen->difference->all.where;
}

/* What it waited in explains as much as the wait that the kernel timed, as far as looks can tell, and says more. */
static double share_of_waits(
	const struct episode *episode, const struct stack_excess *excess, double share)
{
	double waits = fmax(episode->shares[EXCESS_BLOCK_IO], episode->shares[EXCESS_ASLEEP]);
	double chance = STACK_CHANCE_DEVIATIONS * share / sqrt(fmax(excess->looks, 1));

	return share + chance >= STACK_WAITS_SHARE_MIN * waits ? fmax(share, waits) : share;
}

void measure_stacks(const struct explain_context *context, struct episode *episode,
	enum cause cause, struct finding *finding)
{
	const struct stack_seen *seen = episode->stacks;
	const struct stack_excess *excess;
	double share, too;

	(void)context;
	if (seen->known != KNOWN_SHARE) {
		if (cause == CAUSE_CHECKPOINT) { /* the first of them says why */
			finding->known = seen->known;
			snprintf(finding->text, sizeof(finding->text), "%s", seen->why);
		}
		return;
	}
	excess = &seen->difference->classes[class_of(cause)];
	/* What both compute takes longer on a slow CPU as well; where both wait for a thread, that is how the program is made. */
	too = cause == CAUSE_HOST_CODE || cause == CAUSE_LOCK ? CONTROL_HAS_NONE : CONTROL_HAS_TOO;
	share = share_of(episode, excess);
	if (share < EVIDENCE_SHARE_MIN)
		return;
	finding->own_ns = excess->own_ns * episode->sums.program_steps;
	finding->control_ns = excess->control_ns * episode->sums.program_steps;
	if (excess->control_ns > too * excess->own_ns) {
		finding->known = KNOWN_NOT_IT;
		snprintf(finding->text, sizeof(finding->text), "same as control");
		return;
	}
	finding->known = KNOWN_SHARE;
	finding->outweighs = true; /* on the CPU, it is part of that time */
	finding->share = excess->blocked_share >= HALF_SHARE
				 ? share_of_waits(episode, excess, share)
				 : share;
	snprintf(finding->text, sizeof(finding->text), "%s", excess->where.text);
}
