/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a record, shared by writer and reader; docs/record.md explains them. All numbers
 * are little-endian. Private to coordinator/record.
 */
#ifndef SLOWRANK_COORDINATOR_RECORD_FORMAT_H
#define SLOWRANK_COORDINATOR_RECORD_FORMAT_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <zlib.h>

#include "probe/wire/message.h"

#define RECORD_MAGIC "slowrank"

enum {
	RECORD_VERSION = 1,

	/* Header: magic 8, version 4, length 4, created 8, created_unix 8, program 32, crc 4. */
	RECORD_HEADER_BYTES = 68,
	RECORD_HEADER_BYTES_MAX = 4096,
	RECORD_PROGRAM_BYTES = 32,
	RECORD_PROGRAM_OFFSET = 32,

	/* Frame: magic 4, length of the payload 4, crc 4, received 8, payload. */
	RECORD_FRAME_HEAD_BYTES = 20,
	RECORD_PAYLOAD_BYTES_MAX = WIRE_MESSAGE_LENGTH_MAX,
	RECORD_MAGIC_BYTES = 4,

	/* Payload of the end frame: frames written 8, frames lost 8. */
	RECORD_END_BYTES = 16,
};

/* Unlikely in payloads: the first byte is none that msgpack uses. Read as little-endian numbers. */
#define RECORD_FRAME_MAGIC UINT32_C(0xf152c1c1) /* c1 c1 52 f1 */
#define RECORD_END_MAGIC UINT32_C(0xe152c1c1)	/* c1 c1 52 e1 */

static inline void record_put_u32(uint8_t *out, uint32_t value)
{
	value = htole32(value);
	memcpy(out, &value, sizeof(value));
}

static inline void record_put_u64(uint8_t *out, uint64_t value)
{
	value = htole64(value);
	memcpy(out, &value, sizeof(value));
}

static inline uint32_t record_get_u32(const uint8_t *in)
{
	uint32_t value;

	memcpy(&value, in, sizeof(value));
	return le32toh(value);
}

static inline uint64_t record_get_u64(const uint8_t *in)
{
	uint64_t value;

	memcpy(&value, in, sizeof(value));
	return le64toh(value);
}

/* The checksum covers everything of a frame but itself. payload may be NULL when length is 0. */
static inline uint32_t record_frame_crc(const uint8_t *head, const void *payload, size_t length)
{
	uLong crc = crc32(0, head, 8);

	crc = crc32(crc, head + 12, 8);
	return (uint32_t)(length ? crc32(crc, payload, (uInt)length) : crc);
}

#endif
