/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/judge/judge.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/judge/internal.h"

int judge_create(const struct judge_options *options, struct judge **result)
{
	struct judge *judge = calloc(1, sizeof(*judge));

	if (!judge)
		return -ENOMEM;
	judge->comm = calloc(1, sizeof(*judge->comm));
	judge->imbalance = calloc(1, sizeof(*judge->imbalance));
	judge->costs = calloc(1, sizeof(*judge->costs));
	if (!judge->comm || !judge->imbalance || !judge->costs ||
		progress_create(&judge->progress) < 0) {
		free(judge->costs);
		free(judge->comm);
		free(judge->imbalance);
		free(judge);
		return -ENOMEM;
	}
	judge->options = *options;
	blame_init(&judge->blame);
	whatif_init(&judge->whatif);
	*result = judge;
	return 0;
}

void judge_destroy(struct judge *judge)
{
	if (!judge)
		return;
	for (size_t r = 0; r < judge->rank_capacity; r++) {
		if (judge->ranks[r].evidence)
			evidence_fini(judge->ranks[r].evidence);
		free(judge->ranks[r].evidence);
	}
	looks_destroy(judge->looks);
	judge_costs_destroy(judge->costs);
	progress_destroy(judge->progress);
	blame_fini(&judge->blame);
	whatif_fini(&judge->whatif);
	for (size_t t = 0; t < INCIDENTS_MAX; t++)
		whatif_line_fini(&judge->lines[t]);
	for (int kind = 0; kind < RUN_STEEP; kind++)
		whatif_line_fini(&judge->suspect_lines[kind]);
	whatif_line_fini(&judge->ideal_line);
	whatif_line_fini(&judge->comm->line);
	whatif_line_fini(&judge->imbalance->line);
	link_flows_fini(&judge->links);
	free(judge->comm->by_kind);
	free(judge->comm->faster);
	free(judge->comm->rows);
	free(judge->comm);
	free(judge->imbalance->scales);
	free(judge->imbalance->messages.work);
	judge_even_fini(&judge->imbalance->even);
	judge_roles_fini(judge->imbalance);
	free(judge->imbalance);
	free(judge->healed);
	free(judge->ranks);
	free(judge->scratch);
	free(judge->verdicts);
	free(judge->pids);
	free(judge);
}

void judge_watch_sheets(struct judge *judge,
	void (*on_sheet)(
		void *context, const struct gate_sheet *sheet, const struct explanation *why),
	void *context)
{
	judge->on_sheet = on_sheet;
	judge->sheet_context = context;
}

static int get_rank(struct judge *judge, uint32_t rank, struct rank_state **state)
{
	if (rank >= STEP_RANK_COUNT_MAX)
		return -EINVAL;
	if (rank >= judge->rank_capacity) {
		size_t capacity = judge->rank_capacity ? judge->rank_capacity : 16;

		while (capacity <= rank)
			capacity *= 2;
		struct rank_state *grown = realloc(judge->ranks, capacity * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + judge->rank_capacity, 0,
			(capacity - judge->rank_capacity) * sizeof(*grown));
		judge->ranks = grown;
		judge->rank_capacity = capacity;
	}
	if (rank >= judge->rank_end)
		judge->rank_end = rank + 1;
	*state = &judge->ranks[rank];
	return 0;
}

int judge_measurable(struct judge *judge, uint32_t rank, uint32_t evidence_mask)
{
	struct rank_state *state;
	int error = get_rank(judge, rank, &state);

	if (error == 0)
		state->evidence_mask = evidence_mask;
	return error;
}

