/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers that are long although nobody was late, and whose link it is. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/robust_stats.h"
#include "analysis/judge/internal.h"

static int reserve_step(struct judge *judge, const struct step_grid *grid)
{
	struct comm_state *comm = judge->comm;

	comm->faster =
		arena_take_zeroed(&judge->arena, grid->instance_count, sizeof(*comm->faster));
	comm->rows = arena_take_zeroed(&judge->arena, grid->row_count, sizeof(*comm->rows));
	return arena_error(&judge->arena);
}

/* To each member of an instance: how much longer than expected its transfer was. */
static void tell_members(struct judge *judge, const struct step_grid *grid, uint32_t index,
	double excess_ns, const struct transfer_shape *shape)
{
	const struct grid_instance *instance = &grid->instances[index];

	/* What takes no time cannot be seen to take longer. */
	bool link = !instance->same_host && shape->slow > 0 && shape->expected_ns >= WAKE_UP_NS;

	for (uint32_t m = 0; m < instance->member_count; m++) {
		struct comm_row *row =
			&judge->comm->rows[grid->member_parts[instance->first_member + m].row];

		row->excess_ns += excess_ns;
		if (link && (!row->link.count++ || shape->slow < row->link.least))
			row->link.least = shape->slow;
	}
}

/* Returns the largest excess of a row. */
static double take_rows(struct judge *judge, const struct step_grid *grid)
{
	double most = 0;

	for (size_t r = 0; r < grid->row_count; r++) {
		const struct comm_row *row = &judge->comm->rows[r];

		most = fmax(most, row->excess_ns);
		if (!row->link.count)
			continue;
		struct rank_state *state = &judge->ranks[grid->rows[r].rank];

		if (!state->link.count || row->link.least < state->link.least)
			state->link.least = row->link.least;
		state->link.count += row->link.count;
	}
	return most;
}

/*
 * What some ranks gain shows with the others in the next step. For the blocks it counts at once, as a mean, which
 * noise of single groups does not reach; for the onset, where it is largest.
 */
static void note_gain(struct judge *judge, const struct step_grid *grid, int64_t gain_ns)
{
	struct comm_state *comm = judge->comm;
	int64_t sum_ns = 0, most_ns = 0, mean_ns;

	for (size_t r = 0; r < grid->row_count; r++) {
		uint32_t rank = grid->rows[r].rank;
		int64_t ahead_ns = rank < comm->line.capacity ? comm->line.ahead_ns[rank] : 0;

		sum_ns += ahead_ns;
		most_ns = ahead_ns > most_ns ? ahead_ns : most_ns;
	}
	mean_ns = grid->row_count ? sum_ns / (int64_t)grid->row_count : 0;
	comm->block_gain_ns += gain_ns + mean_ns - comm->ahead_mean_ns;
	signal_take_step(&comm->signal, &judge->times,
		fmax((double)(gain_ns + most_ns - comm->ahead_most_ns), 0),
		judge_incident_of(judge, INCIDENT_TRANSFERS) != NULL);
	comm->ahead_mean_ns = mean_ns;
	comm->ahead_most_ns = most_ns;
}

int judge_comm_step(struct judge *judge, const struct step_grid *grid)
{
	struct comm_state *comm = judge->comm;
	double most;
	int64_t gain_ns = 0;
	int error = reserve_step(judge, grid);

	if (error < 0)
		return error;
	for (size_t i = 0; i < judge->blame.transfer_count; i++) {
		const struct blame_transfer *transfer = &judge->blame.transfers[i];
		struct transfer_shape *shape = judge_transfer_shape(comm, transfer);

		if (!shape)
			continue;
		shape->sum_ns += transfer->transfer_ns;
		shape->count++;
		if (shape->expected_ns < 0)
			continue;
		comm->faster[transfer->instance] =
			transfer->transfer_ns - (int64_t)shape->expected_ns;
		tell_members(judge, grid, transfer->instance,
			(double)comm->faster[transfer->instance], shape);
	}
	most = take_rows(judge, grid);
	bool slow = most > REPLAY_SHARE_MIN * (double)(grid->step.end_ns - grid->step.start_ns);

	/* What is late at a step's end makes the next one longer. */
	if (slow || comm->slow_before)
		error = whatif_replay(&judge->replays.whatif, grid, &judge->blame,
			&(struct whatif_change){.faster = comm->faster}, &comm->line, &gain_ns);
	else
		whatif_line_reset(&comm->line);
	comm->slow_before = slow;
	comm->step_gain_ns = gain_ns;
	note_gain(judge, grid, gain_ns);
	return error;
}

