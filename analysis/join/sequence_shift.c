/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/join/sequence_shift.h"

#include <errno.h>

static int64_t overlap_ns(const struct shift_part *a, const struct shift_part *b)
{
	int64_t start = a->arrival_ns > b->arrival_ns ? a->arrival_ns : b->arrival_ns;
	int64_t end = a->departure_ns < b->departure_ns ? a->departure_ns : b->departure_ns;

	return end - start;
}

/* Both lists are in order of sequence. */
struct lists {
	const struct shift_part *reference, *other;
	size_t reference_count, other_count;
	int64_t tolerance_ns;
	bool messages;
};

struct fit {
	size_t common, wrong;
	int64_t overlap_ns; /* summed */
};

/* Their times say that two calls are not the same. */
static bool contradict(const struct lists *lists, const struct shift_part *reference,
	const struct shift_part *other)
{
	if (lists->messages)
		return other->departure_ns <
		       reference->arrival_ns - lists->tolerance_ns - CONTRADICTION_NS;
	return overlap_ns(reference, other) < -lists->tolerance_ns;
}

/* How well the two lists agree under a shift. */
static struct fit try_shift(const struct lists *lists, int64_t shift)
{
	const struct shift_part *reference = lists->reference, *other = lists->other;
	struct fit fit = {0};

	for (size_t i = 0, j = 0; i < lists->reference_count && j < lists->other_count;) {
		int64_t moved = (int64_t)other[j].sequence + shift;

		if (moved < (int64_t)reference[i].sequence) {
			j++;
		} else if (moved > (int64_t)reference[i].sequence) {
			i++;
		} else {
			fit.common++;
			fit.wrong += contradict(lists, &reference[i], &other[j]) ||
				     reference[i].token != other[j].token;
			fit.overlap_ns += overlap_ns(&reference[i], &other[j]);
			i++;
			j++;
		}
	}
	return fit;
}

static size_t least_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Of messages, only those before a turn of the program may disagree, so no more than one is taken for a bad stamp. */
static bool fits(const struct lists *lists, const struct fit *fit)
{
	return fit->common >= SEQUENCE_SHIFT_PARTS_MIN &&
	       (lists->messages ? fit->wrong <= 1
				: fit->wrong * SEQUENCE_SHIFT_WRONG <= fit->common);
}

/* Enough of one list lies within the time of the other. */
static bool is_enough(const struct lists *lists)
{
	const struct shift_part *other = lists->other;
	size_t overlapping = 0;

	if (lists->reference_count < SEQUENCE_SHIFT_PARTS_MIN ||
		lists->other_count < SEQUENCE_SHIFT_PARTS_MIN)
		return false;
	for (size_t i = 0; i < lists->reference_count; i++)
		overlapping +=
			lists->reference[i].departure_ns >=
				other[0].arrival_ns - lists->tolerance_ns &&
			lists->reference[i].arrival_ns <=
				other[lists->other_count - 1].departure_ns + lists->tolerance_ns;
	return overlapping >= SEQUENCE_SHIFT_PARTS_MIN;
}

/* The next shift was looked at as well, and is not right. */
static bool is_decided(const struct lists *lists, int64_t shift)
{
	return !lists->messages || try_shift(lists, shift + 1).common >= SEQUENCE_SHIFT_PARTS_MIN;
}

int sequence_shift_find(const struct shift_part *reference, size_t reference_count,
	const struct shift_part *other, size_t other_count, int64_t tolerance_ns, bool messages,
	int64_t *shift)
{
	const struct lists lists = {.reference = reference,
		.other = other,
		.reference_count = least_size(reference_count, SEQUENCE_SHIFT_PARTS_MAX),
		.other_count = least_size(other_count, SEQUENCE_SHIFT_PARTS_MAX),
		.tolerance_ns = tolerance_ns,
		.messages = messages};
	bool found = false, tie = false;
	int64_t best = 0;
	double best_overlap = 0;

	if (!is_enough(&lists))
		return -EAGAIN;
	/* The middle call of other belongs to some call of reference: try each that it could be. */
	for (size_t anchor = 0; anchor < lists.other_count; anchor += lists.other_count / 4 + 1) {
		for (size_t i = 0; i < lists.reference_count; i++) {
			int64_t candidate =
				(int64_t)reference[i].sequence - (int64_t)other[anchor].sequence;
			struct fit fit;

			if (contradict(&lists, &reference[i], &other[anchor]) ||
				(found && candidate == best))
				continue;
			fit = try_shift(&lists, candidate);
			if (!fits(&lists, &fit))
				continue;
			double overlap = (double)fit.overlap_ns / (double)fit.common;
			tie = found && overlap == best_overlap;
			if (!found || overlap > best_overlap) {
				best = candidate;
				best_overlap = overlap;
			}
			found = true;
		}
	}
	if (!found || tie)
		return -ENOENT;
	if (!is_decided(&lists, best))
		return -EAGAIN;
	*shift = best;
	return 0;
}
