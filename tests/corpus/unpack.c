/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same record with all payloads unpacked: what packs the whole file afterwards does better without the small frames'
 * own packing. Bytes that are no frame stay as they are.
 *
 *     unpack RECORD OUT
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

#include "coordinator/record/format.h"

struct bytes {
	const uint8_t *list;
	size_t length;
};

static int map_file(const char *path, struct bytes *bytes)
{
	int file = open(path, O_RDONLY | O_CLOEXEC), error = 0;
	struct stat status;
	void *list = MAP_FAILED;

	if (file < 0)
		return -errno;
	if (fstat(file, &status) == 0)
		list = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (list == MAP_FAILED)
		error = -errno;
	else
		*bytes = (struct bytes){list, (size_t)status.st_size};
	close(file);
	return error;
}

/* Of a whole frame of a packed payload: its length. 0: of anything else. */
static size_t packed_frame(const uint8_t *at, size_t left)
{
	uint32_t magic, length;

	if (left < FRAME_HEAD_BYTES + RECORD_CODEC_BYTES)
		return 0;
	magic = frame_get_u32(at);
	length = frame_get_u32(at + 4);
	if ((magic & 0x00ffffff) != RECORD_MAGIC_OF(0) || length > left - FRAME_HEAD_BYTES ||
		length <= RECORD_CODEC_BYTES || at[FRAME_HEAD_BYTES] != RECORD_CODEC_ZSTD ||
		frame_get_u32(at + 8) != frame_crc(at, at + FRAME_HEAD_BYTES, length))
		return 0;
	return FRAME_HEAD_BYTES + length;
}

static bool write_unpacked(const uint8_t *frame, size_t length, uint8_t *payload, FILE *out)
{
	const uint8_t *packed = frame + FRAME_HEAD_BYTES + RECORD_CODEC_BYTES;
	uint8_t head[FRAME_HEAD_BYTES];
	size_t count = ZSTD_decompress(payload + RECORD_CODEC_BYTES, WIRE_MESSAGE_LENGTH_MAX,
		packed, (size_t)(frame + length - packed));

	if (ZSTD_isError(count))
		return fwrite(frame, 1, length, out) == length;
	payload[0] = RECORD_CODEC_NONE;
	frame_write_head(head, frame_get_u32(frame), frame_get_u64(frame + 12), payload,
		RECORD_CODEC_BYTES + count);
	return fwrite(head, sizeof(head), 1, out) == 1 &&
	       fwrite(payload, RECORD_CODEC_BYTES + count, 1, out) == 1;
}

static bool unpack(const struct bytes *record, uint8_t *payload, FILE *out)
{
	bool plain =
		record->length >= 12 && frame_get_u32(record->list + 8) == RECORD_VERSION_PLAIN;

	for (size_t i = 0; i < record->length;) {
		size_t length = plain ? 0 : packed_frame(record->list + i, record->length - i);

		if (length ? !write_unpacked(record->list + i, length, payload, out)
			   : putc(record->list[i], out) == EOF)
			return false;
		i += length ? length : 1;
	}
	return true;
}

int main(int argc, char **argv)
{
	uint8_t *payload = malloc(RECORD_PAYLOAD_BYTES_MAX);
	struct bytes record = {0};
	bool written = false;

	if (argc != 3 || !payload) {
		fprintf(stderr, "usage: %s RECORD OUT\n", argv[0]);
		return 2;
	}
	int error = map_file(argv[1], &record);

	if (error < 0) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-error));
		return 1;
	}
	FILE *out = fopen(argv[2], "wb");

	if (out) {
		written = unpack(&record, payload, out);
		written = fclose(out) == 0 && written;
	}
	if (!written)
		fprintf(stderr, "%s: cannot be written: %s\n", argv[2], strerror(errno));
	free(payload);
	return written ? 0 : 1;
}
