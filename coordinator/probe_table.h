/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the coordinator knows of each probe: which batches came (doubles are removed by it), its
 * latest counters, what its sources can see. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_PROBE_TABLE_H
#define SLOWRANK_COORDINATOR_PROBE_TABLE_H

#include "analysis/base/evidence_source.h"
#include "coordinator/backlog.h"
#include "coordinator/probe_map.h"
#include "coordinator/report/model.h"

enum { PROBE_WINDOW = 64 }; /* batches this much older than the newest are doubles */

struct probe_entry {
	struct probe_key key;
	bool final;
	bool announced;		/* it watches a rank, or did */
	bool of_world;		/* it told of a rank that the job has */
	uint64_t displaced;	/* the latest probe whose rank it took while that one was heard */
	uint64_t next_number;	/* newest seen + 1 */
	uint64_t window;	/* bit i: number next_number - 1 - i was seen */
	uint64_t gap_number;	/* the latest batch that came without the one before it; 0: none */
	uint32_t evidence_mask; /* enum evidence_source bits that are on */
	struct job_ns last_received; /* what came from it last */
	struct job_ns last_taken;    /* the same of what the record holds, so no double */
	struct job_ns introduced;    /* when it was last asked who it is; 0 = never */
	struct host_ns first_sent, last_sent;
	uint64_t first_cpu_ns;
	struct probe_backlog backlog;
	struct message_counters counters;
	uint8_t states[WIRE_SOURCES_MAX]; /* by source of the table: enum source_state + 1 */
};

struct known_source {
	char name[STEP_NAME_LENGTH_MAX + 1];
	/* By state: the latest reason of the probe with the lowest id that was ever in that state. */
	char why[4][WIRE_DETAIL_LENGTH_MAX + 1];
	uint64_t why_probe[4];
};

struct probe_table {
	struct probe_map map; /* of struct probe_entry */
	size_t final_count, announced_count;
	size_t source_count;
	struct known_source sources[WIRE_SOURCES_MAX];
	struct report_source report[WIRE_SOURCES_MAX];
};

void probe_table_init(struct probe_table *table);
void probe_table_fini(struct probe_table *table);

/* The probe's entry, made when new; pointers move when probes are added. 0 or -ENOMEM. */
int probe_table_get(struct probe_table *table, uint64_t probe_id, struct probe_entry **probe)
	__attribute__((warn_unused_result));

/* The probe's entry, or NULL where none of its batches was taken. */
const struct probe_entry *probe_table_find(const struct probe_table *table, uint64_t probe_id);

/* Whether a batch of this number was taken before, or is too old to be told from one that was. */
bool probe_entry_has(const struct probe_entry *probe, uint64_t number);

/* Notes the number of a batch that was not taken before. */
void probe_entry_take(struct probe_entry *probe, uint64_t number);

/* It said something, though that was refused. One that nothing was taken of is not known. */
void probe_table_hear(struct probe_table *table, uint64_t probe_id, struct job_ns received);

/* Its ranks are another's now, which were started again: nothing more is expected of it. */
void probe_table_replace(struct probe_table *table, uint64_t probe_id);

/* Takes sources, counters and the final mark of a batch that is not a double. */
void probe_table_update(
	struct probe_table *table, struct probe_entry *probe, const struct message_batch *batch);

/*
 * Sums and worst cases over all probes, into the report. What watches no rank speaks for nothing: it counts
 * only where no probe has one, to say why.
 */
void probe_table_report(struct probe_table *table, struct report_model *model);

/* The sources' names, by the number of their bit in enum evidence_source. */
extern const char *const probe_table_evidence[EVIDENCE_SOURCE_NR];

/* Why a source of evidence is not there, for the text of a rejection; "" when nobody said. */
const char *probe_table_why(const struct probe_table *table, const char *source);

#endif
