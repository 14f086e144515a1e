/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers that have the job's key and send as much as they can, whatever is answered: samples, intervals and steps of ranks that
 * the job has not, such ranks, probes without end, and bytes that are no batch.
 *
 * usage: hostile URL KEY_FILE JOB PEERS SECONDS    prints how many messages and bytes were sent, and how many answered
 */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "probe/auth/key_file.h"
#include "probe/auth/seal.h"
#include "probe/wire/encode.h"

enum {
	PEERS_MAX = 64,
	ITEMS = 3000,
	GARBAGE_BYTES = 7 << 20,
	SEND_MS = 2000,
	ANSWER_MS = 20,
	FIRST_RANK = 100,
	RANKS_EACH = 14, /* of all peers less than a small job may have */
	ATTACKS = 4,
	PROBE_EACH = 256,    /* messages: is a new one */
	GARBAGE_EACH = 4096, /* messages: they take long */
};

struct peer {
	const char *url, *job;
	uint32_t index;
	int64_t end_ns;
	struct seal *seal;
	uint8_t nonce[SEAL_NONCE_BYTES];
	nng_socket socket;
	uint64_t random;
};

static atomic_uint_fast64_t messages, bytes_sent, answers;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* xorshift64 */
static uint64_t next_random(struct peer *peer)
{
	peer->random ^= peer->random << 13;
	peer->random ^= peer->random >> 7;
	peer->random ^= peer->random << 17;
	return peer->random;
}

static void *allocate(size_t count, size_t size)
{
	void *made = calloc(count, size);

	if (!made)
		abort();
	return made;
}

/* Its own: of another peer's it would be refused. */
static uint32_t some_rank(struct peer *peer)
{
	return FIRST_RANK + RANKS_EACH * peer->index + (uint32_t)(next_random(peer) % RANKS_EACH);
}

static void add_samples(struct peer *peer, struct message_batch *batch)
{
	batch->samples = allocate(ITEMS, sizeof(*batch->samples));
	for (; batch->sample_count < ITEMS; batch->sample_count++)
		batch->samples[batch->sample_count] =
			(struct metric_sample){.rank = some_rank(peer),
				.metric = (uint16_t)(next_random(peer) % METRIC_NR),
				.time = {now_ns()},
				.value = (int64_t)(next_random(peer) >> 1)};
}

static void add_intervals(struct peer *peer, struct message_batch *batch)
{
	batch->intervals = allocate(ITEMS, sizeof(*batch->intervals));
	for (; batch->interval_count < ITEMS; batch->interval_count++) {
		int64_t start = now_ns() - (int64_t)(next_random(peer) >> 32);

		batch->intervals[batch->interval_count] = (struct off_cpu_interval){
			.rank = some_rank(peer), .start = {start}, .end = {start + 1000000}};
	}
}

static void add_steps(struct peer *peer, struct message_batch *batch)
{
	batch->steps = allocate(ITEMS, sizeof(*batch->steps));
	for (; batch->step_count < ITEMS; batch->step_count++) {
		struct step_entry *step = &batch->steps[batch->step_count];

		step->rank = some_rank(peer);
		step->start.value = now_ns() - (int64_t)(next_random(peer) >> 34);
		step->end.value = step->start.value + 1000;
		step->part_count = 1;
		step->parts = allocate(1, sizeof(*step->parts));
		step->parts[0] = (struct collective_part){.communicator_id = next_random(peer),
			.arrival = step->start,
			.departure = step->end};
	}
}

/* Of a world that would be large. */
static void add_ranks(struct peer *peer, struct message_batch *batch)
{
	batch->ranks = allocate(ITEMS, sizeof(*batch->ranks));
	for (; batch->rank_count < ITEMS; batch->rank_count++) {
		struct message_rank *rank = &batch->ranks[batch->rank_count];

		rank->rank = some_rank(peer);
		rank->world_size = STEP_RANK_COUNT_MAX;
		snprintf(rank->host, sizeof(rank->host), "%016llx",
			(unsigned long long)next_random(peer));
	}
}

static void release(struct message_batch *batch)
{
	for (size_t i = 0; i < batch->step_count; i++)
		free(batch->steps[i].parts);
	free(batch->steps);
	free(batch->samples);
	free(batch->intervals);
	free(batch->ranks);
	free(batch);
}

/* Sends; returns whether an answer came at once, which is freed unless it is wanted. */
static bool exchange(struct peer *peer, nng_msg *message, nng_msg **wanted)
{
	nng_msg *answer;
	size_t length = nng_msg_len(message);

	if (nng_sendmsg(peer->socket, message, 0)) {
		nng_msg_free(message);
		return false;
	}
	atomic_fetch_add(&messages, 1);
	atomic_fetch_add(&bytes_sent, length);
	if (nng_recvmsg(peer->socket, &answer, 0))
		return false;
	atomic_fetch_add(&answers, 1);
	if (wanted)
		*wanted = answer;
	else
		nng_msg_free(answer);
	return true;
}