/* Ends the block for one shape; a quiet one teaches what is usual. */
static void close_shape(struct transfer_shape *shape, bool learn)
{
	float mean_ns = (float)shape->sum_ns / (float)shape->count;
	double past[QUIET_BLOCKS];
	uint32_t count;

	if (shape->expected_ns > 0) {
		float times = mean_ns / shape->expected_ns;

		shape->slow += shape->slow > 0 ? (times - shape->slow) / QUICK_MEAN : times;
	}
	if (!learn && shape->usual_ns >= 0)
		return;
	shape->past[shape->past_count++ % QUIET_BLOCKS] = mean_ns;
	if (shape->past_count == 2 * QUIET_BLOCKS)
		shape->past_count = QUIET_BLOCKS;
	count = shape->past_count < QUIET_BLOCKS ? shape->past_count : QUIET_BLOCKS;
	for (uint32_t k = 0; k < count; k++)
		past[k] = (double)shape->past[k];
	if (count >= SHAPE_PAST_MIN)
		shape->usual_ns = (float)median_double(past, count);
}

/* New shapes into their places by kind; bounded by shape_count. */
static int sort_by_kind(struct comm_state *comm)
{
	if (!comm->by_kind)
		comm->by_kind = malloc(SHAPES_MAX / 2 * sizeof(*comm->by_kind));
	if (!comm->by_kind)
		return -ENOMEM;
	if (comm->sorted_count == comm->shape_count)
		return 0;
	/* Shell's sort: by kind, then by place in the table, without memory. */
	memcpy(comm->by_kind, comm->used, comm->shape_count * sizeof(*comm->by_kind));
	for (size_t gap = comm->shape_count / 2; gap > 0; gap /= 2) {
		for (size_t i = gap; i < comm->shape_count; i++) {
			uint32_t value = comm->by_kind[i];
			size_t at = i;

			for (; at >= gap; at -= gap) {
				uint32_t other = comm->by_kind[at - gap];
				uint64_t kind = comm->shapes[other].kind;

				if (kind < comm->shapes[value].kind ||
					(kind == comm->shapes[value].kind && other < value))
					break;
				comm->by_kind[at] = other;
			}
			comm->by_kind[at] = value;
		}
	}
	comm->sorted_count = comm->shape_count;
	return 0;
}

/* What a shape should take: as before, and not much more than the others of its kind. */
static void expect(struct judge *judge, size_t first, size_t end)
{
	struct comm_state *comm = judge->comm;
	size_t count = 0;
	double others_ns = -1;

	for (size_t i = first; i < end && count < judge->scratch_capacity; i++) {
		const struct transfer_shape *shape = &comm->shapes[comm->by_kind[i]];

		if (shape->count)
			judge->scratch[count++] = (double)shape->sum_ns / (double)shape->count;
	}
	if (count >= PEERS_MIN)
		others_ns = lower_median_double(judge->scratch, count);
	for (size_t i = first; i < end; i++) {
		struct transfer_shape *shape = &comm->shapes[comm->by_kind[i]];

		shape->expected_ns = shape->usual_ns;
		if (others_ns > 0 &&
			(shape->usual_ns < 0 ? shape->count > 0
					     : (double)shape->usual_ns > UNLIKE_OTHERS * others_ns))
			shape->expected_ns = (float)others_ns;
		shape->sum_ns = 0;
		shape->count = 0;
	}
}

static void close_shapes(struct judge *judge, bool learn)
{
	struct comm_state *comm = judge->comm;

	if (sort_by_kind(comm) < 0)
		return; /* the next block tries again */
	for (size_t i = 0; i < comm->shape_count; i++) {
		struct transfer_shape *shape = &comm->shapes[comm->used[i]];

		if (shape->count)
			close_shape(shape, learn);
	}
	for (size_t first = 0, end; first < comm->shape_count; first = end) {
		uint64_t kind = comm->shapes[comm->by_kind[first]].kind;

		for (end = first + 1;
			end < comm->shape_count && comm->shapes[comm->by_kind[end]].kind == kind;
			end++)
			;
		expect(judge, first, end);
	}
}

