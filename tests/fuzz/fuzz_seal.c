/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request at the coordinator's gate: nothing without the key gets past it, and what is read
 * of a head is written again as it was; and once more with a call of libcrypto's, or one for memory, that fails.
 */
#include <openssl/evp.h>

#include "coordinator/gate.h"
#include "tests/fuzz/fuzz.h"

enum { FAILS_MAX = 16 }; /* calls that one request makes */

static const uint8_t key[SEAL_KEY_BYTES] = {1}, nonce[SEAL_NONCE_BYTES] = {2};

static void check_head(const uint8_t *bytes, size_t length)
{
	struct seal_head head, again;
	uint8_t out[SEAL_HEAD_BYTES];
	struct seal *seal;

	if (seal_read(bytes, length, &head))
		return;
	again = head;
	fuzz_require(seal_create(key, &seal) == 0);
	fuzz_require(seal_write(seal, &again, NULL, bytes + SEAL_HEAD_BYTES,
			     length - SEAL_HEAD_BYTES, out) == 0);
	fuzz_require(memcmp(out, bytes, SEAL_HEAD_BYTES - SEAL_PROOF_BYTES) == 0);
	fuzz_require(seal_proven(seal, &head, NULL, bytes, length) ==
		     (memcmp(head.proof, again.proof, SEAL_PROOF_BYTES) == 0));
	seal_destroy(seal);
}

EVP_MAC *__real_EVP_MAC_fetch(OSSL_LIB_CTX *context, const char *name, const char *properties);
EVP_MAC *__wrap_EVP_MAC_fetch(OSSL_LIB_CTX *context, const char *name, const char *properties);
EVP_MAC *__wrap_EVP_MAC_fetch(OSSL_LIB_CTX *context, const char *name, const char *properties)
{
	return fuzz_fails() ? NULL : __real_EVP_MAC_fetch(context, name, properties);
}

EVP_MAC_CTX *__real_EVP_MAC_CTX_new(EVP_MAC *mac);
EVP_MAC_CTX *__wrap_EVP_MAC_CTX_new(EVP_MAC *mac);
EVP_MAC_CTX *__wrap_EVP_MAC_CTX_new(EVP_MAC *mac)
{
	return fuzz_fails() ? NULL : __real_EVP_MAC_CTX_new(mac);
}

int __real_EVP_MAC_init(
	EVP_MAC_CTX *mac, const unsigned char *bytes, size_t length, const OSSL_PARAM *parameters);
int __wrap_EVP_MAC_init(
	EVP_MAC_CTX *mac, const unsigned char *bytes, size_t length, const OSSL_PARAM *parameters);
int __wrap_EVP_MAC_init(
	EVP_MAC_CTX *mac, const unsigned char *bytes, size_t length, const OSSL_PARAM *parameters)
{
	return fuzz_fails() ? 0 : __real_EVP_MAC_init(mac, bytes, length, parameters);
}

int __real_EVP_MAC_update(EVP_MAC_CTX *mac, const unsigned char *bytes, size_t length);
int __wrap_EVP_MAC_update(EVP_MAC_CTX *mac, const unsigned char *bytes, size_t length);
int __wrap_EVP_MAC_update(EVP_MAC_CTX *mac, const unsigned char *bytes, size_t length)
{
	return fuzz_fails() ? 0 : __real_EVP_MAC_update(mac, bytes, length);
}

int __real_EVP_MAC_final(EVP_MAC_CTX *mac, unsigned char *out, size_t *length, size_t capacity);
int __wrap_EVP_MAC_final(EVP_MAC_CTX *mac, unsigned char *out, size_t *length, size_t capacity);
int __wrap_EVP_MAC_final(EVP_MAC_CTX *mac, unsigned char *out, size_t *length, size_t capacity)
{
	return fuzz_fails() ? 0 : __real_EVP_MAC_final(mac, out, length, capacity);
}

/* Returns an enum gate_result or a negative errno. */
static int take(const uint8_t *bytes, size_t length)
{
	struct gate_request request;
	struct gate *gate;
	int result = gate_create(key, nonce, &gate);

	if (result)
		return result;
	result = gate_take(gate, false, bytes, length, &request);
	if (result == GATE_BATCH) {
		fuzz_require(request.sealed && request.batch == bytes + SEAL_HEAD_BYTES &&
			     request.length == length - SEAL_HEAD_BYTES);
		(void)!gate_close_reply(gate, &request, bytes, 1, request.answer);
	}
	gate_destroy(gate);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	int result, starved;

	check_head(bytes, length);
	result = take(bytes, length);
	fuzz_require(result >= GATE_BATCH && result <= GATE_REFUSED);
	fuzz_fail_allocation(1 + fuzz_number(bytes, length, FAILS_MAX));
	starved = take(bytes, length);
	fuzz_fail_allocation(0);
	fuzz_require(starved == result || starved == GATE_REFUSED || starved < 0);
	return 0;
}
