/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table as CSV (RFC 4180): a line of column names, lines that end with CR LF. What is not known is an empty field. A
 * text that a spreadsheet would take for a formula has an apostrophe before it. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_EXPORT_CSV_H
#define SLOWRANK_COORDINATOR_EXPORT_CSV_H

#include <stdio.h>

#include "coordinator/export/table.h"

struct csv {
	FILE *out;	      /* the caller's */
	const char *line_end; /* "\r\n"; on a terminal "\n" */
	enum export_table table;
};

/* The line of names. Return 0 or a negative errno. */
int csv_begin(const struct csv *csv) __attribute__((warn_unused_result));
/* Of struct export_sink: rows of other tables are passed over. */
int csv_put(void *csv, enum export_table table, const struct export_value *values)
	__attribute__((warn_unused_result));

#endif
