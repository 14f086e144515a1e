/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is exported as tables: one description of them for all formats that have rows, and who makes the rows.
 * docs/export.md says what each column is. Plain values; any thread.
 */
#ifndef SLOWRANK_COORDINATOR_EXPORT_TABLE_H
#define SLOWRANK_COORDINATOR_EXPORT_TABLE_H

#include "coordinator/export/selection.h"
#include "coordinator/report/model.h"

enum export_table {
	EXPORT_RECORDS = 0,
	EXPORT_RANKS = 1,
	EXPORT_STEPS = 2,
	EXPORT_RANK_STEPS = 3,
	EXPORT_INCIDENTS = 4,
	EXPORT_INCIDENT_RANKS = 5,
	EXPORT_EVIDENCE = 6,
	EXPORT_SOURCES = 7,
	EXPORT_GAPS = 8,
	EXPORT_TABLE_NR
};

enum export_type { EXPORT_INTEGER = 0, EXPORT_REAL = 1, EXPORT_TEXT = 2 };

enum { EXPORT_COLUMNS_MAX = 24 };

struct export_shape {
	const char *name;
	const char *key; /* columns that no two rows have alike, "a, b"; NULL: none */
	size_t column_count;
	struct {
		const char *name;
		enum export_type type;
	} columns[EXPORT_COLUMNS_MAX];
};
const struct export_shape *export_shape(enum export_table table);

/* Of its column's type; known false: not measured, which is neither zero nor "". */
struct export_value {
	bool known;
	union {
		int64_t integer;
		double real;
		const char *text;
	};
};

/* Takes one row at a time. put returns 0 or a negative errno, which ends the export. */
struct export_sink {
	int (*put)(void *context, enum export_table table, const struct export_value *values);
	void *context;
};

/* A record, as it is exported. */
struct export_record {
	uint32_t number; /* from 1, in the order in which they were named */
	const char *path;
	char program[32]; /* that wrote it */
	bool whole;	  /* its end was reached, and nothing is damaged; known at the end */
};

/* The step, and its rows of the ranks that are selected. */
int export_put_step(const struct export_sink *sink, const struct export_record *record,
	const struct export_selection *selection, const struct export_step *step)
	__attribute__((warn_unused_result));

/* Of ranks, what lies in no step that was put. */
int export_put_rest(const struct export_sink *sink, const struct export_record *record,
	const struct export_steps *steps, const struct report_model *model)
	__attribute__((warn_unused_result));

/* All that the report says. */
int export_put_report(const struct export_sink *sink, const struct export_record *record,
	const struct report_model *model) __attribute__((warn_unused_result));

#endif
