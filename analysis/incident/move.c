/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes on without a quiet block, and is something else by now. Slow transfers that move: only who is named for the
 * latest of them tells; and slow links that something else went before, such as busy CPUs: transfers were long already. A
 * rank that becomes far slower.
 */
#include <math.h>

#include "analysis/base/clamp.h"
#include "analysis/judge/internal.h"

static struct incident *find_incident(struct judge *judge)
{
	struct incident *incident = judge_incident_of(judge, INCIDENT_TRANSFERS);

	return incident && !incident->every ? incident : NULL;
}

static uint32_t count_missing(const struct verdict *of, const struct verdict *from)
{
	uint32_t missing = 0;

	for (uint32_t i = 0; i < of->rank_count; i++)
		missing += !verdict_names(from, of->ranks[i]);
	return missing;
}

/* When it moved: since then the sockets of one that is named now are busy. */
static int64_t date(const struct judge *judge, const struct incident *incident,
	const struct verdict *latest, int64_t latest_ns)
{
	int64_t quiet_ns = judge_before_now(judge, EVIDENCE_BEFORE_NS, MOVE_QUIET_STEPS),
		first_ns = INT64_MAX;

	if (quiet_ns < incident->onset_ns)
		quiet_ns = incident->onset_ns;
	for (uint32_t i = 0; i < latest->rank_count; i++) {
		int64_t began_ns;

		if (!verdict_names(judge_verdict(judge, incident), latest->ranks[i]) &&
			judge_comm_began(judge, latest->ranks[i], quiet_ns, latest_ns, &began_ns) &&
			began_ns < first_ns)
			first_ns = began_ns;
	}
	return first_ns < INT64_MAX ? first_ns : judge->comm->sockets.unlike_ns;
}

/* What it has taken since a run began, and its end, are the next verdict's. */
static void hand_over(const struct judge *judge, struct incident *incident, const struct run *run)
{
	struct verdict *verdict = &judge->incidents.verdicts[incident->verdict];
	struct incident_cost *cost = &incident->cost;

	cost->time_ns -= run->sums.time_ns;
	cost->gain_ns -= smaller(run->sums.delay_ns, cost->gain_ns);
	cost->steps -= run->sums.steps < cost->steps ? run->sums.steps : cost->steps;
	if (run->first_step > incident->onset_step && incident->loud_until_ns > run->start_ns) {
		verdict->last_step = step_of_program(&judge->times, run->first_step - 1);
		verdict->end.value = run->start_ns;
	}
}

/* Of what it gained all along, the run has its share. */
static void split(const struct judge *judge, struct incident *incident, struct run *run)
{
	double share = (double)incident->cost.gain_ns / (double)incident->cost.time_ns;

	if (run->sums.time_ns >= incident->cost.time_ns)
		return;
	run->sums.delay_ns = (int64_t)(share * (double)run->sums.time_ns);
	hand_over(judge, incident, run);
}

static int move(struct judge *judge, struct incident *incident, int64_t moved_ns)
{
	struct comm_state *comm = judge->comm;
	struct run run = {.dated = true, .small = incident->least < COMM_SHARE_MIN};

	run.first_step = step_at(&judge->times, moved_ns, judge_now_ns(judge), &run.start_ns);
	run.sums.steps = steps_kept_in(&judge->times, run.first_step, judge->times.next);
	run.sums.time_ns = judge_now_ns(judge) - run.start_ns;
	run.blocks = run.loud_blocks = 1 + (uint32_t)(run.sums.time_ns / BLOCK_NS);
	run.loud_ns = run.sums.time_ns;
	run.sums.delay_ns = (int64_t)(incident->level * (double)run.sums.time_ns);
	run.change.evidence = fmax(CHANGE_THRESHOLD, (double)run.blocks);
	split(judge, incident, &run);
	judge_end_incident(judge, incident);
	comm->sockets.remembers = true;
	comm->run = run;
	return judge_open_job(judge, INCIDENT_TRANSFERS, &comm->run);
}

int judge_comm_move(struct judge *judge)
{
	struct comm_state *comm = judge->comm;
	struct incident *incident = find_incident(judge);
	int64_t latest_ns = judge_before_now(judge, MOVE_LATEST_NS, MOVE_LATEST_STEPS);
	struct verdict latest = {0};

	if (!incident || comm->signal.level < judge_quiet_level(incident)) {
		comm->sockets.unlike_ns = 0; /* what is over does not move */
		return 0;
	}
	/* Queue pairs have their own memory of what is usual, and of who was told of. */
	if (judge->comm->links.count || latest_ns < incident->onset_ns ||
		!judge_comm_locate(judge, latest_ns, judge_now_ns(judge), &latest))
		return 0;
	const struct verdict *told = judge_verdict(judge, incident);

	if (!count_missing(told, &latest))
		comm->sockets.unlike_ns = 0;
	else if (!comm->sockets.unlike_ns)
		comm->sockets.unlike_ns = judge_now_ns(judge);
	if (!comm->sockets.unlike_ns || latest_ns < comm->sockets.unlike_ns ||
		!count_missing(&latest, told))
		return 0;
	return move(judge, incident, date(judge, incident, &latest, latest_ns));
}

static void end_before(struct judge *judge, struct incident *incident, const struct run *run)
{
	struct verdict *verdict = judge_verdict(judge, incident);

	excess_subtract(&incident->sums, &run->sums);
	incident->cost.delay_ns -= smaller(run->sums.delay_ns, incident->cost.delay_ns);
	hand_over(judge, incident, run);
	incident->loud_until_ns = run->start_ns;
	incident->felt.until_ns = smaller(incident->felt.until_ns, run->start_ns);
	judge_date_since_cause(judge, incident, judge_tell_cause(judge, incident, verdict));
	judge_end_incident(judge, incident);
}

/* Of one rank, for another cause than people were told, and for so long that it is known what it was like. */
static bool is_worse(const struct judge *judge, uint32_t rank)
{
	const struct rank_state *state = &judge->ranks[rank];
	const struct incident *incident = &judge->incidents.list[state->incident - 1];
	const struct run *steep = &state->signal.runs[RUN_STEEP];
	struct explanation why;

	if (incident->every || judge->incidents.verdicts[incident->verdict].rank_count != 1 ||
		steep->change.sum < CHANGE_THRESHOLD || steep->blocks < QUICK_BLOCKS_MIN ||
		steep->sums.time_ns >= incident->cost.time_ns)
		return false;
	judge_explain_run(judge, rank, steep, &why);
	return cause_says_why(why.cause) && why.cause != incident->memory.cause;
}

int judge_worsen(struct judge *judge)
{
	int error = 0;

	for (uint32_t r = 0; r < judge->rank_end && error == 0; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (!state->in_block || !state->incident || !is_worse(judge, r))
			continue;

		struct run run = state->signal.runs[RUN_STEEP];

		end_before(judge, &judge->incidents.list[state->incident - 1], &run);
		error = judge_open(judge, r, &run);
	}
	return error;
}
