/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipelines as NCCL shows them, cut by step builders: whatever order the calls of a group show in, all messages are
 * joined, each step is one grid, always with the same places, and who is slow is named as it is in order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/join/assembly.h"
#include "coordinator/rank_table.h"
#include "coordinator/step_packer.h"
#include "probe/step/builder.h"
#include "tests/unit/bench/simulated_job.h"
#include "tests/unit/coordinator/made_steps.h"

enum { STAGES = 4, STEPS = 60, RANKS_MAX = 16 };

struct shape {
	const char *name;
	enum sim_schedule schedule;
	uint32_t virtual_stages, data, microbatches;
	bool stream_each;
	bool embedding; /* shared by the ends: the one collective */
};

static const struct shape shapes[] = {
	{"GPipe", SIM_SCHEDULE_GPIPE, 1, 1, 8, false, false},
	{"GPipe, many", SIM_SCHEDULE_GPIPE, 1, 1, 40, false, false},
	{"GPipe, streams", SIM_SCHEDULE_GPIPE, 1, 1, 8, true, false},
	{"GPipe, embedding", SIM_SCHEDULE_GPIPE, 1, 1, 8, false, true},
	{"GPipe, data", SIM_SCHEDULE_GPIPE, 1, 2, 8, false, true},
	{"1F1B", SIM_SCHEDULE_1F1B, 1, 1, 8, false, false},
	{"1F1B, many", SIM_SCHEDULE_1F1B, 1, 1, 40, false, false},
	{"1F1B, streams", SIM_SCHEDULE_1F1B, 1, 1, 8, true, false},
	{"1F1B, embedding", SIM_SCHEDULE_1F1B, 1, 1, 8, false, true},
	{"1F1B, data", SIM_SCHEDULE_1F1B, 1, 4, 8, false, true},
	{"1F1B, data, streams", SIM_SCHEDULE_1F1B, 1, 2, 8, true, true},
	{"interleaved", SIM_SCHEDULE_1F1B, 2, 1, 8, false, false},
	{"interleaved, streams", SIM_SCHEDULE_1F1B, 2, 1, 8, true, false},
	{"interleaved, data", SIM_SCHEDULE_1F1B, 2, 2, 8, false, true},
	{"zero bubble", SIM_SCHEDULE_ZERO_BUBBLE, 1, 1, 8, false, false},
	{"zero bubble, streams", SIM_SCHEDULE_ZERO_BUBBLE, 1, 1, 8, true, false},
	{"zero bubble, data", SIM_SCHEDULE_ZERO_BUBBLE, 1, 2, 8, false, true},
};

enum { SHAPE_COUNT = sizeof(shapes) / sizeof(shapes[0]) };

static struct sim_options options_of(const struct shape *shape, uint32_t steps)
{
	struct sim_options options;

	sim_options_default(&options, shape->data * STAGES, 31);
	options.shape.pipeline = STAGES;
	options.shape.data = shape->data;
	options.program.schedule = shape->schedule;
	options.program.virtual_stages = shape->virtual_stages;
	options.program.microbatches = shape->microbatches;
	options.program.layers = 1;
	options.program.norm = false;
	options.program.untied = !shape->embedding;
	options.steps = steps;
	options.device_time = options.grouped = options.shuffled = options.by_launch = true;
	options.stream_each = shape->stream_each;
	return options;
}

/* A job with a step builder a rank, in front of the assembly. */
struct job {
	struct simulator *simulator;
	struct rank_table table;
	struct assembly assembly;
	struct step_packer packer;
	struct step_builder *builders[RANKS_MAX];
	struct step_grid grid;
	uint32_t ranks;
	size_t warm_up; /* grids that may differ, */
	bool cut_off;	/* and so may the last one: it is a part of a step */
	bool attached; /* counts are those of each rank, and no message of a grid that may differ counts */
	/* Of the grids: */
	size_t grids, messages, joined, unordered, changes, last_changes;
	uint64_t layouts[RANKS_MAX];
};

static void announce(struct job *job, uint32_t rank)
{
	const struct message_rank message = {.rank = rank, .world_size = job->ranks, .host = "h"};
	struct communicator communicators[SIM_COMMUNICATORS_MAX];
	uint32_t count = simulator_communicators(job->simulator, rank, communicators), host;
	bool first;

	assert_int_equal(rank_table_host(&job->table,
				 1 + sim_host(simulator_layout(job->simulator), rank), &host),
		0);
	assert_int_equal(rank_table_announce(&job->table, &message, host), 0);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(
			rank_table_communicator(&job->table, rank, &communicators[i], &first), 0);
		assert_int_equal(
			assembly_note_communicator(&job->assembly, communicators[i].id, rank), 0);
	}
	assert_int_equal(step_builder_create(&(struct step_builder_options){.rank = rank},
				 &job->builders[rank]),
		0);
}

