/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes back every so many steps, on a rank or in transfers: too small or too rare for sums over
 * blocks, but the steps that it hits are the same ones of each round. A rank's other steps are what it
 * is held against, so neither its peers' noise nor its own usual delay matters. docs/analysis.md.
 */
#include <math.h>

#include "analysis/base/robust_stats.h"
#include "analysis/detect/fold.h"
#include "analysis/judge_internal.h"

_Static_assert(PERIODICS_MAX <= UINT8_MAX, "places are numbered in a byte");

static bool in_class(const struct periodic *periodic, uint64_t step)
{
	return step % periodic->every == periodic->phase;
}

static uint64_t oldest_step(const struct judge *judge)
{
	return judge->next_step > STEP_HISTORY ? judge->next_step - STEP_HISTORY : 0;
}

static bool comm_is_told(const struct judge *judge)
{
	for (size_t t = 0; t < judge->track_count; t++) {
		if (judge->tracks[t].active && judge->tracks[t].comm)
			return true;
	}
	return false;
}

/*
 * Delays as shares of their steps, the oldest first; state NULL: of transfers. What a verdict told of
 * that has ended counts no more (it is negative). Returns how many.
 */
static size_t take_series(
	const struct judge *judge, const struct rank_state *state, double values[STEP_HISTORY])
{
	const float *delays = state ? state->delays : judge->comm->steps;
	bool told = state ? state->track != 0 : comm_is_told(judge);
	size_t count = 0;

	for (uint64_t s = oldest_step(judge); s < judge->next_step; s++) {
		double length = (double)judge->step_length_ns[s % STEP_HISTORY];
		double delay = (double)delays[s % STEP_HISTORY];

		delay = told ? fabs(delay) : fmax(delay, 0);
		values[count++] = length > 0 ? delay / length : 0;
	}
	return count;
}

/* Healthy ranks end here: too few of their steps are hit at all. */
static bool find(const struct judge *judge, const struct rank_state *state,
	double values[STEP_HISTORY], struct fold_finding *finding)
{
	size_t count = take_series(judge, state, values), hits = 0;

	for (size_t i = 0; i < count; i++)
		hits += values[i] >= PERIODIC_HEIGHT_MIN;
	return hits >= FOLD_HITS_MIN && fold_find(values, count, finding) &&
	       finding->surprise >= PERIODIC_NOTICED_SURPRISE &&
	       finding->height >= PERIODIC_HEIGHT_MIN;
}

/* The first of the slow steps, as far as is known. */
static uint64_t find_onset(
	const struct judge *judge, const double *values, const struct fold_finding *finding)
{
	size_t steps = (size_t)(judge->next_step - oldest_step(judge)), count = 0;
	double own[STEP_HISTORY], lengths[STEP_HISTORY];

	for (size_t i = finding->phase; i < steps; i += finding->period_steps) {
		own[count] = values[i] - finding->base;
		lengths[count++] = 1;
	}
	return oldest_step(judge) + finding->phase +
	       finding->period_steps * change_onset(own, lengths, count, 1, finding->height);
}

/* Takes a finding over; what was gathered of the same steps stays. */
static void note(const struct judge *judge, const double *values,
	const struct fold_finding *finding, struct periodic *periodic)
{
	uint64_t phase = (oldest_step(judge) + finding->phase) % finding->period_steps;
	uint64_t onset = find_onset(judge, values, finding);

	if (periodic->every != finding->period_steps || periodic->phase != phase)
		*periodic = (struct periodic){.rank = periodic->rank,
			.every = finding->period_steps,
			.phase = phase,
			.first_step = onset,
			.always = onset < oldest_step(judge) + 2 * finding->period_steps};
	if (onset < periodic->first_step)
		periodic->first_step = onset;
	periodic->surprise = finding->surprise;
	periodic->height = finding->height;
	periodic->base = finding->base;
	periodic->share = finding->share;
}

void judge_periodic_forget(struct judge *judge, struct rank_state *state)
{
	if (state->periodic)
		judge->periodics[state->periodic - 1] = (struct periodic){0};
	state->periodic = 0;
}

/* A place: a free one, or that of what is less certain and in no verdict; NULL: none. */
static struct periodic *find_place(struct judge *judge, double surprise)
{
	struct periodic *weakest = NULL;

	for (size_t p = 0; p < PERIODICS_MAX; p++) {
		struct periodic *periodic = &judge->periodics[p];

		if (!periodic->every)
			return periodic;
		if (!judge->ranks[periodic->rank].track && periodic->surprise < surprise &&
			(!weakest || periodic->surprise < weakest->surprise))
			weakest = periodic;
	}
	if (weakest)
		judge_periodic_forget(judge, &judge->ranks[weakest->rank]);
	return weakest;
}

