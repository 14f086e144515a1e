/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes for a script: deflated (RFC 1950), as base64 in a JSON string; a browser's DecompressionStream reads them. */
#ifndef SLOWRANK_COORDINATOR_PAGE_PACKED_H
#define SLOWRANK_COORDINATOR_PAGE_PACKED_H

#include <stddef.h>

#include "coordinator/report/json_writer.h"

/* Returns 0 or -ENOMEM: then nothing is written. */
int packed_json(struct json_writer *writer, const char *key, const void *bytes, size_t length)
	__attribute__((warn_unused_result));

#endif
