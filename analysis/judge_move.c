/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow transfers that move: they go on without a quiet block, so only who is named for the latest of them
 * tells. Ranks that are late need no such thing, each has a run of its own. And slow links that something else went
 * before, such as busy CPUs: transfers were long already.
 */
#include <math.h>
#include <stdlib.h>

#include "analysis/judge_internal.h"

static struct track *find_track(struct judge *judge)
{
	for (size_t t = 0; t < judge->track_count; t++) {
		struct track *track = &judge->tracks[t];

		if (track->active && track->comm && !track->every)
			return track;
	}
	return NULL;
}

/* So long ago, or so many steps, whatever is longer; a step's start if it is still known. */
static int64_t before_now(const struct judge *judge, int64_t length_ns, uint64_t steps)
{
	int64_t from_ns = judge_now_ns(judge) - length_ns;

	if (judge->next_step < steps)
		return from_ns;
	int64_t start_ns = judge->step_start_ns[(judge->next_step - steps) % STEP_HISTORY];

	return start_ns < from_ns ? start_ns : from_ns;
}

static uint32_t count_missing(const struct verdict *of, const struct verdict *from)
{
	uint32_t missing = 0;

	for (uint32_t i = 0; i < of->rank_count; i++)
		missing += !verdict_names(from, of->ranks[i]);
	return missing;
}

/* The step that began next to a time, and its begin; of long ago, by how long steps are of late. */
static uint64_t step_at(const struct judge *judge, int64_t time_ns, int64_t *start_ns)
{
	uint64_t kept = judge->next_step < STEP_HISTORY ? judge->next_step : STEP_HISTORY;
	uint64_t best = judge->next_step - 1;

	for (uint64_t i = 1; i <= kept; i++) {
		uint64_t step = judge->next_step - i;

		if (llabs(judge->step_start_ns[step % STEP_HISTORY] - time_ns) <
			llabs(judge->step_start_ns[best % STEP_HISTORY] - time_ns))
			best = step;
	}
	*start_ns = judge->step_start_ns[best % STEP_HISTORY];
	if (best + kept > judge->next_step || time_ns >= *start_ns)
		return best;

	double step_ns = (double)(judge_now_ns(judge) - *start_ns) / (double)kept;
	uint64_t earlier = (uint64_t)((double)(*start_ns - time_ns) / step_ns);

	*start_ns = time_ns;
	return best > earlier ? best - earlier : 0;
}

/* When it moved: since then the sockets of one that is named now are busy. */
static int64_t date(const struct judge *judge, const struct track *track,
	const struct verdict *latest, int64_t latest_ns)
{
	int64_t quiet_ns = before_now(judge, EVIDENCE_BEFORE_NS, MOVE_QUIET_STEPS),
		first_ns = INT64_MAX;

	if (quiet_ns < track->onset_ns)
		quiet_ns = track->onset_ns;
	for (uint32_t i = 0; i < latest->rank_count; i++) {
		int64_t began_ns;

		if (!verdict_names(&judge->verdicts[track->verdict], latest->ranks[i]) &&
			judge_comm_began(judge, latest->ranks[i], quiet_ns, latest_ns, &began_ns) &&
			began_ns < first_ns)
			first_ns = began_ns;
	}
	return first_ns < INT64_MAX ? first_ns : judge->comm->unlike_ns;
}

/* What the verdict has taken since the move is that of the next one. */
static void split(const struct judge *judge, struct track *track, struct comm_run *run)
{
	struct verdict *verdict = &judge->verdicts[track->verdict];
	double share = (double)track->gain_ns / (double)track->time_ns;

	if (run->time_ns >= track->time_ns)
		return;
	run->excess_ns = (int64_t)(share * (double)run->time_ns);
	track->time_ns -= run->time_ns;
	track->gain_ns -= run->excess_ns;
	track->steps -= run->steps < track->steps ? run->steps : track->steps;
	if (run->first_step > verdict->first_step && verdict->last_step >= run->first_step) {
		verdict->last_step = run->first_step - 1;
		verdict->end.value = run->start_ns;
	}
}

static int move(struct judge *judge, struct track *track, int64_t moved_ns)
{
	struct comm_state *comm = judge->comm;
	struct comm_run run = {.dated = true, .small = track->least < COMM_SHARE_MIN};

	run.first_step = step_at(judge, moved_ns, &run.start_ns);
	run.steps = judge->next_step - run.first_step;
	run.time_ns = judge_now_ns(judge) - run.start_ns;
	run.blocks = run.loud_blocks = 1 + (uint64_t)(run.time_ns / BLOCK_NS);
	run.loud_ns = run.time_ns;
	run.excess_ns = (int64_t)(track->level * (double)run.time_ns);
	run.evidence = fmax(CHANGE_THRESHOLD, (double)run.blocks);
	split(judge, track, &run);
	judge_end_track(judge, track);
	comm->remembers = true;
	comm->run = run;
	return judge_open_comm(judge);
}

