/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal that a program draws on: its size, keys as they are pressed, and its state as it was when the program ends,
 * by a signal too. Plain escape sequences of every terminal since the VT100's, and two of xterm's that others ignore. There
 * is one for the process.
 */
#ifndef SLOWRANK_COORDINATOR_WATCH_TERMINAL_H
#define SLOWRANK_COORDINATOR_WATCH_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Takes the terminal of standard output; keys are standard input's, where that is a terminal. Returns 0 or a negative errno. */
int terminal_enter(void) __attribute__((warn_unused_result));
/* Gives it back as it was. Fine when it was not taken. */
void terminal_leave(void);

void terminal_get_size(size_t *rows, size_t *columns);

/* A signal that ends the process came; 0: none. The caller leaves, and ends by it: terminal_end_by(). */
int terminal_signal(void);
void terminal_end_by(int signal) __attribute__((noreturn));

/* Since the last call something else was on the screen, or its size has changed. */
bool terminal_take_change(void);

/* Waits so long for a key or a signal. Returns a character, or 0: there is none. Sequences of keys such as arrows are none; Escape is. */
int terminal_key(int timeout_ms);
/* A key was pressed, or a signal came, which nobody has taken. */
bool terminal_is_wanted(void);

#endif