double judge_comm_cost_ns(const struct comm_state *comm, double time_ns, double gain_ns)
{
	/* Replays of quiet time gain less than half of it by noise. */
	double usual = fmin(comm->signal.usual, HALF_SHARE);

	return fmax((gain_ns - usual * time_ns) / (1 - usual), 0);
}

/* Pairs of ranks that are slow, but of no one rank, are no location. */
static bool can_locate(struct judge *judge, struct verdict *probe)
{
	uint64_t step;
	int64_t onset_ns = judge_comm_onset(judge, &step);

	*probe = (struct verdict){0};
	return (judge_comm_locate(judge, onset_ns, judge_now_ns(judge), probe) ||
		       judge_comm_locate_late(judge, onset_ns, probe)) &&
	       (probe->rank_count || !probe->pairs.count);
}

/* The rank whose packets are lost is found to be the one whose link it is. */
static bool loser_is_named(struct judge *judge, const struct run *lossy)
{
	struct comm_state *comm = judge->comm;
	struct run kept = comm->run;
	struct verdict probe;

	comm->run = *lossy;
	if (can_locate(judge, &probe) && probe.rank_count && probe.ranks[0] == comm->loss.rank)
		return true;
	comm->run = kept;
	return false;
}

/* Large enough, for long enough, and somebody's. */
static bool is_to_tell(struct judge *judge, enum run_kind kind, struct gate_sheet *sheet)
{
	struct comm_state *comm = judge->comm;
	const struct signal *signal = &comm->signal;
	struct verdict probe;
	bool large;

	comm->run = signal->runs[kind];
	if (!gate_is(sheet, GATE_USUAL, signal->settled) || !run_is_open(signal, kind, sheet) ||
		!run_is_large(signal, &judge->times, kind, comm->noise_scale, sheet))
		return false;
	/* A process that does not run leaves its sockets to others as a slow link does. */
	if (!gate_is(sheet, GATE_LOCATED,
		    judge_holds_excluded(judge, comm->run.start_ns, run_share(&comm->run))))
		return false;
	/* On one host there is no link to be slow, and what looks like one is mostly a busy CPU. */
	large = run_share(&comm->run) >= LARGE_SHARE_MIN;
	if ((large || judge->traits.several_hosts) && can_locate(judge, &probe))
		return gate_is(sheet, GATE_LOCATED, true);
	return gate_is(sheet, GATE_LOCATED,
		large && !comm->run.small && judge->traits.several_hosts &&
			comm->run.change.evidence >= EVIDENCE_HIGH);
}

/* sheet, unless NULL: of the run that came furthest. */
static bool worth_telling(struct judge *judge, struct gate_sheet *sheet)
{
	const struct signal *signal = &judge->comm->signal;
	bool told = false;

	for (int kind = 0; kind < RUN_STEEP && !told; kind++) {
		const struct run *run = &signal->runs[kind];
		struct gate_sheet own;

		if (sheet)
			judge_sheet_begin(judge, GATE_OF_TRANSFERS, &own);
		told = is_to_tell(judge, (enum run_kind)kind, sheet ? &own : NULL);
		if (!sheet || (kind > 0 && gate_sheet_reach(&own) <= gate_sheet_reach(sheet)))
			continue;
		*sheet = own;
		sheet->level = signal->level;
		sheet->small = kind == RUN_SLOW;
		sheet->since_known = run->change.sum > 0;
		sheet->since_step = step_of_program(&judge->times, run->first_step);
	}
	return told;
}

/* Transfers were not looked at. incident: that tells of them already, or NULL. */
static void tell_held(const struct judge *judge, enum gate gate, const struct incident *incident)
{
	struct gate_sheet sheet;

	if (!judge->watch.on_sheet)
		return;
	judge_sheet_begin(judge, GATE_OF_TRANSFERS, &sheet);
	sheet.level = judge->comm->signal.level;
	(void)gate_is(&sheet, gate, false);
	if (incident)
		sheet.verdict = judge_verdict(judge, incident)->id;
	judge->watch.on_sheet(judge->watch.context, &sheet, NULL);
}

