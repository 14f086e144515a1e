/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "probe/wire/decode_steps.h"
#include "probe/wire/format.h"
#include "probe/wire/packed_steps.h"

struct schedule {
	uint64_t signature;
	size_t position_count;
	size_t slot_count;	   /* distinct communicators */
	uint32_t part_flags;	   /* of any position */
	struct packed_call *calls; /* a kind is a token */
	uint32_t *slots;	   /* of positions: which communicator of the step's */
	bool laid_out;		   /* the rest is known, by the first step without jumps */
	uint64_t layout;
	size_t packed_slot_count;
	const struct packed_slot *packed_slots;
};

struct tables {
	size_t communicator_count;
	uint64_t *communicator_ids;
	size_t token_count;
	struct part_kind *kinds;       /* by token: what it says */
	uint32_t *token_communicators; /* and which communicator that is */
	size_t schedule_count;
	struct schedule *schedules;
	uint64_t *sequences; /* scratch: the next sequence by slot */
	size_t part_budget;  /* parts that the batch may still have */
};

int64_t wire_read_quanta_after(struct wire_reader *reader, int64_t cursor)
{
	return cursor + wire_read_signed(reader, -cursor, WIRE_QUANTA_MAX - cursor);
}

int64_t wire_read_quanta_length(struct wire_reader *reader, int64_t cursor)
{
	return cursor + (int64_t)wire_read_unsigned(reader, (uint64_t)(WIRE_QUANTA_MAX - cursor));
}

static int read_communicators(
	struct wire_reader *reader, struct wire_arena *arena, struct tables *tables)
{
	tables->communicator_count = wire_read_array(reader, WIRE_PARTS_PER_BATCH_MAX);
	tables->communicator_ids =
		wire_arena_take(arena, tables->communicator_count, sizeof(uint64_t));
	if (!tables->communicator_ids)
		return arena->error;
	for (size_t i = 0; i < tables->communicator_count; i++)
		tables->communicator_ids[i] = wire_read_unsigned(reader, UINT64_MAX);
	return 0;
}

static int read_tokens(struct wire_reader *reader, struct wire_arena *arena, struct tables *tables)
{
	/* A token takes 6 bytes at least, so these arrays stay within 8 times the message. */
	tables->token_count = wire_read_array(reader, WIRE_PARTS_PER_BATCH_MAX);
	tables->kinds = wire_arena_take(arena, tables->token_count, sizeof(*tables->kinds));
	tables->token_communicators =
		wire_arena_take(arena, tables->token_count, sizeof(*tables->token_communicators));
	if (!tables->kinds || !tables->token_communicators)
		return arena->error;
	for (size_t i = 0; i < tables->token_count && !reader->problem; i++) {
		struct part_kind *kind = &tables->kinds[i];
		size_t later_fields = wire_read_record(reader, WIRE_TOKEN_FIELDS);
		uint32_t communicator;

		*kind = (struct part_kind){0};
		kind->operation = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		communicator = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		kind->length_bytes = wire_read_unsigned(reader, UINT64_MAX);
		kind->root = (int32_t)wire_read_signed(reader, INT32_MIN, INT32_MAX);
		kind->flags = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		if (later_fields >= 4) {
			kind->purpose = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
			kind->stream = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
			kind->peer = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
			kind->chunk = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
			later_fields -= 4;
		}
		wire_skip(reader, later_fields);
		if (communicator >= tables->communicator_count) {
			wire_reader_fail(reader, "a token names no communicator");
			return 0;
		}
		tables->token_communicators[i] = communicator;
		kind->communicator_id = tables->communicator_ids[communicator];
	}
	return 0;
}

/* slot_of: by communicator, its slot in the schedule; valid where used_in names the schedule. */
static void read_positions(struct wire_reader *reader, const struct tables *tables,
	struct schedule *schedule, uint32_t *slot_of, size_t *used_in, size_t mark)
{
	for (size_t i = 0; i < schedule->position_count; i++) {
		uint32_t token = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		uint32_t communicator;

		if (token >= tables->token_count) {
			wire_reader_fail(reader, "a schedule names no token");
			return;
		}
		schedule->calls[i] = (struct packed_call){.kind = token};
		communicator = tables->token_communicators[token];
		schedule->part_flags |= tables->kinds[token].flags;
		if (used_in[communicator] != mark) {
			used_in[communicator] = mark;
			slot_of[communicator] = (uint32_t)schedule->slot_count++;
		}
		schedule->slots[i] = slot_of[communicator];
	}
}

