/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "analysis/attribute/blame.h"
#include "analysis/attribute/whatif.h"

/* A hand-made step: each row a list of (communicator, operation, segment ms, call ms). */
struct made {
	struct step_grid grid;
	struct blame blame;
	struct whatif whatif;
	struct part_kind kinds[64];
	struct activity inside[64];
	size_t part_count;
};

static struct made *made_new(void)
{
	static struct made made;

	memset(&made, 0, sizeof(made));
	grid_init(&made.grid);
	blame_init(&made.blame);
	whatif_init(&made.whatif);
	return &made;
}

static void made_free(struct made *made)
{
	grid_fini(&made->grid);
	blame_fini(&made->blame);
	whatif_fini(&made->whatif);
}

static void add_call(struct made *made, uint64_t communicator, uint32_t size, uint64_t sequence,
	enum operation operation, int64_t arrival_ms, int64_t segment_ms, int64_t call_ms,
	int64_t throttled_inside_ms)
{
	struct part_kind *kind = &made->kinds[made->part_count];
	struct activity *inside = &made->inside[made->part_count++];

	*kind = (struct part_kind){
		.communicator_id = communicator, .operation = (uint8_t)operation};
	inside->throttled_ns = throttled_inside_ms * 1000000;
	const struct grid_part part = {
		.kind = kind,
		.before = &activity_none,
		.inside = inside,
		.joined = true,
		.sequence = sequence,
		.size = size,
		.own_index = (uint32_t)made->grid.row_count - 1,
		.arrival_ns = arrival_ms * 1000000,
		.call_ns = call_ms * 1000000,
		.segment_ns = segment_ms * 1000000,
	};
	assert_int_equal(grid_add_part(&made->grid, &part), 0);
}

/* By the device's times; before: what the host did, in ms, asleep of all that it took. */
static void add_message(struct made *made, enum operation operation, uint32_t own_index,
	int64_t arrival_ms, int64_t segment_ms, int64_t call_ms, const struct activity *before)
{
	struct part_kind *kind = &made->kinds[made->part_count++];
	const struct grid_row *row = &made->grid.rows[made->grid.row_count - 1];
	uint64_t sequence = 0;

	for (uint32_t c = 0; c < row->cell_count; c++)
		sequence += made->grid.cells[row->first_cell + c].part->operation == operation;
	*kind = (struct part_kind){.communicator_id = 1,
		.operation = (uint8_t)operation,
		.peer = 2 - own_index,
		.flags = PART_DEVICE_TIME,
		.stream = 1};
	const struct grid_part part = {
		.kind = kind,
		.before = before,
		.inside = &activity_none,
		.joined = true,
		.sequence = sequence,
		.size = 2,
		.own_index = own_index,
		.arrival_ns = arrival_ms * 1000000,
		.call_ns = call_ms * 1000000,
		.segment_ns = segment_ms * 1000000,
	};
	assert_int_equal(grid_add_part(&made->grid, &part), 0);
}

static void add_row(struct made *made, uint32_t rank)
{
	assert_int_equal(grid_add_row(&made->grid, rank, 0, 0, 0), 0);
}

static int64_t gain_ms(struct made *made, uint32_t row)
{
	uint8_t healed[8] = {0};
	int64_t gain_ns;

	healed[row] = 1;
	assert_int_equal(whatif_replay(&made->whatif, &made->grid, &made->blame,
				 &(struct whatif_change){.healed = healed}, NULL, &gain_ns),
		0);
	return gain_ns / 1000000;
}

/*
 * Ranks 0 and 1 share a pair communicator, rank 0 is slow in it; at the world's barrier both
 * are equally late, but only rank 0 by its own time.
 */
static void a_victim_is_not_blamed(void **state)
{
	struct made *made = made_new();

	(void)state;
	for (uint32_t r = 0; r < 4; r++) {
		int64_t first = r == 0 ? 30 : 10, pair_end = r < 2 ? 31 : 11;

		add_row(made, r);
		add_call(made, 10 + r / 2, 2, 0, OPERATION_ALL_REDUCE, first, first,
			pair_end - first, 0);
		add_call(
			made, 1, 4, 0, OPERATION_BARRIER, pair_end + 10, 10, 42 - pair_end - 10, 0);
	}
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(made->grid.order_count, 3);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
	assert_int_equal(made->blame.rows[0].delay_ns, 20000000);
	assert_int_equal(made->blame.rows[1].delay_ns, 0);
	assert_int_equal(made->blame.rows[1].inherited_ns, 20000000);
	assert_int_equal(made->blame.rows[1].wait_ns, 20000000);
	assert_int_equal(made->blame.rows[2].wait_ns, 20000000);
	assert_int_equal(made->blame.rows[0].wait_ns, 0);
	assert_int_equal(gain_ms(made, 0), 20);
	assert_int_equal(gain_ms(made, 1), 0);
	made_free(made);
}

