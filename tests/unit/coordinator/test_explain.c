/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of ranks that are named, and of those that are not, agrees with the verdicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "coordinator/report/sheets.h"
#include "tests/unit/coordinator/job_simulator.h"

enum { RANKS = 4, CULPRIT = 2, FIRST = 300, LAST = 499, STEPS = 600 };

static struct sim sim;

/* Runs a job with a fault; what the report would say of it. */
static struct pipeline *judged(
	enum sim_fault_kind kind, double size, unsigned last, struct report_sheets *sheets)
{
	struct pipeline_options options = {sim_on_verdict, &sim};
	struct sim_options job = sim_defaults(RANKS, 7);
	struct pipeline *pipeline;

	job.steps = STEPS;
	job.tcp = kind == SIM_COMM;
	job.compute_share = kind == SIM_THROTTLE ? 1 : 0.3;
	job.fault_count = 1;
	job.faults[0] = (struct sim_fault){kind, CULPRIT, FIRST, last, size};
	sim_simulate(&sim, &job);
	assert_int_equal(pipeline_create(&options, &pipeline), 0);
	pipeline_watch_sheets(pipeline, report_sheets_take, sheets);
	assert_int_equal(sim_feed_all(&sim, pipeline), 0);
	sim_free(&sim, true);
	return pipeline;
}

static struct report_sheets *asked(const char *who)
{
	struct sheets_wish wish;
	struct report_sheets *sheets;

	assert_true(report_sheets_parse(who, &wish));
	sheets = report_sheets_create(&wish);
	assert_non_null(sheets);
	return sheets;
}

static void who_is_named_passed_every_gate(void **state)
{
	static const enum sim_fault_kind kinds[] = {SIM_COMPUTE, SIM_THROTTLE, SIM_MAJOR};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct report_sheets *sheets = asked("all");
		struct pipeline *pipeline = judged(kinds[i], 0.4, LAST, sheets);
		const struct report_model *model = pipeline_report(pipeline);
		const struct gate_sheet *sheet = report_sheets_of(sheets, CULPRIT);

		assert_int_equal(model->verdict_count, 1);
		assert_int_equal(gate_sheet_reach(sheet), GATE_NR);
		assert_int_equal(sheet->verdict, model->verdicts[0].id);
		assert_in_range(sheet->since_step, FIRST - 20, FIRST + 20);
		assert_true(sheet->gates[GATE_LEVEL].passed && sheet->gates[GATE_ROOM].passed);
		assert_int_equal(report_sheets_why(sheets, CULPRIT)->verdict_class,
			model->verdicts[0].verdict_class);
		/* And the others did not. */
		for (uint32_t r = 0; r < RANKS; r++) {
			sheet = report_sheets_of(sheets, r);
			assert_non_null(sheet);
			assert_true((r == CULPRIT) == (gate_sheet_reach(sheet) == GATE_NR));
			assert_true((r == CULPRIT) == (sheet->verdict != 0));
		}
		pipeline_destroy(pipeline);
		report_sheets_destroy(sheets);
	}
}

/* Too short: what it would have been told for is there, but it did not last. */
static void a_stall_does_not_last(void **state)
{
	struct report_sheets *sheets = asked("2:305");
	struct pipeline *pipeline = judged(SIM_COMPUTE, 0.6, FIRST + 6, sheets);
	const struct gate_sheet *sheet = report_sheets_of(sheets, CULPRIT);

	(void)state;
	assert_int_equal(pipeline_report(pipeline)->verdict_count, 0);
	assert_in_range(305, sheet->first_step, sheet->last_step);
	assert_true(sheet->level > 0.2);
	assert_int_equal(gate_sheet_reach(sheet), GATE_CHANGE);
	assert_true(sheet->gates[GATE_LOUD].passed);
	assert_true(sheet->gates[GATE_CHANGE].value > 0);
	pipeline_destroy(pipeline);
	report_sheets_destroy(sheets);
}

/* While it is named, it says so. */
static void a_named_rank_is_not_named_again(void **state)
{
	struct report_sheets *sheets = asked("2:450");
	struct pipeline *pipeline = judged(SIM_COMPUTE, 0.4, LAST, sheets);
	const struct gate_sheet *sheet = report_sheets_of(sheets, CULPRIT);

	(void)state;
	assert_int_equal(gate_sheet_reach(sheet), GATE_FREE);
	assert_int_equal(sheet->verdict, 1);
	pipeline_destroy(pipeline);
	report_sheets_destroy(sheets);
}

static void slow_transfers_are_located(void **state)
{
	struct report_sheets *sheets = asked("transfers");
	struct pipeline *pipeline = judged(SIM_COMM, 0.4, LAST, sheets);
	const struct gate_sheet *sheet = report_sheets_of(sheets, GATE_OF_TRANSFERS);

	(void)state;
	assert_int_equal(pipeline_report(pipeline)->verdict_count, 1);
	assert_int_equal(pipeline_report(pipeline)->verdicts[0].verdict_class, VERDICT_COMM_SLOW);
	assert_int_equal(gate_sheet_reach(sheet), GATE_NR);
	assert_true(sheet->gates[GATE_LOCATED].passed);
	pipeline_destroy(pipeline);
	report_sheets_destroy(sheets);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_named_passed_every_gate),
		cmocka_unit_test(a_stall_does_not_last),
		cmocka_unit_test(a_named_rank_is_not_named_again),
		cmocka_unit_test(slow_transfers_are_located),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
