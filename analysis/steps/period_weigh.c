/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many rounds of a short cycle, and a rest: is that one step with a loop inside, or are the rounds
 * steps, and the rest an excursion? What the rest weighs decides, see period.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/steps/period_internal.h"

enum { KNOWN_WORDS = 256 };

/* The calls of rounds. */
struct rounds {
	uint64_t calls, seams, seamless;
	double bytes, spacing_ns, pause_ns; /* sums */
	double largest_bytes, smallest_bytes;
	double unlike; /* how often they differ in what they carry, in an order that comes again */
};

/* What lies between rounds. */
struct rest {
	double bytes;	   /* a part only of those that rounds have as well */
	double longest_ns; /* the call behind included */
	bool other_group;  /* some call is on a communicator that rounds do not use */
};

static const struct period_call *call_at(const struct period_detector *detector, uint64_t position)
{
	return &detector->calls[position & detector->structure.ring_mask];
}

static void add_calls(
	const struct period_detector *detector, uint64_t from, uint64_t to, struct rounds *rounds)
{
	for (uint64_t i = from; i < to; i++) {
		const struct period_call *call = call_at(detector, i);

		rounds->bytes += call->bytes;
		rounds->spacing_ns += call->spacing_ns;
		rounds->pause_ns += call->pause_ns;
		rounds->largest_bytes = fmax(rounds->largest_bytes, call->bytes);
		rounds->smallest_bytes =
			rounds->calls++ ? fmin(rounds->smallest_bytes, call->bytes) : call->bytes;
	}
}

/* A layer makes few calls, and of few lengths; buckets of gradients are of as many lengths as there are. */
static bool may_be_layer(const struct period_cycle *cycle)
{
	uint64_t lengths = 0;

	if (cycle->period > PERIOD_POOR_MAX)
		return false;
	for (uint64_t i = 0; i < cycle->period; i++) {
		uint64_t j = 0;

		while (j < i && cycle->full[j] != cycle->full[i])
			j++;
		lengths += j == i;
	}
	return cycle->period <= PERIOD_SHORT_ROUND || !cycle->by_full ||
	       2 * lengths <= cycle->period;
}

/* How many rounds a rest makes one step of. */
static double bound(
	const struct rounds *rounds, const struct period_cycle *cycle, const struct rest *rest)
{
	double round_count = (double)rounds->calls / (double)cycle->period;
	double round_ns = fmax(rounds->spacing_ns / round_count, 1);
	double layer = may_be_layer(cycle) ? PERIOD_LAYER_NS / round_ns : 0;
	double weight = rest->bytes / fmax(rounds->bytes / round_count, 1);

	weight += fmax(0, rest->longest_ns / round_ns - PERIOD_PAUSE_LEAST) * layer * layer;
	if (rest->other_group)
		weight += PERIOD_OTHER_GROUP_WEIGHT * layer * layer;
	if (rounds->seams && rounds->smallest_bytes > PERIOD_BOOKKEEPING_BYTES)
		weight += (double)rounds->seamless / (double)rounds->seams;
	weight += rounds->unlike;
	return PERIOD_ROUNDS_BOUND * weight;
}

/* The calls [from, end), those of rounds of the adopted cycle set apart. */
struct walk {
	uint64_t first, decided, position, end;
};

/* The next stretch that belongs to no round; false when there is none before the end. */
static bool next_rest(
	const struct period_detector *detector, struct walk *walk, uint64_t *from, uint64_t *to)
{
	const struct period_cycle *cycle = &detector->cycle;
	const struct period_stream *stream = period_followed_stream(detector);
	uint64_t phase = 0;

	*from = walk->decided;
	while (walk->position < walk->end + cycle->loop) {
		walk->position++;
		if (!period_cycle_find(cycle, stream, walk->position, &phase))
			continue;
		/* The call that broke the rounds off belongs to none. */
		if (walk->decided != walk->first && walk->position != walk->decided + 1 &&
			walk->position - cycle->loop <= walk->decided)
			continue;
		*from = walk->decided;
		*to = walk->position - cycle->loop;
		walk->decided = walk->position;
		if (*to > *from && *from < walk->end)
			return true;
	}
	*from = walk->decided;
	*to = walk->end;
	walk->decided = walk->end;
	return *to > *from;
}

