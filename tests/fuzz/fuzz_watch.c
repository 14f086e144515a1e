/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what a coordinator tells `slowrank watch`: what is taken of them is bounded and printable, is drawn, and reads the same again. */
#include <stdio.h>

#include "coordinator/watch/screen.h"
#include "coordinator/watch/view.h"
#include "tests/fuzz/fuzz.h"

static char *write_view(const struct watch_view *view)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	fuzz_require(out);
	watch_view_write(view, out);
	fclose(out);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static struct watch_view view, again;
	static struct screen screen;
	static const struct watch_wish all;
	char *text = strndup((const char *)bytes, length), *first, *second;

	fuzz_require(text);
	if (watch_view_read(&view, text) == 0) {
		first = write_view(&view);
		second = strdup(first);
		fuzz_require(second && watch_view_read(&again, second) == 0);
		free(second);
		second = write_view(&again);
		fuzz_require(strcmp(first, second) == 0);
		free(first);
		free(second);
		screen_draw(&screen, 1 + length % 60, 1 + length % 200, &view, &all,
			&(struct screen_state){.source = "", .note = "", .by_node = length % 2});
		for (size_t i = 0; i < screen.line_count; i++)
			fuzz_require_printable(screen.lines[i].text, strlen(screen.lines[i].text));
	}
	free(text);
	return 0;
}
