/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a batch. What the decoder accepts keeps its promises (probe/wire/decode.h), can
 * be encoded, and decodes to the same once more.
 */
#include <stdlib.h>
#include <string.h>

#include "probe/wire/decode.h"
#include "probe/wire/encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_step(const struct step_entry *step)
{
	int64_t last_arrival = 0;

	require(step->rank < STEP_RANK_COUNT_MAX);
	require(step->start.value >= 0 && step->end.value >= step->start.value);
	require(step->input_ns >= 0 && step->compute_ns >= 0);
	require(step->host_ns >= 0 && step->comm_ns >= 0);
	require(step->part_count <= STEP_PART_COUNT_MAX);
	for (size_t i = 0; i < step->part_count; i++) {
		const struct collective_part *part = &step->parts[i];

		require(part->arrival.value >= last_arrival);
		require(part->departure.value >= part->arrival.value);
		require(part->before.preempted_ns >= 0 && part->inside.asleep_ns >= 0);
		last_arrival = part->arrival.value;
	}
}

static void check_batch(const struct message_batch *batch)
{
	require(memchr(batch->job_id, 0, sizeof(batch->job_id)) != NULL);
	for (size_t i = 0; i < batch->rank_count; i++) {
		require(batch->ranks[i].rank < STEP_RANK_COUNT_MAX);
		require(memchr(batch->ranks[i].host, 0, sizeof(batch->ranks[i].host)) != NULL);
	}
	for (size_t i = 0; i < batch->step_count; i++)
		check_step(&batch->steps[i]);
	for (size_t i = 0; i < batch->interval_count; i++) {
		require(batch->intervals[i].rank < STEP_RANK_COUNT_MAX);
		require(batch->intervals[i].end.value >= batch->intervals[i].start.value);
	}
	for (size_t i = 0; i < batch->sample_count; i++)
		require(batch->samples[i].rank < STEP_RANK_COUNT_MAX);
}

static void check_same(const struct message_batch *a, const struct message_batch *b)
{
	require(a->probe_id == b->probe_id && a->number == b->number);
	require(a->step_count == b->step_count && a->rank_count == b->rank_count);
	for (size_t i = 0; i < a->step_count; i++) {
		const struct step_entry *x = &a->steps[i], *y = &b->steps[i];

		require(x->start.value == y->start.value && x->end.value == y->end.value);
		require(x->part_count == y->part_count && x->signature == y->signature);
		for (size_t j = 0; j < x->part_count; j++) {
			require(x->parts[j].sequence == y->parts[j].sequence);
			require(x->parts[j].arrival.value == y->parts[j].arrival.value);
			require(x->parts[j].departure.value == y->parts[j].departure.value);
			require(x->parts[j].communicator_id == y->parts[j].communicator_id);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct message_batch *batch = NULL, *again = NULL;
	struct wire_buffer buffer = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";

	if (wire_decode_batch(bytes, length, &batch, why)) {
		require(batch == NULL && why[0] != '\0');
		return 0;
	}
	check_batch(batch);
	require(wire_encode_batch(batch, &buffer) == 0);
	require(wire_decode_batch(buffer.bytes, buffer.length, &again, why) == 0);
	check_same(batch, again);
	message_batch_destroy(again);
	message_batch_destroy(batch);
	wire_buffer_fini(&buffer);
	return 0;
}
