/* SPDX-License-Identifier: Apache-2.0 */
/* A trail as a script reads it: docs/page.md. Any thread, as long as nobody changes it meanwhile. */
#ifndef SLOWRANK_COORDINATOR_PAGE_TRAIL_JSON_H
#define SLOWRANK_COORDINATOR_PAGE_TRAIL_JSON_H

#include "coordinator/page/trail.h"
#include "coordinator/report/json_writer.h"
#include "coordinator/report/model.h"

/* Which rows the map has: "row_is" and "rows", members of an object. Returns 0 or -ENOMEM. */
int trail_rows_json(struct json_writer *writer, const struct trail *trail,
	const struct report_model *model) __attribute__((warn_unused_result));

/* Of which of the trail's tracks the course is shown. */
void trail_show(
	const struct trail *trail, const struct report_model *model, bool shown[TRACKS_MAX]);

/* All else, as an object without a key. Returns 0 or -ENOMEM: then what was written is no whole JSON. */
int trail_json(struct json_writer *writer, const struct trail *trail, int64_t unix_offset_ns,
	const bool shown[TRACKS_MAX]) __attribute__((warn_unused_result));

#endif