static void set_up(struct job *job, const struct sim_options *options)
{
	*job = (struct job){.ranks = options->shape.data * options->shape.pipeline};
	assert_true(job->ranks <= RANKS_MAX);
	assert_int_equal(simulator_create(options, &job->simulator), 0);
	rank_table_init(&job->table);
	assembly_init(&job->assembly, &job->table.streams);
	grid_init(&job->grid);
	for (uint32_t r = 0; r < job->ranks; r++)
		announce(job, r);
}

static void tear_down(struct job *job)
{
	for (uint32_t r = 0; r < job->ranks; r++)
		step_builder_destroy(job->builders[r]);
	grid_fini(&job->grid);
	assembly_fini(&job->assembly);
	rank_table_fini(&job->table);
	step_packer_fini(&job->packer);
	simulator_destroy(job->simulator);
}

static void look_at(struct job *job)
{
	const struct step_grid *grid = &job->grid;
	size_t *changes = job->cut_off ? &job->last_changes : &job->changes;

	job->unordered += grid->instance_count - grid->order_count;
	if (job->cut_off) { /* there is one after the last that may count */
		job->changes += job->last_changes;
		job->last_changes = 0;
	}
	for (size_t c = 0; c < grid->cell_count; c++) {
		const struct grid_cell *cell = &grid->cells[c];

		if (cell->part->operation != OPERATION_SEND &&
			cell->part->operation != OPERATION_RECEIVE)
			continue;
		if (job->attached && job->grids <= job->warm_up)
			continue;
		job->messages++;
		job->joined += cell->instance != GRID_NONE &&
			       grid->instances[cell->instance].member_count == 2;
	}
	for (size_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];

		*changes += job->grids > job->warm_up && row->layout != job->layouts[row->rank];
		job->layouts[row->rank] = row->layout;
	}
	job->grids++;
}

static void assemble(struct job *job, bool finish)
{
	int result;

	while ((result = assembly_next(&job->assembly, finish, &job->grid)) == 1) {
		look_at(job);
		assembly_advance(&job->assembly);
	}
	assert_int_equal(result, 0);
}

/* Hands a rank's finished steps on. */
static void queue(struct job *job, uint32_t rank)
{
	struct step_entry entry;

	while (step_builder_take(job->builders[rank], &entry)) {
		made_step_queue(&job->table, &job->assembly, &job->packer, &entry);
	}
}

/* Counted from when the rank was first seen; of messages, those with the same other rank in that direction. */
static void count_from_attach(uint32_t rank, struct collective_part *part)
{
	uint32_t sends = part->operation == OPERATION_SEND;

	part->flags |= PART_SEQUENCE_RELATIVE;
	part->sequence += 100 + (7 * rank + 5 * part->peer + 3 * sends) % 23;
}

/* skipped: so many of the first calls of each rank are not seen, as by an attach. */
static void run(struct job *job, const uint32_t *skipped)
{
	struct collective_part *parts = calloc(simulator_parts_max(job->simulator), sizeof(*parts));
	const struct activity none = {0};
	struct step_entry entry;
	bool first = true;

	for (; simulator_step(job->simulator) == 1; first = false) {
		for (uint32_t r = 0; r < job->ranks; r++) {
			assert_true(simulator_entry(job->simulator, r, &entry, parts));
			for (size_t p = first && skipped ? skipped[r] : 0; p < entry.part_count;
				p++) {
				if (job->attached)
					count_from_attach(r, &parts[p]);
				step_builder_push(job->builders[r], &parts[p], &none);
			}
			queue(job, r);
		}
		assemble(job, false);
	}
	for (uint32_t r = 0; r < job->ranks; r++) {
		step_builder_finish(job->builders[r]);
		queue(job, r);
	}
	assemble(job, true);
	free(parts);
}

/* Of messages whose other end was seen, all are joined and in order; each rank has the same calls in each step. */
static void assert_one_grid_a_step(
	const struct shape *shape, const struct job *job, size_t least, size_t alone)
{
	if (job->grids < least || job->grids > STEPS || job->messages < 100 ||
		job->joined + alone < job->messages || job->unordered || job->changes)
		fail_msg("%s: %zu grids, %zu of %zu messages joined, %zu instances in no order, "
			 "%zu changes",
			shape->name, job->grids, job->joined, job->messages, job->unordered,
			job->changes);
}

static void check_steps(const struct shape *shape, uint32_t stages, bool shuffled)
{
	struct sim_options options = options_of(shape, STEPS);
	struct job job;

	options.shape.pipeline = stages;
	options.shuffled = shuffled;
	set_up(&job, &options);
	/* What follows the gradients' last all-reduce is the next step's. */
	job.warm_up = shape->data > 1;
	run(&job, NULL);
	assert_one_grid_a_step(shape, &job, STEPS, 0);
	tear_down(&job);
}

static void each_step_is_one_grid(void **state)
{
	(void)state;
	for (size_t s = 0; s < SHAPE_COUNT; s++) {
		check_steps(&shapes[s], STAGES, false);
		check_steps(&shapes[s], STAGES, true);
		if (shapes[s].virtual_stages == 1)
			check_steps(&shapes[s], 2, true);
	}
}

