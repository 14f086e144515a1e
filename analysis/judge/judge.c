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
	judge->imbalance = judge_imbalance_create();
	judge->costs = judge_costs_create();
	if (!judge->comm || !judge->imbalance || !judge->costs ||
		progress_create(&judge->progress) < 0) {
		judge_costs_destroy(judge->costs);
		free(judge->comm);
		judge_imbalance_destroy(judge->imbalance);
		free(judge);
		return -ENOMEM;
	}
	judge->options = *options;
	blame_init(&judge->blame);
	whatif_init(&judge->replays.whatif);
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
	stack_looks_destroy(judge->stacks);
	judge_costs_destroy(judge->costs);
	progress_destroy(judge->progress);
	blame_fini(&judge->blame);
	whatif_fini(&judge->replays.whatif);
	for (size_t t = 0; t < INCIDENTS_MAX; t++)
		whatif_line_fini(&judge->incidents.lines[t]);
	for (int kind = 0; kind < RUN_STEEP; kind++)
		whatif_line_fini(&judge->replays.suspects.lines[kind]);
	whatif_line_fini(&judge->replays.ideal);
	whatif_line_fini(&judge->comm->line);
	link_flows_fini(&judge->comm->links);
	free(judge->comm->by_kind);
	free(judge->comm);
	judge_imbalance_destroy(judge->imbalance);
	arena_fini(&judge->arena);
	free(judge->ranks);
	free(judge->scratch);
	free(judge->incidents.verdicts);
	free(judge->pids.list);
	free(judge);
}

void judge_watch_sheets(struct judge *judge,
	void (*on_sheet)(
		void *context, const struct gate_sheet *sheet, const struct explanation *why),
	void *context)
{
	judge->watch.on_sheet = on_sheet;
	judge->watch.context = context;
}

void judge_watch_steps(struct judge *judge,
	void (*on_step)(void *context, const struct judged_step *step), void *context)
{
	judge->watch.on_step = on_step;
	judge->watch.step_context = context;
}

/* blame NULL: it was passed over. */
static void tell_step(
	const struct judge *judge, const struct step_grid *grid, const struct blame *blame)
{
	const struct judged_step step = {.grid = grid, .blame = blame, .judge = judge};

	if (judge->watch.on_step)
		judge->watch.on_step(judge->watch.step_context, &step);
}

