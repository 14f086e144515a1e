/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets past the gate: probes with the key, once each batch; nobody else. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/gate.h"
#include "probe/wire/encode.h"

static const uint8_t key[SEAL_KEY_BYTES] = {7}, other_key[SEAL_KEY_BYTES] = {8};
static const uint8_t nonce[SEAL_NONCE_BYTES] = {1}, older_nonce[SEAL_NONCE_BYTES] = {2};

/* What a probe would send, with one key and one nonce. */
struct sender {
	struct seal *seal;
	uint8_t key;	       /* enum seal_key */
	struct seal_head head; /* of its latest message */
	uint8_t message[4096];
	size_t length;
};

static struct sender sender_of(const uint8_t *sender_key)
{
	struct sender sender = {0};

	assert_int_equal(seal_create(sender_key, &sender.seal), 0);
	return sender;
}

static struct gate *gate_of(const uint8_t *gate_key)
{
	struct gate *gate = NULL;

	assert_int_equal(gate_create(gate_key, nonce, &gate), 0);
	return gate;
}

static void make(struct sender *sender, enum seal_kind kind, const uint8_t *its_nonce,
	uint64_t number, uint64_t envelope_probe, uint64_t batch_probe)
{
	struct message_batch batch = {.probe_id = batch_probe, .number = number};
	struct wire_buffer encoded = {0};
	size_t length = 0;

	if (kind == SEAL_BATCH) {
		assert_int_equal(wire_encode_batch(&batch, &encoded), 0);
		length = encoded.length;
		memcpy(sender->message + SEAL_HEAD_BYTES, encoded.bytes, length);
		wire_buffer_fini(&encoded);
	}
	sender->head = (struct seal_head){.kind = (uint8_t)kind,
		.key = sender->key,
		.probe_id = envelope_probe,
		.number = number};
	memcpy(sender->head.nonce, its_nonce, SEAL_NONCE_BYTES);
	assert_int_equal(seal_write(sender->seal, &sender->head, NULL,
				 sender->message + SEAL_HEAD_BYTES, length, sender->message),
		0);
	sender->length = SEAL_HEAD_BYTES + length;
}

static int take(struct gate *gate, const struct sender *sender, struct gate_request *request)
{
	return gate_take(gate, false, sender->message, sender->length, request);
}

static void check_refused(struct gate *gate, const struct sender *sender, enum gate_refusal why)
{
	struct gate_request request;

	assert_int_equal(take(gate, sender, &request), GATE_REFUSED);
	assert_int_equal(request.why, why);
	assert_true(strlen(gate_refusal_text(why)) > 15);
}

/* The answer is one to the sender's message, by somebody with its key. */
static struct seal_head check_answer(const struct sender *sender, const uint8_t *answer)
{
	struct seal_head head;

	assert_int_equal(seal_read(answer, SEAL_HEAD_BYTES, &head), 0);
	assert_true(seal_proven(sender->seal, &head, sender->head.proof, answer, SEAL_HEAD_BYTES));
	assert_memory_equal(head.nonce, nonce, sizeof(nonce));
	return head;
}

static void test_hello_and_batches(void **state)
{
	struct sender sender = sender_of(key);
	struct gate *gate = gate_of(key);
	struct gate_request request;
	uint8_t reply[SEAL_HEAD_BYTES + 5];
	struct seal_head head;

	(void)state;
	make(&sender, SEAL_HELLO, (const uint8_t[SEAL_NONCE_BYTES]){99}, 0, 5, 5);
	assert_int_equal(take(gate, &sender, &request), GATE_ANSWER);
	assert_int_equal(check_answer(&sender, request.answer).kind, SEAL_WELCOME);
	for (uint64_t number = 1; number < 400; number += number % 3 + 1) {
		make(&sender, SEAL_BATCH, nonce, number, 5, 5);
		assert_int_equal(take(gate, &sender, &request), GATE_BATCH);
		assert_ptr_equal(request.batch, sender.message + SEAL_HEAD_BYTES);
		assert_int_equal(request.length, sender.length - SEAL_HEAD_BYTES);
		/* Its answer got lost: the same bytes come again. */
		assert_int_equal(take(gate, &sender, &request), GATE_BATCH);
		memcpy(reply + SEAL_HEAD_BYTES, "reply", 5);
		assert_int_equal(gate_close_reply(gate, &request, "reply", 5, reply), 0);
		assert_int_equal(seal_read(reply, sizeof(reply), &head), 0);
		assert_int_equal(head.kind, SEAL_REPLY);
		assert_true(
			seal_proven(sender.seal, &head, sender.head.proof, reply, sizeof(reply)));
	}
	gate_destroy(gate);
	seal_destroy(sender.seal);
}

