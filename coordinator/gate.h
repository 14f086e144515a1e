/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may speak to the coordinator: tells batches of probes that have the job's key from those of
 * strangers, and from batches that were sent before. No I/O; the nonce comes in. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_GATE_H
#define SLOWRANK_COORDINATOR_GATE_H

#include "probe/auth/credential.h"
#include "probe/auth/seal.h"

struct gate;

enum gate_result {
	GATE_BATCH,  /* hand the batch on, and answer through gate_close_reply() */
	GATE_ANSWER, /* nothing to hand on: send the sealed answer */
	GATE_REFUSED,
};

enum gate_refusal {
	GATE_UNPROVEN = 0,  /* a batch as it is, where a proof is asked for */
	GATE_OTHER_KEY = 1, /* proven with another key, or changed on its way */
	GATE_REPLAYED = 2,  /* an older one than the probe's latest, or another with its number */
	GATE_KEYLESS = 3,   /* proven, but there is no key here to check it with */
	GATE_MALFORMED = 4, /* the head cannot be read, or the batch is another probe's */
	GATE_REFUSAL_NR
};

struct gate_request {
	const void *batch; /* within the message; GATE_BATCH only */
	size_t length;
	bool sealed;			 /* so is the reply, then */
	struct seal_head head;		 /* of a sealed one */
	enum gate_refusal why;		 /* GATE_REFUSED only */
	uint8_t answer[SEAL_HEAD_BYTES]; /* GATE_ANSWER only, and what follows it: */
	const char *credential;		 /* of the gate's, until the next request; "" = nothing */
};

/* key NULL: nobody proves anything. The nonce is this coordinator's alone. Returns 0 or -ENOMEM. */
int gate_create(const uint8_t *key, const uint8_t nonce[SEAL_NONCE_BYTES], struct gate **gate)
	__attribute__((warn_unused_result));
void gate_destroy(struct gate *gate); /* NULL is fine */

/*
 * A key that is this coordinator's alone counts, too; it is given to whoever asks, in a credential that make()
 * makes, for this user to read. Where make() fails once, it is not called again, but for -EAGAIN: too many ask.
 * Returns 0 or -ENOMEM.
 */
int gate_share(struct gate *gate, const uint8_t session_key[SEAL_KEY_BYTES],
	int (*make)(
		void *context, const struct seal_grant *grant, char text[CREDENTIAL_LENGTH_MAX]),
	void *context) __attribute__((warn_unused_result));

/*
 * Takes a message; one without a proof counts only where open is true. Returns an enum gate_result,
 * -ENOMEM, or -EAGAIN: to be asked again later.
 */
int gate_take(struct gate *gate, bool open, const void *message, size_t length,
	struct gate_request *request) __attribute__((warn_unused_result));

/* The head of the reply to a sealed batch. Returns 0 or -ENOMEM. */
int gate_close_reply(struct gate *gate, const struct gate_request *request, const void *reply,
	size_t length, uint8_t out[SEAL_HEAD_BYTES]) __attribute__((warn_unused_result));

/* What a refused probe is told to do, and what the coordinator's user is: one line each. */
const char *gate_refusal_text(enum gate_refusal why);

#endif
