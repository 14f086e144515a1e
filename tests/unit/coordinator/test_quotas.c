/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer that has the job's key can have the coordinator take of memory, whatever it sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "coordinator/peers.h"
#include "coordinator/pipeline.h"
#include "probe/wire/encode.h"
#include "tests/unit/coordinator/made_batch.h"

enum {
	SENT_BYTES = 12 << 20, /* of each kind */
	ROUNDS = 50000,
	MEMORY_KIB_MAX = 256 << 10,
	HONEST_RANKS = 8,
};

struct peer {
	struct pipeline *pipeline;
	struct wire_buffer buffer;
	size_t sent_bytes;
	uint64_t number, frames, accepted;
	int64_t now_ns;
};

/* Encodes and pushes it as the listener does. */
static void send_batch(struct peer *peer, struct message_batch *batch)
{
	struct message_reply reply;

	peer->now_ns += 50 * 1000000;
	batch->number = peer->number++;
	batch->sent.value = peer->now_ns;
	assert_int_equal(wire_encode_batch(batch, &peer->buffer), 0);
	assert_in_range(pipeline_push(peer->pipeline, peer->buffer.bytes, peer->buffer.length,
				(struct job_ns){peer->now_ns}, &reply),
		PIPELINE_ACCEPTED, PIPELINE_REFUSED);
	peer->sent_bytes += peer->buffer.length;
	peer->frames++;
	peer->accepted += reply.accepted;
	made_batch_release(batch);
}

static void announce_ranks(struct peer *peer, uint64_t round)
{
	struct message_batch *batch = made_batch(1, 1, 0);

	made_batch_announce(batch, 4096, 0);
	for (uint32_t i = 0; i < 4096; i++) {
		batch->ranks[i].rank = (uint32_t)(round * 4096 + i) % STEP_RANK_COUNT_MAX;
		batch->ranks[i].world_size = peer->frames ? STEP_RANK_COUNT_MAX : 0;
	}
	send_batch(peer, batch);
}

static void send_samples(struct peer *peer, uint64_t round)
{
	struct message_batch *batch = made_batch(1, 1, 0);

	batch->sample_count = WIRE_SAMPLES_PER_BATCH_MAX;
	batch->samples = calloc(batch->sample_count, sizeof(*batch->samples));
	for (uint32_t i = 0; i < batch->sample_count; i++)
		batch->samples[i] = (struct metric_sample){.rank = i % 1000 + 8,
			.metric = (uint16_t)((round + i / 1000) % METRIC_NR),
			.time = {peer->now_ns},
			.value = (int64_t)round};
	send_batch(peer, batch);
}

static void send_intervals(struct peer *peer, uint64_t round)
{
	struct message_batch *batch = made_batch(1, 1, 0);

	batch->interval_count = WIRE_INTERVALS_PER_BATCH_MAX;
	batch->intervals = calloc(batch->interval_count, sizeof(*batch->intervals));
	for (uint32_t i = 0; i < batch->interval_count; i++)
		batch->intervals[i] = (struct off_cpu_interval){.rank = i % 1000 + 8,
			.start = {peer->now_ns + (int64_t)round},
			.end = {peer->now_ns + 1000000}};
	send_batch(peer, batch);
}

/* Each in a communicator of its own; those of the other ranks never come. */
static void send_steps(struct peer *peer, uint64_t round)
{
	enum { STEPS = 1000 };
	struct message_batch *batch = made_batch(1, 1, 0);

	batch->step_count = STEPS;
	batch->steps = calloc(STEPS, sizeof(*batch->steps));
	for (uint32_t i = 0; i < STEPS; i++) {
		struct step_entry *step = &batch->steps[i];

		step->rank = (uint32_t)((round * STEPS + i) % 1000 + 8);
		step->index = round;
		step->start.value = peer->now_ns + i;
		step->end.value = step->start.value + 1000;
		step->part_count = 1;
		step->parts = calloc(1, sizeof(*step->parts));
		step->parts[0] = (struct collective_part){.communicator_id = round * STEPS + i + 1,
			.sequence = round,
			.arrival = step->start,
			.departure = step->end};
	}
	send_batch(peer, batch);
}

static void send_communicators(struct peer *peer, uint64_t round)
{
	struct message_batch *batch = made_batch(1, 1, 0);

	batch->communicator_count = WIRE_COMMUNICATORS_PER_BATCH_MAX;
	batch->communicators = calloc(batch->communicator_count, sizeof(*batch->communicators));
	for (uint32_t i = 0; i < batch->communicator_count; i++)
		batch->communicators[i] = (struct message_communicator){
			.rank = (uint32_t)(round * 4096 + i) % 1000 + 8,
			.communicator = {
				.id = round * batch->communicator_count + i + 1, .size = 2}};
	send_batch(peer, batch);
}

static void send_queue_pairs(struct peer *peer, uint64_t round)
{
	struct message_batch *batch = made_batch(1, 1, 0);

	batch->queue_pair_count = 20000;
	batch->queue_pairs = calloc(batch->queue_pair_count, sizeof(*batch->queue_pairs));
	for (uint32_t i = 0; i < batch->queue_pair_count; i++)
		batch->queue_pairs[i] = (struct message_queue_pair){
			.rank = i % 1000 + 8, .number = (uint32_t)(round * 20000 + i)};
	send_batch(peer, batch);
}

