/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/locate/link_flows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/arena.h"
#include "analysis/base/robust_stats.h"

void link_flows_fini(struct link_flows *flows)
{
	free(flows->flows);
	free(flows->places);
	free(flows->scratch);
	*flows = (struct link_flows){0};
}

/* Fibonacci hashing (Knuth, TAOCP 3, 6.4). */
static size_t first_place(const struct link_flows *flows, uint32_t from, uint32_t to)
{
	uint64_t key = (uint64_t)from << 32 | to;

	return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (flows->place_count - 1);
}

static void note_place(struct link_flows *flows, uint32_t index)
{
	const struct link_flow *flow = &flows->flows[index];
	size_t place = first_place(flows, flow->from, flow->to);

	while (flows->places[place])
		place = (place + 1) & (flows->place_count - 1);
	flows->places[place] = index + 1;
}

static int grow(struct link_flows *flows)
{
	size_t place_count = flows->place_count ? 2 * flows->place_count : 128;
	uint32_t *places = calloc(place_count, sizeof(*places));

	if (!places ||
		array_grow((void **)&flows->scratch, &flows->scratch_capacity, place_count / 2,
			sizeof(*flows->scratch)) < 0 ||
		array_grow((void **)&flows->flows, &flows->capacity, place_count / 2,
			sizeof(*flows->flows)) < 0) {
		free(places);
		return -ENOMEM;
	}
	free(flows->places);
	flows->places = places;
	flows->place_count = place_count;
	for (size_t i = 0; i < flows->count; i++)
		note_place(flows, (uint32_t)i);
	return 0;
}

static struct link_flow *find_flow(const struct link_flows *flows, uint32_t from, uint32_t to)
{
	size_t place;

	if (!flows->place_count)
		return NULL;
	place = first_place(flows, from, to);
	for (; flows->places[place]; place = (place + 1) & (flows->place_count - 1)) {
		struct link_flow *flow = &flows->flows[flows->places[place] - 1];

		if (flow->from == from && flow->to == to)
			return flow;
	}
	return NULL;
}

static const struct link_point *point_at(const struct link_flow *flow, uint32_t number)
{
	return &flow->points[number % LINK_POINTS];
}

/*
 * Takes the second that a point ends, and another one before it begins, into what is usual. Programs
 * that ask for few completions (UCX: one in 64 requests) have few times in a second: these are
 * gathered.
 */
static void learn(struct link_flow *flow, uint32_t number)
{
	struct link_point *last = &flow->points[number % LINK_POINTS];
	const struct link_point *before = point_at(flow, number - 1);

	if (last->learnt)
		return;
	last->learnt = true;
	flow->learnt_count += last->count - before->count;
	flow->learnt_sum_ns += last->sum_ns - before->sum_ns;
	if (flow->learnt_count < SEEN_MIN)
		return;
	flow->past_ns[flow->past_count++ % LINK_PAST] =
		(float)((double)flow->learnt_sum_ns / (double)flow->learnt_count);
	flow->learnt_count = flow->learnt_sum_ns = 0;
	if (flow->past_count == 2 * LINK_PAST)
		flow->past_count = LINK_PAST;
}

/* Before the next point begins. */
static void learn_usual(const struct link_flows *flows, struct link_flow *flow)
{
	if (flow->point_count < 2)
		return;
	/* What is never quiet has a usual, too: what it was at first. */
	if ((flow->quiet && !flows->disturbed) || flow->past_count < LINK_PAST)
		learn(flow, flow->point_count - 1);
	if (flow->point_count >= LINK_POINTS && !flows->told)
		learn(flow, flow->point_count - LINK_POINTS + 1);
}

/* The numbers stay the same modulo LINK_POINTS. */
static void wrap_points(struct link_flow *flow)
{
	if (flow->point_count >= 1u << 30)
		flow->point_count = LINK_POINTS + flow->point_count % LINK_POINTS;
}

int link_flows_add(struct link_flows *flows, const struct link_sample *sample, int64_t time_ns)
{
	struct link_flow *flow = find_flow(flows, sample->from, sample->to);
	struct link_point *point, *last;

	if (!flow) {
		if (flows->count == LINK_FLOWS_MAX) {
			flows->unseen++;
			return 0;
		}
		if (2 * flows->count == flows->place_count && grow(flows) < 0)
			return -ENOMEM;
		flow = &flows->flows[flows->count++];
		*flow = (struct link_flow){
			.from = sample->from, .to = sample->to, .point_count = 1, .quiet = true};
		flow->points[0].time_ns =
			time_ns - SAMPLE_NS; /* what it says is of the last second */
		note_place(flows, (uint32_t)flows->count - 1);
	}
	last = &flow->points[(flow->point_count - 1) % LINK_POINTS];
	if (flow->point_count == 1 || time_ns - last->time_ns >= LINK_POINT_NS) {
		learn_usual(flows, flow);
		flow->quiet = !flows->disturbed;
		point = &flow->points[flow->point_count++ % LINK_POINTS];
		*point = *last;
		point->time_ns = time_ns;
		point->learnt = false;
		wrap_points(flow);
	} else {
		point = last;
	}
	point->count += sample->latency_count;
	point->sum_ns += sample->latency_sum_ns;
	point->retries_exceeded += sample->retries_exceeded;
	flow->sampled = sample->sampled;
	return 0;
}

