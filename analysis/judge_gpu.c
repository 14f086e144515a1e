/* SPDX-License-Identifier: Apache-2.0 */
/* Why a rank's GPU takes longer: what the driver says of it, beside what it says of the others'. */
#include <math.h>
#include <stdio.h>

#include "analysis/judge_internal.h"
#include "analysis/robust_stats.h"

/* A clock this much below the others' is the cause of being slow by a tenth and more. */
#define CLOCK_RATIO_MAX 0.93
/* Reasons that cost speed: power cap, hardware slowdown, thermal, power brake (nvml.h). */
#define SLOWDOWN_REASONS 0xec
#define POWER_CAP 0x4
/* From a process's start on a GPU to its first kernels, generously. */
#define NEW_PROCESS_NS INT64_C(10000000000)
/*
 * GPUs that wait save power, and run their own part faster than they could all the time (seen: 20 ms
 * instead of 24 for a forward pass, 2 x H200). With its controls' times the step would be shorter than
 * it ever was; what was usual before is believed within so much.
 */
#define WAITING_SPEED_MAX 1.25
enum { USUAL_STEPS_MIN = 32, USUAL_RANKS_MAX = 1024 };

/* The latest value of the first culprit, and the lower median of the others'. */
static bool latest(struct judge *judge, const struct verdict *verdict, unsigned metric,
	int64_t now_ns, int64_t *own, int64_t *usual)
{
	size_t count = 0;

	if (!evidence_value(judge->ranks[verdict->ranks[0]].evidence, metric, now_ns, own))
		return false;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		int64_t value;

		if (!verdict_names(verdict, r) &&
			evidence_value(judge->ranks[r].evidence, metric, now_ns, &value))
			judge->scratch[count++] = (double)value;
	}
	if (count == 0)
		return false;
	*usual = (int64_t)lower_median_double(judge->scratch, count);
	return true;
}

/* As latest(): the culprit's is larger than the others'. */
static bool is_more(struct judge *judge, const struct verdict *verdict, unsigned metric,
	int64_t now_ns, int64_t *own, int64_t *usual)
{
	return latest(judge, verdict, metric, now_ns, own, usual) && *own > *usual;
}

/*
 * Another process began to use the rank's GPU not long before the rank became slow. One that was
 * there before may be idle.
 */
static bool is_newly_shared(
	const struct judge *judge, uint32_t rank, const struct delay_run *run, int64_t now_ns)
{
	const struct rank_state *state = &judge->ranks[rank];
	int64_t before_ns = now_ns - run->sums.time_ns - NEW_PROCESS_NS, before, now;

	return evidence_value(state->evidence, METRIC_GPU_OTHER_PROCESSES, before_ns, &before) &&
	       evidence_value(state->evidence, METRIC_GPU_OTHER_PROCESSES, now_ns, &now) &&
	       now > before;
}

bool judge_gpu_power_bound(const struct judge *judge, uint32_t rank, const struct delay_run *run)
{
	int64_t now_ns = judge->block.start_ns + judge->block.time_ns, reasons;
	size_t bound = 0, known = 0;

	if (is_newly_shared(judge, rank, run, now_ns))
		return false;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		if (!evidence_value(judge->ranks[r].evidence, METRIC_GPU_SLOWDOWN_REASONS, now_ns,
			    &reasons))
			continue;
		known++;
		bound += (reasons & POWER_CAP) != 0;
	}
	return bound * 2 > known;
}

static const char *reason_text(int64_t reasons)
{
	if (reasons & 0x60)
		return "too hot";
	if (reasons & 0x88)
		return "slowed down by the hardware (power brake, or heat)";
	return reasons & POWER_CAP ? "at its power cap" : "no reason given";
}

/* The rank's GPU runs at a lower clock than the others', and says why; others do not say the same. */
static bool clock_is_low(struct judge *judge, const struct verdict *verdict, int64_t now_ns,
	int64_t reasons_wanted, char detail[VERDICT_DETAIL_LENGTH])
{
	int64_t own, usual, reasons = 0, usual_reasons = 0;

	if (!latest(judge, verdict, METRIC_GPU_CLOCK_MHZ, now_ns, &own, &usual) || usual <= 0 ||
		(double)own >= CLOCK_RATIO_MAX * (double)usual)
		return false;
	(void)latest(judge, verdict, METRIC_GPU_SLOWDOWN_REASONS, now_ns, &reasons, &usual_reasons);
	if (!(reasons & ~usual_reasons & reasons_wanted))
		return false;
	snprintf(detail, VERDICT_DETAIL_LENGTH, "%lld MHz, others %lld: %s", (long long)own,
		(long long)usual, reason_text(reasons));
	return true;
}

/*
 * Heat, and what else the hardware slows down for, comes before another process: it would slow
 * that one down as well. The power cap comes after: the other process is what uses up the power.
 */
