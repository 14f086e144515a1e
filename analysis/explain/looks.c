/* SPDX-License-Identifier: Apache-2.0 */
/* What deep looks from the onset on say of ranks on devices: longer kernels, more of them, copies, a device that idles. */
#include "analysis/explain/looks.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/explain/measures.h"
#include "analysis/policy.h"

void looks_destroy(struct judge_looks *looks)
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
static struct kept_look *find_place(const struct judge_looks *looks, uint32_t rank)
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

int looks_keep(struct judge_looks *looks, const struct kept_look *look)
{
	struct kept_look *place = find_place(looks, look->profile.rank);

	if (!place) {
		place = malloc(sizeof(*place));
		if (!place)
			return -ENOMEM;
		looks->kept[looks->count++] = place;
	}
	*place = *look;
	return 0;
}

const struct kept_look *looks_newest(const struct judge_looks *looks, uint32_t rank,
	int64_t from_ns, int64_t until_ns, bool done)
{
	const struct kept_look *newest = NULL;

	for (size_t i = 0; looks && i < looks->count; i++) {
		const struct kept_look *look = looks->kept[i];

		int64_t middle_ns = look->start_ns + (look->stop_ns - look->start_ns) / 2;

		if (look->profile.rank == rank && middle_ns >= from_ns && middle_ns <= until_ns &&
			(is_done(look) || !done) && (!newest || look->stop_ns > newest->stop_ns))
			newest = look;
	}
	return newest;
}

/* The look at a healthy rank of the same role that is nearest in time. */
static const struct kept_look *control_look(const struct explain_context *context,
	const struct episode *episode, const struct kept_look *own)
{
	const struct kept_look *nearest = NULL;

	for (size_t i = 0; i < context->looks->count; i++) {
		const struct kept_look *look = context->looks->kept[i];

		if (!is_done(look) || llabs(look->start_ns - own->start_ns) > LOOK_PAIR_NS ||
			!explain_is_control(
				context, episode, own->profile.rank, look->profile.rank))
			continue;
		if (!nearest || llabs(look->start_ns - own->start_ns) <
					llabs(nearest->start_ns - own->start_ns))
			nearest = look;
	}
	return nearest;
}

/* Looks leave each of its calls into the device's library dearer than before: a slow host is left alone. */
bool looks_can_tell(bool on_device, enum verdict_class verdict_class, enum cause cause)
{
	return on_device && cause == CAUSE_UNKNOWN &&
	       (verdict_class == VERDICT_COMPUTE_SLOW || verdict_class == VERDICT_UNKNOWN);
}

static void put_missing(const char *why, enum known known, struct finding *finding)
{
	finding->known = known;
	snprintf(finding->text, sizeof(finding->text), "%.130s", why);
}

/* The look at the first of the ranks that has one. NULL: none; finding says why. */
static const struct kept_look *own_look(const struct explain_context *context,
	const struct episode *episode, struct finding *finding)
{
	const struct kept_look *own = NULL, *failed = NULL;
	uint32_t source = cause_rule(CAUSE_LONGER_KERNELS)->sources;
	const char *why = explain_missing(context, source);
	char text[LOOK_TEXT_LENGTH];

	for (uint32_t i = 0; i < episode->rank_count && !own; i++) {
		own = looks_newest(context->looks, episode->ranks[i], episode->onset_ns,
			episode->loud_until_ns, true);
		if (!failed)
			failed = looks_newest(context->looks, episode->ranks[i], episode->onset_ns,
				episode->loud_until_ns, false);
	}
	if (own)
		return own;
	if (failed)
		put_missing(look_result_tell((enum look_result)failed->profile.result,
				    failed->profile.launches_a_second, text),
			KNOWN_MISSING, finding);
	else if (episode->sums.evidence_mask & source)
		put_missing("not looked at yet", KNOWN_NOT_IT, finding);
	else
		put_missing(
			why[0] ? why : "kernels are not seen on this rank", KNOWN_MISSING, finding);
	return NULL;
}

/*
 * How the looks differ; steps: how many of the own look's the episode took. False: there are not two, or nothing that they
 * say; finding says why.
 */
static bool compare(const struct explain_context *context, const struct episode *episode,
	const char **other_name, struct kernel_difference *difference, double *steps,
	struct finding *finding)
{
	const struct kept_look *own = own_look(context, episode, finding), *other;

	if (!own)
		return false;
	other = control_look(context, episode, own);
	*other_name = "control";
	if (!other) { /* then the rank itself, before */
		other = looks_newest(
			context->looks, own->profile.rank, INT64_MIN, episode->onset_ns, true);
		*other_name = "before";
	}
	if (!other) {
		put_missing("no healthy rank could be looked at", KNOWN_MISSING, finding);
		return false;
	}
	kernel_profile_compare(&own->profile, &other->profile, *other_name, difference);
	*steps = (double)episode->sums.time_ns * own->profile.steps /
		 fmax((double)(own->profile.stop.value - own->profile.start.value), 1);
	if (difference->cause == CAUSE_UNKNOWN && difference->detail[0]) {
		put_missing(difference->detail, KNOWN_MISSING, finding);
		return false;
	}
	return true;
}

/* At most one of the looks' causes is it; why none is, longer-kernels says. */
void measure_look(const struct explain_context *context, struct episode *episode, enum cause cause,
	struct finding *finding)
{
	const struct excess_sums *sums = &episode->sums;
	struct kernel_difference difference;
	struct finding why = {0};
	double steps;
	const char *other_name = "";

	if (!looks_can_tell(sums->on_device, episode->class_so_far, episode->cause_so_far))
		return;
	if (!compare(context, episode, &other_name, &difference, &steps, &why)) {
		if (cause == CAUSE_LONGER_KERNELS)
			*finding = why;
		return;
	}
	double delay_ms = fmax((double)sums->delay_ns / 1e6 / fmax(steps, 1), 1e-6);
	double share = (difference.own_ms - difference.control_ms) / delay_ms;
	/* Against what the host's and the device's times say of the class, more is needed. */
	bool enough = difference.cause != CAUSE_UNKNOWN &&
		      share >= (difference.cause == CAUSE_LAUNCH_GAPS ? LOOK_OTHER_CLASS_MIN
								      : LOOK_SHARE_MIN);

	if (enough && difference.cause == cause) {
		finding->known = KNOWN_SHARE;
		finding->own_ns = difference.own_ms * 1e6 * sums->program_steps;
		finding->control_ns = difference.control_ms * 1e6 * sums->program_steps;
		finding->share = fmin(share, 1);
		snprintf(finding->text, sizeof(finding->text), "%s", difference.detail);
	} else if (!enough && cause == CAUSE_LONGER_KERNELS) {
		finding->known = KNOWN_NOT_IT;
		snprintf(finding->text, sizeof(finding->text),
			"%.2f ms a step, %s %.2f: %.0f %% of the excess", difference.own_ms,
			other_name, difference.control_ms, 100 * fmax(share, 0));
	}
}

/* Its device idles: a look says so, or, of a host that is late, how long it launched nothing. */
void measure_launch_gaps(const struct explain_context *context, struct episode *episode,
	enum cause cause, struct finding *finding)
{
	if (episode->class_so_far == VERDICT_HOST_SLOW)
		explain_launch_windows(context, episode, finding);
	else
		measure_look(context, episode, cause, finding);
}
