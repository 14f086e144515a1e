/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "probe/wire/decode_steps.h"
#include "probe/wire/format.h"

/* One place of a schedule: all of a part but its times, and which communicator of the step's. */
struct position {
	uint32_t token;
	uint32_t slot;
};

struct schedule {
	uint64_t signature;
	size_t position_count;
	size_t slot_count; /* distinct communicators */
	struct position *positions;
};

struct token {
	struct collective_part part; /* what the token says; the rest is 0 */
	uint32_t communicator;
};

struct tables {
	size_t communicator_count;
	uint64_t *communicator_ids;
	size_t token_count;
	struct token *tokens;
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
	/* A token takes 6 bytes at least, so this array stays within 43 times the message. */
	tables->token_count = wire_read_array(reader, WIRE_PARTS_PER_BATCH_MAX);
	tables->tokens = wire_arena_take(arena, tables->token_count, sizeof(*tables->tokens));
	if (!tables->tokens)
		return arena->error;
	for (size_t i = 0; i < tables->token_count && !reader->problem; i++) {
		struct token *token = &tables->tokens[i];
		size_t later_fields = wire_read_record(reader, WIRE_TOKEN_FIELDS);

		*token = (struct token){0};
		token->part.operation = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		token->communicator = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		token->part.length_bytes = wire_read_unsigned(reader, UINT64_MAX);
		token->part.root = (int32_t)wire_read_signed(reader, INT32_MIN, INT32_MAX);
		token->part.flags = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		if (later_fields >= 4) {
			token->part.purpose = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
			token->part.stream = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
			token->part.peer = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
			token->part.chunk = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
			later_fields -= 4;
		}
		wire_skip(reader, later_fields);
		if (token->communicator >= tables->communicator_count) {
			wire_reader_fail(reader, "a token names no communicator");
			return 0;
		}
		token->part.communicator_id = tables->communicator_ids[token->communicator];
	}
	return 0;
}