static int read_schedules(
	struct wire_reader *reader, struct wire_arena *arena, struct tables *tables)
{
	size_t position_budget = WIRE_PARTS_PER_BATCH_MAX;
	uint32_t *slot_of = wire_arena_take(arena, tables->communicator_count, sizeof(*slot_of));
	size_t *used_in = wire_arena_take(arena, tables->communicator_count, sizeof(*used_in));

	tables->schedule_count = wire_read_array(reader, WIRE_STEPS_PER_BATCH_MAX);
	tables->schedules =
		wire_arena_take(arena, tables->schedule_count, sizeof(*tables->schedules));
	if (!slot_of || !used_in || !tables->schedules)
		return arena->error;
	memset(used_in, 0, tables->communicator_count * sizeof(*used_in));
	for (size_t i = 0; i < tables->schedule_count && !reader->problem; i++) {
		struct schedule *schedule = &tables->schedules[i];
		size_t later_fields = wire_read_record(reader, WIRE_SCHEDULE_FIELDS);

		*schedule = (struct schedule){0};
		schedule->signature = wire_read_unsigned(reader, UINT64_MAX);
		schedule->position_count = wire_read_array(reader, STEP_PART_COUNT_MAX);
		if (schedule->position_count > position_budget) {
			wire_reader_fail(reader, "the schedules have too many positions");
			return 0;
		}
		position_budget -= schedule->position_count;
		schedule->calls =
			wire_arena_take(arena, schedule->position_count, sizeof(*schedule->calls));
		schedule->slots =
			wire_arena_take(arena, schedule->position_count, sizeof(*schedule->slots));
		if (!schedule->calls || !schedule->slots)
			return arena->error;
		read_positions(reader, tables, schedule, slot_of, used_in, i + 1);
		wire_skip(reader, later_fields);
	}
	return 0;
}

static int64_t read_activity_time(struct wire_reader *reader)
{
	return (int64_t)wire_read_unsigned(reader, (uint64_t)WIRE_QUANTA_MAX) *
	       WIRE_TIME_QUANTUM_NS;
}

/* The numbers behind a mask, one for each bit but WIRE_ACTIVITY_INSIDE. */
static void read_activity_values(
	struct wire_reader *reader, uint32_t mask, struct activity *activity)
{
	uint32_t unknown = mask & ~(uint32_t)(WIRE_ACTIVITY_FIRST_UNKNOWN - 1);

	if (mask & WIRE_ACTIVITY_PREEMPTED)
		activity->preempted_ns = read_activity_time(reader);
	if (mask & WIRE_ACTIVITY_ASLEEP)
		activity->asleep_ns = read_activity_time(reader);
	if (mask & WIRE_ACTIVITY_MINOR_FAULT)
		activity->minor_fault_ns = read_activity_time(reader);
	if (mask & WIRE_ACTIVITY_MINOR_FAULTS)
		activity->minor_faults = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
	if (mask & WIRE_ACTIVITY_THROTTLED)
		activity->throttled_ns = read_activity_time(reader);
	if (mask & WIRE_ACTIVITY_COMM_CALL)
		activity->comm_call_ns = read_activity_time(reader);
	if (mask & WIRE_ACTIVITY_MAJOR_FAULT)
		activity->major_fault_ns = read_activity_time(reader);
	if (mask & WIRE_ACTIVITY_MAJOR_FAULTS)
		activity->major_faults = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
	if (mask & WIRE_ACTIVITY_BLOCK_IO)
		activity->block_io_ns = read_activity_time(reader);
	if (mask & WIRE_ACTIVITY_HOST)
		activity->host_ns = read_activity_time(reader);
	if (mask & WIRE_ACTIVITY_COLLECTOR)
		activity->collector_ns = read_activity_time(reader);
	wire_skip(reader, (size_t)__builtin_popcount(unknown));
}

static void read_activity(struct wire_reader *reader, struct activity *activity)
{
	size_t count = wire_read_array(reader, 32);
	uint32_t mask;

	*activity = (struct activity){0};
	if (!count)
		return;
	mask = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
	read_activity_values(reader, mask, activity);
	if (1 + (size_t)__builtin_popcount(mask & ~(uint32_t)WIRE_ACTIVITY_INSIDE) != count)
		wire_reader_fail(reader, "an activity has another length than it says");
}