/*
 * Two stages of a pipeline, each alone in its role. The first one's host was asleep for 30 ms before its send. The
 * second one's was for 40, but while its device waited for that message: it may have waited as well.
 */
static void a_stage_held_up_is_blamed(void **state)
{
	static const struct activity held = {.preempted_ns = 30000000, .host_ns = 40000000},
				     waited = {.preempted_ns = 40000000, .host_ns = 50000000};
	struct made *made = made_new();

	(void)state;
	add_row(made, 0);
	add_message(made, OPERATION_SEND, 0, 40, 40, 1, &held);
	add_message(made, OPERATION_RECEIVE, 0, 42, 1, 10, &activity_none);
	add_row(made, 1);
	add_message(made, OPERATION_RECEIVE, 1, 1, 1, 40, &activity_none);
	add_message(made, OPERATION_SEND, 1, 51, 10, 1, &waited);
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
	for (int r = 0; r < 2; r++)
		assert_true(made->blame.rows[r].alone && !made->blame.rows[r].judged);
	assert_int_equal(made->blame.rows[0].delay_ns, 30000000);
	assert_int_equal(made->blame.rows[0].own[EXCESS_PREEMPTED], 30000000);
	assert_int_equal(made->blame.rows[0].control[EXCESS_PREEMPTED], 0);
	assert_int_equal(made->blame.rows[1].delay_ns, 0);
	assert_int_equal(made->blame.rows[1].own_excess_ns, 0);
	assert_int_equal(made->blame.rows[1].control[EXCESS_PREEMPTED], 40000000);
	assert_int_equal(gain_ms(made, 0), 30);
	assert_int_equal(gain_ms(made, 1), 0);
	made_free(made);
}

/* What sleeps may wait for others. */
static void a_stage_asleep_is_not(void **state)
{
	static const struct activity asleep = {.asleep_ns = 30000000, .host_ns = 40000000};
	struct made *made = made_new();

	(void)state;
	add_row(made, 0);
	add_message(made, OPERATION_SEND, 0, 40, 40, 1, &asleep);
	add_row(made, 1);
	add_message(made, OPERATION_RECEIVE, 1, 1, 1, 40, &activity_none);
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
	assert_int_equal(made->blame.rows[0].own_excess_ns, 0);
	made_free(made);
}

/*
 * Rank 0's host is ready for its send so late; of what it is made, nobody tells. Both ranks have no peers. The step holds so many
 * of the program's.
 */
static void pipeline_steps(struct made *made, int64_t sent_ms, int64_t count, struct activity *host)
{
	int64_t length_ms = sent_ms + 20;

	grid_clear(&made->grid);
	made->part_count = 0;
	made->grid.step.number++;
	*host = (struct activity){.host_ns = sent_ms * 1000000};
	add_row(made, 0);
	for (int64_t at_ms = 0; at_ms < count * length_ms; at_ms += length_ms) {
		add_message(made, OPERATION_SEND, 0, at_ms + sent_ms, sent_ms, 1, host);
		add_message(made, OPERATION_RECEIVE, 0, at_ms + sent_ms + 1, 0, 19, &activity_none);
	}
	add_row(made, 1);
	for (int64_t at_ms = 0; at_ms < count * length_ms; at_ms += length_ms) {
		add_message(made, OPERATION_RECEIVE, 1, at_ms, 0, sent_ms + 1, &activity_none);
		add_message(made, OPERATION_SEND, 1, at_ms + sent_ms + 19, 18, 1, &activity_none);
	}
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
}

static void pipeline_step(struct made *made, int64_t sent_ms, struct activity *host)
{
	pipeline_steps(made, sent_ms, 1, host);
}

/*
 * A stage whose own time alone is more than steps usually take is late by that, as far as its device waited for its
 * host. One that takes longer than before within a step as long as ever is not; nor is the one that waits.
 */