/* A bit for each structure and each communicator of rounds: where there are many, some more seem known. */
struct known {
	uint64_t structures[KNOWN_WORDS], groups[KNOWN_WORDS];
};

static bool is_in(const uint64_t set[KNOWN_WORDS], uint32_t token)
{
	return set[token / 64 % KNOWN_WORDS] >> token % 64 & 1;
}

static void add_known(
	const struct period_detector *detector, uint64_t from, uint64_t to, struct known *known)
{
	for (uint64_t i = from; i < to; i++) {
		uint32_t token = period_stream_token(&detector->structure, i);
		uint32_t group = call_at(detector, i)->group;

		known->structures[token / 64 % KNOWN_WORDS] |= UINT64_C(1) << token % 64;
		known->groups[group / 64 % KNOWN_WORDS] |= UINT64_C(1) << group % 64;
	}
}

/* Adds the calls in [from, to), which belong to no round. */
static void add_rest(const struct period_detector *detector, uint64_t from, uint64_t to,
	const struct known *known, double largest_bytes, struct rest *rest)
{
	for (uint64_t i = from; i < to; i++) {
		const struct period_call *call = call_at(detector, i);

		bool is_new =
			call->bytes > largest_bytes ||
			!is_in(known->structures, period_stream_token(&detector->structure, i));

		rest->bytes += is_new || detector->cycle.period <= PERIOD_POOR_MAX
				       ? call->bytes
				       : PERIOD_KNOWN_SHARE * call->bytes;
		rest->other_group |= !is_in(known->groups, call->group);
		rest->longest_ns = fmax(rest->longest_ns, call->spacing_ns);
	}
	rest->longest_ns = fmax(rest->longest_ns, call_at(detector, to)->spacing_ns);
}

/* Looks between the rounds that follow each other in [from, to). */
static void add_seams(const struct period_detector *detector, uint64_t from, uint64_t to,
	double short_ns, struct rounds *rounds)
{
	for (uint64_t i = from + detector->cycle.period; i < to; i += detector->cycle.period) {
		rounds->seams++;
		rounds->seamless += call_at(detector, i)->pause_ns <= short_ns;
	}
}

/* A bit for each call of the rounds, in their order: it carries hardly anything. */
struct slight {
	uint64_t bits[PERIOD_LENGTH_MAX / 64 + 1]; /* and one word more, which stays 0 */
	uint64_t count, otherwise;		   /* of them, otherwise a longer cycle before */
};

static void add_slight(const struct period_detector *detector, uint64_t from, uint64_t to,
	uint64_t longer, double least_bytes, struct slight *slight)
{
	uint64_t oldest = period_stream_oldest(&detector->structure);

	for (uint64_t i = from; i < to; i++, slight->count++) {
		bool is_slight = call_at(detector, i)->bytes < least_bytes;

		slight->bits[slight->count / 64] |= (uint64_t)is_slight << slight->count % 64;
		slight->otherwise += i < oldest + longer || (call_at(detector, i - longer)->bytes <
								    least_bytes) != is_slight;
	}
}

/* How many calls differ from the one so many calls later. */
static uint64_t differing(const struct slight *slight, uint64_t distance)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i + distance < slight->count; i += 64) {
		uint64_t left = slight->count - distance - i, at = i + distance;
		uint64_t later = slight->bits[at / 64] >> at % 64;

		if (at % 64)
			later |= slight->bits[at / 64 + 1] << (64 - at % 64);
		later ^= slight->bits[i / 64];
		sum += (uint64_t)__builtin_popcountll(
			left < 64 ? later & ((UINT64_C(1) << left) - 1) : later);
	}
	return sum;
}

/*
 * How often rounds that carry hardly anything come between others, after the first time, which an evaluation may
 * be: 0 where they do not come again with the longer cycle, or come with a shorter one as well.
 */
