/* SPDX-License-Identifier: Apache-2.0 */
/* Who watches the steps is told all that the report's totals of ranks are made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/attribute/blame.h"
#include "analysis/judge/judge.h"
#include "tests/unit/coordinator/job_simulator.h"

struct seen {
	uint64_t steps[SIM_RANKS_MAX], job_steps, programs, passed_over;
	struct row_phases phases[SIM_RANKS_MAX];
	int64_t wait_ns[SIM_RANKS_MAX], transfer_ns[SIM_RANKS_MAX];
	int64_t charged_ns[SIM_RANKS_MAX], inherited_ns[SIM_RANKS_MAX];
};

/* What the simulator leaves out; each entry has another one. */
static void add_phases(struct sim *sim)
{
	for (unsigned r = 0; r < sim->options.ranks; r++) {
		for (size_t e = 0; e < sim->rank[r].entry_count; e++) {
			struct step_entry *entry = &sim->rank[r].entries[e];
			int64_t length_ns = entry->end.value - entry->start.value;

			entry->input_ns = length_ns / 16 + r;
			entry->host_ns = length_ns / 8 + (int64_t)e;
			entry->compute_ns = length_ns / 2;
			entry->comm_ns =
				length_ns - entry->input_ns - entry->host_ns - entry->compute_ns;
		}
	}
}

static void take_step(void *context, const struct judged_step *step)
{
	const struct step_grid *grid = step->grid;
	struct seen *seen = context;

	seen->job_steps++;
	seen->programs = grid->step.of_program + 1;
	seen->passed_over += step->blame == NULL;
	for (size_t r = 0; r < grid->row_count; r++) {
		const struct grid_row *row = &grid->rows[r];
		struct row_phases *phases = &seen->phases[row->rank];

		phases->input_ns += row->phases.input_ns;
		phases->compute_ns += row->phases.compute_ns;
		phases->host_ns += row->phases.host_ns;
		phases->comm_ns += row->phases.comm_ns;
		if (!step->blame)
			continue;
		seen->steps[row->rank] += grid->step.ends_program;
		seen->wait_ns[row->rank] += step->blame->rows[r].wait_ns;
		seen->transfer_ns[row->rank] += step->blame->rows[r].transfer_ns;
		seen->charged_ns[row->rank] += step->blame->rows[r].charged_ns;
		seen->inherited_ns[row->rank] += step->blame->rows[r].inherited_ns;
	}
}

static void assert_sums(const struct seen *seen, const struct report_model *model)
{
	assert_int_equal(seen->programs, model->totals.steps);
	for (uint32_t i = 0; i < model->rank_count; i++) {
		const struct rank_totals *rank = &model->ranks[i].totals;
		const int64_t *phase_ns = rank->phase_ns;
		uint32_t r = rank->rank;

		assert_int_equal(seen->steps[r], rank->steps);
		assert_int_equal(seen->phases[r].input_ns, phase_ns[PHASE_INPUT]);
		assert_int_equal(seen->phases[r].compute_ns, phase_ns[PHASE_COMPUTE]);
		assert_int_equal(seen->phases[r].host_ns, phase_ns[PHASE_HOST]);
		assert_int_equal(seen->phases[r].comm_ns,
			phase_ns[PHASE_COMM_WAIT] + phase_ns[PHASE_COMM_TRANSFER]);
		assert_true(seen->phases[r].input_ns > 0);
		assert_true(seen->wait_ns[r] + seen->transfer_ns[r] > 0);
		assert_int_equal(seen->charged_ns[r], rank->own_excess_ns);
		assert_int_equal(seen->inherited_ns[r], rank->inherited_ns);
	}
}

static void watch_job(const struct sim_options *options)
{
	static struct sim sim;
	struct seen seen = {0};
	struct pipeline *pipeline;
	struct pipeline_options none = {0};

	sim_simulate(&sim, options);
	assert_int_equal(pipeline_create(&none, &pipeline), 0);
	pipeline_watch_steps(pipeline, take_step, &seen);
	assert_int_equal(sim_feed_all(&sim, pipeline), 0);
	assert_true(seen.job_steps >= options->steps - 1);
	assert_int_equal(seen.passed_over, 0);
	assert_sums(&seen, pipeline_report(pipeline));
	pipeline_destroy(pipeline);
	sim_free(&sim, true);
}

static void sums_are_the_report(void **state)
{
	struct sim_options options = sim_defaults(6, 3);

	(void)state;
	options.hosts = 3;
	options.steps = 200;
	options.jitter = 0.02;
	options.tamper = add_phases;
	watch_job(&options);
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){SIM_THROTTLE, 2, 80, 150, 0.5};
	watch_job(&options);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_are_the_report),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
