/* SPDX-License-Identifier: Apache-2.0 */
/* The head and its proof: byte by byte against HMAC-SHA256 of another maker, and everything changed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "probe/auth/seal.h"

enum { BYTES = 11, MESSAGE = SEAL_HEAD_BYTES + BYTES };

static const uint8_t key[SEAL_KEY_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};

static struct seal *seal_of(const uint8_t *made_key)
{
	struct seal *seal = NULL;

	assert_int_equal(seal_create(made_key, &seal), 0);
	return seal;
}

static struct seal_head write_message(
	struct seal *seal, const uint8_t *answered, uint8_t message[MESSAGE])
{
	struct seal_head head = {
		.kind = SEAL_BATCH, .probe_id = UINT64_C(0x0102030405060708), .number = 258};

	memset(head.nonce, 0xab, sizeof(head.nonce));
	memcpy(message + SEAL_HEAD_BYTES, "hello world", BYTES);
	assert_int_equal(
		seal_write(seal, &head, answered, message + SEAL_HEAD_BYTES, BYTES, message), 0);
	return head;
}

static bool proven(
	struct seal *seal, const uint8_t *answered, const uint8_t *message, size_t length)
{
	struct seal_head head;

	return seal_read(message, length, &head) == 0 &&
	       seal_proven(seal, &head, answered, message, length);
}

/* python3: hmac.new(bytes(range(1, 33)), message[:40] + b'hello world', 'sha256') */
static void test_layout(void **state)
{
	static const uint8_t expected[SEAL_HEAD_BYTES] = {'S', 'R', 'N', 'K', 1, 3, 0, 0, 1, 2, 3,
		4, 5, 6, 7, 8, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab,
		0xab, 0xab, 0xab, 0xab, 0xab, 0, 0, 0, 0, 0, 0, 1, 2, 0x4a, 0x65, 0xa9, 0x7f, 0xe2,
		0xcd, 0x16, 0x3e, 0x99, 0x69, 0xdb, 0x96, 0xc3, 0x0b, 0x4c, 0xb0, 0x04, 0x84, 0x29,
		0xf5, 0x37, 0x47, 0xad, 0x4d, 0x99, 0x0f, 0xbc, 0x6e, 0xda, 0x91, 0xcb, 0xe6};
	struct seal *seal = seal_of(key);
	uint8_t message[MESSAGE];
	struct seal_head head = write_message(seal, NULL, message), read;

	(void)state;
	assert_memory_equal(message, expected, SEAL_HEAD_BYTES);
	assert_int_equal(seal_read(message, MESSAGE, &read), 0);
	assert_int_equal(read.kind, head.kind);
	assert_int_equal(read.probe_id, head.probe_id);
	assert_int_equal(read.number, head.number);
	assert_memory_equal(read.nonce, head.nonce, sizeof(head.nonce));
	assert_memory_equal(read.proof, head.proof, sizeof(head.proof));
	seal_destroy(seal);
}

static void test_any_change_is_found(void **state)
{
	struct seal *seal = seal_of(key);
	uint8_t message[MESSAGE];

	(void)state;
	write_message(seal, NULL, message);
	assert_true(proven(seal, NULL, message, MESSAGE));
	for (size_t bit = 0; bit < MESSAGE * 8; bit++) {
		message[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(proven(seal, NULL, message, MESSAGE));
		message[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t length = 0; length < MESSAGE; length++)
		assert_false(proven(seal, NULL, message, length));
	assert_true(proven(seal, NULL, message, MESSAGE));
	seal_destroy(seal);
}

static void test_other_key(void **state)
{
	static const uint8_t other_key[SEAL_KEY_BYTES] = {1};
	struct seal *seal = seal_of(key), *other = seal_of(other_key);
	uint8_t message[MESSAGE];

	(void)state;
	write_message(seal, NULL, message);
	assert_false(proven(other, NULL, message, MESSAGE));
	seal_destroy(seal);
	seal_destroy(other);
}

/* An answer is one to its own request only. */
static void test_answer_of_another_request(void **state)
{
	static const uint8_t asked[SEAL_PROOF_BYTES] = {1}, other[SEAL_PROOF_BYTES] = {2};
	struct seal *seal = seal_of(key);
	uint8_t message[MESSAGE];

	(void)state;
	write_message(seal, asked, message);
	assert_true(proven(seal, asked, message, MESSAGE));
	assert_false(proven(seal, other, message, MESSAGE));
	assert_false(proven(seal, NULL, message, MESSAGE));
	seal_destroy(seal);
}

static void test_what_cannot_be_read(void **state)
{
	struct seal *seal = seal_of(key);
	uint8_t message[MESSAGE];
	struct seal_head head;

	(void)state;
	write_message(seal, NULL, message);
	assert_true(seal_is_sealed(message, MESSAGE));
	assert_false(seal_is_sealed("\x94\x01\x01", 3));
	assert_false(seal_is_sealed(NULL, 0));
	assert_int_equal(seal_read(message, SEAL_HEAD_BYTES - 1, &head), -EBADMSG);
	assert_int_equal(seal_read("\x94\x01\x01", 3, &head), -EBADMSG);
	message[4] = 2;
	assert_int_equal(seal_read(message, MESSAGE, &head), -EPROTONOSUPPORT);
	message[4] = 1;
	message[5] = 9;
	assert_int_equal(seal_read(message, MESSAGE, &head), -EPROTONOSUPPORT);
	seal_destroy(seal);
	seal_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_any_change_is_found),
		cmocka_unit_test(test_other_key),
		cmocka_unit_test(test_answer_of_another_request),
		cmocka_unit_test(test_what_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
