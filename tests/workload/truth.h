/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The truth log: what was really done to the job, as JSON lines in one file that all ranks
 * append to in whole lines. Lines are kept in memory until truth_flush, so that writing does
 * not disturb the steps. One thread.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_TRUTH_H
#define SLOWRANK_TESTS_WORKLOAD_TRUTH_H

#include <stddef.h>

struct truth;

/* Opens path for appending; NULL gives a log that keeps nothing. Returns 0 or a negative errno. */
int truth_create(const char *path, struct truth **truth) __attribute__((warn_unused_result));
void truth_destroy(struct truth *truth); /* flushes; NULL is fine */

/* Adds one line; the newline is added. A line that does not fit in memory is flushed first. */
void truth_add(struct truth *truth, const char *format, ...) __attribute__((format(printf, 2, 3)));
void truth_flush(struct truth *truth);

#endif
