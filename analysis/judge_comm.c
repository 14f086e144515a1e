/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers that are long although nobody was late, and whose link it is. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/judge_internal.h"
#include "analysis/robust_stats.h"

enum { SHAPE_PAST_MIN = 5 };

/* The culprit's sockets were busy for at least this share of the excess. */
static const double busy_share_min = 0.3;
/* Others within this share of the busiest one are culprits too. */
static const double busy_alike = 0.5;
/* Retransmitted bytes per byte sent that a healthy link does not reach. */
static const double retransmit_share_min = 0.005;
/* Without a rank to name, only a large and lasting excess is told. */
static const double unlocated_share_min = 0.15;

static struct transfer_shape *find_shape(struct comm_state *comm, uint64_t shape)
{
	size_t at = (size_t)(shape >> 20) & (SHAPES_MAX - 1);

	while (comm->shapes[at].shape && comm->shapes[at].shape != shape)
		at = (at + 1) & (SHAPES_MAX - 1);
	if (!comm->shapes[at].shape) {
		if (comm->shape_count >= SHAPES_MAX / 2)
			return NULL; /* a program of that many shapes: the first ones must do */
		comm->shape_count++;
		comm->shapes[at] = (struct transfer_shape){.shape = shape, .usual_ns = -1};
	}
	return &comm->shapes[at];
}

void judge_comm_step(struct judge *judge, const struct step_grid *grid)
{
	struct comm_state *comm = judge->comm;
	double excess_ns = 0;

	for (size_t i = 0; i < judge->blame.transfer_count; i++) {
		const struct blame_transfer *transfer = &judge->blame.transfers[i];
		struct transfer_shape *shape = find_shape(comm, transfer->shape);

		if (!shape)
			continue;
		shape->sum_ns += transfer->transfer_ns;
		shape->count++;
		if (shape->usual_ns >= 0)
			excess_ns += (double)transfer->transfer_ns - (double)shape->usual_ns;
	}
	comm->steps[grid->number % STEP_HISTORY] = (float)excess_ns;
}

/* Sums the excess of the block over what is usual for each shape. */
static double sum_excess(const struct comm_state *comm)
{
	double excess_ns = 0;

	for (size_t i = 0; i < SHAPES_MAX; i++) {
		const struct transfer_shape *shape = &comm->shapes[i];

		if (shape->shape && shape->count > 0 && shape->usual_ns >= 0)
			excess_ns += (double)shape->sum_ns -
				     (double)shape->usual_ns * (double)shape->count;
	}
	return excess_ns;
}

/* Ends the block; a quiet one teaches what is usual. */
static void close_shapes(struct comm_state *comm, bool learn)
{
	for (size_t i = 0; i < SHAPES_MAX; i++) {
		struct transfer_shape *shape = &comm->shapes[i];
		double past[SHAPE_PAST];
		uint32_t count;

		if (shape->count && (learn || shape->usual_ns < 0)) {
			shape->past[shape->past_count++ % SHAPE_PAST] =
				(float)shape->sum_ns / (float)shape->count;
			if (shape->past_count == 2 * SHAPE_PAST)
				shape->past_count = SHAPE_PAST;
			count = shape->past_count < SHAPE_PAST ? shape->past_count : SHAPE_PAST;
			for (uint32_t k = 0; k < count; k++)
				past[k] = (double)shape->past[k];
			if (count >= SHAPE_PAST_MIN)
				shape->usual_ns = (float)median_double(past, count);
		}
		shape->sum_ns = 0;
		shape->count = 0;
	}
}

static bool comm_track_active(const struct judge *judge)
{
	for (size_t t = 0; t < judge->track_count; t++) {
		if (judge->tracks[t].active && judge->tracks[t].comm)
			return true;
	}
	return false;
}

static void extend_run(struct judge *judge)
{
	struct comm_state *comm = judge->comm;

	if (comm->change.run <= 1) {
		comm->run_first_step = judge->block.first_step;
		comm->run_start_ns = judge->block.start_ns;
		comm->run_time_ns = comm->run_excess_ns = 0;
		comm->run_steps = comm->run_blocks = 0;
	}
	comm->run_time_ns += judge->block.time_ns;
	comm->run_excess_ns += (int64_t)(comm->excess_share * (double)judge->block.time_ns);
	comm->run_steps += judge->block.steps;
	comm->run_blocks++;
}

static struct change_noise comm_noise(const struct comm_state *comm)
{
	double past[2 * PAST_BLOCKS];
	uint32_t count = comm->past_count < 2 * PAST_BLOCKS ? comm->past_count : 2 * PAST_BLOCKS;

