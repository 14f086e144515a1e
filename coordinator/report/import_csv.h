/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a what-if trace: CSV with a header line, plain or gzip, one operation a line. Nothing in
 * it is trusted: lines, numbers and counts are bounded. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_IMPORT_CSV_H
#define SLOWRANK_COORDINATOR_REPORT_IMPORT_CSV_H

#include "coordinator/report/import_pairs.h"
#include "probe/wire/message.h"

struct import_row {
	uint64_t step;
	uint32_t rank, replica, stage;
	int32_t model_chunk;	  /* in the model; -1: none */
	uint32_t sequence;	  /* as the trace numbers it */
	int64_t start_ns, end_ns; /* from the step's start */
	uint8_t kind;		  /* enum trace_kind */
};

struct import_rows {
	struct import_row *rows;
	size_t count, capacity;
	uint64_t unknown; /* operations of a type that is not known: left out */
	uint32_t stage_count;
};

/*
 * Reads a whole file. Returns 0; -EBADMSG when it is no such trace, -EMSGSIZE when it has too many
 * operations, or the negative errno of reading; why gets one line. Free with import_rows_fini()
 * in any case.
 */
int import_rows_read(const char *path, struct import_rows *rows,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));
void import_rows_fini(struct import_rows *rows);

#endif
