/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose packets are lost, by what the ports of RDMA devices count, and whether transfers are long since
 * then. A loss that the other end is not told of is a stall of a second now and then: too rare for sums
 * over blocks, but the steps that it hits are counted, against those in which nothing was lost.
 */
#include <math.h>

#include "analysis/judge/internal.h"

#define SECOND_NS INT64_C(1000000000)

static bool rate_of(const struct judge *judge, uint32_t rank, enum metric metric, int64_t from_ns,
	int64_t until_ns, double *per_s)
{
	if (!evidence_rate(judge->ranks[rank].evidence, metric, from_ns, until_ns, per_s))
		return false;
	*per_s *= (double)SECOND_NS;
	return true;
}

/* The rank whose counter grew most, and by how much the next one's did. False: none, or nobody beside it. */
static bool find_most(const struct judge *judge, enum metric metric, int64_t from_ns,
	int64_t until_ns, int least, struct loss_finding *finding)
{
	double per_s, seconds = (double)(until_ns - from_ns) / (double)SECOND_NS;
	uint32_t known = 0;

	finding->per_s = finding->others_per_s = 0;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		if (!judge->ranks[r].in_block ||
			!rate_of(judge, r, metric, from_ns, until_ns, &per_s))
			continue;
		known++;
		if (per_s > finding->per_s) {
			finding->others_per_s = finding->per_s;
			finding->per_s = per_s;
			finding->rank = r;
		} else if (per_s > finding->others_per_s) {
			finding->others_per_s = per_s;
		}
	}
	/* Samples are not just at these times. */
	return known >= 2 && finding->per_s >= ERRORS_PER_S_MIN &&
	       finding->per_s * seconds >= least - 0.5;
}

static bool is_alone(const struct loss_finding *finding)
{
	return finding->per_s > COUNTER_FACTOR * finding->others_per_s;
}

/* At some time before there was less of it, or nothing is known of that time. */
static bool is_fresh(const struct judge *judge, enum metric metric, int64_t from_ns,
	const struct loss_finding *finding)
{
	bool known = false;

	for (int64_t w = 0; w < LOSS_WINDOWS; w++) {
		int64_t until_ns = from_ns - (LOSS_BEFORE_GAP_NS + w * EVIDENCE_BEFORE_NS);
		double per_s;

		if (!rate_of(judge, finding->rank, metric, until_ns - EVIDENCE_BEFORE_NS, until_ns,
			    &per_s))
			continue;
		known = true;
		if (finding->per_s > COUNTER_FACTOR * per_s)
			return true;
	}
	return !known;
}

/*
 * Of what is lost, something after it arrives, mostly. Where nobody misses anything, acknowledgements were
 * late, and it is the other end whose packets are held up. True when nobody counts that.
 */
static bool is_missed(
	const struct judge *judge, int64_t from_ns, int64_t until_ns, double sent_again)
{
	double per_s, missed = 0;
	bool known = false;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		if (judge->ranks[r].in_block &&
			rate_of(judge, r, METRIC_RDMA_OUT_OF_ORDER, from_ns, until_ns, &per_s)) {
			known = true;
			missed += per_s;
		}
	}
	return !known || missed >= LOSS_MISSED_SHARE_MIN * sent_again;
}

static bool find_alone(const struct judge *judge, int64_t from_ns, int64_t until_ns, int least,
	struct loss_finding *result)
{
	struct loss_finding finding = {0};
	enum metric metric = METRIC_RDMA_RETRANSMITS;

	if (!judge->comm->ports_lose ||
		!find_most(judge, metric, from_ns, until_ns, least, &finding))
		return false;
	/* What several ranks send is lost: on its way to one of them? */
	if (!is_alone(&finding)) {
		metric = METRIC_RDMA_OUT_OF_ORDER;
		finding.received = true;
		if (!find_most(judge, metric, from_ns, until_ns, least, &finding) ||
			!is_alone(&finding))
			return false;
	} else if (!is_missed(judge, from_ns, until_ns, finding.per_s)) {
		return false;
	}
	finding.fresh = is_fresh(judge, metric, from_ns, &finding);
	*result = finding;
	return true;
}

