/* SPDX-License-Identifier: Apache-2.0 */
/* Deep looks: whom to look at, and what they say of a verdict. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/judge_internal.h"

enum { LOOKS_KEPT_MAX = 1024 };
/* Looks of a suspect and its control are made at the same time; one may start late. */
#define PAIR_NS INT64_C(20000000000)
/* A difference names the cause when it explains this much of the delay. */
#define EXPLAINED_MIN 0.3
#define OTHER_CLASS_EXPLAINED_MIN 0.5 /* it turns compute-slow into host-slow, or back */

struct kept_look {
	int64_t start_ns, stop_ns;
	struct kernel_profile profile;
};

struct judge_looks {
	size_t count;
	struct kept_look *kept[LOOKS_KEPT_MAX]; /* at most two of a rank */
};

void judge_looks_destroy(struct judge_looks *looks)
{
	for (size_t i = 0; looks && i < looks->count; i++)
		free(looks->kept[i]);
	free(looks);
}

static bool is_done(const struct kept_look *look)
{
	return look->profile.result == LOOK_DONE;
}

/* Where a rank's new look goes: over its newest when it has two, over one that failed. */
static struct kept_look *find_place(struct judge_looks *looks, uint32_t rank)
{
	struct kept_look *newest = NULL, *oldest = NULL;
	size_t own_count = 0;

	for (size_t i = 0; i < looks->count; i++) {
		struct kept_look *look = looks->kept[i];

		if (!oldest || look->stop_ns < oldest->stop_ns)
			oldest = look;
		if (look->profile.rank != rank)
			continue;
		own_count++;
		if (!newest || !is_done(look) ||
			(is_done(newest) && look->stop_ns > newest->stop_ns))
			newest = look;
	}
	if (newest && (own_count > 1 || !is_done(newest)))
		return newest;
	return looks->count == LOOKS_KEPT_MAX ? oldest : NULL;
}

/*
 * A look comes when its verdict is quiet already, or has ended: what is slow for a few seconds only
 * deserves its cause as well. What is kept of a verdict until another one takes its track will do.
 */
static void tell_late(struct judge *judge)
{
	for (size_t t = 0; t < judge->track_count; t++) {
		struct track *track = &judge->tracks[t];
		struct verdict *verdict = &judge->verdicts[track->verdict];

		if (track->comm || track->imbalance || verdict->cause != CAUSE_UNKNOWN)
			continue;
		judge_deep_cause(
			judge, &track->sums, track->onset_ns, track->loud_until_ns, verdict);
		if (verdict->cause != CAUSE_UNKNOWN && !track->active && judge->options.on_verdict)
			judge->options.on_verdict(
				judge->options.context, VERDICT_EVENT_UPDATE, verdict);
	}
}

int judge_kernel_profile(struct judge *judge, const struct kernel_profile *profile,
	struct job_ns start, struct job_ns stop)
{
	struct kept_look *place;

	if (!judge->looks)
		judge->looks = calloc(1, sizeof(*judge->looks));
	if (!judge->looks)
		return -ENOMEM;
	place = find_place(judge->looks, profile->rank);
	if (!place) {
		place = malloc(sizeof(*place));
		if (!place)
			return -ENOMEM;
		judge->looks->kept[judge->looks->count++] = place;
	}
	*place = (struct kept_look){start.value, stop.value, *profile};
	tell_late(judge);
	return 0;
}

/* A rank's newest look whose middle lies within from..until; done: only such. */
static const struct kept_look *newest_look(
	const struct judge *judge, uint32_t rank, int64_t from_ns, int64_t until_ns, bool done)
{
	const struct kept_look *newest = NULL;

	for (size_t i = 0; judge->looks && i < judge->looks->count; i++) {
		const struct kept_look *look = judge->looks->kept[i];

		int64_t middle_ns = look->start_ns + (look->stop_ns - look->start_ns) / 2;

		if (look->profile.rank == rank && middle_ns >= from_ns && middle_ns <= until_ns &&
			(is_done(look) || !done) && (!newest || look->stop_ns > newest->stop_ns))
			newest = look;
	}
	return newest;
}

const struct kernel_profile *judge_look(const struct judge *judge, size_t index)
{
	return judge->looks && index < judge->looks->count ? &judge->looks->kept[index]->profile
							   : NULL;
}