int judge_process(struct judge *judge, uint32_t rank, uint32_t pid)
{
	size_t at = judge->pid_count;
	struct rank_state *state;
	int error = get_rank(judge, rank, &state);

	if (error < 0)
		return error;
	state->pid = pid;

	while (at > 0 && judge->pids[at - 1] > pid)
		at--;
	if (at > 0 && judge->pids[at - 1] == pid)
		return 0;
	if (judge->pid_count == STEP_RANK_COUNT_MAX)
		return 0; /* restarted over and over: enough are known */
	if (judge->pid_count == judge->pid_capacity) {
		size_t capacity = judge->pid_capacity ? judge->pid_capacity * 2 : 16;
		uint32_t *grown = realloc(judge->pids, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		judge->pids = grown;
		judge->pid_capacity = capacity;
	}
	memmove(&judge->pids[at + 1], &judge->pids[at],
		(judge->pid_count - at) * sizeof(*judge->pids));
	judge->pids[at] = pid;
	judge->pid_count++;
	return 0;
}

void judge_missing(struct judge *judge, enum evidence_source source, const char *why)
{
	for (unsigned i = 0; i < sizeof(judge->missing) / sizeof(judge->missing[0]); i++) {
		if ((unsigned)source == 1u << i)
			snprintf(judge->missing[i], sizeof(judge->missing[i]), "%.*s",
				VERDICT_DETAIL_LENGTH - 1, why);
	}
}

/* host_to_job_ns: a first guess of how the clocks lie, until the rank's steps tell. */
static int get_evidence(
	struct judge *judge, uint32_t rank, int64_t host_to_job_ns, struct evidence **evidence)
{
	struct rank_state *state;
	int error = get_rank(judge, rank, &state);

	if (error < 0)
		return error;
	if (!state->evidence) {
		state->evidence = calloc(1, sizeof(*state->evidence));
		if (state->evidence)
			state->evidence->host_to_job_ns = host_to_job_ns;
	}
	*evidence = state->evidence;
	return state->evidence ? 0 : -ENOMEM;
}

int judge_interval(
	struct judge *judge, const struct off_cpu_interval *interval, struct job_ns start)
{
	struct evidence *evidence;
	int error =
		get_evidence(judge, interval->rank, start.value - interval->start.value, &evidence);
	struct evidence_interval one = {
		.start_ns = interval->start.value,
		.end_ns = interval->end.value,
		.other_pid = interval->other_pid,
		.reason = interval->reason,
	};

	if (error < 0)
		return error;
	memcpy(one.other_name, interval->other_name, sizeof(one.other_name));
	one.other_name[sizeof(one.other_name) - 1] = '\0';
	return evidence_add_interval(evidence, &one);
}

void judge_expect_samples(
	const struct judge *judge, const struct metric_sample *samples, size_t count)
{
	static void (*const hops[])(const struct sample_rings *) = {
		sample_rings_expect, sample_rings_expect_groups, sample_rings_expect_rows};

	for (size_t h = 0; h < sizeof(hops) / sizeof(hops[0]); h++) {
		for (size_t i = 0; i < count; i++) {
			uint32_t rank = samples[i].rank;

			if ((i == 0 || rank != samples[i - 1].rank) && rank < judge->rank_end &&
				judge->ranks[rank].evidence)
				hops[h](&judge->ranks[rank].evidence->samples);
		}
	}
}

int judge_sample(struct judge *judge, const struct metric_sample *sample, struct job_ns time)
{
	struct evidence *evidence;
	int error = get_evidence(judge, sample->rank, time.value - sample->time.value, &evidence);

	if (sample->metric == METRIC_RDMA_RETRANSMITS && sample->value > 0)
		judge->ports_lose = true;
	return error < 0 ? error
			 : evidence_add_sample(
				   evidence, sample->metric, sample->time.value, sample->value);
}

static void take_row(struct judge *judge, const struct step_grid *grid, size_t r, int64_t length_ns)
{
	const struct blame_row *row = &judge->blame.rows[r];
	struct rank_state *state = &judge->ranks[grid->rows[r].rank];
	struct excess_sums step = {.steps = 1,
		.program_steps = 1.0 / grid->round_count,
		.time_ns = length_ns,
		.delay_ns = row->delay_ns,
		.minor_faults = row->minor_faults,
		.control_minor_faults = row->control_minor_faults,
		.on_device = row->on_device,
		.host_times = row->host_times,
		.several_groups = row->host_times && (row->unjoined || judge->blame.several_groups),
		.evidence_mask = state->evidence_mask};

	if (state->evidence)
		state->evidence->host_to_job_ns = grid->rows[r].host_to_job_ns;
	state->seen = true;
	state->host = grid->rows[r].host;
	state->totals.steps += grid->ends_step;
	state->totals.wait_ns += row->wait_ns;
	state->totals.transfer_ns += row->transfer_ns;
	/* By the host's times alone, being late need not cost anything. */
	if (!row->host_times || state->incident)
		state->totals.own_excess_ns += row->delay_ns;
	state->totals.inherited_ns += row->inherited_ns;
	signal_take_step(&state->signal, grid->number, (double)row->delay_ns, state->incident != 0);
	judge_launches_take(state, &grid->rows[r].launches);
	if (!row->judged && !row->alone)
		return;
	memcpy(step.own, row->own, sizeof(step.own));
	memcpy(step.control, row->control, sizeof(step.control));
	excess_add(&state->block, &step);
	if (state->periodic)
		judge_periodic_take(judge, state, grid->number, &step);
	state->block_steps++;
	state->block_comm_ns += row->comm_delay_ns;
	state->block_wait_ns += row->wait_ns;
}

static int replay(struct judge *judge, const struct step_grid *grid, struct whatif_line *line,
	int64_t *gain_ns)
{
	const struct whatif_change change = {.healed = judge->healed};

	return whatif_replay(&judge->whatif, grid, &judge->blame, &change, line, gain_ns);
}

/* Without the ranks that may be at fault; when these are others than before, from the start. */
static int replay_suspects(
	struct judge *judge, const struct step_grid *grid, enum run_kind kind, int64_t *gain_ns)
{
	uint64_t who = 0;

	for (size_t r = 0; r < grid->row_count; r++) {
		judge->healed[r] = judge_suspected(&judge->ranks[grid->rows[r].rank], kind);
		if (judge->healed[r])
			who = (who + grid->rows[r].rank + 1) * UINT64_C(0x9e3779b97f4a7c15);
	}
	if (kind == RUN_SLOW && who == judge->suspects[RUN_QUICK])
		who = 0; /* the same ranks: the gain is known */
	if (who != judge->suspects[kind])
		whatif_line_reset(&judge->suspect_lines[kind]);
	judge->suspects[kind] = who;
	return who ? replay(judge, grid, &judge->suspect_lines[kind], gain_ns) : 0;
}

static int replay_runs(struct judge *judge, const struct step_grid *grid)
{
	int64_t gain_ns = 0;
	int error = 0;

	for (int kind = 0; kind < RUN_STEEP && error == 0; kind++) {
		error = replay_suspects(judge, grid, (enum run_kind)kind, &gain_ns);
		judge->suspect_gain_ns[kind] += gain_ns;
	}
	return error;
}

/* What the step would have been without each verdict's ranks, without the suspects, at best. */
static int replay_all(struct judge *judge, const struct step_grid *grid, int64_t *ideal_gain_ns)
{
	int error = replay_runs(judge, grid);

	if (error < 0)
		return error;
	for (size_t t = 0; t < judge->incident_count; t++) {
		struct incident *incident = &judge->incidents[t];
		int64_t gain_ns;

		if (!incident->active || incident->kind != INCIDENT_RANKS)
			continue;
		for (size_t r = 0; r < grid->row_count; r++)
			judge->healed[r] = judge->ranks[grid->rows[r].rank].incident == t + 1;
		error = replay(judge, grid, &judge->lines[t], &gain_ns);
		if (error < 0)
			return error;
		if (!incident->every || grid->number % incident->every == incident->phase)
			incident->block_gain_ns += gain_ns;
	}
	memset(judge->healed, 1, grid->row_count);
	error = replay(judge, grid, &judge->ideal_line, ideal_gain_ns);
	/* By the hosts' times alone, only what a verdict has shown is known to cost anything. */
	if (*ideal_gain_ns < 0 || (grid->host_time && !judge_verdict_holds(judge, NULL)))
		*ideal_gain_ns = 0;
	return error;
}

static int prepare(struct judge *judge, const struct step_grid *grid)
{
	struct rank_state *state;
	int error = 0;

	if (grid->row_count) /* the highest rank: there is room for all */
		error = get_rank(judge, grid->rows[grid->row_count - 1].rank, &state);
	if (error == 0 && grid->row_count > judge->healed_capacity) {
		size_t capacity = grid->row_count * 2;

		free(judge->healed);
		judge->healed = malloc(capacity);
		judge->healed_capacity = judge->healed ? capacity : 0;
		error = judge->healed ? 0 : -ENOMEM;
	}
	return error;
}

/*
 * Nobody leaves a call that waits for all before the last one has entered. Device times that say
 * otherwise are another call's: NCCL keeps 64 a channel, and a progress thread that gets no CPU time
 * reads what came later in their place.
 */
static bool times_contradict(const struct step_grid *grid)
{
	if (!grid->device_time)
		return false;
	for (size_t i = 0; i < grid->instance_count; i++) {
		const struct grid_instance *instance = &grid->instances[i];
		int64_t entered_ns = INT64_MIN, left_ns = INT64_MAX;

		if (!instance->usable || instance->waits_for != WAITS_FOR_ALL)
			continue;
		for (uint32_t m = 0; m < instance->member_count; m++) {
			size_t at = instance->first_member + m;

			if (!(grid->member_parts[at].flags & MEMBER_DEVICE_TIME))
				continue;
			if (grid->arrival_ns[at] > entered_ns)
				entered_ns = grid->arrival_ns[at];
			if (grid->departure_ns[at] < left_ns)
				left_ns = grid->departure_ns[at];
		}
		if (entered_ns - CONTRADICTION_NS > left_ns &&
			entered_ns - left_ns > CONTRADICTION_ERRORS * instance->clock_error_ns)
			return true;
	}
	return false;
}

/*
 * A step that says nothing counts all the same: one without times in a job whose others have them
 * (attach --deep), whose times contradict each other, or in which the job hung; ideal_ns: what it would have
 * taken at best.
 */
static int pass_over(
	struct judge *judge, const struct step_grid *grid, int64_t length_ns, int64_t ideal_ns)
{
	judge_take_length(judge, grid, length_ns, (double)ideal_ns);
	for (uint32_t r = 0; r < judge->rank_end; r++)
		judge->ranks[r].signal.lost_ns[grid->number % STEP_HISTORY] = 0;
	if (judge->paused)
		return 0;
	judge->paused = true;
	return judge_pause(judge);
}

/* Lateness of before the pause reaches no further. */
static void resume(struct judge *judge)
{
	judge->paused = false;
	for (size_t t = 0; t < judge->incident_count; t++)
		whatif_line_reset(&judge->lines[t]);
	for (int kind = 0; kind < RUN_STEEP; kind++)
		whatif_line_reset(&judge->suspect_lines[kind]);
	whatif_line_reset(&judge->ideal_line);
	whatif_line_reset(&judge->comm->line);
}

/* When it was, and when it was known. */
static void note_times(struct judge *judge, const struct step_grid *grid, int64_t length_ns)
{
	step_times_note(&judge->times, grid->number, grid->start_ns, length_ns);
	step_times_of_program(&judge->times, grid->step, grid->round_count);
	judge->known_ns = grid->known_ns;
}

int judge_step(struct judge *judge, const struct step_grid *grid)
{
	int64_t length_ns = grid->end_ns - grid->start_ns, ideal_gain_ns = 0;
	int error;

	if (length_ns < 0)
		length_ns = 0; /* a clock was refitted across the cut */
	if (judge_hang_holds(judge, grid->start_ns, grid->end_ns)) {
		int64_t usual_ns = (int64_t)judge_usual_step_ns(judge);

		note_times(judge, grid, 0); /* its length is the hang's */
		return pass_over(
			judge, grid, length_ns, length_ns < usual_ns ? length_ns : usual_ns);
	}
	bool contradict = times_contradict(grid);
	struct open_step *open = judge_open_step(judge, grid);

	judge->job.steps_contradictory += contradict && !open->contradictory;
	open->contradictory |= contradict;
	if (contradict || (grid->untimed && judge->timed)) {
		note_times(judge, grid, length_ns);
		return pass_over(judge, grid, length_ns, length_ns);
	}
	judge->timed |= !grid->untimed;
	if (judge->paused)
		resume(judge);
	error = prepare(judge, grid);
	if (error == 0)
		error = blame_step(&judge->blame, grid);
	whatif_next_step(&judge->whatif);
	progress_step(judge->progress, grid);
	if (error == 0)
		error = replay_all(judge, grid, &ideal_gain_ns);
	if (error == 0)
		error = judge_imbalance_step(judge, grid);
	if (error < 0)
		return error;
	if (judge->block.steps == 0) {
		judge->block.first_step = grid->number;
		judge->block.start_ns = grid->start_ns;
	}
	note_times(judge, grid, length_ns);
	for (size_t r = 0; r < grid->row_count; r++) {
		judge->several_hosts |= grid->rows[r].host != grid->rows[0].host;
		take_row(judge, grid, r, length_ns);
	}
	error = judge_comm_step(judge, grid);
	if (error == 0)
		error = judge_costs_step(judge, grid, length_ns, ideal_gain_ns);
	if (error < 0)
		return error;
	double ideal_ns = fmax((double)(length_ns - ideal_gain_ns), 0);

	judge_take_length(judge, grid, length_ns, ideal_ns);
	judge_sketch(judge, grid, (double)length_ns, ideal_ns);
	judge->block.steps++;
	judge->block.irregular += (grid->flags & (STEP_IRREGULAR | STEP_WINDOW)) != 0;
	judge->block.time_ns += length_ns;
	/* At the step that ends nearest to a block's length. */
	return judge->block.time_ns + length_ns / 2 >= BLOCK_NS ? judge_close_block(judge) : 0;
}

int judge_finish(struct judge *judge)
{
	/* A last short block says little, but it can hold the end of a fault. */
	return judge->block.time_ns >= BLOCK_NS / 2 ? judge_close_block(judge) : 0;
}

struct judge_rank_totals judge_rank_totals(const struct judge *judge, uint32_t rank)
{
	return rank < judge->rank_capacity ? judge->ranks[rank].totals
					   : (struct judge_rank_totals){0};
}

const struct verdict *judge_verdicts(const struct judge *judge, size_t *count)
{
	*count = judge->verdict_count;
	return judge->verdicts;
}
