/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What single ranks, nodes, links, roles and phases cost, step by step: each is replayed as it should
 * be. Only those that lately took a noticeable share of the step are followed, and few of a kind, so
 * that a healthy job pays next to nothing. docs/analysis.md, What-if.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/judge/internal.h"

/* A part of the job whose cost is followed. */
struct cost {
	uint64_t key; /* rank, host, role, phase; of links a hash */
	struct job_cost told;
	double gain_ns, gain_rank_ns; /* sums */
	struct whatif_line line;
};

/* Something that may cost: how much of the step, on average of late, at most. */
struct cost_level {
	uint64_t key;
	float level;
	uint32_t steps, rows;
	int64_t step_ns;	       /* of this step */
	uint32_t first, last, members; /* ranks; how many hosts, of links */
};

enum { COST_LINKS_MAX = 32 };

struct cost_state {
	struct cost costs[COST_NR][COSTS_PER_KIND];
	uint32_t counts[COST_NR];
	struct whatif_line line;  /* with everything as it should be */
	struct cost_level *nodes; /* by host */
	struct cost_level roles[ROLES_MAX];
	struct cost_level links[COST_LINKS_MAX];
	uint32_t link_count;
	uint8_t *link_of; /* per instance of the step: index into links, or COST_LINKS_MAX */
	int64_t *faster;  /* per instance */
	double *scales;	  /* per row */
	size_t node_capacity;
	double lost_ns;	     /* to all parts together, in the steps replayed */
	double seen_ns;	     /* the same, more roughly: in all steps */
	double seen_then_ns; /* and in those replayed */
	bool loud;	     /* something cost time in the last step */
	bool quiet;	     /* nothing was replayed in the last step: the lines are empty */
	bool skipped;	     /* it was not to be */
	bool over_budget;    /* nothing is in this group of steps */
	uint64_t group;
	double spent_cells; /* replayed, less what the time since has paid for */
};

struct cost_state *judge_costs_create(void)
{
	return calloc(1, sizeof(struct cost_state));
}

void judge_costs_destroy(struct cost_state *state)
{
	if (!state)
		return;
	for (int of = 0; of < COST_NR; of++) {
		for (uint32_t i = 0; i < COSTS_PER_KIND; i++)
			whatif_line_fini(&state->costs[of][i].line);
	}
	whatif_line_fini(&state->line);
	free(state->nodes);
	free(state);
}

static int reserve(struct judge *judge, const struct step_grid *grid)
{
	struct cost_state *state = judge->costs;
	size_t hosts = 0;

	for (size_t r = 0; r < grid->row_count; r++)
		hosts = grid->rows[r].host >= hosts ? (size_t)grid->rows[r].host + 1 : hosts;
	if (array_grow((void **)&state->nodes, &state->node_capacity, hosts,
		    sizeof(*state->nodes)) < 0)
		return -ENOMEM;
	state->scales = arena_take(&judge->arena, grid->row_count, sizeof(*state->scales));
	state->link_of = arena_take(&judge->arena, grid->instance_count, sizeof(*state->link_of));
	state->faster = arena_take(&judge->arena, grid->instance_count, sizeof(*state->faster));
	return arena_error(&judge->arena);
}

/* A mean over few steps at first, over COST_LEVEL_STEPS later on. */
static void follow(float *level, uint64_t steps, double share)
{
	float weight = (float)(steps < COST_LEVEL_STEPS ? steps : COST_LEVEL_STEPS);

	*level += ((float)share - *level) / weight;
}

/* The part with this key, taken in when it costs enough; in place of one that has long been quiet. */
static void take_in(struct cost_state *state, enum cost_of of, uint64_t key, double lost_ns,
	const struct job_cost *told)
{
	struct cost *costs = state->costs[of], *least = NULL;

	for (uint32_t i = 0; i < state->counts[of]; i++) {
		if (costs[i].key == key)
			return;
		if (!least || costs[i].gain_ns < least->gain_ns)
			least = &costs[i];
	}
	if (state->counts[of] < COSTS_PER_KIND)
		least = &costs[state->counts[of]++];
	else if (least->gain_ns >= COST_LEVEL_STEPS * lost_ns)
		return;
	whatif_line_reset(&least->line);
	*least = (struct cost){.key = key, .told = *told, .line = least->line};
	least->told.of = (uint8_t)of;
}