static bool worth_telling_on_sheet(struct judge *judge)
{
	struct gate_sheet sheet;
	bool told = worth_telling(judge, &sheet);

	judge->watch.on_sheet(judge->watch.context, &sheet, NULL);
	return told;
}

/* A rank that is late in these steps disturbs their transfers as well. */
static bool rank_is_late(const struct judge *judge, const struct periodic *transfers)
{
	for (size_t p = 0; p < PERIODICS_MAX; p++) {
		const struct periodic *found = &judge->periodics.list[p].found;

		if (found->every == transfers->every && found->phase == transfers->phase &&
			transfers->height < LATE_FACTOR * found->height)
			return true;
	}
	return false;
}

/* The same of transfers that are long in every so-many-th step. */
static bool periodic_worth_telling(struct judge *judge)
{
	struct comm_state *comm = judge->comm;
	const struct periodic *periodic = &comm->periodic;
	struct verdict probe;

	if (!periodic->every ||
		!periodic_is_loud(periodic, &comm->signal, &judge->times, &judge->block, NULL) ||
		rank_is_late(judge, periodic) ||
		!periodic_is_proven(periodic, &judge->times, 1, NULL))
		return false;
	comm->run = periodic_run(periodic, &comm->signal, &judge->times);
	return can_locate(judge, &probe);
}

/* Most blocks are quiet. What is usual is a median: it may be learnt from all. */
static bool is_rare(const struct run *run)
{
	return 2 * run->loud_blocks < run->blocks;
}

/* The noise of transfers is that of their own past. */
static void find_noises(struct comm_state *comm, struct change_noise noises[RUN_NR])
{
	double past[PAST_BLOCKS];
	size_t count = signal_past(&comm->signal, past);

	signal_noises(past, count, noises);
	comm->noise_scale = noises[RUN_SLOW].scale;
}

bool judge_comm_block(struct judge *judge, double rank_level)
{
	struct comm_state *comm = judge->comm;
	struct signal *signal = &comm->signal;
	const struct incident *incident = judge_incident_of(judge, INCIDENT_TRANSFERS);
	bool learn = !incident && !signal_suspected(signal, RUN_QUICK);
	bool alike =
		signal->runs[RUN_SLOW].change.sum < CHANGE_NEAR || is_rare(&signal->runs[RUN_SLOW]);
	const struct block_loss loss = {.sums = &comm->block, .weight = 1};
	struct change_noise noises[RUN_NR];
	struct run lossy;
	bool explained, quiet, lost;

	comm->block = (struct excess_sums){.steps = judge->block.steps,
		.time_ns = judge->block.time_ns,
		.delay_ns = comm->block_gain_ns};
	comm->block_gain_ns = 0;
	signal_settle(signal, DELAY_SHARE_MIN);
	/* At most all of it: a late departure shows in the next block. */
	signal->level =
		fmin((double)comm->block.delay_ns / (double)comm->block.time_ns, 1) - signal->usual;
	find_noises(comm, noises);
	/* a rank that is late, or held off the CPU, disturbs transfers too */
	explained = rank_level > 0 && signal->level < LATE_FACTOR * rank_level;
	/* What a late rank, or one off the CPU, adds to transfers must not become usual. */
	quiet = learn && (rank_level <= 0 || signal->level < COMM_SHARE_MIN / 2);
	close_shapes(judge, quiet && alike);
	if (judge_verdict_holds(judge, NULL))
		judge_end_calm(judge);
	else if (learn)
		comm->calm[0].end_ns = judge->block.start_ns;
	link_flows_set_state(&judge->comm->links,
		learn && alike && signal->level <= noises[RUN_QUICK].reference, incident != NULL);
	lost = judge_loss_block(judge, !incident && !explained && signal->settled, &lossy);
	if (incident || explained) {
		if (!incident)
			signal_forget_some(signal);
		if (quiet)
			signal_note_quiet(signal);
		tell_held(judge, incident ? GATE_FREE : GATE_OWN, incident);
		return false;
	}
	signal_push(signal, &judge->block, &loss, noises);
	if (lost && loser_is_named(judge, &lossy))
		return true;
	return (judge->watch.on_sheet ? worth_telling_on_sheet(judge)
				      : worth_telling(judge, NULL)) ||
	       periodic_worth_telling(judge);
}
