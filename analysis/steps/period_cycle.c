/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/steps/period_cycle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int period_cycle_init(struct period_cycle *cycle, size_t period_max)
{
	size_t rotation_count = 4;

	while (rotation_count < 2 * period_max)
		rotation_count *= 2;
	*cycle = (struct period_cycle){0};
	cycle->structure = calloc(period_max, sizeof(*cycle->structure));
	cycle->full = calloc(period_max, sizeof(*cycle->full));
	cycle->rotations = calloc(rotation_count, sizeof(*cycle->rotations));
	if (cycle->structure && cycle->full && cycle->rotations)
		return 0;
	period_cycle_fini(cycle);
	return -ENOMEM;
}

void period_cycle_fini(struct period_cycle *cycle)
{
	free(cycle->structure);
	free(cycle->full);
	free(cycle->rotations);
	*cycle = (struct period_cycle){0};
}

static void add_rotation(struct period_cycle *cycle, uint64_t hash, uint64_t phase)
{
	uint64_t index = hash & cycle->rotation_mask;

	while (cycle->rotations[index].used)
		index = (index + 1) & cycle->rotation_mask;
	cycle->rotations[index] =
		(struct period_rotation){.hash = hash, .phase = (uint32_t)phase, .used = 1};
}

void period_cycle_adopt(struct period_cycle *cycle, const struct period_stream *structure,
	const struct period_stream *full, uint64_t origin, uint64_t period, uint64_t loop,
	bool by_full)
{
	const struct period_stream *stream = by_full ? full : structure;
	uint64_t first = stream->count - 2 * period;
	/* origin may lie on either side of first: only its phase matters. */
	uint64_t phase = origin <= first ? (first - origin) % period
					 : (period - (origin - first) % period) % period;
	uint64_t slots = 4;

	while (slots < 2 * loop)
		slots *= 2;
	cycle->period = period;
	cycle->loop = loop;
	cycle->by_full = by_full;
	cycle->shift = 0;
	cycle->rotation_mask = slots - 1;
	memset(cycle->rotations, 0, slots * sizeof(*cycle->rotations));
	for (uint64_t i = 0; i < period; i++) {
		uint64_t at = (phase + i) % period;

		if (i < loop)
			add_rotation(cycle, period_stream_hash(stream, first + i, first + i + loop),
				at % loop);
		cycle->structure[at] = period_stream_token(structure, first + i);
		cycle->full[at] = period_stream_token(full, first + i);
	}
}

/* The phase nearest to wanted that is `place` within the loop. */
static uint64_t nearest(const struct period_cycle *cycle, uint64_t place, uint64_t wanted)
{
	wanted %= cycle->period;
	uint64_t ahead = (place + cycle->loop - wanted % cycle->loop) % cycle->loop;
	uint64_t back = 2 * ahead > cycle->loop ? cycle->loop - ahead : 0;

	return (wanted + (back ? cycle->period - back : ahead)) % cycle->period;
}

bool period_cycle_find(const struct period_cycle *cycle, const struct period_stream *stream,
	uint64_t end, uint64_t *phase)
{
	uint64_t hash, index;

	if (end < period_stream_oldest(stream) + cycle->loop)
		return false;
	hash = period_stream_hash(stream, end - cycle->loop, end);
	index = hash & cycle->rotation_mask;
	for (; cycle->rotations[index].used; index = (index + 1) & cycle->rotation_mask) {
		if (cycle->rotations[index].hash != hash)
			continue;
		*phase = nearest(cycle,
			(cycle->rotations[index].phase + cycle->period - cycle->shift) %
				cycle->loop,
			*phase);
		return true;
	}
	return false;
}

void period_cycle_rotate(struct period_cycle *cycle, uint64_t phase)
{
	cycle->shift = (cycle->shift + phase) % cycle->period;
}