static void a_stage_is_held_against_its_past(void **state)
{
	struct made *made = made_new();
	struct activity host;

	(void)state;
	for (int step = 0; step < 40; step++) {
		pipeline_step(made, 10, &host); /* 30 ms long */
		assert_int_equal(made->blame.rows[0].delay_ns, 0);
	}
	pipeline_step(made, 28, &host);
	assert_int_equal(made->blame.rows[0].own_excess_ns, 0);
	made->blame.traits.suspected = true;
	for (int step = 0; step < 40; step++) {
		pipeline_step(made, 70, &host);
		assert_true(made->blame.rows[0].alone);
		assert_in_range(made->blame.rows[0].delay_ns, 39000000, 40000000);
		assert_int_equal(made->blame.rows[0].past_ns, made->blame.rows[0].own_excess_ns);
		assert_int_equal(made->blame.rows[0].own[EXCESS_HOST_CPU] -
					 made->blame.rows[0].control[EXCESS_HOST_CPU],
			made->blame.rows[0].past_ns);
		assert_int_equal(made->blame.rows[1].delay_ns, 0);
	}
	assert_in_range(gain_ms(made, 0), 39, 40);
	made_free(made);
}

/* Steps that are cut elsewhere because they are slow were never seen before: their calls were. */
static void a_stage_is_held_against_its_past_calls(void **state)
{
	struct made *made = made_new();
	struct activity host;

	(void)state;
	for (int step = 0; step < 40; step++)
		pipeline_step(made, 10, &host);
	for (int step = 0; step < 40; step++) {
		pipeline_steps(made, 70, 2, &host);
		made->blame.traits.suspected = true;
		assert_in_range(made->blame.rows[0].own_excess_ns, 78000000, 83000000);
	}
	pipeline_steps(made, 10, 2, &host);
	assert_int_equal(made->blame.rows[0].own_excess_ns, 0);
	made_free(made);
}

/*
 * Two ranks exchange with each other, a send and a receive as one kernel, of which NCCL tells when the send ended: what
 * rank 0 waited for is seen by when rank 1 sent it.
 */
static void an_exchange_ends_when_all_is_received(void **state)
{
	struct made *made = made_new();

	(void)state;
	for (uint32_t r = 0; r < 2; r++) {
		add_row(made, r);
		add_message(made, OPERATION_SEND, r, r ? 30 : 10, r ? 30 : 10, 0, &activity_none);
		add_message(made, OPERATION_RECEIVE, r, r ? 30 : 10, 0, 0, &activity_none);
	}
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
	assert_int_equal(made->grid.rows[0].end_ns, 30000000);
	assert_int_equal(made->blame.rows[0].wait_ns, 20000000);
	assert_int_equal(made->blame.rows[0].delay_ns, 0);
	assert_int_equal(made->blame.rows[1].delay_ns, 20000000);
	made_free(made);
}

/* Nor later than the next kernel of the stream began: then it was another send. */
static void an_exchange_ends_before_the_next(void **state)
{
	struct made *made = made_new();

	(void)state;
	add_row(made, 0);
	add_message(made, OPERATION_RECEIVE, 0, 10, 10, 1, &activity_none);
	add_message(made, OPERATION_SEND, 0, 25, 14, 1, &activity_none);
	add_row(made, 1);
	add_message(made, OPERATION_SEND, 1, 30, 30, 1, &activity_none);
	add_message(made, OPERATION_RECEIVE, 1, 32, 1, 1, &activity_none);
	assert_int_equal(grid_link(&made->grid), 0);
	for (uint32_t c = 0; c < 2; c++) {
		if (made->grid.cells[c].part->operation == OPERATION_RECEIVE)
			assert_int_equal(made->grid.times[c].departure_ns, 25000000);
	}
	made_free(made);
}

/* What an exchange sends has left when its kernel ends, though the other's seemed to end long before. */
static void an_exchange_ends_when_all_is_sent(void **state)
{
	struct made *made = made_new();

	(void)state;
	add_row(made, 0);
	add_message(made, OPERATION_SEND, 0, 10, 10, 1, &activity_none);
	add_message(made, OPERATION_RECEIVE, 0, 10, 0, 1, &activity_none);
	add_row(made, 1);
	add_message(made, OPERATION_SEND, 1, 12, 12, 48, &activity_none);
	add_message(made, OPERATION_RECEIVE, 1, 12, 0, 48, &activity_none);
	assert_int_equal(grid_link(&made->grid), 0);
	for (uint32_t c = 0; c < 2; c++) {
		if (made->grid.cells[c].part->operation == OPERATION_RECEIVE)
			assert_int_equal(made->grid.times[c].departure_ns, 60000000);
	}
	made_free(made);
}

