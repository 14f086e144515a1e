/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many jobs, by node: which nodes took part in how many of them, and in how many an incident named one of their ranks.
 * Who was a victim does not count. Filled record by record from reports; text and JSON are written of it. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_NODES_NODES_H
#define SLOWRANK_COORDINATOR_NODES_NODES_H

#include <stdio.h>

#include "coordinator/report/model.h"

enum {
	NODES_MAX = 1 << 20, /* more are counted */
	NODES_RECORDS_MAX = 65536,
	NODES_INCIDENTS_MAX = 1 << 20,
};

/* In so many jobs, the node was named so. */
struct node_named {
	uint8_t verdict_class, cause;
	uint32_t jobs;
	uint32_t latest; /* record that was counted, + 1 */
};

struct node {
	char name[STEP_NAME_LENGTH_MAX + 1];
	uint32_t jobs;	     /* that it took part in */
	uint32_t jobs_named; /* and in which it was named, but for the program's own imbalance */
	uint32_t latest, latest_named; /* records that were counted, + 1 */
	struct node_named *named;      /* by class and cause, of which there are few */
	size_t named_count, named_capacity;
};

/* One incident, and where the first rank that it names is. */
struct nodes_incident {
	uint32_t id;
	uint8_t verdict_class, cause;
	bool ended;
	uint64_t unmeasured_since; /* the step; 0: measured until the end */
	double slowdown;
	int64_t onset_unix_ns;
	uint32_t rank, rank_count; /* the first one of so many; none: 0 of them */
	char node[STEP_NAME_LENGTH_MAX + 1];
};

struct nodes_record {
	char *path;
	char job[STEP_NAME_LENGTH_MAX + 1];
	bool readable, whole;
	char why[WIRE_DETAIL_LENGTH_MAX + 1]; /* it is not readable */
	uint32_t rank_count, node_count;
	uint64_t steps;
	int64_t start_unix_ns, end_unix_ns;
	size_t first_incident, incident_count;
};

struct nodes {
	struct nodes_record *records; /* as they came */
	size_t record_count, record_capacity;
	struct nodes_incident *incidents; /* by record */
	size_t incident_count, incident_capacity;
	struct node *list; /* as they came, until nodes_sort() */
	size_t count, capacity;
	uint32_t *table; /* by name: index + 1 */
	size_t table_capacity;
	uint64_t nodes_unlisted, incidents_unlisted;
};

/* Zero-initialised: none. */
void nodes_fini(struct nodes *nodes);

/* A record's report. whole: all of it could be read. Returns 0 or -ENOMEM. */
int nodes_add(struct nodes *nodes, const char *path, const struct report_model *model, bool whole)
	__attribute__((warn_unused_result));
int nodes_add_unreadable(struct nodes *nodes, const char *path, const char *why)
	__attribute__((warn_unused_result));

/* When all are there: those that most jobs named come first. */
void nodes_sort(struct nodes *nodes);

/* After nodes_sort(). Return 0 or a negative errno. */
int nodes_write_text(const struct nodes *nodes, const char *folder, FILE *out)
	__attribute__((warn_unused_result));
int nodes_write_json(const struct nodes *nodes, const char *folder, FILE *out)
	__attribute__((warn_unused_result));

#endif