static void look_at_rank(struct judge *judge, uint32_t rank)
{
	struct rank_state *state = &judge->ranks[rank];
	struct periodic *periodic = state->periodic ? &judge->periodics[state->periodic - 1] : NULL;
	double values[STEP_HISTORY];
	struct fold_finding finding;

	if (!find(judge, state, values, &finding)) {
		judge_periodic_forget(judge, state);
		return;
	}
	if (!periodic)
		periodic = find_place(judge, finding.surprise);
	if (!periodic)
		return;
	periodic->rank = rank;
	note(judge, values, &finding, periodic);
	state->periodic = (uint8_t)(periodic - judge->periodics + 1);
}

static void look_at_transfers(struct judge *judge)
{
	struct periodic *periodic = &judge->comm->periodic;
	double values[STEP_HISTORY];
	struct fold_finding finding;

	if (find(judge, NULL, values, &finding))
		note(judge, values, &finding, periodic);
	else
		*periodic = (struct periodic){0};
}

/* Those that are noticed each time, all others in turn. */
static void look(struct judge *judge)
{
	uint32_t count = RANKS_ENOUGH + judge->rank_end / PERIODIC_LOOK_TURNS;

	if (count > judge->rank_end)
		count = judge->rank_end;
	for (size_t p = 0; p < PERIODICS_MAX; p++) {
		uint32_t rank = judge->periodics[p].rank;

		if (judge->periodics[p].every && judge->ranks[rank].in_block)
			look_at_rank(judge, rank);
		else if (judge->periodics[p].every)
			judge_periodic_forget(judge, &judge->ranks[rank]);
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t rank = judge->periodic_turn++ % judge->rank_end;

		if (judge->ranks[rank].in_block && !judge->ranks[rank].periodic)
			look_at_rank(judge, rank);
	}
	judge->periodic_turn %= judge->rank_end;
	look_at_transfers(judge);
	judge->periodic_ns = judge_now_ns(judge);
}

void judge_periodic_take(struct judge *judge, const struct rank_state *state, uint64_t step,
	const struct excess_sums *sums)
{
	struct periodic *periodic = &judge->periodics[state->periodic - 1];

	if (in_class(periodic, step))
		excess_add(&periodic->block, sums);
}

/* The usual length of steps since its onset, of its class or of all others; 0: none are known. */
static double usual_length(
	const struct judge *judge, const struct periodic *periodic, bool of_class)
{
	double lengths[STEP_HISTORY];
	uint64_t first = oldest_step(judge);
	size_t count = 0;

	if (periodic->first_step > first)
		first = periodic->first_step;
	for (uint64_t s = first; s < judge->next_step; s++) {
		if (in_class(periodic, s) == of_class)
			lengths[count++] = (double)judge->step_length_ns[s % STEP_HISTORY];
	}
	return median_double(lengths, count);
}

/* It is no chance, it costs enough of the time on average, and the steps are longer for it. */
static bool is_proven(const struct judge *judge, const struct periodic *periodic, size_t series,
	struct gate_sheet *sheet)
{
	double own = usual_length(judge, periodic, true);
	double other = usual_length(judge, periodic, false);
	double share = periodic->height * own / (own + (periodic->every - 1) * other);

	return gate_passed(sheet, GATE_LEVEL, share,
		       periodic->always ? SMALL_SHARE_MIN : PERIODIC_SHARE_MIN) &&
	       gate_passed_in(sheet, GATE_LONGER, own - other,
		       GAIN_SHARE_MIN * periodic->height * own, periodic->height * own) &&
	       gate_passed(sheet, GATE_HITS, periodic->surprise,
		       PERIODIC_TOLD_SURPRISE + log((double)series));
}

/* Where most ranks have it, each in steps of its own, it is what the program does (collections of garbage). */
static bool peers_do_likewise(const struct judge *judge, const struct periodic *periodic)
{
	uint32_t alike = 0, peers = 0;

	for (uint32_t r = 0; r < judge->rank_end && peers < RANKS_ENOUGH; r++) {
		double values[STEP_HISTORY];
		struct fold_finding finding;

		if (r == periodic->rank || !judge->ranks[r].in_block)
			continue;
		peers++;
		alike += find(judge, &judge->ranks[r], values, &finding) &&
			 finding.height >= periodic->height / 2;
	}
	return alike * 2 > peers;
}