static double unlike_of(const struct slight *slight, uint64_t period)
{
	double changes = (double)differing(slight, period) / (double)period;
	double again = (double)slight->otherwise / (double)slight->count;

	if (changes <= 2)
		return 0;
	for (uint64_t distance = period; 2 * distance <= slight->count; distance += period) {
		if ((double)differing(slight, distance) * PERIOD_AGAIN_SHARE <=
			again * (double)(slight->count - distance))
			return 0;
	}
	return changes / 2 - 1;
}

enum period_content period_weigh(const struct period_detector *detector, uint64_t longer)
{
	const struct period_cycle *cycle = &detector->cycle;
	uint64_t first = detector->structure.count - longer - cycle->loop;
	struct walk walk = {first, first, first, first + longer};
	uint64_t from, to, after = first;
	struct rounds rounds = {0};
	struct slight slight = {0};
	struct known known = {0};
	struct rest rest = {0};
	double short_ns, slight_bytes;

	for (; next_rest(detector, &walk, &from, &to); after = to) {
		add_calls(detector, after, from, &rounds);
		add_known(detector, after, from, &known);
	}
	add_calls(detector, after, walk.end, &rounds);
	add_known(detector, after, walk.end, &known);
	if (rounds.calls * 4 < longer * 3)
		return PERIOD_OTHER;

	short_ns = PERIOD_SEAMLESS_SHARE * rounds.pause_ns / (double)rounds.calls;
	slight_bytes = PERIOD_SLIGHT_SHARE * rounds.bytes / (double)rounds.calls;
	walk = (struct walk){first, first, first, first + longer};
	for (after = first; next_rest(detector, &walk, &from, &to); after = to) {
		if (after > first)
			add_seams(detector, after, from, short_ns, &rounds);
		add_slight(detector, after, from, longer, slight_bytes, &slight);
		add_rest(detector, from, to, &known, rounds.largest_bytes, &rest);
	}
	if (after > first)
		add_seams(detector, after, walk.end, short_ns, &rounds);
	add_slight(detector, after, walk.end, longer, slight_bytes, &slight);
	rounds.unlike = unlike_of(&slight, cycle->period);
	return (double)rounds.calls <= bound(&rounds, cycle, &rest) * (double)cycle->period
		       ? PERIOD_LOOPS
		       : PERIOD_EXCURSIONS;
}

static int by_value(const void *a, const void *b)
{
	float one = *(const float *)a, other = *(const float *)b;

	return one < other ? -1 : one > other;
}

/* How many of these places are followed by another one at that distance. */
static size_t followed_at(const size_t *places, size_t count, size_t distance)
{
	size_t followed = 0;

	for (size_t i = 0, j = 0; i < count; i++) {
		while (j < count && places[j] < places[i] + distance)
			j++;
		followed += j < count && places[j] == places[i] + distance;
	}
	return followed;
}

/* Of these places, the one at that distance behind another where both spacings are the longest. */
static size_t longest_pair(
	const float *spacings, const size_t *places, size_t count, size_t distance)
{
	size_t best = places[0];
	float longest = 0;

	for (size_t i = 0; i < count; i++) {
		for (size_t j = i + 1; j < count && places[j] <= places[i] + distance; j++) {
			float both = fminf(spacings[places[i]], spacings[places[j]]);

			if (places[j] != places[i] + distance || both <= longest)
				continue;
			longest = both;
			best = places[j];
		}
	}
	return best;
}

/* Logarithm of in how many ways so many things are chosen of count. */
static double log_ways(double count, double chosen)
{
	return chosen < 0 || chosen > count
		       ? -INFINITY
		       : lgamma(count + 1) - lgamma(chosen + 1) - lgamma(count - chosen + 1);
}

/*
 * How likely it is by chance that of so many spacings, of which some are long, as many long ones are followed by
 * another at one distance: in the order of places that far apart, they then lie in so few runs (Wald and Wolfowitz, 1940).
 */
static double chance_of(size_t count, size_t long_count, size_t followed)
{
	double all = log_ways((double)count, (double)long_count), sum = 0;
	double others = (double)(count - long_count);

	for (size_t runs = 1; runs <= long_count - followed; runs++)
		sum += exp(log_ways((double)long_count - 1, (double)runs - 1) +
			   log_ways(others + 1, (double)runs) - all);
	return sum;
}

