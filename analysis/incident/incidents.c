/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, follows and ends verdicts. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/judge/internal.h"
#include "analysis/policy.h"

static bool is_blamed(const struct judge *judge, const struct incident *incident,
	const struct verdict *verdict, uint32_t r)
{
	const struct rank_state *state = &judge->ranks[r];

	return verdict_names(verdict, r) ||
	       state->incident == (uint32_t)(incident - judge->incidents.list) + 1 ||
	       (verdict->cause == CAUSE_STAGE_IMBALANCE &&
		       state->totals.role == judge->imbalance->worst);
}

/* Those that wait in the open block; where none does, as before. */
static void find_victims(const struct judge *judge, const struct incident *incident, double level,
	struct verdict *verdict)
{
	uint32_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *state = &judge->ranks[r];

		if (!state->in_block || is_blamed(judge, incident, verdict, r) ||
			(verdict->verdict_class != VERDICT_COMM_SLOW &&
				state->wait < VICTIM_WAIT_MIN * level))
			continue;
		if (count < VERDICT_VICTIMS_MAX)
			verdict->victims[count] = r;
		verdict->victim_count = ++count;
	}
}

/* share_of_block: 1; of every so-many-th step what these are of it, 0: it has none, and says nothing. */
static double loudness_of(const struct judge *judge, const struct incident *incident,
	const struct signal *signal, double *share_of_block)
{
	*share_of_block = 1;
	return incident->every ? periodic_level(signal, &judge->times, &judge->block,
					 incident->every, incident->phase, share_of_block)
			       : signal->level;
}

static double loudness(struct judge *judge, const struct incident *incident, double *share_of_block)
{
	const struct verdict *verdict = judge_verdict(judge, incident);
	double level = 0;

	if (incident->kind != INCIDENT_RANKS)
		return loudness_of(
			judge, incident, judge_signal_of(judge, incident->kind), share_of_block);
	*share_of_block = 1;
	for (uint32_t i = 0; i < verdict->rank_count; i++) {
		const struct rank_state *state = &judge->ranks[verdict->ranks[i]];

		if (state->in_block)
			level = fmax(level,
				loudness_of(judge, incident, &state->signal, share_of_block));
	}
	return level;
}

/* No rank's and no link's: the program is split so. */
static bool is_of_program(const struct incident *incident)
{
	return incident->kind == INCIDENT_STAGES || incident->kind == INCIDENT_SEQUENCES;
}

static double slowdown_of(double time_ns, double gain_ns)
{
	return time_ns > 0 ? time_ns / fmax(time_ns - gain_ns, LEFT_SHARE_MIN * time_ns) : 1;
}

/* By the replays of its loud blocks. */
static double replayed_slowdown(const struct judge *judge, const struct incident *incident)
{
	return slowdown_of((double)incident->cost.time_ns,
		incident->kind == INCIDENT_TRANSFERS
			? judge_comm_cost_ns(judge->comm, (double)incident->cost.time_ns,
				  (double)incident->cost.gain_ns)
			: judge_gpu_gain_ns(judge, incident));
}

/* What the job lost from the onset on. */
static struct progress_loss lost_until(
	const struct judge *judge, const struct incident *incident, int64_t until_ns)
{
	struct progress_rate now = progress_between(judge->progress, incident->onset_ns, until_ns);

	return progress_lost(&incident->usual, &now);
}

/* How much of a verdict's time another one held. */
static double overlap(const struct incident *incident, const struct incident *other)
{
	double from_ns = fmax((double)incident->onset_ns, (double)other->onset_ns);
	double until_ns = fmin((double)incident->loud_until_ns, (double)other->loud_until_ns);

	return fmax(until_ns - from_ns, 0) /
	       fmax((double)(incident->loud_until_ns - incident->onset_ns), 1);
}

/*
 * The slow-down as the job feels it: what it lost since the onset, until the last block that is worth half of the verdict's level. The replays say whose it is where several verdicts hold,
 * and all where there is no past to compare with.
 */
