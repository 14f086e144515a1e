/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as a user writes them: bytes, or with K, M, G or T, each 1,024 times the one before. Pure. */
#ifndef SLOWRANK_PROBE_CONFIG_SIZE_H
#define SLOWRANK_PROBE_CONFIG_SIZE_H

#include <stdint.h>

/* "10G", "512M", "1.5G", "0". Returns 0, or -EINVAL: it is none, or more than an int64_t has. */
int size_parse(const char *text, uint64_t *bytes) __attribute__((warn_unused_result));

/* What a record may have: "0", no limit, or a size that leaves room for what must be kept. */
enum { RECORD_BYTES_LEAST = 1024 * 1024 };
#define RECORD_MAX_HELP                                                                            \
	"  --record-max SIZE   what the record may take of the disk, e.g. 2G: beyond, it keeps "   \
	"its\n"                                                                                    \
	"                      newest hours and what is around incidents, and sums of the rest\n"  \
	"                      (default: 10G, or a quarter of the free space; 0: no limit)\n"
int record_max_parse(const char *text, uint64_t *bytes) __attribute__((warn_unused_result));

#endif
