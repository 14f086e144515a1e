/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that is uneven although no machine is slow: roles of a pipeline with more of it than others,
 * and input whose pieces differ in length. docs/analysis.md has the rules.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/base/robust_stats.h"
#include "analysis/uneven/internal.h"

struct imbalance_state *judge_imbalance_create(void)
{
	struct imbalance_state *state = calloc(1, sizeof(*state));

	if (state)
		state->work = calloc(1, sizeof(*state->work));
	if (!state || state->work)
		return state;
	free(state);
	return NULL;
}

void judge_imbalance_destroy(struct imbalance_state *state)
{
	if (!state)
		return;
	whatif_line_fini(&state->work->line);
	judge_even_fini(&state->work->even);
	free(state->work->rows.keys);
	free(state->work);
	free(state);
}

static struct role *find_role(struct imbalance_state *state, uint64_t key)
{
	for (uint32_t i = 0; i < state->role_count; i++) {
		if (state->roles[i].key == key)
			return &state->roles[i];
	}
	if (state->role_count == ROLES_MAX)
		return NULL;
	state->roles[state->role_count] = (struct role){.key = key};
	return &state->roles[state->role_count++];
}

/* What its controls took: the same for all members, whoever of them is slow. */
static void measure_role(const struct judge *judge, const struct step_grid *grid,
	const struct grid_row *row, struct role *role)
{
	for (uint32_t i = 0; i < row->cell_count; i++) {
		const struct grid_cell *cell = &grid->cells[row->first_cell + i];

		role->step_work_ns +=
			blame_cell_of(&judge->blame, grid, row->first_cell + i).control_ns;
		role->pipeline |= cell->instance != GRID_NONE &&
				  grid->instances[cell->instance].waits_for == WAITS_FOR_PARTNER;
	}
}

/* A member's own work; of stages that share a layout, controls would be those of another stage. */
static int64_t work_of_row(const struct step_grid *grid, const struct grid_row *row)
{
	int64_t work_ns = 0;

	if (!row->overlapped)
		return row->own_ns;
	for (uint32_t i = 0; i < row->cell_count; i++)
		work_ns += grid_own_ns(grid, row->first_cell + i);
	return work_ns;
}

/* Per role the lower median of its members' work: a slow member does not make it look long. */
static int measure_stages(struct judge *judge, const struct step_grid *grid)
{
	struct imbalance_state *state = judge->imbalance;
	int64_t *work_ns = arena_take(&judge->arena, grid->row_count, sizeof(*work_ns));
	uint32_t ends[ROLES_MAX], next = 0;

	if (!work_ns)
		return -ENOMEM;
	for (uint32_t i = 0; i < state->role_count; i++) {
		ends[i] = next;
		next += state->roles[i].step_rows;
	}
	for (size_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];
		uint32_t role = judge->ranks[row->rank].totals.role;

		if (!row->hole && judge->blame.rows[r].judged &&
			state->roles[role].key == state->work->rows.keys[r])
			work_ns[ends[role]++] = work_of_row(grid, row);
	}
	for (uint32_t i = 0; i < state->role_count; i++) {
		struct role *role = &state->roles[i];

		if (role->step_rows)
			role->step_work_ns = lower_median_int64(
				&work_ns[ends[i] - role->step_rows], role->step_rows);
	}
	return 0;
}

/* Sums up the pipeline's roles; returns their mean work, 0 when there are not two of them. */
static double compare_roles(struct imbalance_state *state, const struct role **worst)
{
	uint64_t rows = 0;
	uint32_t pipeline = 0;
	double sum = 0;

	*worst = NULL;
	for (uint32_t i = 0; i < state->role_count; i++) {
		struct role *role = &state->roles[i];

		if (!role->step_rows || !role->pipeline)
			continue;
		role->block_work_ns += role->step_work_ns;
		sum += (double)role->step_work_ns * role->step_rows;
		rows += role->step_rows;
		pipeline++;
		if (!*worst || role->step_work_ns > (*worst)->step_work_ns)
			*worst = role;
	}
	return pipeline >= 2 ? sum / (double)rows : 0;
}

