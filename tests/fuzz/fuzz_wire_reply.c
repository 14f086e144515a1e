/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a reply: what the probe accepts can be encoded and decodes to the same. */
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct message_reply reply, again;
	struct wire_buffer buffer = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";

	if (wire_decode_reply(bytes, length, &reply, why)) {
		if (!why[0])
			abort();
		return 0;
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
	return 0;
}
