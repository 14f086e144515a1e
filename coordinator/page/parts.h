/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a page shows of a job's course, in parts that it asks for by name when they are in sight: the map as tiles of a pyramid,
 * whose levels have the largest of 4 rows of the one below; columns, rows, single ranks, single steps. Each is deflated (RFC 1950).
 * One thread at a time.
 *
 *   rows                            what the map's rows are
 *   columns/FIRST-LAST              what its columns are
 *   heat/LEVEL/FIRST-LAST/FIRST-LAST  some rows of a level (0: the map's own), and some columns
 *   track/RANK/FIRST-LAST           a rank's course, in some columns
 *   walk/STEP                       a step that is kept whole
 *
 * Numbers are counted from 0, and the last one is included.
 */
#ifndef SLOWRANK_COORDINATOR_PAGE_PARTS_H
#define SLOWRANK_COORDINATOR_PAGE_PARTS_H

#include "coordinator/page/trail.h"
#include "coordinator/report/json_writer.h"
#include "coordinator/report/model.h"

enum {
	PARTS_TILE = 256,	  /* rows, and columns, of a tile at most */
	PARTS_LEVEL_MAX = 3,	  /* 64 rows are one: then HEAT_ROWS_MAX are one tile's */
	PARTS_LAYOUT_LENGTH = 48, /* with its 0 */
};

/* The map's rows, as long as the layout stays. */
struct parts_rows {
	uint32_t *order; /* by their first ranks */
	uint8_t *named;	 /* in that order: an incident names a rank of it */
	char *json;
	size_t json_length;
};

struct parts {
	const struct trail *trail; /* the caller's */
	/* Who has parts of another layout has to drop them: rows, columns or whom incidents name are others. */
	char layout[PARTS_LAYOUT_LENGTH];
	struct parts_rows rows;
	bool shown[TRACKS_MAX]; /* of which tracks there are parts */
	int64_t unix_offset_ns;
};

/* Asks the model about all but the rows. run: what tells this layout from another job's at the same address. */
void parts_begin(struct parts *parts, const struct trail *trail, const struct report_model *model,
	const char *run);
/* Asks it about the rows. Returns 0 or -ENOMEM. */
int parts_take_rows(struct parts *parts, const struct report_model *model)
	__attribute__((warn_unused_result));
void parts_fini(struct parts *parts); /* zero-initialised is fine */

struct part {
	unsigned char *bytes;
	size_t length;
	bool finished; /* of this layout it stays as it is */
};

/* Returns 0, -EINVAL for what is no name, -ENOENT for what there is none of, -ENOMEM. The caller frees the bytes. */
int parts_make(const struct parts *parts, const char *name, struct part *part)
	__attribute__((warn_unused_result));

/* All of them as an object without a key: each in base64, by its name, as a page from disk asks for them. Returns 0 or -ENOMEM. */
int parts_json(struct json_writer *writer, const struct parts *parts)
	__attribute__((warn_unused_result));

#endif