double judge_periodic_level(const struct judge *judge, const struct rank_state *state,
	uint32_t every, uint64_t phase, double *share_of_block)
{
	uint64_t first = judge->block.first_step;
	double delay = 0, length = 0;

	if (judge->next_step - first > STEP_HISTORY)
		first = judge->next_step - STEP_HISTORY;
	for (uint64_t s = first; s < judge->next_step; s++) {
		if (s % every != phase)
			continue;
		delay += state ? judge_step_delay(judge, state, s)
			       : fabs((double)judge->comm->steps[s % STEP_HISTORY]);
		length += (double)judge->step_length_ns[s % STEP_HISTORY];
	}
	*share_of_block = length / fmax((double)judge->block.time_ns, 1);
	return length > 0 ? delay / length : 0;
}

static bool is_loud(const struct judge *judge, const struct periodic *periodic,
	const struct rank_state *state, struct gate_sheet *sheet)
{
	double share_of_block;

	return gate_passed(sheet, GATE_LOUD,
		judge_periodic_level(
			judge, state, periodic->every, periodic->phase, &share_of_block),
		periodic->base + periodic->height / 2);
}

/* As a run of those steps alone. */
static struct delay_run run_of(const struct periodic *periodic)
{
	uint64_t steps = periodic->sums.steps;

	return (struct delay_run){.change = {.evidence = CHANGE_UNIT_MAX * (double)steps},
		.sums = periodic->sums,
		.level = periodic->height * (double)steps,
		.blocks = steps,
		.loud_blocks = steps,
		.first_step = periodic->first_step,
		.every = periodic->every,
		.phase = periodic->phase};
}

static bool is_to_tell(const struct judge *judge, const struct periodic *periodic,
	const struct delay_run *run, struct explanation *why, struct gate_sheet *sheet)
{
	const struct rank_state *state = &judge->ranks[periodic->rank];

	return gate_is(sheet, GATE_FREE, !state->track) && is_loud(judge, periodic, state, sheet) &&
	       gate_passed(sheet, GATE_LASTS, (double)periodic->sums.steps, SEEN_MIN) &&
	       gate_is(sheet, GATE_TIMED, !periodic->sums.host_times) &&
	       is_proven(judge, periodic, judge->ranks_in_block, sheet) &&
	       gate_is(sheet, GATE_USUAL, state->settled) &&
	       judge_evidence_suffices(judge, periodic->rank, run, why, sheet) &&
	       gate_is(sheet, GATE_UNLIKE, !peers_do_likewise(judge, periodic));
}

static int tell_rank(struct judge *judge, struct periodic *periodic)
{
	const struct delay_run run = run_of(periodic);
	struct gate_sheet sheet, *asked = judge->on_sheet ? &sheet : NULL;
	struct explanation why = {0};
	bool told;
	int error = 0;

	if (asked)
		judge_sheet_begin(judge, periodic->rank, asked);
	told = is_to_tell(judge, periodic, &run, &why, asked);
	if (asked && judge_sheet_describe(judge, &run, true, asked))
		judge_explain_run(judge, periodic->rank, &run, &why);
	if (told)
		error = judge_open(judge, periodic->rank, &run);
	if (asked)
		judge_sheet_tell(judge, told, asked, &why);
	return error;
}

void judge_periodic_add(
	const struct judge *judge, const struct rank_state *state, struct track *track)
{
	const struct periodic *periodic =
		state->periodic ? &judge->periodics[state->periodic - 1] : NULL;

	if (periodic && periodic->every == track->every && periodic->phase == track->phase)
		excess_add(&track->sums, &periodic->block);
}

/* A rank that is late in these steps disturbs their transfers as well. */
static bool rank_is_late(const struct judge *judge, const struct periodic *transfers)
{
	for (size_t p = 0; p < PERIODICS_MAX; p++) {
		const struct periodic *periodic = &judge->periodics[p];

		if (periodic->every == transfers->every && periodic->phase == transfers->phase &&
			transfers->height < LATE_FACTOR * periodic->height)
			return true;
	}
	return false;
}

/* Of transfers, since their onset or as long as is known. */
static void fill_run(
	const struct judge *judge, const struct periodic *periodic, struct comm_run *run)
{
	uint64_t first = oldest_step(judge);

	if (periodic->first_step > first)
		first = periodic->first_step;
	*run = (struct comm_run){.first_step = first,
		.start_ns = judge->step_start_ns[first % STEP_HISTORY],
		.steps = judge->next_step - first,
		.dated = true,
		.small = true,
		.evidence = periodic->surprise,
		.every = periodic->every,
		.phase = periodic->phase};
	for (uint64_t s = first; s < judge->next_step; s++) {
		run->time_ns += judge->step_length_ns[s % STEP_HISTORY];
		if (!in_class(periodic, s))
			continue;
		run->excess_ns += (int64_t)fabsf(judge->comm->steps[s % STEP_HISTORY]);
		run->loud_ns += judge->step_length_ns[s % STEP_HISTORY];
		run->loud_blocks++;
	}
	run->blocks = run->loud_blocks;
}

