/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds up transfers that other threads of its process move: those that post and poll for a device's collectives
 * over sockets and NICs. What keeps the process from running keeps them, too: then all members' transfers are long, and
 * nobody comes late. They poll while there is something to move, so what a process runs less than it usually does, and
 * the others of the collective do not, is time that it was kept from running.
 */
#include <math.h>
#include <string.h>

#include "analysis/base/robust_stats.h"
#include "analysis/judge/internal.h"

/*
 * Hosts sample at times of their own. The span ends when all have, and has at least one interval of each. What a rank was
 * kept from running in it is held against what the others ran less in it, or at its end: a fault that began in it shows with
 * these at least as clearly.
 */
struct kept {
	double in_span, at_end; /* shares of the time */
	double left_ns;		/* of the step, so much of it: transfers may overlap */
};

/* The latest sample of a rank before a time, or that time where there was none of late. */
static int64_t sampled_before(const struct rank_state *state, int64_t time_ns)
{
	int64_t past_ns = time_ns - EVIDENCE_BEFORE_NS;
	int64_t known_ns =
		evidence_known_ns(state->evidence, METRIC_PROCESS_CPU_NS, past_ns, time_ns - 1);

	return known_ns > 0 ? past_ns + known_ns : time_ns;
}

static struct evidence_span sampled_span(const struct judge *judge, const struct step_grid *grid)
{
	int64_t end_ns = grid->step.end_ns, start_ns;

	for (size_t r = 0; r < grid->row_count; r++) {
		int64_t last_ns =
			sampled_before(&judge->ranks[grid->rows[r].rank], grid->step.end_ns);

		end_ns = last_ns < end_ns ? last_ns : end_ns;
	}
	start_ns = end_ns - EVIDENCE_RATE_NS;
	for (size_t r = 0; r < grid->row_count; r++) {
		int64_t last_ns = sampled_before(&judge->ranks[grid->rows[r].rank], end_ns);

		start_ns = last_ns < start_ns ? last_ns : start_ns;
	}
	return (struct evidence_span){start_ns, end_ns};
}

/* How much the threads ran that may move its data. */
static bool moving_rate(
	const struct rank_state *state, int64_t from_ns, int64_t until_ns, double *rate)
{
	double launching = 0;

	if (!evidence_rate(state->evidence, METRIC_PROCESS_CPU_NS, from_ns, until_ns, rate) ||
		(state->usual.moving_apart &&
			!evidence_rate(state->evidence, METRIC_LAUNCHERS_CPU_NS, from_ns, until_ns,
				&launching)))
		return false;
	*rate -= launching;
	return *rate >= 0; /* counts of a process that was started again begin anew */
}

/* The same around a time. */
static bool moving_rate_at(
	const struct rank_state *state, int64_t time_ns, int64_t until_ns, double *rate)
{
	double launching = 0;

	if (!evidence_rate_at(state->evidence, METRIC_PROCESS_CPU_NS, time_ns, until_ns, rate) ||
		(state->usual.moving_apart &&
			!evidence_rate_at(state->evidence, METRIC_LAUNCHERS_CPU_NS, time_ns,
				until_ns, &launching)))
		return false;
	*rate -= launching;
	return *rate >= 0; /* counts of a process that was started again begin anew */
}

static double kept_share(double rate, double usual)
{
	return fmin(fmax(1 - rate / usual, 0), 1);
}

/*
 * All threads that run, or all but those that launch: who waits for the device polls in some programs. The steadier one tells.
 * Few samples, after a fault, do not replace what more of them told before it.
 */
static void learn_rank(struct rank_state *state, const struct evidence_span calm[CALM_SPANS])
{
	struct rank_usual *usual = &state->usual;
	double running, spread, rest, rest_spread;
	size_t rates = evidence_usual_ratio(state->evidence, METRIC_PROCESS_CPU_NS, METRIC_UNKNOWN,
		calm, CALM_SPANS, &running, &spread);

	if (!rates || (rates < usual->rates && rates < ENOUGH))
		return;
	usual->rates = (uint8_t)rates;
	usual->running = running;
	usual->moving_apart =
		evidence_usual_rest(state->evidence, METRIC_PROCESS_CPU_NS, METRIC_LAUNCHERS_CPU_NS,
			calm, CALM_SPANS, &rest, &rest_spread) &&
		rest_spread * running < spread * rest;
	usual->moving = usual->moving_apart ? rest : running;
	usual->moving_spread = usual->moving_apart ? rest_spread : spread;
}

/* How much processes usually run: who stood still in a fault does not usually stand still. */
static void learn_usual(struct judge *judge)
{
	struct comm_state *comm = judge->comm;
	struct evidence_span calm = comm->calm[0];

	if (calm.end_ns <= calm.start_ns || calm.end_ns - comm->learnt_until_ns < SAMPLE_NS)
		return;
	comm->learnt_until_ns = calm.end_ns;
	for (uint32_t r = 0; r < judge->rank_end; r++)
		learn_rank(&judge->ranks[r], comm->calm);
}

