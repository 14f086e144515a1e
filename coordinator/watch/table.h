/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report says of a job's ranks and incidents at one time, copied, so that whoever reads it may choose what he
 * wants to see (view.h). A table does not change once it is made; any thread then.
 */
#ifndef SLOWRANK_COORDINATOR_WATCH_TABLE_H
#define SLOWRANK_COORDINATOR_WATCH_TABLE_H

#include "coordinator/report/model.h"

enum {
	WATCH_LATELY_S = 5,	/* ranks are shown as they were in the last 5 to 10 s of the job, */
	WATCH_LATELY_STEPS = 8, /* or in the last 8 to 16 steps where these take longer */
};

/* Whom an open incident names, or makes wait. */
enum watch_part { WATCH_NO_PART = 0, WATCH_VICTIM = 1, WATCH_NAMED = 2 };

/* Times are of a step, as the report's table of ranks has them. */
struct watch_rank {
	uint32_t rank;
	uint32_t host;	    /* where its host's name begins in names */
	uint32_t steps;	    /* 0: none of it was seen lately */
	uint8_t part;	    /* enum watch_part */
	float own_ms;	    /* so late by itself that others waited */
	float inherited_ms; /* late because it had waited */
	float phase_ms[PHASE_NR];
};

/* So long it waited for others, or was late because of them. */
static inline float watch_held_ms(const struct watch_rank *rank)
{
	return rank->phase_ms[PHASE_COMM_WAIT] > rank->inherited_ms
		       ? rank->phase_ms[PHASE_COMM_WAIT]
		       : rank->inherited_ms;
}

struct watch_incident {
	uint32_t id;
	uint8_t ended, unmeasured, alerted, verdict_class, cause;
	uint32_t more_ranks;
	size_t rank_count;
	uint32_t ranks[VERDICT_RANKS_MAX];
	char sentence[768]; /* REPORT_SENTENCE_LENGTH */
	char advice[512];
};

struct watch_job {
	char id[128];
	uint32_t rank_count, world_size, node_count;
	uint64_t steps, lately_steps; /* all, and those that times are of */
	double step_ms, slowdown;     /* of those */
	int64_t newest_unix_ns;	      /* when the newest of all this came */
};

struct watch_table {
	struct watch_job job;
	size_t incident_count; /* the worst first */
	struct watch_incident *incidents;
	size_t rank_count; /* by rank */
	struct watch_rank *ranks;
	char *names; /* hosts' names, printable, each with a NUL behind it */
};

/*
 * What ranks had come to some time ago, from which on what they do lately is counted. Of whoever makes the tables, one
 * thread.
 */
struct watch_sums {
	uint64_t steps;
	int64_t phase_ns[PHASE_NR], own_ns, inherited_ns;
};
struct watch_base {
	struct job_totals totals;
	struct watch_sums *ranks; /* by rank */
	size_t rank_capacity;
};
struct watch_lately {
	struct watch_base from, next; /* zero-initialised: the job's begin */
};
void watch_lately_fini(struct watch_lately *lately); /* it may be used again */

/*
 * lately NULL: of the whole job. Else tables are of one job, in order of time. newest: when the newest batch came. Returns
 * 0 or -ENOMEM. The caller owns the table.
 */
int watch_table_create(const struct report_model *model, struct watch_lately *lately,
	struct job_ns newest, struct watch_table **table) __attribute__((warn_unused_result));
void watch_table_destroy(struct watch_table *table); /* NULL is fine */

#endif
