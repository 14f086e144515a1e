/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/wire/queue_pairs.h"

#include <errno.h>
#include <string.h>

#include "probe/wire/decode_steps.h"
#include "probe/wire/format.h"

enum { GID_WORDS = WIRE_GID_BYTES / 8 };

/* Most of the numbers are 0: pairs of (distance to the last one, number). */
static void put_sparse(struct wire_packer *packer, const uint64_t *numbers, size_t count)
{
	size_t used = 0, last = 0;

	for (size_t i = 0; i < count; i++)
		used += numbers[i] != 0;
	wire_pack_array(packer, used * 2);
	for (size_t i = 0; i < count; i++) {
		if (numbers[i] == 0)
			continue;
		wire_pack_unsigned(packer, i - last);
		wire_pack_unsigned(packer, numbers[i]);
		last = i;
	}
}

/* Numbers behind the last known place are added to it. */
static void read_sparse(struct wire_reader *reader, uint64_t *numbers, size_t count)
{
	size_t items = wire_read_array(reader, WIRE_MESSAGE_LENGTH_MAX), place = 0;

	for (size_t i = 0; i + 1 < items && !reader->problem; i += 2) {
		place += wire_read_unsigned(reader, UINT16_MAX);
		if (place >= count)
			place = count - 1;
		numbers[place] += wire_read_unsigned(reader, UINT64_MAX);
	}
	if (items % 2)
		wire_reader_fail(reader, "a list of pairs has an odd number of items");
}

/* As two big-endian numbers, so that an address of zeros takes two bytes. */
static void put_gid(struct wire_packer *packer, const uint8_t gid[WIRE_GID_BYTES])
{
	for (size_t word = 0; word < GID_WORDS; word++) {
		uint64_t value = 0;

		for (size_t i = 0; i < 8; i++)
			value = value << 8 | gid[word * 8 + i];
		wire_pack_unsigned(packer, value);
	}
}

static void read_gid(struct wire_reader *reader, uint8_t gid[WIRE_GID_BYTES])
{
	for (size_t word = 0; word < GID_WORDS; word++) {
		uint64_t value = wire_read_unsigned(reader, UINT64_MAX);

		for (size_t i = 8; i-- > 0; value >>= 8)
			gid[word * 8 + i] = (uint8_t)value;
	}
}

static void put_counts(struct wire_packer *packer, const struct message_queue_pair *pair)
{
	wire_pack_unsigned(packer, pair->posted_requests);
	wire_pack_unsigned(packer, pair->posted_bytes);
	wire_pack_unsigned(packer, pair->post_errors);
	wire_pack_unsigned(packer, pair->completed_requests);
	wire_pack_unsigned(packer, pair->completed_bytes);
	wire_pack_unsigned(packer, pair->received_requests);
	wire_pack_unsigned(packer, pair->received_bytes);
	wire_pack_unsigned(packer, pair->latency_sum_ns);
	wire_pack_unsigned(packer, pair->latency_max_ns);
	wire_pack_unsigned(packer, pair->latency_unmeasured);
	put_sparse(packer, pair->statuses, WIRE_QUEUE_PAIR_STATUS_NR);
	put_sparse(packer, pair->latency, WIRE_QUEUE_PAIR_BUCKET_NR);
}

int wire_pack_queue_pairs(
	struct wire_packer *packer, const struct message_batch *batch, int64_t cursor)
{
	wire_pack_array(packer, batch->queue_pair_count);
	for (size_t i = 0; i < batch->queue_pair_count; i++) {
		const struct message_queue_pair *pair = &batch->queue_pairs[i];
		int64_t time = wire_quanta(pair->time.value);

		if (pair->rank >= STEP_RANK_COUNT_MAX)
			return -EINVAL;
		wire_pack_array(packer, WIRE_QUEUE_PAIR_FIELDS);
		wire_pack_unsigned(packer, pair->rank);
		wire_pack_unsigned(packer, pair->number);
		wire_pack_unsigned(packer, pair->peer_number);
		wire_pack_signed(packer, time - cursor);
		wire_pack_unsigned(packer, pair->flags);
		wire_pack_array(packer, 2 + 2 * GID_WORDS);
		wire_pack_unsigned(packer, pair->own_lid);
		wire_pack_unsigned(packer, pair->peer_lid);
		put_gid(packer, pair->own_gid);
		put_gid(packer, pair->peer_gid);
		wire_pack_unsigned(packer, pair->port);
		wire_pack_unsigned(packer, pair->type);
		wire_pack_unsigned(packer, pair->retry_count);
		wire_pack_unsigned(packer, pair->timeout);
		wire_pack_string(packer, pair->device, sizeof(pair->device));
		put_counts(packer, pair);
		wire_pack_unsigned(packer, pair->latency_count);
		wire_pack_unsigned(packer, pair->read_bytes);
		cursor = time;
	}
	return 0;
}

