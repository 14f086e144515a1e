/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that are cut, flipped, or made up: a clear refusal, never a crash or a huge allocation. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>
#include <msgpack.h>

#include "probe/wire/decode.h"
#include "probe/wire/encode.h"
#include "tests/unit/seeds.h"
#include "tests/unit/wire/random_batch.h"

/* Memory that the thread sanitizer takes for itself, as a multiple of the program's. */
#if defined(__SANITIZE_THREAD__)
enum { SHADOW_FACTOR = 8 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { SHADOW_FACTOR = 8 };
#else
enum { SHADOW_FACTOR = 1 };
#endif
#else
enum { SHADOW_FACTOR = 1 };
#endif

/* Also a check of the decoder's promises, for whatever it accepts. */
static int decode(const void *bytes, size_t length, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct message_batch *batch = NULL;
	int error;

	why[0] = '\0';
	error = wire_decode_batch(bytes, length, &batch, why);
	if (error) {
		assert_null(batch);
		assert_int_not_equal(strlen(why), 0);
		assert_null(strchr(why, '\n'));
		return error;
	}
	for (size_t i = 0; i < batch->stack_profile_count; i++)
		assert_true(stack_profile_is_valid(batch->stack_profiles[i]));
	for (size_t i = 0; i < batch->step_count; i++) {
		const struct step_entry *step = &batch->steps[i];
		int64_t last_arrival = 0;

		assert_true(step->rank < STEP_RANK_COUNT_MAX);
		assert_true(step->start.value >= 0 && step->end.value >= step->start.value);
		assert_true(step->input_ns >= 0 && step->compute_ns >= 0 && step->host_ns >= 0 &&
			    step->comm_ns >= 0);
		for (size_t j = 0; j < step->part_count; j++) {
			assert_true(step->parts[j].arrival.value >= last_arrival);
			last_arrival = step->parts[j].arrival.value;
			assert_true(step->parts[j].departure.value >= last_arrival);
		}
	}
	message_batch_destroy(batch);
	return 0;
}

/* Copied to memory of exactly that size, so that a sanitizer sees a read behind the end. */
static int decode_copy(const uint8_t *bytes, size_t length, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	uint8_t *copy = malloc(length ? length : 1);
	int error;

	memcpy(copy, bytes, length);
	error = decode(copy, length, why);
	free(copy);
	return error;
}

static void test_cut_at_every_byte(void **state)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct wire_buffer buffer = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(10); seed++) {
		struct message_batch batch;

		random_batch_init(&batch, seed);
		assert_int_equal(wire_encode_batch(&batch, &buffer), 0);
		for (size_t length = 0; length < buffer.length; length++)
			assert_int_equal(decode_copy(buffer.bytes, length, why), -EBADMSG);
		random_batch_fini(&batch);
	}
	wire_buffer_fini(&buffer);
}

static void test_flipped_bits(void **state)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct random_source random = {5};
	struct wire_buffer buffer = {0};
	size_t refused = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS_OF(40); seed++) {
		struct message_batch batch;

		random_batch_init(&batch, seed);
		assert_int_equal(wire_encode_batch(&batch, &buffer), 0);
		for (int i = 0; i < 500; i++) {
			size_t byte = random_below(&random, buffer.length);
			uint8_t flip = (uint8_t)(1 << random_below(&random, 8));

			buffer.bytes[byte] ^= flip;
			refused += decode_copy(buffer.bytes, buffer.length, why) != 0;
			buffer.bytes[byte] ^= flip;
		}
		random_batch_fini(&batch);
	}
	assert_true(refused > 0);
	wire_buffer_fini(&buffer);
}

static void test_random_bytes(void **state)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct random_source random = {6};
	uint8_t bytes[200];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t length = random_below(&random, sizeof(bytes));

		for (size_t j = 0; j < length; j++)
			bytes[j] = (uint8_t)random_next(&random);
		assert_int_not_equal(decode_copy(bytes, length, why), 0);
	}
}

static void start_batch(
	msgpack_sbuffer *bytes, msgpack_packer *packer, size_t field_count, uint64_t version)
{
	msgpack_sbuffer_init(bytes);
	msgpack_packer_init(packer, bytes, msgpack_sbuffer_write);
	msgpack_pack_array(packer, field_count);
	msgpack_pack_int(packer, 1);
	msgpack_pack_uint64(packer, version);
}

/* Everything up to the sources, as the encoder would write it. */
static void put_header(msgpack_packer *packer)
{
	for (int i = 0; i < 4; i++)
		msgpack_pack_int(packer, 7);
	msgpack_pack_array(packer, 4);
	for (int i = 0; i < 4; i++)
		msgpack_pack_int(packer, 0);
	msgpack_pack_int(packer, 0);
	msgpack_pack_str(packer, 0);
	msgpack_pack_int(packer, 0);
	msgpack_pack_array(packer, 7);
	for (int i = 0; i < 7; i++)
		msgpack_pack_int(packer, 0);
}

