/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why ranks were named, or not: keeps of the judge's sheets (analysis/detect/gates.h) those that somebody
 * asks for, and writes them. Bounded: of each rank one sheet, of so many ranks. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_SHEETS_H
#define SLOWRANK_COORDINATOR_REPORT_SHEETS_H

#include "analysis/detect/gates.h"
#include "analysis/explain/explain.h"
#include "coordinator/report/json_writer.h"
#include "coordinator/report/model.h"

enum {
	SHEETS_MAX = 1024, /* ranks; those that came furthest */
	SHEET_BEFORE = 8,  /* blocks of the signal up to the sheet's, with it; */
	SHEET_SIGNAL = 16, /* and all */
};

struct sheets_wish {
	bool all;
	uint32_t rank; /* else: it alone; GATE_OF_TRANSFERS: transfers */
	bool at_step;  /* the block of this step; else the one in which it came furthest */
	uint64_t step;
};

/* "all", "transfers", "RANK" or either of these with ":STEP". False: nothing of that. */
bool report_sheets_parse(const char *text, struct sheets_wish *wish);

/* NULL: no memory. */
struct report_sheets *report_sheets_create(const struct sheets_wish *wish);
void report_sheets_destroy(struct report_sheets *sheets); /* NULL is fine */

/* For judge_watch_sheets(); the context is a struct report_sheets. */
void report_sheets_take(
	void *context, const struct gate_sheet *sheet, const struct explanation *why);

/* The sheet that is kept of a rank; NULL: none. */
const struct gate_sheet *report_sheets_of(const struct report_sheets *sheets, uint32_t rank);
/* What the delay on that sheet is made of; NULL: not known. */
const struct explanation *report_sheets_why(const struct report_sheets *sheets, uint32_t rank);

/* Of one rank all, of several a line each. */
void report_sheets_text(const struct report_sheets *sheets, FILE *out);
/* The object "explain". */
void report_sheets_json(struct json_writer *writer, const struct report_sheets *sheets);

#endif
