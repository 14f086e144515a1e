/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/step/usual.h"

#include <math.h>

enum { KNOWN_LEAST = 8 };

/* Longer by this share, and by so many mean deviations. */
static const double long_share = 0.08, long_deviations = 5;

struct longest {
	int64_t first_ns, second_ns;
};

static struct longest find_longest(const struct step_usual *usual)
{
	struct longest longest = {0};

	for (uint32_t i = 0; i < usual->count; i++) {
		int64_t length_ns = usual->lengths_ns[i];

		if (length_ns > longest.first_ns)
			longest = (struct longest){length_ns, longest.first_ns};
		else if (length_ns > longest.second_ns)
			longest.second_ns = length_ns;
	}
	return longest;
}

/* Without the longest two. */
static bool is_long(const struct step_usual *usual, double length)
{
	struct longest longest = find_longest(usual);
	double first = (double)longest.first_ns, second = (double)longest.second_ns;
	double mean = -first - second, deviation, left = usual->count - 2.0;

	for (uint32_t i = 0; i < usual->count; i++)
		mean += (double)usual->lengths_ns[i];
	mean /= left;
	deviation = -fabs(first - mean) - fabs(second - mean);
	for (uint32_t i = 0; i < usual->count; i++)
		deviation += fabs((double)usual->lengths_ns[i] - mean);
	deviation /= left;
	return length - mean > fmax(long_share * mean, long_deviations * deviation);
}

bool step_usual_is_long(struct step_usual *usual, int64_t length_ns)
{
	bool longer = usual->count >= KNOWN_LEAST && is_long(usual, (double)length_ns);

	usual->lengths_ns[usual->next] = length_ns;
	usual->next = (usual->next + 1) % STEP_USUAL_STEPS;
	usual->count += usual->count < STEP_USUAL_STEPS;
	usual->long_run = longer ? usual->long_run + 1 : 0;
	return longer;
}
