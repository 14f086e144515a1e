/* SPDX-License-Identifier: Apache-2.0 */
/* A report as a file: written beside its place and renamed, so that readers see all or nothing. */
#ifndef SLOWRANK_COORDINATOR_REPORT_FILE_H
#define SLOWRANK_COORDINATOR_REPORT_FILE_H

#include <stdbool.h>

#include "coordinator/report/model.h"

/*
 * Writes the report as JSON or text to path, over an earlier report only; into a device or pipe as
 * it is. Returns 0 or a negative errno with one line in why; then the file that was there before still is.
 */
int report_file_write(const struct report_model *model, const char *path, bool json,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));

/* Whether a report could be written to path now; as above, and leaves nothing. */
int report_file_check(const char *path, char why[WIRE_DETAIL_LENGTH_MAX + 1])
	__attribute__((warn_unused_result));

#endif
