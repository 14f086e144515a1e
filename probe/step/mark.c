/* SPDX-License-Identifier: Apache-2.0 */
/* Steps by explicit markers: from begin to begin, or from end to end where there are no begins. */
#include "probe/step/builder_internal.h"
#include "probe/step/phases.h"

static void close_marked(struct step_builder *builder, uint32_t flags, struct host_ns time)
{
	struct step_cut cut = {.flags = flags, .timed = true, .end = time};

	if (cut.end.value < builder->open_start.value)
		cut.end = builder->open_start;
	step_builder_cut(builder, step_builder_position(builder), &cut);
	/* What happened between the last departure and the marker comes with the next part. */
	builder->tail_open = true;
}

void step_builder_mark(struct step_builder *builder, bool begin, uint64_t step, struct host_ns time)
{
	bool first = !builder->marked;

	if (!builder->started) {
		builder->started = true;
		builder->taken_end = builder->open_start = time;
	}
	if (time.value > builder->last_time.value)
		builder->last_time = time;
	if (!begin && builder->marked_begin)
		return;
	if (first && !begin) {
		/* Where this step began is not known: it may be the rest of one. */
		builder->marked = true;
		builder->marked_step = step;
		close_marked(builder, STEP_MARKED | STEP_IRREGULAR, time);
		return;
	}
	if (first) {
		if (step_builder_position(builder) > builder->cut_end)
			close_marked(builder, STEP_WINDOW, time);
	} else if (begin && !builder->marked_begin) {
		/* So far ends only; between the last end and this begin lies no step. */
		if (step_builder_position(builder) > builder->cut_end)
			close_marked(builder, STEP_IRREGULAR, time);
	} else {
		if (!begin)
			builder->marked_step = step;
		close_marked(builder, STEP_MARKED, time);
	}
	builder->marked = true;
	builder->marked_begin |= begin;
	builder->marked_step = begin ? step : step + 1;
}

void step_builder_split_tail(struct step_builder *builder, struct collective_part *part)
{
	struct step_cut *cut =
		&builder->cuts[(builder->cut_first + builder->cut_count - 1) % STEP_CUT_NR];
	int64_t from = builder->open_start.value, to = part->arrival.value;
	size_t last = builder->head + (size_t)(builder->cut_end - builder->first);

	builder->tail_open = false;
	if (builder->cut_count == 0)
		return;
	/* From the last departure before the marker, where there is one, else from the step before. */
	if (last > builder->head)
		from = builder->parts[last - 1].departure.value;
	else
		from = builder->taken_end.value;
	if (to <= from || cut->end.value <= from)
		return;
	if (cut->end.value >= to) {
		cut->tail = part->before;
		part->before = (struct activity){0};
		return;
	}
	struct activity tail = step_activity_share(&part->before, cut->end.value - from, to - from);
	struct activity rest = step_activity_share(&part->before, to - cut->end.value, to - from);

	/* Counts do not split evenly: what is left over stays with the later step. */
	rest.major_faults = part->before.major_faults - tail.major_faults;
	rest.minor_faults = part->before.minor_faults - tail.minor_faults;
	cut->tail = tail;
	part->before = rest;
}
