/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/probe_map.h"
#include "probe/wire/decode.h"

/* The latest batch of a probe that has the key. */
struct gate_probe {
	struct probe_key key;
	bool seen; /* a batch of it */
	uint64_t number;
	uint8_t proof[SEAL_PROOF_BYTES];
};

struct gate {
	struct seal *seals[2]; /* by enum seal_key; NULL: no such key */
	uint8_t session_key[SEAL_KEY_BYTES];
	int (*make)(
		void *context, const struct seal_grant *grant, char text[CREDENTIAL_LENGTH_MAX]);
	void *context;
	char credential[CREDENTIAL_LENGTH_MAX];
	uint8_t nonce[SEAL_NONCE_BYTES];
	struct probe_map probes; /* of struct gate_probe */
};

int gate_create(const uint8_t *key, const uint8_t nonce[SEAL_NONCE_BYTES], struct gate **gate)
{
	struct gate *made = calloc(1, sizeof(*made));

	if (!made || (key && seal_create(key, &made->seals[SEAL_KEY_FILE]))) {
		free(made);
		return -ENOMEM;
	}
	made->probes.item_bytes = sizeof(struct gate_probe);
	memcpy(made->nonce, nonce, SEAL_NONCE_BYTES);
	*gate = made;
	return 0;
}

void gate_destroy(struct gate *gate)
{
	if (!gate)
		return;
	seal_destroy(gate->seals[SEAL_KEY_FILE]);
	seal_destroy(gate->seals[SEAL_KEY_SESSION]);
	explicit_bzero(gate->session_key, sizeof(gate->session_key));
	probe_map_fini(&gate->probes);
	free(gate);
}

int gate_share(struct gate *gate, const uint8_t session_key[SEAL_KEY_BYTES],
	int (*make)(
		void *context, const struct seal_grant *grant, char text[CREDENTIAL_LENGTH_MAX]),
	void *context)
{
	int error = seal_create(session_key, &gate->seals[SEAL_KEY_SESSION]);

	if (error)
		return error;
	memcpy(gate->session_key, session_key, SEAL_KEY_BYTES);
	gate->make = make;
	gate->context = context;
	return 0;
}

/* The same batch again is fine: its answer may have been lost. Older ones are refused. */
static int take_number(struct gate *gate, const struct seal_head *head)
{
	struct gate_probe *probe;
	void *item;
	int error;

	error = probe_map_get(&gate->probes, head->probe_id, &item);
	if (error < 0)
		return error;
	probe = item;
	if (probe->seen && head->number <= probe->number)
		return head->number == probe->number &&
				       memcmp(head->proof, probe->proof, SEAL_PROOF_BYTES) == 0
			       ? 0
			       : -EALREADY;
	probe->seen = true;
	probe->number = head->number;
	memcpy(probe->proof, head->proof, SEAL_PROOF_BYTES);
	return 0;
}

static int refuse(struct gate_request *request, enum gate_refusal why)
{
	request->why = why;
	return GATE_REFUSED;
}

/* A hello is told the nonce, and so is, with the next hello, who has that of a coordinator before. */
static int answer(struct gate *gate, struct gate_request *request, enum seal_kind kind)
{
	struct seal_head head = {.kind = (uint8_t)kind,
		.key = request->head.key,
		.probe_id = request->head.probe_id,
		.number = request->head.number};
	int error;

	memcpy(head.nonce, gate->nonce, SEAL_NONCE_BYTES);
	error = seal_write(
		gate->seals[head.key], &head, request->head.proof, NULL, 0, request->answer);
	return error < 0 ? error : GATE_ANSWER;
}

