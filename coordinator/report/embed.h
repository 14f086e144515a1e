/* SPDX-License-Identifier: Apache-2.0 */
/* A page of ours with JSON in it, where it says "@DATA@". */
#ifndef SLOWRANK_COORDINATOR_REPORT_EMBED_H
#define SLOWRANK_COORDINATOR_REPORT_EMBED_H

#include <stdio.h>

/* Writes it and flushes. Returns 0, or why a write failed. */
int embed_write(const char *page, const char *json, size_t length, FILE *out)
	__attribute__((warn_unused_result));

#endif
