/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a record: the reader ends, and accounts for every byte behind the header. */
#include <errno.h>

#include "coordinator/record/reader.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char path[FUZZ_PATH_LENGTH], why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct record_reader_state state;
	struct record_reader *reader;
	struct record_frame frame;
	size_t delivered_bytes = 0;
	int fd = fuzz_file(bytes, length, path), result;

	if (record_reader_open(path, &reader, why)) {
		if (!why[0])
			abort();
		close(fd);
		return 0;
	}
	while ((result = record_reader_frame(reader, &frame)) == 0) {
		if (frame.offset + frame.size > length || frame.length > WIRE_MESSAGE_LENGTH_MAX)
			abort();
		delivered_bytes += frame.size;
	}
	record_reader_get_state(reader, &state);
	if ((result != -ENODATA && result != -EBADMSG) || state.ended != (result == -ENODATA))
		abort();
	if (delivered_bytes + state.skipped_bytes > length)
		abort();
	record_reader_close(reader);
	close(fd);
	return 0;
}
