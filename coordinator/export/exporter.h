/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records on their way into a file of one of the formats: a file is written whole beside its place, or not at all. Calls
 * come in the order of the functions here; after an error, only exporter_close(). One thread.
 */
#ifndef SLOWRANK_COORDINATOR_EXPORT_EXPORTER_H
#define SLOWRANK_COORDINATOR_EXPORT_EXPORTER_H

#include "coordinator/export/table.h"
#include "probe/wire/message.h"

enum export_format { EXPORT_CSV = 0, EXPORT_SQLITE = 1, EXPORT_PERFETTO = 2, EXPORT_FORMAT_NR };
extern const char *const export_format_names[EXPORT_FORMAT_NR];

struct export_choice {
	enum export_format format;
	enum export_table table; /* of CSV, which has one */
	struct export_selection selection;
};

/* The report of a record is needed before its steps: exporter_begin() takes it. */
static inline bool export_needs_report_first(enum export_format format)
{
	return format == EXPORT_PERFETTO;
}

struct exporter;

/*
 * path NULL: standard output, which a database cannot be written to. choice must outlive it. Returns 0 or a negative
 * errno, and then one line is in why.
 */
int exporter_open(const struct export_choice *choice, const char *path, struct exporter **exporter,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));
/* NULL is fine. What was not finished is removed. */
void exporter_close(struct exporter *exporter);

/* A record, which must stay until its end; model NULL where it is not needed first. Those below return 0 or a negative errno. */
int exporter_begin(struct exporter *exporter, const struct export_record *record,
	const struct report_model *model) __attribute__((warn_unused_result));
/* Its job steps, in order; the end of each stretch of batches; and what its report says. */
int exporter_step(struct exporter *exporter, const struct judged_step *judged,
	int64_t unix_offset_ns) __attribute__((warn_unused_result));
int exporter_end_stretch(struct exporter *exporter) __attribute__((warn_unused_result));
int exporter_end(struct exporter *exporter, const struct report_model *model)
	__attribute__((warn_unused_result));

/* The file takes its place. *left_out: slices for which a trace had no track. On failure one line is in why. */
int exporter_finish(struct exporter *exporter, uint64_t *left_out,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));

#endif