/* Assigns roles, and measures their work. */
static int take_roles(struct judge *judge, const struct step_grid *grid)
{
	struct imbalance_state *state = judge->imbalance;
	struct role *role = NULL;

	for (uint32_t i = 0; i < state->role_count; i++)
		state->roles[i].step_rows = 0;
	for (size_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];

		if (!role || state->work->rows.keys[r] != role->key)
			role = find_role(state, state->work->rows.keys[r]);
		if (!role)
			continue;
		judge->ranks[row->rank].totals.role = (uint32_t)(role - state->roles);
		if (row->hole || !judge->blame.rows[r].judged)
			continue;
		if (role->step_rows++ == 0) {
			role->step_work_ns = 0;
			measure_role(judge, grid, row, role);
		}
	}
	return state->by_stage ? measure_stages(judge, grid) : 0;
}

/* What every row's work is to be multiplied by so that all of the pipeline have the mean. */
static int find_scales(struct judge *judge, const struct step_grid *grid, double mean_ns)
{
	struct imbalance_state *state = judge->imbalance;

	state->scales = arena_take(&judge->arena, grid->row_count, sizeof(*state->scales));
	if (!state->scales)
		return -ENOMEM;
	for (size_t r = 0; r < grid->row_count; r++) {
		const struct role *role =
			&state->roles[judge->ranks[grid->rows[r].rank].totals.role];

		state->scales[r] = role->key == state->work->rows.keys[r] && role->pipeline &&
						   role->step_work_ns > 0
					   ? mean_ns / (double)role->step_work_ns
					   : 1;
	}
	return 0;
}

/* By how much the step shortens when the pipeline's work is shared out evenly. */
static int replay_even(struct judge *judge, const struct step_grid *grid, int64_t *gain_ns)
{
	struct imbalance_state *state = judge->imbalance;
	int error = whatif_replay(&judge->replays.whatif, grid, &judge->blame,
		&(struct whatif_change){.scales = state->scales}, &state->work->line, gain_ns);

	if (*gain_ns < 0)
		*gain_ns = 0;
	return error;
}

/* A row's excess over its controls in either half of the step; not of overlapped rows. */
static void excess_by_half(const struct blame *blame, const struct step_grid *grid,
	const struct grid_row *row, double excess[2])
{
	const struct blame_control *controls =
		&blame->controls[blame->row_controls[row - grid->rows]];
	const uint32_t *places = &grid->places[row->first_cell];
	uint32_t middle = (row->cell_count + 1) / 2;
	int64_t sums_ns[2] = {0, 0};

	for (uint32_t i = 0; i < middle; i++)
		sums_ns[0] += grid->own_ns[places[i]] - controls[i].control_ns;
	for (uint32_t i = middle; i < row->cell_count; i++)
		sums_ns[1] += grid->own_ns[places[i]] - controls[i].control_ns;
	excess[0] = (double)sums_ns[0];
	excess[1] = (double)sums_ns[1];
}

/* The same, forward and backward, by purpose where work is shown. */
static void excess_by_direction(const struct blame *blame, const struct step_grid *grid,
	const struct grid_row *row, double excess[2])
{
	excess[0] = excess[1] = 0;
	for (uint32_t i = 0; i < row->cell_count; i++) {
		uint32_t c = row->first_cell + i;
		const struct part_kind *part = grid->cells[c].part;
		int direction = 2 * i >= row->cell_count;

		if (row->works && !(grid->cells[c].flags & CELL_LOCAL))
			continue;
		if (row->works && part->purpose != PURPOSE_FORWARD &&
			part->purpose != PURPOSE_BACKWARD)
			continue;
		if (row->works)
			direction = part->purpose == PURPOSE_BACKWARD;
		excess[direction] +=
			(double)(grid_own_ns(grid, c) - blame_cell_of(blame, grid, c).control_ns);
	}
}

/* Hosts, and not what their devices have to do, say how long the steps of some ranks are. */
static bool hosts_lead(const struct step_grid *grid)
{
	for (size_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];
		int64_t by_host_ns = 0;

		for (uint32_t i = 0; i < row->cell_count && !row->hole && !row->plain; i++) {
			const struct grid_cell *cell = &grid->cells[row->first_cell + i];
			int64_t own_ns = grid_own_ns(grid, row->first_cell + i);

			if ((cell->part->flags & PART_DEVICE_TIME) && cell->own->host_ns >= own_ns)
				by_host_ns += own_ns;
		}
		if (by_host_ns > 0 &&
			(double)by_host_ns > HALF_SHARE * (double)work_of_row(grid, row))
			return true;
	}
	return false;
}

