/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/step/usual.h"

#include <math.h>

enum { KNOWN_LEAST = 8, STEPS_MEAN = 32 };

/* Longer by this share, and by so many mean deviations. */
static const double long_share = 0.08, long_deviations = 4;

bool step_usual_is_long(struct step_usual *usual, int64_t length_ns)
{
	double length = (double)length_ns, away = length - usual->mean_ns;
	bool is_long =
		usual->count >= KNOWN_LEAST &&
		away > fmax(long_share * usual->mean_ns, long_deviations * usual->deviation_ns);

	if (usual->count < STEPS_MEAN)
		usual->count++;
	if (usual->count == 1) {
		usual->mean_ns = length;
		return false;
	}
	usual->deviation_ns += (fabs(away) - usual->deviation_ns) / usual->count;
	usual->mean_ns += away / usual->count;
	usual->long_run = is_long ? usual->long_run + 1 : 0;
	return is_long;
}
