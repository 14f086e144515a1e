/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs whose ranks speak over RDMA: a slow link is found on the right rank and pair, with the
 * cause that the ports tell; a healthy one is not; the report has every pair, joined.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/report/json.h"
#include "coordinator/report/pairs.h"
#include "coordinator/report/text.h"
#include "job_simulator.h"

struct outcome {
	struct sim *sim;
	struct pipeline *pipeline;
	const struct report_model *model;
};

static struct outcome run(const struct sim_options *options)
{
	struct outcome outcome = {.sim = calloc(1, sizeof(struct sim))};
	struct pipeline_options pipeline_options = {sim_on_verdict, outcome.sim};

	sim_simulate(outcome.sim, options);
	assert_int_equal(pipeline_create(&pipeline_options, &outcome.pipeline), 0);
	assert_int_equal(sim_feed_all(outcome.sim, outcome.pipeline), 0);
	outcome.model = pipeline_report(outcome.pipeline);
	return outcome;
}

static void end(struct outcome *outcome)
{
	pipeline_destroy(outcome->pipeline);
	sim_free(outcome->sim, true);
	free(outcome->sim);
}

static void add_fault(struct sim_options *options, struct sim_fault fault)
{
	options->faults[options->fault_count++] = fault;
}

/* Runs a job in which one verdict is told, on one rank; for further checks, then end(). */
static struct outcome run_named(
	const struct sim_options *options, unsigned culprit, enum verdict_class class)
{
	struct outcome outcome = run(options);
	const struct verdict *verdict = &outcome.model->verdicts[0];

	assert_int_equal(outcome.sim->alert_count, 1);
	assert_int_equal(verdict->verdict_class, class);
	assert_int_equal(verdict->rank_count, 1);
	assert_int_equal(verdict->ranks[0], culprit);
	return outcome;
}

static void check_named(
	const struct sim_options *options, unsigned culprit, enum verdict_class class)
{
	struct outcome outcome = run_named(options, culprit, class);

	end(&outcome);
}

static void check_nobody_is_named(const struct sim_options *options)
{
	struct outcome outcome = run(options);

	assert_int_equal(outcome.sim->alert_count, 0);
	end(&outcome);
}

static struct sim_options rdma_options(unsigned ranks, uint64_t seed)
{
	struct sim_options options = sim_defaults(ranks, seed);

	options.rdma = true;
	options.steps = 1500;
	return options;
}

static void check_slow_link(unsigned ranks, unsigned culprit, bool lossy, uint64_t seed)
{
	struct sim_options options = rdma_options(ranks, seed);
	struct outcome outcome;
	const struct verdict *alert;

	options.lossy = lossy;
	add_fault(&options, (struct sim_fault){SIM_COMM, culprit, 600, 1400, 0.4});
	outcome = run_named(&options, culprit, VERDICT_COMM_SLOW);
	alert = &outcome.model->verdicts[0];
	assert_true(alert->pairs.count >= 1);
	assert_int_equal(alert->pairs.list[0].from, culprit);
	assert_int_equal(alert->pairs.list[0].to, (culprit + 1) % ranks);
	assert_int_equal(alert->cause, lossy ? CAUSE_NIC_RETRANSMIT : CAUSE_NIC_LINK);
	assert_true(alert->first_step + 60 >= 600 && alert->first_step <= 660);
	end(&outcome);
}

static void slow_link(void **state)
{
	(void)state;
	check_slow_link(2, 1, false, 1);
	check_slow_link(4, 2, false, 2);
	check_slow_link(8, 0, false, 3);
	check_slow_link(16, 11, false, 4);
}

static void lossy_link(void **state)
{
	(void)state;
	check_slow_link(2, 0, true, 5);
	check_slow_link(4, 3, true, 6);
	check_slow_link(8, 5, true, 7);
}

static void healthy(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct sim_options options = rdma_options(8, 40 + seed);
		struct outcome outcome = run(&options);

		assert_int_equal(outcome.sim->alert_count, 0);
		assert_false(report_pairs_text_wanted(outcome.model));
		end(&outcome);
	}
}

/* Late because it computes: requests of all complete as fast as ever. */
static void slow_rank_is_no_link(void **state)
{
	struct sim_options options = rdma_options(8, 50);
	struct outcome outcome;

	(void)state;
	add_fault(&options, (struct sim_fault){SIM_COMPUTE, 3, 600, 1400, 0.3});
	outcome = run(&options);
	assert_int_equal(outcome.sim->alert_count, 1);
	assert_int_not_equal(outcome.model->verdicts[0].verdict_class, VERDICT_COMM_SLOW);
	assert_int_equal(outcome.model->verdicts[0].ranks[0], 3);
	assert_int_equal(outcome.model->verdicts[0].pairs.count, 0);
	end(&outcome);
}

