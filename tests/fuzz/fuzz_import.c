/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a trace, plain or gzip: what is taken of it makes batches that can be encoded. */
#include "coordinator/report/import_batch.h"
#include "coordinator/report/import_csv.h"
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"
#include "tests/fuzz/fuzz.h"

static int take(void *context, const struct message_batch *batch, struct job_ns received)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct wire_buffer *buffer = context;
	struct message_batch *again;

	fuzz_require(received.value >= 0);
	fuzz_require(wire_encode_batch(batch, buffer) == 0);
	fuzz_require(wire_decode_packed_batch(buffer->bytes, buffer->length, &again, why) == 0);
	message_batch_destroy(again);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char path[FUZZ_PATH_LENGTH], why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	int fd = fuzz_file(bytes, length, path);
	struct wire_buffer buffer = {0};
	struct import_result result;
	struct import_rows rows;

	if (import_rows_read(path, &rows, why) == 0)
		(void)!import_batches(&rows, "trace", take, &buffer, &result);
	else
		fuzz_require(why[0] != '\0');
	import_rows_fini(&rows);
	wire_buffer_fini(&buffer);
	close(fd);
	return 0;
}
