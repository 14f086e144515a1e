/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/auth/derived_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

static int sign(const void *key, size_t key_length, const void *bytes, size_t length,
	char text[DERIVED_KEY_LENGTH])
{
	unsigned char digest[SEAL_PROOF_BYTES];
	unsigned digest_length = 0;

	if (!HMAC(EVP_sha256(), key, (int)key_length, bytes, length, digest, &digest_length) ||
		digest_length != sizeof(digest))
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	return 0;
}

int derived_key(const uint8_t key[SEAL_KEY_BYTES], const char *use, char text[DERIVED_KEY_LENGTH])
{
	char purpose[64];
	int length = snprintf(purpose, sizeof(purpose), "slowrank %s 1", use);

	return sign(key, SEAL_KEY_BYTES, purpose, (size_t)length, text);
}

int derived_key_sign(
	const char *secret, const void *bytes, size_t length, char text[DERIVED_KEY_LENGTH])
{
	return sign(secret, strlen(secret), bytes, length, text);
}

bool derived_key_is(const char text[DERIVED_KEY_LENGTH], const char *given)
{
	return strlen(given) == DERIVED_KEY_LENGTH - 1 &&
	       CRYPTO_memcmp(text, given, DERIVED_KEY_LENGTH - 1) == 0;
}
