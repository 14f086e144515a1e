/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe/wire/encode_steps.h"
#include "probe/wire/format.h"
#include "probe/wire/schedule.h"

/* Steps whose parts are in order: the caller's own, or copies where they were not. */
struct ordered_steps {
	const struct step_entry *steps;
	size_t step_count;
	size_t part_count; /* of all steps */
	struct step_entry *copied_steps;
	struct collective_part *copied_parts;
};

struct numbered_part {
	int64_t arrival_ns;
	size_t number;
};

/* The numbers of one packed activity. */
struct packed_activity {
	uint32_t mask;
	size_t count;
	uint64_t values[11];
};

static bool parts_in_order(const struct step_entry *step)
{
	for (size_t i = 1; i < step->part_count; i++) {
		if (step->parts[i].arrival.value < step->parts[i - 1].arrival.value)
			return false;
	}
	return true;
}

static int compare_numbered_parts(const void *left, const void *right)
{
	const struct numbered_part *a = left, *b = right;

	if (a->arrival_ns != b->arrival_ns)
		return a->arrival_ns < b->arrival_ns ? -1 : 1;
	return a->number < b->number ? -1 : 1;
}

static int sort_parts(struct step_entry *step, struct collective_part *out)
{
	struct numbered_part *order = calloc(step->part_count, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < step->part_count; i++)
		order[i] = (struct numbered_part){step->parts[i].arrival.value, i};
	qsort(order, step->part_count, sizeof(*order), compare_numbered_parts);
	for (size_t i = 0; i < step->part_count; i++)
		out[i] = step->parts[order[i].number];
	free(order);
	step->parts = out;
	return 0;
}

/* Threads of one rank may overlap in collectives, and their events come by return time. */
static int copy_in_order(struct ordered_steps *ordered, size_t unordered_part_count)
{
	struct collective_part *out;
	int error = 0;

	ordered->copied_steps = calloc(ordered->step_count, sizeof(*ordered->copied_steps));
	ordered->copied_parts = calloc(unordered_part_count, sizeof(*ordered->copied_parts));
	if (!ordered->copied_steps || !ordered->copied_parts)
		return -ENOMEM;
	memcpy(ordered->copied_steps, ordered->steps,
		ordered->step_count * sizeof(*ordered->copied_steps));
	out = ordered->copied_parts;
	for (size_t i = 0; i < ordered->step_count && !error; i++) {
		struct step_entry *step = &ordered->copied_steps[i];

		if (parts_in_order(step))
			continue;
		error = sort_parts(step, out);
		out += step->part_count;
	}
	ordered->steps = ordered->copied_steps;
	return error;
}

static int order_steps(struct ordered_steps *ordered)
{
	size_t unordered_part_count = 0;

	if (ordered->step_count > WIRE_STEPS_PER_BATCH_MAX)
		return -EMSGSIZE;
	for (size_t i = 0; i < ordered->step_count; i++) {
		const struct step_entry *step = &ordered->steps[i];

		if (step->rank >= STEP_RANK_COUNT_MAX)
			return -EINVAL;
		if (step->part_count > STEP_PART_COUNT_MAX)
			return -EMSGSIZE;
		ordered->part_count += step->part_count;
		if (ordered->part_count > WIRE_PARTS_PER_BATCH_MAX)
			return -EMSGSIZE;
		if (!parts_in_order(step))
			unordered_part_count += step->part_count;
	}
	return unordered_part_count ? copy_in_order(ordered, unordered_part_count) : 0;
}

static void ordered_steps_fini(struct ordered_steps *ordered)
{
	free(ordered->copied_steps);
	free(ordered->copied_parts);
}

static void add_value(struct packed_activity *packed, uint32_t bit, uint64_t value)
{
	if (!value)
		return;
	packed->mask |= bit;
	packed->values[packed->count++] = value;
}

/* By far the most are: this runs twice for each part. */
static bool is_nothing(const struct activity *activity)
{
	return !(activity->preempted_ns | activity->asleep_ns | activity->minor_fault_ns |
		 activity->throttled_ns | activity->comm_call_ns | activity->major_fault_ns |
		 activity->block_io_ns | activity->host_ns | activity->collector_ns |
		 activity->minor_faults | activity->major_faults);
}