void link_flows_set_state(struct link_flows *flows, bool quiet, bool told)
{
	flows->disturbed = !quiet;
	flows->told = told;
}

/* Fills in what is usual, and above which mean of so many values no chance explains it. */
static void compare_with_past(
	const struct link_flow *flow, double value_count, double *usual_ns, double *chance_ns)
{
	uint32_t count = flow->past_count < LINK_PAST ? flow->past_count : LINK_PAST;
	double past[LINK_PAST], sum = 0, squares = 0;

	*usual_ns = *chance_ns = -1;
	if (count < LINK_PAST_MIN)
		return;
	for (uint32_t i = 0; i < count; i++) {
		past[i] = (double)flow->past_ns[i];
		sum += past[i];
	}
	for (uint32_t i = 0; i < count; i++)
		squares += (past[i] - sum / count) * (past[i] - sum / count);
	*chance_ns = sum / count + CHANCE_DEVIATIONS * sqrt(squares / (count - 1) *
							       (1.0 / count + 1 / value_count));
	*usual_ns = median_double(past, count);
}

/* What a flow did between two times, by the points nearest to them. */
struct stretch {
	double mean_ns, usual_ns, late_ns; /* late: summed over requests */
	double recent_ns;		   /* mean of the later half */
	double rest_ns;	  /* mean without the slowest second; 0: there is no other */
	double chance_ns; /* means up to it may be chance */
	int64_t length_ns;
	bool retries_exceeded;
};

/* One stall, of a rank that polls late or of a packet, is no slow link. */
static double mean_without_slowest(const struct link_flow *flow, uint32_t first, uint32_t last)
{
	uint64_t count = point_at(flow, last)->count - point_at(flow, first)->count, slowest = 0;
	uint64_t sum_ns = point_at(flow, last)->sum_ns - point_at(flow, first)->sum_ns, most_ns = 0;

	for (uint32_t i = first + 1; i <= last; i++) {
		const struct link_point *point = point_at(flow, i), *before = point_at(flow, i - 1);

		if (point->sum_ns - before->sum_ns > most_ns) {
			most_ns = point->sum_ns - before->sum_ns;
			slowest = point->count - before->count;
		}
	}
	return count > slowest ? (double)(sum_ns - most_ns) / (double)(count - slowest) : 0;
}

static bool measure(
	const struct link_flow *flow, int64_t from_ns, int64_t until_ns, struct stretch *stretch)
{
	uint32_t first = flow->point_count > LINK_POINTS ? flow->point_count - LINK_POINTS : 0;
	uint32_t last = first;
	const struct link_point *start = NULL, *end = NULL, *middle;
	uint32_t values = 0;
	uint64_t count;

	for (uint32_t i = first; i < flow->point_count; i++) {
		const struct link_point *point = point_at(flow, i);

		if (point->time_ns > until_ns)
			break;
		values++;
		if (!start || point->time_ns <= from_ns) {
			start = point;
			values = 0;
		}
		end = point;
		last = i;
	}
	if (!start || end->time_ns <= start->time_ns)
		return false;
	count = end->count - start->count;
	stretch->retries_exceeded = end->retries_exceeded > start->retries_exceeded;
	if (count < SEEN_MIN)
		return false;
	stretch->mean_ns = (double)(end->sum_ns - start->sum_ns) / (double)count;
	stretch->length_ns = end->time_ns - start->time_ns;
	middle = point_at(flow, last - values / 2);
	stretch->recent_ns = stretch->mean_ns;
	if (end->count > middle->count)
		stretch->recent_ns = (double)(end->sum_ns - middle->sum_ns) /
				     (double)(end->count - middle->count);
	stretch->rest_ns = mean_without_slowest(flow, last - values, last);
	compare_with_past(flow, fmin(values, (double)count / SEEN_MIN), &stretch->usual_ns,
		&stretch->chance_ns);
	stretch->late_ns = 0;
	if (stretch->usual_ns > 0 && stretch->mean_ns > stretch->usual_ns)
		stretch->late_ns = (stretch->mean_ns - stretch->usual_ns) * (double)count;
	return true;
}