	for (uint32_t i = 0; i < count; i++)
		past[i] = (double)comm->past[i];
	return change_noise_of(past, count, 0.85 * COMM_SHARE_MIN);
}

/* How busy each rank's sockets were, more than before and more than the others'. */
struct busy {
	double usual, most;
	uint32_t rank_count, busiest;
};

static double busy_over(const struct judge *judge, uint32_t rank, int64_t from_ns, int64_t until_ns,
	double usual, bool *known)
{
	const struct evidence *evidence = judge->ranks[rank].evidence;
	double now, before;

	*known = evidence_rate(evidence, METRIC_TCP_BUSY_NS, from_ns, until_ns, &now);
	if (!*known)
		return 0;
	if (evidence_rate(evidence, METRIC_TCP_BUSY_NS, from_ns - 8 * INT64_C(1000000000), from_ns,
		    &before) &&
		before > usual)
		usual = before;
	return now > usual ? now - usual : 0;
}

static bool measure_busy(struct judge *judge, int64_t from_ns, int64_t until_ns, struct busy *busy)
{
	*busy = (struct busy){0};
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		double rate;

		if (judge->ranks[r].in_block &&
			evidence_rate(judge->ranks[r].evidence, METRIC_TCP_BUSY_NS, from_ns,
				until_ns, &rate))
			judge->scratch[busy->rank_count++] = rate;
	}
	busy->usual = lower_median_double(judge->scratch, busy->rank_count);
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		bool known = false;
		double over = judge->ranks[r].in_block
				      ? busy_over(judge, r, from_ns, until_ns, busy->usual, &known)
				      : 0;

		if (known && over > busy->most) {
			busy->most = over;
			busy->busiest = r;
		}
	}
	return busy->rank_count >= 2;
}

static double rate_of(const struct judge *judge, uint32_t rank, unsigned metric, int64_t from_ns,
	int64_t until_ns)
{
	double rate = 0;

	(void)evidence_rate(judge->ranks[rank].evidence, metric, from_ns, until_ns, &rate);
	return rate;
}

static double usual_rate(struct judge *judge, unsigned metric, int64_t from_ns, int64_t until_ns)
{
	size_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		double rate;

		if (judge->ranks[r].in_block &&
			evidence_rate(judge->ranks[r].evidence, metric, from_ns, until_ns, &rate))
			judge->scratch[count++] = rate;
	}
	return lower_median_double(judge->scratch, count);
}

static void tell_link(struct judge *judge, const struct busy *busy, int64_t from_ns,
	int64_t until_ns, struct verdict *verdict)
{
	const struct comm_state *comm = judge->comm;
	double step_ns = comm->run_steps ? (double)comm->run_time_ns / (double)comm->run_steps : 0;
	uint32_t worst = busy->busiest;
	double sent = rate_of(judge, worst, METRIC_TCP_BYTES_SENT, from_ns, until_ns);
	double again = rate_of(judge, worst, METRIC_TCP_BYTES_RETRANSMITTED, from_ns, until_ns);
	double usual_again = usual_rate(judge, METRIC_TCP_BYTES_RETRANSMITTED, from_ns, until_ns);
	struct verdict_evidence *evidence = &verdict->evidence[0];
	bool lossy = sent > 0 && again > retransmit_share_min * sent && again > 4 * usual_again;

	verdict->cause = lossy ? CAUSE_NIC_RETRANSMIT : CAUSE_NIC_LINK;
	verdict->evidence_count = 1;
	*evidence = (struct verdict_evidence){.kind = verdict->cause,
		.overlap_ms_per_step =
			rate_of(judge, worst, METRIC_TCP_BUSY_NS, from_ns, until_ns) * step_ns /
			1e6,
		.control_ms_per_step = busy->usual * step_ns / 1e6};
	snprintf(evidence->detail, sizeof(evidence->detail),
		"sockets of rank %u with data to send; %.1f KiB sent, %.1f KiB sent again a step",
		worst, sent * step_ns / 1024, again * step_ns / 1024);
	verdict->rejected_count = 1;
	verdict->rejected[0].kind = lossy ? CAUSE_NIC_LINK : CAUSE_NIC_RETRANSMIT;
	snprintf(verdict->rejected[0].why, sizeof(verdict->rejected[0].why), "%s",
		lossy ? "explained by what was sent again" : "hardly anything was sent again");
}