/* What was before a fault is forgotten one day, while it goes on. */
void judge_end_calm(struct judge *judge)
{
	struct evidence_span *calm = judge->comm->calm;

	learn_usual(judge);
	if (calm[0].end_ns > calm[0].start_ns)
		memmove(calm + 1, calm, (CALM_SPANS - 1) * sizeof(*calm));
	calm[0] = (struct evidence_span){judge_now_ns(judge), judge_now_ns(judge)};
}

/* Where that is not known, it holds nothing, and is none that runs as usual. */
static struct kept kept_of(const struct step_grid *grid, const struct evidence_span *span,
	const struct rank_state *state)
{
	double in_span, at_end;

	if (state->usual.moving <= 0 ||
		!moving_rate(state, span->start_ns, span->end_ns, &in_span) ||
		!moving_rate_at(state, span->end_ns, grid->step.end_ns, &at_end))
		return (struct kept){.at_end = 1};
	/* Where it runs now more, now less, running says nothing. */
	if (state->usual.moving - in_span < CHANCE_DEVIATIONS * state->usual.moving_spread)
		in_span = state->usual.moving;
	in_span = kept_share(in_span, state->usual.moving);
	return (struct kept){.in_span = in_span,
		.at_end = fmax(kept_share(at_end, state->usual.moving), in_span),
		.left_ns = in_span * (double)(grid->step.end_ns - grid->step.start_ns)};
}

/* By what: its cgroup, or others on its CPUs, as far as these are counted; what is left, it did not run. */
static void split_hold(const struct judge *judge, const struct rank_state *state,
	const struct evidence_span *span, double share, int64_t hold_ns, int64_t own[EXCESS_NR])
{
	int64_t from_ns = span->start_ns, until_ns = span->end_ns;
	double throttled = 0, queued = 0;
	struct evidence_preempted by;

	evidence_preempted(state->evidence, from_ns, until_ns, state->pid, judge->pids.list,
		judge->pids.count, &by);
	(void)evidence_rate(
		state->evidence, METRIC_CGROUP_THROTTLED_NS, from_ns, until_ns, &throttled);
	(void)evidence_rate(
		state->evidence, METRIC_LAUNCHERS_QUEUED_NS, from_ns, until_ns, &queued);
	throttled = fmin(fmax(throttled, 0), share);
	queued = fmin(
		fmax(queued, (double)by.all_ns / (double)(until_ns - from_ns)), share - throttled);

	double each_ns = (double)hold_ns / share;

	own[EXCESS_THROTTLED] += (int64_t)(throttled * each_ns);
	own[EXCESS_PREEMPTED] += (int64_t)(queued * each_ns);
	own[EXCESS_ASLEEP] += (int64_t)((share - throttled - queued) * each_ns);
}

/* What its members hold of a transfer that takes excess_ns longer than expected. Returns the most of them. */
static int64_t hold_one(struct judge *judge, const struct step_grid *grid,
	const struct blame_transfer *transfer, int64_t excess_ns, struct kept *kept,
	const struct evidence_span *span)
{
	const struct grid_instance *instance = &grid->instances[transfer->instance];
	const struct grid_member *members = &grid->member_parts[instance->first_member];
	int64_t most_ns = 0;
	double usual;

	for (uint32_t m = 0; m < instance->member_count; m++)
		judge->scratch[m] = kept[members[m].row].at_end;
	usual = lower_median_double(judge->scratch, instance->member_count);
	/* Where the others run less, too, nobody polls, and running says nothing. */
	if (usual > NEXT_TO_NOTHING)
		return 0;
	for (uint32_t m = 0; m < instance->member_count; m++) {
		uint32_t r = members[m].row;
		double share = kept[r].in_span - usual;
		int64_t hold_ns = (int64_t)fmin(
			fmin(share * (double)transfer->transfer_ns, (double)excess_ns),
			kept[r].left_ns);

		if (share < KEPT_SHARE_MIN || hold_ns <= 0)
			continue;
		kept[r].left_ns -= (double)hold_ns;
		blame_hold(&judge->blame, grid, transfer->instance, m, hold_ns);
		split_hold(judge, &judge->ranks[grid->rows[r].rank], span, share, hold_ns,
			judge->blame.rows[r].own);
		most_ns = hold_ns > most_ns ? hold_ns : most_ns;
	}
	/* So much is known of them, also where their own work has a hole. */
	for (uint32_t m = 0; m < instance->member_count && most_ns > 0; m++)
		judge->blame.rows[members[m].row].judged =
			judge->blame.rows[members[m].row].on_device = true;
	return most_ns;
}