static double felt_slowdown(const struct judge *judge, const struct incident *incident)
{
	struct progress_loss lost = lost_until(judge, incident, incident->felt.until_ns);
	double replayed = replayed_slowdown(judge, incident), all = 0;

	if (incident->every || is_of_program(incident) || !lost.known)
		return replayed;
	for (size_t t = 0; t < judge->incidents.count; t++)
		all += overlap(incident, &judge->incidents.list[t]) *
		       (1 - 1 / replayed_slowdown(judge, &judge->incidents.list[t]));

	double share = all > 0 ? (1 - 1 / replayed) / all : 1;

	return 1 / (1 - fmax(lost.share, 0) * fmin(share, 1));
}

/* Of every so-many-th step, on average and of these alone: all of the gain is in them. */
static void tell_period(
	const struct judge *judge, const struct incident *incident, struct verdict *verdict)
{
	verdict->period.steps = step_every_of_program(&judge->times, incident->every);
	verdict->period.slowdown = 0;
	if (!incident->every)
		return;

	double gain_ns = judge_gpu_gain_ns(judge, incident);

	verdict->slowdown = slowdown_of((double)incident->cost.time_ns, gain_ns);
	verdict->period.slowdown = slowdown_of((double)incident->cost.affected_ns, gain_ns);
}

static void set_onset(
	const struct judge *judge, struct incident *incident, uint64_t step, int64_t start_ns)
{
	struct verdict *verdict = judge_verdict(judge, incident);

	incident->onset_step = step;
	incident->onset_ns = start_ns;
	verdict->first_step = step_of_program(&judge->times, step);
	verdict->onset.value = start_ns;
	if (incident->kind == INCIDENT_RANKS)
		incident->usual_step_ns = judge_gpu_usual_step_ns(judge, step);
}

void judge_date_since_cause(const struct judge *judge, struct incident *incident, int64_t since_ns)
{
	int64_t start_ns;
	uint64_t step;

	if (since_ns <= incident->onset_ns || incident->every)
		return;
	step = step_at(&judge->times, since_ns, judge_now_ns(judge), &start_ns);
	set_onset(judge, incident, step > incident->onset_step ? step : incident->onset_step,
		since_ns);
}

static void refresh(struct judge *judge, struct incident *incident)
{
	struct verdict *verdict = judge_verdict(judge, incident);
	double share_of_block, level = loudness(judge, incident, &share_of_block);
	/* The block in which a fault ends shows less of it. */
	bool whole = incident->loud_blocks == 0 || level >= MOST_SHARE * incident->level;

	if (is_of_program(incident))
		judge_imbalance_tell(judge, incident->kind, verdict);
	else if (incident->kind == INCIDENT_RANKS)
		judge_date_since_cause(judge, incident, judge_tell_cause(judge, incident, verdict));
	else if (!judge_comm_moves(judge))
		(void)judge_comm_locate(judge, incident->onset_ns, judge_now_ns(judge), verdict);
	verdict->slowdown = felt_slowdown(judge, incident);
	tell_period(judge, incident, verdict);
	verdict->sure.confidence = alert_confidence(incident->evidence, CHANGE_THRESHOLD,
		verdict->sure.share_explained, incident->kind == INCIDENT_TRANSFERS);
	if (judge->lengths.job.clock_error_us > verdict->sure.clock_error_us)
		verdict->sure.clock_error_us = judge->lengths.job.clock_error_us;
	if (whole)
		find_victims(judge, incident, share_of_block * incident->level, verdict);
}

static void tell(struct judge *judge, struct incident *incident, enum verdict_event event)
{
	const struct verdict *verdict = judge_verdict(judge, incident);

	alert_told(&incident->memory, verdict, (struct job_ns){judge_now_ns(judge)});
	if (judge->options.on_verdict)
		judge->options.on_verdict(judge->options.context, event, verdict);
}