static void test_newer_version(void **state)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	msgpack_sbuffer bytes;
	msgpack_packer packer;

	(void)state;
	/* Nothing but type and version has to be understandable. */
	start_batch(&bytes, &packer, 3, WIRE_VERSION + 1);
	msgpack_pack_map(&packer, 0);
	assert_int_equal(decode(bytes.data, bytes.size, why), -EPROTONOSUPPORT);
	assert_non_null(strstr(why, "wire version 2"));
	assert_non_null(strstr(why, "knows 1"));
	msgpack_sbuffer_destroy(&bytes);
}

static void test_reply_is_no_batch(void **state)
{
	struct message_reply reply = {.probe_id = 1};
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct wire_buffer buffer = {0};

	(void)state;
	assert_int_equal(wire_encode_reply(&reply, &buffer), 0);
	assert_int_equal(decode(buffer.bytes, buffer.length, why), -EBADMSG);
	assert_non_null(strstr(why, "type 2"));
	wire_buffer_fini(&buffer);
}

/* A later writer of the same version appends fields everywhere; this reader skips them. */
static void test_later_fields_are_skipped(void **state)
{
	struct message_batch *batch = NULL;
	msgpack_sbuffer bytes;
	msgpack_packer packer;

	(void)state;
	start_batch(&bytes, &packer, 26, WIRE_VERSION);
	put_header(&packer);
	msgpack_pack_array(&packer, 1); /* sources */
	msgpack_pack_array(&packer, 5);
	msgpack_pack_str_with_body(&packer, "cgroup", 6);
	msgpack_pack_int(&packer, 1);
	msgpack_pack_str_with_body(&packer, "", 0);
	msgpack_pack_double(&packer, 1.5); /* new */
	msgpack_pack_map(&packer, 1);	   /* new */
	msgpack_pack_nil(&packer);
	msgpack_pack_bin_with_body(&packer, "abc", 3);
	for (int i = 0; i < 12; i++) /* ranks to stack profiles: none */
		msgpack_pack_array(&packer, 0);
	msgpack_pack_true(&packer); /* new */
	msgpack_pack_array(&packer, 2);
	msgpack_pack_array(&packer, 1);
	msgpack_pack_ext_with_body(&packer, "abcd", 4, 9);
	msgpack_pack_float(&packer, 1);
	assert_int_equal(wire_decode_batch(bytes.data, bytes.size, &batch, NULL), 0);
	assert_int_equal(batch->source_count, 1);
	assert_string_equal(batch->sources[0].name, "cgroup");
	message_batch_destroy(batch);
	msgpack_sbuffer_destroy(&bytes);
}

/* What nobody reads is recorded all the same: there is an end to it, in one field or in many. */
static void test_too_much_is_later(void **state)
{
	const size_t lengths[] = {60 << 10, 66 << 10, 4 << 20};
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	static char junk[4 << 20];
	msgpack_sbuffer bytes;
	msgpack_packer packer;

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		start_batch(&bytes, &packer, 26, WIRE_VERSION);
		put_header(&packer);
		for (int j = 0; j < 13; j++) /* sources to stack profiles: none */
			msgpack_pack_array(&packer, 0);
		msgpack_pack_bin_with_body(&packer, junk, lengths[i] / 2);
		msgpack_pack_bin_with_body(&packer, junk, lengths[i] / 2);
		assert_int_equal(decode(bytes.data, bytes.size, why), i == 0 ? 0 : -EBADMSG);
		if (i > 0)
			assert_non_null(strstr(why, "64 KiB"));
		msgpack_sbuffer_destroy(&bytes);
	}
}

static void test_bytes_behind_the_end(void **state)
{
	struct message_batch batch = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct wire_buffer buffer = {0};
	uint8_t longer[512] = {0};

	(void)state;
	assert_int_equal(wire_encode_batch(&batch, &buffer), 0);
	assert_true(buffer.length < sizeof(longer));
	memcpy(longer, buffer.bytes, buffer.length);
	assert_int_equal(decode(longer, buffer.length, why), 0);
	assert_int_equal(decode(longer, buffer.length + 1, why), -EBADMSG);
	wire_buffer_fini(&buffer);
}

/* Headers that claim 2^32 - 1 items or bytes must not make anybody allocate them. */
static void test_claimed_lengths(void **state)
{
	static const uint8_t claims[][5] = {{0xdd, 0xff, 0xff, 0xff, 0xff},
		{0xdf, 0xff, 0xff, 0xff, 0xff}, {0xdb, 0xff, 0xff, 0xff, 0xff},
		{0xc6, 0xff, 0xff, 0xff, 0xff}, {0xc9, 0xff, 0xff, 0xff, 0xff}};
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct message_batch batch;
	struct wire_buffer buffer = {0};
	uint8_t *copy;

	(void)state;
	random_batch_init(&batch, 4);
	assert_int_equal(wire_encode_batch(&batch, &buffer), 0);
	copy = malloc(buffer.length);
	for (size_t claim = 0; claim < 5; claim++) {
		for (size_t i = 0; i + 5 <= buffer.length; i++) {
			memcpy(copy, buffer.bytes, buffer.length);
			memcpy(copy + i, claims[claim], 5);
			(void)decode(copy, buffer.length, why);
		}
	}
	free(copy);
	random_batch_fini(&batch);
	wire_buffer_fini(&buffer);
}

