/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/detect/step_times.h"

#include <stdlib.h>

#include "analysis/base/robust_stats.h"

double step_usual_ns(const struct step_times *times, uint64_t from, uint64_t until)
{
	double lengths[STEP_HISTORY];
	uint64_t oldest = step_oldest(times);
	size_t count = 0;

	for (uint64_t s = from > oldest ? from : oldest; s < until; s++)
		lengths[count++] = step_length_ns(times, s);
	return count < STEPS_KNOWN_MIN ? 0 : median_double(lengths, count);
}

uint64_t step_of_program(const struct step_times *times, uint64_t step)
{
	uint64_t oldest = step_oldest(times), last = times->next - 1;

	if (step >= times->next)
		return times->next ? times->program_steps[last % STEP_HISTORY] + 1 : 0;
	if (step >= oldest)
		return times->program_steps[step % STEP_HISTORY];

	uint64_t oldest_of_program = times->program_steps[oldest % STEP_HISTORY];
	uint64_t of_program = times->program_steps[last % STEP_HISTORY] + 1 - oldest_of_program;
	uint64_t earlier = (oldest - step) * of_program / (times->next - oldest);

	return earlier < oldest_of_program ? oldest_of_program - earlier : 0;
}

uint64_t step_at(const struct step_times *times, int64_t time_ns, int64_t now_ns, int64_t *start_ns)
{
	uint64_t kept = steps_kept_since(times, 0), best = times->next - 1;

	for (uint64_t i = 1; i <= kept; i++) {
		uint64_t step = times->next - i;

		if (llabs(step_start_ns(times, step) - time_ns) <
			llabs(step_start_ns(times, best) - time_ns))
			best = step;
	}
	*start_ns = step_start_ns(times, best);
	if (best + kept > times->next || time_ns >= *start_ns)
		return best;

	double step_ns = (double)(now_ns - *start_ns) / (double)kept;
	uint64_t earlier = (uint64_t)((double)(*start_ns - time_ns) / step_ns);

	*start_ns = time_ns;
	return best > earlier ? best - earlier : 0;
}
