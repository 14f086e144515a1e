/* SPDX-License-Identifier: Apache-2.0 */
/* What sheets.c keeps, for sheets_text.c and sheets_json.c. */
#ifndef SLOWRANK_COORDINATOR_REPORT_SHEETS_INTERNAL_H
#define SLOWRANK_COORDINATOR_REPORT_SHEETS_INTERNAL_H

#include "coordinator/report/sheets.h"

/* Levels of blocks one after the other, as shares of their time; NAN: it was not there. */
struct kept_sheet {
	struct gate_sheet sheet;
	bool explained;
	struct explanation why;
	double progress;
	unsigned at, signal_count; /* the sheet's block is signal[at] */
	float signal[SHEET_SIGNAL];
};

/* Of a rank, or of transfers. */
struct sheet_subject {
	uint32_t kept; /* + 1; 0: none */
	unsigned recent_count;
	uint64_t last_step;	    /* of the latest */
	float recent[SHEET_BEFORE]; /* the oldest first */
};

struct report_sheets {
	struct sheets_wish wish;
	struct sheet_subject *subjects; /* transfers, then by rank */
	size_t subject_end, subject_capacity;
	size_t seen; /* subjects that had a sheet */
	struct kept_sheet **kept;
	size_t kept_count;
	size_t least;	/* of these, the one that came least far, once there are SHEETS_MAX */
	bool no_memory; /* for some of them */
};

/* By rank, then transfers; NULL: no more. *next begins with 0. */
const struct kept_sheet *report_sheets_next(const struct report_sheets *sheets, size_t *next);

#endif
