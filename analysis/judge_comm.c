/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers that are long although nobody was late, and whose link it is. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/robust_stats.h"
#include "analysis/judge_internal.h"

static struct transfer_shape *find_shape(
	struct comm_state *comm, const struct blame_transfer *transfer)
{
	size_t at = (size_t)(transfer->shape >> 20) & (SHAPES_MAX - 1);

	while (comm->shapes[at].shape && comm->shapes[at].shape != transfer->shape)
		at = (at + 1) & (SHAPES_MAX - 1);
	if (!comm->shapes[at].shape) {
		if (comm->shape_count >= SHAPES_MAX / 2)
			return NULL; /* a program of that many shapes: the first ones must do */
		comm->used[comm->shape_count++] = (uint32_t)at;
		comm->shapes[at] = (struct transfer_shape){.shape = transfer->shape,
			.kind = transfer->kind,
			.usual_ns = -1,
			.expected_ns = -1};
	}
	return &comm->shapes[at];
}

static int reserve_step(struct comm_state *comm, const struct step_grid *grid)
{
	if (grid->instance_count > comm->instance_capacity) {
		size_t capacity = grid->instance_count * 2;

		free(comm->faster);
		comm->faster = malloc(capacity * sizeof(*comm->faster));
		comm->instance_capacity = comm->faster ? capacity : 0;
	}
	if (grid->row_count > comm->row_capacity) {
		size_t capacity = grid->row_count * 2;

		free(comm->rows);
		comm->rows = malloc(capacity * sizeof(*comm->rows));
		comm->row_capacity = comm->rows ? capacity : 0;
	}
	return (comm->faster || grid->instance_count == 0) && comm->rows ? 0 : -ENOMEM;
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
		if (link && (!row->link_count++ || shape->slow < row->link_least))
			row->link_least = shape->slow;
	}
}

/* Returns the largest excess of a row. */
static double take_rows(struct judge *judge, const struct step_grid *grid)
{
	double most = 0;

	for (size_t r = 0; r < grid->row_count; r++) {
		const struct comm_row *row = &judge->comm->rows[r];

		most = fmax(most, row->excess_ns);
		if (!row->link_count)
			continue;
		struct rank_state *state = &judge->ranks[grid->rows[r].rank];

		if (!state->link_count || row->link_least < state->link_least)
			state->link_least = row->link_least;
		state->link_count += row->link_count;
	}
	return most;
}

/*
 * What some ranks gain shows with the others in the next step. For the blocks it counts at once, as a mean, which
 * noise of single groups does not reach; for the onset, where it is largest.
 */
static void note_gain(struct comm_state *comm, const struct step_grid *grid, int64_t gain_ns)
{
	int64_t sum_ns = 0, most_ns = 0, mean_ns;

	for (size_t r = 0; r < grid->row_count; r++) {
		uint32_t rank = grid->rows[r].rank;
		int64_t ahead_ns = rank < comm->line.capacity ? comm->line.ahead_ns[rank] : 0;

		sum_ns += ahead_ns;
		most_ns = ahead_ns > most_ns ? ahead_ns : most_ns;
	}
	mean_ns = grid->row_count ? sum_ns / (int64_t)grid->row_count : 0;
	comm->block_gain_ns += gain_ns + mean_ns - comm->ahead_mean_ns;
	comm->steps[grid->number % STEP_HISTORY] =
		fmaxf((float)(gain_ns + most_ns - comm->ahead_most_ns), 0);
	comm->ahead_mean_ns = mean_ns;
	comm->ahead_most_ns = most_ns;
}