static void be_many_probes(struct peer *peer, uint64_t round)
{
	send_batch(peer, made_batch(round + 100, round + 100, 0));
}

/* All of it, one after the other, of one peer. */
static void (*const attacks[])(struct peer *peer, uint64_t round) = {announce_ranks, send_samples,
	send_intervals, send_steps, send_communicators, send_queue_pairs, be_many_probes};

static void a_peer_with_the_key(void **state)
{
	struct peer peer = {.now_ns = INT64_C(1000000000)};
	struct message_batch *honest = made_batch(7, 7, 0);
	struct rusage usage;

	(void)state;
	assert_int_equal(pipeline_create(&(struct pipeline_options){NULL}, &peer.pipeline), 0);
	pipeline_serve_one_job(peer.pipeline, "");
	made_batch_announce(honest, HONEST_RANKS, 0);
	send_batch(&peer, honest);
	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		peer.sent_bytes = 0;
		for (uint64_t round = 0; peer.sent_bytes < SENT_BYTES && round < ROUNDS; round++)
			attacks[i](&peer, round);
		assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
		print_message(
			"%zu MB more: %ld MiB\n", peer.sent_bytes >> 20, usage.ru_maxrss >> 10);
	}
#if !defined(SLOWRANK_FEWER_SEEDS) /* a sanitizer takes as much again */
	assert_true(usage.ru_maxrss < MEMORY_KIB_MAX);
#endif
	pipeline_destroy(peer.pipeline);
	wire_buffer_fini(&peer.buffer);
}

/* Nobody asks how large the world of a record or of a trace is. */
static void a_record_has_any_ranks(void **state)
{
	struct peer peer = {.now_ns = INT64_C(1000000000)};

	(void)state;
	assert_int_equal(pipeline_create(&(struct pipeline_options){NULL}, &peer.pipeline), 0);
	for (uint64_t round = 0; round < 8; round++)
		announce_ranks(&peer, round);
	assert_int_equal(peer.accepted, 8);
	pipeline_destroy(peer.pipeline);
	wire_buffer_fini(&peer.buffer);
}

static struct peer_address address_of(uint32_t number)
{
	struct peer_address address = {.bytes = {[10] = 0xff, [11] = 0xff}};

	memcpy(address.bytes + 12, &number, sizeof(number));
	return address;
}

/* Connections that brought nothing that was believed make room for the next; others' stay. */
static void an_address_has_so_many_connections(void **state)
{
	const struct peer_address stranger = address_of(1), other = address_of(2), own = {0};
	const struct job_ns start = {INT64_C(1000000000)};
	const struct job_ns later = {start.value + INT64_C(1000001) * PEERS_STRANGER_MS};
	uint32_t ids[PEERS_PER_ADDRESS_MAX];
	struct peer_standing standing;
	struct peers *peers;
	uint32_t id = 1;

	(void)state;
	assert_int_equal(peers_create(&peers), 0);
	for (; id <= PEERS_STRANGERS_MAX; id++)
		assert_int_equal(
			peers_add(peers, id, &stranger, (struct job_ns){start.value + id}), 0);
	assert_true(peers_heard(peers, 1, 100, start, &standing)); /* anybody can say something */
	for (uint32_t oldest = 1; oldest < 100; oldest++, id++)
		assert_int_equal(peers_add(peers, id, &stranger, (struct job_ns){later.value + id}),
			oldest <= PEERS_STRANGERS_MAX ? oldest : 0);
	/* Those that came within a second go when it is over. */
	assert_int_equal(peers_count(peers), 99);
	assert_int_equal(peers_idle(peers, INT64_MAX, later, ids, PEERS_PER_ADDRESS_MAX), 0);
	assert_int_equal(peers_idle(peers, INT64_MAX, (struct job_ns){2 * later.value}, ids,
				 PEERS_PER_ADDRESS_MAX),
		99);
	for (uint32_t i = 0; i < 99; i++)
		peers_remove(peers, ids[i]);
	assert_int_equal(peers_count(peers), 0);
	for (uint32_t i = 0; i < PEERS_PER_ADDRESS_MAX; i++) {
		assert_int_equal(peers_add(peers, ++id, &other, start), 0);
		peers_believe(peers, id, true);
	}
	id++;
	assert_int_equal(peers_add(peers, id, &other, start), id);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(peers_add(peers, ++id, &own, start), 0);
	while (id)
		peers_remove(peers, id--);
	assert_int_equal(peers_count(peers), 0);
	peers_destroy(peers);
}