static void test_replay(void **state)
{
	struct sender sender = sender_of(key), captured;
	struct gate *gate = gate_of(key);
	struct gate_request request;

	(void)state;
	make(&sender, SEAL_BATCH, nonce, 1, 5, 5);
	captured = sender;
	assert_int_equal(take(gate, &sender, &request), GATE_BATCH);
	make(&sender, SEAL_BATCH, nonce, 2, 5, 5);
	assert_int_equal(take(gate, &sender, &request), GATE_BATCH);
	check_refused(gate, &captured, GATE_REPLAYED);
	gate_destroy(gate);
	seal_destroy(sender.seal);
}

/* Of a coordinator before, or of another job of the same user: a new hello, nothing else. */
static void test_another_nonce(void **state)
{
	struct sender sender = sender_of(key);
	struct gate *gate = gate_of(key);
	struct gate_request request;

	(void)state;
	make(&sender, SEAL_BATCH, older_nonce, 1, 5, 5);
	assert_int_equal(take(gate, &sender, &request), GATE_ANSWER);
	assert_int_equal(check_answer(&sender, request.answer).kind, SEAL_RENEW);
	gate_destroy(gate);
	seal_destroy(sender.seal);
}

static void test_strangers(void **state)
{
	struct sender stranger = sender_of(other_key), probe = sender_of(key);
	struct gate *gate = gate_of(key);
	struct gate_request request;

	(void)state;
	make(&stranger, SEAL_HELLO, nonce, 0, 5, 5);
	check_refused(gate, &stranger, GATE_OTHER_KEY);
	make(&stranger, SEAL_BATCH, nonce, 1, 5, 5);
	check_refused(gate, &stranger, GATE_OTHER_KEY);
	make(&stranger, SEAL_BATCH, older_nonce, 1, 5, 5); /* no word on the nonce, either */
	check_refused(gate, &stranger, GATE_OTHER_KEY);
	make(&probe, SEAL_BATCH, nonce, 1, 5, 6); /* for another probe */
	check_refused(gate, &probe, GATE_MALFORMED);
	make(&probe, SEAL_REPLY, nonce, 1, 5, 5); /* answers are no requests */
	check_refused(gate, &probe, GATE_MALFORMED);
	probe.length = SEAL_HEAD_BYTES - 1;
	check_refused(gate, &probe, GATE_MALFORMED);
	make(&probe, SEAL_BATCH, nonce, 1, 5, 5);
	memmove(probe.message, probe.message + SEAL_HEAD_BYTES, probe.length - SEAL_HEAD_BYTES);
	probe.length -= SEAL_HEAD_BYTES;
	check_refused(gate, &probe, GATE_UNPROVEN);
	assert_int_equal(gate_take(gate, true, probe.message, probe.length, &request), GATE_BATCH);
	assert_false(request.sealed);
	gate_destroy(gate);
	gate = gate_of(NULL);
	make(&probe, SEAL_HELLO, nonce, 0, 5, 5);
	check_refused(gate, &probe, GATE_KEYLESS);
	gate_destroy(gate);
	seal_destroy(probe.seal);
	seal_destroy(stranger.seal);
}

static void test_many_probes(void **state)
{
	struct sender sender = sender_of(key);
	struct gate *gate = gate_of(key);
	struct gate_request request;

	(void)state;
	for (uint64_t number = 1; number <= 2; number++) {
		for (uint64_t probe = 0; probe < 5000; probe++) {
			make(&sender, SEAL_BATCH, nonce, number, probe << 40, probe << 40);
			assert_int_equal(take(gate, &sender, &request), GATE_BATCH);
		}
	}
	for (uint64_t probe = 0; probe < 5000; probe++) {
		make(&sender, SEAL_BATCH, nonce, 1, probe << 40, probe << 40);
		check_refused(gate, &sender, GATE_REPLAYED);
	}
	gate_destroy(gate);
	seal_destroy(sender.seal);
}

