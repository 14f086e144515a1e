/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, follows and ends verdicts. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/judge_internal.h"
#include "analysis/policy.h"

static bool is_blamed(const struct judge *judge, const struct track *track,
	const struct verdict *verdict, uint32_t r)
{
	const struct rank_state *state = &judge->ranks[r];

	return verdict_names(verdict, r) || state->track == (uint32_t)(track - judge->tracks) + 1 ||
	       (verdict->cause == CAUSE_STAGE_IMBALANCE &&
		       state->totals.role == judge->imbalance->worst);
}

static void find_victims(
	const struct judge *judge, const struct track *track, double level, struct verdict *verdict)
{
	verdict->victim_count = 0;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (!state->in_block || is_blamed(judge, track, verdict, r) ||
			(verdict->verdict_class != VERDICT_COMM_SLOW &&
				state->wait < VICTIM_WAIT_MIN * level))
			continue;
		if (verdict->victim_count < VERDICT_VICTIMS_MAX)
			verdict->victims[verdict->victim_count] = r;
		verdict->victim_count++;
	}
}

/* share_of_block: 1; of every so-many-th step what these are of it, 0: it has none, and says nothing. */
static double loudness(const struct judge *judge, const struct track *track, double *share_of_block)
{
	const struct verdict *verdict = &judge->verdicts[track->verdict];
	double level = 0;

	*share_of_block = 1;
	if (track->comm)
		return track->every ? judge_periodic_level(judge, NULL, track->every, track->phase,
					      share_of_block)
				    : judge->comm->excess_share;
	if (track->imbalance)
		return judge->imbalance->series[track->imbalance].level;
	for (uint32_t i = 0; i < verdict->rank_count; i++) {
		const struct rank_state *state = &judge->ranks[verdict->ranks[i]];

		if (state->in_block)
			level = fmax(level,
				track->every ? judge_periodic_level(judge, state, track->every,
						       track->phase, share_of_block)
					     : state->level);
	}
	return level;
}

static double slowdown_of(double time_ns, double gain_ns)
{
	return time_ns > 0 ? time_ns / fmax(time_ns - gain_ns, LEFT_SHARE_MIN * time_ns) : 1;
}

/* By the replays of its loud blocks. */
static double replayed_slowdown(const struct judge *judge, const struct track *track)
{
	return slowdown_of((double)track->time_ns,
		track->comm ? judge_comm_cost_ns(
				      judge->comm, (double)track->time_ns, (double)track->gain_ns)
			    : judge_gpu_gain_ns(judge, track));
}

/* What the job lost since the onset, until the verdict's last loud block. */
static struct progress_loss lost_since_onset(const struct judge *judge, const struct track *track)
{
	struct progress_rate now =
		progress_between(judge->progress, track->onset_ns, track->loud_until_ns);

	return progress_lost(&track->usual, &now);
}

/* How much of a verdict's time another one held. */
static double overlap(const struct track *track, const struct track *other)
{
	double from_ns = fmax((double)track->onset_ns, (double)other->onset_ns);
	double until_ns = fmin((double)track->loud_until_ns, (double)other->loud_until_ns);

	return fmax(until_ns - from_ns, 0) /
	       fmax((double)(track->loud_until_ns - track->onset_ns), 1);
}

/*
 * The slow-down as the job feels it: what it lost since the onset. The replays say whose it is where several verdicts hold,
 * and all where there is no past to compare with.
 */
static double felt_slowdown(const struct judge *judge, const struct track *track)
{
	struct progress_loss lost = lost_since_onset(judge, track);
	double replayed = replayed_slowdown(judge, track), all = 0;

	if (track->every || track->imbalance || !lost.known)
		return replayed;
	for (size_t t = 0; t < judge->track_count; t++)
		all += overlap(track, &judge->tracks[t]) *
		       (1 - 1 / replayed_slowdown(judge, &judge->tracks[t]));

	double share = all > 0 ? (1 - 1 / replayed) / all : 1;

	return 1 / (1 - fmax(lost.share, 0) * fmin(share, 1));
}

/* Of every so-many-th step, on average and of these alone: all of the gain is in them. */
static void tell_period(const struct track *track, struct verdict *verdict)
{
	verdict->every_steps = track->every;
	verdict->slowdown_in_these = 0;
	if (!track->every)
		return;
	verdict->slowdown = slowdown_of((double)track->time_ns, (double)track->gain_ns);
	verdict->slowdown_in_these =
		slowdown_of((double)track->affected_ns, (double)track->gain_ns);
}

