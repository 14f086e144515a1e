/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of a job stay texts in a trace; incidents that overlap are on tracks of their own; nothing begins before 0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/export/trace.h"

#define SECOND_NS INT64_C(1000000000)
#define DAY_S INT64_C(86400)

static struct verdict verdict_of(uint32_t id, int64_t onset_s, int64_t end_s)
{
	struct verdict verdict = {.id = id,
		.verdict_class = VERDICT_HOST_SLOW,
		.rank_count = 1,
		.slowdown = 2,
		.onset = {onset_s * SECOND_NS},
		.end = {end_s * SECOND_NS},
		.evidence_count = 1};

	strcpy(verdict.evidence[0].detail, "ran instead: \"}]}\n\xff");
	return verdict;
}

/* The whole trace of a record with these verdicts and no step; the caller frees it. */
static char *write_trace(const struct verdict *verdicts, size_t count)
{
	const struct export_selection all = {0};
	const struct report_model model = {.job_id = "job\"},\033",
		.verdicts = verdicts,
		.verdict_count = count,
		.totals.first_start = {10 * SECOND_NS}};
	char *written = NULL;
	struct trace *trace;
	uint64_t left_out;
	size_t length;
	FILE *out = open_memstream(&written, &length);

	assert_int_equal(trace_create(out, &all, &trace), 0);
	assert_int_equal(trace_begin(trace, &model), 0);
	assert_int_equal(trace_end(trace, &model), 0);
	assert_int_equal(trace_begin(trace, &model), 0); /* another job */
	assert_int_equal(trace_end(trace, &model), 0);
	assert_int_equal(trace_finish(trace, &left_out), 0);
	assert_int_equal(left_out, 0);
	trace_destroy(trace);
	fclose(out);
	return written;
}

static size_t count_of(const char *text, const char *wanted)
{
	size_t count = 0;

	for (; (text = strstr(text, wanted)); text++)
		count++;
	return count;
}

static void texts_and_tracks(void **state)
{
	struct verdict late = verdict_of(4, 40 * DAY_S, 40 * DAY_S);
	late.onset.value += 10 * SECOND_NS + 1;
	late.end.value += 20 * SECOND_NS;
	late.sure.unmeasured_since = 77;
	const struct verdict verdicts[] = {
		verdict_of(1, 12, 20), verdict_of(2, 15, 16), verdict_of(3, 5, 11), late};
	char *written = write_trace(verdicts, 4);

	(void)state;
	assert_int_equal(strncmp(written, TRACE_HEAD, strlen(TRACE_HEAD)), 0);
	assert_int_equal(count_of(written, "\"incidents of job\\\"},\\u001b\""), 2);
	assert_int_equal(count_of(written, "ran instead: \\\"}]}\\n\xEF\xBF\xBD\""), 8);
	assert_int_equal(count_of(written, "\"unmeasured_since_step\": 77"), 2);
	assert_int_equal(count_of(written, "\"name\": \"incidents 1\""), 2);
	assert_int_equal(count_of(written, "\"name\": \"incidents 2\""), 2);
	assert_int_equal(count_of(written, "\"ts\": 2000000.000, \"dur\": 8000000.000"), 2);
	assert_int_equal(count_of(written, "\"ts\": 0.000, \"dur\": 1000000.000"), 2);
	assert_int_equal(count_of(written, "\"ts\": 3456000000000.001,"), 2); /* exactly */
	assert_int_equal(count_of(written, "\"ts\": -"), 0);
	assert_int_equal(
		count_of(written, "\"name\": \"incidents 3\""), 2); /* it began before them */
	free(written);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_and_tracks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