/* What the ranks of a node, or of a role, are late by at most. */
static void raise_level(struct cost_level *level, uint32_t rank, int64_t delay_ns)
{
	if (level->rows++ == 0) {
		level->step_ns = 0;
		level->first = rank;
	}
	level->last = rank;
	if (delay_ns > level->step_ns)
		level->step_ns = delay_ns;
}

static void close_levels(struct cost_state *state, enum cost_of of, struct cost_level *levels,
	size_t count, double length_ns)
{
	for (size_t i = 0; i < count; i++) {
		struct cost_level *level = &levels[i];

		if (level->rows == 0)
			continue;
		level->steps += level->steps < COST_LEVEL_STEPS;
		follow(&level->level, level->steps, (double)level->step_ns / length_ns);
		if (level->level >= COST_LEVEL_MIN && (of != COST_NODE || level->rows > 1))
			take_in(state, of, i, (double)level->level * length_ns,
				&(struct job_cost){
					.number = of == COST_ROLE ? (uint32_t)i : level->first});
	}
}

/* Returns the longest delay of all. */
static int64_t find_levels(struct judge *judge, const struct step_grid *grid, double length_ns)
{
	struct cost_state *state = judge->costs;
	const struct imbalance_state *imbalance = judge->imbalance;
	int64_t most_ns = 0;
	uint32_t roles = 0;

	for (size_t i = 0; i < state->node_capacity; i++)
		state->nodes[i].rows = 0;
	for (uint32_t i = 0; i < imbalance->role_count; i++)
		state->roles[i].rows = 0;
	for (size_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];
		struct rank_state *rank = &judge->ranks[row->rank];
		int64_t delay_ns = judge->blame.rows[r].delay_ns;
		int64_t over_ns = delay_ns;

		most_ns = delay_ns > most_ns ? delay_ns : most_ns;
		follow(&rank->cost_level, rank->totals.steps + !grid->step.ends_program,
			(double)delay_ns / length_ns);
		if (rank->cost_level >= COST_LEVEL_MIN)
			take_in(state, COST_RANK, row->rank, (double)rank->cost_level * length_ns,
				&(struct job_cost){.number = row->rank});
		raise_level(&state->nodes[row->host], row->rank, delay_ns);
		if (imbalance->uneven && imbalance->scales[r] < 1)
			over_ns +=
				(int64_t)((1 - imbalance->scales[r]) *
					  (double)imbalance->roles[rank->totals.role].step_work_ns);
		raise_level(&state->roles[rank->totals.role], row->rank, over_ns);
	}
	if (judge->traits.several_hosts)
		close_levels(state, COST_NODE, state->nodes, state->node_capacity, length_ns);
	for (uint32_t i = 0; i < imbalance->role_count; i++)
		roles += state->roles[i].rows > 0;
	if (roles > 1)
		close_levels(state, COST_ROLE, state->roles, imbalance->role_count, length_ns);
	return most_ns;
}

/* Which nodes an instance joins: the first, the last, how many, and a key of them all. */
static struct cost_level link_between(
	const struct step_grid *grid, const struct grid_instance *instance)
{
	const struct grid_member *members = &grid->member_parts[instance->first_member];
	struct cost_level link = {.members = 1};
	const struct grid_row *low = &grid->rows[members[0].row], *high = low;
	uint64_t hash = 0;

	for (uint32_t m = 1; m < instance->member_count; m++) {
		const struct grid_row *row = &grid->rows[members[m].row];
		const struct grid_row *before = &grid->rows[members[m - 1].row];

		if (row->host < low->host)
			low = row;
		if (row->host > high->host)
			high = row;
		/* Nodes of two only may come in any order; more are told apart by all of them. */
		if (row->host != before->host) {
			hash = (hash ^ row->host ^ (uint64_t)before->host << 32) *
			       UINT64_C(0x9e3779b97f4a7c15);
			link.members++;
		}
	}
	link.first = low->rank < high->rank ? low->rank : high->rank;
	link.last = low->rank < high->rank ? high->rank : low->rank;
	link.key = (uint64_t)low->host << 32 | high->host;
	for (uint32_t m = 0; m < instance->member_count; m++) {
		uint32_t host = grid->rows[members[m].row].host;

		if (host == low->host || host == high->host)
			continue;
		link.key ^= hash ^ (hash >> 31) ^ UINT64_C(1) << 63;
		link.first = grid->rows[members[0].row].rank;
		link.last = grid->rows[members[instance->member_count - 1].row].rank;
		return link;
	}
	link.members = low->host != high->host ? 2 : 1;
	return link;
}