static bool is_noise(const struct activity *activity)
{
	const int64_t times[] = {activity->preempted_ns, activity->asleep_ns,
		activity->minor_fault_ns, activity->throttled_ns, activity->comm_call_ns,
		activity->major_fault_ns, activity->block_io_ns, activity->host_ns,
		activity->collector_ns};
	int64_t rest = WIRE_ACTIVITY_NOISE_NS;

	if (activity->major_faults)
		return false;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		if (times[i] >= rest)
			return false;
		if (times[i] > 0)
			rest -= times[i];
	}
	return true;
}

/* Returns false when there is nothing worth sending. */
static bool pack_activity(const struct activity *activity, struct packed_activity *packed)
{
	if (is_nothing(activity) || is_noise(activity))
		return false;
	packed->mask = 0;
	packed->count = 0;
	/* In the order of the bits. */
	add_value(packed, WIRE_ACTIVITY_PREEMPTED, (uint64_t)wire_quanta(activity->preempted_ns));
	add_value(packed, WIRE_ACTIVITY_ASLEEP, (uint64_t)wire_quanta(activity->asleep_ns));
	add_value(
		packed, WIRE_ACTIVITY_MINOR_FAULT, (uint64_t)wire_quanta(activity->minor_fault_ns));
	add_value(packed, WIRE_ACTIVITY_MINOR_FAULTS, activity->minor_faults);
	add_value(packed, WIRE_ACTIVITY_THROTTLED, (uint64_t)wire_quanta(activity->throttled_ns));
	add_value(packed, WIRE_ACTIVITY_COMM_CALL, (uint64_t)wire_quanta(activity->comm_call_ns));
	add_value(
		packed, WIRE_ACTIVITY_MAJOR_FAULT, (uint64_t)wire_quanta(activity->major_fault_ns));
	add_value(packed, WIRE_ACTIVITY_MAJOR_FAULTS, activity->major_faults);
	add_value(packed, WIRE_ACTIVITY_BLOCK_IO, (uint64_t)wire_quanta(activity->block_io_ns));
	add_value(packed, WIRE_ACTIVITY_HOST, (uint64_t)wire_quanta(activity->host_ns));
	add_value(packed, WIRE_ACTIVITY_COLLECTOR, (uint64_t)wire_quanta(activity->collector_ns));
	return packed->mask != 0;
}

/* An activity of its own: an array, empty when there was none. */
static void put_activity(struct wire_packer *packer, const struct activity *activity)
{
	struct packed_activity packed;

	if (!pack_activity(activity, &packed)) {
		wire_pack_array(packer, 0);
		return;
	}
	wire_pack_array(packer, 1 + packed.count);
	wire_pack_unsigned(packer, packed.mask);
	for (size_t i = 0; i < packed.count; i++)
		wire_pack_unsigned(packer, packed.values[i]);
}

/*
 * The activities of the parts that have any, flat: positions since the last one listed, mask,
 * values. out NULL: only counts the numbers.
 */
static size_t put_part_activities(struct wire_packer *out, const struct step_entry *step)
{
	size_t number_count = 0, last_position = 0;

	for (size_t i = 0; i < step->part_count; i++) {
		for (uint32_t inside = 0; inside <= 1; inside++) {
			const struct collective_part *part = &step->parts[i];
			struct packed_activity packed;

			if (!pack_activity(inside ? &part->inside : &part->before, &packed))
				continue;
			number_count += 2 + packed.count;
			if (!out)
				continue;
			wire_pack_unsigned(out, i - last_position);
			wire_pack_unsigned(out, packed.mask | (inside ? WIRE_ACTIVITY_INSIDE : 0));
			for (size_t value = 0; value < packed.count; value++)
				wire_pack_unsigned(out, packed.values[value]);
			last_position = i;
		}
	}
	return number_count;
}

