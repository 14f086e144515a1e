/* SPDX-License-Identifier: Apache-2.0 */
/* What the decoder says of a step's layout and slots is what the step's parts say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "probe/wire/decode.h"
#include "probe/wire/encode.h"
#include "probe/wire/packed_steps.h"
#include "tests/unit/wire/random_batch.h"

enum { PARTS = 6 };

static void check_slots(const struct step_entry *entry, const struct packed_step *step)
{
	struct packed_call *calls = calloc(step->part_count + 1, sizeof(*calls));
	uint64_t *sequences = calloc(step->part_count + 1, sizeof(*sequences));
	struct packed_slot slots[PACKED_SLOTS_MAX];
	struct packed_step again = *step;
	size_t parts = 0;

	assert_int_equal(entry->part_count, step->part_count);
	for (size_t p = 0; p < step->part_count; p++) {
		calls[p].kind = step->calls[p].kind;
		sequences[p] = entry->parts[p].sequence;
		assert_true(packed_sequence(step, p) == sequences[p]);
	}
	again.calls = calls;
	again.sequences = sequences;
	packed_step_lay_out(&again, calls, slots);
	assert_true(step->layout ? !step->sequences : !step->part_count || step->sequences);
	assert_true(step->layout == again.layout);
	assert_int_equal(step->slot_count, again.slot_count);
	for (size_t i = 0; i < step->slot_count; i++) {
		assert_true(step->slots[i].communicator_id == slots[i].communicator_id);
		assert_true(step->slots[i].sequence == slots[i].sequence);
		assert_int_equal(step->slots[i].first_part, slots[i].first_part);
		assert_int_equal(step->slots[i].last_part, slots[i].last_part);
		assert_int_equal(step->slots[i].part_count, slots[i].part_count);
		parts += slots[i].part_count;
	}
	assert_true(step->layout == 0 ? step->slot_count == 0 : parts == step->part_count);
	free(calls);
	free(sequences);
}

static struct message_batch *pass(const struct message_batch *batch)
{
	struct wire_buffer buffer = {0};
	struct message_batch *decoded;

	assert_int_equal(wire_encode_batch(batch, &buffer), 0);
	assert_int_equal(wire_decode_packed_batch(buffer.bytes, buffer.length, &decoded, NULL), 0);
	assert_null(decoded->steps);
	for (size_t i = 0; i < decoded->step_count; i++)
		check_slots(&batch->steps[i], &decoded->packed_steps[i]);
	wire_buffer_fini(&buffer);
	return decoded;
}

/* Three steps of two communicators, on from each other; change: of the last one, by number. */
static uint64_t layout_of_changed(int change, uint64_t *first)
{
	struct collective_part parts[3][PARTS] = {{{0}}};
	struct step_entry steps[3] = {{0}};
	struct message_batch batch = {.step_count = 3, .steps = steps};
	uint64_t next[2] = {7, 30}, layout;

	for (size_t s = 0; s < 3; s++) {
		steps[s].part_count = PARTS;
		steps[s].parts = parts[s];
		steps[s].start.value = (int64_t)s * 1000000;
		steps[s].end.value = steps[s].start.value + 900000;
		for (size_t p = 0; p < PARTS; p++)
			parts[s][p] = (struct collective_part){.communicator_id = 5 + p % 2,
				.sequence = next[p % 2]++,
				.length_bytes = 100 * p,
				.operation = OPERATION_ALL_REDUCE,
				.root = STEP_ROOT_NONE,
				.arrival.value = steps[s].start.value + (int64_t)p * 10000,
				.departure.value =
					steps[s].start.value + (int64_t)p * 10000 + 5000};
	}
	switch (change) {
	case 1:
		parts[2][4].length_bytes++;
		break;
	case 2:
		parts[2][3].communicator_id = 5;
		break;
	case 3:
		parts[2][5].sequence++;
		break;
	case 4:
		parts[2][1].operation = OPERATION_SEND;
		break;
	case 5:
		parts[2][1].flags = PART_DEVICE_TIME;
		break;
	case 6:
		parts[2][0].stream = 1;
		break;
	case 7:
		steps[2].part_count--;
		break;
	default:
		break;
	}
	struct message_batch *decoded = pass(&batch);

	assert_true(decoded->packed_steps[0].layout == decoded->packed_steps[1].layout);
	*first = decoded->packed_steps[0].layout;
	layout = decoded->packed_steps[2].layout;
	message_batch_destroy(decoded);
	return layout;
}

static void layouts_tell_calls_apart(void **state)
{
	uint64_t first, unchanged = layout_of_changed(0, &first);

	(void)state;
	assert_true(first != 0 && unchanged == first);
	for (int change = 1; change <= 7; change++) {
		uint64_t layout = layout_of_changed(change, &first);

		assert_true(layout != first);
		if (change >= 3 && change <= 6)
			assert_true(layout == 0);
	}
}

static void random_batches_are_laid_out(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct message_batch batch;

		random_batch_init(&batch, seed);
		message_batch_destroy(pass(&batch));
		random_batch_fini(&batch);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts_tell_calls_apart),
		cmocka_unit_test(random_batches_are_laid_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
