/* SPDX-License-Identifier: Apache-2.0 */
/* The end of writing a report: did all of it get there, and if not, why. One thread per FILE. */
#ifndef SLOWRANK_COORDINATOR_REPORT_FLUSH_H
#define SLOWRANK_COORDINATOR_REPORT_FLUSH_H

#include <stdio.h>

/*
 * Flushes out. Returns 0, or a negative errno when this or an earlier write failed: the latest
 * reason since the caller set errno to 0, before its first write; -EIO when there is none.
 */
int report_flush(FILE *out) __attribute__((warn_unused_result));

#endif
