/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the coordinator and their answers: what goes in comes out; what is damaged, or another message, is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probe/wire/decode.h"
#include "probe/wire/encode.h"
#include "tests/unit/wire/random_batch.h"

static struct wire_buffer buffer, again;
static char why[WIRE_DETAIL_LENGTH_MAX + 1];

static int tear_down(void **state)
{
	(void)state;
	wire_buffer_fini(&buffer);
	wire_buffer_fini(&again);
	return 0;
}

static struct message_question made_question(void)
{
	struct message_question question = {.asker_id = UINT64_MAX - 3,
		.kind = DIRECTIVE_STACKS,
		.rank = 70000,
		.steps = 12,
		.limit_ms = 10000};

	strcpy(question.job_id, "slurm.4711");
	return question;
}

static void test_a_question(void **state)
{
	struct message_question in = made_question(), out;
	uint64_t sender;

	(void)state;
	assert_int_equal(wire_encode_question(&in, &buffer), 0);
	assert_int_equal(wire_decode_question(buffer.bytes, buffer.length, &out, why), 0);
	assert_true(out.asker_id == in.asker_id);
	assert_int_equal(out.kind, in.kind);
	assert_int_equal(out.rank, in.rank);
	assert_int_equal(out.steps, in.steps);
	assert_int_equal(out.limit_ms, in.limit_ms);
	assert_string_equal(out.job_id, in.job_id);
	assert_int_equal(wire_sender_id(buffer.bytes, buffer.length, &sender), 0);
	assert_true(sender == in.asker_id);
	in.rank = STEP_RANK_COUNT_MAX;
	assert_int_equal(wire_encode_question(&in, &buffer), -EINVAL);
}

/* By what it is encoded to again. */
static void check_answer(const struct message_answer *in)
{
	struct message_answer *out;

	assert_int_equal(wire_encode_answer(in, &buffer), 0);
	if (wire_decode_answer(buffer.bytes, buffer.length, &out, why))
		fail_msg("%s", why);
	assert_true(out->asker_id == in->asker_id);
	assert_int_equal(out->state, in->state);
	assert_string_equal(out->why, in->why);
	assert_string_equal(out->host, in->host);
	assert_int_equal(out->pid, in->pid);
	assert_int_equal(out->stacks != NULL, in->stacks != NULL);
	assert_int_equal(out->kernels != NULL, in->kernels != NULL);
	assert_int_equal(wire_encode_answer(out, &again), 0);
	assert_int_equal(again.length, buffer.length);
	assert_memory_equal(again.bytes, buffer.bytes, buffer.length);
	message_answer_destroy(out);
}

static void test_answers(void **state)
{
	struct random_source random = {3};
	struct stack_profile *stacks = random_stack_profile(&random);
	struct kernel_profile kernels = {.rank = 3,
		.request = UINT32_MAX,
		.steps = 10,
		.start = {500},
		.stop = {1000},
		.kernel_count = 2,
		.sum_count = 1,
		.sums = {{"gemm", 2, 100}}};
	struct message_answer answer = {.asker_id = 9, .state = ANSWER_WAIT, .host = "node-a"};

	(void)state;
	strcpy(answer.why, "other looks come first");
	check_answer(&answer);
	answer.state = ANSWER_LOOK;
	answer.stacks = stacks;
	answer.pid = 4711;
	check_answer(&answer);
	answer.stacks = NULL;
	answer.kernels = &kernels;
	check_answer(&answer);
	stack_profile_destroy(stacks);
}

/* The largest look fits into an answer. */
static void test_the_largest(void **state)
{
	struct stack_profile *profile = stack_profile_create(&(struct stack_profile){
		.node_count = STACK_PROFILE_NODES_MAX,
		.sum_count = STACK_PROFILE_SUMS_MAX,
		.thread_count = STACK_PROFILE_THREADS_MAX,
		.segment_count = STACK_PROFILE_SEGMENTS_MAX,
		.text_length = STACK_PROFILE_TEXT_MAX,
	});

	(void)state;
	for (uint32_t i = 1; i + 1 < STACK_PROFILE_TEXT_MAX; i++)
		profile->text[i] = i % 3 ? 'f' : 0;
	for (uint32_t i = 0; i < STACK_PROFILE_NODES_MAX; i++)
		profile->nodes[i] =
			(struct stack_node){i % STACK_PROFILE_DEPTH_MAX ? i - 1 : STACK_NODE_NONE,
				STACK_PROFILE_TEXT_MAX / 3 * 3 - 2, 1, INT32_MAX, UINT8_MAX};
	for (uint32_t i = 0; i < STACK_PROFILE_THREADS_MAX; i++)
		profile->threads[i] = (struct stack_thread_info){.pid = INT32_MAX,
			.tid = INT32_MAX,
			.name = "fifteen letters",
			.cpu_ns = INT64_MAX / 8,
			.blocked_ns = INT64_MAX / 8,
			.major_faults = INT64_MAX};
	for (uint32_t i = 0; i < STACK_PROFILE_SUMS_MAX; i++)
		profile->sums[i] = (struct stack_sum){STACK_PROFILE_NODES_MAX - 1,
			STACK_PROFILE_THREADS_MAX - 1, STACK_PROFILE_SEGMENTS_MAX - 1, UINT8_MAX,
			UINT32_MAX, UINT32_MAX, INT64_MAX / 8};
	assert_true(stack_profile_is_valid(profile));
	check_answer(&(struct message_answer){.state = ANSWER_LOOK, .stacks = profile});
	stack_profile_destroy(profile);
}

