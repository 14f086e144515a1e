/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stretch of bytes in a file, behind a head that tells whether it is whole: of the record and of the spool. All
 * numbers are little-endian. No state; any thread.
 */
#ifndef SLOWRANK_PROBE_WIRE_FRAME_H
#define SLOWRANK_PROBE_WIRE_FRAME_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <zlib.h>

/* Head: magic 4, length of the payload 4, crc 4, stamp 8 (when it was received, or where it begins). */
enum { FRAME_HEAD_BYTES = 20 };

static inline void frame_put_u32(uint8_t *out, uint32_t value)
{
	value = htole32(value);
	memcpy(out, &value, sizeof(value));
}

static inline void frame_put_u64(uint8_t *out, uint64_t value)
{
	value = htole64(value);
	memcpy(out, &value, sizeof(value));
}

static inline uint32_t frame_get_u32(const uint8_t *in)
{
	uint32_t value;

	memcpy(&value, in, sizeof(value));
	return le32toh(value);
}

static inline uint64_t frame_get_u64(const uint8_t *in)
{
	uint64_t value;

	memcpy(&value, in, sizeof(value));
	return le64toh(value);
}

/* The checksum covers everything of a frame but itself. payload may be NULL when length is 0. */
static inline uint32_t frame_crc(const uint8_t *head, const void *payload, size_t length)
{
	uLong crc = crc32(0, head, 8);

	crc = crc32(crc, head + 12, 8);
	return (uint32_t)(length ? crc32(crc, payload, (uInt)length) : crc);
}

static inline void frame_write_head(uint8_t head[FRAME_HEAD_BYTES], uint32_t magic, uint64_t stamp,
	const void *payload, size_t length)
{
	frame_put_u32(head, magic);
	frame_put_u32(head + 4, (uint32_t)length);
	frame_put_u64(head + 12, stamp);
	frame_put_u32(head + 8, frame_crc(head, payload, length));
}

#endif
