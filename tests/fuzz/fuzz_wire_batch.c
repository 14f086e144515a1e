/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a batch. What the decoder accepts keeps its promises (probe/wire/decode.h), can
 * be encoded, and decodes to the same once more; and the same as packed steps. Where memory runs out, nothing is left.
 */
#include <errno.h>

#include "analysis/join/packed_step.h"
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"
#include "tests/fuzz/fuzz.h"

enum { FAILS_MAX = 24 }; /* asks for memory that a batch makes */

static void check_step(const struct step_entry *step)
{
	int64_t last_arrival = 0;

	fuzz_require(step->rank < STEP_RANK_COUNT_MAX);
	fuzz_require(step->start.value >= 0 && step->end.value >= step->start.value);
	fuzz_require(step->input_ns >= 0 && step->compute_ns >= 0);
	fuzz_require(step->host_ns >= 0 && step->comm_ns >= 0);
	fuzz_require(step->part_count <= STEP_PART_COUNT_MAX);
	for (size_t i = 0; i < step->part_count; i++) {
		const struct collective_part *part = &step->parts[i];

		fuzz_require(part->arrival.value >= last_arrival);
		fuzz_require(part->departure.value >= part->arrival.value);
		fuzz_require(part->before.preempted_ns >= 0 && part->inside.asleep_ns >= 0);
		last_arrival = part->arrival.value;
	}
}

static void check_batch(const struct message_batch *batch)
{
	fuzz_require(memchr(batch->job_id, 0, sizeof(batch->job_id)) != NULL);
	for (size_t i = 0; i < batch->rank_count; i++) {
		fuzz_require(batch->ranks[i].rank < STEP_RANK_COUNT_MAX);
		fuzz_require(memchr(batch->ranks[i].host, 0, sizeof(batch->ranks[i].host)) != NULL);
	}
	for (size_t i = 0; i < batch->step_count; i++)
		check_step(&batch->steps[i]);
	for (size_t i = 0; i < batch->interval_count; i++) {
		fuzz_require(batch->intervals[i].rank < STEP_RANK_COUNT_MAX);
		fuzz_require(batch->intervals[i].end.value >= batch->intervals[i].start.value);
	}
	for (size_t i = 0; i < batch->sample_count; i++)
		fuzz_require(batch->samples[i].rank < STEP_RANK_COUNT_MAX);
	for (size_t i = 0; i < batch->stack_profile_count; i++) {
		struct stack_profile *copy = stack_profile_copy(batch->stack_profiles[i]);

		fuzz_require(stack_profile_is_valid(copy));
		stack_profile_destroy(copy);
	}
}

static void check_same(const struct message_batch *a, const struct message_batch *b)
{
	fuzz_require(a->probe_id == b->probe_id && a->number == b->number);
	fuzz_require(a->step_count == b->step_count && a->rank_count == b->rank_count);
	for (size_t i = 0; i < a->step_count; i++) {
		const struct step_entry *x = &a->steps[i], *y = &b->steps[i];

		fuzz_require(x->start.value == y->start.value && x->end.value == y->end.value);
		fuzz_require(x->part_count == y->part_count && x->signature == y->signature);
		for (size_t j = 0; j < x->part_count; j++) {
			fuzz_require(x->parts[j].sequence == y->parts[j].sequence);
			fuzz_require(x->parts[j].arrival.value == y->parts[j].arrival.value);
			fuzz_require(x->parts[j].departure.value == y->parts[j].departure.value);
			fuzz_require(x->parts[j].communicator_id == y->parts[j].communicator_id);
		}
	}
}

static void check_packed_step(const struct packed_step *packed, const struct step_entry *step)
{
	fuzz_require(packed->rank == step->rank && packed->part_count == step->part_count);
	fuzz_require(packed->start.value == step->start.value);
	fuzz_require(packed->end.value == step->end.value);
	for (size_t i = 0; i < step->part_count; i++) {
		const struct part_kind *kind = packed_kind(packed, i);

		fuzz_require(kind->communicator_id == step->parts[i].communicator_id);
		fuzz_require(kind->operation == step->parts[i].operation);
		fuzz_require(packed_sequence(packed, i) == step->parts[i].sequence);
		fuzz_require(packed->times[i].arrival.value == step->parts[i].arrival.value);
		fuzz_require(packed->times[i].departure.value == step->parts[i].departure.value);
		fuzz_require(packed_before(packed, i)->preempted_ns ==
			     step->parts[i].before.preempted_ns);
		fuzz_require(
			packed_inside(packed, i)->asleep_ns == step->parts[i].inside.asleep_ns);
	}
}

/* What the coordinator makes of it; batch: what the probes do, or NULL where they refuse it. */
static void check_packed(const uint8_t *bytes, size_t length, const struct message_batch *batch)
{
	struct message_batch *packed = NULL;
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	uint64_t probe_id;

	if (wire_decode_packed_batch(bytes, length, &packed, why)) {
		fuzz_require(!batch && why[0] != '\0');
		return;
	}
	/* Unpacked, it may need more memory than one message gets. */
	if (batch) {
		fuzz_require(packed->step_count == batch->step_count);
		for (size_t i = 0; i < batch->step_count; i++)
			check_packed_step(&packed->packed_steps[i], &batch->steps[i]);
	}
	fuzz_require(wire_sender_id(bytes, length, &probe_id) == 0);
	fuzz_require(probe_id == packed->probe_id);
	message_batch_destroy(packed);
}

static void check_starved(
	const uint8_t *bytes, size_t length, const struct message_batch *batch, size_t number)
{
	struct message_batch *again = NULL;
	struct wire_buffer buffer = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	int error;

	fuzz_fail_allocation(number);
	error = wire_encode_batch(batch, &buffer);
	fuzz_fail_allocation(0);
	fuzz_require(error == 0 || error == -ENOMEM);
	wire_buffer_fini(&buffer);
	fuzz_fail_allocation(number);
	error = wire_decode_batch(bytes, length, &again, why);
	fuzz_fail_allocation(0);
	fuzz_require(error == 0 ? again != NULL : error == -ENOMEM && !again);
	message_batch_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct message_batch *batch = NULL, *again = NULL;
	struct wire_buffer buffer = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";

	if (wire_decode_batch(bytes, length, &batch, why)) {
		fuzz_require(batch == NULL && why[0] != '\0');
		check_packed(bytes, length, NULL);
		return 0;
	}
	check_batch(batch);
	check_starved(bytes, length, batch, 1 + fuzz_number(bytes, length, FAILS_MAX));
	check_packed(bytes, length, batch);
	fuzz_require(wire_encode_batch(batch, &buffer) == 0);
	fuzz_require(wire_decode_batch(buffer.bytes, buffer.length, &again, why) == 0);
	check_same(batch, again);
	message_batch_destroy(again);
	message_batch_destroy(batch);
	wire_buffer_fini(&buffer);
	return 0;
}