int judge_hold_transfers(struct judge *judge, const struct step_grid *grid)
{
	int64_t least_ns =
		(int64_t)(REPLAY_SHARE_MIN * (double)(grid->step.end_ns - grid->step.start_ns));
	struct evidence_span span;
	struct kept *kept = NULL;

	judge->traits.on_device |= grid->traits.device_time;
	for (size_t i = 0; i < judge->blame.transfer_count && grid->traits.device_time; i++) {
		struct blame_transfer *transfer = &judge->blame.transfers[i];
		int64_t excess_ns = judge_transfer_excess_ns(judge->comm, transfer);

		if (excess_ns <= least_ns ||
			grid->instances[transfer->instance].member_count > judge->scratch_capacity)
			continue;
		if (!kept) {
			kept = arena_take(&judge->arena, grid->row_count, sizeof(*kept));
			if (arena_error(&judge->arena) < 0)
				return arena_error(&judge->arena);
			learn_usual(judge);
			span = sampled_span(judge, grid);
			for (size_t r = 0; r < grid->row_count; r++)
				kept[r] = kept_of(grid, &span, &judge->ranks[grid->rows[r].rank]);
		}
		transfer->transfer_ns -= hold_one(judge, grid, transfer, excess_ns, kept, &span);
	}
	return 0;
}

/* How much a process ran since a time, by the samples around it, and from when until when these know it. */
static bool rate_since(const struct judge *judge, uint32_t rank, int64_t from_ns,
	struct evidence_span *known, double *rate)
{
	const struct rank_state *state = &judge->ranks[rank];

	*known = (struct evidence_span){
		sampled_before(state, from_ns), sampled_before(state, judge_now_ns(judge))};
	return moving_rate(state, known->start_ns, known->end_ns, rate);
}

/* The most of any process: what is usual for one on whose device that is not known yet. */
static double most_since(const struct judge *judge, int64_t from_ns)
{
	struct evidence_span known;
	double most = 0, rate;

	for (uint32_t r = 0; r < judge->rank_end && judge->traits.on_device; r++) {
		if (rate_since(judge, r, from_ns, &known, &rate))
			most = fmax(most, rate);
	}
	return most;
}

/*
 * For how long a process was kept from running since a time, its error, and until when samples know it. A process is
 * sampled once a second: of what began lately, the samples hold only a part.
 */
static bool kept_since(const struct judge *judge, uint32_t rank, int64_t from_ns, double most,
	double *kept_ns, double *error_ns, int64_t *known_ns)
{
	const struct rank_usual *usual = &judge->ranks[rank].usual;
	double moving = usual->moving > 0 ? usual->moving : most, rate, span_ns;
	struct evidence_span known;
	bool sampled = rate_since(judge, rank, from_ns, &known, &rate);

	*known_ns = known.end_ns;
	if (moving <= 0 || !sampled)
		return false;
	span_ns = (double)(known.end_ns - known.start_ns) / moving;
	*kept_ns = fmax(moving - rate, 0) * span_ns;
	*error_ns = usual->moving > 0 ? CHANCE_DEVIATIONS * usual->moving_spread * span_ns : 0;
	return true;
}

/* What transfers lost after a time. */
static double lost_after(const struct judge *judge, int64_t time_ns)
{
	const struct step_times *times = &judge->times;
	double lost_ns = 0;

	for (uint64_t i = 1; i <= steps_kept_since(times, 0); i++) {
		uint64_t step = times->next - i;
		double length_ns = step_length_ns(times, step);
		double after_ns = (double)(step_start_ns(times, step) - time_ns) + length_ns;

		if (after_ns <= 0 || length_ns <= 0)
			break;
		lost_ns += fmax(signal_step_ns(&judge->comm->signal, times, step), 0) *
			   fmin(after_ns / length_ns, 1);
	}
	return lost_ns;
}

bool judge_holds_excluded(const struct judge *judge, int64_t from_ns, double share)
{
	int64_t now_ns = judge_now_ns(judge), known_ns = now_ns, its_known_ns;
	double least = INFINITY, most = 0, kept, error, lost_ns;
	double unknown = most_since(judge, from_ns);
	uint32_t rank_count = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		if (!kept_since(judge, r, from_ns, unknown, &kept, &error, &its_known_ns))
			continue;
		rank_count++;
		least = fmin(least, kept);
		most = fmax(most, kept + error);
		known_ns = its_known_ns < known_ns ? its_known_ns : known_ns;
	}
	if (!rank_count)
		return true;
	/* What all run less, nobody is kept from; one alone does not say what all do. */
	most -= rank_count > 1 ? least : 0;
	/* What was lost since the samples, any of them may have held; and of the rest, one that holds half holds sockets busy. */
	lost_ns = share * (double)(now_ns - from_ns) - lost_after(judge, known_ns);
	return known_ns > from_ns && most < HALF_SHARE * lost_ns;
}

bool judge_taken_by_others(const struct judge *judge, uint32_t rank, int64_t from_ns)
{
	const struct rank_state *state = &judge->ranks[rank];
	int64_t now_ns = judge_now_ns(judge);
	double lacks = 0, more = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *one = &judge->ranks[r];
		double rate;

		if (one->host != state->host)
			continue;
		if (one->usual.running <= 0 || !evidence_rate(one->evidence, METRIC_PROCESS_CPU_NS,
						       from_ns, now_ns, &rate))
			return false;
		if (r == rank)
			lacks = one->usual.running - rate;
		else
			more += fmax(rate - one->usual.running, 0);
	}
	return lacks >= KEPT_SHARE_MIN * state->usual.running && more <= HALF_SHARE * lacks;
}
