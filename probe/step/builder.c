/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/step/builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe/step/builder_internal.h"
#include "probe/step/phases.h"

#define WINDOW_NS_DEFAULT 1000000000

int step_builder_create(const struct step_builder_options *options, struct step_builder **builder)
{
	size_t part_count_max =
		options->part_count_max ? options->part_count_max : STEP_PART_COUNT_MAX;
	struct step_builder *made;

	if (part_count_max < 2 || part_count_max > STEP_PART_COUNT_MAX || options->window_ns < 0)
		return -EINVAL;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->rank = options->rank;
	made->part_count_max = part_count_max;
	made->window_ns = options->window_ns ? options->window_ns : WINDOW_NS_DEFAULT;
	/* Twice: what is open, and what is finished but not taken. Touched only as far as used. */
	made->capacity = 2 * part_count_max;
	made->parts = malloc(made->capacity * sizeof(*made->parts));
	made->contexts = malloc(made->capacity * sizeof(*made->contexts));
	made->cuts = malloc(STEP_CUT_NR * sizeof(*made->cuts));
	if (!made->parts || !made->contexts || !made->cuts ||
		period_create(part_count_max, &made->detector) < 0) {
		step_builder_destroy(made);
		return -ENOMEM;
	}
	*builder = made;
	return 0;
}

void step_builder_destroy(struct step_builder *builder)
{
	if (!builder)
		return;
	period_destroy(builder->detector);
	free(builder->cuts);
	free(builder->contexts);
	free(builder->parts);
	free(builder);
}

/* Nobody took the oldest finished step: it makes room, and its successor says so. */
static void drop_oldest(struct step_builder *builder)
{
	const struct step_cut *cut = &builder->cuts[builder->cut_first];
	size_t part_count = (size_t)(cut->end_position - builder->first);

	if (part_count) {
		builder->taken_end = builder->parts[builder->head + part_count - 1].departure;
		builder->taken_others = builder->contexts[builder->head + part_count - 1].others;
		builder->taken_launches =
			builder->contexts[builder->head + part_count - 1].launches;
	}
	if (cut->timed)
		builder->taken_end = cut->end;
	builder->head += part_count;
	builder->first += part_count;
	builder->cut_first = (builder->cut_first + 1) % STEP_CUT_NR;
	builder->cut_count--;
	if (builder->cut_count)
		builder->cuts[builder->cut_first].flags |= STEP_INCOMPLETE;
	else
		builder->lost = true;
}

void step_builder_cut(
	struct step_builder *builder, uint64_t end_position, const struct step_cut *cut)
{
	size_t from = builder->head + (size_t)(builder->cut_end - builder->first);
	size_t to = builder->head + (size_t)(end_position - builder->first);
	struct step_cut *made;

	if (builder->cut_count == STEP_CUT_NR)
		drop_oldest(builder);
	from = builder->head + (size_t)(builder->cut_end - builder->first);
	to = builder->head + (size_t)(end_position - builder->first);
	if (builder->cut_count == 0)
		builder->cut_first = 0; /* what was never used stays untouched */
	made = &builder->cuts[(builder->cut_first + builder->cut_count++) % STEP_CUT_NR];
	*made = *cut;
	made->end_position = end_position;
	if (made->flags & STEP_MARKED)
		builder->next_index = builder->marked_step;
	made->index = builder->next_index++;
	for (size_t i = from; i < to; i++) {
		if (builder->contexts[i].lost_before)
			made->flags |= STEP_INCOMPLETE;
	}
	if (cut->timed)
		builder->open_start = cut->end;
	else if (to > from && builder->parts[to - 1].departure.value > builder->open_start.value)
		builder->open_start = builder->parts[to - 1].departure;
	builder->cut_end = end_position;
}

enum {
	CAPACITY_USUAL =
		512, /* from so many on, parts that were taken make room when they are most of what is there */
	TOUCHED_KEPT = 4 * CAPACITY_USUAL, /* about 0.6 MB: less is not worth giving back */
};

