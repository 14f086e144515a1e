/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a record, shared by writer and reader; docs/record.md explains them. All numbers
 * are little-endian. Private to coordinator/record.
 */
#ifndef SLOWRANK_COORDINATOR_RECORD_FORMAT_H
#define SLOWRANK_COORDINATOR_RECORD_FORMAT_H

#include "probe/wire/frame.h"
#include "probe/wire/message.h"

#define RECORD_MAGIC "slowrank"

enum {
	RECORD_VERSION = 1,

	/* Header: magic 8, version 4, length 4, created 8, created_unix 8, program 32, crc 4. */
	RECORD_HEADER_BYTES = 68,
	RECORD_HEADER_BYTES_MAX = 4096,
	RECORD_PROGRAM_BYTES = 32,
	RECORD_PROGRAM_OFFSET = 32,

	/* Frame: head (probe/wire/frame.h), payload. */
	RECORD_FRAME_HEAD_BYTES = FRAME_HEAD_BYTES,
	RECORD_PAYLOAD_BYTES_MAX = WIRE_MESSAGE_LENGTH_MAX,
	RECORD_MAGIC_BYTES = 4,

	/* Payload of the end frame: frames written 8, frames lost 8. */
	RECORD_END_BYTES = 16,
};

/* Unlikely in payloads: the first byte is none that msgpack uses. Read as little-endian numbers. */
#define RECORD_FRAME_MAGIC UINT32_C(0xf152c1c1) /* c1 c1 52 f1 */
#define RECORD_END_MAGIC UINT32_C(0xe152c1c1)	/* c1 c1 52 e1 */

#endif