/* Ranks that are seen from somewhere in a step on, each from another place. */
static void wherever_steps_are_cut(void **state)
{
	static const uint32_t skipped[RANKS_MAX] = {
		3, 5, 1, 7, 2, 0, 9, 4, 11, 6, 8, 13, 10, 12, 3, 1};

	(void)state;
	for (size_t s = 0; s < SHAPE_COUNT; s++) {
		struct sim_options options = options_of(&shapes[s], STEPS);
		size_t alone = 0;
		struct job job;

		set_up(&job, &options);
		for (uint32_t r = 0; r < job.ranks; r++)
			alone += skipped[r];
		job.warm_up = 2;
		job.cut_off = true;
		run(&job, skipped);
		assert_one_grid_a_step(&shapes[s], &job, STEPS - 1, alone);
		tear_down(&job);
	}
}

/* Which message is which is found by when they were sent and received, before a third of the job is over. */
static void attached_somewhere(void **state)
{
	static const uint32_t skipped[RANKS_MAX] = {
		3, 5, 1, 7, 2, 0, 9, 4, 11, 6, 8, 13, 10, 12, 3, 1};

	(void)state;
	for (size_t s = 0; s < SHAPE_COUNT; s++) {
		struct sim_options options = options_of(&shapes[s], STEPS);
		struct job job;

		set_up(&job, &options);
		job.warm_up = STEPS / 3;
		job.cut_off = job.attached = true;
		run(&job, skipped);
		assert_one_grid_a_step(&shapes[s], &job, STEPS - 1, 0);
		tear_down(&job);
	}
}

/* Groups of messages, one to the rank itself and one from it; beside a pipeline as well. */
static void exchange_of_all_with_all(void **state)
{
	static const struct shape kinds[] = {
		{"experts", SIM_SCHEDULE_1F1B, 1, 8, 1, false, true},
		{"experts, 1F1B", SIM_SCHEDULE_1F1B, 1, 4, 4, false, true},
	};

	(void)state;
	for (size_t s = 0; s < sizeof(kinds) / sizeof(kinds[0]); s++) {
		struct sim_options options = options_of(&kinds[s], STEPS);
		struct job job;

		options.shape.pipeline = 1 + (uint32_t)s;
		options.shape.expert = 4;
		set_up(&job, &options);
		job.warm_up = 1;
		run(&job, NULL);
		assert_one_grid_a_step(&kinds[s], &job, STEPS, 0);
		tear_down(&job);
	}
}

/* A stage has no peer: each stream carries what no other stage's does, in that order. */
static bool unlike(const struct shape *shape)
{
	return shape->stream_each && shape->data == 1 && shape->schedule != SIM_SCHEDULE_GPIPE;
}

/* What is said of a job: a line for each verdict. */
static char *told(struct sim_options *options, struct sim_truth *truth)
{
	struct pipeline *pipeline = simulated_pipeline(options, 1, truth);
	const struct report_model *model = pipeline_report(pipeline);
	size_t length;
	char *text;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	for (size_t v = 0; v < model->verdict_count; v++) {
		const struct verdict *verdict = &model->verdicts[v];

		fprintf(out, "%s, %u ranks, rank %u, from step %lu\n",
			verdict_class_name(verdict->verdict_class), verdict->rank_count,
			verdict->ranks[0], (unsigned long)verdict->first_step);
		assert_true(!truth || fabs(verdict->slowdown / truth->slowdown[0] - 1) < 0.1);
	}
	assert_int_equal(fclose(out), 0);
	pipeline_destroy(pipeline);
	return text;
}

/* Who is slow is named in any order as it is in order; of stages that are alike also where there is one of each. */
static void named_in_any_order(void **state)
{
	(void)state;
	for (size_t s = 0; s < SHAPE_COUNT; s++) {
		struct sim_options options = options_of(&shapes[s], 150);
		struct sim_truth truth;
		char *in_order, *shuffled, expected[64];

		options.by_launch = false;
		in_order = told(&options, NULL);
		assert_string_equal(in_order, "");
		free(in_order);
		options.fault_count = 1;
		options.faults[0] = (struct sim_fault){.kind = SIM_FAULT_COMPUTE,
			.rank = shapes[s].data,
			.first = 60,
			.last = UINT32_MAX,
			.size = 0.3};
		options.shuffled = false;
		in_order = told(&options, &truth);
		options.shuffled = true;
		shuffled = told(&options, &truth);
		assert_string_equal(in_order, shuffled);
		snprintf(expected, sizeof(expected), "compute-slow, 1 ranks, rank %u, from",
			shapes[s].data);
		if (!unlike(&shapes[s]) && strncmp(shuffled, expected, strlen(expected)) != 0)
			fail_msg("%s: %s", shapes[s].name, shuffled);
		free(in_order);
		free(shuffled);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_step_is_one_grid),
		cmocka_unit_test(wherever_steps_are_cut),
		cmocka_unit_test(attached_somewhere),
		cmocka_unit_test(exchange_of_all_with_all),
		cmocka_unit_test(named_in_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