/*
 * Two ranks send each other so much, work on what they got for so long, and send it back: what takes longer as more came is the
 * program's split.
 */
static int64_t delay_of_uneven_work(
	struct made *made, uint64_t bytes, uint64_t more_bytes, int64_t work_ms)
{
	for (uint32_t r = 0; r < 2; r++) {
		int64_t own_ms = r ? work_ms : 10, last_ms = work_ms > 10 ? work_ms : 10;

		add_row(made, r);
		add_message(made, OPERATION_SEND, r, 5, 5, 1, &activity_none);
		made->kinds[made->part_count - 1].length_bytes = r ? bytes : more_bytes;
		add_message(made, OPERATION_RECEIVE, r, 5, 0, 1, &activity_none);
		made->kinds[made->part_count - 1].length_bytes = r ? more_bytes : bytes;
		add_message(made, OPERATION_SEND, r, 6 + own_ms, own_ms, 1 + last_ms - own_ms,
			&activity_none);
		add_message(made, OPERATION_RECEIVE, r, 6 + own_ms, 0, 1 + last_ms - own_ms,
			&activity_none);
	}
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
	return made->blame.rows[1].delay_ns;
}

static void who_got_more_has_more_to_do(void **state)
{
	static const struct {
		uint64_t more_bytes;
		int64_t work_ms, delay_ms;
	} cases[] = {{1000, 30, 20}, {3000, 30, 0}, {3000, 45, 15}, {2000, 30, 10}, {500, 30, 20}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made *made = made_new();

		assert_int_equal(
			delay_of_uneven_work(made, 1000, cases[i].more_bytes, cases[i].work_ms),
			cases[i].delay_ms * 1000000);
		made_free(made);
	}
}

/* A host that waited for room in the queue of its device, which waited for another rank, was not late. */
static void a_full_queue_is_no_late_host(void **state)
{
	const struct part_kind kind = {.communicator_id = 2,
		.operation = OPERATION_ALL_REDUCE,
		.flags = PART_DEVICE_TIME,
		.stream = 1};
	const struct activity blocked = {.host_ns = 45000000};
	struct made *made = made_new();

	(void)state;
	for (uint32_t r = 0; r < 2; r++) {
		const struct grid_part part = {.kind = &kind,
			.before = r ? &activity_none : &blocked,
			.inside = &activity_none,
			.joined = true,
			.size = 2,
			.own_index = r,
			.arrival_ns = 55000000,
			.call_ns = 1000000,
			.segment_ns = 4000000};

		add_row(made, r);
		add_message(made, OPERATION_SEND, r, r ? 50 : 5, r ? 50 : 5, r ? 1 : 46,
			&activity_none);
		add_message(made, OPERATION_RECEIVE, r, r ? 50 : 5, 0, r ? 1 : 46, &activity_none);
		assert_int_equal(grid_add_part(&made->grid, &part), 0);
	}
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(grid_own_ns(&made->grid, 2), 4000000);
	made_free(made);
}

/* Nor was it when it waits for what its device waited for in the step before, but no longer than for that. */
static void a_full_queue_lasts_into_the_next_step(void **state)
{
	const struct activity ahead = {.host_ns = 2000000}, blocked = {.host_ns = 45000000};
	struct made *made = made_new();

	(void)state;
	for (int step = 0; step < 3; step++) {
		grid_clear(&made->grid);
		made->part_count = 0;
		for (uint32_t r = 0; r < 2; r++) {
			bool first = r == 0;

			add_row(made, r);
			add_message(made, OPERATION_SEND, r, first ? 5 : 50, first ? 5 : 50,
				first && step == 0 ? 46 : 1,
				first ? step ? &blocked : &ahead : &activity_none);
		}
		assert_int_equal(grid_link(&made->grid), 0);
		assert_int_equal(grid_own_ns(&made->grid, 0), step == 2 ? 44000000 : 5000000);
	}
	made_free(made);
}

