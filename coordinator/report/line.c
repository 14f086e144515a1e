/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/line.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "coordinator/report/decimal.h"
#include "coordinator/report/utf8.h"

enum { RANGES_SHOWN = 8 };

void line_init(struct line *line, char *text, size_t capacity)
{
	assert(capacity > 0);
	*line = (struct line){.text = text, .capacity = capacity};
	text[0] = '\0';
}

void line_add(struct line *line, const char *format, ...)
{
	size_t room = line->capacity - line->used;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line->text + line->used, room, format, arguments);
	va_end(arguments);
	if (length > 0)
		line->used += (size_t)length < room ? (size_t)length : room - 1;
}

void line_add_outside(struct line *line, const char *text)
{
	if (!text)
		return;
	utf8_copy_printable(line->text + line->used, line->capacity - line->used, text);
	while (line->text[line->used])
		line->used++;
}

void line_add_decimal(struct line *line, double value, unsigned decimals)
{
	char text[DECIMAL_LENGTH];

	line_add(line, "%s", isfinite(value) ? decimal_format(value, decimals, text) : "?");
}

void line_add_ms(struct line *line, double ms)
{
	bool small = fabs(ms) >= 0.005 && fabs(ms) < 0.95;

	line_add_decimal(line, ms, small ? 2 : 1);
}

void line_add_ranks(struct line *line, const uint32_t *ranks, size_t listed, size_t total)
{
	size_t ranges = 0, i = 0;

	if (total == 0 || listed == 0) {
		line_add(line, total ? "%zu ranks" : "no rank", total);
		return;
	}
	line_add(line, total == 1 ? "rank " : "ranks ");
	while (i < listed && ranges < RANGES_SHOWN) {
		size_t last = i;

		while (last + 1 < listed && ranks[last + 1] == ranks[last] + 1)
			last++;
		if (last == i + 1) /* "0, 1" reads better than "0-1" */
			last = i;
		line_add(line, "%s%" PRIu32, ranges ? ", " : "", ranks[i]);
		if (last > i)
			line_add(line, "-%" PRIu32, ranks[last]);
		i = last + 1;
		ranges++;
	}
	if (i < total)
		line_add(line, " and %zu more", total - i);
}