/*
 * The distance at which the long spacings, of at least so much, are followed by another (most of them), stalls in between or not; else 0. *last: one of them, where steps begin: a step may have several such pauses.
 */
static size_t distance_of(const float *spacings, size_t count, double least, size_t long_min,
	uint64_t mixed_places, size_t *last)
{
	size_t places[PERIOD_LONG_MAX_NR], long_count = 0, best = 0, distance = 0;

	for (size_t i = count; i-- > 0 && long_count < PERIOD_LONG_MAX_NR;) {
		if (spacings[i] >= least)
			places[PERIOD_LONG_MAX_NR - ++long_count] = i;
	}
	const size_t *newest = places + PERIOD_LONG_MAX_NR - long_count;

	for (size_t i = 0; i < long_count; i++) {
		for (size_t j = i + 1; j < long_count && j <= i + PERIOD_STALLS; j++) {
			size_t followed = followed_at(newest, long_count, newest[j] - newest[i]);

			if (followed <= best)
				continue;
			best = followed;
			distance = newest[j] - newest[i];
		}
	}
	if (best + 1 < long_min || (best + 1) * 4 < long_count * PERIOD_STEADY_QUARTERS ||
		newest[long_count - 1] + 2 * distance < count || /* they come no more */
		chance_of(count - newest[0], long_count, best) * (double)mixed_places >
			PERIOD_CHANCE_MAX)
		return 0;
	*last = longest_pair(spacings, newest, long_count, distance);
	return distance;
}

/*
 * Spacings before one place of the rounds, and where the short ones of them may end. Where calls take longer than the work
 * between them, their own times hide it: then this rank's own pauses are looked at.
 */
struct spacings {
	bool own;
	float values[PERIOD_PLACES_MAX], sorted[PERIOD_PLACES_MAX];
	size_t count;
	uint64_t mixed_places; /* of a round: all where spacings are either long or short */
	bool many;	       /* of rounds so short that the same place comes often */
	size_t split;	       /* of sorted: the next to look at */
	/* Of the last one found: the long ones are hardly longer; the shortest of them; the place of one. */
	bool slight;
	double least;
	size_t last;
};

/* Goes on to the next split of long spacings from short ones; false when there is none. */
static bool next_split(struct spacings *spacings)
{
	const float *sorted = spacings->sorted;

	while (spacings->split + PERIOD_LONG_MIN <= spacings->count) {
		size_t i = spacings->split++;
		double ratio = (sorted[i] + PERIOD_SPACING_FLOOR_NS) /
			       (sorted[i - 1] + PERIOD_SPACING_FLOOR_NS);

		if (ratio < (spacings->many ? PERIOD_SLIGHT_RATIO : PERIOD_LONG_RATIO))
			continue;
		spacings->slight = ratio < PERIOD_LONG_RATIO;
		spacings->least = sorted[i];
		return true;
	}
	return false;
}

/* The distance at which long spacings come, where they are either long or short: of the next split; else 0. */
static size_t next_distance(struct spacings *spacings)
{
	while (next_split(spacings)) {
		size_t distance = distance_of(spacings->values, spacings->count, spacings->least,
			spacings->slight ? PERIOD_SLIGHT_MIN : PERIOD_LONG_MIN,
			spacings->mixed_places, &spacings->last);

		if (distance > 1)
			return distance;
	}
	return 0;
}

/* The rounds of the adopted cycle from first on. */
struct repeats {
	uint64_t first, count;
	struct rounds rounds;
	float pauses[PERIOD_PLACES_MAX]; /* of each round, summed */
};

/* The mean pause before the calls of the usual round (lower median), but for one place: a stall is not usual. */
static double pause_elsewhere(
	const struct period_detector *detector, const struct repeats *repeats, uint64_t place)
{
	uint64_t period = detector->cycle.period;
	float sums[PERIOD_PLACES_MAX];

	if (period == 1)
		return 0;
	for (uint64_t i = 0; i < repeats->count; i++)
		sums[i] = repeats->pauses[i] -
			  call_at(detector, repeats->first + i * period + place)->pause_ns;
	qsort(sums, repeats->count, sizeof(*sums), by_value);
	return sums[(repeats->count - 1) / 2] / (double)(period - 1);
}