/* Two communicators of two, taken for one: more members than it has. Nobody is late in it. */
static void too_many_members_are_not_judged(void **state)
{
	(void)state;
	for (uint32_t size = 0; size <= 4; size += 2) {
		struct made *made = made_new();

		for (uint32_t r = 0; r < 4; r++) {
			add_row(made, r);
			add_call(made, 1, size, 0, OPERATION_ALL_REDUCE, r == 0 ? 30 : 10,
				r == 0 ? 30 : 10, r == 0 ? 1 : 21, 0);
		}
		assert_int_equal(grid_link(&made->grid), 0);
		assert_int_equal(made->grid.instances[0].usable, size != 2);
		assert_int_equal(blame_step(&made->blame, &made->grid), 0);
		assert_int_equal(made->blame.rows[0].delay_ns, size == 2 ? 0 : 20000000);
		made_free(made);
	}
}

/*
 * Three meetings of all: rank 2 leaves the first one late, rank 1 comes late to the second. Without
 * that, rank 2 is the last one there.
 */
static void meetings_of_all_are_replayed(void **state)
{
	static const uint8_t all[4] = {1, 1, 1, 1};
	struct made *made = made_new();
	int64_t gain_ns;

	(void)state;
	for (uint32_t r = 0; r < 4; r++) {
		int64_t left = r == 2 ? 15 : 12, segment = r == 1 ? 30 : 10;

		add_row(made, r);
		add_call(made, 1, 4, 0, OPERATION_ALL_REDUCE, 10, 10, left - 10, 0);
		add_call(made, 1, 4, 1, OPERATION_ALL_REDUCE, left + segment, segment,
			44 - left - segment, 0);
		add_call(made, 1, 4, 2, OPERATION_ALL_REDUCE, 54, 10, 2, 0);
	}
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
	assert_int_equal(made->blame.rows[1].delay_ns, 20000000);
	assert_int_equal(gain_ms(made, 1), 17);
	assert_int_equal(gain_ms(made, 0), 0);
	assert_int_equal(gain_ms(made, 2), 0);
	for (int part = WHATIF_ALL; part <= WHATIF_HOST; part++) {
		assert_int_equal(whatif_replay(&made->whatif, &made->grid, &made->blame,
					 &(struct whatif_change){
						 .healed = all, .part = (enum whatif_part)part},
					 NULL, &gain_ns),
			0);
		assert_int_equal(gain_ns, part == WHATIF_HOST ? 0 : 17000000);
	}
	made_free(made);
}

/* Everyone arrives together; rank 2 is out of quota inside, and all leave late. */
static void throttled_inside_holds_all(void **state)
{
	struct made *made = made_new();

	(void)state;
	for (uint32_t r = 0; r < 4; r++) {
		add_row(made, r);
		add_call(made, 1, 4, 0, OPERATION_ALL_REDUCE, 10, 10, 51, r == 2 ? 50 : 0);
	}
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
	assert_int_equal(made->blame.rows[2].delay_ns, 50000000);
	assert_int_equal(made->blame.rows[2].own[EXCESS_THROTTLED], 50000000);
	assert_int_equal(made->blame.rows[0].delay_ns, 0);
	assert_int_equal(made->blame.transfer_count, 1);
	assert_int_equal(made->blame.transfers[0].transfer_ns, 1000000);
	assert_int_equal(gain_ms(made, 2), 50);
	made_free(made);
}

/* A throttled rank that only waits holds nobody. */
static void throttled_while_waiting_is_harmless(void **state)
{
	struct made *made = made_new();

	(void)state;
	for (uint32_t r = 0; r < 4; r++) {
		int64_t arrival = r == 3 ? 70 : 10;

		add_row(made, r);
		add_call(made, 1, 4, 0, OPERATION_ALL_REDUCE, arrival, arrival, 71 - arrival,
			r == 2 ? 50 : 0);
	}
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
	assert_int_equal(made->blame.rows[2].delay_ns, 0);
	assert_int_equal(made->blame.rows[3].delay_ns, 60000000);
	made_free(made);
}

/* A late leaf of a broadcast delays nobody; a late root delays all. */
static void roots_delay_and_leaves_do_not(void **state)
{
	for (uint32_t late = 0; late < 2; late++) {
		struct made *made = made_new();

		(void)state;
		for (uint32_t r = 0; r < 4; r++) {
			int64_t arrival = r == late ? 40 : 10, end = late == 0 ? 41 : arrival + 1;

			add_row(made, r);
			add_call(made, 1, 4, 0, OPERATION_BROADCAST, arrival, arrival,
				end - arrival, 0);
		}
		assert_int_equal(grid_link(&made->grid), 0);
		assert_int_equal(blame_step(&made->blame, &made->grid), 0);
		assert_int_equal(made->blame.rows[late].delay_ns, late == 0 ? 30000000 : 0);
		made_free(made);
	}
}

