/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof that a message comes from somebody who has the job's key: a fixed head before the
 * message's bytes, with HMAC-SHA256 over both (docs/wire.md, Proof). Pure: keys, nonces and bytes
 * come in as arguments. A struct seal is for one thread at a time.
 */
#ifndef SLOWRANK_PROBE_AUTH_SEAL_H
#define SLOWRANK_PROBE_AUTH_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SEAL_KEY_BYTES = 32,
	SEAL_NONCE_BYTES = 16,
	SEAL_PROOF_BYTES = 32,
	SEAL_HEAD_BYTES = 72,
};

/* Numbered as on the wire. The kind is under the proof: no message can be taken for another kind. */
enum seal_kind {
	SEAL_HELLO = 1,	  /* probe: the nonce is its fresh challenge; no bytes follow */
	SEAL_WELCOME = 2, /* coordinator, to a hello: its nonce */
	SEAL_BATCH = 3,	  /* probe: a batch follows */
	SEAL_REPLY = 4,	  /* coordinator, to a batch: a reply follows */
	SEAL_RENEW = 5,	  /* coordinator, to a batch with another nonce: say hello again */
	/* Before there is a key: of these three, nothing is proven by the head. */
	SEAL_ASK = 6, /* probe, with a challenge: give me the session's key in a MUNGE credential */
	SEAL_GRANT = 7, /* coordinator, to that: the credential follows, of a struct seal_grant */
	SEAL_DENY = 8,	/* coordinator, to that: there is no MUNGE here */
};

/* Which key the proof was made with. */
enum seal_key {
	SEAL_KEY_FILE = 0,
	SEAL_KEY_SESSION = 1, /* one that the coordinator made for itself */
};

struct seal_head {
	uint8_t kind; /* enum seal_kind */
	uint8_t key;  /* enum seal_key */
	uint64_t probe_id;
	uint8_t nonce[SEAL_NONCE_BYTES];
	uint64_t number; /* grows with each batch of a probe; 0 in a hello; an answer repeats it */
	uint8_t proof[SEAL_PROOF_BYTES];
};

/* What is in a credential, only bytes: it answers this challenge, and none before. */
struct seal_grant {
	uint8_t magic[8]; /* SEAL_GRANT_MAGIC, without a NUL */
	uint8_t challenge[SEAL_NONCE_BYTES];
	uint8_t key[SEAL_KEY_BYTES];
};
#define SEAL_GRANT_MAGIC "slowrank"
_Static_assert(sizeof(struct seal_grant) == 56, "it goes between hosts");

struct seal;

/* Returns 0 or -ENOMEM. The caller owns it. */
int seal_create(const uint8_t key[SEAL_KEY_BYTES], struct seal **seal)
	__attribute__((warn_unused_result));
void seal_destroy(struct seal *seal); /* forgets the key; NULL is fine */

/*
 * Computes head->proof over the head, the proof of the request that is answered (NULL in a
 * request), and length bytes; writes the head as it goes on the wire. Returns 0 or -ENOMEM.
 */
int seal_write(struct seal *seal, struct seal_head *head, const uint8_t *answered,
	const void *bytes, size_t length, uint8_t out[SEAL_HEAD_BYTES])
	__attribute__((warn_unused_result));

/* The head alone, without a proof: of SEAL_ASK, SEAL_GRANT and SEAL_DENY. */
void seal_write_open(const struct seal_head *head, uint8_t out[SEAL_HEAD_BYTES]);

/* True when the message begins as a sealed one does; no batch or reply does. */
bool seal_is_sealed(const void *message, size_t length);

/*
 * Reads the head; what it says is not proven yet. Returns 0; -EBADMSG; -EPROTONOSUPPORT for another
 * version or kind. The bytes are those after SEAL_HEAD_BYTES.
 */
int seal_read(const void *message, size_t length, struct seal_head *head)
	__attribute__((warn_unused_result));

/* True when the message, whose head was read, was made with the key, as an answer to `answered`. */
bool seal_proven(struct seal *seal, const struct seal_head *head, const uint8_t *answered,
	const void *message, size_t length);

#endif