static void refresh(struct judge *judge, struct track *track)
{
	struct verdict *verdict = &judge->verdicts[track->verdict];
	double share_of_block, level = loudness(judge, track, &share_of_block);
	/* The block in which a fault ends shows less of it. */
	bool whole = track->loud_blocks == 0 || level >= MOST_SHARE * track->level;

	if (track->imbalance)
		judge_imbalance_tell(judge, track->imbalance, verdict);
	else if (track->comm && !judge_comm_moves(judge))
		(void)judge_comm_locate(judge, track->onset_ns, judge_now_ns(judge), verdict);
	else if (!track->comm)
		judge_tell_cause(judge, track, verdict);
	verdict->slowdown = felt_slowdown(judge, track);
	tell_period(track, verdict);
	verdict->confidence = alert_confidence(
		track->evidence, CHANGE_THRESHOLD, verdict->share_explained, track->comm);
	if (judge->clock_error_us > verdict->clock_error_us)
		verdict->clock_error_us = judge->clock_error_us;
	if (whole)
		find_victims(judge, track, share_of_block * track->level, verdict);
}

static void tell(struct judge *judge, struct track *track, enum verdict_event event)
{
	const struct verdict *verdict = &judge->verdicts[track->verdict];

	alert_told(&track->memory, verdict, (struct job_ns){judge_now_ns(judge)});
	if (judge->options.on_verdict)
		judge->options.on_verdict(judge->options.context, event, verdict);
}

static void reach_now(const struct judge *judge, struct verdict *verdict)
{
	verdict->last_step = judge->next_step - 1;
	verdict->end.value = judge_now_ns(judge);
}

