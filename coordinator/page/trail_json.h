/* SPDX-License-Identifier: Apache-2.0 */
/* What of a trail is JSON: docs/page.md. Any thread, as long as nobody changes it meanwhile. */
#ifndef SLOWRANK_COORDINATOR_PAGE_TRAIL_JSON_H
#define SLOWRANK_COORDINATOR_PAGE_TRAIL_JSON_H

#include "coordinator/page/trail.h"
#include "coordinator/report/json_writer.h"
#include "coordinator/report/model.h"

double trail_mean_step_ns(const struct trail *trail);

/* What its parts are, as an object without a key. layout: what they are asked for by; shown: of which tracks there are parts. */
void trail_index_json(struct json_writer *writer, const struct trail *trail, const char *layout,
	const bool shown[TRACKS_MAX]);

/* Arrays without a key: the map's rows in an order (their indices), columns from one to another, included. */
void trail_rows_json(struct json_writer *writer, const struct trail *trail, const uint32_t *order,
	const struct report_model *model);
void trail_columns_json(struct json_writer *writer, const struct trail *trail, size_t first,
	size_t last, int64_t unix_offset_ns);

/* A step that is kept whole, as an object without a key. */
void trail_walk_json(
	struct json_writer *writer, const struct walk_step *walk, int64_t unix_offset_ns);

#endif
