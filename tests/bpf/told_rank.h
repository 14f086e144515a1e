/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program under test reads one order a line (a word and up to four numbers) and answers each
 * with one number. The orders are in told_rank.c.
 */
#ifndef TESTS_BPF_TOLD_RANK_H
#define TESTS_BPF_TOLD_RANK_H

#include <stdint.h>

enum { TOLD_ARGUMENTS = 4, TOLD_COMMUNICATORS = 8, TOLD_ORDER_BYTES = 256 };

/* Each answers the time the work took, in ns. */
int64_t told_touch_anonymous(int64_t page_count);
int64_t told_touch_file(const char *path, int64_t page_count); /* the number of major faults */
int64_t told_read_file(const char *path, int64_t page_count);

int64_t told_now_ns(void);

#endif