/* The slot of a link; in place of the quietest one when there are too many. */
static uint32_t link_slot(struct cost_state *state, const struct cost_level *link)
{
	uint32_t least = 0;

	for (uint32_t i = 0; i < state->link_count; i++) {
		if (state->links[i].key == link->key)
			return i;
		if (state->links[i].level < state->links[least].level)
			least = i;
	}
	if (state->link_count < COST_LINKS_MAX)
		least = state->link_count++;
	else if (state->links[least].level > 0 || state->links[least].step_ns > 0)
		return COST_LINKS_MAX;
	state->links[least] = *link;
	return least;
}

/* By how much each link's transfers were longer than expected, when they matter at all. */
static void find_links(struct judge *judge, const struct step_grid *grid, double length_ns)
{
	struct cost_state *state = judge->costs;
	const struct comm_state *comm = judge->comm;

	memset(state->link_of, COST_LINKS_MAX, grid->instance_count);
	for (uint32_t i = 0; i < state->link_count; i++)
		state->links[i].step_ns = 0;
	for (size_t t = 0; t < judge->blame.transfer_count; t++) {
		uint32_t index = judge->blame.transfers[t].instance, slot;

		if (comm->faster[index] <= 0)
			continue;
		struct cost_level link = link_between(grid, &grid->instances[index]);

		slot = link_slot(state, &link);
		state->link_of[index] = (uint8_t)slot;
		if (slot < COST_LINKS_MAX)
			state->links[slot].step_ns += comm->faster[index];
	}
	for (uint32_t i = 0; i < state->link_count; i++) {
		struct cost_level *link = &state->links[i];

		link->steps += link->steps < COST_LEVEL_STEPS;
		follow(&link->level, link->steps, fmin((double)link->step_ns / length_ns, 1));
		if (link->level < COST_LEVEL_MIN / COST_LEVEL_STEPS)
			link->level = 0;
		if (link->level >= COST_LEVEL_MIN)
			take_in(state, COST_LINK, link->key, (double)link->level * length_ns,
				&(struct job_cost){.number = link->first,
					.other = link->last,
					.node_count = link->members});
	}
}

/* One step at work. */
struct costing {
	struct judge *judge;
	const struct step_grid *grid;
	double length_ns;
	bool slow_transfers;
	bool counts;
	int error;
};

static int64_t run(
	struct costing *costing, const struct whatif_change *change, struct whatif_line *line)
{
	struct judge *judge = costing->judge;
	int64_t gain_ns = 0;

	if (costing->error == 0)
		costing->error = whatif_replay(&judge->replays.whatif, costing->grid, &judge->blame,
			change, line, &gain_ns);
	judge->costs->spent_cells += (double)costing->grid->cell_count /
				     (costing->grid->traits.overlapped ? 1 : COST_COLUMN_CELLS);
	return gain_ns;
}

static void add_gain(const struct costing *costing, struct cost *cost, double gain_ns)
{
	if (!costing->counts)
		return;
	cost->gain_ns += gain_ns;
	cost->gain_rank_ns += gain_ns * (double)costing->grid->row_count;
}

static void replay_link(struct costing *costing, struct cost *cost)
{
	struct cost_state *state = costing->judge->costs;
	const int64_t *faster = costing->judge->comm->faster;
	bool any = false;

	for (size_t i = 0; costing->slow_transfers && i < costing->grid->instance_count; i++) {
		bool of_it = state->link_of[i] < state->link_count &&
			     state->links[state->link_of[i]].key == cost->key;

		any |= of_it;
		state->faster[i] = of_it ? faster[i] : 0;
	}
	if (any)
		add_gain(costing, cost,
			(double)run(costing, &(struct whatif_change){.faster = state->faster},
				&cost->line));
	else
		whatif_line_reset(&cost->line);
}