/* The look at a healthy rank of the same role that is nearest in time. */
static const struct kept_look *control_look(
	const struct judge *judge, const struct verdict *verdict, const struct kept_look *own)
{
	const struct kept_look *nearest = NULL;

	for (size_t i = 0; i < judge->looks->count; i++) {
		const struct kept_look *look = judge->looks->kept[i];
		uint32_t rank = look->profile.rank;

		if (!is_done(look) || rank >= judge->rank_end || verdict_names(verdict, rank) ||
			judge->ranks[rank].track ||
			llabs(look->start_ns - own->start_ns) > PAIR_NS ||
			judge->ranks[rank].totals.role !=
				judge->ranks[own->profile.rank].totals.role)
			continue;
		if (!nearest || llabs(look->start_ns - own->start_ns) <
					llabs(nearest->start_ns - own->start_ns))
			nearest = look;
	}
	return nearest;
}

static bool is_of_looks(unsigned cause)
{
	return cause == CAUSE_LONGER_KERNELS || cause == CAUSE_MORE_KERNELS ||
	       cause == CAUSE_MORE_COPIES || cause == CAUSE_LAUNCH_GAPS;
}

/* Takes back what an earlier look made of the verdict. */
static void forget(struct verdict *verdict)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < verdict->evidence_count; i++) {
		if (!is_of_looks(verdict->evidence[i].kind))
			verdict->evidence[kept++] = verdict->evidence[i];
	}
	verdict->evidence_count = kept;
	kept = 0;
	for (uint32_t i = 0; i < verdict->rejected_count; i++) {
		if (!is_of_looks(verdict->rejected[i].kind))
			verdict->rejected[kept++] = verdict->rejected[i];
	}
	verdict->rejected_count = kept;
	if (is_of_looks(verdict->cause)) {
		verdict->cause = CAUSE_UNKNOWN;
		verdict->share_explained = 0;
	}
}

/* Why looks do not say the cause; in the first place, for it is what matters on a device. */
static void reject(struct verdict *verdict, const char *why, const char *detail)
{
	if (verdict->rejected_count < VERDICT_EVIDENCE_MAX)
		verdict->rejected_count++;
	for (uint32_t i = verdict->rejected_count - 1; i > 0; i--)
		verdict->rejected[i] = verdict->rejected[i - 1];
	verdict->rejected[0] = (struct verdict_rejection){.kind = CAUSE_LONGER_KERNELS};
	snprintf(verdict->rejected[0].why, sizeof(verdict->rejected[0].why), "%s%.130s", why,
		detail);
}

static void name_cause(
	struct verdict *verdict, const struct kernel_difference *difference, double share)
{
	if (verdict->evidence_count < VERDICT_EVIDENCE_MAX)
		verdict->evidence_count++;
	for (uint32_t i = verdict->evidence_count - 1; i > 0; i--)
		verdict->evidence[i] = verdict->evidence[i - 1];
	verdict->evidence[0] = (struct verdict_evidence){.kind = (uint8_t)difference->cause,
		.overlap_ms_per_step = difference->own_ms,
		.control_ms_per_step = difference->control_ms};
	snprintf(verdict->evidence[0].detail, sizeof(verdict->evidence[0].detail), "%s",
		difference->detail);
	verdict->cause = (uint8_t)difference->cause;
	verdict->share_explained = fmin(share, 1);
	verdict->verdict_class =
		difference->cause == CAUSE_LAUNCH_GAPS ? VERDICT_HOST_SLOW : VERDICT_COMPUTE_SLOW;
}

static void weigh(struct verdict *verdict, const struct excess_sums *sums,
	const struct kernel_difference *difference, const char *other_name)
{
	double steps = (double)(sums->steps ? sums->steps : 1);
	double delay_ms = fmax((double)sums->delay_ns / 1e6 / steps, 1e-6);
	double share = (difference->own_ms - difference->control_ms) / delay_ms;
	/* Against what the host's and the device's times say of the class, more is needed. */
	bool agrees = (difference->cause == CAUSE_LAUNCH_GAPS) ==
		      (verdict->verdict_class == VERDICT_HOST_SLOW);
	char text[VERDICT_DETAIL_LENGTH];

	if (difference->cause != CAUSE_UNKNOWN &&
		share >= (agrees ? EXPLAINED_MIN : OTHER_CLASS_EXPLAINED_MIN)) {
		name_cause(verdict, difference, share);
	} else if (difference->cause == CAUSE_UNKNOWN && difference->detail[0]) {
		reject(verdict, "not measurable: ", difference->detail);
	} else {
		snprintf(text, sizeof(text), "%.2f ms a step, %s %.2f: %.0f %% of the excess",
			difference->own_ms, other_name, difference->control_ms,
			100 * fmax(share, 0));
		reject(verdict, "", text);
	}
}

