/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/step/pace.h"

#define STRETCH_NS INT64_C(100000000)
enum { LONG_STRETCHES = 2 };

bool step_pace_is_slower(struct step_pace *pace, int64_t length_ns)
{
	int64_t mean_ns;

	pace->length_ns += length_ns;
	pace->steps++;
	if (pace->length_ns < STRETCH_NS)
		return false;
	mean_ns = pace->length_ns / pace->steps;
	pace->length_ns = 0;
	pace->steps = 0;
	return step_usual_is_long(&pace->usual, mean_ns) && pace->usual.long_run >= LONG_STRETCHES;
}
