/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a record, or, behind a first byte of 0, as frames whose checksums are right: the reader ends, and accounts
 * for every byte behind the header.
 */
#include <errno.h>
#include <zlib.h>

#include "coordinator/record/format.h"
#include "coordinator/record/reader.h"
#include "tests/fuzz/fuzz.h"

enum { FAILS_MAX = 8 };	  /* asks for memory before the first frame, and for a large one */
enum { FRAME_INPUT = 3 }; /* of a frame's head in the input: its kind, its length */
enum { FILE_BYTES = 64 << 10 };

/* Returns how long the record is. */
static size_t make_record(const uint8_t *bytes, size_t length, uint8_t file[FILE_BYTES])
{
	struct fuzz_input input = {bytes + 1, length - 1};
	size_t at = RECORD_HEADER_BYTES;
	uint8_t version, head[FRAME_INPUT];

	fuzz_take(&input, &version, 1);
	memset(file, 0, RECORD_HEADER_BYTES);
	memcpy(file, RECORD_MAGIC, 8);
	frame_put_u32(file + 8, version & 1 ? RECORD_VERSION_PLAIN : RECORD_VERSION);
	frame_put_u32(file + 12, RECORD_HEADER_BYTES);
	frame_put_u32(
		file + RECORD_HEADER_BYTES - 4, (uint32_t)crc32(0, file, RECORD_HEADER_BYTES - 4));
	while (input.length) {
		size_t part;

		fuzz_take(&input, head, sizeof(head));
		part = head[1] | (size_t)head[2] << 8;
		if (part > FILE_BYTES - RECORD_FRAME_HEAD_BYTES - at)
			break;
		fuzz_take(&input, file + at + RECORD_FRAME_HEAD_BYTES, part);
		frame_write_head(file + at, RECORD_MAGIC_OF(head[0]), at,
			file + at + RECORD_FRAME_HEAD_BYTES, part);
		at += RECORD_FRAME_HEAD_BYTES + part;
		if (at > FILE_BYTES - RECORD_FRAME_HEAD_BYTES)
			break;
	}
	return at;
}

static void read_frames(const char *path, size_t length)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct record_reader_state state;
	struct record_reader *reader;
	struct record_frame frame;
	size_t delivered_bytes = 0;
	int result;

	if (record_reader_open(path, &reader, why)) {
		fuzz_require(why[0] != '\0');
		return;
	}
	while ((result = record_reader_frame(reader, &frame)) == 0) {
		fuzz_require(frame.offset + frame.size <= length &&
			     frame.length <= WIRE_MESSAGE_LENGTH_MAX);
		delivered_bytes += frame.size;
	}
	record_reader_get_state(reader, &state);
	fuzz_require(
		(result == -ENODATA || result == -EBADMSG) && state.ended == (result == -ENODATA));
	fuzz_require(delivered_bytes + state.skipped_bytes <= length);
	record_reader_close(reader);
}

/* The batches alone, with so many asks for memory before one fails. */
static void read_batches(const char *path, size_t number)
{
	struct record_reader *reader = NULL;
	struct job_ns received;
	const void *bytes;
	size_t length;
	int result;

	fuzz_fail_allocation(number);
	if (record_reader_open(path, &reader, NULL) == 0) {
		while ((result = record_reader_next(reader, &bytes, &length, &received)) == 0)
			fuzz_require(bytes != NULL && length <= WIRE_MESSAGE_LENGTH_MAX);
		fuzz_require(result == -ENODATA || result == -EBADMSG || result == -ENOMEM);
	}
	fuzz_fail_allocation(0);
	record_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static uint8_t file[FILE_BYTES];
	size_t number = 1 + fuzz_number(bytes, length, FAILS_MAX);
	char path[FUZZ_PATH_LENGTH];
	int fd;

	if (length && !bytes[0]) {
		length = make_record(bytes, length, file);
		bytes = file;
	}
	fd = fuzz_file(bytes, length, path);
	read_frames(path, length);
	read_batches(path, number);
	close(fd);
	read_batches(path, number); /* it is gone */
	return 0;
}