/* Time that others took from a row's own: a machine that is too full, no uneven batches. */
static int64_t taken_ns(const struct step_grid *grid, const struct grid_row *row)
{
	int64_t taken = 0;

	if (row->plain)
		return 0;
	for (uint32_t i = 0; i < row->cell_count; i++) {
		const struct grid_cell *cell = &grid->cells[row->first_cell + i];

		if (!(cell->part->flags & PART_DEVICE_TIME))
			taken += cell->own->preempted_ns + cell->own->throttled_ns +
				 cell->own->block_io_ns;
	}
	return taken;
}

/* Some of its device's collectives go on beside its work. */
static bool runs_beside(const struct step_grid *grid, const struct grid_row *row)
{
	for (uint32_t i = 0; i < row->cell_count && row->overlapped; i++) {
		const struct grid_cell *cell = &grid->cells[row->first_cell + i];

		if ((cell->flags & CELL_ASYNC) && (cell->part->flags & PART_DEVICE_TIME))
			return true;
	}
	return false;
}

static void correlate_step(struct judge *judge, const struct step_grid *grid, bool led)
{
	struct imbalance_state *state = judge->imbalance;
	double forget = 1 - 1.0 / UNEVEN_MEMORY;

	state->work->deviations.steps = state->work->deviations.steps * forget + 1;
	state->work->deviations.led = state->work->deviations.led * forget + led;
	state->work->deviations.beside = false;
	for (int i = 0; i < 3; i++)
		state->work->deviations.products[i] *= forget;
	state->work->deviations.absolute *= forget;
	state->work->deviations.taken *= forget;
	state->work->deviations.work *= forget;
	state->work->deviations.rows *= forget;
	for (size_t r = 0; r < grid->row_count; r++) {
		struct rank_state *rank = &judge->ranks[grid->rows[r].rank];
		double excess[2];

		if (grid->rows[r].hole || !judge->blame.rows[r].judged || rank->incident)
			continue;
		(grid->rows[r].overlapped ? excess_by_direction : excess_by_half)(
			&judge->blame, grid, &grid->rows[r], excess);
		for (int d = 0; d < 2; d++) {
			double usual = (double)rank->usual.excess[d];

			rank->usual.excess[d] += (float)((excess[d] - usual) / SLOW_MEAN);
			excess[d] -= usual;
		}
		state->work->deviations.beside =
			state->work->deviations.beside || runs_beside(grid, &grid->rows[r]);
		state->work->deviations.products[0] += excess[0] * excess[0];
		state->work->deviations.products[1] += excess[1] * excess[1];
		state->work->deviations.products[2] += excess[0] * excess[1];
		state->work->deviations.absolute += fabs(excess[0] + excess[1]);
		state->work->deviations.taken += (double)taken_ns(grid, &grid->rows[r]);
		state->work->deviations.work += (double)work_of_row(grid, &grid->rows[r]);
		state->work->deviations.rows++;
		/* With the memory of the sums: a share in what they have forgotten is no share. */
		rank->usual.unevenness += (float)((excess[0] * excess[0] + excess[1] * excess[1] -
							  (double)rank->usual.unevenness) /
						  UNEVEN_MEMORY);
	}
}

/* Both directions of the work go together; or, where only one is seen, all of it is uneven. */
static bool deviations_alike(const struct imbalance_state *state)
{
	double forward = state->work->deviations.products[0],
	       backward = state->work->deviations.products[1];
	double square = forward + backward + 2 * state->work->deviations.products[2];
	bool large = square * state->work->deviations.rows >=
			     pow(UNEVEN_DEVIATION_MIN * state->work->deviations.work, 2) &&
		     state->work->deviations.absolute * state->work->deviations.absolute >=
			     UNEVEN_SPREAD_MIN * square * state->work->deviations.rows;
	double least = state->work->deviations.beside && large ? UNEVEN_BESIDE_CORRELATION_MIN
							       : UNEVEN_CORRELATION_MIN;

	/* Where ranks were kept off their CPUs, or hosts lead their devices, deviations tell nothing of work. */
	if (state->work->deviations.taken > HALF_SHARE * state->work->deviations.absolute ||
		state->work->deviations.led > HALF_SHARE * state->work->deviations.steps)
		return false;
	if (fmin(forward, backward) < UNEVEN_DIRECTION_SHARE_MIN * fmax(forward, backward))
		return large;
	return state->work->deviations.products[2] > 0 &&
	       state->work->deviations.products[2] >= least * sqrt(forward * backward);
}