static float spacing_before(const struct spacings *spacings, const struct period_call *call)
{
	return spacings->own ? call->pause_ns : call->spacing_ns;
}

/* Those before one place. */
static void take_place(const struct period_detector *detector, const struct repeats *repeats,
	uint64_t place, struct spacings *spacings)
{
	uint64_t period = detector->cycle.period;

	spacings->count = repeats->count;
	spacings->many = period <= PERIOD_SHORT_ROUND;
	spacings->split = repeats->count / 2;
	for (uint64_t i = 0; i < repeats->count; i++)
		spacings->values[i] = spacing_before(
			spacings, call_at(detector, repeats->first + i * period + place));
	memcpy(spacings->sorted, spacings->values, repeats->count * sizeof(*spacings->sorted));
	qsort(spacings->sorted, repeats->count, sizeof(*spacings->sorted), by_value);
}

/* How many of the rounds follow each other here without a pause; none where the long spacings are no pauses either. */
static void look_between(const struct period_detector *detector, const struct repeats *repeats,
	uint64_t place, const struct spacings *spacings, double short_ns, struct rounds *rounds)
{
	uint64_t period = detector->cycle.period, long_count = 0, long_brief = 0;

	for (uint64_t i = 0; i < repeats->count && period > 1; i++) {
		const struct period_call *call =
			call_at(detector, repeats->first + i * period + place);
		bool brief = call->pause_ns <= short_ns,
		     is_long = spacing_before(spacings, call) >= spacings->least;

		long_count += is_long;
		long_brief += is_long && brief;
		rounds->seams += !is_long;
		rounds->seamless += !is_long && brief;
	}
	if (2 * long_brief > long_count)
		rounds->seamless = 0;
}

/*
 * A rank's own pause is one of the program's steps where calls take more of the time than the work between them, and all are
 * later by it: the calls behind long ones depart that much later, too (half of it, as far as noise goes).
 */
static bool delays_all(const struct period_detector *detector, const struct repeats *repeats,
	uint64_t place, const struct spacings *spacings, double usual_ns)
{
	double pauses[2] = {0}, departures[2] = {0}, counts[2] = {0};

	for (uint64_t i = 0; i < repeats->count; i++) {
		const struct period_call *call =
			call_at(detector, repeats->first + i * detector->cycle.period + place);
		bool is_long = call->pause_ns >= spacings->least;

		pauses[is_long] += call->pause_ns;
		departures[is_long] += call->spacing_ns;
		counts[is_long]++;
	}
	if (counts[0] <= 0 || 2 * repeats->rounds.pause_ns > repeats->rounds.spacing_ns ||
		usual_ns * (double)repeats->rounds.calls <
			PERIOD_OWN_SHARE * repeats->rounds.spacing_ns)
		return false;
	return 2 * (departures[1] / counts[1] - departures[0] / counts[0]) >=
	       pauses[1] / counts[1] - pauses[0] / counts[0];
}

/* So many rounds take next to no time beside the pause before them: what is done in them is done in the pause. */
static bool is_burst(
	const struct rounds *rounds, uint64_t period, uint64_t factor, double longest_ns)
{
	double round_ns = rounds->spacing_ns / ((double)rounds->calls / (double)period);

	return (double)factor * round_ns <= PERIOD_BURST_SHARE * longest_ns;
}

/*
 * Does what comes every so many rounds (factor) before this place of theirs make one step of them? Returns its
 * length. A slight pause does so by its length alone.
 */
