/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on a job that does not go on. Times come in with the frames. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/judge/internal.h"
#include "analysis/policy.h"

int64_t judge_hang_limit_ns(const struct judge *judge, bool alive)
{
	int64_t usual_ns = (int64_t)judge_usual_step_ns(judge);

	if (!alive)
		return HANG_LIMIT_NS;
	if (judge->lengths.job.steps < HANG_KNOWN_STEPS)
		return HANG_FIRST_LIMIT_NS;
	return usual_ns * HANG_USUAL_STEPS > HANG_LIMIT_NS ? usual_ns * HANG_USUAL_STEPS
							   : HANG_LIMIT_NS;
}

static bool same_ranks(const struct verdict *verdict, const struct hang_finding *finding)
{
	size_t listed = finding->missing_count < VERDICT_RANKS_MAX ? finding->missing_count
								   : VERDICT_RANKS_MAX;

	return verdict->rank_count + verdict->more_ranks == finding->missing_count &&
	       memcmp(verdict->ranks, finding->missing, listed * sizeof(*verdict->ranks)) == 0;
}

/* For how long, which is all that is new when nobody is missing any more: who came last is still to blame. */
static void fill_length(const struct judge *judge, const struct hang_finding *finding,
	struct job_ns now, struct verdict *verdict)
{
	double stuck_ns = (double)(now.value - finding->since.value);

	/* Nothing else can be meant than what is seen: only whether it goes on yet is open. */
	verdict->sure.confidence = fmin(1 - exp(-stuck_ns / (double)HANG_LIMIT_NS), CONFIDENCE_MAX);
	verdict->slowdown =
		1 + stuck_ns / fmax(judge->lengths.job.steps
					       ? judge->lengths.time_sum_ns /
							 (double)judge->lengths.job.steps
					       : stuck_ns,
				       1);
	verdict->sure.clock_error_us = judge->lengths.job.clock_error_us;
	verdict->end = now;
	for (uint32_t i = 0; i < verdict->evidence_count; i++)
		verdict->evidence[i].overlap_ms_per_step = stuck_ns / 1e6;
}

static void fill(const struct judge *judge, const struct hang_finding *finding, struct job_ns now,
	struct verdict *verdict)
{
	verdict->verdict_class = VERDICT_HANG;
	verdict->hang = finding->call;
	verdict->rank_count = 0;
	verdict->victim_count = (uint32_t)finding->waiting_count;
	for (size_t i = 0; i < finding->missing_count && i < VERDICT_RANKS_MAX; i++)
		verdict->ranks[verdict->rank_count++] = finding->missing[i];
	verdict->more_ranks = (uint32_t)finding->missing_count - verdict->rank_count;
	for (size_t i = 0; i < finding->waiting_count && i < VERDICT_VICTIMS_MAX; i++)
		verdict->victims[i] = finding->waiting[i];
	verdict->evidence_count = (uint32_t)finding->detail_count;
	for (size_t i = 0; i < finding->detail_count; i++) {
		verdict->evidence[i] = (struct verdict_evidence){.kind = CAUSE_UNKNOWN};
		memcpy(verdict->evidence[i].detail, finding->details[i],
			sizeof(finding->details[i]));
	}
	fill_length(judge, finding, now, verdict);
}

static void say(const struct judge *judge, enum verdict_event event, const struct verdict *verdict)
{
	if (judge->options.on_verdict)
		judge->options.on_verdict(judge->options.context, event, verdict);
}

bool judge_hang_holds(const struct judge *judge, int64_t start_ns, int64_t end_ns)
{
	return start_ns < judge->incidents.hang.told.value &&
	       end_ns > judge->incidents.hang.since.value;
}

int judge_hang(struct judge *judge, const struct hang_finding *finding, struct job_ns now)
{
	struct verdict *verdict;
	int error;

	if (!finding) {
		if (!judge->incidents.hang.verdict)
			return 0;
		verdict = &judge->incidents.verdicts[judge->incidents.hang.verdict - 1];
		judge->incidents.hang.verdict = 0;
		verdict->ended = 1;
		verdict->end = now;
		say(judge, VERDICT_EVENT_RECOVERED, verdict);
		return 0;
	}
	if (judge->incidents.hang.verdict) {
		verdict = &judge->incidents.verdicts[judge->incidents.hang.verdict - 1];
		bool changed = !same_ranks(verdict, finding);

		if (verdict->rank_count && !finding->missing_count) {
			fill_length(judge, finding, now, verdict);
			return 0;
		}
		fill(judge, finding, now, verdict);
		if (changed)
			say(judge, VERDICT_EVENT_UPDATE, verdict);
		return 0;
	}
	error = judge_add_verdict(judge, &verdict);
	if (error < 0)
		return error == -ENOSPC ? 0 : error;
	judge->incidents.hang.verdict = judge->incidents.verdict_count;
	verdict->alert = now;
	verdict->onset = judge->incidents.hang.since = finding->since;
	judge->incidents.hang.told = now;
	verdict->first_step = verdict->last_step =
		step_of_program(&judge->times, judge->times.next);
	fill(judge, finding, now, verdict);
	say(judge, VERDICT_EVENT_ALERT, verdict);
	return 0;
}
