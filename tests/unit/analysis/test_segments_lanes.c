/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two communicators on each rank's device: tensor parallel, which stops the work, and data parallel,
 * which goes on beside it. Two by two ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "analysis/attribute/blame.h"

#define US INT64_C(1000)

enum { RANKS = 4, LAYERS = 8, WORK_US = 3000, TENSOR_US = 350, GRADIENTS_US = 290, LAST_US = 80 };

struct made {
	struct step_grid grid;
	struct blame blame;
	uint64_t step, random;
	int64_t slow_us; /* longer work of rank 3, in each layer */
	int64_t dilated_pct; /* of the time that gradients wait beside work: by so much it takes longer */
	int64_t now_us;
};

struct call {
	int64_t arrival_us, departure_us;
	bool gradients;
	uint64_t sequence;
};

static int64_t jitter_us(struct made *made, int64_t most_us)
{
	made->random = made->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (int64_t)(made->random >> 33) % (2 * most_us + 1) - most_us;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int by_arrival(const void *left, const void *right)
{
	const struct call *a = left, *b = right;

	return a->arrival_us < b->arrival_us ? -1 : a->arrival_us > b->arrival_us;
}

/* What the devices do in one step; the gradients of a layer are ready when its sum begins. */
static void run_step(struct made *made, struct call calls[RANKS][2 * LAYERS])
{
	int64_t free_us[RANKS], stream_us[RANKS], waited_us[RANKS] = {0};

	for (int r = 0; r < RANKS; r++)
		free_us[r] = stream_us[r] = made->now_us;
	for (int k = 0; k < LAYERS; k++) {
		struct call *sums[RANKS], *gradients[RANKS];

		for (int r = 0; r < RANKS; r++) {
			int64_t ready_us = free_us[r] + WORK_US + (r == 3 ? made->slow_us : 0) +
					   waited_us[r] * made->dilated_pct / 100 +
					   jitter_us(made, 60);

			sums[r] = &calls[r][2 * k];
			gradients[r] = &calls[r][2 * k + 1];
			*sums[r] = (struct call){.arrival_us = ready_us, .sequence = (uint64_t)k};
			if (k == LAYERS - 1) /* the last gradients: the step waits for them */
				ready_us = later(ready_us, stream_us[r]) + WORK_US;
			*gradients[r] = (struct call){
				.arrival_us =
					later(ready_us + jitter_us(made, 5), stream_us[r] + 2),
				.gradients = true,
				.sequence = (uint64_t)k};
		}
		for (int r = 0; r < RANKS; r++) {
			const struct call *pair = sums[r ^ 1], *column = gradients[r ^ 2];

			sums[r]->departure_us =
				later(sums[r]->arrival_us, pair->arrival_us) + TENSOR_US;
			free_us[r] = sums[r]->departure_us;
			gradients[r]->departure_us =
				later(gradients[r]->arrival_us, column->arrival_us) +
				(k == LAYERS - 1 ? LAST_US : GRADIENTS_US);
			stream_us[r] = gradients[r]->departure_us;
			waited_us[r] = later(column->arrival_us - gradients[r]->arrival_us, 0);
			made->now_us = later(made->now_us, stream_us[r]);
		}
	}
	for (int r = 0; r < RANKS; r++)
		qsort(calls[r], 2 * LAYERS, sizeof(calls[r][0]), by_arrival);
}

/* Each rank numbers its streams as it likes. */
static void add_row(struct made *made, uint32_t rank, const struct call calls[2 * LAYERS],
	const struct part_kind kinds[2])
{
	int64_t before_us = made->now_us;

	for (int i = 0; i < 2 * LAYERS; i++) {
		const struct call *call = &calls[i];
		const struct grid_part part = {
			.kind = &kinds[call->gradients],
			.before = &activity_none,
			.inside = &activity_none,
			.joined = true,
			.sequence = made->step * LAYERS + call->sequence,
			.size = 2,
			.own_index = call->gradients ? rank / 2 : rank % 2,
			.arrival_ns = call->arrival_us * US,
			.call_ns = (call->departure_us - call->arrival_us) * US,
			.segment_ns = later(call->arrival_us - before_us, 0) * US,
		};

		assert_int_equal(grid_add_part(&made->grid, &part), 0);
		before_us = call->departure_us;
	}
}

static void add_step(struct made *made)
{
	static struct part_kind kinds[RANKS][2];
	struct call calls[RANKS][2 * LAYERS];
	int64_t start_us = made->now_us;

	run_step(made, calls);
	grid_clear(&made->grid);
	made->grid.step.start_ns = start_us * US;
	made->grid.step.end_ns = made->now_us * US;
	for (uint32_t r = 0; r < RANKS; r++) {
		for (int gradients = 0; gradients < 2; gradients++)
			kinds[r][gradients] = (struct part_kind){
				.communicator_id = gradients ? 20 + r % 2 : 10 + r / 2,
				.operation = OPERATION_ALL_REDUCE,
				.length_bytes = gradients ? 33554432 : 100663296,
				.flags = PART_DEVICE_TIME,
				.stream = (uint8_t)(1 + (gradients + (int)r) % 2)};
		assert_int_equal(grid_add_row(&made->grid, r, 0, start_us * US, 0), 0);
		add_row(made, r, calls[r], kinds[r]);
	}
	assert_int_equal(grid_link(&made->grid), 0);
	assert_int_equal(blame_step(&made->blame, &made->grid), 0);
	made->step++;
}

static void start(struct made *made)
{
	*made = (struct made){.random = 7, .now_us = 1000};
	grid_init(&made->grid);
	blame_init(&made->blame);
}

static void end(struct made *made)
{
	grid_fini(&made->grid);
	blame_fini(&made->blame);
}

/* Whatever starts first, and however a rank has numbered its streams: peers are compared alike. */
static void peers_agree_on_streams(void **state)
{
	struct made made;

	(void)state;
	start(&made);
	for (int step = 0; step < 50; step++) {
		add_step(&made);
		for (uint32_t r = 0; r < RANKS; r++) {
			const struct grid_row *row = &made.grid.rows[r];

			assert_int_equal(row->layout, made.grid.rows[0].layout);
			assert_true(llabs(made.blame.rows[r].own_excess_ns) < 2000 * US);
			for (uint32_t p = 0; p < row->cell_count; p++) {
				const struct grid_cell *cell =
					&made.grid.cells[grid_cell_at(&made.grid, row, p)];
				const struct grid_cell *first = &made.grid.cells[grid_cell_at(
					&made.grid, &made.grid.rows[0], p)];

				assert_int_equal(cell->part->communicator_id >= 20,
					first->part->communicator_id >= 20);
			}
		}
	}
	end(&made);
}

/* Rank 3 works longer in every layer from step 60 on: the others are not charged with it. least_us: of a layer, its own. */
static void expect_rank_3(struct made *made, int64_t least_us)
{
	const int64_t slow_us = 1000;

	for (int step = 0; step < 100; step++) {
		made->slow_us = step >= 60 ? slow_us : 0;
		add_step(made);
		for (uint32_t r = 0; r < RANKS && step >= 70; r++) {
			const struct grid_row *row = &made->grid.rows[r];

			if (r == 3)
				assert_in_range(made->blame.rows[r].delay_ns,
					(LAYERS - 1) * least_us * US,
					LAYERS * (slow_us + 200) * US);
			else
				assert_in_range(made->blame.rows[r].delay_ns, 0, 1000 * US);
			for (uint32_t i = 0; i < row->cell_count; i++) {
				const struct grid_cell *cell =
					&made->grid.cells[row->first_cell + i];

				if (cell->part->communicator_id < 20)
					assert_false(cell->flags & CELL_ASYNC);
			}
		}
	}
}

/* Its tensor-parallel peer and the other pair only wait. */
static void slow_rank_is_charged(void **state)
{
	struct made made;

	(void)state;
	start(&made);
	expect_rank_3(&made, 900);
	end(&made);
}

/* Gradients of rank 1 wait for those of rank 3, and its work beside them takes longer for it. */
static void work_beside_a_wait_is_not_charged(void **state)
{
	struct made made;

	(void)state;
	start(&made);
	made.dilated_pct = 40;
	expect_rank_3(&made, 600); /* the others' work is longer, too */
	end(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peers_agree_on_streams),
		cmocka_unit_test(slow_rank_is_charged),
		cmocka_unit_test(work_beside_a_wait_is_not_charged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