static void reach_now(const struct judge *judge, struct verdict *verdict)
{
	verdict->last_step = step_of_program(&judge->times, judge->times.next - 1);
	verdict->end.value = judge_now_ns(judge);
}

int judge_add_verdict(struct judge *judge, struct verdict **result)
{
	struct verdict *verdict;

	if (judge->incidents.verdict_count == VERDICTS_MAX)
		return -ENOSPC;
	if (array_grow((void **)&judge->incidents.verdicts, &judge->incidents.verdict_capacity,
		    judge->incidents.verdict_count + 1, sizeof(*judge->incidents.verdicts)) < 0)
		return -ENOMEM;
	verdict = &judge->incidents.verdicts[judge->incidents.verdict_count++];
	*verdict = (struct verdict){.id = (uint32_t)judge->incidents.verdict_count};
	*result = verdict;
	return 0;
}

static int add_incident(struct judge *judge, struct incident **result)
{
	struct verdict *verdict;
	size_t t;
	int error;

	for (t = 0; t < judge->incidents.count && judge->incidents.list[t].active; t++)
		;
	if (t == INCIDENTS_MAX)
		return -ENOSPC; /* the next block tries again */
	error = judge_add_verdict(judge, &verdict);
	if (error < 0)
		return error;
	verdict->alert.value = judge->times.known_ns > judge_now_ns(judge) ? judge->times.known_ns
									   : judge_now_ns(judge);
	reach_now(judge, verdict);
	if (t == judge->incidents.count)
		judge->incidents.count++;
	whatif_line_reset(&judge->incidents.lines[t]);
	judge->incidents.list[t] = (struct incident){.active = true,
		.verdict = judge->incidents.verdict_count - 1,
		.loud_until_ns = judge_now_ns(judge),
		.least = DELAY_SHARE_MIN,
		.alert_step = judge->times.next,
		.gap = 1};
	*result = &judge->incidents.list[t];
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
static double gain_share(const struct run *run)
{
	double share = (double)run->suspect_gain_ns / (double)run->suspect_delay_ns;

	if (run->every || run->sums.on_device || run->suspect_delay_ns <= 0 ||
		share < GAIN_SHARE_MIN)
		return 1;
	return fmin(share, 1);
}

/* Of a rank that is slow: the steps since its onset, and what it delayed them by. */
static void take_past(const struct judge *judge, struct incident *incident,
	const struct signal *signal, const struct run *run, uint64_t onset)
{
	int64_t time_ns = 0, delay_ns = 0, affected_ns = 0;
	uint64_t oldest = step_oldest(&judge->times), steps = run->sums.steps;

	if (run->every && onset < oldest)
		onset = oldest;
	if (onset == judge->times.next || onset < oldest) {
		time_ns = run->sums.time_ns;
		delay_ns = run->sums.delay_ns;
	} else {
		steps = steps_kept_in(&judge->times, onset, judge->times.next);
		for (uint64_t s = onset; s < judge->times.next; s++) {
			int64_t length_ns = (int64_t)step_length_ns(&judge->times, s);

			time_ns += length_ns;
			if (run->every && s % run->every != run->phase)
				continue;
			affected_ns += length_ns;
			delay_ns += (int64_t)signal_step_ns(signal, &judge->times, s);
		}
	}
	if (time_ns <= incident->cost.time_ns)
		return;
	incident->cost.time_ns = time_ns;
	incident->cost.affected_ns = affected_ns;
	incident->cost.steps = steps;
	delay_ns = (int64_t)(gain_share(run) * (double)delay_ns);
	if (delay_ns > incident->cost.gain_ns)
		incident->cost.gain_ns = delay_ns;
	incident->cost.delay_ns = incident->cost.gain_ns;
}

/* Puts a rank that is slow into a verdict, with what its run has gathered. */
static void join(
	struct judge *judge, struct incident *incident, uint32_t rank, const struct run *run)
{
	const struct explain_context context = judge_explain_context(judge, judge_now_ns(judge));
	struct rank_state *state = &judge->ranks[rank];
	struct verdict *verdict = judge_verdict(judge, incident);
	const struct dated dated = judge_date_run(judge, &state->signal, run);

	if (verdict->rank_count == 0 || run->first_step < incident->begin.first_step)
		incident->begin = run_begin(run);
	insert_rank(verdict, rank);
	excess_add(&incident->sums, &run->sums);
	if (verdict->rank_count == 1 || dated.step < incident->onset_step) {
		set_onset(judge, incident, dated.step, dated.start_ns);
		explain_past(&context, rank, dated.start_ns, &incident->past);
	}
	/* Before there was a verdict to replay without, its largest delay tells what it cost. */
	if (incident->alert_step == judge->times.next)
		take_past(judge, incident, &state->signal, run, dated.step);
	incident->level = fmax(incident->level, dated.level);
	incident->least = fmin(incident->least, run->every ? PERIODIC_HEIGHT_MIN : run_least(run));
	incident->every = run->every;
	incident->phase = run->phase;
	incident->gap = fmax(incident->gap,
		(double)run->blocks / (double)(run->loud_blocks ? run->loud_blocks : 1));
	incident->evidence = fmax(incident->evidence, run->change.evidence);
	incident->loud_until_ns = incident->felt.until_ns = judge_now_ns(judge);
	incident->most_level = fmax(incident->most_level, incident->level);
	state->incident = (uint32_t)(incident - judge->incidents.list) + 1;
	state->signal.doubtful_count = 0; /* no noise */
	whatif_line_reset(&judge->incidents.lines[incident - judge->incidents.list]);
	signal_set_told(&state->signal, &judge->times, dated.step);
	memset(state->signal.runs, 0, sizeof(state->signal.runs)); /* of what comes now */
}

/*
 * Who is slow is said against a healthy rank: beside this one, some rank is left that no verdict names, of its peers, or, where it
 * has none, of the job.
 */
static bool leaves_healthy(const struct judge *judge, uint32_t rank)
{
	bool has_peers = false, leaves_other = false;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *state = &judge->ranks[r];
		bool is_peer = state->layout == judge->ranks[rank].layout;

		if (r == rank || !state->in_block)
			continue;
		if (is_peer && !state->incident)
			return true;
		has_peers |= is_peer;
		leaves_other |= !state->incident;
	}
	return !has_peers && leaves_other;
}