/* Each kind of message is refused where another one is due, with both names. */
static void test_other_messages(void **state)
{
	const struct message_question question = made_question();
	struct message_question out;
	struct message_reply reply;
	struct message_batch *batch;
	struct message_answer *answer;
	uint64_t sender;

	(void)state;
	assert_int_equal(wire_encode_question(&question, &buffer), 0);
	assert_int_equal(wire_decode_batch(buffer.bytes, buffer.length, &batch, why), -EBADMSG);
	assert_non_null(strstr(why, "type 3, not 1 (batch)"));
	assert_int_equal(wire_decode_answer(buffer.bytes, buffer.length, &answer, why), -EBADMSG);
	assert_non_null(strstr(why, "type 3, not 4 (answer)"));
	assert_int_equal(
		wire_encode_answer(&(struct message_answer){.state = ANSWER_WAIT}, &buffer), 0);
	assert_int_equal(wire_decode_question(buffer.bytes, buffer.length, &out, why), -EBADMSG);
	assert_non_null(strstr(why, "type 4, not 3 (question)"));
	assert_int_equal(wire_decode_reply(buffer.bytes, buffer.length, &reply, why), -EBADMSG);
	assert_int_equal(wire_sender_id(buffer.bytes, buffer.length, &sender), -EBADMSG);
}

/* Cut at every byte, with a bit of each flipped, and with nothing but noise: refused with a reason, or still one. */
static void test_damaged(void **state)
{
	struct random_source random = {5};
	struct stack_profile *stacks = random_stack_profile(&random);
	struct message_question question = made_question(), out;
	struct message_answer *answer;

	(void)state;
	assert_int_equal(wire_encode_question(&question, &buffer), 0);
	for (size_t length = 0; length < buffer.length; length++)
		assert_int_equal(wire_decode_question(buffer.bytes, length, &out, why), -EBADMSG);
	for (size_t bit = 0; bit < 8 * buffer.length; bit++) {
		buffer.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (wire_decode_question(buffer.bytes, buffer.length, &out, why) == 0)
			assert_true(out.rank < STEP_RANK_COUNT_MAX);
		buffer.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(
		wire_encode_answer(
			&(struct message_answer){.state = ANSWER_LOOK, .stacks = stacks}, &buffer),
		0);
	for (size_t length = 0; length < buffer.length; length += 1 + length / 64)
		assert_int_equal(wire_decode_answer(buffer.bytes, length, &answer, why), -EBADMSG);
	for (int i = 0; i < 5000; i++) {
		size_t bit = random_below(&random, 8 * buffer.length);

		buffer.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (wire_decode_answer(buffer.bytes, buffer.length, &answer, why) == 0) {
			assert_true(!answer->stacks || stack_profile_is_valid(answer->stacks));
			message_answer_destroy(answer);
		}
		buffer.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	stack_profile_destroy(stacks);
}

/* An answer has one look. The two lists of looks are its last fields, each an array of none. */
static void test_several_looks(void **state)
{
	struct kernel_profile kernels = {.rank = 3};
	struct message_answer *answer;
	uint8_t bytes[1024];
	size_t head, look;

	(void)state;
	assert_int_equal(wire_encode_answer(&(struct message_answer){0}, &buffer), 0);
	head = buffer.length - 2;
	assert_int_equal(
		wire_encode_answer(&(struct message_answer){.kernels = &kernels}, &buffer), 0);
	look = buffer.length - head - 2;
	assert_true(buffer.length + look < sizeof(bytes));
	memcpy(bytes, buffer.bytes, head + 1 + look);
	bytes[head] = 0x92; /* msgpack: an array of two */
	memcpy(bytes + head + 1 + look, buffer.bytes + head + 1, look + 1);
	assert_int_equal(wire_decode_answer(bytes, head + 2 + 2 * look, &answer, why), -EBADMSG);
	assert_non_null(strstr(why, "several looks"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_question),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_the_largest),
		cmocka_unit_test(test_other_messages),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_several_looks),
	};

	return cmocka_run_group_tests(tests, NULL, tear_down);
}