/*
 * A rank that leaves collectives late is named for it where nothing is known of its link. Where
 * its queue pairs are seen, and are as fast as ever, something else holds it up: nobody is named.
 */
static void late_leaving_is_no_slow_link(void **state)
{
	struct sim_options options = rdma_options(8, 55);
	struct outcome outcome;

	(void)state;
	add_fault(&options, (struct sim_fault){SIM_LEAVE, 3, 600, 1400, 0.4});
	options.rdma = false;
	check_named(&options, 3, VERDICT_COMM_SLOW);
	options.rdma = true;
	outcome = run(&options);
	assert_int_equal(outcome.model->pair_count, 16);
	assert_int_equal(outcome.sim->alert_count, 0);
	end(&outcome);
}

/*
 * Stalls of 1.2 s in every so many'th step of 100 to 140 ms, and nothing between, as UCX's timeout makes
 * them; one request in 64 has a time. What its ports count says whose they are.
 */
static struct sim_options stall_options(unsigned ranks, uint64_t seed)
{
	struct sim_options options = rdma_options(ranks, seed);

	options.calls = 2;
	options.call[0].share = options.call[1].share = 0.5;
	options.step_ms = 120;
	options.steps = 900;
	options.transfer_us = 4000; /* as long, and as unsteady, as on a busy machine */
	options.transfer_jitter = 0.5;
	options.stall_ms = 1200;
	options.timed_every = 64;
	options.lossy = true;
	return options;
}

/* How much longer steps are from one on than those before it. */
static double true_slowdown(const struct sim *sim, unsigned first)
{
	double before = (sim->step_start[first] - sim->step_start[0]) / first;
	unsigned last = sim->options.steps - 1;

	return (sim->step_start[last] - sim->step_start[first]) / (last - first) / before;
}

static void check_stalls(unsigned ranks, unsigned culprit, double share, uint64_t seed)
{
	struct sim_options options = stall_options(ranks, seed);
	struct outcome outcome;
	const struct verdict *alert;

	add_fault(&options, (struct sim_fault){SIM_STALL, culprit, 400, 899, share});
	outcome = run_named(&options, culprit, VERDICT_COMM_SLOW);
	alert = &outcome.model->verdicts[0];
	assert_int_equal(alert->cause, CAUSE_NIC_RETRANSMIT);
	assert_true(alert->pairs.count >= 1);
	assert_int_equal(alert->pairs.list[0].from, culprit);
	assert_int_equal(alert->pairs.list[0].to, (culprit + 1) % ranks);
	assert_true(alert->first_step >= 380);
	assert_false(alert->ended);
	/* Stalls after which only one rank is late cost as much as those of all. */
	assert_true(fabs(alert->slowdown / true_slowdown(outcome.sim, 400) - 1) < 0.2);
	end(&outcome);
}

static void rare_stalls(void **state)
{
	(void)state;
	check_stalls(4, 1, 0.1, 70);   /* in every fifth step */
	check_stalls(4, 3, 0.03, 71);  /* every 17th: every three seconds */
	check_stalls(8, 0, 0.015, 72); /* every 33rd: every five seconds */
	check_stalls(16, 9, 0.015, 73);
	check_stalls(2, 1, 0.03, 74);
}

/* The same stalls, but nothing says whose they are: no port, all ports, or all of them once. */
static void stalls_of_nobody(void **state)
{
	struct sim_options options = stall_options(8, 80);

	(void)state;
	options.lossy = false;
	add_fault(&options, (struct sim_fault){SIM_STALL, 3, 400, 899, 0.02});
	check_nobody_is_named(&options);
	options.lossy = true;
	options.fault_count = 0;
	for (unsigned r = 0; r < 8; r++)
		add_fault(&options, (struct sim_fault){SIM_STALL, r, 400, 899, 0.003});
	check_nobody_is_named(&options);
}

/* Packets that are sent again in no time, and a stall that comes once a minute, are no news. */
static void losses_that_cost_nothing(void **state)
{
	struct sim_options options = stall_options(8, 90);

	(void)state;
	add_fault(&options, (struct sim_fault){SIM_LOSE, 5, 300, 899, 0.5});
	add_fault(&options, (struct sim_fault){SIM_STALL, 5, 300, 899, 0.001});
	for (options.seed = 90; options.seed < 94; options.seed++)
		check_nobody_is_named(&options);
}