/* A step on its way out of the message: what it owns is still written to. */
struct step_reading {
	struct schedule *schedule;
	struct packed_times *times;
	uint64_t *sequences; /* NULL: the schedule's slots tell */
	struct packed_marks *marks;
	struct activity *activities;
	size_t activity_count;
};

/* An activity takes two numbers at least. */
static int read_part_activities(
	struct wire_reader *reader, struct wire_arena *arena, struct step_reading *step)
{
	size_t number_count = wire_read_array(reader, WIRE_MESSAGE_LENGTH_MAX);
	size_t position = 0;

	if (!number_count)
		return 0;
	step->activities = wire_arena_take(arena, number_count / 2, sizeof(*step->activities));
	step->marks = wire_arena_take(arena, step->schedule->position_count, sizeof(*step->marks));
	if (!step->activities || !step->marks)
		return arena->error;
	memset(step->marks, 0, step->schedule->position_count * sizeof(*step->marks));
	while (number_count && !reader->problem) {
		uint16_t *place;
		uint32_t mask;
		size_t value_count;

		position += wire_read_unsigned(reader, STEP_PART_COUNT_MAX);
		mask = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		if (position >= step->schedule->position_count) {
			wire_reader_fail(reader, "an activity names no part");
			return 0;
		}
		value_count = (size_t)__builtin_popcount(mask & ~(uint32_t)WIRE_ACTIVITY_INSIDE);
		if (2 + value_count > number_count) {
			wire_reader_fail(
				reader, "the activities have another length than they say");
			return 0;
		}
		place = mask & WIRE_ACTIVITY_INSIDE ? &step->marks[position].inside
						    : &step->marks[position].before;
		if (!*place) {
			step->activities[step->activity_count++] = (struct activity){0};
			*place = (uint16_t)step->activity_count;
		}
		read_activity_values(reader, mask, &step->activities[*place - 1]);
		number_count -= 2 + value_count;
		if (*place == step->activity_count &&
			activity_is_none(&step->activities[*place - 1])) {
			step->activity_count--;
			*place = 0;
		}
	}
	return 0;
}

/* All parts of a communicator from a jump on count on from it. One walk, however many jumps. */
static void read_jumps(
	struct wire_reader *reader, const struct tables *tables, struct step_reading *step)
{
	size_t number_count = wire_read_array(reader, 2 * STEP_PART_COUNT_MAX);
	const struct schedule *schedule = step->schedule;
	uint64_t *moved_by = tables->sequences; /* by slot; no longer needed for this step */
	size_t jump_position = 0, position = 0;

	if (number_count % 2)
		wire_reader_fail(reader, "the jumps have an odd length");
	memset(moved_by, 0, schedule->slot_count * sizeof(*moved_by));
	for (; number_count && !reader->problem; number_count -= 2) {
		uint64_t jump;

		jump_position += wire_read_unsigned(reader, STEP_PART_COUNT_MAX);
		jump = (uint64_t)wire_read_signed(reader, INT64_MIN, INT64_MAX);
		if (jump_position >= schedule->position_count) {
			wire_reader_fail(reader, "a jump names no part");
			return;
		}
		for (; position < jump_position; position++)
			step->sequences[position] += moved_by[schedule->slots[position]];
		moved_by[schedule->slots[position]] += jump;
	}
	for (; position < schedule->position_count; position++)
		step->sequences[position] += moved_by[schedule->slots[position]];
}

static void read_phases(struct wire_reader *reader, struct step_entry *step, int64_t length)
{
	int64_t input = wire_read_quanta_length(reader, 0);
	int64_t compute = wire_read_quanta_length(reader, input);
	int64_t host = wire_read_quanta_length(reader, compute);
	int64_t total = length + wire_read_signed(reader, -length, WIRE_QUANTA_MAX - length);

	if (total < host) {
		wire_reader_fail(reader, "a step's times are longer than the step");
		total = host;
	}
	step->input_ns = input * WIRE_TIME_QUANTUM_NS;
	step->compute_ns = (compute - input) * WIRE_TIME_QUANTUM_NS;
	step->host_ns = (host - compute) * WIRE_TIME_QUANTUM_NS;
	step->comm_ns = (total - host) * WIRE_TIME_QUANTUM_NS;
}

static void read_part_times(
	struct wire_reader *reader, const struct step_reading *step, int64_t start)
{
	size_t number_count = wire_read_array(reader, 2 * STEP_PART_COUNT_MAX);
	size_t part_count = step->schedule->position_count;
	int64_t last_arrival = 0, cursor = start;