static void test_nesting(void **state)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	msgpack_sbuffer bytes;
	msgpack_packer packer;

	(void)state;
	start_batch(&bytes, &packer, 25, WIRE_VERSION);
	put_header(&packer);
	for (int i = 0; i < 13; i++)
		msgpack_pack_array(&packer, 0);
	for (int i = 0; i < 100000; i++)
		msgpack_pack_array(&packer, 1);
	msgpack_pack_int(&packer, 1);
	assert_int_equal(decode(bytes.data, bytes.size, why), -EBADMSG);
	assert_non_null(strstr(why, "nested too deeply"));
	msgpack_sbuffer_destroy(&bytes);
}

/*
 * The most memory a message can ask for: one long schedule, steps that use it again and again.
 * The parts of a batch are limited, so this is refused early.
 */
static void test_amplification_is_bounded(void **state)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct rusage before, after;
	msgpack_sbuffer bytes;
	msgpack_packer packer;

	(void)state;
	start_batch(&bytes, &packer, 20, WIRE_VERSION);
	put_header(&packer);
	for (int i = 0; i < 3; i++)
		msgpack_pack_array(&packer, 0);
	msgpack_pack_array(&packer, 1); /* communicators */
	msgpack_pack_int(&packer, 1);
	msgpack_pack_array(&packer, 1); /* tokens */
	msgpack_pack_array(&packer, 5);
	for (int i = 0; i < 5; i++)
		msgpack_pack_int(&packer, 0);
	msgpack_pack_array(&packer, 1); /* schedules */
	msgpack_pack_array(&packer, 2);
	msgpack_pack_int(&packer, 0);
	msgpack_pack_array(&packer, STEP_PART_COUNT_MAX);
	for (int i = 0; i < STEP_PART_COUNT_MAX; i++)
		msgpack_pack_int(&packer, 0);
	msgpack_pack_array(&packer, 200); /* steps */
	for (int step = 0; step < 200; step++) {
		msgpack_pack_array(&packer, 15);
		for (int i = 0; i < 10; i++)
			msgpack_pack_int(&packer, 0);
		msgpack_pack_array(&packer, 0);
		msgpack_pack_array(&packer, 0);
		msgpack_pack_array(&packer, 1);
		msgpack_pack_int(&packer, 0);
		msgpack_pack_array(&packer, 2 * STEP_PART_COUNT_MAX);
		for (int i = 0; i < 2 * STEP_PART_COUNT_MAX; i++)
			msgpack_pack_int(&packer, 0);
		msgpack_pack_array(&packer, 0);
	}
	msgpack_pack_array(&packer, 0);
	msgpack_pack_array(&packer, 0);
	assert_true(bytes.size < WIRE_MESSAGE_LENGTH_MAX);
	getrusage(RUSAGE_SELF, &before);
	assert_int_equal(decode(bytes.data, bytes.size, why), -EBADMSG);
	assert_non_null(strstr(why, "too many parts"));
	getrusage(RUSAGE_SELF, &after);
	assert_true(after.ru_maxrss - before.ru_maxrss <
		    SHADOW_FACTOR * (WIRE_DECODED_BYTES_MAX / 1024));
	msgpack_sbuffer_destroy(&bytes);
}

static void test_too_long(void **state)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	uint8_t *bytes = calloc(1, WIRE_MESSAGE_LENGTH_MAX + 1);

	(void)state;
	assert_int_equal(decode(bytes, WIRE_MESSAGE_LENGTH_MAX + 1, why), -EMSGSIZE);
	free(bytes);
}

static void test_damaged_replies(void **state)
{
	struct message_reply reply = {.probe_id = UINT64_MAX, .number = 70000, .accepted = 0};
	struct random_source random = {9};
	struct wire_buffer buffer = {0};

	(void)state;
	strcpy(reply.why, "refused");
	assert_int_equal(wire_encode_reply(&reply, &buffer), 0);
	for (size_t length = 0; length < buffer.length; length++)
		assert_int_equal(wire_decode_reply(buffer.bytes, length, &reply, NULL), -EBADMSG);
	for (int i = 0; i < 20000; i++) {
		size_t byte = random_below(&random, buffer.length);
		uint8_t flip = (uint8_t)(1 << random_below(&random, 8));
		struct message_reply out;

		buffer.bytes[byte] ^= flip;
		if (wire_decode_reply(buffer.bytes, buffer.length, &out, NULL) == 0)
			assert_true(memchr(out.why, 0, sizeof(out.why)) != NULL);
		buffer.bytes[byte] ^= flip;
	}
	wire_buffer_fini(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_at_every_byte),
		cmocka_unit_test(test_flipped_bits),
		cmocka_unit_test(test_random_bytes),
		cmocka_unit_test(test_newer_version),
		cmocka_unit_test(test_reply_is_no_batch),
		cmocka_unit_test(test_later_fields_are_skipped),
		cmocka_unit_test(test_too_much_is_later),
		cmocka_unit_test(test_bytes_behind_the_end),
		cmocka_unit_test(test_claimed_lengths),
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_amplification_is_bounded),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_damaged_replies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
