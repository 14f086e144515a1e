/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/auth/seal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

enum { SEAL_VERSION = 1 };

/* Where the fields are; numbers are big-endian. */
enum {
	AT_VERSION = 4,
	AT_KIND = 5,
	AT_KEY = 6,
	AT_ZERO = 7,
	AT_PROBE_ID = 8,
	AT_NONCE = 16,
	AT_NUMBER = 32,
	AT_PROOF = 40,
};
_Static_assert(AT_PROOF + SEAL_PROOF_BYTES == SEAL_HEAD_BYTES, "the proof ends the head");

/* As a msgpack message this would be a number: no batch and no reply begins so. */
static const uint8_t magic[AT_VERSION] = {'S', 'R', 'N', 'K'};

struct seal {
	EVP_MAC_CTX *mac; /* with the key */
};

int seal_create(const uint8_t key[SEAL_KEY_BYTES], struct seal **seal)
{
	char digest[] = "SHA256";
	const OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	struct seal *made = calloc(1, sizeof(*made));
	EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);

	if (made && hmac)
		made->mac = EVP_MAC_CTX_new(hmac);
	EVP_MAC_free(hmac); /* the context keeps it */
	if (!made || !made->mac || !EVP_MAC_init(made->mac, key, SEAL_KEY_BYTES, parameters)) {
		seal_destroy(made);
		return -ENOMEM;
	}
	*seal = made;
	return 0;
}

void seal_destroy(struct seal *seal)
{
	if (!seal)
		return;
	EVP_MAC_CTX_free(seal->mac);
	free(seal);
}

static void put_number(uint8_t *at, uint64_t number)
{
	for (int i = 7; i >= 0; i--, number >>= 8)
		at[i] = (uint8_t)number;
}

static uint64_t get_number(const uint8_t *at)
{
	uint64_t number = 0;

	for (int i = 0; i < 8; i++)
		number = number << 8 | at[i];
	return number;
}

/* A context is initialised without a key to be used again with the one it has. */
static bool prove(struct seal *seal, const uint8_t *head, const uint8_t *answered,
	const void *bytes, size_t length, uint8_t proof[SEAL_PROOF_BYTES])
{
	size_t proof_length;

	return EVP_MAC_init(seal->mac, NULL, 0, NULL) &&
	       EVP_MAC_update(seal->mac, head, AT_PROOF) &&
	       (!answered || EVP_MAC_update(seal->mac, answered, SEAL_PROOF_BYTES)) &&
	       (!length || EVP_MAC_update(seal->mac, bytes, length)) &&
	       EVP_MAC_final(seal->mac, proof, &proof_length, SEAL_PROOF_BYTES);
}

void seal_write_open(const struct seal_head *head, uint8_t out[SEAL_HEAD_BYTES])
{
	memset(out, 0, SEAL_HEAD_BYTES);
	memcpy(out, magic, sizeof(magic));
	out[AT_VERSION] = SEAL_VERSION;
	out[AT_KIND] = head->kind;
	out[AT_KEY] = head->key;
	put_number(out + AT_PROBE_ID, head->probe_id);
	memcpy(out + AT_NONCE, head->nonce, SEAL_NONCE_BYTES);
	put_number(out + AT_NUMBER, head->number);
}

int seal_write(struct seal *seal, struct seal_head *head, const uint8_t *answered,
	const void *bytes, size_t length, uint8_t out[SEAL_HEAD_BYTES])
{
	seal_write_open(head, out);
	if (!prove(seal, out, answered, bytes, length, head->proof))
		return -ENOMEM;
	memcpy(out + AT_PROOF, head->proof, SEAL_PROOF_BYTES);
	return 0;
}

bool seal_is_sealed(const void *message, size_t length)
{
	return length >= sizeof(magic) && memcmp(message, magic, sizeof(magic)) == 0;
}

int seal_read(const void *message, size_t length, struct seal_head *head)
{
	const uint8_t *at = message;

	if (!seal_is_sealed(message, length) || length < SEAL_HEAD_BYTES)
		return -EBADMSG;
	if (at[AT_VERSION] != SEAL_VERSION || at[AT_KIND] < SEAL_HELLO || at[AT_KIND] > SEAL_DENY ||
		at[AT_KEY] > SEAL_KEY_SESSION)
		return -EPROTONOSUPPORT;
	if (at[AT_ZERO])
		return -EBADMSG;
	head->kind = at[AT_KIND];
	head->key = at[AT_KEY];
	head->probe_id = get_number(at + AT_PROBE_ID);
	memcpy(head->nonce, at + AT_NONCE, SEAL_NONCE_BYTES);
	head->number = get_number(at + AT_NUMBER);
	memcpy(head->proof, at + AT_PROOF, SEAL_PROOF_BYTES);
	return 0;
}

bool seal_proven(struct seal *seal, const struct seal_head *head, const uint8_t *answered,
	const void *message, size_t length)
{
	const uint8_t *bytes = message;
	uint8_t proof[SEAL_PROOF_BYTES];

	return prove(seal, bytes, answered, bytes + SEAL_HEAD_BYTES, length - SEAL_HEAD_BYTES,
		       proof) &&
	       CRYPTO_memcmp(proof, head->proof, SEAL_PROOF_BYTES) == 0;
}