/*
 * A verdict of the same kind, just begun, for the rank to join; experts that are uneven are so together, whenever each is told.
 * NULL: there is none, or it would name everybody.
 */
static struct incident *find_kin(
	struct judge *judge, uint32_t rank, const struct explanation *why, const struct run *run)
{
	if (!leaves_healthy(judge, rank))
		return NULL;
	for (size_t t = 0; t < judge->incidents.count; t++) {
		struct incident *incident = &judge->incidents.list[t];
		const struct verdict *verdict = judge_verdict(judge, incident);

		if (incident->active && incident->kind == INCIDENT_RANKS &&
			verdict->verdict_class == why->verdict_class &&
			verdict->cause == why->cause && incident->every == run->every &&
			incident->phase == run->phase &&
			(why->verdict_class == VERDICT_WORKLOAD_IMBALANCE ||
				judge_now_ns(judge) - verdict->alert.value <= JOIN_NS))
			return incident;
	}
	return NULL;
}

/* All of it is known: tells it. */
static void begin(struct judge *judge, struct incident *incident)
{
	incident->usual = progress_before(judge->progress, incident->onset_ns, judge_now_ns(judge));
	incident->aside_ns = incident->onset_ns;
	progress_set_aside(judge->progress, incident->aside_ns, judge_now_ns(judge), true);
	refresh(judge, incident);
	tell(judge, incident, VERDICT_EVENT_ALERT);
}

