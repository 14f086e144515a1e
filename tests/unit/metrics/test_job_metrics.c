/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text: escapes, histograms, the models that reports are tested with, and 131,072 ranks. */
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/metrics/job_metrics.h"
#include "tests/golden/models.h"

enum { RANKS = 131072, TEXT_MAX = 64 * 1024, SERIES_MAX = 1200, ROUNDS = 50 };

struct written {
	char *bytes;
	size_t length;
	struct metrics_text text;
};

static void begin(struct written *written)
{
	*written = (struct written){0};
	written->text.out = open_memstream(&written->bytes, &written->length);
	assert_non_null(written->text.out);
}

static void end(struct written *written)
{
	assert_int_equal(fclose(written->text.out), 0);
}

static void assert_has(const struct written *written, const char *line)
{
	if (!strstr(written->bytes, line))
		fail_msg("no '%s' in:\n%s", line, written->bytes);
}

static void test_labels(void **state)
{
	struct written written;

	(void)state;
	begin(&written);
	metrics_family(&written.text, "a_ratio", METRICS_GAUGE, "Help.");
	metrics_sample(&written.text,
		(struct metrics_label[]){{"x", "q\"b\\n\nt\te\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
			{"y", "bad \xff\xc3"}, {"z", NULL}},
		3, 0.5);
	end(&written);
	assert_string_equal(written.bytes,
		"# HELP a_ratio Help.\n# TYPE a_ratio gauge\n"
		"a_ratio{x=\"q\\\"b\\\\n\\nt\te\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\","
		"y=\"bad \xEF\xBF\xBD\xEF\xBF\xBD\",z=\"\"} 0.5\n");
	free(written.bytes);
}

static void test_numbers(void **state)
{
	static const struct {
		double value;
		const char *text;
	} rows[] = {{0, "a 0\n"}, {-3, "a -3\n"}, {1e15 - 1, "a 999999999999999\n"},
		{1.25, "a 1.25\n"}, {1e300, "a 1e+300\n"}, {NAN, "a NaN\n"}, {INFINITY, "a +Inf\n"},
		{-INFINITY, "a -Inf\n"}};
	struct written written;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(&written);
		written.text.name = "a";
		metrics_sample(&written.text, NULL, 0, rows[i].value);
		end(&written);
		assert_string_equal(written.bytes, rows[i].text);
		free(written.bytes);
	}
}

static void test_histogram(void **state)
{
	struct metrics_histogram histogram = {0};
	struct written written;

	(void)state;
	metrics_observe(&histogram, 0);
	metrics_observe(&histogram, 1e-4); /* bounds are included */
	metrics_observe(&histogram, 0.3);
	metrics_observe(&histogram, 100);
	begin(&written);
	metrics_histogram(&written.text, "h_seconds", "Help.", &histogram);
	end(&written);
	assert_has(&written, "# TYPE h_seconds histogram\nh_seconds_bucket{le=\"0.0001\"} 2\n");
	assert_has(&written, "h_seconds_bucket{le=\"0.2\"} 2\nh_seconds_bucket{le=\"0.5\"} 3\n");
	assert_has(&written, "h_seconds_bucket{le=\"50\"} 3\nh_seconds_bucket{le=\"100\"} 4\n");
	assert_has(&written, "h_seconds_bucket{le=\"200\"} 4\nh_seconds_bucket{le=\"+Inf\"} 4\n"
			     "h_seconds_sum 100.3001\nh_seconds_count 4\n");
	free(written.bytes);
}

/* False where promtool is missing. */
static bool promtool_is_content(const struct written *written)
{
	FILE *promtool;

	if (system("promtool --version >/dev/null 2>&1") != 0)
		return false;
	promtool = popen("promtool check metrics >&2", "w");
	assert_non_null(promtool);
	fwrite(written->bytes, 1, written->length, promtool);
	assert_int_equal(pclose(promtool), 0);
	return true;
}