bool judge_loss_find(
	const struct judge *judge, int64_t from_ns, int64_t until_ns, struct loss_finding *finding)
{
	return find_alone(judge, from_ns, until_ns, SEEN_MIN, finding);
}

static void begin(const struct judge *judge, struct loss_watch *watch,
	const struct loss_finding *finding, int64_t now_ns)
{
	enum metric metric = finding->received ? METRIC_RDMA_OUT_OF_ORDER : METRIC_RDMA_RETRANSMITS;
	int64_t from_ns = now_ns - LOSS_LOOK_NS, until_ns = from_ns;
	double per_s;

	do {
		until_ns += SECOND_NS;
	} while (until_ns < now_ns &&
		 (!rate_of(judge, finding->rank, metric, from_ns, until_ns, &per_s) || per_s <= 0));
	watch->rank = finding->rank;
	watch->proven = watch->doubted = false;
	watch->since = (struct loss_steps){0};
	watch->first_step = UINT64_MAX;
	watch->start_ns = until_ns - 2 * SAMPLE_NS;
}

void judge_loss_told(struct judge *judge)
{
	struct loss_watch *watch = &judge->comm->loss;

	watch->since = (struct loss_steps){0};
	watch->first_step = UINT64_MAX;
	watch->next_step = judge->times.next;
}

/* Once a second: samples do not come more often. */
static void look(const struct judge *judge, struct loss_watch *watch)
{
	int64_t now_ns = judge->block.start_ns + judge->block.time_ns;
	struct loss_finding finding;
	bool was_active = watch->active;

	if (now_ns - watch->looked_ns < SECOND_NS)
		return;
	watch->looked_ns = now_ns;
	/* What goes on may be rarer for a while. */
	watch->active = find_alone(
		judge, now_ns - LOSS_LOOK_NS, now_ns, was_active ? 1 : SEEN_MIN, &finding);
	if (watch->active && (!was_active || watch->rank != finding.rank))
		begin(judge, watch, &finding, now_ns);
}

static void halve(struct loss_steps *steps)
{
	for (int h = 0; h < LOSS_HEIGHTS; h++) {
		steps->counts[h] /= 2;
		steps->excess_ns[h] /= 2;
	}
	steps->time_ns /= 2;
}

static uint64_t steps_above(const struct loss_steps *steps, int height)
{
	uint64_t count = 0;

	for (int h = height; h < LOSS_HEIGHTS; h++)
		count += steps->counts[h];
	return count;
}

static double excess_above(const struct loss_steps *steps, int height)
{
	double excess_ns = 0;

	for (int h = height; h < LOSS_HEIGHTS; h++)
		excess_ns += steps->excess_ns[h];
	return excess_ns;
}

static void take_step(const struct judge *judge, uint64_t step, struct loss_steps *steps)
{
	double excess_ns = (double)judge->comm->signal.lost_ns[step % STEP_HISTORY];
	int height = excess_ns >= 1 ? 63 - __builtin_clzll((uint64_t)excess_ns) : 0;

	if (signbit(excess_ns)) /* told of, or of a rank that was late */
		return;
	if (height >= LOSS_HEIGHTS)
		height = LOSS_HEIGHTS - 1;
	if (steps_above(steps, 0) >= LOSS_STEPS_KEPT_MAX)
		halve(steps);
	steps->counts[height]++;
	steps->excess_ns[height] += excess_ns;
	steps->time_ns += step_length_ns(&judge->times, step);
}

/*
 * Steps wait for as long as a look goes back: what is lost now and then is only seen to be after some of
 * it, and then these are steps in which it was. Those in which nothing was, when they are older.
 */