int judge_open(struct judge *judge, uint32_t rank, const struct run *of_signal)
{
	const struct run told = *of_signal, *run = &told; /* the signal's are over when it joins */
	struct explanation why, other_why;
	struct incident *incident;
	int error;

	judge_explain_run(judge, rank, run, &why);
	incident = find_kin(judge, rank, &why, run);
	if (incident) {
		join(judge, incident, rank, run);
		refresh(judge, incident);
		return 0; /* told as an update when one is due */
	}
	error = add_incident(judge, &incident);
	if (error == -ENOSPC)
		return 0;
	if (error < 0)
		return error;
	join(judge, incident, rank, run);
	/* Others that are about to be told for the same reason come along. */
	for (uint32_t r = 0; r < judge->rank_end && !run->every; r++) {
		struct rank_state *other = &judge->ranks[r];
		const struct run *own = &other->signal.runs[RUN_QUICK];

		if (other->incident || !other->in_block || own->change.sum < CHANGE_THRESHOLD / 2 ||
			!judge_worth_telling(judge, r, RUN_QUICK, &other_why, NULL))
			continue;
		if (other_why.verdict_class == why.verdict_class && other_why.cause == why.cause &&
			leaves_healthy(judge, r))
			join(judge, incident, r, own);
	}
	begin(judge, incident);
	return 0;
}

/*
 * What is over must be quiet for several times as long as it was loud, and as it was quiet between.
 * Stalls of transfers are long, and how rare they are is learnt while they go on.
 */
static double gap_of_run(const struct judge *judge, const struct run *run)
{
	double usual_ns = fmax(judge->judged.quiet.step_ns, BLOCK_NS);

	if (!run->loud_blocks)
		return 1;
	return fmax(fmax((double)run->blocks, (double)run->loud_ns / usual_ns) /
			    (double)run->loud_blocks,
		1);
}

/* What a run of transfers, or of the program's split, cost so far. */
static void take_run(struct incident *incident, const struct run *run)
{
	incident->every = run->every;
	incident->phase = run->phase;
	incident->cost.steps = run->sums.steps;
	incident->cost.time_ns = run->sums.time_ns;
	incident->cost.affected_ns = run->loud_ns;
	incident->cost.gain_ns = run->sums.delay_ns;
}

/* The step that a run of transfers began with. The program's split is seen in blocks alone. */
static void date(const struct judge *judge, struct incident *incident, const struct run *run)
{
	uint64_t step = run->first_step;
	int64_t start_ns = run->start_ns;

	if (incident->kind == INCIDENT_TRANSFERS)
		start_ns = judge_comm_onset(judge, &step);
	set_onset(judge, incident, step, start_ns);
}

int judge_open_job(struct judge *judge, enum incident_kind kind, const struct run *run)
{
	struct incident *incident;
	int error = add_incident(judge, &incident);

	if (error == -ENOSPC && kind == INCIDENT_TRANSFERS)
		judge->comm->sockets.remembers = false;
	if (error < 0)
		return error == -ENOSPC ? 0 : error;
	incident->kind = kind;
	judge_verdict(judge, incident)->verdict_class =
		kind == INCIDENT_TRANSFERS ? VERDICT_COMM_SLOW : VERDICT_WORKLOAD_IMBALANCE;
	date(judge, incident, run);
	take_run(incident, run);
	incident->level = (double)run->sums.delay_ns / (double)run->sums.time_ns *
			  (run->every ? run->every : 1);
	incident->least = run->every ? PERIODIC_HEIGHT_MIN : run_least(run);
	incident->evidence = run->change.evidence;
	if (kind == INCIDENT_TRANSFERS) {
		judge_loss_told(judge);
		if (!judge->comm->sockets.remembers)
			judge_comm_remember(judge, incident->onset_ns);
		incident->gap = run->every ? 1 : gap_of_run(judge, run);
		signal_set_told(&judge->comm->signal, &judge->times, incident->onset_step);
	}
	begin(judge, incident);
	return 0;
}

/*
 * It is found to be slow in every so-many-th step only: the level, and what it is made of, are those of these
 * steps from now on; the costs, those of all steps since its onset.
 */
