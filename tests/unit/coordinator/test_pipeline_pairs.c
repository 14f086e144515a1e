/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs whose ranks speak over RDMA: a slow link is found on the right rank and pair, with the
 * cause that the ports tell; a healthy one is not; the report has every pair, joined.
 */
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
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){SIM_COMM, culprit, 600, 1400, 0.4};
	outcome = run(&options);
	assert_int_equal(outcome.sim->alert_count, 1);
	alert = &outcome.model->verdicts[0];
	assert_int_equal(alert->verdict_class, VERDICT_COMM_SLOW);
	assert_int_equal(alert->rank_count, 1);
	assert_int_equal(alert->ranks[0], culprit);
	assert_true(alert->pair_count >= 1);
	assert_int_equal(alert->pairs[0].from, culprit);
	assert_int_equal(alert->pairs[0].to, (culprit + 1) % ranks);
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
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){SIM_COMPUTE, 3, 600, 1400, 0.3};
	outcome = run(&options);
	assert_int_equal(outcome.sim->alert_count, 1);
	assert_int_not_equal(outcome.model->verdicts[0].verdict_class, VERDICT_COMM_SLOW);
	assert_int_equal(outcome.model->verdicts[0].ranks[0], 3);
	assert_int_equal(outcome.model->verdicts[0].pair_count, 0);
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
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){SIM_LEAVE, 3, 600, 1400, 0.4};
	options.rdma = false;
	outcome = run(&options);
	assert_int_equal(outcome.sim->alert_count, 1);
	assert_int_equal(outcome.model->verdicts[0].verdict_class, VERDICT_COMM_SLOW);
	assert_int_equal(outcome.model->verdicts[0].rank_count, 1);
	assert_int_equal(outcome.model->verdicts[0].ranks[0], 3);
	end(&outcome);
	options.rdma = true;
	outcome = run(&options);
	assert_int_equal(outcome.model->pair_count, 16);
	assert_int_equal(outcome.sim->alert_count, 0);
	end(&outcome);
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
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){SIM_COMM, 1, 600, 1400, 0.4};
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
		assert_int_equal(pair->rank == 1 || pair->rank == 0, pair->port_loss > 0);
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
		cmocka_unit_test(report_has_every_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