/* It is not one rank's doing. */
static bool sequences_uneven(const struct judge *judge)
{
	const struct imbalance_state *state = judge->imbalance;
	double all = 0, most = 0;

	if (state->work->deviations.steps < STEPS_KNOWN_MIN ||
		!(deviations_alike(state) || judge_messages_alike(&state->work->messages)))
		return false;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		all += (double)judge->ranks[r].usual.unevenness;
		most = fmax(most, (double)judge->ranks[r].usual.unevenness);
	}
	/* One rank with most of it is uneven by itself. */
	return most < HALF_SHARE * all;
}

double judge_uneven_level(const struct judge *judge)
{
	const struct imbalance_state *state = judge->imbalance;
	double square = state->work->deviations.products[0] + state->work->deviations.products[1] +
			2 * state->work->deviations.products[2];

	if (!state->work->sequences || judge->block.time_ns <= 0 ||
		state->work->deviations.rows < 1)
		return 0;
	return sqrt(fmax(square, 0) / state->work->deviations.rows) * (double)judge->block.steps /
	       (double)judge->block.time_ns;
}

int judge_imbalance_step(struct judge *judge, const struct step_grid *grid)
{
	struct imbalance_state *state = judge->imbalance;
	const struct role *worst;
	double mean_ns;
	int64_t gain_ns = 0;
	bool sampled, led;
	int error = judge_roles_key(judge, grid);

	if (error < 0)
		return error;
	judge_experts_step(judge, grid);
	error = take_roles(judge, grid);
	state->uneven = false;
	state->step_gain_ns = 0;
	if (error < 0)
		return error;
	mean_ns = compare_roles(state, &worst);
	if (grid->traits.host_time)
		return 0; /* hosts show how long they work, not their devices */
	led = grid->traits.overlapped && hosts_lead(grid);
	/* A sample is enough for a correlation; the cells of all ranks are many. */
	sampled = grid->row_count <= RANKS_ENOUGH || grid->step.number % STEPS_SAMPLED == 0;
	if (grid->traits.overlapped || sampled)
		correlate_step(judge, grid, led);
	if (grid->traits.overlapped && sampled)
		error = judge_messages_step(judge, grid);
	state->work->sequences = sequences_uneven(judge);
	if (error == 0 && state->work->sequences)
		error = judge_even_step(judge, grid, sampled, &gain_ns);
	if (error < 0)
		return error;
	state->work->block_gain_ns[1] += gain_ns;
	gain_ns = 0;
	state->uneven = grid->traits.overlapped && !led && mean_ns > 0 &&
			(double)worst->step_work_ns > UNEVEN_WORK_MIN * mean_ns;
	if (!state->uneven)
		return 0;
	error = find_scales(judge, grid, mean_ns);
	if (error == 0)
		error = replay_even(judge, grid, &gain_ns);
	state->step_gain_ns = gain_ns;
	state->work->block_gain_ns[0] += gain_ns;
	return error;
}

/* The role with the most work in the block. */
static void close_roles(struct judge *judge)
{
	struct imbalance_state *state = judge->imbalance;
	double sum = 0, count = 0, steps = (double)judge->block.steps;
	int64_t most = -1;

	for (uint32_t i = 0; i < state->role_count; i++) {
		struct role *role = &state->roles[i];

		if (role->pipeline && role->block_work_ns > 0) {
			sum += (double)role->block_work_ns;
			count++;
			if (role->block_work_ns > most) {
				most = role->block_work_ns;
				state->worst = i;
			}
		}
		role->block_work_ns = 0;
	}
	if (count >= 2) {
		state->work->worst_work_ms = (double)most / steps / 1e6;
		state->work->mean_work_ms = sum / count / steps / 1e6;
	}
}