/* What a long stretch took, as the first one does, goes back once stretches are far shorter. */
static void give_back(struct step_builder *builder)
{
	struct step_part_context *contexts;
	struct collective_part *parts;

	if (builder->touched < builder->tail)
		builder->touched = builder->tail;
	if (builder->touched <= TOUCHED_KEPT || builder->tail > builder->touched / 4)
		return;
	parts = malloc(builder->capacity * sizeof(*parts));
	contexts = malloc(builder->capacity * sizeof(*contexts));
	if (!parts || !contexts) {
		free(contexts);
		free(parts);
		return;
	}
	free(builder->contexts);
	free(builder->parts);
	builder->parts = parts;
	builder->contexts = contexts;
	builder->touched = 0;
}

/* Makes room for one more part. Memory is touched only as far as parts wait, not as far as they came. */
static void make_room(struct step_builder *builder)
{
	size_t kept;

	if (builder->head == builder->tail) {
		give_back(builder);
		builder->head = builder->tail = 0;
		return;
	}
	if (builder->tail < builder->capacity &&
		(builder->tail < CAPACITY_USUAL || builder->head < builder->tail / 2))
		return;
	while (builder->tail == builder->capacity && builder->cut_count &&
		builder->head < builder->capacity / 4)
		drop_oldest(builder);
	if (builder->touched < builder->tail)
		builder->touched = builder->tail;
	kept = builder->tail - builder->head;
	memmove(builder->parts, builder->parts + builder->head, kept * sizeof(*builder->parts));
	memmove(builder->contexts, builder->contexts + builder->head,
		kept * sizeof(*builder->contexts));
	builder->head = 0;
	builder->tail = kept;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9fb21c651e98df25);
	hash ^= hash >> 32;
	hash *= UINT64_C(0xd6e8feb86659fd93);
	return hash ^ (hash >> 32);
}

static int64_t time_since(struct host_ns time, struct host_ns before)
{
	return time.value > before.value ? time.value - before.value : 0;
}

static void push_token(struct step_builder *builder, const struct collective_part *part,
	struct host_ns last_departure)
{
	struct period_token token;

	token.structure = mix(part->communicator_id + UINT64_C(0x9e3779b97f4a7c15),
		(uint64_t)part->operation << 32 | (uint32_t)part->root);
	token.full = mix(token.structure + part->peer, part->length_bytes);
	token.length_bytes = part->length_bytes;
	token.group = part->communicator_id;
	token.arrival_ns = time_since(part->arrival, last_departure);
	token.departure_ns = time_since(part->departure, last_departure);
	period_push(builder->detector, &token);
}

void step_builder_take_segments(struct step_builder *builder)
{
	struct period_segment segment;

	while (period_take(builder->detector, &segment)) {
		int64_t start = builder->open_start.value;
		struct step_cut cut = {0};

		if (segment.kind == PERIOD_IRREGULAR)
			cut.flags = STEP_IRREGULAR;
		else if (segment.kind == PERIOD_INCOMPLETE)
			cut.flags = STEP_INCOMPLETE;
		step_builder_cut(builder, segment.end, &cut);
		if (segment.kind == PERIOD_REGULAR)
			builder->cycle_length_ns = builder->open_start.value - start;
	}
}

void step_builder_push(struct step_builder *builder, const struct collective_part *part,
	const struct activity *others)
{
	struct collective_part copy = *part;

	if (copy.departure.value < copy.arrival.value)
		copy.departure = copy.arrival;
	if (!builder->started) {
		builder->started = true;
		builder->taken_end = builder->open_start = builder->last_departure = copy.arrival;
	}
	if (!builder->others_known) {
		/* What other threads did before the first part belongs to no step. */
		builder->others_known = true;
		builder->taken_others = *others;
	}
	make_room(builder);
	if (builder->tail_open)
		step_builder_split_tail(builder, &copy);
	builder->parts[builder->tail] = copy;
	builder->contexts[builder->tail] = (struct step_part_context){.others = *others,
		.launches = builder->next_launches,
		.lost_before = builder->lost};
	builder->tail++;
	if (builder->lost && !builder->marked)
		period_lost(builder->detector);
	builder->lost = false;
	if (!builder->marked)
		push_token(builder, &copy, builder->last_departure);
	if (copy.departure.value > builder->last_departure.value)
		builder->last_departure = copy.departure;
	if (copy.departure.value > builder->last_time.value)
		builder->last_time = copy.departure;
	if (!builder->marked) {
		step_builder_take_segments(builder);
		step_builder_watch(builder);
	}
	if (step_builder_position(builder) - builder->cut_end < builder->part_count_max)
		return;
	if (builder->marked || !step_builder_accept(builder, false))
		step_builder_close_open(builder);
}

