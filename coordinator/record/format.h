/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a record, shared by writer and reader; docs/record.md explains them. All numbers
 * are little-endian. Private to coordinator/record.
 */
#ifndef SLOWRANK_COORDINATOR_RECORD_FORMAT_H
#define SLOWRANK_COORDINATOR_RECORD_FORMAT_H

#include "coordinator/record/kind.h"
#include "probe/wire/frame.h"
#include "probe/wire/message.h"

#define RECORD_MAGIC "slowrank"

enum {
	RECORD_VERSION = 2,
	RECORD_VERSION_PLAIN = 1, /* no codec in front of payloads, batches alone */

	/* Header: magic 8, version 4, length 4, created 8, created_unix 8, program 32, crc 4. */
	RECORD_HEADER_BYTES = 68,
	RECORD_HEADER_BYTES_MAX = 4096,
	RECORD_PROGRAM_BYTES = 32,
	RECORD_PROGRAM_OFFSET = 32,

	/* Frame: head (probe/wire/frame.h), payload. */
	RECORD_FRAME_HEAD_BYTES = FRAME_HEAD_BYTES,
	RECORD_CODEC_BYTES = 1, /* in front of a payload: enum record_codec */
	RECORD_PAYLOAD_BYTES_MAX = RECORD_CODEC_BYTES + WIRE_MESSAGE_LENGTH_MAX,
	RECORD_MAGIC_BYTES = 4,

	/* Payload of the end frame: frames written 8, frames lost 8. */
	RECORD_END_BYTES = 16,

	/* Payload of a gap, unpacked: batches 8, the receive times of the first 8 and of the last 8. */
	RECORD_GAP_BYTES = 24,
};

/* What a payload is packed with. */
enum record_codec { RECORD_CODEC_NONE = 0, RECORD_CODEC_ZSTD = 1 };

/*
 * Unlikely in payloads: the first byte is none that msgpack uses. Read as little-endian numbers; the last byte is
 * the kind of the frame: enum record_kind, or the end.
 */
#define RECORD_MAGIC_OF(kind) (UINT32_C(0x0052c1c1) | (uint32_t)(kind) << 24) /* c1 c1 52 kind */
#define RECORD_END_MAGIC RECORD_MAGIC_OF(0xe1)

#endif
