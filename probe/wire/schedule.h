/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What repeats between the steps of one batch: communicators, tokens (what one collective
 * call is, without its time) and schedules (the tokens of a step in order). The encoder writes
 * each of them once and refers to it by number. Private to probe/wire.
 */
#ifndef SLOWRANK_PROBE_WIRE_SCHEDULE_H
#define SLOWRANK_PROBE_WIRE_SCHEDULE_H

#include "probe/wire/message.h"

struct wire_token {
	uint64_t length_bytes;
	uint32_t communicator; /* number in communicator_ids */
	int32_t root;
	uint8_t operation;
	uint8_t flags;
	uint8_t purpose;
	uint8_t stream;
	uint32_t peer;
	uint32_t chunk;
};

struct wire_schedule {
	uint64_t signature;
	size_t first_position; /* its token numbers in token_of_position */
	size_t position_count;
	size_t communicator_count; /* distinct ones */
};

/* The tables of one batch. Counts are numbers of entries; all arrays are owned by the struct. */
struct wire_schedule_table {
	size_t communicator_count;
	uint64_t *communicator_ids;
	size_t token_count;
	struct wire_token *tokens;
	size_t position_count;
	uint32_t *token_of_position; /* schedules one after the other */
	size_t schedule_count;
	struct wire_schedule *schedules;
	uint32_t *schedule_of_step;
};

/*
 * Builds the tables for steps whose parts are in order. part_count: of all steps together.
 * Returns 0 or -ENOMEM; after a failure the table is empty.
 */
int wire_schedule_table_init(struct wire_schedule_table *table, const struct step_entry *steps,
	size_t step_count, size_t part_count) __attribute__((warn_unused_result));
void wire_schedule_table_fini(struct wire_schedule_table *table);

#endif
