/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks and steps that tests of the assembly make by hand, as if batches had brought them. */
#ifndef SLOWRANK_TESTS_UNIT_COORDINATOR_MADE_STEPS_H
#define SLOWRANK_TESTS_UNIT_COORDINATOR_MADE_STEPS_H

#include "analysis/join/assembly_internal.h"
#include "coordinator/rank_table.h"
#include "coordinator/step_packer.h"

/* Ranks 0..rank_count - 1 of one host, all in one communicator. */
static inline void made_ranks_announce(struct rank_table *table, struct assembly *assembly,
	uint32_t rank_count, uint64_t communicator_id)
{
	for (uint32_t r = 0; r < rank_count; r++) {
		const struct message_rank message = {
			.rank = r, .world_size = rank_count, .host = "h"};
		const struct communicator all = {communicator_id, rank_count, r};
		uint32_t host;
		bool first;

		assert_int_equal(rank_table_host(table, 1, &host), 0);
		assert_int_equal(rank_table_announce(table, &message, host), 0);
		assert_int_equal(rank_table_communicator(table, r, &all, &first), 0);
		assert_int_equal(assembly_note_communicator(assembly, communicator_id, r), 0);
	}
}

/* The step of a rank that was announced. */
static inline void made_step_queue(struct rank_table *table, struct assembly *assembly,
	struct step_packer *packer, const struct step_entry *step)
{
	const struct packed_step *packed;
	struct held_steps *held;

	assert_int_equal(step_packer_pack(packer, step, 1, &packed), 0);
	assert_int_equal(held_steps_create(packed, 1, &held), 0);
	assert_int_equal(
		rank_table_queue(table, held, held->steps, table->streams.ranks[step->rank].host),
		0);
	assembly_note_entry(assembly, held->steps);
	held_steps_unref(held);
}

#endif