struct grants {
	struct seal_grant latest;
	unsigned count;
	int error;
};

static int keep_grant(
	void *context, const struct seal_grant *grant, char text[CREDENTIAL_LENGTH_MAX])
{
	struct grants *grants = context;

	grants->count++;
	grants->latest = *grant;
	strcpy(text, "credential");
	return grants->error;
}

static int ask(struct gate *gate, const uint8_t *challenge, struct gate_request *request)
{
	struct seal_head head = {.kind = SEAL_ASK, .probe_id = 5};
	uint8_t message[SEAL_HEAD_BYTES];

	memcpy(head.nonce, challenge, SEAL_NONCE_BYTES);
	seal_write_open(&head, message);
	assert_int_equal(gate_take(gate, false, message, sizeof(message), request), GATE_ANSWER);
	assert_int_equal(seal_read(request->answer, SEAL_HEAD_BYTES, &head), 0);
	return head.kind;
}

/* The key that is given is proven as the file's is, and each by its own holders. */
static void test_session_key(void **state)
{
	static const uint8_t session_key[SEAL_KEY_BYTES] = {7, 8},
			     challenge[SEAL_NONCE_BYTES] = {9};
	struct sender by_file = sender_of(key), by_session = sender_of(session_key);
	struct gate *gate = gate_of(key);
	struct gate_request request;
	struct grants grants = {0};

	(void)state;
	assert_int_equal(ask(gate, challenge, &request), SEAL_DENY);
	assert_int_equal(gate_share(gate, session_key, keep_grant, &grants), 0);
	assert_int_equal(ask(gate, challenge, &request), SEAL_GRANT);
	assert_string_equal(request.credential, "credential");
	assert_memory_equal(grants.latest.challenge, challenge, sizeof(challenge));
	assert_memory_equal(grants.latest.key, session_key, sizeof(session_key));
	by_session.key = SEAL_KEY_SESSION;
	make(&by_session, SEAL_HELLO, challenge, 0, 5, 5);
	assert_int_equal(take(gate, &by_session, &request), GATE_ANSWER);
	assert_int_equal(check_answer(&by_session, request.answer).kind, SEAL_WELCOME);
	make(&by_session, SEAL_BATCH, nonce, 1, 5, 5);
	assert_int_equal(take(gate, &by_session, &request), GATE_BATCH);
	make(&by_file, SEAL_BATCH, nonce, 1, 6, 6);
	assert_int_equal(take(gate, &by_file, &request), GATE_BATCH);
	by_file.key = SEAL_KEY_SESSION;
	make(&by_file, SEAL_BATCH, nonce, 2, 6, 6);
	check_refused(gate, &by_file, GATE_OTHER_KEY);
	by_session.key = SEAL_KEY_FILE;
	make(&by_session, SEAL_BATCH, nonce, 2, 5, 5);
	check_refused(gate, &by_session, GATE_OTHER_KEY);
	grants.error = -EAGAIN; /* too many ask: this one again, later */
	make(&by_session, SEAL_ASK, challenge, 0, 5, 5);
	assert_int_equal(take(gate, &by_session, &request), -EAGAIN);
	grants.error = -EIO; /* munged is gone, or stands still: nobody waits for it twice */
	assert_int_equal(ask(gate, challenge, &request), SEAL_DENY);
	assert_int_equal(ask(gate, challenge, &request), SEAL_DENY);
	assert_int_equal(grants.count, 3);
	assert_string_equal(request.credential, "");
	gate_destroy(gate);
	seal_destroy(by_file.seal);
	seal_destroy(by_session.seal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello_and_batches),
		cmocka_unit_test(test_replay),
		cmocka_unit_test(test_another_nonce),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_many_probes),
		cmocka_unit_test(test_session_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
