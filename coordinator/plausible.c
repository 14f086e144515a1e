/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/plausible.h"

/*
 * Implausible timestamps would overflow sums further on: hosts are not up for nine years
 * (2^58 ns), and nothing lasts a day (2^46 ns) within one step.
 */
#define PLAUSIBLE_TIME_NS ((uint64_t)1 << 58)
#define PLAUSIBLE_LENGTH_NS ((uint64_t)1 << 46)

static bool activity_plausible(const struct activity *activity)
{
	return ((uint64_t)activity->preempted_ns | (uint64_t)activity->throttled_ns |
		       (uint64_t)activity->block_io_ns | (uint64_t)activity->asleep_ns |
		       (uint64_t)activity->major_fault_ns | (uint64_t)activity->minor_fault_ns |
		       (uint64_t)activity->comm_call_ns | (uint64_t)activity->host_ns |
		       (uint64_t)activity->collector_ns) < PLAUSIBLE_LENGTH_NS;
}

bool plausible_step(const struct packed_step *step)
{
	uint64_t lengths = (uint64_t)step->input_ns | (uint64_t)step->compute_ns |
			   (uint64_t)step->host_ns | (uint64_t)step->comm_ns |
			   (uint64_t)(step->end.value - step->start.value);

	if ((uint64_t)step->start.value >= PLAUSIBLE_TIME_NS || lengths >= PLAUSIBLE_LENGTH_NS)
		return false;
	for (size_t p = 0; p < step->part_count; p++) {
		const struct packed_times *part = &step->times[p];
		uint64_t from_start =
			(uint64_t)(part->arrival.value - step->start.value) + PLAUSIBLE_LENGTH_NS;

		if (from_start >= 2 * PLAUSIBLE_LENGTH_NS ||
			(uint64_t)(part->departure.value - part->arrival.value) >=
				PLAUSIBLE_LENGTH_NS)
			return false;
	}
	for (size_t i = 0; i < step->activity_count; i++) {
		if (!activity_plausible(&step->activities[i]))
			return false;
	}
	return true;
}

void forget_implausible_stamps(struct message_batch *batch, struct job_ns received)
{
	const uint64_t unix_max = (uint64_t)1 << 62;

	if (((uint64_t)batch->sent.value | (uint64_t)received.value) >= PLAUSIBLE_TIME_NS)
		batch->sent.value = 0;
	if (((uint64_t)batch->previous_sent.value | (uint64_t)batch->previous_received.value |
		    (uint64_t)batch->previous_reply_sent.value |
		    (uint64_t)batch->previous_reply_received.value) >= PLAUSIBLE_TIME_NS)
		batch->previous_reply_received.value = 0;
	if ((uint64_t)batch->unix_offset_ns + unix_max >= 2 * unix_max)
		batch->unix_offset_ns = 0;
}
