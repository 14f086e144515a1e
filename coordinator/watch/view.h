/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one reader wants to see of a table: its incidents, and of ranks and nodes those that are the latest, so that it
 * fits a screen and a line of the network at any size of the job. As plain values; and as text, one row a line, fields
 * with tabs between them (docs/page.md), which is how a coordinator tells it. Pure; any thread.
 */
#ifndef SLOWRANK_COORDINATOR_WATCH_VIEW_H
#define SLOWRANK_COORDINATOR_WATCH_VIEW_H

#include <stdio.h>

#include "coordinator/export/selection.h"
#include "coordinator/watch/table.h"

enum {
	WATCH_INCIDENTS_MAX = 256,
	WATCH_ROWS_MAX = 256, /* of ranks, and of nodes */
	WATCH_HOST_LENGTH = 64,
	WATCH_WORDS_LENGTH = 256,
};

/* Zero-initialised: all of it. */
struct watch_wish {
	char ranks_text[WATCH_WORDS_LENGTH]; /* "0-7,12"; "": all */
	char host[WATCH_WORDS_LENGTH];	     /* a pattern as of a shell; "": all */
	bool named;			     /* ranks that open incidents name, and no others */
	struct export_selection selection;   /* ranks_text's */
};

/* NULL: as it was before. False: it is none, or too long; the wish is as it was. */
bool watch_wish_set(struct watch_wish *wish, const char *ranks, const char *host);

struct watch_row {
	struct watch_rank rank; /* its host is none: see below */
	char host[WATCH_HOST_LENGTH];
};

struct watch_node {
	char host[WATCH_HOST_LENGTH];
	uint32_t rank_count, first_rank, last_rank;
	uint32_t worst_rank, named; /* so many are */
	float own_ms, held_ms;	    /* the worst one's; the largest */
};

struct watch_view {
	uint64_t version;
	struct watch_job job;
	size_t incident_total; /* that the wish allows; of all there are: */
	size_t incidents_elsewhere;
	size_t incident_count;
	struct watch_incident incidents[WATCH_INCIDENTS_MAX]; /* the worst first */
	size_t rank_total, rank_count;
	struct watch_row
		ranks[WATCH_ROWS_MAX]; /* by rank where these are all, else the latest first */
	size_t node_total, node_count;
	struct watch_node nodes[WATCH_ROWS_MAX]; /* the latest first */
};

/* Returns 0 or -ENOMEM. */
int watch_view_take(struct watch_view *view, const struct watch_table *table,
	const struct watch_wish *wish, uint64_t version) __attribute__((warn_unused_result));

void watch_view_write(const struct watch_view *view, FILE *out);

/*
 * From what watch_view_write() wrote, perhaps of a newer version, perhaps somebody else: text in it becomes printable, and
 * what does not fit is left out. Changes the text. Returns 0, or -EPROTO: it is none.
 */
int watch_view_read(struct watch_view *view, char *text) __attribute__((warn_unused_result));

#endif
