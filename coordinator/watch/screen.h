/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A view as the lines of a terminal of a given size: incidents on top, ranks and nodes below. And the bytes that make a
 * terminal show them where it shows other ones: of the lines that differ alone. Pure; one thread.
 */
#ifndef SLOWRANK_COORDINATOR_WATCH_SCREEN_H
#define SLOWRANK_COORDINATOR_WATCH_SCREEN_H

#include "coordinator/watch/view.h"

enum {
	SCREEN_ROWS_MAX = 256,
	SCREEN_COLUMNS_MAX = 512,
	SCREEN_LINE_LENGTH = 4 * SCREEN_COLUMNS_MAX + 1, /* of UTF-8 */
};

enum screen_style {
	SCREEN_PLAIN = 0,
	SCREEN_BOLD = 1,
	SCREEN_DIM = 2,
	SCREEN_RED = 3,	     /* late by itself, so that others waited */
	SCREEN_BOLD_RED = 4, /* named by an incident that goes on */
	SCREEN_BLUE = 5,     /* waits for others */
	SCREEN_REVERSE = 6,
	SCREEN_STYLE_NR
};

struct screen_line {
	enum screen_style style;
	char text[SCREEN_LINE_LENGTH];
};

struct screen {
	size_t rows, columns; /* the terminal's, cut to the largest */
	size_t line_count;    /* at most rows */
	struct screen_line lines[SCREEN_ROWS_MAX];
};

/* What is shown beside the view. */
struct screen_state {
	const char *source; /* where it is from */
	const char *
		note; /* in place of the time: "ended", why there is nothing new; "" where all is well */
	const char *prompt; /* what is asked for, with what was typed; NULL: nothing */
	bool by_node;	    /* nodes alone */
};

/* view NULL: there is none yet. */
void screen_draw(struct screen *screen, size_t rows, size_t columns, const struct watch_view *view,
	const struct watch_wish *wish, const struct screen_state *state);

/* From what is shown to what is to be shown. before NULL: nothing is known of it, all is written. Returns 0 or why a write failed. */
int screen_update(const struct screen *before, const struct screen *now, bool colour, FILE *out)
	__attribute__((warn_unused_result));

#endif
