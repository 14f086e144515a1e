/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same record with all payloads unpacked: what packs the whole file afterwards does better without the small frames'
 * own packing. Bytes that are no frame stay as they are.
 *
 *     unpack RECORD OUT
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "coordinator/record/format.h"

struct bytes {
	uint8_t *list;
	size_t length;
};

static int read_file(const char *path, struct bytes *bytes)
{
	FILE *file = fopen(path, "rb");
	size_t capacity = 1 << 20;
	int error = 0;

	if (!file)
		return -errno;
	bytes->length = 0;
	bytes->list = malloc(capacity);
	while (bytes->list) {
		size_t count =
			fread(bytes->list + bytes->length, 1, capacity - bytes->length, file);

		bytes->length += count;
		if (bytes->length < capacity)
			break;
		uint8_t *larger = realloc(bytes->list, capacity * 2);

		if (!larger)
			free(bytes->list);
		bytes->list = larger;
		capacity *= 2;
	}
	if (!bytes->list)
		error = -ENOMEM;
	else if (ferror(file))
		error = -EIO;
	fclose(file);
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
	int error = read_file(argv[1], &record);

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
	free(record.list);
	free(payload);
	return written ? 0 : 1;
}
