/* SPDX-License-Identifier: Apache-2.0 */
/* What is held back from alerts, and when it goes out; verdicts are the same whatever the limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "coordinator/output/alert_gate.h"
#include "tests/unit/coordinator/job_simulator.h"

#define SECOND INT64_C(1000000000)

struct told {
	unsigned count[4]; /* by event */
	struct verdict last;
};

static void on_verdict(void *context, enum verdict_event event, const struct verdict *verdict)
{
	struct told *told = context;

	told->count[event]++;
	told->last = *verdict;
}

static struct verdict make(uint32_t id, enum verdict_class verdict_class, double slowdown)
{
	return (struct verdict){.id = id,
		.verdict_class = (uint8_t)verdict_class,
		.slowdown = slowdown,
		.onset = {100 * SECOND},
		.end = {110 * SECOND}};
}

static struct alert_gate gate_of(
	struct told *told, double slowdown, int64_t after_s, double imbalance)
{
	*told = (struct told){0};
	return (struct alert_gate){.limits = {slowdown, after_s * SECOND, imbalance},
		.on_verdict = on_verdict,
		.context = told};
}

static void without_limits(void **state)
{
	struct told told;
	struct alert_gate gate = gate_of(&told, 0, 0, 0);
	struct verdict verdict = make(1, VERDICT_WORKLOAD_IMBALANCE, 1.001);

	(void)state;
	verdict.end.value = verdict.onset.value - 1; /* clocks that disagree */
	alert_gate_verdict(&gate, VERDICT_EVENT_ALERT, &verdict);
	alert_gate_verdict(&gate, VERDICT_EVENT_UPDATE, &verdict);
	alert_gate_verdict(&gate, VERDICT_EVENT_RECOVERED, &verdict);
	assert_int_equal(told.count[VERDICT_EVENT_ALERT], 1);
	assert_int_equal(told.count[VERDICT_EVENT_UPDATE], 1);
	assert_int_equal(told.count[VERDICT_EVENT_RECOVERED], 1);
	alert_gate_fini(&gate);
}

/* Too small at first, then not: it is an alert then, and told of to its end, however small. */
static void becomes_worse(void **state)
{
	struct told told;
	struct alert_gate gate = gate_of(&told, 1.10, 0, 0);
	struct verdict verdict = make(3, VERDICT_HOST_SLOW, 1.05);

	(void)state;
	alert_gate_verdict(&gate, VERDICT_EVENT_ALERT, &verdict);
	alert_gate_verdict(&gate, VERDICT_EVENT_UPDATE, &verdict);
	assert_int_equal(told.count[VERDICT_EVENT_ALERT] + told.count[VERDICT_EVENT_UPDATE], 0);
	assert_int_equal(alert_gate_hold(&gate, 3), ALERT_HOLD_SLOWDOWN);
	assert_int_equal(alert_gate_hold(&gate, 1), ALERT_HOLD_NONE);
	verdict.slowdown = 1.10;
	alert_gate_verdict(&gate, VERDICT_EVENT_UPDATE, &verdict);
	assert_int_equal(told.count[VERDICT_EVENT_ALERT], 1);
	assert_int_equal(told.count[VERDICT_EVENT_UPDATE], 0);
	assert_int_equal(alert_gate_hold(&gate, 3), ALERT_HOLD_NONE);
	verdict.slowdown = 1.01;
	verdict.ended = 1;
	alert_gate_verdict(&gate, VERDICT_EVENT_RECOVERED, &verdict);
	assert_int_equal(told.count[VERDICT_EVENT_RECOVERED], 1);
	alert_gate_fini(&gate);
}

/* Nobody hears of the end of what nobody heard of; nor of its cause, found afterwards. */
static void ends_unheard(void **state)
{
	struct told told;
	struct alert_gate gate = gate_of(&told, 1.10, 0, 0);
	struct verdict verdict = make(1, VERDICT_HOST_SLOW, 1.05);

	(void)state;
	alert_gate_verdict(&gate, VERDICT_EVENT_ALERT, &verdict);
	verdict.ended = 1;
	alert_gate_verdict(&gate, VERDICT_EVENT_RECOVERED, &verdict);
	verdict.slowdown = 1.5;
	alert_gate_verdict(&gate, VERDICT_EVENT_UPDATE, &verdict);
	alert_gate_look(&gate, &verdict, 1);
	assert_int_equal(told.count[1] + told.count[2] + told.count[3], 0);
	assert_int_equal(alert_gate_hold(&gate, 1), ALERT_HOLD_SLOWDOWN);
	alert_gate_fini(&gate);
}