void judge_incident_periodic(
	struct judge *judge, struct incident *incident, const struct periodic *found)
{
	struct verdict *verdict = judge_verdict(judge, incident);
	const struct run run = {.every = found->every, .phase = found->phase};

	incident->every = found->every;
	incident->phase = found->phase;
	incident->level = found->height;
	incident->least = PERIODIC_HEIGHT_MIN;
	incident->gap = 1;
	incident->memory.quiet = 0;
	incident->between = (struct run){0};
	incident->cost.time_ns = incident->cost.gain_ns = 0;
	if (incident->kind == INCIDENT_TRANSFERS) {
		judge->comm->run = periodic_run(found, &judge->comm->signal, &judge->times);
		take_run(incident, &judge->comm->run);
	}
	incident->sums = (struct excess_sums){0};
	for (uint32_t i = 0; i < verdict->rank_count && incident->kind == INCIDENT_RANKS; i++) {
		struct rank_state *state = &judge->ranks[verdict->ranks[i]];

		excess_add(&incident->sums, &judge_periodic_of(judge, state)->sums);
		take_past(judge, incident, &state->signal, &run, incident->onset_step);
	}
	refresh(judge, incident);
}

/* What comes now is still of these steps, and of no others; or it does not come any more. */
static bool period_holds(struct judge *judge, const struct incident *incident)
{
	const struct verdict *verdict = judge_verdict(judge, incident);
	const struct periodic now = {
		.every = incident->every, .phase = incident->phase, .height = incident->level};

	return periodic_holds(&now,
		incident->kind == INCIDENT_RANKS ? &judge->ranks[verdict->ranks[0]].signal
						 : judge_signal_of(judge, incident->kind),
		&judge->times);
}

/* It is slow in other steps as well: it goes on as what it costs on average. */
static void drop_period(struct judge *judge, struct incident *incident)
{
	incident->level /= incident->every;
	incident->least = fmin(incident->level, DELAY_SHARE_MIN);
	incident->every = 0;
	if (incident->kind == INCIDENT_TRANSFERS)
		judge->comm->run.every = 0;
	incident->cost.time_ns += incident->between.sums.time_ns;
	incident->cost.gain_ns += incident->between.sums.delay_ns;
	incident->cost.steps += incident->between.sums.steps;
	incident->between = (struct run){0};
	incident->memory.quiet = 0;
}

/* What came after it says better what is usual, and so what the job lost. */
static void end_loss(struct judge *judge, struct incident *incident)
{
	struct verdict *verdict = judge_verdict(judge, incident);
	struct progress_rate around;

	if (!judge_verdict_holds(judge, incident)) {
		progress_set_aside(judge->progress, incident->aside_ns, judge_now_ns(judge), false);
		progress_set_aside(
			judge->progress, incident->onset_ns, incident->loud_until_ns, true);
	}
	around = progress_around(judge->progress, incident->onset_ns, incident->felt.until_ns);
	if (around.slots && incident->usual.slots)
		incident->usual = around;
	verdict->slowdown = felt_slowdown(judge, incident);
	tell_period(judge, incident, verdict);
}

void judge_end_incident(struct judge *judge, struct incident *incident)
{
	end_loss(judge, incident);
	judge_verdict(judge, incident)->ended = 1;
	tell(judge, incident, VERDICT_EVENT_RECOVERED);
	incident->active = false;
	if (incident->kind == INCIDENT_TRANSFERS) {
		judge->comm->periodic = (struct periodic){0};
		judge->comm->sockets.told_until_ns = judge_now_ns(judge);
		judge->comm->sockets.remembers = false;
		judge->comm->sockets.unlike_ns = 0;
	}
	if (incident->kind != INCIDENT_RANKS) {
		memset(judge_signal_of(judge, incident->kind)->runs, 0, sizeof(struct run[RUN_NR]));
		return;
	}
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];

		if (state->incident == (uint32_t)(incident - judge->incidents.list) + 1) {
			state->incident = 0;
			judge_periodic_forget(judge, state);
			memset(state->signal.runs, 0, sizeof(state->signal.runs));
		}
	}
}

