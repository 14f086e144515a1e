/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/embed.h"

#include <errno.h>
#include <string.h>

#include "coordinator/report/flush.h"

/* JSON for a script element: '<' is in strings alone, and there it neither ends the element nor begins a comment. */
static void write_data(const char *json, size_t length, FILE *out)
{
	const char *end = json + length;

	while (json < end) {
		const char *next = memchr(json, '<', (size_t)(end - json));

		fwrite(json, 1, (size_t)((next ? next : end) - json), out);
		if (!next)
			return;
		fputs("\\u003c", out);
		json = next + 1;
	}
}

int embed_write(const char *page, const char *json, size_t length, FILE *out)
{
	static const char place[] = "@DATA@";
	const char *data = strstr(page, place);

	errno = 0; /* for report_flush() */
	fwrite(page, 1, (size_t)(data - page), out);
	write_data(json, length, out);
	fputs(data + strlen(place), out);
	return report_flush(out);
}