/* Whoever asks: what is given can be read by this user only. */
static int grant(struct gate *gate, struct gate_request *request)
{
	struct seal_head head = {.kind = SEAL_DENY, .probe_id = request->head.probe_id};
	struct seal_grant given;
	int error;

	if (gate->make) {
		memcpy(given.magic, SEAL_GRANT_MAGIC, sizeof(given.magic));
		memcpy(given.challenge, request->head.nonce, SEAL_NONCE_BYTES);
		memcpy(given.key, gate->session_key, SEAL_KEY_BYTES);
		error = gate->make(gate->context, &given, gate->credential);
		explicit_bzero(&given, sizeof(given));
		if (error == -EAGAIN)
			return error;
		if (error == 0) {
			head.kind = SEAL_GRANT;
			request->credential = gate->credential;
		} else {
			gate->make =
				NULL; /* a munged that does not answer is not waited for again */
		}
	}
	memcpy(head.nonce, request->head.nonce, SEAL_NONCE_BYTES);
	seal_write_open(&head, request->answer);
	return GATE_ANSWER;
}

static int take_sealed(
	struct gate *gate, const void *message, size_t length, struct gate_request *request)
{
	const struct seal_head *head = &request->head;
	uint64_t probe_id;
	int error;

	request->sealed = true;
	if (!gate->seals[SEAL_KEY_FILE] && !gate->seals[SEAL_KEY_SESSION])
		return refuse(request, GATE_KEYLESS);
	if (seal_read(message, length, &request->head) ||
		(head->kind != SEAL_HELLO && head->kind != SEAL_BATCH && head->kind != SEAL_ASK))
		return refuse(request, GATE_MALFORMED);
	if (head->kind == SEAL_ASK)
		return grant(gate, request);
	if (!gate->seals[head->key] ||
		!seal_proven(gate->seals[head->key], head, NULL, message, length))
		return refuse(request, GATE_OTHER_KEY);
	if (head->kind == SEAL_HELLO)
		return answer(gate, request, SEAL_WELCOME);
	if (memcmp(head->nonce, gate->nonce, SEAL_NONCE_BYTES) != 0)
		return answer(gate, request, SEAL_RENEW);
	request->batch = (const uint8_t *)message + SEAL_HEAD_BYTES;
	request->length = length - SEAL_HEAD_BYTES;
	/* One that cannot be read is refused behind the gate, with what is wrong with it. */
	if (wire_sender_id(request->batch, request->length, &probe_id) == 0 &&
		probe_id != head->probe_id)
		return refuse(request, GATE_MALFORMED);
	error = take_number(gate, head);
	if (error == -EALREADY)
		return refuse(request, GATE_REPLAYED);
	return error < 0 ? error : GATE_BATCH;
}

int gate_take(struct gate *gate, bool open, const void *message, size_t length,
	struct gate_request *request)
{
	*request = (struct gate_request){.credential = ""};
	if (seal_is_sealed(message, length))
		return take_sealed(gate, message, length, request);
	if (!open)
		return refuse(request, GATE_UNPROVEN);
	request->batch = message;
	request->length = length;
	return GATE_BATCH;
}

int gate_close_reply(struct gate *gate, const struct gate_request *request, const void *reply,
	size_t length, uint8_t out[SEAL_HEAD_BYTES])
{
	struct seal_head head = {.kind = SEAL_REPLY,
		.key = request->head.key,
		.probe_id = request->head.probe_id,
		.number = request->head.number};

	memcpy(head.nonce, gate->nonce, SEAL_NONCE_BYTES);
	return seal_write(gate->seals[head.key], &head, request->head.proof, reply, length, out);
}

const char *gate_refusal_text(enum gate_refusal why)
{
	static const char *const texts[GATE_REFUSAL_NR] = {
		[GATE_UNPROVEN] = "it does not prove the job's key: give it the coordinator's key "
				  "file (--key-file or SLOWRANK_KEY_FILE) and name the "
				  "coordinator by its host, not by 127.0.0.1",
		[GATE_OTHER_KEY] = "it has another key: copy the coordinator's key file there",
		[GATE_REPLAYED] = "what it sends was sent before",
		[GATE_KEYLESS] = "it proves a key and the coordinator runs with --insecure: give "
				 "both --insecure, or neither",
		[GATE_MALFORMED] = "its proof is not one of this version: install the same version "
				   "of slowrank on all nodes",
	};

	return why < GATE_REFUSAL_NR ? texts[why] : "";
}
