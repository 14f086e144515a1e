/* SPDX-License-Identifier: Apache-2.0 */
/* A report as a file: written beside its place and renamed, so that readers see all or nothing. */
#ifndef SLOWRANK_COORDINATOR_REPORT_FILE_H
#define SLOWRANK_COORDINATOR_REPORT_FILE_H

#include <stdio.h>

#include "coordinator/report/folded.h"
#include "coordinator/report/model.h"

enum report_format {
	REPORT_TEXT = 0,
	REPORT_JSON = 1,
	REPORT_FOLDED = 2, /* no mark of slowrank is in it: over an empty file only */
	REPORT_FLAME = 3,
	REPORT_PAGE = 4,
};

/* How a page begins, by which one is known again. */
#define REPORT_PAGE_MARK "<!DOCTYPE html>\n<!-- slowrank.page/1 -->\n"

struct trail;

struct report_choice {
	enum report_format format;
	bool colour;		   /* of text */
	enum folded_of of;	   /* of folded stacks */
	struct stacks_pair stacks; /* of folded stacks and flame graphs: from stacks_find() */
	/* Of a page, which shows the job's course, too: page_write(), and what it takes. */
	int (*write_page)(const struct report_model *model, const struct trail *trail, FILE *out);
	const struct trail *trail;
};

/* Writes the report and flushes. Returns 0, -ENOMEM, or why a write failed (-ENOSPC, ...). */
int report_write(const struct report_model *model, const struct report_choice *choice, FILE *out)
	__attribute__((warn_unused_result));

/*
 * Writes the report to path, over an earlier report only; into a device or pipe as it is. Returns 0 or a negative
 * errno with one line in why; then the file that was there before still is.
 */
int report_file_write(const struct report_model *model, const char *path,
	const struct report_choice *choice, char why[WIRE_DETAIL_LENGTH_MAX + 1])
	__attribute__((warn_unused_result));

/* Whether a report could be written to path now; as above, and leaves nothing. */
int report_file_check(const char *path, char why[WIRE_DETAIL_LENGTH_MAX + 1])
	__attribute__((warn_unused_result));

#endif
