/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow transfers that move: they go on without a quiet block, so only who is named for the latest of them
 * tells. Ranks that are late need no such thing, each has a run of its own. And slow links that something else went
 * before, such as busy CPUs: transfers were long already.
 */
#include <math.h>

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

/* What the verdict has taken since the move is that of the next one. */
static void split(const struct judge *judge, struct incident *incident, struct run *run)
{
	struct verdict *verdict = judge_verdict(judge, incident);
	double share = (double)incident->cost.gain_ns / (double)incident->cost.time_ns;

	if (run->sums.time_ns >= incident->cost.time_ns)
		return;
	run->sums.delay_ns = (int64_t)(share * (double)run->sums.time_ns);
	incident->cost.time_ns -= run->sums.time_ns;
	incident->cost.gain_ns -= run->sums.delay_ns;
	incident->cost.steps -=
		run->sums.steps < incident->cost.steps ? run->sums.steps : incident->cost.steps;
	if (run->first_step > incident->onset_step && incident->loud_until_ns > run->start_ns) {
		verdict->last_step = step_of_program(&judge->times, run->first_step - 1);
		verdict->end.value = run->start_ns;
	}
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