/* The same from one loud block to the next, on average. */
static void follow_gap(const struct judge *judge, struct incident *incident)
{
	const struct run *quiet = &incident->between;
	double distance = (double)quiet->blocks + 1;

	if (quiet->blocks)
		distance = fmax(distance, (double)judge->block.time_ns * (double)quiet->blocks /
						  (double)quiet->sums.time_ns);
	incident->gap += (distance - incident->gap) / QUICK_MEAN;
	incident->gap = fmax(incident->gap, 1);
}

/* What the open block has of the incident: its steps, their time, and what was lost. */
static struct excess_sums loss_of_block(const struct judge *judge, const struct incident *incident,
	double level, double share_of_block)
{
	struct excess_sums sums = {.steps = judge->block.steps,
		.time_ns = judge->block.time_ns,
		.delay_ns = incident->cost.block_gain_ns};

	if (incident->kind == INCIDENT_TRANSFERS && !incident->every)
		sums.delay_ns = judge->comm->block.delay_ns;
	else if (incident->kind != INCIDENT_RANKS)
		sums.delay_ns = (int64_t)(level * share_of_block * (double)judge->block.time_ns);
	return sums;
}

/* A quiet block, of a verdict whose loud ones are not alone: it is taken when there is a loud one again. */
static void take_quiet_block(struct incident *incident, const struct block *block,
	const struct excess_sums *sums, double share_of_block)
{
	if (!incident->every && incident->kind != INCIDENT_TRANSFERS)
		return;
	excess_add(&incident->between.sums, sums);
	incident->between.blocks++;
	if (incident->every)
		incident->between.loud_ns += (int64_t)(share_of_block * (double)block->time_ns);
}

/* What came after the alert says better how large the change is, and so where it began. */
static void refine_onset(struct judge *judge, struct incident *incident)
{
	struct verdict *verdict = judge_verdict(judge, incident);
	uint64_t later = judge->times.next - incident->alert_step, first = UINT64_MAX;

	if (incident->loud_blocks > ONSET_BLOCKS ||
		judge->times.next - incident->begin.first_step > STEP_HISTORY / 2)
		return;
	for (uint32_t i = 0; i < verdict->rank_count; i++) {
		const struct signal *signal = &judge->ranks[verdict->ranks[i]].signal;
		uint64_t onset = signal_onset(signal, &judge->times, &judge->block, incident->begin,
			signal_latest_level(signal, &judge->times, later, false));

		first = onset < first ? onset : first;
	}
	if (first >= incident->alert_step)
		return;
	set_onset(judge, incident, first, step_start_ns(&judge->times, first));
}

static void take_loud_block(struct judge *judge, struct incident *incident, double level,
	const struct excess_sums *sums, double share_of_block)
{
	struct verdict *verdict = judge_verdict(judge, incident);
	const struct run *between = &incident->between;
	int64_t rest_ns = judge_now_ns(judge) - judge->block.time_ns - incident->loud_until_ns;

	for (uint32_t i = 0; i < verdict->rank_count && incident->kind == INCIDENT_RANKS; i++) {
		const struct rank_state *state = &judge->ranks[verdict->ranks[i]];
		const struct periodic *found = judge_periodic_of(judge, state);
		const struct excess_sums *own = NULL;

		if (state->in_block && !incident->every)
			own = &state->block.sums;
		else if (state->in_block && found && found->every == incident->every &&
			 found->phase == incident->phase)
			own = &found->block;
		if (!own)
			continue;
		excess_add(&incident->sums, own);
		incident->cost.delay_ns += own->delay_ns;
	}
	incident->cost.time_ns += sums->time_ns + between->sums.time_ns;
	incident->cost.affected_ns += (int64_t)(share_of_block * (double)judge->block.time_ns) +
				      (incident->every ? between->loud_ns : 0);
	incident->cost.steps += sums->steps + between->sums.steps;
	incident->cost.gain_ns += sums->delay_ns + between->sums.delay_ns;
	if (incident->kind == INCIDENT_TRANSFERS && !incident->every)
		follow_gap(judge, incident);
	if ((double)rest_ns > incident->gap * BLOCK_NS)
		incident->felt.apart_ns += rest_ns;
	incident->felt.apart_ns = larger(incident->felt.apart_ns - judge->block.time_ns, 0);
	incident->between = (struct run){0};
	incident->level += (level - incident->level) / INCIDENT_LEVEL_MEMORY;
	incident->evidence += 1;
	incident->loud_until_ns = judge_now_ns(judge);
	incident->most_level = fmax(incident->most_level, incident->level);
	if ((level >= HALF_SHARE * incident->most_level && incident->felt.apart_ns == 0) ||
		incident->kind != INCIDENT_RANKS)
		incident->felt.until_ns = incident->loud_until_ns;
	incident->loud_blocks++;
	reach_now(judge, verdict);
	if (incident->kind == INCIDENT_RANKS && !incident->every)
		refine_onset(judge, incident);
}

