/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a record: the reader ends, and accounts for every byte behind the header. */
#include <errno.h>

#include "coordinator/record/reader.h"
#include "tests/fuzz/fuzz.h"

enum { FRAME_HEAD_BYTES = 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char path[FUZZ_PATH_LENGTH], why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct record_reader_state state;
	struct record_reader *reader;
	struct job_ns received;
	const void *frame;
	size_t frame_length, delivered_bytes = 0;
	int fd = fuzz_file(bytes, length, path), result;

	if (record_reader_open(path, &reader, why)) {
		if (!why[0])
			abort();
		close(fd);
		return 0;
	}
	while ((result = record_reader_next(reader, &frame, &frame_length, &received)) == 0)
		delivered_bytes += FRAME_HEAD_BYTES + frame_length;
	record_reader_get_state(reader, &state);
	if ((result != -ENODATA && result != -EBADMSG) || state.ended != (result == -ENODATA))
		abort();
	if (delivered_bytes + state.skipped_bytes > length)
		abort();
	record_reader_close(reader);
	close(fd);
	return 0;
}
