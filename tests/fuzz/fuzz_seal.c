/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request at the coordinator's gate: nothing without the key gets past it, and what is read
 * of a head is written again as it was.
 */
#include <stdlib.h>
#include <string.h>

#include "coordinator/gate.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static const uint8_t key[SEAL_KEY_BYTES] = {1}, nonce[SEAL_NONCE_BYTES] = {2};

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_head(const uint8_t *bytes, size_t length)
{
	struct seal_head head, again;
	uint8_t out[SEAL_HEAD_BYTES];
	struct seal *seal;

	if (seal_read(bytes, length, &head))
		return;
	again = head;
	require(seal_create(key, &seal) == 0);
	require(seal_write(seal, &again, NULL, bytes + SEAL_HEAD_BYTES, length - SEAL_HEAD_BYTES,
			out) == 0);
	require(memcmp(out, bytes, SEAL_HEAD_BYTES - SEAL_PROOF_BYTES) == 0);
	require(seal_proven(seal, &head, NULL, bytes, length) ==
		(memcmp(head.proof, again.proof, SEAL_PROOF_BYTES) == 0));
	seal_destroy(seal);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct gate_request request;
	struct gate *gate;
	int result;

	check_head(bytes, length);
	require(gate_create(key, nonce, &gate) == 0);
	result = gate_take(gate, false, bytes, length, &request);
	require(result >= GATE_BATCH && result <= GATE_REFUSED);
	if (result == GATE_BATCH)
		require(request.sealed && request.batch == bytes + SEAL_HEAD_BYTES &&
			request.length == length - SEAL_HEAD_BYTES);
	gate_destroy(gate);
	return 0;
}
