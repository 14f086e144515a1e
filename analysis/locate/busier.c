/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a rank's sockets became busier, or only seem to: what they do differs from second to second, and on
 * contended CPUs, which move the data, by much more.
 */
#include <math.h>

#include "analysis/judge/internal.h"

/*
 * Student's quantile for that of a normal distribution, the first term of its expansion (Fisher, 1926); of the
 * largest of many values, whose tail is as likely as that of one of a few.
 */
static double deviations_of(double freedom, double rank_count)
{
	double z = sqrt(
		CHANCE_DEVIATIONS * CHANCE_DEVIATIONS + 2 * log(fmax(rank_count / PEERS_MIN, 1)));

	return z + (z * z * z + z) / (4 * freedom);
}

static int64_t rate_ns(const struct judge *judge)
{
	int64_t steps_ns = (int64_t)(BUSY_STEPS_MIN * judge->judged.quiet.step_ns);

	return steps_ns > EVIDENCE_RATE_NS ? steps_ns : EVIDENCE_RATE_NS;
}

void judge_busy_noise(const struct judge *judge, int64_t until_ns, struct busy_noise *noise)
{
	uint32_t stride = judge->rank_end / RANKS_ENOUGH + 1, known = 0;
	double squares = 0, count = 0, time_ns = 0;

	for (uint32_t r = 0; r < judge->rank_end; r += stride) {
		struct evidence_noise one;

		if (!evidence_noise(judge->ranks[r].evidence, METRIC_TCP_BUSY_NS,
			    judge->comm->sockets.told_until_ns, until_ns, rate_ns(judge), &one))
			continue;
		squares += one.squares;
		count += one.count;
		time_ns += one.time_ns;
		known++;
	}
	*noise = (struct busy_noise){0};
	if (!known)
		return;
	noise->freedom = count - known;
	noise->deviation = sqrt(squares / noise->freedom);
	noise->length_ns = time_ns / count;
	noise->before = count / known;
}

/* Of the rank's own rates, where there are enough of them. */
static void prefer_own(
	const struct judge *judge, uint32_t rank, int64_t until_ns, struct busy_noise *noise)
{
	struct evidence_noise own;

	if (judge->comm->sockets.remembers ||
		!evidence_noise(judge->ranks[rank].evidence, METRIC_TCP_BUSY_NS,
			judge->comm->sockets.told_until_ns, until_ns, rate_ns(judge), &own) ||
		own.count <= BUSY_FREEDOM_ENOUGH)
		return;
	*noise = (struct busy_noise){.deviation = sqrt(own.squares / (own.count - 1)),
		.freedom = own.count - 1,
		.length_ns = own.time_ns / own.count,
		.before = own.count};
}

double judge_busy_chance(const struct judge *judge, const struct busy_noise *of_all, uint32_t rank,
	int64_t from_ns, int64_t until_ns)
{
	struct busy_noise noise = *of_all;
	double known_ns = (double)evidence_known_ns(
		judge->ranks[rank].evidence, METRIC_TCP_BUSY_NS, from_ns, until_ns);

	if (noise.of_changes)
		return deviations_of(noise.freedom, judge->rank_end) * noise.deviation;
	prefer_own(judge, rank, from_ns, &noise);
	if (noise.freedom < BUSY_FREEDOM_MIN)
		return 0;
	/* Over less time than a rate's they differ more; over more not less, when CPUs are busy now and then. */
	return deviations_of(noise.freedom, judge->rank_end) * noise.deviation *
	       sqrt(fmax(noise.length_ns / fmax(known_ns, 1), 1) + 1 / noise.before);
}

bool judge_surely_changed(
	const struct judge *judge, uint32_t rank, int64_t from_ns, int64_t until_ns)
{
	const struct rank_state *state = &judge->ranks[rank];
	double now, mean, deviation;

	if (judge->comm->sockets.by_class)
		return state->busy.error >= 0 &&
		       state->busy.inside - state->busy.outside >
			       (float)BUSY_SMALL_DEVIATIONS * state->busy.error;
	return evidence_rate(state->evidence, METRIC_TCP_BUSY_NS, from_ns, until_ns, &now) &&
	       evidence_usual_rate(
		       state->evidence, METRIC_TCP_BUSY_NS, from_ns, &mean, &deviation) &&
	       now > mean + BUSY_SMALL_DEVIATIONS * deviation;
}