/* A rank's ports that have always lost packets are not the reason why another's link is slow now. */
static void loser_is_not_blamed(void **state)
{
	struct sim_options options = rdma_options(8, 95);
	struct outcome outcome;

	(void)state;
	add_fault(&options, (struct sim_fault){SIM_LOSE, 1, 0, 1499, 0.2});
	add_fault(&options, (struct sim_fault){SIM_COMM, 5, 600, 1400, 0.4});
	check_named(&options, 5, VERDICT_COMM_SLOW);
	/* With both at once it is not known which it is. */
	options.faults[0].first = 600;
	outcome = run(&options);
	for (size_t v = 0; v < outcome.model->verdict_count; v++)
		assert_int_equal(outcome.model->verdicts[v].rank_count, 0);
	end(&outcome);
}

/* Who sends to a slow link's rank gets its acknowledgements late, and sends again what nobody missed. */
static void late_acknowledgements(void **state)
{
	struct sim_options options = rdma_options(8, 97);

	(void)state;
	options.timeouts = true;
	add_fault(&options, (struct sim_fault){SIM_COMM, 5, 600, 1400, 0.4});
	check_named(&options, 5, VERDICT_COMM_SLOW);
}

static double number_after(const char *text, const char *name)
{
	const char *found = strstr(text, name);

	assert_non_null(found);
	return atof(found + strlen(name));
}

static void report_has_every_pair(void **state)
{
	struct sim_options options = rdma_options(4, 60);
	struct outcome outcome;
	char *text = NULL, *slow;
	size_t length = 0;
	double row[5];
	FILE *out;

	(void)state;
	options.lossy = true;
	options.hosts = 2;
	options.offset_ms[1] = 5000;
	add_fault(&options, (struct sim_fault){SIM_COMM, 1, 600, 1400, 0.4});
	outcome = run(&options);
	assert_int_equal(outcome.model->pair_count, 8);
	for (size_t i = 0; i < outcome.model->pair_count; i++) {
		const struct report_pair *pair = &outcome.model->pairs[i];
		bool sends = pair->peer == (pair->rank + 1) % 4;

		assert_int_equal(pair->rank, i / 2);
		assert_true(sends || pair->peer == (pair->rank + 3) % 4);
		assert_int_equal(sends, pair->posted_bytes > 0);
		assert_int_equal(sends, pair->received_bytes == 0);
		if (sends) {
			assert_true(pair->bytes_per_s > 0);
			assert_int_equal(pair->completed_requests, pair->latency_count);
		}
		assert_int_equal(pair->rank == 1, pair->port_loss > 0);
	}
	out = open_memstream(&text, &length);
	assert_int_equal(report_json_write(outcome.model, out), 0);
	fclose(out);
	assert_non_null(strstr(text, "\"pairs\": [{\"from\": 1, \"to\": 2}"));
	/* An end that posts nothing: 0 bytes a second, and no time. */
	assert_non_null(strstr(text, "\"bytes_per_s\": 0.0, \"latency_us_mean\": null"));
	assert_non_null(strstr(text, "\"rank\": 3, \"peer\": 0, \"queue_pairs\": 1"));
	slow = strstr(text, "\"rank\": 1, \"peer\": 2");
	assert_non_null(slow);
	assert_true(number_after(slow, "\"bytes_per_s\": ") > 1000);
	assert_true(number_after(slow, "\"latency_us_mean\": ") > 50);
	assert_true(number_after(slow, "\"port_loss_rate\": ") > 0);
	free(text);
	out = open_memstream(&text, &length);
	assert_int_equal(report_text_write(outcome.model, NULL, out), 0);
	fclose(out);
	assert_non_null(strstr(text, "RDMA pairs"));
	assert_non_null(strstr(text, "rank 1 to rank 2"));
	assert_non_null(
		strstr(text, "rank   peer         MB       MB/s    mean ms     p99 ms     loss %"));
	slow = strstr(text, "\n       1      2 ");
	assert_non_null(slow);
	assert_int_equal(sscanf(slow, "%*u %*u %lf %lf %lf %lf %lf", &row[0], &row[1], &row[2],
				 &row[3], &row[4]),
		5);
	for (size_t i = 0; i < 5; i++)
		assert_true(row[i] > 0);
	free(text);
	end(&outcome);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_link),
		cmocka_unit_test(lossy_link),
		cmocka_unit_test(healthy),
		cmocka_unit_test(slow_rank_is_no_link),
		cmocka_unit_test(late_leaving_is_no_slow_link),
		cmocka_unit_test(rare_stalls),
		cmocka_unit_test(stalls_of_nobody),
		cmocka_unit_test(losses_that_cost_nothing),
		cmocka_unit_test(loser_is_not_blamed),
		cmocka_unit_test(late_acknowledgements),
		cmocka_unit_test(report_has_every_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