int judge_comm_step(struct judge *judge, const struct step_grid *grid)
{
	struct comm_state *comm = judge->comm;
	double most;
	int64_t gain_ns = 0;
	int error = reserve_step(comm, grid);

	if (error < 0)
		return error;
	if (grid->instance_count)
		memset(comm->faster, 0, grid->instance_count * sizeof(*comm->faster));
	memset(comm->rows, 0, grid->row_count * sizeof(*comm->rows));
	for (size_t i = 0; i < judge->blame.transfer_count; i++) {
		const struct blame_transfer *transfer = &judge->blame.transfers[i];
		struct transfer_shape *shape = find_shape(comm, transfer);

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
	bool slow = most > REPLAY_SHARE_MIN * (double)(grid->end_ns - grid->start_ns);

	/* What is late at a step's end makes the next one longer. */
	if (slow || comm->slow_before)
		error = whatif_replay(&judge->whatif, grid, &judge->blame,
			&(struct whatif_change){.faster = comm->faster}, &comm->line, &gain_ns);
	else
		whatif_line_reset(&comm->line);
	comm->slow_before = slow;
	comm->step_gain_ns = gain_ns;
	note_gain(comm, grid, gain_ns);
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

/* The track of transfers; NULL: none holds. */
static const struct track *comm_track(const struct judge *judge)
{
	for (size_t t = 0; t < judge->track_count; t++) {
		if (judge->tracks[t].active && judge->tracks[t].comm)
			return &judge->tracks[t];
	}
	return NULL;
}

/* Shares below it are not told. */
static double least_share(const struct comm_run *run)
{
	return run->small ? SMALL_SHARE_MIN : COMM_SHARE_MIN;
}

void judge_comm_extend(const struct judge *judge, struct comm_run *run)
{
	double mean;
	bool loud;

	if (run->blocks == 0)
		*run = (struct comm_run){.first_step = judge->block.first_step,
			.start_ns = judge->block.start_ns,
			.small = run->small};
	run->time_ns += judge->block.time_ns;
	run->excess_ns += judge->comm->excess_ns;
	run->steps += judge->block.steps;
	run->blocks++;
	mean = (double)run->excess_ns / (double)run->time_ns;
	loud = judge->comm->excess_share >=
	       fmax(QUIET_SHARE * least_share(run), QUIET_OF_LEVEL * mean);
	run->loud_blocks += loud;
	run->loud_ns += loud ? judge->block.time_ns : 0;
}

double judge_comm_cost_ns(const struct comm_state *comm, double time_ns, double gain_ns)
{
	double past[2 * PAST_BLOCKS], usual;
	uint32_t kept = comm->past_count < 2 * PAST_BLOCKS ? comm->past_count : 2 * PAST_BLOCKS;

	for (uint32_t i = 0; i < kept; i++)
		past[i] = (double)comm->past[i];
	/* Replays of quiet time gain less than half of it by noise. */
	usual = kept ? fmin(fmax(median_double(past, kept), 0), HALF_SHARE) : 0;
	return fmax((gain_ns - usual * time_ns) / (1 - usual), 0);
}

double judge_comm_share(const struct comm_state *comm)
{
	const struct comm_run *run = &comm->run;

	return run->time_ns > 0 ? (double)run->excess_ns / (double)run->time_ns : 0;
}

double judge_comm_step_ns(const struct comm_state *comm)
{
	const struct comm_run *run = &comm->run;

	return run->steps ? (double)run->time_ns / (double)run->steps : 0;
}

/*
 * A block that alone is longer than all others of its run together is a stall: it lends them no level. One
 * in a run, so that stalls that come again count.
 */
static void drop_stall(struct comm_run *run, int64_t excess_ns)
{
	if (run->peak_ns < 0 && excess_ns <= -run->peak_ns)
		return;
	if (run->peak_ns < 0) { /* what was taken for it was none beside this */
		run->excess_ns -= run->peak_ns;
		run->loud_blocks++;
	}
	if (excess_ns > run->peak_ns)
		run->peak_ns = excess_ns;
	if (run->blocks <= QUICK_BLOCKS_MIN || 2 * run->peak_ns <= run->excess_ns)
		return;
	run->excess_ns -= run->peak_ns;
	run->peak_ns = -run->peak_ns;
	run->loud_blocks -= run->loud_blocks > 0;
}

/* The noise of before a run that has just begun. */
static struct change_noise comm_noise(const struct comm_state *comm, enum run_kind kind)
{
	double past[2 * PAST_BLOCKS];
	uint32_t kept = comm->past_count < 2 * PAST_BLOCKS ? comm->past_count : 2 * PAST_BLOCKS;
	struct change_noise noise;
	uint32_t count = 0;

	for (uint32_t i = comm->series[kind].past_in_run + 1; i <= kept; i++)
		past[count++] = (double)comm->past[(comm->past_count - i) % (2 * PAST_BLOCKS)];
	noise = change_noise_of(past, count,
		kind == RUN_QUICK ? QUICK_REFERENCE_SHARE * COMM_SHARE_MIN : SLOW_REFERENCE);
	noise.forget = kind == RUN_QUICK ? 0 : SLOW_FORGET;
	return noise;
}

/* Pairs of ranks that are slow, but of no one rank, are no location. */
static bool can_locate(struct judge *judge, struct verdict *probe)
{
	uint64_t step;
	int64_t onset_ns = judge_comm_onset(judge, &step);

	*probe = (struct verdict){0};
	return (judge_comm_locate(judge, onset_ns, judge_now_ns(judge), probe) ||
		       judge_comm_locate_late(judge, onset_ns, probe)) &&
	       (probe->rank_count || !probe->pair_count);
}

/* The rank whose packets are lost is found to be the one whose link it is. */
static bool loser_is_named(struct judge *judge, const struct comm_run *lossy)
{
	struct comm_state *comm = judge->comm;
	struct comm_run kept = comm->run;
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
	const struct comm_series *series = &comm->series[kind], *quick = &comm->series[RUN_QUICK];
	const struct comm_run *run = &comm->run;
	bool slow = kind == RUN_SLOW;
	double share, least;
	struct verdict probe;

	comm->run = series->run;
	share = judge_comm_share(comm);
	least = least_share(run);
	/* What has ended is not told any more. */
	if (!gate_passed(sheet, GATE_LOUD, comm->excess_share, QUIET_SHARE * least))
		return false;
	/* What began a moment ago is the quick run's to tell. */
	if (slow &&
		!gate_is(sheet, GATE_NOT_NEW,
			quick->change.sum < CHANGE_SUSPECT || quick->run.blocks >= SLOW_BLOCKS_MIN))
		return false;
	if (!gate_passed(sheet, GATE_CHANGE, series->change.sum, CHANGE_THRESHOLD) ||
		!gate_passed(sheet, GATE_LASTS, (double)run->blocks,
			slow ? SLOW_BLOCKS_MIN : QUICK_BLOCKS_MIN) ||
		!gate_passed_in(sheet, GATE_DELAY, (double)run->excess_ns,
			WAKE_UP_NS * (double)run->steps, 1e6 * (double)run->steps) ||
		!gate_passed(sheet, GATE_LEVEL, share, least))
		return false;
	if (slow && (!gate_passed(sheet, GATE_NOISE, share,
			     judge_chance_level(comm_noise(comm, kind).scale, run->blocks,
				     comm->past_count)) ||
			    !gate_passed(sheet, GATE_OFTEN, (double)run->loud_blocks,
				    TRANSFER_LOUD_BLOCKS_MIN)))
		return false;
	if (can_locate(judge, &probe))
		return gate_is(sheet, GATE_LOCATED, true);
	/* On one host there is no link to be slow, and what looks like one is a busy CPU. */
	return gate_is(sheet, GATE_LOCATED,
		!slow && judge->several_hosts && share >= LARGE_SHARE_MIN &&
			series->change.evidence >= EVIDENCE_HIGH);
}

/* sheet, unless NULL: of the run that came furthest. */
static bool worth_telling(struct judge *judge, struct gate_sheet *sheet)
{
	bool told = false;

	for (int kind = 0; kind < RUN_NR && !told; kind++) {
		const struct comm_series *series = &judge->comm->series[kind];
		struct gate_sheet own;

		if (sheet)
			judge_sheet_begin(judge, GATE_OF_TRANSFERS, &own);
		told = is_to_tell(judge, (enum run_kind)kind, sheet ? &own : NULL);
		if (!sheet || (kind > 0 && gate_sheet_reach(&own) <= gate_sheet_reach(sheet)))
			continue;
		*sheet = own;
		sheet->level = judge->comm->excess_share;
		sheet->small = kind == RUN_SLOW;
		sheet->since_known = series->change.sum > 0;
		sheet->since_step = series->run.first_step;
	}
	return told;
}

/* Transfers were not looked at. track: that tells of them already, or NULL. */
static void tell_held(const struct judge *judge, enum gate gate, const struct track *track)
{
	struct gate_sheet sheet;

	if (!judge->on_sheet)
		return;
	judge_sheet_begin(judge, GATE_OF_TRANSFERS, &sheet);
	sheet.level = judge->comm->excess_share;
	(void)gate_is(&sheet, gate, false);
	if (track)
		sheet.verdict = judge->verdicts[track->verdict].id;
	judge->on_sheet(judge->sheet_context, &sheet, NULL);
}

static bool worth_telling_on_sheet(struct judge *judge)
{
	struct gate_sheet sheet;
	bool told = worth_telling(judge, &sheet);

	judge->on_sheet(judge->sheet_context, &sheet, NULL);
	return told;
}

/* The same of transfers that are long in every so-many-th step. */
static bool periodic_worth_telling(struct judge *judge)
{
	struct verdict probe;

	return judge_periodic_transfers(judge, &judge->comm->run) && can_locate(judge, &probe);
}

/* A block that says nothing, for late ranks explain it: some of what was seen is forgotten. */
static void forget_some(struct comm_state *comm)
{
	for (int kind = 0; kind < RUN_NR; kind++) {
		struct comm_series *series = &comm->series[kind];

		series->change.sum = fmax(0, series->change.sum - 0.5);
		if (series->change.sum <= 0)
			*series = (struct comm_series){0};
	}
}

/* Most blocks are quiet. What is usual is a median: it may be learnt from all. */
static bool is_rare(const struct comm_run *run)
{
	return 2 * run->loud_blocks < run->blocks;
}

static void push_one(struct judge *judge, enum run_kind kind)
{
	struct comm_state *comm = judge->comm;
	struct comm_series *series = &comm->series[kind];
	struct change_noise noise = comm_noise(comm, kind);

	(void)change_point_push(&series->change, &noise, comm->excess_share, 1);
	if (series->change.run <= 1)
		series->run = (struct comm_run){.small = kind == RUN_SLOW};
	if (series->change.sum <= 0) {
		series->past_in_run = 0;
		return;
	}
	judge_comm_extend(judge, &series->run);
	series->run.evidence = series->change.evidence;
	drop_stall(&series->run, comm->excess_ns);
}

/* A slow run that was nobody's for so long is what transfers take now, until they rest. */
static void push_series(struct judge *judge)
{
	struct comm_state *comm = judge->comm;
	struct comm_series *slow = &comm->series[RUN_SLOW];

	push_one(judge, RUN_QUICK);
	comm->given_up &= comm->excess_share > SLOW_REFERENCE;
	if (comm->given_up)
		return;
	push_one(judge, RUN_SLOW);
	if (slow->run.blocks >=
		(is_rare(&slow->run) ? TRANSFER_RARE_TRIES_MAX : TRANSFER_TRIES_MAX)) {
		*slow = (struct comm_series){0};
		comm->given_up = true;
	}
}

bool judge_comm_block(struct judge *judge, double rank_level)
{
	struct comm_state *comm = judge->comm;
	const struct track *track = comm_track(judge);
	bool active = track != NULL;
	bool learn = !active && comm->series[RUN_QUICK].change.sum < CHANGE_SUSPECT;
	bool alike = comm->series[RUN_SLOW].change.sum < CHANGE_NEAR ||
		     is_rare(&comm->series[RUN_SLOW].run);
	struct comm_run lossy;
	bool explained, quiet, lost;

	comm->excess_ns = comm->block_gain_ns;
	comm->excess_share = fmin((double)comm->excess_ns / (double)judge->block.time_ns, 1);
	comm->block_gain_ns = 0;
	/* a rank that is late, or held off the CPU, disturbs transfers too */
	explained = comm->excess_share < LATE_FACTOR * rank_level;
	/* What a late rank, or one off the CPU, adds to transfers must not become usual. */
	quiet = learn && (rank_level <= 0 || comm->excess_share < COMM_SHARE_MIN / 2);
	close_shapes(judge, quiet && alike);
	link_flows_set_state(&judge->links,
		learn && alike && comm->excess_share <= comm_noise(comm, RUN_QUICK).reference,
		active);
	lost = judge_loss_block(
		judge, !active && !explained && comm->past_count >= WARM_UP_BLOCKS, &lossy);
	if (active) {
		tell_held(judge, GATE_FREE, track);
		return false;
	}
	/* What counts as evidence is noise, too, as long as nothing is suspected. */
	if (quiet || (learn && !explained)) {
		comm->past[comm->past_count++ % (2 * PAST_BLOCKS)] = (float)comm->excess_share;
		if (comm->past_count == 4 * PAST_BLOCKS)
			comm->past_count = 2 * PAST_BLOCKS;
		comm->series[RUN_QUICK].past_in_run +=
			comm->series[RUN_QUICK].past_in_run < QUICK_BLOCKS_MIN;
		comm->series[RUN_SLOW].past_in_run +=
			comm->series[RUN_SLOW].past_in_run < 2 * PAST_BLOCKS - WARM_UP_BLOCKS;
	}
	if (explained || comm->past_count < WARM_UP_BLOCKS) {
		forget_some(comm);
		if (explained)
			tell_held(judge, GATE_OWN, NULL);
		return false;
	}
	if (lost && loser_is_named(judge, &lossy))
		return true;
	push_series(judge);
	return (judge->on_sheet ? worth_telling_on_sheet(judge) : worth_telling(judge, NULL)) ||
	       periodic_worth_telling(judge);
}
