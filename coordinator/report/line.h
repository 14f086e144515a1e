/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded piece of text that is added to: what does not fit is cut, never overrun. Embedded
 * by its user, who owns the memory. No state of its own; any thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_LINE_H
#define SLOWRANK_COORDINATOR_REPORT_LINE_H

#include <stddef.h>
#include <stdint.h>

struct line {
	char *text; /* always ends with NUL */
	size_t capacity;
	size_t used;
};

void line_init(struct line *line, char *text, size_t capacity); /* capacity > 0 */
void line_add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text from outside: control characters and broken bytes become '?'. NULL adds nothing. */
void line_add_outside(struct line *line, const char *text);

/* A finite number with so many decimals, "?" otherwise. */
void line_add_decimal(struct line *line, double value, unsigned decimals);

/* Milliseconds for people: one decimal, two below 1 ms. */
void line_add_ms(struct line *line, double ms);

/* "rank 2", "ranks 0-3, 8": at most eight ranges, then "and N more". listed of total are in ranks. */
void line_add_ranks(struct line *line, const uint32_t *ranks, size_t listed, size_t total);

#endif