static void take_steps(const struct judge *judge, struct loss_watch *watch)
{
	int64_t now_ns = judge->block.start_ns + judge->block.time_ns;

	if (judge->times.next - watch->next_step > STEP_HISTORY)
		watch->next_step = judge->times.next - STEP_HISTORY;
	for (; watch->next_step < judge->times.next; watch->next_step++) {
		uint64_t step = watch->next_step;
		int64_t start_ns = step_start_ns(&judge->times, step);
		bool old = start_ns < now_ns - LOSS_LOOK_NS ||
			   judge->times.next - step > STEP_HISTORY - LOSS_WAITING_ROOM;

		if (!watch->active && !old)
			break;
		if (!watch->active || start_ns < watch->start_ns) {
			take_step(judge, step, &watch->other);
			continue;
		}
		if (step < watch->first_step)
			watch->first_step = step;
		take_step(judge, step, &watch->since);
	}
}

/* It begins with the first of these, where that is still known. */
static void date_run(const struct judge *judge, double least_ns, struct run *run)
{
	uint64_t step = run->first_step;

	if (judge->times.next - step > STEP_HISTORY)
		return;
	while (step < judge->times.next - 1 &&
		(double)judge->comm->signal.lost_ns[step % STEP_HISTORY] < least_ns)
		step++;
	run->first_step = step;
	run->start_ns = step_start_ns(&judge->times, step);
}

/*
 * Steps as bad as those that hold half of the excess: are they more frequent than otherwise, and is it
 * worth telling? As a run: these are the loud ones.
 */
static bool is_worse(const struct judge *judge, struct loss_watch *watch, struct run *run)
{
	const struct loss_steps *since = &watch->since, *other = &watch->other;
	double all_ns = excess_above(since, 0), surprise;
	uint64_t hits, tries = steps_above(since, 0), other_tries = steps_above(other, 0);
	int height = LOSS_HEIGHTS - 1;

	if (other_tries < LOSS_OTHER_STEPS_MIN || since->time_ns < LOSS_SINCE_SECONDS_MIN * 1e9 ||
		all_ns / since->time_ns - excess_above(other, 0) / other->time_ns < LOSS_SHARE_MIN)
		return false;
	while (height > 0 && excess_above(since, height) < all_ns / 2)
		height--;
	hits = steps_above(since, height);
	surprise = hit_surprise(hits, tries, steps_above(other, height), other_tries);
	if (hits < SEEN_MIN || surprise < LOSS_SURPRISE_MIN)
		return false;
	*run = (struct run){.first_step = watch->first_step,
		.start_ns = watch->start_ns,
		.sums = {.steps = tries,
			.time_ns = (int64_t)since->time_ns,
			.delay_ns = (int64_t)all_ns},
		.level = all_ns / since->time_ns,
		.blocks = (uint32_t)(since->time_ns / fmax(judge->judged.quiet.step_ns, BLOCK_NS)),
		.loud_blocks = (uint32_t)hits,
		.loud_ns = (int64_t)excess_above(since, height),
		.change.evidence = surprise,
		.dated = true};
	date_run(judge, (double)(UINT64_C(1) << height), run);
	return true;
}

static void set_aside(struct judge *judge)
{
	uint64_t first = judge->block.first_step;

	if (judge->times.next - first > STEP_HISTORY)
		first = judge->times.next - STEP_HISTORY;
	for (uint64_t s = first; s < judge->times.next; s++) {
		float *excess_ns = &judge->comm->signal.lost_ns[s % STEP_HISTORY];

		*excess_ns = -fabsf(*excess_ns);
	}
}

bool judge_loss_block(struct judge *judge, bool counts, struct run *run)
{
	struct loss_watch *watch = &judge->comm->loss;

	if (!judge->comm->ports_lose && !judge->comm->links.count)
		return false;
	if (!counts)
		set_aside(judge);
	look(judge, watch);
	take_steps(judge, watch);
	watch->proven = watch->active && counts && is_worse(judge, watch, run);
	return watch->proven;
}