static double pause_of(const struct period_detector *detector, const struct repeats *repeats,
	uint64_t place, const struct spacings *spacings, uint64_t factor)
{
	uint64_t period = detector->cycle.period, count = repeats->count;
	double long_sum = 0;
	size_t first_long = spacings->split - 1;
	struct rounds rounds = repeats->rounds;
	struct rest rest = {0};

	if (factor * period > detector->full.period_max)
		return 0;
	if (!spacings->slight)
		look_between(detector, repeats, place, spacings,
			PERIOD_SEAMLESS_SHARE * pause_elsewhere(detector, repeats, place), &rounds);
	for (uint64_t i = 0; i < count; i++) {
		if (spacings->values[i] >= spacings->least)
			long_sum += spacings->values[i];
	}
	/* The usual one of the long ones (lower median): a stall among them is no pause. */
	rest.longest_ns = spacings->sorted[first_long + (spacings->count - first_long - 1) / 2];
	if (spacings->own) {
		if (!delays_all(detector, repeats, place, spacings, rest.longest_ns))
			return 0;
		rounds.spacing_ns = rounds.pause_ns;
	}
	rounds.spacing_ns -= long_sum;
	return is_burst(&rounds, period, factor, rest.longest_ns) ||
			       (double)factor <= bound(&rounds, &detector->cycle, &rest)
		       ? rest.longest_ns
		       : 0;
}

/*
 * The pause before this place of the rounds that makes one step of several; 0: there is none. One that is clearly longer than all others
 * goes before the first of the slight ones, which lie between passes of a step as well.
 */
static double pause_at(const struct period_detector *detector, const struct repeats *repeats,
	uint64_t place, struct spacings *spacings, struct period_pause *found)
{
	double longest = 0;
	uint64_t distance;

	take_place(detector, repeats, place, spacings);
	while ((distance = next_distance(spacings)) > 1) {
		double pause = pause_of(detector, repeats, place, spacings, distance);

		if (spacings->slight && (pause <= 0 || longest > 0))
			continue;
		if (pause <= 0)
			break;
		longest = pause;
		*found = (struct period_pause){.factor = distance,
			.origin = repeats->first + spacings->last * detector->cycle.period + place,
			.least_ns = spacings->least,
			.own = spacings->own};
		if (!spacings->slight)
			break;
	}
	return longest;
}

/* The longest of them, of all places. */
static double longest_pause(const struct period_detector *detector, const struct repeats *repeats,
	bool own, struct period_pause *pause)
{
	struct spacings spacings = {.own = own};
	uint64_t period = detector->cycle.period;
	double longest = 0;

	for (uint64_t place = 0; place < period; place++) {
		take_place(detector, repeats, place, &spacings);
		spacings.mixed_places += next_split(&spacings);
	}
	for (uint64_t place = 0; place < period && spacings.mixed_places; place++) {
		struct period_pause found = {0};
		double its = pause_at(detector, repeats, place, &spacings, &found);

		if (its <= longest)
			continue;
		longest = its;
		*pause = found;
	}
	return longest;
}

/*
 * Did most of the steps since then begin with it, and is that most of what the rounds explained, or longer than
 * loops hold?
 */
static bool lasts_since(
	const struct period_detector *detector, const struct period_pause *pause, uint64_t since)
{
	uint64_t period = detector->cycle.period, count = detector->structure.count;
	uint64_t step = pause->factor * period, steps = 0, shown = 0;

	for (uint64_t i = since + (pause->origin - since) % step; i < count; i += step, steps++) {
		const struct period_call *call = call_at(detector, i);

		shown += (pause->own ? call->pause_ns : call->spacing_ns) >= pause->least_ns;
	}
	return shown * 4 >= steps * PERIOD_STEADY_QUARTERS &&
	       (count - since >= PERIOD_FIRST_TOKENS ||
		       (count - since) * 4 >=
			       detector->cycles_followed * period * PERIOD_STEADY_QUARTERS);
}

bool period_pauses(const struct period_detector *detector, uint64_t round_count, uint64_t since,
	struct period_pause *pause)
{
	uint64_t period = detector->cycle.period, count = detector->structure.count;
	uint64_t most = period <= PERIOD_SHORT_ROUND ? PERIOD_PLACES_MAX : PERIOD_PLACES_FEW;
	struct repeats repeats = {.count = round_count < most ? round_count : most};

	repeats.first = count - repeats.count * period;
	add_calls(detector, repeats.first, count, &repeats.rounds);
	for (uint64_t i = 0; i < repeats.count * period; i++)
		repeats.pauses[i / period] += call_at(detector, repeats.first + i)->pause_ns;
	return (longest_pause(detector, &repeats, false, pause) > 0 ||
		       longest_pause(detector, &repeats, true, pause) > 0) &&
	       lasts_since(detector, pause, since);
}