/* The share of a stretch in which a flow was late: requests overlap, so it ends at 1. */
static double late_share(const struct link_flow *flow, const struct stretch *stretch)
{
	double share = stretch->late_ns / (double)stretch->length_ns;

	if (flow->sampled) /* its counts are a part of all */
		share = stretch->late_ns > 0 ? 1 - stretch->usual_ns / stretch->mean_ns : 0;
	return fmin(share, 1);
}

struct slow_flow {
	const struct link_flow *flow;
	struct stretch stretch;
	double share;
};

static bool is_slow(const struct link_flow *flow, const struct stretch *stretch, double share_min)
{
	return stretch->usual_ns > 0 && stretch->mean_ns >= LINK_SLOW_FACTOR * stretch->usual_ns &&
	       stretch->recent_ns >= LINK_SLOW_FACTOR * stretch->usual_ns && /* it still is */
	       stretch->rest_ns >= LINK_SLOW_FACTOR * stretch->usual_ns &&
	       stretch->mean_ns > stretch->chance_ns && late_share(flow, stretch) >= share_min;
}

static void note_pair(struct link_finding *finding, const struct slow_flow *slow)
{
	uint32_t place =
		finding->pair_count < LINK_PAIRS_TOLD ? finding->pair_count : LINK_PAIRS_TOLD;

	while (place > 0 && finding->pairs[place - 1].now_ns - finding->pairs[place - 1].usual_ns <
				    slow->stretch.mean_ns - slow->stretch.usual_ns)
		place--;
	if (place == LINK_PAIRS_TOLD)
		return;
	if (finding->pair_count < LINK_PAIRS_TOLD)
		finding->pair_count++;
	memmove(&finding->pairs[place + 1], &finding->pairs[place],
		(finding->pair_count - place - 1) * sizeof(finding->pairs[0]));
	finding->pairs[place] = (struct link_pair){
		slow->flow->from, slow->flow->to, slow->stretch.mean_ns, slow->stretch.usual_ns};
}

/* Lateness that a rank is an end of, in all and of its own sends. */
struct cover {
	uint32_t rank;
	double all, sent, share;
};

static struct cover cover_of(const struct link_flows *flows, uint32_t rank, int64_t from_ns,
	int64_t until_ns, double share_min)
{
	struct cover cover = {.rank = rank};

	for (size_t i = 0; i < flows->count; i++) {
		const struct link_flow *flow = &flows->flows[i];
		struct stretch stretch;

		if ((flow->from != rank && flow->to != rank) ||
			!measure(flow, from_ns, until_ns, &stretch) ||
			!is_slow(flow, &stretch, share_min))
			continue;
		cover.all += stretch.late_ns;
		cover.sent += flow->from == rank ? stretch.late_ns : 0;
		cover.share += late_share(flow, &stretch);
	}
	return cover;
}

/* The better of two: touches more, or (about the same) sends more of what is late. */
static bool is_more(const struct cover *one, const struct cover *other)
{
	if (fabs(one->all - other->all) > LINK_SAME_COVER * fmax(one->all, other->all))
		return one->all > other->all;
	return one->sent > other->sent;
}

/* Whether slowness is of all that a rank sends, or of all that it gets. */
static bool has_fast_flow(const struct link_flows *flows, uint32_t rank, bool sends,
	int64_t from_ns, int64_t until_ns, double share_min)
{
	for (size_t i = 0; i < flows->count; i++) {
		const struct link_flow *flow = &flows->flows[i];
		struct stretch stretch;

		if ((sends ? flow->from : flow->to) == rank &&
			measure(flow, from_ns, until_ns, &stretch) && stretch.usual_ns > 0 &&
			!is_slow(flow, &stretch, share_min))
			return true;
	}
	return false;
}

/* What is usual of all flows: of one alone it is known less well. */
static double usual_of_all(const struct link_flows *flows, int64_t from_ns, int64_t until_ns)
{
	struct stretch stretch;
	size_t count = 0;

	for (size_t i = 0; i < flows->count; i++) {
		if (measure(&flows->flows[i], from_ns, until_ns, &stretch) && stretch.usual_ns > 0)
			flows->scratch[count++] = stretch.usual_ns;
	}
	return median_double(flows->scratch, count);
}

/*
 * Flows that the rank is no end of are as fast as usual, or what they are slower by is little beside
 * the worst: a busy machine, or a full network, makes some flow of some rank the slowest, too.
 */
static bool is_clear(const struct link_flows *flows, uint32_t rank, int64_t from_ns,
	int64_t until_ns, const struct link_pair *worst)
{
	double others = 1, all_ns = usual_of_all(flows, from_ns, until_ns);
	struct stretch stretch;
	size_t count = 0;

	for (size_t i = 0; i < flows->count; i++) {
		const struct link_flow *flow = &flows->flows[i];

		if (flow->from != rank && flow->to != rank &&
			measure(flow, from_ns, until_ns, &stretch) && stretch.usual_ns > 0)
			flows->scratch[count++] = stretch.mean_ns / fmax(stretch.usual_ns, all_ns);
	}
	if (count)
		others = fmax(quantile_double(flows->scratch, count, LINK_OTHERS_QUANTILE), 1);
	return measure(find_flow(flows, worst->from, worst->to), from_ns, until_ns, &stretch) &&
	       fmin(stretch.mean_ns, stretch.recent_ns) >= LINK_SLOW_FACTOR *
								   pow(others, LINK_OTHERS_POWER) *
								   fmax(stretch.usual_ns, all_ns);
}