/* The rank that leaves collectives late, again and again, when no socket tells. */
static bool locate_by_lag(struct judge *judge, struct verdict *verdict)
{
	const struct comm_state *comm = judge->comm;
	double most = 0, second = 0;
	uint32_t rank = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		double lag = judge->ranks[r].in_block ? judge->ranks[r].comm : 0;

		if (lag > most) {
			second = most;
			most = lag;
			rank = r;
		} else if (lag > second) {
			second = lag;
		}
	}
	if (most < 0.5 * comm->excess_share || most < 3 * second || most < COMM_SHARE_MIN / 2)
		return false;
	verdict->rank_count = 1;
	verdict->ranks[0] = rank;
	verdict->cause = CAUSE_UNKNOWN;
	verdict->evidence_count = 0;
	verdict->share_explained = fmin(most / fmax(comm->excess_share, 1e-9), 1);
	return true;
}

/* Sockets are sampled: what they say about this change may only come with the next sample. */
static bool has_sockets(const struct judge *judge, int64_t until_ns)
{
	int64_t value;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		if (judge->ranks[r].in_block && evidence_value(judge->ranks[r].evidence,
							METRIC_TCP_BUSY_NS, until_ns, &value))
			return true;
	}
	return false;
}

bool judge_comm_locate(
	struct judge *judge, int64_t from_ns, int64_t until_ns, struct verdict *verdict)
{
	const struct comm_state *comm = judge->comm;
	double share =
		comm->run_time_ns > 0 ? (double)comm->run_excess_ns / (double)comm->run_time_ns : 0;
	struct busy busy;

	if (judge_link_locate(judge, share, from_ns, until_ns, verdict))
		return true;
	if (!measure_busy(judge, from_ns, until_ns, &busy))
		return !has_sockets(judge, until_ns) && locate_by_lag(judge, verdict);
	if (busy.most < busy_share_min * share)
		return false;
	verdict->rank_count = 0;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		bool known = false;

		if (judge->ranks[r].in_block &&
			busy_over(judge, r, from_ns, until_ns, busy.usual, &known) >=
				busy_alike * busy.most &&
			known && verdict->rank_count < VERDICT_RANKS_MAX)
			verdict->ranks[verdict->rank_count++] = r;
	}
	tell_link(judge, &busy, from_ns, until_ns, verdict);
	verdict->share_explained = fmin(busy.most / fmax(share, 1e-9), 1);
	if (verdict->rank_count * 2 > busy.rank_count) {
		verdict->rank_count = 0; /* all alike: no one link */
		verdict->cause = CAUSE_PATH_CONGESTION;
		verdict->evidence[0].kind = CAUSE_PATH_CONGESTION;
	}
	return true;
}

static bool can_locate(struct judge *judge, int64_t until_ns)
{
	struct verdict probe = {0};

	return judge_comm_locate(judge, judge->comm->run_start_ns, until_ns, &probe);
}

bool judge_comm_block(struct judge *judge, double rank_level)
{
	struct comm_state *comm = judge->comm;
	bool active = comm_track_active(judge);
	bool learn = !active && comm->change.sum < CHANGE_SUSPECT;

	comm->excess_share = sum_excess(comm) / (double)judge->block.time_ns;
	/* What a late rank, or one off the CPU, adds to transfers must not become usual. */
	learn &= rank_level <= 0 || comm->excess_share < COMM_SHARE_MIN / 2;
	close_shapes(comm, learn);
	link_flows_set_quiet(&judge->links, learn);
	if (active)
		return false;
	if (learn) {
		comm->past[comm->past_count++ % (2 * PAST_BLOCKS)] = (float)comm->excess_share;
		if (comm->past_count == 4 * PAST_BLOCKS)
			comm->past_count = 2 * PAST_BLOCKS;
	}
	if (comm->excess_share < 1.5 * rank_level || comm->past_count < WARM_UP_BLOCKS) {
		/* a rank that is late, or held off the CPU, disturbs transfers too */
		comm->change.sum = fmax(0, comm->change.sum - 0.5);
		if (comm->change.sum <= 0)
			comm->change = (struct change_point){0};
		return false;
	}
	struct change_noise noise = comm_noise(comm);

	(void)change_point_push(&comm->change, &noise, comm->excess_share, 1);
	if (comm->change.sum <= 0)
		return false;
	extend_run(judge);
	double share = (double)comm->run_excess_ns / (double)comm->run_time_ns;

	if (comm->change.sum < CHANGE_THRESHOLD || comm->run_blocks < 3 || share < COMM_SHARE_MIN ||
		(double)comm->run_excess_ns < DELAY_PER_STEP_MIN_NS * (double)comm->run_steps)
		return false;
	if (can_locate(judge, judge->block.start_ns + judge->block.time_ns))
		return true;
	/* On one host there is no link to be slow, and what looks like one is a busy CPU. */
	return judge->several_hosts && share >= unlocated_share_min &&
	       comm->change.evidence >= 4 * CHANGE_THRESHOLD;
}