/* Takes the block; of what is so by the program's own doing, nothing is usual. */
static void push(const struct judge *judge, struct signal *signal, int64_t gain_ns)
{
	const struct excess_sums sums = {
		.steps = judge->block.steps, .time_ns = judge->block.time_ns, .delay_ns = gain_ns};
	const struct block_loss loss = {.sums = &sums, .weight = 1};
	struct change_noise noises[RUN_NR];
	double none;

	signal_noises(&none, 0, noises);
	signal->level = (double)gain_ns / (double)judge->block.time_ns;
	signal_push(signal, &judge->block, &loss, noises);
}

void judge_imbalance_block(struct judge *judge)
{
	struct imbalance_state *state = judge->imbalance;

	close_roles(judge);
	push(judge, &state->stages, state->work->block_gain_ns[0]);
	push(judge, &state->uneven_input,
		state->work->sequences ? state->work->block_gain_ns[1] : 0);
	state->work->block_gain_ns[0] = state->work->block_gain_ns[1] = 0;
}

const struct run *judge_imbalance_alarm(struct judge *judge, enum incident_kind kind)
{
	const struct signal *signal = judge_signal_of(judge, kind);

	return !judge_incident_of(judge, kind) && judge->judged.count >= WARM_UP_BLOCKS &&
			       run_is_open(signal, RUN_QUICK, NULL) &&
			       signal->runs[RUN_QUICK].change.evidence >= EVIDENCE_HIGH &&
			       run_is_large(signal, &judge->times, RUN_QUICK, 0, NULL)
		       ? &signal->runs[RUN_QUICK]
		       : NULL;
}

static void tell_sequences(const struct imbalance_state *state, struct verdict *verdict)
{
	struct verdict_evidence *evidence = &verdict->evidence[0];
	double both = state->work->deviations.products[0] * state->work->deviations.products[1];
	double correlation = both > 0 ? state->work->deviations.products[2] / sqrt(both) : 0;

	if (correlation >= UNEVEN_CORRELATION_MIN) {
		snprintf(evidence->detail, sizeof(evidence->detail),
			"forward and backward times go together (correlation %.2f), on ranks that "
			"change from step to step",
			correlation);
		verdict->sure.share_explained = correlation * correlation;
		return;
	}
	if (judge_messages_alike(&state->work->messages)) {
		correlation = judge_messages_correlation(&state->work->messages);
		snprintf(evidence->detail, sizeof(evidence->detail),
			"what sender and receiver of a message work goes together (correlation "
			"%.2f), on ranks that change from message to message",
			correlation);
		verdict->sure.share_explained = correlation * correlation;
		return;
	}
	snprintf(evidence->detail, sizeof(evidence->detail),
		"work differs by %.0f %% (root mean square) on ranks that change from step to step",
		100 *
			sqrt((state->work->deviations.products[0] +
				     state->work->deviations.products[1] +
				     2 * state->work->deviations.products[2]) *
				fmax(state->work->deviations.rows, 1)) /
			fmax(state->work->deviations.work, 1));
}

void judge_imbalance_tell(struct judge *judge, enum incident_kind kind, struct verdict *verdict)
{
	const struct imbalance_state *state = judge->imbalance;
	struct verdict_evidence *evidence = &verdict->evidence[0];

	verdict->cause = kind == INCIDENT_STAGES ? CAUSE_STAGE_IMBALANCE : CAUSE_SEQUENCE_IMBALANCE;
	verdict->evidence_count = 1;
	*evidence = (struct verdict_evidence){.kind = verdict->cause};
	verdict->sure.share_explained = 1;
	if (kind == INCIDENT_SEQUENCES) {
		tell_sequences(state, verdict);
		return; /* no rank is to blame */
	}
	evidence->overlap_ms_per_step = state->work->worst_work_ms;
	evidence->control_ms_per_step = state->work->mean_work_ms;
	snprintf(evidence->detail, sizeof(evidence->detail),
		"work of this part of the pipeline; control: the mean of all parts");
	verdict->rank_count = verdict->more_ranks = 0;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		if (!judge->ranks[r].seen || judge->ranks[r].totals.role != state->worst)
			continue;
		if (verdict->rank_count < VERDICT_RANKS_MAX)
			verdict->ranks[verdict->rank_count++] = r;
		else
			verdict->more_ranks++;
	}
}