bool judge_periodic_transfers(const struct judge *judge, struct comm_run *run)
{
	const struct periodic *periodic = &judge->comm->periodic;

	if (!periodic->every || !is_loud(judge, periodic, NULL, NULL) ||
		rank_is_late(judge, periodic) || !is_proven(judge, periodic, 1, NULL))
		return false;
	fill_run(judge, periodic, run);
	return true;
}

/*
 * False: of late, a rank, or transfers (state NULL), were slow as often as before, but in other steps, or
 * they were in most steps.
 */
static bool holds(
	const struct judge *judge, const struct rank_state *state, const struct periodic *periodic)
{
	uint64_t span = (uint64_t)PERIODIC_LATEST_ROUNDS * periodic->every,
		 first = oldest_step(judge);
	uint64_t hits = 0, other_hits = 0, rounds;

	if (judge->next_step - first > span)
		first = judge->next_step - span;
	rounds = (judge->next_step - first) / periodic->every;
	for (uint64_t s = first; s < judge->next_step; s++) {
		double delay = state ? judge_step_delay(judge, state, s)
				     : fabs((double)judge->comm->steps[s % STEP_HISTORY]);

		if (delay < periodic->height / 2 * (double)judge->step_length_ns[s % STEP_HISTORY])
			continue;
		hits += in_class(periodic, s);
		other_hits += !in_class(periodic, s);
	}
	return (2 * hits >= rounds || 2 * (hits + other_hits) < rounds) &&
	       2 * other_hits < rounds * (periodic->every - 1);
}

/* The track is of something that comes back every so many steps, and of little else. */
static bool explains(const struct judge *judge, const struct rank_state *state,
	const struct periodic *periodic, size_t series)
{
	return periodic->every && periodic->share >= PERIODIC_CLASS_SHARE_MIN &&
	       is_proven(judge, periodic, series, NULL) && holds(judge, state, periodic);
}

/* What all ranks of a track do in the same steps, or its transfers; NULL: they do not. */
static const struct periodic *period_of_track(const struct judge *judge, const struct track *track)
{
	const struct verdict *verdict = &judge->verdicts[track->verdict];
	const struct periodic *found = NULL;

	if (track->comm)
		return explains(judge, NULL, &judge->comm->periodic, 1) ? &judge->comm->periodic
									: NULL;
	/* A quota's periods are of time. */
	if (verdict->cause == CAUSE_CGROUP_THROTTLE)
		return NULL;
	for (uint32_t i = 0; i < verdict->rank_count; i++) {
		const struct rank_state *state = &judge->ranks[verdict->ranks[i]];
		const struct periodic *own;

		if (!state->periodic)
			return NULL;
		own = &judge->periodics[state->periodic - 1];
		if (!explains(judge, state, own, judge->ranks_in_block) ||
			(found && (found->every != own->every || found->phase != own->phase)))
			return NULL;
		if (!found || own->height > found->height)
			found = own;
	}
	return found;
}

/* Verdicts that turn out to be of every so-many-th step. */
static void revise_tracks(struct judge *judge)
{
	for (size_t t = 0; t < judge->track_count; t++) {
		struct track *track = &judge->tracks[t];
		const struct periodic *found;

		if (!track->active || track->imbalance || track->every)
			continue;
		found = period_of_track(judge, track);
		if (found && track->comm)
			fill_run(judge, found, &judge->comm->run);
		if (found)
			judge_track_periodic(
				judge, track, found->every, found->phase, found->height);
	}
}

bool judge_periodic_holds(const struct judge *judge, const struct track *track)
{
	const struct verdict *verdict = &judge->verdicts[track->verdict];
	const struct periodic now = {
		.every = track->every, .phase = track->phase, .height = track->level};

	return holds(judge, track->comm ? NULL : &judge->ranks[verdict->ranks[0]], &now);
}

void judge_periodic_look(struct judge *judge)
{
	if (judge_now_ns(judge) - judge->periodic_ns < SAMPLE_NS)
		return;
	look(judge);
	revise_tracks(judge);
}

int judge_periodic_block(struct judge *judge)
{
	int error = 0;

	for (size_t p = 0; p < PERIODICS_MAX && error == 0; p++) {
		struct periodic *periodic = &judge->periodics[p];

		if (!periodic->every || !judge->ranks[periodic->rank].in_block)
			continue;
		excess_add(&periodic->sums, &periodic->block);
		if (periodic->block.steps)
			error = tell_rank(judge, periodic);
		periodic->block = (struct excess_sums){0};
	}
	return error;
}