/* slot_of: by communicator, its slot in the schedule; valid where used_in names the schedule. */
static void read_positions(struct wire_reader *reader, const struct tables *tables,
	struct schedule *schedule, uint32_t *slot_of, size_t *used_in, size_t mark)
{
	for (size_t i = 0; i < schedule->position_count; i++) {
		struct position *position = &schedule->positions[i];
		uint32_t communicator;

		position->token = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		if (position->token >= tables->token_count) {
			wire_reader_fail(reader, "a schedule names no token");
			return;
		}
		communicator = tables->tokens[position->token].communicator;
		if (used_in[communicator] != mark) {
			used_in[communicator] = mark;
			slot_of[communicator] = (uint32_t)schedule->slot_count++;
		}
		position->slot = slot_of[communicator];
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
		schedule->positions = wire_arena_take(
			arena, schedule->position_count, sizeof(*schedule->positions));
		if (!schedule->positions)
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

/* The numbers behind a mask. Returns how many there were. */
static size_t read_activity_values(
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
	return (size_t)__builtin_popcount(mask & ~(uint32_t)WIRE_ACTIVITY_INSIDE);
}

static void read_activity(struct wire_reader *reader, struct activity *activity)
{
	size_t count = wire_read_array(reader, 32);
	size_t value_count;
	uint32_t mask;

	*activity = (struct activity){0};
	if (!count)
		return;
	mask = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
	value_count = read_activity_values(reader, mask, activity);
	if (1 + value_count != count)
		wire_reader_fail(reader, "an activity has another length than it says");
}

static void read_part_activities(struct wire_reader *reader, struct step_entry *step)
{
	size_t number_count = wire_read_array(reader, WIRE_MESSAGE_LENGTH_MAX);
	size_t position = 0;

	while (number_count && !reader->problem) {
		struct collective_part *part;
		size_t value_count;
		uint32_t mask;

		position += wire_read_unsigned(reader, STEP_PART_COUNT_MAX);
		mask = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		if (position >= step->part_count) {
			wire_reader_fail(reader, "an activity names no part");
			return;
		}
		part = &step->parts[position];
		value_count = read_activity_values(
			reader, mask, mask & WIRE_ACTIVITY_INSIDE ? &part->inside : &part->before);
		if (2 + value_count > number_count) {
			wire_reader_fail(
				reader, "the activities have another length than they say");
			return;
		}
		number_count -= 2 + value_count;
	}
}

/* All parts of a communicator from a jump on count on from it. One walk, however many jumps. */
static void read_jumps(struct wire_reader *reader, const struct tables *tables,
	const struct schedule *schedule, struct step_entry *step)
{
	size_t number_count = wire_read_array(reader, 2 * STEP_PART_COUNT_MAX);
	uint64_t *moved_by = tables->sequences; /* by slot; no longer needed for this step */
	size_t jump_position = 0, position = 0;

	if (number_count % 2)
		wire_reader_fail(reader, "the jumps have an odd length");
	memset(moved_by, 0, schedule->slot_count * sizeof(*moved_by));
	for (; number_count && !reader->problem; number_count -= 2) {
		uint64_t jump;

		jump_position += wire_read_unsigned(reader, STEP_PART_COUNT_MAX);
		jump = (uint64_t)wire_read_signed(reader, INT64_MIN, INT64_MAX);
		if (jump_position >= step->part_count) {
			wire_reader_fail(reader, "a jump names no part");
			return;
		}
		for (; position < jump_position; position++)
			step->parts[position].sequence +=
				moved_by[schedule->positions[position].slot];
		moved_by[schedule->positions[position].slot] += jump;
	}
	for (; position < step->part_count; position++)
		step->parts[position].sequence += moved_by[schedule->positions[position].slot];
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

static void read_part_times(struct wire_reader *reader, const struct tables *tables,
	const struct schedule *schedule, struct step_entry *step, int64_t start)
{
	size_t number_count = wire_read_array(reader, 2 * STEP_PART_COUNT_MAX);
	int64_t last_arrival = 0, cursor = start;

	if (number_count != 2 * schedule->position_count) {
		wire_reader_fail(reader, "a step has other parts than its schedule");
		return;
	}
	for (size_t i = 0; i < schedule->position_count; i++) {
		const struct position *position = &schedule->positions[i];
		struct collective_part *part = &step->parts[i];
		int64_t arrival = wire_read_quanta_after(reader, cursor);

		cursor = wire_read_quanta_length(reader, arrival);
		if (arrival < last_arrival) {
			wire_reader_fail(reader, "parts are not in order of arrival");
			return;
		}
		last_arrival = arrival;
		*part = tables->tokens[position->token].part;
		part->arrival.value = arrival * WIRE_TIME_QUANTUM_NS;
		part->departure.value = cursor * WIRE_TIME_QUANTUM_NS;
		part->sequence = tables->sequences[position->slot]++;
	}
	step->part_count = schedule->position_count;
}

static int read_step(struct wire_reader *reader, struct wire_arena *arena, struct tables *tables,
	int64_t *cursor, struct step_entry *step)
{
	size_t later_fields = wire_read_record(reader, WIRE_STEP_FIELDS);
	const struct schedule *schedule;
	int64_t start, end;
	size_t number;

	*step = (struct step_entry){0};
	step->rank = (uint32_t)wire_read_unsigned(reader, STEP_RANK_COUNT_MAX - 1);
	step->flags = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
	step->index = wire_read_unsigned(reader, UINT64_MAX);
	number = (size_t)wire_read_unsigned(reader, WIRE_STEPS_PER_BATCH_MAX);
	if (number >= tables->schedule_count) {
		wire_reader_fail(reader, "a step names no schedule");
		return 0;
	}
	schedule = &tables->schedules[number];
	step->signature = schedule->signature;
	start = wire_read_quanta_after(reader, *cursor);
	end = wire_read_quanta_length(reader, start);
	step->start.value = start * WIRE_TIME_QUANTUM_NS;
	step->end.value = end * WIRE_TIME_QUANTUM_NS;
	*cursor = end;
	read_phases(reader, step, end - start);
	read_activity(reader, &step->tail);
	read_activity(reader, &step->other_threads);
	if (wire_read_array(reader, schedule->slot_count) != schedule->slot_count)
		wire_reader_fail(reader, "a step has other communicators than its schedule");
	for (size_t i = 0; i < schedule->slot_count; i++)
		tables->sequences[i] = wire_read_unsigned(reader, UINT64_MAX);
	if (schedule->position_count > tables->part_budget)
		wire_reader_fail(reader, "the steps have too many parts");
	if (reader->problem)
		return 0;
	tables->part_budget -= schedule->position_count;
	step->parts = wire_arena_take(arena, schedule->position_count, sizeof(*step->parts));
	if (!step->parts)
		return arena->error;
	read_part_times(reader, tables, schedule, step, start);
	read_part_activities(reader, step);
	if (later_fields) {
		read_jumps(reader, tables, schedule, step);
		wire_skip(reader, later_fields - 1);
	}
	return 0;
}

int wire_read_steps(struct wire_reader *reader, struct wire_arena *arena, int64_t base,
	struct message_batch *batch)
{
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
	batch->steps = wire_arena_take(arena, batch->step_count, sizeof(*batch->steps));
	if (!tables.sequences || !batch->steps)
		return arena->error;
	for (size_t i = 0; i < batch->step_count && !reader->problem && !error; i++)
		error = read_step(reader, arena, &tables, &base, &batch->steps[i]);
	return error;
}