/* By the second, over all of its connections; networks of IPv6 are one. */
static void an_address_sends_so_much(void **state)
{
	struct peer_address one = {.bytes = {0x20, 1, 2, 3, 4, 5, 6, 7, 8, 1}};
	struct peer_address same = {.bytes = {0x20, 1, 2, 3, 4, 5, 6, 7, 8, 2}};
	const struct peer_address other = address_of(2);
	struct job_ns now = {INT64_C(1000000000)};
	struct peer_standing standing;
	uint64_t taken = 0;
	struct peers *peers;

	(void)state;
	assert_int_equal(peers_create(&peers), 0);
	assert_int_equal(peers_add(peers, 1, &one, now), 0);
	assert_int_equal(peers_add(peers, 2, &same, now), 0);
	assert_int_equal(peers_add(peers, 3, &other, now), 0);
	peers_believe(peers, 2, true);
	peers_believe(peers, 3, true);
	for (unsigned second = 0; second < 3600; second++, now.value += INT64_C(1000000000)) {
		for (uint32_t i = 0; i < 8; i++) {
			if (peers_heard(peers, 1 + i % 2, 1 << 20, now, &standing))
				taken += 1 << 20;
		}
		assert_true(peers_heard(peers, 3, 100 << 10, now, &standing)); /* in nobody's way */
	}
	assert_in_range(taken, UINT64_C(3500) * PEERS_BYTES_PER_SECOND,
		PEERS_BURST_BYTES + UINT64_C(3600) * PEERS_BYTES_PER_SECOND);
	peers_destroy(peers);
}

/* With the key or without, as long as it tells of no rank of the job's; its first messages may be of any length. */
static void an_address_without_ranks_sends_less(void **state)
{
	const struct peer_address outside = address_of(1);
	struct job_ns now = {INT64_C(1000000000)};
	struct peer_standing standing;
	uint64_t taken = 0;
	struct peers *peers;

	(void)state;
	assert_int_equal(peers_create(&peers), 0);
	assert_int_equal(peers_add(peers, 1, &outside, now), 0);
	assert_true(peers_heard(peers, 1, WIRE_MESSAGE_LENGTH_MAX, now, &standing));
	peers_believe(peers, 1, false);
	for (unsigned second = 0; second < 3600; second++, now.value += INT64_C(1000000000)) {
		for (uint32_t i = 0; i < 8; i++)
			taken += peers_heard(peers, 1, 200 << 10, now, &standing) ? 200 << 10 : 0;
	}
	assert_in_range(taken, UINT64_C(3500) * PEERS_OUTSIDE_BYTES_PER_SECOND, 256 << 20);
	assert_false(peers_heard(peers, 1, PEERS_OUTSIDE_BURST_BYTES, now, &standing));
	assert_false(standing.first);
	peers_believe(peers, 1, true);
	assert_true(peers_heard(peers, 1, PEERS_OUTSIDE_BURST_BYTES, now, &standing));
	assert_true(standing.first);
	peers_destroy(peers);
}

/* As it is sent: ranks of a world of so many, started so many times before. Returns whether the probe is the job's now. */
static bool announce(
	struct peer *peer, uint64_t probe_id, uint32_t rank, uint32_t world, uint32_t restarts)
{
	struct message_batch *batch = made_batch(probe_id, probe_id, 0);

	made_batch_announce(batch, 1, 0);
	batch->ranks[0].rank = rank;
	batch->ranks[0].world_size = world;
	batch->ranks[0].restarts = restarts;
	send_batch(peer, batch);
	return pipeline_probe_is_of_world(peer->pipeline, probe_id);
}

static void who_tells_of_a_rank_of_the_world(void **state)
{
	struct peer peer = {.now_ns = INT64_C(1000000000)};

	(void)state;
	assert_int_equal(pipeline_create(&(struct pipeline_options){NULL}, &peer.pipeline), 0);
	pipeline_serve_one_job(peer.pipeline, "");
	assert_true(announce(&peer, 7, 0, 4, 0));
	assert_true(announce(&peer, 8, 1, 4, 0));
	assert_false(announce(&peer, 9, 4, 1000, 0)); /* it does not make the world larger */
	assert_false(announce(&peer, 9, 5, 1000, 0));
	assert_false(announce(&peer, 10, 1, 4, 0)); /* another's */
	/* It says that a rank was started again, whose probe goes on all the same. */
	for (int i = 0; i < 200; i++) {
		assert_false(announce(&peer, 11, 1, 4, 1));
		(void)announce(&peer, 8, 1, 4, 0);
		assert_true(announce(&peer, 7, 0, 4, 0));
	}
	/* One that was: its probe of before is silent. */
	for (int i = 0; i < 200; i++)
		(void)announce(&peer, 7, 0, 4, 0);
	assert_true(announce(&peer, 11, 1, 4, 1));
	/* An elastic job grows. */
	assert_true(announce(&peer, 7, 0, 6, 1));
	assert_true(announce(&peer, 9, 5, 6, 0));
	pipeline_destroy(peer.pipeline);
	wire_buffer_fini(&peer.buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_peer_with_the_key),
		cmocka_unit_test(a_record_has_any_ranks),
		cmocka_unit_test(an_address_has_so_many_connections),
		cmocka_unit_test(an_address_sends_so_much),
		cmocka_unit_test(an_address_without_ranks_sends_less),
		cmocka_unit_test(who_tells_of_a_rank_of_the_world)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