static enum cause find_cause(struct judge *judge, const struct verdict *verdict, int64_t now_ns,
	int64_t middle_ns, char detail[VERDICT_DETAIL_LENGTH])
{
	int64_t own, usual;

	if (is_more(judge, verdict, METRIC_GPU_ECC_ERRORS, now_ns, &own, &usual)) {
		snprintf(detail, VERDICT_DETAIL_LENGTH,
			"%lld uncorrected memory errors on its GPU, others %lld", (long long)own,
			(long long)usual);
		return CAUSE_GPU_ERROR;
	}
	if (clock_is_low(judge, verdict, now_ns, SLOWDOWN_REASONS & ~POWER_CAP, detail))
		return CAUSE_GPU_CLOCK;
	/* It may be gone by now, and what it did still be told. */
	if (is_more(judge, verdict, METRIC_GPU_OTHER_PROCESSES, now_ns, &own, &usual) ||
		is_more(judge, verdict, METRIC_GPU_OTHER_PROCESSES, middle_ns, &own, &usual)) {
		snprintf(detail, VERDICT_DETAIL_LENGTH,
			"%lld other process%s computes on its GPU, on the others' %lld",
			(long long)own, own == 1 ? "" : "es", (long long)usual);
		return CAUSE_GPU_SHARED;
	}
	return clock_is_low(judge, verdict, now_ns, POWER_CAP, detail) ? CAUSE_GPU_CLOCK
								       : CAUSE_UNKNOWN;
}

void judge_gpu_cause(struct judge *judge, const struct excess_sums *sums, double compute_share,
	int64_t now_ns, struct verdict *verdict)
{
	char detail[VERDICT_DETAIL_LENGTH] = "";
	double steps = (double)(sums->steps ? sums->steps : 1);

	if (verdict->verdict_class != VERDICT_COMPUTE_SLOW || verdict->cause != CAUSE_UNKNOWN ||
		verdict->rank_count == 0 || !sums->on_device)
		return;
	enum cause cause = find_cause(judge, verdict, now_ns, now_ns - sums->time_ns / 2, detail);

	if (cause == CAUSE_UNKNOWN || verdict->evidence_count == VERDICT_EVIDENCE_MAX)
		return;
	for (uint32_t i = verdict->evidence_count++; i > 0; i--)
		verdict->evidence[i] = verdict->evidence[i - 1];
	verdict->evidence[0] = (struct verdict_evidence){
		.kind = (uint8_t)cause,
		.overlap_ms_per_step = (double)sums->own[EXCESS_COMPUTE] / 1e6 / steps,
		.control_ms_per_step = (double)sums->control[EXCESS_COMPUTE] / 1e6 / steps,
	};
	snprintf(verdict->evidence[0].detail, sizeof(verdict->evidence[0].detail), "%s", detail);
	verdict->cause = (uint8_t)cause;
	verdict->share_explained = fmin(compute_share, 1);
}

static bool was_told(const struct judge *judge, uint64_t step)
{
	for (uint32_t r = 0; r < judge->rank_end && r < USUAL_RANKS_MAX; r++) {
		if (signbit(judge->ranks[r].delays[step % STEP_HISTORY]))
			return true;
	}
	return false;
}

double judge_gpu_usual_step_ns(const struct judge *judge, uint64_t before_step)
{
	double lengths[STEP_HISTORY];
	uint64_t first = judge->next_step > STEP_HISTORY ? judge->next_step - STEP_HISTORY : 0;
	size_t count = 0;

	for (uint64_t s = first; s < before_step && count < STEP_HISTORY; s++) {
		if (!was_told(judge, s))
			lengths[count++] = (double)judge->step_length_ns[s % STEP_HISTORY];
	}
	return count >= USUAL_STEPS_MIN ? lower_median_double(lengths, count) : 0;
}

static bool is_alone(const struct judge *judge, const struct track *track)
{
	for (size_t t = 0; t < judge->track_count; t++) {
		if (judge->tracks[t].active && &judge->tracks[t] != track)
			return false;
	}
	return judge->verdicts[track->verdict].rank_count == 1;
}

double judge_gpu_gain_ns(const struct judge *judge, const struct track *track)
{
	double usual_ns = (double)track->steps * track->usual_step_ns;
	double time_ns = (double)track->time_ns, gain_ns = (double)track->gain_ns;
	double grown_ns = time_ns - usual_ns;

	if (!track->sums.on_device || usual_ns <= 0 || grown_ns < 0)
		return gain_ns;
	if (grown_ns <= gain_ns)
		return usual_ns > WAITING_SPEED_MAX * (time_ns - gain_ns) ? gain_ns : grown_ns;
	/* What the replay finds hidden behind other work may not be: its own delay is the limit. */
	return is_alone(judge, track) ? fmax(gain_ns, fmin(grown_ns, (double)track->sums.delay_ns))
				      : gain_ns;
}