static const char *missing_text(const struct judge *judge)
{
	for (unsigned i = 0; i < EVIDENCE_SOURCE_NR; i++) {
		if (EVIDENCE_KERNELS == 1u << i && judge->missing[i][0])
			return judge->missing[i];
	}
	return "kernels are not seen on this rank";
}

/*
 * The device can tell more than is known of why these ranks are slow. A slow host is left alone: looks
 * leave each of its calls into the device's library dearer than before.
 */
static bool looks_can_tell(const struct excess_sums *sums, const struct verdict *verdict)
{
	return sums->on_device && verdict->cause == CAUSE_UNKNOWN && verdict->rank_count > 0 &&
	       (verdict->verdict_class == VERDICT_COMPUTE_SLOW ||
		       verdict->verdict_class == VERDICT_UNKNOWN);
}

void judge_deep_cause(struct judge *judge, const struct excess_sums *sums, int64_t onset_ns,
	int64_t until_ns, struct verdict *verdict)
{
	const struct kept_look *own = NULL, *other, *failed = NULL;
	struct kernel_difference difference;
	const char *other_name = "control";
	char text[LOOK_TEXT_LENGTH];

	forget(verdict);
	if (!looks_can_tell(sums, verdict))
		return;
	for (uint32_t i = 0; i < verdict->rank_count && !own; i++) {
		own = newest_look(judge, verdict->ranks[i], onset_ns, until_ns, true);
		if (!failed)
			failed = newest_look(judge, verdict->ranks[i], onset_ns, until_ns, false);
	}
	if (!own && failed) {
		reject(verdict, "not measurable: ",
			look_result_tell((enum look_result)failed->profile.result,
				failed->profile.launches_a_second, text));
		return;
	}
	if (!own) {
		if (sums->evidence_mask & EVIDENCE_KERNELS)
			reject(verdict, "not looked at yet", "");
		else
			reject(verdict, "not measurable: ", missing_text(judge));
		return;
	}
	other = control_look(judge, verdict, own);
	if (!other) { /* then the rank itself, before */
		other = newest_look(judge, own->profile.rank, INT64_MIN, onset_ns, true);
		other_name = "before";
	}
	if (!other) {
		reject(verdict, "not measurable: no healthy rank could be looked at", "");
		return;
	}
	kernel_profile_compare(&own->profile, &other->profile, other_name, &difference);
	weigh(verdict, sums, &difference, other_name);
}

static bool is_suspect(const struct judge *judge, uint32_t rank)
{
	const struct rank_state *state = &judge->ranks[rank];
	const struct verdict *verdict;

	if (!(state->evidence_mask & EVIDENCE_KERNELS) || !state->in_block)
		return false;
	if (!state->track)
		return state->runs[RUN_QUICK].change.sum >= CHANGE_THRESHOLD / 2 &&
		       state->runs[RUN_QUICK].sums.on_device &&
		       judge_worth_telling(judge, rank, &state->runs[RUN_QUICK]);
	verdict = &judge->verdicts[judge->tracks[state->track - 1].verdict];
	return looks_can_tell(&judge->tracks[state->track - 1].sums, verdict);
}

/* The suspect is in a verdict, and was not looked at since its onset. */
static bool is_first(const struct judge *judge, uint32_t suspect)
{
	uint32_t track = judge->ranks[suspect].track;

	return track &&
	       !newest_look(judge, suspect, judge->tracks[track - 1].onset_ns, INT64_MAX, true);
}

/* The quietest rank of the same role that is in no verdict. */
static bool find_control(const struct judge *judge, uint32_t suspect,
	bool (*may_look)(void *context, uint32_t rank, bool first), void *context,
	uint32_t *control)
{
	bool found = false;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (r == suspect || state->track || !state->in_block ||
			!(state->evidence_mask & EVIDENCE_KERNELS) || judge_suspected_any(state) ||
			state->totals.role != judge->ranks[suspect].totals.role ||
			(found && state->long_run >= judge->ranks[*control].long_run) ||
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
		want.step_ns = judge->step_length_ns[(judge->next_step - 1) % STEP_HISTORY];
		wants[count++] = want;
	}
	return count;
}