/* Its members like their controls, and its work like the mean where it has more. */
static void replay_role(struct costing *costing, struct cost *cost)
{
	struct judge *judge = costing->judge;
	const struct imbalance_state *imbalance = judge->imbalance;
	struct whatif_change change = {.healed = judge->replays.healed};

	if (judge->costs->roles[cost->key].level < COST_LEVEL_MIN / 2) {
		whatif_line_reset(&cost->line);
		return;
	}
	for (size_t r = 0; r < costing->grid->row_count; r++) {
		bool of_it = judge->ranks[costing->grid->rows[r].rank].totals.role == cost->key;

		judge->replays.healed[r] = of_it;
		judge->costs->scales[r] = 1;
		if (of_it && imbalance->uneven && imbalance->scales[r] < 1) {
			judge->costs->scales[r] = imbalance->scales[r];
			change.scales = judge->costs->scales;
		}
	}
	if (change.scales && imbalance->by_stage)
		change.healed = NULL; /* controls are of all stages: it would shrink twice */
	add_gain(costing, cost, (double)run(costing, &change, &cost->line));
}

static void replay_ranks(struct costing *costing, struct cost *cost)
{
	struct judge *judge = costing->judge;
	bool node = cost->told.of == COST_NODE;
	float level =
		node ? judge->costs->nodes[cost->key].level : judge->ranks[cost->key].cost_level;

	if (level < COST_LEVEL_MIN / 2) {
		whatif_line_reset(&cost->line);
		return;
	}
	for (size_t r = 0; r < costing->grid->row_count; r++)
		judge->replays.healed[r] = (node ? costing->grid->rows[r].host
						 : costing->grid->rows[r].rank) == cost->key;
	add_gain(costing, cost,
		(double)run(costing, &(struct whatif_change){.healed = judge->replays.healed},
			&cost->line));
}

static void replay_phase(struct costing *costing, struct cost *cost)
{
	struct judge *judge = costing->judge;
	struct whatif_change change = {.healed = judge->replays.healed,
		.part = cost->key == PHASE_COMPUTE ? WHATIF_COMPUTE : WHATIF_HOST};

	if (cost->key == PHASE_COMM_TRANSFER) {
		add_gain(costing, cost, (double)judge->comm->step_gain_ns);
		return;
	}
	memset(judge->replays.healed, 1, costing->grid->row_count);
	add_gain(costing, cost, (double)run(costing, &change, &cost->line));
}

/* With everything as it should be; the ideal step has the ranks only. */
static double lost_ns(struct costing *costing, int64_t ideal_gain_ns)
{
	struct judge *judge = costing->judge;
	struct whatif_change change = {.healed = judge->replays.healed};
	int64_t gain_ns;

	if (costing->slow_transfers)
		change.faster = judge->comm->faster;
	if (judge->imbalance->uneven)
		change.scales = judge->imbalance->scales;
	if (!change.faster && !change.scales) {
		whatif_line_reset(&judge->costs->line);
		return (double)ideal_gain_ns;
	}
	if (change.scales && judge->imbalance->by_stage)
		change.healed = NULL;
	memset(judge->replays.healed, 1, costing->grid->row_count);
	gain_ns = run(costing, &change, &judge->costs->line);
	return (double)(gain_ns > ideal_gain_ns ? gain_ns : ideal_gain_ns);
}

static void replay_costs(struct costing *costing)
{
	static void (*const replays[COST_NR])(struct costing *, struct cost *) = {
		replay_ranks, replay_ranks, replay_link, replay_role, replay_phase};
	/* Changed transfers first: what they are held against is made once. */
	static const uint8_t order[COST_NR] = {
		COST_LINK, COST_ROLE, COST_RANK, COST_NODE, COST_PHASE};
	struct cost_state *state = costing->judge->costs;

	for (int k = 0; k < COST_NR; k++) {
		for (uint32_t i = 0; i < state->counts[order[k]]; i++)
			replays[order[k]](costing, &state->costs[order[k]][i]);
	}
}

/*
 * By a hash, so that faults that come at regular steps are not missed, or met each time; and while there is
 * time for it.
 */
