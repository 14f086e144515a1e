/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/detect/step_times.h"

#include <stdlib.h>

#include "analysis/base/robust_stats.h"

uint64_t step_times_number(const struct step_times *times, int64_t length_ns, bool apart)
{
	if (apart || times->next == 0 || length_ns <= 0)
		return times->next;

	int64_t before_ns = times->lengths_ns[(times->next - 1) % STEP_HISTORY];

	return before_ns > 0 && before_ns + length_ns < KEPT_STEP_NS ? times->next - 1
								     : times->next;
}

void step_times_note(struct step_times *times, uint64_t number, int64_t start_ns, int64_t length_ns)
{
	size_t at = number % STEP_HISTORY;

	if (number + 1 == times->next) {
		times->lengths_ns[at] += length_ns;
		times->counts[at]++;
		return;
	}
	times->starts_ns[at] = start_ns;
	times->lengths_ns[at] = length_ns;
	times->counts[at] = 1;
	times->next = number + 1;
}

void step_times_of_program(struct step_times *times, uint64_t program_step, uint32_t round_count)
{
	size_t at = (times->next - 1) % STEP_HISTORY;

	if (times->counts[at] == 1)
		times->program_steps[at] = program_step;
	times->round_count = round_count;
}

uint64_t steps_kept_in(const struct step_times *times, uint64_t from, uint64_t until)
{
	uint64_t oldest = step_oldest(times), count = 0;

	for (uint64_t s = from; s < until; s++)
		count += s < oldest ? 1 : times->counts[s % STEP_HISTORY];
	return count;
}

double step_usual_ns(const struct step_times *times, uint64_t from, uint64_t until)
{
	double lengths[STEP_HISTORY];
	uint64_t oldest = step_oldest(times);
	size_t count = 0;

	for (uint64_t s = from > oldest ? from : oldest; s < until; s++)
		lengths[count++] = step_mean_ns(times, s);
	return count < STEPS_KNOWN_MIN ? 0 : median_double(lengths, count);
}

/* Behind the last of the program's steps; of those kept together, it is none of several rounds. */
static uint64_t end_of_program(const struct step_times *times)
{
	size_t last = (times->next - 1) % STEP_HISTORY;

	return times->program_steps[last] + times->counts[last];
}

uint64_t step_of_program(const struct step_times *times, uint64_t step)
{
	uint64_t oldest = step_oldest(times);

	if (step >= times->next)
		return times->next ? end_of_program(times) : 0;
	if (step >= oldest)
		return times->program_steps[step % STEP_HISTORY];

	uint64_t oldest_of_program = times->program_steps[oldest % STEP_HISTORY];
	uint64_t of_program = end_of_program(times) - oldest_of_program;
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
