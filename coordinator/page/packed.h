/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes for a script: deflated (RFC 1950), also as base64 in a JSON string; a browser's DecompressionStream reads them. */
#ifndef SLOWRANK_COORDINATOR_PAGE_PACKED_H
#define SLOWRANK_COORDINATOR_PAGE_PACKED_H

#include <stddef.h>

#include "coordinator/report/json_writer.h"

/* Returns 0 or -ENOMEM. The caller frees what is packed. */
int packed_make(const void *bytes, size_t length, unsigned char **packed, size_t *packed_length)
	__attribute__((warn_unused_result));

/* Writes what is packed. Returns 0 or -ENOMEM: then nothing is written. */
int packed_json(struct json_writer *writer, const char *key, const unsigned char *packed,
	size_t length) __attribute__((warn_unused_result));

#endif
