/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/held_steps.h"

#include <errno.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static size_t aligned(size_t length)
{
	return (length + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

/* Copies count elements to *at, and moves that behind them. */
static void *place(char **at, const void *elements, size_t count, size_t size)
{
	void *placed = *at;

	if (count)
		memcpy(placed, elements, count * size);
	*at += aligned(count * size);
	return placed;
}

/* Of the same schedule as the step before it. */
static bool shares_calls(const struct packed_step *steps, size_t i)
{
	return i > 0 && steps[i].calls == steps[i - 1].calls;
}

int held_steps_create(
	const struct packed_step *steps, size_t step_count, struct held_steps **result)
{
	size_t kind_count = step_count ? steps[0].kind_count : 0;
	size_t length = aligned(sizeof(struct held_steps)) + aligned(step_count * sizeof(*steps)) +
			aligned(kind_count * sizeof(struct part_kind));
	const struct part_kind *kinds;
	struct held_steps *held;
	char *at;

	for (size_t i = 0; i < step_count; i++)
		length += aligned(steps[i].part_count * sizeof(struct packed_times)) +
			  aligned(shares_calls(steps, i)
					  ? 0
					  : steps[i].part_count * sizeof(struct packed_call)) +
			  aligned(steps[i].sequences ? steps[i].part_count * sizeof(uint64_t) : 0) +
			  aligned(steps[i].marks ? steps[i].part_count * sizeof(struct packed_marks)
						 : 0) +
			  aligned(steps[i].activity_count * sizeof(struct activity)) +
			  aligned(steps[i].slot_count * sizeof(struct packed_slot)) +
			  aligned(steps[i].launches ? sizeof(struct step_launches) : 0);
	held = malloc(length);
	if (!held)
		return -ENOMEM;
	at = (char *)held + aligned(sizeof(*held));
	*held = (struct held_steps){
		.batch = {.references = 1, .length_bytes = length}, .step_count = step_count};
	held->steps = place(&at, steps, step_count, sizeof(*steps));
	kinds = place(&at, step_count ? steps[0].kinds : NULL, kind_count, sizeof(*kinds));
	for (size_t i = 0; i < step_count; i++) {
		struct packed_step *step = &held->steps[i];

		step->kinds = kinds;
		step->times = place(&at, step->times, step->part_count, sizeof(*step->times));
		step->calls = shares_calls(steps, i) ? step[-1].calls
						     : place(&at, step->calls, step->part_count,
							       sizeof(*step->calls));
		if (step->sequences)
			step->sequences = place(
				&at, step->sequences, step->part_count, sizeof(*step->sequences));
		if (step->marks)
			step->marks =
				place(&at, step->marks, step->part_count, sizeof(*step->marks));
		step->activities = place(
			&at, step->activities, step->activity_count, sizeof(*step->activities));
		step->slots = place(&at, step->slots, step->slot_count, sizeof(*step->slots));
		if (step->launches)
			step->launches = place(&at, step->launches, 1, sizeof(*step->launches));
	}
	*result = held;
	return 0;
}

void held_steps_unref(struct held_steps *held)
{
	stream_batch_unref(&held->batch);
}
