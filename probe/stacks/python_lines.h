/* SPDX-License-Identifier: Apache-2.0 */
/* Which line an instruction of a code object belongs to, by the tables that versions of CPython have for it. Pure. */
#ifndef SLOWRANK_PROBE_STACKS_PYTHON_LINES_H
#define SLOWRANK_PROBE_STACKS_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "probe/stacks/python_layout.h"

/*
 * instruction: bytes from the begin of the code; below 0: before the first one. Returns the line, or 0 when the table
 * does not tell: the instruction has none, or the table ends before it or is damaged.
 */
int32_t python_line(enum python_lines_format format, const uint8_t *table, size_t length,
	int32_t first_line, int64_t instruction);

#endif
