/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a reply, a question or an answer: what is accepted can be encoded and decodes to the same. */
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"
#include "tests/fuzz/fuzz.h"

static void try_reply(const uint8_t *bytes, size_t length)
{
	struct message_reply reply, again;
	struct wire_buffer buffer = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";

	if (wire_decode_reply(bytes, length, &reply, why)) {
		fuzz_require(why[0]);
		return;
	}
	if (wire_encode_reply(&reply, &buffer) ||
		wire_decode_reply(buffer.bytes, buffer.length, &again, why))
		abort();
	if (reply.probe_id != again.probe_id || reply.number != again.number ||
		reply.received.value != again.received.value ||
		reply.reply_sent.value != again.reply_sent.value ||
		reply.accepted != again.accepted ||
		reply.directive_count != again.directive_count ||
		memcmp(reply.directives, again.directives, sizeof(reply.directives)) ||
		strcmp(reply.why, again.why))
		abort();
	wire_buffer_fini(&buffer);
}

static void try_question(const uint8_t *bytes, size_t length)
{
	struct message_question question, again;
	struct wire_buffer buffer = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	uint64_t sender;

	if (wire_decode_question(bytes, length, &question, why)) {
		fuzz_require(why[0]);
		return;
	}
	fuzz_require(wire_sender_id(bytes, length, &sender) == 0 && sender == question.asker_id);
	fuzz_require(wire_encode_question(&question, &buffer) == 0 &&
		     wire_decode_question(buffer.bytes, buffer.length, &again, why) == 0);
	fuzz_require(question.asker_id == again.asker_id && question.kind == again.kind &&
		     question.rank == again.rank && question.steps == again.steps &&
		     question.limit_ms == again.limit_ms &&
		     strcmp(question.job_id, again.job_id) == 0);
	wire_buffer_fini(&buffer);
}

/* What is encoded once is encoded to the same bytes again. One over the limit of its length is not encoded. */
static void try_answer(const uint8_t *bytes, size_t length)
{
	struct message_answer *answer, *again;
	struct wire_buffer first = {0}, second = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";

	if (wire_decode_answer(bytes, length, &answer, why)) {
		fuzz_require(why[0]);
		return;
	}
	fuzz_require(!answer->stacks || stack_profile_is_valid(answer->stacks));
	fuzz_require(!answer->stacks || !answer->kernels);
	if (wire_encode_answer(answer, &first) == 0) {
		fuzz_require(wire_decode_answer(first.bytes, first.length, &again, why) == 0);
		fuzz_require(wire_encode_answer(again, &second) == 0);
		fuzz_require(first.length == second.length &&
			     memcmp(first.bytes, second.bytes, first.length) == 0);
		message_answer_destroy(again);
	}
	message_answer_destroy(answer);
	wire_buffer_fini(&first);
	wire_buffer_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	try_reply(bytes, length);
	try_question(bytes, length);
	try_answer(bytes, length);
	return 0;
}