/* The job is as fast again as it was before the onset. */
static bool is_over(const struct judge *judge, const struct incident *incident)
{
	struct progress_loss lost = lost_until(judge, incident, incident->loud_until_ns);

	return !incident->every && !is_of_program(incident) && lost.known &&
	       (lost.share + PROGRESS_LOST_ERRORS * lost.error < GAIN_SHARE_MIN * incident->level ||
		       progress_is_back(
			       judge->progress, incident->onset_ns, &incident->usual, &lost));
}

/* As long as so many blocks, each with a step that it may be loud in. */
static double blocks_ns(const struct judge *judge, const struct incident *incident, double count)
{
	return count * fmax(BLOCK_NS, fmax(incident->every, 1) * judge->judged.quiet.step_ns);
}

void judge_follow_unmeasured(struct judge *judge)
{
	double length_ns = (double)(judge_now_ns(judge) - judge->traits.unmeasured.start_ns);

	for (size_t t = 0; t < judge->incidents.count; t++) {
		struct incident *incident = &judge->incidents.list[t];
		struct verdict *verdict = judge_verdict(judge, incident);

		if (!incident->active ||
			length_ns < blocks_ns(judge, incident, RECOVERY_BLOCKS * incident->gap))
			continue;
		verdict->sure.unmeasured_since = judge->traits.unmeasured.first_step;
		if (alert_update_due(
			    &incident->memory, verdict, (struct job_ns){judge_now_ns(judge)}))
			tell(judge, incident, VERDICT_EVENT_UPDATE);
	}
}

void judge_follow(struct judge *judge)
{
	for (size_t t = 0; t < judge->incidents.count; t++) {
		struct incident *incident = &judge->incidents.list[t];
		struct excess_sums sums;
		double level, share_of_block;
		bool quiet;

		if (!incident->active)
			continue;
		if (incident->every && !period_holds(judge, incident))
			drop_period(judge, incident);
		level = loudness(judge, incident, &share_of_block);
		sums = loss_of_block(judge, incident, level, share_of_block);
		quiet = level < judge_quiet_level(incident) || is_over(judge, incident) ||
			judge_cause_is_gone(judge, incident);
		if (quiet)
			take_quiet_block(incident, &judge->block, &sums, share_of_block);
		else
			take_loud_block(judge, incident, level, &sums, share_of_block);
		incident->cost.block_gain_ns = 0;
		if (!quiet)
			refresh(judge, incident);
		if (share_of_block > 0 && alert_recovered(&incident->memory, quiet, incident->gap))
			judge_end_incident(judge, incident);
		else if (alert_update_due(&incident->memory, judge_verdict(judge, incident),
				 (struct job_ns){judge_now_ns(judge)}))
			tell(judge, incident, VERDICT_EVENT_UPDATE);
	}
}