	if (number_count != 2 * part_count) {
		wire_reader_fail(reader, "a step has other parts than its schedule");
		return;
	}
	for (size_t i = 0; i < part_count; i++) {
		int64_t arrival = wire_read_quanta_after(reader, cursor);

		cursor = wire_read_quanta_length(reader, arrival);
		if (arrival < last_arrival) {
			wire_reader_fail(reader, "parts are not in order of arrival");
			return;
		}
		last_arrival = arrival;
		step->times[i] = (struct packed_times){
			.arrival.value = arrival * WIRE_TIME_QUANTUM_NS,
			.departure.value = cursor * WIRE_TIME_QUANTUM_NS,
		};
	}
}

/* Each communicator's parts count on from where the step says. */
static void count_on(const struct tables *tables, const struct step_reading *step)
{
	for (size_t i = 0; i < step->schedule->position_count; i++)
		step->sequences[i] = tables->sequences[step->schedule->slots[i]]++;
}

/* Steps of one schedule have one layout, unless their sequences jump. */
static int lay_out(struct wire_arena *arena, const struct tables *tables, bool jumps,
	const struct step_reading *step, struct packed_step *packed)
{
	struct packed_slot found[PACKED_SLOTS_MAX], *slots;
	struct schedule *schedule = step->schedule;

	if (step->sequences) {
		packed_step_lay_out(packed, schedule->calls, found);
	} else {
		packed->layout = schedule->layout;
		packed->slot_count = schedule->packed_slot_count;
		packed->slots = schedule->packed_slots;
	}
	slots = wire_arena_take(arena, packed->slot_count, sizeof(*slots));
	if (!slots)
		return arena->error;
	for (size_t i = 0; i < packed->slot_count; i++) {
		slots[i] = packed->slots[i];
		slots[i].sequence =
			step->sequences ? step->sequences[slots[i].first_part]
					: tables->sequences[schedule->slots[slots[i].first_part]];
	}
	packed->slots = slots;
	if (packed->layout)
		packed->sequences = NULL;
	if (!jumps && !schedule->laid_out) {
		schedule->laid_out = true;
		schedule->layout = packed->layout;
		schedule->packed_slot_count = packed->slot_count;
		schedule->packed_slots = slots;
	}
	return 0;
}

static void read_launches(struct wire_reader *reader, struct step_launches *launches)
{
	size_t later_fields = wire_read_record(reader, WIRE_LAUNCHES_FIELDS);

	launches->window = 1;
	launches->launches = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
	launches->graph_launches = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
	launches->silence_ns = read_activity_time(reader);
	launches->idle_ns = read_activity_time(reader);
	launches->wait_ns = read_activity_time(reader);
	wire_skip(reader, later_fields);
}

static void fill_packed(const struct tables *tables, const struct step_entry *entry,
	const struct step_reading *step, struct packed_step *packed)
{
	const struct schedule *schedule = step->schedule;

	*packed = (struct packed_step){
		.rank = entry->rank,
		.flags = entry->flags,
		.part_flags = schedule->part_flags,
		.index = entry->index,
		.signature = entry->signature,
		.start = entry->start,
		.end = entry->end,
		.input_ns = entry->input_ns,
		.compute_ns = entry->compute_ns,
		.host_ns = entry->host_ns,
		.comm_ns = entry->comm_ns,
		.part_count = schedule->position_count,
		.kind_count = tables->token_count,
		.activity_count = step->activity_count,
		.times = step->times,
		.calls = schedule->calls,
		.sequences = step->sequences,
		.marks = step->marks,
		.kinds = tables->kinds,
		.activities = step->activities,
		.launches = entry->launches.window ? &entry->launches : NULL,
	};
}

