/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may reach a terminal of what slowrank says: names in it are a target's choice. Text, line ends, tabs and
 * colours pass; all other control characters become '?'. State is passed: a sequence may be cut between two calls.
 */
#ifndef SLOWRANK_PROBE_TERMINAL_TEXT_H
#define SLOWRANK_PROBE_TERMINAL_TEXT_H

#include <stddef.h>

enum { TERMINAL_TEXT_HELD_MAX = 16 }; /* bytes of one sequence; a longer one is none of ours */

struct terminal_text {
	char held[TERMINAL_TEXT_HELD_MAX]; /* the start of one that may be fine */
	size_t held_length;
};

/* Returns the length of what is in out, which has room for length + TERMINAL_TEXT_HELD_MAX bytes. */
size_t terminal_text_clean(struct terminal_text *state, const char *text, size_t length, char *out);

/* From here on all that this process, and what it forks, prints to stdout and stderr is cleaned. For main(), first. */
void terminal_text_guard(void);

#endif