static bool sampled(struct cost_state *state, const struct step_grid *grid)
{
	uint64_t group = grid->step.number / COST_SAMPLE_STEPS;

	if (group != state->group) /* all of its steps, or none */
		state->over_budget = state->spent_cells >= COST_SPENT_CELLS_MAX;
	state->group = group;
	return !state->over_budget &&
	       (grid->row_count <= RANKS_ENOUGH ||
		       ((group * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % STEPS_SAMPLED == 0);
}

/* Nothing is replayed in this step; what was ahead after the one before is over. */
static void rest(struct cost_state *state)
{
	for (int of = 0; of < COST_NR && !state->quiet; of++) {
		for (uint32_t i = 0; i < state->counts[of]; i++)
			whatif_line_reset(&state->costs[of][i].line);
	}
	state->quiet = true;
	state->loud = false;
}

int judge_costs_step(
	struct judge *judge, const struct step_grid *grid, int64_t length_ns, int64_t ideal_gain_ns)
{
	static const uint8_t phases[] = {PHASE_COMPUTE, PHASE_HOST, PHASE_COMM_TRANSFER};
	struct cost_state *state = judge->costs;
	struct costing costing = {.judge = judge, .grid = grid, .length_ns = (double)length_ns};
	bool loud;
	double lost, seen = fmax((double)ideal_gain_ns, 0) +
			    fmax((double)judge->comm->step_gain_ns, 0) +
			    (double)judge->imbalance->step_gain_ns;
	int error = length_ns > 0 && grid->row_count ? reserve(judge, grid) : 0;

	if (length_ns <= 0 || grid->row_count == 0 || error < 0)
		return error;
	int64_t most_ns = find_levels(judge, grid, costing.length_ns);

	costing.slow_transfers =
		(double)judge->comm->step_gain_ns >= REPLAY_SHARE_MIN * costing.length_ns;
	state->seen_ns += seen;
	state->spent_cells = fmax(state->spent_cells - COST_CELLS_PER_NS * costing.length_ns, 0);
	if (!sampled(state, grid)) {
		rest(state);
		whatif_line_reset(&state->line);
		state->skipped = true;
		return 0;
	}
	costing.counts = !state->skipped;
	state->skipped = false;
	state->seen_then_ns += costing.counts ? seen : 0;
	if (costing.slow_transfers)
		find_links(judge, grid, costing.length_ns);
	lost = lost_ns(&costing, ideal_gain_ns);
	state->lost_ns += costing.counts ? fmax(lost, 0) : 0;
	/* What a delay costs may show in the next step only. */
	loud = costing.slow_transfers ||
	       fmax(lost, (double)most_ns) >= REPLAY_SHARE_MIN * costing.length_ns;
	if (!loud && !state->loud) {
		rest(state);
		return costing.error;
	}
	state->loud = loud;
	state->quiet = false;
	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
		take_in(state, COST_PHASE, phases[i], 0, &(struct job_cost){.number = phases[i]});
	replay_costs(&costing);
	return costing.error;
}

size_t judge_costs(const struct judge *judge, struct job_cost out[COSTS_MAX])
{
	const struct cost_state *state = judge->costs;
	double steps = (double)judge->lengths.job.steps, time_ns = judge->lengths.time_sum_ns;
	double scale = state->seen_then_ns > 0 ? state->seen_ns / state->seen_then_ns : 0;
	size_t count = 0;

	for (int of = 0; of < COST_NR; of++) {
		size_t first = count;

		for (uint32_t i = 0; i < state->counts[of]; i++) {
			const struct cost *cost = &state->costs[of][i];
			struct job_cost told = cost->told;
			double gain_ns =
				fmin(scale * cost->gain_ns, (1 - LEFT_SHARE_MIN) * time_ns);
			size_t at = count;

			if (gain_ns < COST_TOLD_MIN * time_ns)
				continue;
			told.step_ms = (time_ns - gain_ns) / steps / 1e6;
			told.slowdown = time_ns / (time_ns - gain_ns);
			told.share =
				state->lost_ns > 0 ? fmin(cost->gain_ns / state->lost_ns, 1) : 0;
			told.wasted_rank_seconds = scale * cost->gain_rank_ns / 1e9;
			for (; at > first && (out[at - 1].slowdown < told.slowdown ||
						     (out[at - 1].slowdown <= told.slowdown &&
							     out[at - 1].number > told.number));
				at--)
				out[at] = out[at - 1];
			out[at] = told;
			count++;
		}
	}
	return count;
}
