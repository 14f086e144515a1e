/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request at the coordinator's gate: nothing without the key gets past it, and what is read
 * of a head is written again as it was.
 */
#include "coordinator/gate.h"
#include "tests/fuzz/fuzz.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct gate_request request;
	struct gate *gate;
	int result;

	check_head(bytes, length);
	fuzz_require(gate_create(key, nonce, &gate) == 0);
	result = gate_take(gate, false, bytes, length, &request);
	fuzz_require(result >= GATE_BATCH && result <= GATE_REFUSED);
	if (result == GATE_BATCH)
		fuzz_require(request.sealed && request.batch == bytes + SEAL_HEAD_BYTES &&
			     request.length == length - SEAL_HEAD_BYTES);
	gate_destroy(gate);
	return 0;
}