static void read_addresses(struct wire_reader *reader, struct message_queue_pair *pair)
{
	size_t later_fields = wire_read_record(reader, 2 + 2 * GID_WORDS);

	pair->own_lid = (uint16_t)wire_read_unsigned(reader, UINT16_MAX);
	pair->peer_lid = (uint16_t)wire_read_unsigned(reader, UINT16_MAX);
	read_gid(reader, pair->own_gid);
	read_gid(reader, pair->peer_gid);
	wire_skip(reader, later_fields);
}

static void read_counts(struct wire_reader *reader, struct message_queue_pair *pair)
{
	pair->posted_requests = wire_read_unsigned(reader, UINT64_MAX);
	pair->posted_bytes = wire_read_unsigned(reader, UINT64_MAX);
	pair->post_errors = wire_read_unsigned(reader, UINT64_MAX);
	pair->completed_requests = wire_read_unsigned(reader, UINT64_MAX);
	pair->completed_bytes = wire_read_unsigned(reader, UINT64_MAX);
	pair->received_requests = wire_read_unsigned(reader, UINT64_MAX);
	pair->received_bytes = wire_read_unsigned(reader, UINT64_MAX);
	pair->latency_sum_ns = wire_read_unsigned(reader, UINT64_MAX);
	pair->latency_max_ns = wire_read_unsigned(reader, UINT64_MAX);
	pair->latency_unmeasured = wire_read_unsigned(reader, UINT64_MAX);
	read_sparse(reader, pair->statuses, WIRE_QUEUE_PAIR_STATUS_NR);
	read_sparse(reader, pair->latency, WIRE_QUEUE_PAIR_BUCKET_NR);
}

int wire_read_queue_pairs(struct wire_reader *reader, struct wire_arena *arena, int64_t cursor,
	struct message_batch *batch)
{
	batch->queue_pair_count = wire_read_array(reader, WIRE_QUEUE_PAIRS_PER_BATCH_MAX);
	batch->queue_pairs =
		wire_arena_take(arena, batch->queue_pair_count, sizeof(*batch->queue_pairs));
	if (!batch->queue_pairs)
		return arena->error;
	for (size_t i = 0; i < batch->queue_pair_count && !reader->problem; i++) {
		struct message_queue_pair *pair = &batch->queue_pairs[i];
		size_t later_fields = wire_read_record(reader, WIRE_QUEUE_PAIR_FIELDS_FIRST);

		*pair = (struct message_queue_pair){0};
		pair->rank = wire_read_rank(reader);
		pair->number = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		pair->peer_number = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		cursor = wire_read_quanta_after(reader, cursor);
		pair->time.value = cursor * WIRE_TIME_QUANTUM_NS;
		pair->flags = (uint16_t)wire_read_unsigned(reader, UINT16_MAX);
		read_addresses(reader, pair);
		pair->port = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		pair->type = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		pair->retry_count = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		pair->timeout = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		wire_read_string(reader, pair->device, sizeof(pair->device));
		read_counts(reader, pair);
		pair->latency_count = wire_read_unsigned(reader, UINT64_MAX);
		if (later_fields) {
			pair->read_bytes = wire_read_unsigned(reader, UINT64_MAX);
			later_fields--;
		}
		wire_skip(reader, later_fields);
	}
	return 0;
}