static nng_msg *sealed(struct peer *peer, struct seal_head *head, const void *bytes, size_t length)
{
	uint8_t out[SEAL_HEAD_BYTES];
	nng_msg *message;

	if (seal_write(peer->seal, head, NULL, bytes, length, out) || nng_msg_alloc(&message, 0) ||
		nng_msg_append(message, out, sizeof(out)) ||
		(length && nng_msg_append(message, bytes, length)))
		abort();
	return message;
}

static bool learn_nonce(struct peer *peer)
{
	struct seal_head head = {.kind = SEAL_HELLO, .probe_id = next_random(peer)}, answered;
	nng_msg *answer;
	bool known;

	if (!exchange(peer, sealed(peer, &head, NULL, 0), &answer))
		return false;
	known = seal_read(nng_msg_body(answer), nng_msg_len(answer), &answered) == 0 &&
		answered.kind == SEAL_WELCOME;
	memcpy(peer->nonce, answered.nonce, SEAL_NONCE_BYTES);
	nng_msg_free(answer);
	return known;
}

static void send_batch(struct peer *peer, uint64_t probe_id, uint64_t number)
{
	struct message_batch *batch = allocate(1, sizeof(*batch));
	struct seal_head head = {.kind = SEAL_BATCH, .probe_id = probe_id, .number = number};
	struct wire_buffer buffer = {0};

	batch->probe_id = batch->host_id = probe_id;
	batch->number = number;
	snprintf(batch->job_id, sizeof(batch->job_id), "%s", peer->job);
	batch->sent.value = now_ns();
	switch (next_random(peer) % GARBAGE_EACH ? next_random(peer) % ATTACKS : ATTACKS) {
	case 0:
		add_samples(peer, batch);
		break;
	case 1:
		add_intervals(peer, batch);
		break;
	case 2:
		add_steps(peer, batch);
		break;
	case 3:
		add_ranks(peer, batch);
		break;
	default: /* no batch at all */
		buffer.bytes = allocate(1, GARBAGE_BYTES);
		buffer.length = GARBAGE_BYTES;
		break;
	}
	memcpy(head.nonce, peer->nonce, SEAL_NONCE_BYTES);
	if (!buffer.length && wire_encode_batch(batch, &buffer))
		abort();
	(void)exchange(peer, sealed(peer, &head, buffer.bytes, buffer.length), NULL);
	wire_buffer_fini(&buffer);
	release(batch);
}

static void *be_hostile(void *context)
{
	struct peer *peer = context;
	uint64_t probe_id = next_random(peer);
	bool known = false;

	if (nng_req0_open(&peer->socket) ||
		nng_socket_set_ms(peer->socket, NNG_OPT_SENDTIMEO, SEND_MS) ||
		nng_socket_set_ms(peer->socket, NNG_OPT_RECVTIMEO, ANSWER_MS) ||
		nng_dial(peer->socket, peer->url, NULL, NNG_FLAG_NONBLOCK))
		return NULL;
	for (uint64_t number = 0; now_ns() < peer->end_ns; number++) {
		if (!known)
			known = learn_nonce(peer);
		else
			send_batch(
				peer, number % PROBE_EACH ? probe_id : next_random(peer), number);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct peer peers[PEERS_MAX];
	pthread_t threads[PEERS_MAX];
	int count = argc == 6 ? atoi(argv[4]) : 0;
	char why[KEY_FILE_WHY_LENGTH] = "";
	struct key_file key;

	if (count < 1 || count > PEERS_MAX || key_file_load(argv[2], &key, why)) {
		fprintf(stderr, "usage: hostile URL KEY_FILE JOB PEERS SECONDS %s\n", why);
		return 2;
	}
	for (int i = 0; i < count; i++) {
		peers[i] = (struct peer){.url = argv[1],
			.job = argv[3],
			.index = (uint32_t)i,
			.end_ns = now_ns() + atoi(argv[5]) * INT64_C(1000000000)};
		if (getrandom(&peers[i].random, sizeof(peers[i].random), 0) < 0 ||
			seal_create(key.key, &peers[i].seal) ||
			pthread_create(&threads[i], NULL, be_hostile, &peers[i]))
			return 1;
	}
	/* Not waited for: nng may keep a thread whose connection was closed under it. */
	sleep((unsigned)atoi(argv[5]));
	printf("%llu messages, %llu MB, %llu answers\n", (unsigned long long)messages,
		(unsigned long long)bytes_sent / 1000000, (unsigned long long)answers);
	fflush(stdout);
	_exit(0);
}