/* All come together; the root of a broadcast leaves at once, that of a reduction last, and whom it waits for at once. */
static void rooted_transfers_are_those_of_who_waits(void **state)
{
	static const enum operation operations[] = {OPERATION_BROADCAST, OPERATION_REDUCE};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct made *made = made_new();

		for (uint32_t r = 0; r < 4; r++) {
			bool waits = (r == 0) == (operations[i] == OPERATION_REDUCE);

			add_row(made, r);
			add_call(made, 1, 4, 0, operations[i], 10, 10, waits ? 20 + r : 1, 0);
		}
		assert_int_equal(grid_link(&made->grid), 0);
		assert_int_equal(blame_step(&made->blame, &made->grid), 0);
		assert_int_equal(made->blame.transfer_count, 1);
		assert_int_equal(made->blame.transfers[0].transfer_ns,
			operations[i] == OPERATION_REDUCE ? 20000000 : 22000000);
		made_free(made);
	}
}

/* Parts that cannot be joined in any order are left out, and counted. */
static void crossed_instances_do_not_hang(void **state)
{
	struct made *made = made_new();

	(void)state;
	add_row(made, 0);
	add_call(made, 1, 2, 0, OPERATION_BARRIER, 10, 10, 1, 0);
	add_call(made, 2, 2, 0, OPERATION_BARRIER, 20, 9, 1, 0);
	add_row(made, 1);
	add_call(made, 2, 2, 0, OPERATION_BARRIER, 10, 10, 1, 0);
	add_call(made, 1, 2, 0, OPERATION_BARRIER, 20, 9, 1, 0);
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(made->grid.order_count, 0);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
	assert_true(made->blame.traits.incomplete);
	assert_int_equal(gain_ms(made, 0), 0);
	made_free(made);
}

/* Calls of which it is not known whose other calls they belong to: nobody was held against anybody. */
static void unjoined_calls_are_not_healthy(void **state)
{
	struct made *made = made_new();
	const struct grid_part part = {.kind = &made->kinds[0],
		.before = &activity_none,
		.inside = &activity_none,
		.arrival_ns = 10000000,
		.call_ns = 1000000,
		.segment_ns = 10000000};

	(void)state;
	made->kinds[0] = (struct part_kind){.operation = OPERATION_BARRIER};
	for (uint32_t rank = 0; rank < 2; rank++) {
		add_row(made, rank);
		assert_int_equal(grid_add_part(&made->grid, &part), 0);
	}
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
	assert_true(made->blame.traits.incomplete);
	made_free(made);
	made = made_new();
	made->kinds[0] = (struct part_kind){.operation = OPERATION_COMPUTE};
	add_row(made, 0);
	assert_int_equal(grid_add_part(&made->grid, &part), 0);
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
	assert_false(made->blame.traits.incomplete);
	made_free(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unjoined_calls_are_not_healthy),
		cmocka_unit_test(a_victim_is_not_blamed),
		cmocka_unit_test(a_stage_held_up_is_blamed),
		cmocka_unit_test(a_stage_is_held_against_its_past),
		cmocka_unit_test(a_stage_is_held_against_its_past_calls),
		cmocka_unit_test(an_exchange_ends_when_all_is_received),
		cmocka_unit_test(an_exchange_ends_when_all_is_sent),
		cmocka_unit_test(who_got_more_has_more_to_do),
		cmocka_unit_test(a_full_queue_is_no_late_host),
		cmocka_unit_test(a_full_queue_lasts_into_the_next_step),
		cmocka_unit_test(an_exchange_ends_before_the_next),
		cmocka_unit_test(a_stage_asleep_is_not),
		cmocka_unit_test(too_many_members_are_not_judged),
		cmocka_unit_test(meetings_of_all_are_replayed),
		cmocka_unit_test(throttled_inside_holds_all),
		cmocka_unit_test(throttled_while_waiting_is_harmless),
		cmocka_unit_test(roots_delay_and_leaves_do_not),
		cmocka_unit_test(rooted_transfers_are_those_of_who_waits),
		cmocka_unit_test(crossed_instances_do_not_hang),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