static void lasts(void **state)
{
	struct told told;
	struct alert_gate gate = gate_of(&told, 1.10, 30, 0);
	struct verdict verdicts[] = {make(1, VERDICT_HANG, 0), make(2, VERDICT_COMM_SLOW, 1.3),
		make(3, VERDICT_HOST_SLOW, 1.01)};

	(void)state;
	for (int i = 0; i < 3; i++)
		alert_gate_verdict(&gate, VERDICT_EVENT_ALERT, &verdicts[i]);
	for (int i = 0; i < 3; i++)
		verdicts[i].end.value += 19 * SECOND;
	alert_gate_look(&gate, verdicts, 3);
	assert_int_equal(told.count[VERDICT_EVENT_ALERT], 0);
	assert_int_equal(alert_gate_hold(&gate, 1), ALERT_HOLD_DURATION);
	assert_int_equal(alert_gate_hold(&gate, 3), ALERT_HOLD_SLOWDOWN);
	for (int i = 0; i < 3; i++)
		verdicts[i].end.value += SECOND;
	alert_gate_look(&gate, verdicts, 3);
	alert_gate_look(&gate, verdicts, 3);
	/* The hang, which has no factor, and the one that is large; each once. */
	assert_int_equal(told.count[VERDICT_EVENT_ALERT], 2);
	assert_int_equal(told.last.id, 2);
	assert_int_equal(gate.held, 1);
	alert_gate_fini(&gate);
}

static void known_imbalance(void **state)
{
	struct told told;
	struct alert_gate gate = gate_of(&told, 0, 0, 1.20);
	struct verdict verdicts[] = {make(1, VERDICT_WORKLOAD_IMBALANCE, 1.20),
		make(2, VERDICT_WORKLOAD_IMBALANCE, 1.21), make(3, VERDICT_COMPUTE_SLOW, 1.05)};

	(void)state;
	for (int i = 0; i < 3; i++)
		alert_gate_verdict(&gate, VERDICT_EVENT_ALERT, &verdicts[i]);
	assert_int_equal(told.count[VERDICT_EVENT_ALERT], 2);
	assert_int_equal(alert_gate_hold(&gate, 1), ALERT_HOLD_IMBALANCE);
	alert_gate_fini(&gate);
}

/* A job with a throttled rank for about 4 s, under limits. */
static void run_job(const struct alert_limits *limits, struct sim *sim, struct verdict *verdict,
	enum alert_hold *hold)
{
	struct sim_options options = sim_defaults(4, 7);
	struct pipeline_options pipeline_options = {sim_on_verdict, sim};
	const struct report_model *model;
	struct pipeline *pipeline;

	options.steps = 480;
	options.compute_share = 1;
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){SIM_THROTTLE, 2, 200, 400, 0.3};
	sim_simulate(sim, &options);
	assert_int_equal(pipeline_create(&pipeline_options, &pipeline), 0);
	pipeline_limit_alerts(pipeline, limits);
	assert_int_equal(sim_feed_all(sim, pipeline), 0);
	model = pipeline_report(pipeline);
	assert_int_equal(model->verdict_count, 1);
	*verdict = model->verdicts[0];
	*hold = alert_gate_hold(model->alerts, 1);
	pipeline_destroy(pipeline);
	sim_free(sim, true);
}

static void of_a_job(void **state)
{
	static const struct {
		struct alert_limits limits;
		enum alert_hold hold;
	} cases[] = {
		{{0}, ALERT_HOLD_NONE},
		{{.slowdown = 1.1, .after_ns = 2 * SECOND, .imbalance = 2}, ALERT_HOLD_NONE},
		{{.slowdown = 2}, ALERT_HOLD_SLOWDOWN},
		{{.after_ns = 60 * SECOND}, ALERT_HOLD_DURATION},
	};
	struct verdict first, verdict;
	static struct sim sim;
	enum alert_hold hold;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool told = cases[i].hold == ALERT_HOLD_NONE;

		memset(&sim, 0, sizeof(sim));
		run_job(&cases[i].limits, &sim, &verdict, &hold);
		assert_int_equal(hold, cases[i].hold);
		assert_int_equal(sim.alert_count, told);
		assert_int_equal(sim.recovered_count, told);
		if (i == 0)
			first = verdict;
		assert_memory_equal(&verdict, &first, sizeof(verdict));
		if (told)
			assert_true(sim.alerts[0].end.value - sim.alerts[0].onset.value >=
				    cases[i].limits.after_ns);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_limits),
		cmocka_unit_test(becomes_worse),
		cmocka_unit_test(ends_unheard),
		cmocka_unit_test(lasts),
		cmocka_unit_test(known_imbalance),
		cmocka_unit_test(of_a_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