static void write_model(const struct report_model *model, struct written *written)
{
	struct job_metrics *metrics;

	assert_int_equal(job_metrics_create(&metrics), 0);
	begin(written);
	job_metrics_take(metrics, model);
	job_metrics_write(metrics, model, &written->text);
	end(written);
	job_metrics_destroy(metrics);
}

static void test_models(void **state)
{
	static struct golden_model golden;
	struct written written;
	bool checked = true;

	(void)state;
	for (size_t i = 0; i < golden_case_count && checked; i++) {
		golden_cases[i].make(&golden);
		write_model(&golden.model, &written);
		checked = promtool_is_content(&written);
		free(written.bytes);
		golden_model_fini(&golden);
	}
	if (!checked)
		skip();
}

/* Each step counts once, when its last round ends, with the time of all of them. */
static void test_steps(void **state)
{
	static const struct grid_step steps[] = {
		{.of_program = 0, .end_ns = INT64_C(300000000), .ends_program = true},
		{.of_program = 1, .end_ns = INT64_C(8000000000)},
		{.of_program = 1, .end_ns = INT64_C(7000000000), .ends_program = true},
		{.of_program = 2, .end_ns = INT64_C(9000000000)}, /* was cut short */
		{.of_program = 3, .end_ns = INT64_C(400000000), .ends_program = true},
	};
	struct report_model model = {.job_id = "j"};
	struct job_metrics *metrics;
	struct written written;

	(void)state;
	assert_int_equal(job_metrics_create(&metrics), 0);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		job_metrics_take_step(metrics, &steps[i]);
	begin(&written);
	job_metrics_write(metrics, &model, &written.text);
	end(&written);
	assert_has(&written, "# TYPE slowrank_job_step_duration_seconds histogram\n");
	assert_has(&written, "slowrank_job_step_duration_seconds_bucket{le=\"0.5\"} 2\n");
	assert_has(&written, "slowrank_job_step_duration_seconds_bucket{le=\"10\"} 2\n"
			     "slowrank_job_step_duration_seconds_bucket{le=\"20\"} 3\n");
	assert_has(&written, "slowrank_job_step_duration_seconds_sum 15.7\n"
			     "slowrank_job_step_duration_seconds_count 3\n");
	free(written.bytes);
	job_metrics_destroy(metrics);
}

static void test_incidents(void **state)
{
	struct verdict verdicts[METRICS_INCIDENTS_MAX + 8] = {
		{.id = 1, .verdict_class = VERDICT_HOST_SLOW, .ended = 1, .slowdown = 2}};
	struct report_rank ranks[2] = {
		{.host = "no\"de", .totals.rank = 0}, {.host = "no\"de", .totals.rank = 7}};
	struct report_model model = {.job_id = "j",
		.verdicts = verdicts,
		.ranks = ranks,
		.rank_count = 2,
		.unix_offset_ns = INT64_C(1700000000000000000)};
	struct written written;

	(void)state;
	verdicts[1] = (struct verdict){.id = 2,
		.verdict_class = VERDICT_COMPUTE_SLOW,
		.slowdown = 1.5,
		.rank_count = 2,
		.ranks = {0, 7},
		.sure.unmeasured_since = 40,
		.onset = {500000000}};
	verdicts[2] =
		(struct verdict){.id = 3, .verdict_class = VERDICT_HANG, .slowdown = INFINITY};
	model.verdict_count = 3;
	write_model(&model, &written);
	assert_has(&written, "slowrank_incidents_total 3\n");
	assert_has(&written, "slowrank_incidents_active{class=\"host-slow\"} 0\n");
	assert_has(&written, "slowrank_incidents_active{class=\"hang\"} 1\n");
	assert_has(&written, "slowrank_incident_active{incident=\"3\"} 1\n"
			     "slowrank_incident_active{incident=\"2\"} 1\n#");
	assert_has(&written, "slowrank_incidents_unmeasured 1\n");
	assert_has(&written,
		"slowrank_incident_info{incident=\"2\",class=\"compute-slow\",cause=\"unknown\","
		"ranks=\"ranks 0, 7\",host=\"no\\\"de\"} 1\n");
	assert_has(&written, "slowrank_incident_slowdown_ratio gauge\n"
			     "slowrank_incident_slowdown_ratio{incident=\"2\"} 1.5\n#");
	assert_has(&written, "slowrank_incident_onset_timestamp_seconds{incident=\"2\"} "
			     "1700000000.5\n");
	assert_has(&written, "{incident=\"2\",rank=\"7\",host=\"no\\\"de\"} 1\n");
	free(written.bytes);
	for (size_t i = 0; i < METRICS_INCIDENTS_MAX + 8; i++)
		verdicts[i] =
			(struct verdict){.id = (uint32_t)i + 1, .rank_count = VERDICT_RANKS_MAX};
	model.verdict_count = METRICS_INCIDENTS_MAX + 8;
	write_model(&model, &written);
	assert_has(&written, "slowrank_incidents_unlisted 8\n");
	assert_null(strstr(written.bytes, "incident_active{incident=\"8\"}"));
	assert_has(&written, "incident_active{incident=\"9\"}");
	free(written.bytes);
}

