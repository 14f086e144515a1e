/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/join/sequence_shift.h"

#include <errno.h>

static int64_t overlap_ns(const struct shift_part *a, const struct shift_part *b)
{
	int64_t start = a->arrival_ns > b->arrival_ns ? a->arrival_ns : b->arrival_ns;
	int64_t end = a->departure_ns < b->departure_ns ? a->departure_ns : b->departure_ns;

	return end - start;
}

struct fit {
	size_t common, wrong;
	int64_t overlap_ns; /* summed */
};

/* How well the two lists agree under a shift. Both are in order of sequence. */
static struct fit try_shift(const struct shift_part *reference, size_t reference_count,
	const struct shift_part *other, size_t other_count, int64_t shift, int64_t tolerance_ns)
{
	struct fit fit = {0};

	for (size_t i = 0, j = 0; i < reference_count && j < other_count;) {
		int64_t moved = (int64_t)other[j].sequence + shift;

		if (moved < (int64_t)reference[i].sequence) {
			j++;
		} else if (moved > (int64_t)reference[i].sequence) {
			i++;
		} else {
			int64_t overlap = overlap_ns(&reference[i], &other[j]);

			fit.common++;
			fit.wrong +=
				overlap < -tolerance_ns || reference[i].token != other[j].token;
			fit.overlap_ns += overlap;
			i++;
			j++;
		}
	}
	return fit;
}

static bool fits(const struct fit *fit)
{
	return fit->common >= SEQUENCE_SHIFT_PARTS_MIN &&
	       fit->wrong * SEQUENCE_SHIFT_WRONG <= fit->common;
}

int sequence_shift_find(const struct shift_part *reference, size_t reference_count,
	const struct shift_part *other, size_t other_count, int64_t tolerance_ns, int64_t *shift)
{
	bool found = false, tie = false;
	int64_t best = 0;
	double best_overlap = 0;
	size_t overlapping = 0;

	if (reference_count > SEQUENCE_SHIFT_PARTS_MAX)
		reference_count = SEQUENCE_SHIFT_PARTS_MAX;
	if (other_count > SEQUENCE_SHIFT_PARTS_MAX)
		other_count = SEQUENCE_SHIFT_PARTS_MAX;
	if (reference_count < SEQUENCE_SHIFT_PARTS_MIN || other_count < SEQUENCE_SHIFT_PARTS_MIN)
		return -EAGAIN;
	for (size_t i = 0; i < reference_count; i++)
		overlapping += reference[i].departure_ns >= other[0].arrival_ns - tolerance_ns &&
			       reference[i].arrival_ns <=
				       other[other_count - 1].departure_ns + tolerance_ns;
	if (overlapping < SEQUENCE_SHIFT_PARTS_MIN)
		return -EAGAIN;
	/* The middle call of other belongs to some call of reference: try each that it could be. */
	for (size_t anchor = 0; anchor < other_count; anchor += other_count / 4 + 1) {
		for (size_t i = 0; i < reference_count; i++) {
			int64_t candidate =
				(int64_t)reference[i].sequence - (int64_t)other[anchor].sequence;
			struct fit fit;

			if (overlap_ns(&reference[i], &other[anchor]) < -tolerance_ns ||
				(found && candidate == best))
				continue;
			fit = try_shift(reference, reference_count, other, other_count, candidate,
				tolerance_ns);
			if (!fits(&fit))
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
	*shift = best;
	return 0;
}