int judge_add_verdict(struct judge *judge, struct verdict **result)
{
	struct verdict *verdict;

	if (judge->verdict_count == VERDICTS_MAX)
		return -ENOSPC;
	if (judge->verdict_count == judge->verdict_capacity) {
		size_t capacity = judge->verdict_capacity ? judge->verdict_capacity * 2 : 8;
		struct verdict *grown = realloc(judge->verdicts, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		judge->verdicts = grown;
		judge->verdict_capacity = capacity;
	}
	verdict = &judge->verdicts[judge->verdict_count++];
	*verdict = (struct verdict){.id = (uint32_t)judge->verdict_count};
	*result = verdict;
	return 0;
}

static int add_track(struct judge *judge, struct track **result)
{
	struct verdict *verdict;
	size_t t;
	int error;

	for (t = 0; t < judge->track_count && judge->tracks[t].active; t++)
		;
	if (t == TRACKS_MAX)
		return -ENOSPC; /* the next block tries again */
	error = judge_add_verdict(judge, &verdict);
	if (error < 0)
		return error;
	verdict->alert.value = judge_now_ns(judge);
	reach_now(judge, verdict);
	if (t == judge->track_count)
		judge->track_count++;
	whatif_line_reset(&judge->lines[t]);
	judge->tracks[t] = (struct track){.active = true,
		.verdict = judge->verdict_count - 1,
		.loud_until_ns = judge_now_ns(judge),
		.least = DELAY_SHARE_MIN,
		.alert_step = judge->next_step,
		.gap = 1};
	*result = &judge->tracks[t];
	return 0;
}

static void insert_rank(struct verdict *verdict, uint32_t rank)
{
	uint32_t at;

	if (verdict->rank_count == VERDICT_RANKS_MAX) {
		verdict->more_ranks++;
		return;
	}
	for (at = verdict->rank_count++; at > 0 && verdict->ranks[at - 1] > rank; at--)
		verdict->ranks[at] = verdict->ranks[at - 1];
	verdict->ranks[at] = rank;
}

/*
 * How much of a run's delays the steps would have been shorter by: seen where it was replayed without the
 * suspects. Where that gains next to nothing, the run is told because steps became longer: all. So of devices,
 * where replays take part of a delay for hidden.
 */
static double gain_share(const struct delay_run *run)
{
	double share = (double)run->suspect_gain_ns / (double)run->suspect_delay_ns;

	if (run->every || run->sums.on_device || run->suspect_delay_ns <= 0 ||
		share < GAIN_SHARE_MIN)
		return 1;
	return fmin(share, 1);
}

/* Of a rank that is slow: the steps since its onset, and what it delayed them by. */
static void take_past(const struct judge *judge, struct track *track,
	const struct rank_state *state, const struct delay_run *run, uint64_t onset)
{
	int64_t time_ns = 0, delay_ns = 0, affected_ns = 0;
	uint64_t steps = judge->next_step - onset;

	if (run->every && steps > STEP_HISTORY) {
		steps = STEP_HISTORY;
		onset = judge->next_step - steps;
	}
	if (steps == 0 || steps > STEP_HISTORY) {
		steps = run->sums.steps;
		time_ns = run->sums.time_ns;
		delay_ns = run->sums.delay_ns;
	} else {
		for (uint64_t s = onset; s < judge->next_step; s++) {
			time_ns += judge->step_length_ns[s % STEP_HISTORY];
			if (run->every && s % run->every != run->phase)
				continue;
			affected_ns += judge->step_length_ns[s % STEP_HISTORY];
			delay_ns += (int64_t)judge_step_delay(judge, state, s);
		}
	}
	if (time_ns <= track->time_ns)
		return;
	track->time_ns = time_ns;
	track->affected_ns = affected_ns;
	track->steps = steps;
	delay_ns = (int64_t)(gain_share(run) * (double)delay_ns);
	if (delay_ns > track->gain_ns)
		track->gain_ns = delay_ns;
}

/* Puts a rank that is slow into a verdict, with what its run has gathered. */
static void join(
	struct judge *judge, struct track *track, uint32_t rank, const struct delay_run *run)
{
	const struct explain_context context = judge_explain_context(judge, judge_now_ns(judge));
	struct rank_state *state = &judge->ranks[rank];
	struct verdict *verdict = &judge->verdicts[track->verdict];
	/* Something small before it must not pass for its begin. */
	double level = run->level / (double)run->blocks;
	uint64_t onset = run->first_step;

	if (!run->every) {
		level = fmax(level, judge_latest_level(judge, state, LATEST_STEPS));
		onset = judge_onset(judge, state, run->first_step, level);
	}
	int64_t onset_ns = judge->next_step - onset <= STEP_HISTORY
				   ? judge->step_start_ns[onset % STEP_HISTORY]
				   : verdict->alert.value - run->sums.time_ns;

	if (verdict->rank_count == 0 || run->first_step < track->run_first_step)
		track->run_first_step = run->first_step;
	insert_rank(verdict, rank);
	excess_add(&track->sums, &run->sums);
	if (verdict->rank_count == 1 || onset < verdict->first_step) {
		verdict->first_step = onset;
		verdict->onset.value = onset_ns;
		track->onset_ns = onset_ns;
		track->usual_step_ns = judge_gpu_usual_step_ns(judge, onset);
		explain_past(&context, rank, onset_ns, &track->past);
	}
	/* Before there was a verdict to replay without, its largest delay tells what it cost. */
	if (verdict->last_step + 1 == judge->next_step &&
		verdict->alert.value == judge_now_ns(judge))
		take_past(judge, track, state, run, onset);
	track->level = fmax(track->level, level);
	track->least =
		fmin(track->least, run->every ? PERIODIC_HEIGHT_MIN : judge_level_min(state, run));
	track->every = run->every;
	track->phase = run->phase;
	track->gap = fmax(track->gap,
		(double)run->blocks / (double)(run->loud_blocks ? run->loud_blocks : 1));
	track->evidence = fmax(track->evidence, run->change.evidence);
	track->loud_until_ns = judge_now_ns(judge);
	state->track = (uint32_t)(track - judge->tracks) + 1;
	state->doubtful_count = 0; /* no noise */
	whatif_line_reset(&judge->lines[track - judge->tracks]);
	/* Told of: no measure of what is usual. */
	for (uint64_t s = onset; s < judge->next_step && judge->next_step - s <= STEP_HISTORY; s++)
		state->delays[s % STEP_HISTORY] = -fabsf(state->delays[s % STEP_HISTORY]);
}

/* A verdict of the same kind, just begun; experts that are uneven are so together, whenever each is told. */
static struct track *find_kin(
	struct judge *judge, const struct explanation *why, const struct delay_run *run)
{
	for (size_t t = 0; t < judge->track_count; t++) {
		struct track *track = &judge->tracks[t];
		const struct verdict *verdict = &judge->verdicts[track->verdict];

		if (track->active && !track->comm && !track->imbalance &&
			verdict->verdict_class == why->verdict_class &&
			verdict->cause == why->cause && track->every == run->every &&
			track->phase == run->phase &&
			(why->verdict_class == VERDICT_WORKLOAD_IMBALANCE ||
				judge_now_ns(judge) - verdict->alert.value <= JOIN_NS))
			return track;
	}
	return NULL;
}

/* All of it is known: tells it. */
static void begin(struct judge *judge, struct track *track)
{
	track->usual = progress_before(judge->progress, track->onset_ns, judge_now_ns(judge));
	track->aside_ns = track->onset_ns;
	progress_set_aside(judge->progress, track->aside_ns, judge_now_ns(judge), true);
	refresh(judge, track);
	tell(judge, track, VERDICT_EVENT_ALERT);
}

int judge_open(struct judge *judge, uint32_t rank, const struct delay_run *run)
{
	struct explanation why, other_why;
	struct track *track;
	int error;

	judge_explain_run(judge, rank, run, &why);
	track = find_kin(judge, &why, run);
	if (track) {
		join(judge, track, rank, run);
		refresh(judge, track);
		return 0; /* told as an update when one is due */
	}
	error = add_track(judge, &track);
	if (error == -ENOSPC)
		return 0;
	if (error < 0)
		return error;
	join(judge, track, rank, run);
	/* Others that are about to be told for the same reason come along. */
	for (uint32_t r = 0; r < judge->rank_end && !run->every; r++) {
		struct rank_state *other = &judge->ranks[r];
		const struct delay_run *own = &other->runs[RUN_QUICK];

		if (other->track || !other->in_block || own->change.sum < CHANGE_THRESHOLD / 2 ||
			!judge_worth_telling(judge, r, own, &other_why, NULL))
			continue;
		if (other_why.verdict_class == why.verdict_class && other_why.cause == why.cause)
			join(judge, track, r, own);
	}
	begin(judge, track);
	return 0;
}

/*
 * What is over must be quiet for several times as long as it was loud, and as it was quiet between.
 * Stalls of transfers are long, and how rare they are is learnt while they go on.
 */
static double gap_of_run(const struct judge *judge, const struct comm_run *run)
{
	double usual_ns = fmax(judge->quiet_step_ns, BLOCK_NS);

	if (!run->loud_blocks)
		return 1;
	return fmax(fmax((double)run->blocks, (double)run->loud_ns / usual_ns) /
			    (double)run->loud_blocks,
		1);
}

int judge_open_comm(struct judge *judge)
{
	const struct comm_run *run = &judge->comm->run;
	struct track *track;
	struct verdict *verdict;
	int error = add_track(judge, &track);

	if (error == -ENOSPC) {
		judge->comm->remembers = false;
		return 0;
	}
	if (error < 0)
		return error;
	verdict = &judge->verdicts[track->verdict];
	verdict->verdict_class = VERDICT_COMM_SLOW;
	verdict->onset.value = judge_comm_onset(judge, &verdict->first_step);
	track->comm = true;
	track->onset_ns = verdict->onset.value;
	track->level = judge_comm_share(judge->comm) * (run->every ? run->every : 1);
	track->least = run->every   ? PERIODIC_HEIGHT_MIN
		       : run->small ? SMALL_SHARE_MIN
				    : COMM_SHARE_MIN;
	track->every = run->every;
	track->phase = run->phase;
	track->steps = run->steps;
	track->time_ns = run->time_ns;
	track->affected_ns = run->loud_ns;
	track->gain_ns = run->excess_ns;
	track->evidence = run->evidence;
	judge_loss_told(judge);
	if (!judge->comm->remembers)
		judge_comm_remember(judge, track->onset_ns);
	track->gap = run->every ? 1 : gap_of_run(judge, run);
	begin(judge, track);
	return 0;
}

int judge_open_imbalance(struct judge *judge, enum imbalance kind)
{
	const struct imbalance_series *series = &judge->imbalance->series[kind];
	struct track *track;
	struct verdict *verdict;
	int error = add_track(judge, &track);

	if (error == -ENOSPC)
		return 0;
	if (error < 0)
		return error;
	verdict = &judge->verdicts[track->verdict];
	verdict->verdict_class = VERDICT_WORKLOAD_IMBALANCE;
	verdict->first_step = series->run_first_step;
	verdict->onset.value = series->run_start_ns;
	track->imbalance = (uint8_t)kind;
	track->onset_ns = series->run_start_ns;
	track->level = (double)series->run_gain_ns / (double)series->run_time_ns;
	track->time_ns = series->run_time_ns;
	track->gain_ns = series->run_gain_ns;
	track->evidence = series->change.evidence;
	begin(judge, track);
	return 0;
}

/*
 * It is found to be slow in every so-many-th step only: the level, and what it is made of, are those of these
 * steps from now on; the costs, those of all steps since its onset.
 */
void judge_track_periodic(
	struct judge *judge, struct track *track, uint32_t every, uint64_t phase, double level)
{
	struct verdict *verdict = &judge->verdicts[track->verdict];

	track->every = every;
	track->phase = phase;
	track->level = level;
	track->least = PERIODIC_HEIGHT_MIN;
	track->gap = 1;
	track->memory.quiet = 0;
	track->between = (struct comm_run){0};
	track->time_ns = track->gain_ns = 0;
	if (track->comm) {
		track->time_ns = judge->comm->run.time_ns;
		track->affected_ns = judge->comm->run.loud_ns;
		track->gain_ns = judge->comm->run.excess_ns;
		track->steps = judge->comm->run.steps;
	}
	track->sums = (struct excess_sums){0};
	for (uint32_t i = 0; i < verdict->rank_count && !track->comm; i++) {
		struct rank_state *state = &judge->ranks[verdict->ranks[i]];
		const struct periodic *periodic = &judge->periodics[state->periodic - 1];
		const struct delay_run run = {.every = every, .phase = phase};

		excess_add(&track->sums, &periodic->sums);
		take_past(judge, track, state, &run, verdict->first_step);
	}
	refresh(judge, track);
}

/* It is slow in other steps as well: it goes on as what it costs on average. */
static void drop_period(struct judge *judge, struct track *track)
{
	track->level /= track->every;
	track->least = fmin(track->level, track->comm ? COMM_SHARE_MIN : DELAY_SHARE_MIN);
	track->every = 0;
	judge->comm->run.every = track->comm ? 0 : judge->comm->run.every;
	track->time_ns += track->between.time_ns;
	track->gain_ns += track->between.excess_ns;
	track->steps += track->between.steps;
	track->between = (struct comm_run){0};
	track->memory.quiet = 0;
}

/* What came after it says better what is usual, and so what the job lost. */
static void end_loss(struct judge *judge, struct track *track)
{
	struct verdict *verdict = &judge->verdicts[track->verdict];
	struct progress_rate around;

	if (!judge_verdict_holds(judge, track)) {
		progress_set_aside(judge->progress, track->aside_ns, judge_now_ns(judge), false);
		progress_set_aside(judge->progress, track->onset_ns, track->loud_until_ns, true);
	}
	around = progress_around(judge->progress, track->onset_ns, track->loud_until_ns);
	if (around.slots && track->usual.slots)
		track->usual = around;
	verdict->slowdown = felt_slowdown(judge, track);
	tell_period(track, verdict);
}

void judge_end_track(struct judge *judge, struct track *track)
{
	end_loss(judge, track);
	judge->verdicts[track->verdict].ended = 1;
	tell(judge, track, VERDICT_EVENT_RECOVERED);
	track->active = false;
	if (track->comm) {
		memset(judge->comm->series, 0, sizeof(judge->comm->series));
		judge->comm->periodic = (struct periodic){0};
		judge->comm->told_until_ns = judge_now_ns(judge);
		judge->comm->remembers = false;
		judge->comm->unlike_ns = 0;
		for (int s = 0; s < STEP_HISTORY; s++) /* told of */
			judge->comm->steps[s] = -fabsf(judge->comm->steps[s]);
	}
	if (track->imbalance)
		judge->imbalance->series[track->imbalance].change = (struct change_point){0};
	for (uint32_t r = 0; r < judge->rank_end && !track->comm && !track->imbalance; r++) {
		struct rank_state *state = &judge->ranks[r];

		if (state->track == (uint32_t)(track - judge->tracks) + 1) {
			state->track = 0;
			judge_periodic_forget(judge, state);
			memset(state->runs, 0, sizeof(state->runs));
		}
	}
}

/* The same from one loud block to the next, on average. */
static void follow_gap(const struct judge *judge, struct track *track)
{
	const struct comm_run *quiet = &track->between;
	double distance = (double)quiet->blocks + 1;

	if (quiet->blocks)
		distance = fmax(distance, (double)judge->block.time_ns * (double)quiet->blocks /
						  (double)quiet->time_ns);
	track->gap += (distance - track->gap) / QUICK_MEAN;
	track->gap = fmax(track->gap, 1);
}

static int64_t gain_of_block(
	const struct judge *judge, const struct track *track, double level, double share_of_block)
{
	if (track->imbalance || (track->comm && track->every))
		return (int64_t)(level * share_of_block * (double)judge->block.time_ns);
	return track->comm ? judge->comm->excess_ns : track->block_gain_ns;
}

/* A quiet block, of a verdict whose loud ones are not alone: it is taken when there is a loud one again. */
static void take_quiet_block(
	const struct judge *judge, struct track *track, double level, double share_of_block)
{
	if (!track->every) {
		if (track->comm)
			judge_comm_extend(judge, &track->between);
		return;
	}
	track->between.time_ns += judge->block.time_ns;
	track->between.steps += judge->block.steps;
	track->between.excess_ns += gain_of_block(judge, track, level, share_of_block);
	track->between.loud_ns += (int64_t)(share_of_block * (double)judge->block.time_ns);
}

static void take_loud_block(
	struct judge *judge, struct track *track, double level, double share_of_block)
{
	struct verdict *verdict = &judge->verdicts[track->verdict];

	for (uint32_t i = 0; i < verdict->rank_count && !track->comm && !track->imbalance; i++) {
		const struct rank_state *state = &judge->ranks[verdict->ranks[i]];

		if (state->in_block && !track->every)
			excess_add(&track->sums, &state->block);
		else if (state->in_block)
			judge_periodic_add(judge, state, track);
	}
	track->time_ns += judge->block.time_ns + track->between.time_ns;
	track->affected_ns += (int64_t)(share_of_block * (double)judge->block.time_ns) +
			      (track->every ? track->between.loud_ns : 0);
	track->steps += judge->block.steps + track->between.steps;
	track->gain_ns +=
		gain_of_block(judge, track, level, share_of_block) + track->between.excess_ns;
	if (track->comm && !track->every)
		follow_gap(judge, track);
	track->between = (struct comm_run){0};
	track->level += (level - track->level) / TRACK_LEVEL_MEMORY;
	track->evidence += 1;
	track->loud_until_ns = judge_now_ns(judge);
	track->loud_blocks++;
	reach_now(judge, verdict);
	if (!track->comm && !track->imbalance && !track->every)
		judge_refine_onset(judge, track);
}

/* The job is as fast again as it was before the onset. */
static bool is_over(const struct judge *judge, const struct track *track)
{
	struct progress_loss lost = lost_since_onset(judge, track);

	return !track->every && !track->imbalance && lost.known &&
	       (lost.share + PROGRESS_LOST_ERRORS * lost.error < GAIN_SHARE_MIN * track->level ||
		       progress_is_back(judge->progress, track->onset_ns, &track->usual, &lost));
}

void judge_follow(struct judge *judge)
{
	for (size_t t = 0; t < judge->track_count; t++) {
		struct track *track = &judge->tracks[t];
		double level, share_of_block;
		bool quiet;

		if (!track->active)
			continue;
		if (track->every && !judge_periodic_holds(judge, track))
			drop_period(judge, track);
		level = loudness(judge, track, &share_of_block);
		quiet = level < judge_quiet_level(track) || is_over(judge, track);
		if (quiet)
			take_quiet_block(judge, track, level, share_of_block);
		else
			take_loud_block(judge, track, level, share_of_block);
		track->block_gain_ns = 0;
		if (!quiet)
			refresh(judge, track);
		if (share_of_block > 0 && alert_recovered(&track->memory, quiet, track->gap))
			judge_end_track(judge, track);
		else if (alert_update_due(&track->memory, &judge->verdicts[track->verdict],
				 (struct job_ns){judge_now_ns(judge)}))
			tell(judge, track, VERDICT_EVENT_UPDATE);
	}
}