/* The step that the change next to a time began with; where none stands out there, the one at that time. */
static uint64_t change_near(const struct judge *judge, int64_t time_ns)
{
	int64_t start_ns;
	uint64_t step = step_at(judge, time_ns, &start_ns);
	uint64_t earliest = step_at(judge, time_ns - SAMPLE_NS, &start_ns);
	uint64_t change = judge_onset(
		judge, NULL, earliest + judge->block.steps, judge_comm_latest_level(judge));

	return change > earliest + 1 && llabs(judge->step_start_ns[change % STEP_HISTORY] -
						time_ns) <= SAMPLE_NS
		       ? change
		       : step;
}

/* What came before its ranks' sockets were busy is no part of a run. False: nothing did, or too long ago. */
static bool begin_later(const struct judge *judge, int64_t began_ns, struct comm_run *run)
{
	double excess_ns = 0;
	uint64_t end = judge->next_step, step = change_near(judge, began_ns);

	if (step <= run->first_step || end - step > STEP_HISTORY)
		return false;
	for (uint64_t s = step; s < end; s++)
		excess_ns += fabs((double)judge->comm->steps[s % STEP_HISTORY]);
	run->dated = true;
	run->first_step = step;
	run->start_ns = judge->step_start_ns[step % STEP_HISTORY];
	run->steps = end - step;
	run->time_ns = judge_now_ns(judge) - run->start_ns;
	run->excess_ns = (int64_t)fmin(excess_ns, (double)run->time_ns);
	run->blocks = 1 + (uint64_t)(run->time_ns / BLOCK_NS);
	run->loud_blocks = run->loud_blocks < run->blocks ? run->loud_blocks : run->blocks;
	run->loud_ns = run->loud_ns < run->time_ns ? run->loud_ns : run->time_ns;
	return true;
}

bool judge_comm_locate_late(struct judge *judge, int64_t onset_ns, struct verdict *verdict)
{
	struct comm_state *comm = judge->comm;
	int64_t now_ns = judge_now_ns(judge), first_ns = INT64_MAX;
	int64_t latest_ns = before_now(judge, MOVE_LATEST_NS, MOVE_LATEST_STEPS);

	if (judge->links.count || comm->run.every || comm->run.dated ||
		now_ns - onset_ns < 2 * (now_ns - latest_ns))
		return false;
	judge_comm_remember(judge, onset_ns);
	comm->remembers =
		judge_comm_locate(judge, latest_ns, now_ns, verdict) && verdict->rank_count;
	for (uint32_t i = 0; comm->remembers && i < verdict->rank_count; i++) {
		int64_t began_ns;

		if (judge_comm_began(judge, verdict->ranks[i], onset_ns, latest_ns, &began_ns) &&
			began_ns < first_ns)
			first_ns = began_ns;
	}
	comm->remembers =
		comm->remembers && first_ns < INT64_MAX && begin_later(judge, first_ns, &comm->run);
	return comm->remembers;
}

/*
 * While the latest hold some of both, who is slow since the onset changes from block to block: it is not
 * looked at then, for as long again.
 */
bool judge_comm_moves(const struct judge *judge)
{
	int64_t latest_ns = before_now(judge, MOVE_LATEST_NS, MOVE_LATEST_STEPS);
	int64_t unlike_ns = judge->comm->unlike_ns;

	return unlike_ns && judge_now_ns(judge) - unlike_ns < 2 * (judge_now_ns(judge) - latest_ns);
}

int judge_comm_move(struct judge *judge)
{
	struct comm_state *comm = judge->comm;
	struct track *track = find_track(judge);
	int64_t latest_ns = before_now(judge, MOVE_LATEST_NS, MOVE_LATEST_STEPS);
	struct verdict latest = {0};

	if (!track || comm->excess_share < judge_quiet_level(track)) {
		comm->unlike_ns = 0; /* what is over does not move */
		return 0;
	}
	/* Queue pairs have their own memory of what is usual, and of who was told of. */
	if (judge->links.count || latest_ns < track->onset_ns ||
		!judge_comm_locate(judge, latest_ns, judge_now_ns(judge), &latest))
		return 0;
	const struct verdict *told = &judge->verdicts[track->verdict];

	if (!count_missing(told, &latest))
		comm->unlike_ns = 0;
	else if (!comm->unlike_ns)
		comm->unlike_ns = judge_now_ns(judge);
	if (!comm->unlike_ns || latest_ns < comm->unlike_ns || !count_missing(&latest, told))
		return 0;
	return move(judge, track, date(judge, track, &latest, latest_ns));
}