static size_t count_series(const char *text)
{
	size_t count = 0;

	for (; *text; text = strchr(text, '\n') + 1)
		count += *text != '#';
	return count;
}

/* What it takes does not grow with the ranks, but for 32 bytes of memory of each; names come and go seldom. */
static void test_many_ranks(void **state)
{
	struct report_rank *ranks = calloc(RANKS, sizeof(*ranks));
	uint8_t *named = calloc(RANKS, 1);
	static struct verdict verdicts[200];
	struct report_model model = {.job_id = "large",
		.rank_count = RANKS,
		.world_size = RANKS,
		.ranks = ranks,
		.verdicts = verdicts,
		.verdict_count = 200};
	struct job_metrics *metrics;
	struct written written;
	uint64_t random = 1;
	size_t names = 0, before, taken;

	(void)state;
	for (uint32_t i = 0; i < RANKS; i++)
		ranks[i] =
			(struct report_rank){.totals.rank = i, .host = "a-node-with-a-long-name"};
	for (uint32_t i = 0; i < 200; i++) {
		verdicts[i] = (struct verdict){
			.id = i + 1, .rank_count = VERDICT_RANKS_MAX, .more_ranks = 100000};
		for (uint32_t r = 0; r < VERDICT_RANKS_MAX; r++)
			verdicts[i].ranks[r] = r * 2000;
	}
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	assert_int_equal(job_metrics_create(&metrics), 0);
	for (int round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < RANKS; i++) {
			random = random * UINT64_C(6364136223846793005) + 1;
			ranks[i].totals.steps += 100;
			ranks[i].totals.own_excess_ns += (int64_t)(random >> 35);
			ranks[i].totals.phase_ns[PHASE_COMPUTE] += INT64_C(1000000000);
		}
		job_metrics_take(metrics, &model);
		begin(&written);
		job_metrics_write(metrics, &model, &written.text);
		end(&written);
		for (const char *at = written.bytes;
			(at = strstr(at, "top_rank_own_delay_seconds_total{rank=\""));) {
			uint32_t rank = (uint32_t)strtoul(strchr(at, '"') + 1, NULL, 10);

			names += !named[rank];
			named[rank] = 1;
			at++;
		}
		if (round < ROUNDS - 1)
			free(written.bytes);
	}
	assert_in_range(names, METRICS_TOP_RANKS, 450);
	assert_in_range(count_series(written.bytes), 100, SERIES_MAX);
	assert_in_range(written.length, 1000, TEXT_MAX);
	assert_has(&written, "slowrank_rank_step_seconds_bucket{le=\"0.01\"} 6553600\n");
	assert_has(&written, "slowrank_incidents_unlisted 168\n");
	free(written.bytes);
	taken = mallinfo2().uordblks + mallinfo2().hblkhd - before;
	assert_true(taken <= RANKS * 32 + 64 * 1024);
	job_metrics_destroy(metrics);
	free(ranks);
	free(named);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_histogram),
		cmocka_unit_test(test_models),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_incidents),
		cmocka_unit_test(test_many_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