static int get_rank(struct judge *judge, uint32_t rank, struct rank_state **state)
{
	if (rank >= STEP_RANK_COUNT_MAX)
		return -EINVAL;
	if (array_grow((void **)&judge->ranks, &judge->rank_capacity, (size_t)rank + 1,
		    sizeof(*judge->ranks)) < 0)
		return -ENOMEM;
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
	size_t at = judge->pids.count;
	struct rank_state *state;
	int error = get_rank(judge, rank, &state);

	if (error < 0)
		return error;
	state->pid = pid;

	while (at > 0 && judge->pids.list[at - 1] > pid)
		at--;
	if (at > 0 && judge->pids.list[at - 1] == pid)
		return 0;
	if (judge->pids.count == STEP_RANK_COUNT_MAX)
		return 0; /* restarted over and over: enough are known */
	if (array_grow((void **)&judge->pids.list, &judge->pids.capacity, judge->pids.count + 1,
		    sizeof(*judge->pids.list)) < 0)
		return -ENOMEM;
	memmove(&judge->pids.list[at + 1], &judge->pids.list[at],
		(judge->pids.count - at) * sizeof(*judge->pids.list));
	judge->pids.list[at] = pid;
	judge->pids.count++;
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

const struct evidence *judge_evidence(const struct judge *judge, uint32_t rank)
{
	return rank < judge->rank_end ? judge->ranks[rank].evidence : NULL;
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
		judge->comm->ports_lose = true;
	return error < 0 ? error
			 : evidence_add_sample(
				   evidence, sample->metric, sample->time.value, sample->value);
}

/* The number under which it is kept. */
static uint64_t step_at_hand(const struct judge *judge)
{
	return judge->block.end_step - 1;
}

static void take_row(struct judge *judge, const struct step_grid *grid, size_t r, int64_t length_ns)
{
	struct blame_row *row = &judge->blame.rows[r];
	struct rank_state *state = &judge->ranks[grid->rows[r].rank];
	struct excess_sums step = {.steps = 1,
		.program_steps = 1.0 / grid->step.round_count,
		.time_ns = length_ns,
		.delay_ns = row->delay_ns,
		.minor_faults = row->minor_faults,
		.control_minor_faults = row->control_minor_faults,
		.past_ns = row->past_ns,
		.on_device = row->on_device,
		.host_times = row->host_times,
		.several_groups =
			row->host_times && (row->unjoined || judge->blame.traits.several_groups),
		.evidence_mask = state->evidence_mask};

	if (state->evidence)
		state->evidence->host_to_job_ns = grid->rows[r].host_to_job_ns;
	state->seen = true;
	state->host = grid->rows[r].host;
	state->totals.steps += grid->step.ends_program;
	state->totals.wait_ns += row->wait_ns;
	state->totals.transfer_ns += row->transfer_ns;
	/* By the host's times alone, being late need not cost anything. */
	row->charged_ns = !row->host_times || state->incident ? row->delay_ns : 0;
	state->totals.own_excess_ns += row->charged_ns;
	state->totals.inherited_ns += row->inherited_ns;
	signal_take_step(
		&state->signal, &judge->times, (double)row->delay_ns, state->incident != 0);
	judge_launches_take(state, &grid->rows[r].launches);
	if (!row->judged && !row->alone)
		return;
	memcpy(step.own, row->own, sizeof(step.own));
	memcpy(step.control, row->control, sizeof(step.control));
	excess_add(&state->block.sums, &step);
	if (state->periodic)
		judge_periodic_take(judge, state, step_at_hand(judge), &step);
	state->block.steps++;
	state->block.comm_ns += row->comm_delay_ns;
	state->block.wait_ns += row->wait_ns;
}

static int replay(struct judge *judge, const struct step_grid *grid, struct whatif_line *line,
	int64_t *gain_ns)
{
	const struct whatif_change change = {.healed = judge->replays.healed};

	return whatif_replay(&judge->replays.whatif, grid, &judge->blame, &change, line, gain_ns);
}

/* Without the ranks that may be at fault; when these are others than before, from the start. */
static int replay_suspects(
	struct judge *judge, const struct step_grid *grid, enum run_kind kind, int64_t *gain_ns)
{
	uint64_t who = 0;

	for (size_t r = 0; r < grid->row_count; r++) {
		judge->replays.healed[r] = judge_suspected(&judge->ranks[grid->rows[r].rank], kind);
		if (judge->replays.healed[r])
			who = (who + grid->rows[r].rank + 1) * UINT64_C(0x9e3779b97f4a7c15);
	}
	if (kind == RUN_SLOW && who == judge->replays.suspects.who[RUN_QUICK])
		who = 0; /* the same ranks: the gain is known */
	if (who != judge->replays.suspects.who[kind])
		whatif_line_reset(&judge->replays.suspects.lines[kind]);
	judge->replays.suspects.who[kind] = who;
	return who ? replay(judge, grid, &judge->replays.suspects.lines[kind], gain_ns) : 0;
}

static int replay_runs(struct judge *judge, const struct step_grid *grid)
{
	int64_t gain_ns = 0;
	int error = 0;

	for (int kind = 0; kind < RUN_STEEP && error == 0; kind++) {
		error = replay_suspects(judge, grid, (enum run_kind)kind, &gain_ns);
		judge->replays.suspects.gain_ns[kind] += gain_ns;
	}
	return error;
}

/* What the step would have been without each verdict's ranks, without the suspects, at best. */
static int replay_all(struct judge *judge, const struct step_grid *grid, int64_t *ideal_gain_ns)
{
	int error = replay_runs(judge, grid);

	if (error < 0)
		return error;
	for (size_t t = 0; t < judge->incidents.count; t++) {
		struct incident *incident = &judge->incidents.list[t];
		int64_t gain_ns;

		if (!incident->active || incident->kind != INCIDENT_RANKS)
			continue;
		for (size_t r = 0; r < grid->row_count; r++)
			judge->replays.healed[r] =
				judge->ranks[grid->rows[r].rank].incident == t + 1;
		error = replay(judge, grid, &judge->incidents.lines[t], &gain_ns);
		if (error < 0)
			return error;
		if (!incident->every || step_at_hand(judge) % incident->every == incident->phase)
			incident->cost.block_gain_ns += gain_ns;
	}
	memset(judge->replays.healed, 1, grid->row_count);
	error = replay(judge, grid, &judge->replays.ideal, ideal_gain_ns);
	/* By the hosts' times alone, only what a verdict has shown is known to cost anything. */
	if (*ideal_gain_ns < 0 || (grid->traits.host_time && !judge_verdict_holds(judge, NULL)))
		*ideal_gain_ns = 0;
	return error;
}

static int prepare(struct judge *judge, const struct step_grid *grid)
{
	struct rank_state *state;
	int error = 0;

	if (grid->row_count) /* the highest rank: there is room for all */
		error = get_rank(judge, grid->rows[grid->row_count - 1].rank, &state);
	arena_reset(&judge->arena);
	judge->replays.healed =
		arena_take(&judge->arena, grid->row_count, sizeof(*judge->replays.healed));
	return error < 0 ? error : arena_error(&judge->arena);
}

/* Device times that are another call's: NCCL's, of a progress thread that gets no CPU time (join/assembly_retold.c). */
static bool times_contradict(const struct step_grid *grid)
{
	int64_t left_ns;

	for (size_t i = 0; grid->traits.device_time && i < grid->instance_count; i++) {
		if (grid_times_contradict(grid, &grid->instances[i], &left_ns))
			return true;
	}
	return false;
}

/*
 * A step that says nothing counts all the same: one without times in a job whose others have them
 * (attach --deep), whose times contradict each other, or in which the job hung; ideal_ns: what it would have
 * taken at best.
 */
static void pass_over(
	struct judge *judge, const struct step_grid *grid, int64_t length_ns, int64_t ideal_ns)
{
	judge_take_length(judge, grid, length_ns, (double)ideal_ns);
	tell_step(judge, grid, NULL);
	for (uint32_t r = 0; r < judge->rank_end; r++)
		judge->ranks[r].signal.lost_ns[(judge->times.next - 1) % STEP_HISTORY] = 0;
}

static int pause_judging(struct judge *judge)
{
	if (judge->traits.paused)
		return 0;
	judge->traits.paused = true;
	return judge_pause(judge);
}

/* When it was, and when it was known. */
static void note_times(
	struct judge *judge, const struct step_grid *grid, uint64_t number, int64_t length_ns)
{
	step_times_note(&judge->times, number, grid->step.start_ns, length_ns);
	step_times_of_program(&judge->times, grid->step.of_program, grid->step.round_count);
	judge->times.known_ns = grid->step.known_ns;
}

/* Of the step, nothing is known but its length. */
static int take_unmeasured(struct judge *judge, const struct step_grid *grid, int64_t length_ns)
{
	int error = pause_judging(judge);

	if (error < 0)
		return error;
	note_times(judge, grid, judge->times.next, length_ns);
	pass_over(judge, grid, length_ns, length_ns);
	if (!judge->traits.unmeasured.any)
		judge->traits.unmeasured =
			(struct unmeasured_steps){true, grid->step.of_program, grid->step.start_ns};
	judge_follow_unmeasured(judge);
	return 0;
}

/* Lateness of before the pause reaches no further. */
static void resume(struct judge *judge)
{
	judge->traits.paused = false;
	judge->traits.unmeasured.any = false;
	for (size_t t = 0; t < judge->incidents.count; t++) {
		whatif_line_reset(&judge->incidents.lines[t]);
		judge_verdict(judge, &judge->incidents.list[t])->sure.unmeasured_since = 0;
	}
	for (int kind = 0; kind < RUN_STEEP; kind++)
		whatif_line_reset(&judge->replays.suspects.lines[kind]);
	whatif_line_reset(&judge->replays.ideal);
	whatif_line_reset(&judge->comm->line);
}

int judge_step(struct judge *judge, const struct step_grid *grid)
{
	int64_t length_ns = grid->step.end_ns - grid->step.start_ns, ideal_gain_ns = 0;
	int error;

	if (length_ns < 0)
		length_ns = 0; /* a clock was refitted across the cut */
	if (judge_hang_holds(judge, grid->step.start_ns, grid->step.end_ns)) {
		int64_t usual_ns = (int64_t)judge_usual_step_ns(judge);

		note_times(judge, grid, judge->times.next, 0); /* its length is the hang's */
		pass_over(judge, grid, length_ns, length_ns < usual_ns ? length_ns : usual_ns);
		judge->traits.paused = true;
		judge_break(judge);
		return 0;
	}
	bool contradict = times_contradict(grid);
	struct open_step *open = judge_open_step(judge, grid);

	judge->lengths.job.steps_contradictory += contradict && !open->contradictory;
	open->contradictory |= contradict;
	if (contradict || (grid->traits.untimed && judge->traits.timed))
		return take_unmeasured(judge, grid, length_ns);
	judge->traits.timed |= !grid->traits.untimed;
	if (judge->traits.paused)
		resume(judge);
	judge->block.end_step =
		1 + step_times_number(&judge->times, length_ns, judge->block.steps == 0);
	error = prepare(judge, grid);
	if (error == 0)
		error = blame_step(&judge->blame, grid);
	if (error == 0)
		error = judge_hold_transfers(judge, grid);
	whatif_next_step(&judge->replays.whatif);
	progress_step(judge->progress, grid);
	if (error == 0)
		error = replay_all(judge, grid, &ideal_gain_ns);
	if (error == 0)
		error = judge_imbalance_step(judge, grid);
	if (error < 0)
		return error;
	if (judge->block.steps == 0) {
		judge->block.first_step = step_at_hand(judge);
		judge->block.start_ns = grid->step.start_ns;
	}
	note_times(judge, grid, step_at_hand(judge), length_ns);
	for (size_t r = 0; r < grid->row_count; r++) {
		judge->traits.several_hosts |= grid->rows[r].host != grid->rows[0].host;
		take_row(judge, grid, r, length_ns);
	}
	tell_step(judge, grid, &judge->blame);
	error = judge_comm_step(judge, grid);
	if (error == 0)
		error = judge_costs_step(judge, grid, length_ns, ideal_gain_ns);
	if (error < 0)
		return error;
	double ideal_ns = fmax((double)(length_ns - ideal_gain_ns), 0);

	judge_take_length(judge, grid, length_ns, ideal_ns);
	judge_sketch(judge, grid, (double)length_ns, ideal_ns);
	judge->block.steps++;
	judge->block.irregular += (grid->step.flags & (STEP_IRREGULAR | STEP_WINDOW)) != 0;
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
	*count = judge->incidents.verdict_count;
	return judge->incidents.verdicts;
}