/* Of entry, everything but the parts; they go into packed. */
static int read_step(struct wire_reader *reader, struct wire_arena *arena, struct tables *tables,
	int64_t *cursor, struct step_entry *entry, struct packed_step *packed)
{
	size_t later_fields = wire_read_record(reader, WIRE_STEP_FIELDS);
	struct step_reading step = {0};
	struct schedule *schedule;
	int64_t start, end;
	size_t number;
	int error;

	*entry = (struct step_entry){0};
	entry->rank = wire_read_rank(reader);
	entry->flags = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
	entry->index = wire_read_unsigned(reader, UINT64_MAX);
	number = (size_t)wire_read_unsigned(reader, WIRE_STEPS_PER_BATCH_MAX);
	if (number >= tables->schedule_count) {
		wire_reader_fail(reader, "a step names no schedule");
		return 0;
	}
	step.schedule = schedule = &tables->schedules[number];
	entry->signature = schedule->signature;
	start = wire_read_quanta_after(reader, *cursor);
	end = wire_read_quanta_length(reader, start);
	entry->start.value = start * WIRE_TIME_QUANTUM_NS;
	entry->end.value = end * WIRE_TIME_QUANTUM_NS;
	*cursor = end;
	read_phases(reader, entry, end - start);
	read_activity(reader, &entry->tail);
	read_activity(reader, &entry->other_threads);
	if (wire_read_array(reader, schedule->slot_count) != schedule->slot_count)
		wire_reader_fail(reader, "a step has other communicators than its schedule");
	for (size_t i = 0; i < schedule->slot_count; i++)
		tables->sequences[i] = wire_read_unsigned(reader, UINT64_MAX);
	if (schedule->position_count > tables->part_budget)
		wire_reader_fail(reader, "the steps have too many parts");
	if (reader->problem)
		return 0;
	tables->part_budget -= schedule->position_count;
	step.times = wire_arena_take(arena, schedule->position_count, sizeof(*step.times));
	if (!step.times)
		return arena->error;
	if (later_fields || !schedule->laid_out || !schedule->layout) {
		step.sequences =
			wire_arena_take(arena, schedule->position_count, sizeof(*step.sequences));
		if (!step.sequences)
			return arena->error;
		count_on(tables, &step);
	}
	read_part_times(reader, &step, start);
	error = reader->problem ? 0 : read_part_activities(reader, arena, &step);
	if (error || reader->problem)
		return error;
	if (later_fields > 0)
		read_jumps(reader, tables, &step);
	if (later_fields > 1)
		read_launches(reader, &entry->launches);
	if (later_fields > 2)
		wire_skip(reader, later_fields - 2);
	fill_packed(tables, entry, &step, packed);
	return lay_out(arena, tables, later_fields > 0, &step, packed);
}

static int unpack_parts(
	struct wire_arena *arena, const struct packed_step *packed, struct step_entry *entry)
{
	entry->parts = wire_arena_take(arena, packed->part_count, sizeof(*entry->parts));
	if (!entry->parts)
		return arena->error;
	entry->part_count = packed->part_count;
	for (size_t i = 0; i < packed->part_count; i++) {
		const struct part_kind *kind = packed_kind(packed, i);

		entry->parts[i] = (struct collective_part){
			.communicator_id = kind->communicator_id,
			.sequence = packed_sequence(packed, i),
			.length_bytes = kind->length_bytes,
			.arrival = packed->times[i].arrival,
			.departure = packed->times[i].departure,
			.before = *packed_before(packed, i),
			.inside = *packed_inside(packed, i),
			.root = kind->root,
			.operation = kind->operation,
			.flags = kind->flags,
			.purpose = kind->purpose,
			.stream = kind->stream,
			.peer = kind->peer,
			.chunk = kind->chunk,
		};
	}
	return 0;
}

int wire_read_steps(struct wire_reader *reader, struct wire_arena *arena, int64_t base, bool unpack,
	struct message_batch *batch)
{
	struct packed_step *packed;
	struct step_entry *entries;
	struct tables tables = {.part_budget = WIRE_PARTS_PER_BATCH_MAX};
	int error = read_communicators(reader, arena, &tables);

	if (!error)
		error = read_tokens(reader, arena, &tables);
	if (!error)
		error = read_schedules(reader, arena, &tables);
	if (error)
		return error;
	tables.sequences =
		wire_arena_take(arena, tables.communicator_count, sizeof(*tables.sequences));
	batch->step_count = wire_read_array(reader, WIRE_STEPS_PER_BATCH_MAX);
	entries = wire_arena_take(arena, batch->step_count, sizeof(*entries));
	packed = wire_arena_take(arena, batch->step_count, sizeof(*packed));
	if (!tables.sequences || !entries || !packed)
		return arena->error;
	for (size_t i = 0; i < batch->step_count && !reader->problem && !error; i++) {
		error = read_step(reader, arena, &tables, &base, &entries[i], &packed[i]);
		if (unpack && !reader->problem && !error)
			error = unpack_parts(arena, &packed[i], &entries[i]);
	}
	if (unpack)
		batch->steps = entries;
	else
		batch->packed_steps = packed;
	return error;
}