void step_builder_launches(struct step_builder *builder, const struct step_launches *launches)
{
	builder->next_launches = *launches;
}

void step_builder_lost(struct step_builder *builder, uint64_t event_count)
{
	if (event_count)
		builder->lost = true;
}

void step_builder_tick(struct step_builder *builder, struct host_ns now)
{
	if (!builder->started)
		return;
	if (now.value > builder->last_time.value)
		builder->last_time = now;
	if (!builder->marked)
		step_builder_watch(builder);
	else if (now.value - builder->open_start.value >= builder->window_ns)
		builder->tail_open = false;
}

void step_builder_finish(struct step_builder *builder)
{
	if (!builder->started)
		return;
	builder->tail_open = false;
	if (!builder->marked)
		step_builder_accept(builder, true);
	if (step_builder_position(builder) > builder->cut_end)
		step_builder_close_open(builder);
}

static struct activity activity_difference(const struct activity *to, const struct activity *from)
{
#define DIFFERENCE(field) .field = to->field > from->field ? to->field - from->field : 0
	return (struct activity){
		DIFFERENCE(preempted_ns),
		DIFFERENCE(throttled_ns),
		DIFFERENCE(block_io_ns),
		DIFFERENCE(asleep_ns),
		DIFFERENCE(major_fault_ns),
		DIFFERENCE(minor_fault_ns),
		DIFFERENCE(comm_call_ns),
		DIFFERENCE(host_ns),
		DIFFERENCE(collector_ns),
		DIFFERENCE(major_faults),
		DIFFERENCE(minor_faults),
	};
#undef DIFFERENCE
}

/* Of a step that lies in one window; else nothing is known of it. */
static struct step_launches launches_difference(
	const struct step_launches *to, const struct step_launches *from)
{
	if (to->window == 0 || to->window != from->window || to->launches < from->launches)
		return (struct step_launches){0};
	return (struct step_launches){
		.window = to->window,
		.launches = to->launches - from->launches,
		.graph_launches = to->graph_launches - from->graph_launches,
		.silence_ns = to->silence_ns - from->silence_ns,
		.idle_ns = to->idle_ns - from->idle_ns,
		.wait_ns = to->wait_ns - from->wait_ns,
	};
}

bool step_builder_take(struct step_builder *builder, struct step_entry *entry)
{
	const struct step_cut *cut;
	struct host_ns end;
	size_t part_count;

	if (builder->cut_count == 0 || (builder->cut_count == 1 && builder->tail_open))
		return false;
	cut = &builder->cuts[builder->cut_first];
	part_count = (size_t)(cut->end_position - builder->first);
	*entry = (struct step_entry){
		.rank = builder->rank,
		.flags = cut->flags,
		.index = cut->index,
		.start = builder->taken_end,
		.tail = cut->tail,
		.part_count = part_count,
		.parts = builder->parts + builder->head,
	};
	end = entry->start;
	if (part_count) {
		const struct step_part_context *last =
			&builder->contexts[builder->head + part_count - 1];

		entry->other_threads = activity_difference(&last->others, &builder->taken_others);
		entry->launches = launches_difference(&last->launches, &builder->taken_launches);
		builder->taken_others = last->others;
		builder->taken_launches = last->launches;
	}
	for (size_t i = 0; i < part_count; i++) {
		if (entry->parts[i].departure.value > end.value)
			end = entry->parts[i].departure;
	}
	if (cut->timed)
		end = cut->end;
	if (end.value < entry->start.value)
		end = entry->start;
	entry->end = end;
	step_parts_sort(entry->parts, part_count);
	entry->signature = step_signature(entry->parts, part_count);
	step_phases_fill(entry);

	builder->taken_end = end;
	builder->head += part_count;
	builder->first += part_count;
	builder->cut_first = (builder->cut_first + 1) % STEP_CUT_NR;
	builder->cut_count--;
	return true;
}