/* Of what the rank sends it is known what is usual, but of some not what it does now. */
static bool is_unheard(
	const struct link_flows *flows, uint32_t rank, int64_t from_ns, int64_t until_ns)
{
	for (size_t i = 0; i < flows->count; i++) {
		struct stretch stretch;

		if (flows->flows[i].from == rank && flows->flows[i].past_count >= LINK_PAST_MIN &&
			!measure(&flows->flows[i], from_ns, until_ns, &stretch))
			return true;
	}
	return false;
}

/*
 * The rank that slow flows have in common is an end of the slowest one, or there is none. With the
 * other end as far in, the one whose own sends complete late is named, if they clearly do.
 */
static void name_rank(const struct link_flows *flows, int64_t from_ns, int64_t until_ns,
	double share_min, double total_ns, struct link_finding *finding)
{
	const struct link_pair *worst = &finding->pairs[0];
	struct cover one = cover_of(flows, worst->from, from_ns, until_ns, share_min);
	struct cover other = cover_of(flows, worst->to, from_ns, until_ns, share_min);
	struct cover best = is_more(&other, &one) ? other : one;
	struct cover second = best.rank == one.rank ? other : one;
	bool alike = second.all > LINK_ALIKE * best.all;

	finding->share = fmin(best.share, 1);
	if (best.all < MOST_SHARE * total_ns ||
		(alike && (best.sent < LINK_DIRECTION_FACTOR * second.sent ||
				  is_unheard(flows, second.rank, from_ns, until_ns))) ||
		!is_clear(flows, best.rank, from_ns, until_ns, worst))
		return;
	finding->named = true;
	finding->rank = best.rank;
	finding->all_of_rank =
		!has_fast_flow(flows, best.rank, true, from_ns, until_ns, share_min) ||
		(best.sent <= 0 &&
			!has_fast_flow(flows, best.rank, false, from_ns, until_ns, share_min));
}

bool link_flows_find(const struct link_flows *flows, int64_t from_ns, int64_t until_ns,
	double share_min, struct link_finding *result)
{
	struct link_finding finding = {0};
	double total_ns = 0;
	size_t fast_count = 0, known_count = 0;

	for (size_t i = 0; i < flows->count; i++) {
		const struct link_flow *flow = &flows->flows[i];
		struct slow_flow slow = {.flow = flow};

		if (!measure(flow, from_ns, until_ns, &slow.stretch))
			continue;
		finding.flow_count++;
		known_count += slow.stretch.usual_ns > 0;
		if (!is_slow(flow, &slow.stretch, share_min)) {
			flows->scratch[fast_count++] = slow.stretch.mean_ns;
			continue;
		}
		finding.slow_count++;
		finding.retries_exceeded |= slow.stretch.retries_exceeded;
		total_ns += slow.stretch.late_ns;
		note_pair(&finding, &slow);
	}
	if (finding.slow_count == 0 ||
		(double)known_count < MOST_SHARE * (double)finding.flow_count)
		return false;
	if (fast_count)
		finding.control_ns = lower_median_double(flows->scratch, fast_count);
	name_rank(flows, from_ns, until_ns, share_min, total_ns, &finding);
	*result = finding;
	return true;
}

bool link_flows_worst_of(const struct link_flows *flows, uint32_t rank, bool received,
	int64_t from_ns, int64_t until_ns, struct link_pair *pair, double *share)
{
	double most_late_ns = -1;
	uint64_t most_count = 0;

	for (size_t i = 0; i < flows->count; i++) {
		const struct link_flow *flow = &flows->flows[i];
		uint64_t count = point_at(flow, flow->point_count - 1)->count;
		struct stretch stretch = {0};

		if ((received ? flow->to : flow->from) != rank)
			continue;
		if (!measure(flow, from_ns, until_ns, &stretch) || stretch.usual_ns <= 0)
			stretch = (struct stretch){.length_ns = 1};
		if (stretch.late_ns < most_late_ns ||
			(stretch.late_ns <= most_late_ns && count <= most_count))
			continue;
		most_late_ns = stretch.late_ns;
		most_count = count;
		*pair = (struct link_pair){flow->from, flow->to, stretch.mean_ns, stretch.usual_ns};
		*share = late_share(flow, &stretch);
	}
	return most_late_ns >= 0;
}