static void put_tables(struct wire_packer *packer, const struct wire_schedule_table *table)
{
	wire_pack_array(packer, table->communicator_count);
	for (size_t i = 0; i < table->communicator_count; i++)
		wire_pack_unsigned(packer, table->communicator_ids[i]);

	wire_pack_array(packer, table->token_count);
	for (size_t i = 0; i < table->token_count; i++) {
		const struct wire_token *token = &table->tokens[i];

		bool detailed = token->purpose || token->stream || token->peer || token->chunk;

		wire_pack_array(packer, WIRE_TOKEN_FIELDS + (detailed ? 4 : 0));
		wire_pack_unsigned(packer, token->operation);
		wire_pack_unsigned(packer, token->communicator);
		wire_pack_unsigned(packer, token->length_bytes);
		wire_pack_signed(packer, token->root);
		wire_pack_unsigned(packer, token->flags);
		if (!detailed)
			continue;
		wire_pack_unsigned(packer, token->purpose);
		wire_pack_unsigned(packer, token->stream);
		wire_pack_unsigned(packer, token->peer);
		wire_pack_unsigned(packer, token->chunk);
	}

	wire_pack_array(packer, table->schedule_count);
	for (size_t i = 0; i < table->schedule_count; i++) {
		const struct wire_schedule *schedule = &table->schedules[i];

		wire_pack_array(packer, WIRE_SCHEDULE_FIELDS);
		wire_pack_unsigned(packer, schedule->signature);
		wire_pack_array(packer, schedule->position_count);
		for (size_t j = 0; j < schedule->position_count; j++)
			wire_pack_unsigned(
				packer, table->token_of_position[schedule->first_position + j]);
	}
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/*
 * The four times of a step. Sums are rounded rather than the times, so that the four still sum
 * to the step's length, which the last number (usually 0) corrects where they did not.
 */
static void put_phases(struct wire_packer *packer, const struct step_entry *step, int64_t length)
{
	int64_t input_ns = earlier(later(step->input_ns, 0), WIRE_TIME_NS_MAX / 4);
	int64_t compute_ns = earlier(later(step->compute_ns, 0), WIRE_TIME_NS_MAX / 4);
	int64_t host_ns = earlier(later(step->host_ns, 0), WIRE_TIME_NS_MAX / 4);
	int64_t comm_ns = earlier(later(step->comm_ns, 0), WIRE_TIME_NS_MAX / 4);
	int64_t input = wire_quanta(input_ns);
	int64_t compute = wire_quanta(input_ns + compute_ns);
	int64_t host = wire_quanta(input_ns + compute_ns + host_ns);
	int64_t total_ns = input_ns + compute_ns + host_ns + comm_ns;
	int64_t total = wire_quanta(total_ns);

	if (total - length <= 1 && total - length >= -1) { /* as it should be, but for rounding */
		total = length;
		host = earlier(host, total);
		compute = earlier(compute, total);
		input = earlier(input, total);
	}
	wire_pack_unsigned(packer, (uint64_t)input);
	wire_pack_unsigned(packer, (uint64_t)(compute - input));
	wire_pack_unsigned(packer, (uint64_t)(host - compute));
	wire_pack_signed(packer, total - length);
}

/* By communicator of the batch: the sequence that should come next, and the walk it is from. */
struct sequence_state {
	uint64_t walk;
	uint64_t *next;
	uint64_t *seen_in;
};

/*
 * Walks over a step's sequences. firsts: gets the first sequence of each communicator, in the
 * order of their first parts. jumps: gets, for each part whose sequence does not follow, the
 * positions since the last such part and by how much it jumps. Either may be NULL. Returns the
 * number of jumps.
 */
static size_t walk_sequences(const struct step_entry *step, const struct wire_schedule_table *table,
	const struct wire_schedule *schedule, struct sequence_state *state,
	struct wire_packer *firsts, struct wire_packer *jumps)
{
	size_t jump_count = 0, last_position = 0;

	state->walk++;
	for (size_t i = 0; i < step->part_count; i++) {
		uint32_t token = table->token_of_position[schedule->first_position + i];
		uint32_t communicator = table->tokens[token].communicator;
		uint64_t sequence = step->parts[i].sequence;
		uint64_t jump = sequence - state->next[communicator];

		if (state->seen_in[communicator] != state->walk) {
			state->seen_in[communicator] = state->walk;
			if (firsts)
				wire_pack_unsigned(firsts, sequence);
		} else if (jump) {
			jump_count++;
			if (jumps) {
				wire_pack_unsigned(jumps, i - last_position);
				wire_pack_signed(jumps, (int64_t)jump);
			}
			last_position = i;
		}
		state->next[communicator] = sequence + 1;
	}
	return jump_count;
}

/* Per part: arrival since the departure before it, and the time from arrival to departure. */
static void put_part_times(struct wire_packer *packer, const struct step_entry *step, int64_t start)
{
	int64_t cursor = start;

	wire_pack_array(packer, 2 * step->part_count);
	for (size_t i = 0; i < step->part_count; i++) {
		int64_t arrival = wire_quanta(step->parts[i].arrival.value);
		int64_t departure = later(wire_quanta(step->parts[i].departure.value), arrival);

		wire_pack_signed(packer, arrival - cursor);
		wire_pack_unsigned(packer, (uint64_t)(departure - arrival));
		cursor = departure;
	}
}

static void put_launches(struct wire_packer *packer, const struct step_launches *launches)
{
	wire_pack_array(packer, WIRE_LAUNCHES_FIELDS);
	wire_pack_unsigned(packer, launches->launches);
	wire_pack_unsigned(packer, launches->graph_launches);
	wire_pack_unsigned(packer, (uint64_t)wire_quanta(launches->silence_ns));
	wire_pack_unsigned(packer, (uint64_t)wire_quanta(launches->idle_ns));
	wire_pack_unsigned(packer, (uint64_t)wire_quanta(launches->wait_ns));
}

static void put_step(struct wire_packer *packer, const struct step_entry *step,
	const struct wire_schedule_table *table, uint32_t schedule_number,
	struct sequence_state *state, int64_t *cursor)
{
	const struct wire_schedule *schedule = &table->schedules[schedule_number];
	int64_t start = wire_quanta(step->start.value);
	int64_t end = later(wire_quanta(step->end.value), start);
	size_t jump_count = walk_sequences(step, table, schedule, state, NULL, NULL);
	bool launches = step->launches.window != 0;

	/* Later fields, as far as the last one that is there. */
	wire_pack_array(packer, WIRE_STEP_FIELDS + (launches ? 2 : jump_count ? 1 : 0));
	wire_pack_unsigned(packer, step->rank);
	wire_pack_unsigned(packer, step->flags);
	wire_pack_unsigned(packer, step->index);
	wire_pack_unsigned(packer, schedule_number);
	wire_pack_signed(packer, start - *cursor);
	wire_pack_unsigned(packer, (uint64_t)(end - start));
	put_phases(packer, step, end - start);
	put_activity(packer, &step->tail);
	put_activity(packer, &step->other_threads);
	wire_pack_array(packer, schedule->communicator_count);
	walk_sequences(step, table, schedule, state, packer, NULL);
	put_part_times(packer, step, start);
	wire_pack_array(packer, put_part_activities(NULL, step));
	put_part_activities(packer, step);
	if (jump_count || launches) {
		wire_pack_array(packer, 2 * jump_count);
		walk_sequences(step, table, schedule, state, NULL, packer);
	}
	if (launches)
		put_launches(packer, &step->launches);
	*cursor = end;
}

int wire_pack_steps(
	struct wire_packer *packer, const struct step_entry *steps, size_t step_count, int64_t base)
{
	struct ordered_steps ordered = {.steps = steps, .step_count = step_count};
	struct wire_schedule_table table = {0};
	struct sequence_state state = {0};
	int error = order_steps(&ordered);

	if (error)
		goto out;
	error = wire_schedule_table_init(
		&table, ordered.steps, ordered.step_count, ordered.part_count);
	if (error)
		goto out;
	state.next = calloc(table.communicator_count + 1, sizeof(*state.next));
	state.seen_in = calloc(table.communicator_count + 1, sizeof(*state.seen_in));
	if (!state.next || !state.seen_in) {
		error = -ENOMEM;
		goto out;
	}
	put_tables(packer, &table);
	wire_pack_array(packer, step_count);
	for (size_t i = 0; i < step_count; i++)
		put_step(packer, &ordered.steps[i], &table, table.schedule_of_step[i], &state,
			&base);
out:
	free(state.next);
	free(state.seen_in);
	wire_schedule_table_fini(&table);
	ordered_steps_fini(&ordered);
	return error;
}
