/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces of the report writers: escapes, numbers, rank lists, sentences, failing streams. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analysis/explain/causes.h"
#include "coordinator/report/cause_text.h"
#include "coordinator/report/decimal.h"
#include "coordinator/report/json.h"
#include "coordinator/report/line.h"
#include "coordinator/report/look.h"
#include "coordinator/report/text.h"
#include "coordinator/report/utf8.h"

static void utf8_takes_only_what_rfc_3629_allows(void **state)
{
	static const struct {
		const char *text;
		uint32_t point;
		size_t length;
	} cases[] = {
		{"A", 'A', 1},
		{"\xC3\xA9", 0xE9, 2},
		{"\xE2\x82\xAC", 0x20AC, 3},
		{"\xF0\x9F\x98\x80", 0x1F600, 4},
		{"\xF4\x8F\xBF\xBF", 0x10FFFF, 4},
		{"\x80", UTF8_REPLACEMENT, 1},		   /* a tail without a head */
		{"\xC0\x80", UTF8_REPLACEMENT, 1},	   /* overlong */
		{"\xC1\xBF", UTF8_REPLACEMENT, 1},	   /* overlong */
		{"\xE0\x9F\xBF", UTF8_REPLACEMENT, 1},	   /* overlong */
		{"\xF0\x8F\xBF\xBF", UTF8_REPLACEMENT, 1}, /* overlong */
		{"\xED\xA0\x80", UTF8_REPLACEMENT, 1},	   /* a surrogate */
		{"\xF4\x90\x80\x80", UTF8_REPLACEMENT, 1}, /* above the last */
		{"\xFF", UTF8_REPLACEMENT, 1},
		{"\xE2\x82", UTF8_REPLACEMENT, 1}, /* cut short by the end */
		{"\xF0", UTF8_REPLACEMENT, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *text = cases[i].text;

		assert_int_equal(utf8_next(&text), cases[i].point);
		assert_int_equal(text - cases[i].text, cases[i].length);
	}
}

static void printable_copies_never_overrun(void **state)
{
	char out[8];

	(void)state;
	utf8_copy_printable(out, sizeof(out), "a\x1b[\x7f\xff z");
	assert_string_equal(out, "a?[?? z");
	utf8_copy_printable(out, sizeof(out), "abcde\xE2\x82\xAC"); /* the last does not fit */
	assert_string_equal(out, "abcde");
	utf8_copy_printable(out, 1, "abc");
	assert_string_equal(out, "");
	utf8_copy_printable(out, sizeof(out), "\xE2\x80\xAEgnp"); /* right-to-left override */
	assert_string_equal(out, "?gnp");
}

static void decimals_are_exact(void **state)
{
	char text[DECIMAL_LENGTH];

	(void)state;
	assert_string_equal(decimal_format(18.2, 1, text), "18.2");
	assert_string_equal(decimal_format(0.05, 1, text), "0.1");
	assert_string_equal(decimal_format(-0.04, 1, text), "0.0");
	assert_string_equal(decimal_format(-1.5, 0, text), "-2");
	assert_string_equal(decimal_format(1.999999999, 6, text), "2.000000");
	assert_string_equal(decimal_format(3.000007, 6, text), "3.000007");
	assert_string_equal(decimal_format(-1e300, 6, text), "-1000000000000.000000");
}

static char *json_of(void (*write)(struct json_writer *writer), unsigned broken_depth)
{
	struct json_writer writer;
	char *bytes = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&bytes, &length);

	assert_non_null(out);
	json_writer_init(&writer, out, broken_depth);
	write(&writer);
	assert_int_equal(writer.depth, 0);
	assert_int_equal(fclose(out), 0);
	return bytes;
}

static void write_everything(struct json_writer *writer)
{
	json_object_begin(writer, NULL);
	json_string(writer, "a\"b", "\\ \b \x01 \xff \xE2\x82\xAC");
	json_string(writer, "null", NULL);
	json_array_begin(writer, "empty");
	json_array_end(writer);
	json_array_begin(writer, "numbers");
	json_decimal(writer, NULL, 18.2, 4);
	json_decimal(writer, NULL, 100.0, 4);
	json_decimal(writer, NULL, NAN, 4);
	json_decimal(writer, NULL, -INFINITY, 4);
	json_signed(writer, NULL, INT64_MIN);
	json_unsigned(writer, NULL, UINT64_MAX);
	json_boolean(writer, NULL, true);
	json_array_end(writer);
	json_object_end(writer);
}

static void json_is_escaped_and_exact(void **state)
{
	char *bytes = json_of(write_everything, 0);

	(void)state;
	assert_string_equal(bytes,
		"{\"a\\\"b\": \"\\\\ \\u0008 \\u0001 \xEF\xBF\xBD \xE2\x82\xAC\", \"null\": \"\", "
		"\"empty\": [], \"numbers\": [18.2, 100.0, null, null, -9223372036854775808, "
		"18446744073709551615, true]}");
	free(bytes);
	bytes = json_of(write_everything, 1);
	assert_non_null(strstr(bytes, "{\n \"a\\\"b\""));
	assert_non_null(strstr(bytes, ",\n \"empty\": [],\n \"numbers\": [18.2, 100.0"));
	assert_non_null(strstr(bytes, "true]\n}"));
	free(bytes);
}

static void ranks_become_ranges(void **state)
{
	uint32_t many[32], mixed[] = {0, 1, 2, 3, 8, 9, 12};
	struct line line;
	char text[64];

	(void)state;
	line_init(&line, text, sizeof(text));
	line_add_ranks(&line, mixed, 7, 7);
	assert_string_equal(text, "ranks 0-3, 8, 9, 12");
	line_init(&line, text, sizeof(text));
	line_add_ranks(&line, mixed, 1, 1);
	assert_string_equal(text, "rank 0");
	line_init(&line, text, sizeof(text));
	line_add_ranks(&line, mixed, 0, 0);
	assert_string_equal(text, "no rank");
	line_init(&line, text, sizeof(text));
	line_add_ranks(&line, mixed, 7, 1000);
	assert_string_equal(text, "ranks 0-3, 8, 9, 12 and 993 more");
	for (uint32_t i = 0; i < 32; i++)
		many[i] = i * 2;
	line_init(&line, text, sizeof(text));
	line_add_ranks(&line, many, 32, 32);
	assert_string_equal(text, "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 24 more");
	line_init(&line, text, 10);
	line_add_ranks(&line, many, 32, 32);
	assert_string_equal(text, "ranks 0, "); /* cut, not overrun */
	assert_int_equal(line.used, 9);
}

static void every_cause_has_words(void **state)
{
	struct verdict unknown = {.verdict_class = VERDICT_HOST_SLOW}, verdict = unknown;

	(void)state;
	for (size_t i = 0; i < CAUSE_ROWS; i++) {
		assert_string_not_equal(
			cause_phrase((enum cause)cause_order[i]), cause_phrase(CAUSE_UNKNOWN));
		verdict.cause = cause_order[i];
		assert_string_not_equal(cause_advice(&verdict), cause_advice(&unknown));
		assert_null(strchr(cause_advice(&verdict), '\n'));
	}
	for (int class = 0; class < VERDICT_CLASS_NR; class ++) {
		unknown.verdict_class = (enum verdict_class) class;
		assert_true(strlen(cause_advice(&unknown)) > 20);
	}
	/* Nobody is named: nothing is said of "this rank". */
	unknown.verdict_class = VERDICT_COMM_SLOW;
	assert_null(strstr(cause_advice(&unknown), "this rank"));
	unknown.rank_count = 1;
	assert_non_null(strstr(cause_advice(&unknown), "this rank"));
	assert_string_equal(cause_phrase((enum cause)CAUSE_NR), cause_phrase(CAUSE_UNKNOWN));
}

static void hosts_are_found_by_rank(void **state)
{
	struct report_rank rows[] = {{.totals.rank = 3, .host = "a"},
		{.totals.rank = 7, .host = "a"}, {.totals.rank = 90, .host = "b"}};
	struct report_model model = {.rank_count = 3, .ranks = rows};

	(void)state;
	assert_string_equal(look_host(&model, 90), "b");
	assert_string_equal(look_host(&model, 3), "a");
	assert_string_equal(look_host(&model, 4), "");
	assert_null(look_rank(&model, 91));
	assert_string_equal(look_common_host(&model, (uint32_t[]){3, 7}, 2), "a");
	assert_null(look_common_host(&model, (uint32_t[]){3, 90}, 2));
	assert_null(look_common_host(&model, (uint32_t[]){4}, 1));
	assert_int_equal(look_unix_ns((struct job_ns){INT64_MAX}, 1), INT64_MAX);
	assert_int_equal(look_unix_ns((struct job_ns){-5}, INT64_MIN), INT64_MIN);
}

static void looks_are_told(void **state)
{
	struct kernel_profile look = {.rank = 2,
		.steps = 10,
		.kernel_count = 160,
		.kernel_ns = 281000000,
		.copy_ns = 5000000,
		.copy_bytes = 20000,
		.idle_ns = 3000000,
		.launches = {[3] = 150, [9] = 10},
		.sum_count = 1,
		.sums = {{.name = "gemm", .count = 160, .time_ns = 281000000}}};
	struct report_rank rows[] = {
		{.totals.rank = 1, .host = "a"}, {.totals.rank = 2, .host = "a", .look = &look}};
	struct report_model model = {.rank_count = 2, .ranks = rows};
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	assert_int_equal(report_text_write(&model, NULL, out), 0);
	fclose(out);
	assert_non_null(
		strstr(text, "rank 2: kernels 28.1 ms in 16 calls, copies 0.50 ms, idle 0.30 "
			     "ms; launch to start below 16 us (half of them), 1024 us (99 "
			     "%); 10 steps"));
	assert_null(strstr(text, "rank 1: kernels"));
	free(text);
	out = open_memstream(&text, &length);
	assert_int_equal(report_json_write(&model, out), 0);
	fclose(out);
	assert_non_null(strstr(text, "\"look\": {\"steps\": 10, \"kernel_ms\": 28.1"));
	assert_non_null(strstr(text, "{\"name\": \"gemm\", \"calls\": 16.0, \"ms\": 28.1}"));
	assert_non_null(strstr(text, "\"copy_bytes\": 2000, "));
	assert_non_null(strstr(text, "\"histogram\": [0, 0, 0, 150, 0, 0, 0, 0, 0, 10, 0"));
	free(text);
}

/* The sentence an operator reads first, word by word. */
static void the_sentence_says_it_all(void **state)
{
	struct report_rank rows[] = {{.totals.rank = 2, .host = "node-a"}};
	struct report_model model = {.rank_count = 1, .ranks = rows};
	struct verdict verdict = {.verdict_class = VERDICT_HOST_SLOW,
		.cause = CAUSE_CGROUP_THROTTLE,
		.rank_count = 1,
		.ranks = {2},
		.slowdown = 1.24,
		.first_step = 120,
		.last_step = 480,
		.evidence_count = 2,
		.evidence = {{.kind = CAUSE_CPU_CONTENTION, .overlap_ms_per_step = 1},
			{.kind = CAUSE_CGROUP_THROTTLE, .overlap_ms_per_step = 18.2}}};
	char text[REPORT_SENTENCE_LENGTH];

	(void)state;
	report_verdict_sentence(&model, &verdict, text);
	assert_string_equal(text,
		"rank 2 on node-a is host-slow: cgroup-throttle; the job runs 1.24x slower because "
		"of it (steps 120-480, 18.2 ms/step throttled, healthy ranks 0.0)");
	report_alert_line(&model, VERDICT_EVENT_ALERT, &verdict, text);
	assert_string_equal(text,
		"ALERT rank 2 (node-a) host-slow: cgroup-throttle, job 1.24x slower since step 120 "
		"(18.2 ms/step throttled, healthy ranks 0.0)");
	report_alert_line(&model, VERDICT_EVENT_RECOVERED, &verdict, text);
	assert_string_equal(text,
		"RECOVERED rank 2 (node-a) host-slow: cgroup-throttle, job was 1.24x slower from "
		"step 120 to 480 (18.2 ms/step throttled, healthy ranks 0.0)");
}

/* Of every so-many-th step: what it costs on average, and in these. */
static void the_sentence_tells_of_a_period(void **state)
{
	static const char *const words[] = {
		"2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "52nd", "64th"};
	static const uint32_t periods[] = {2, 3, 4, 11, 12, 13, 21, 52, 64};
	struct report_rank rows[] = {{.totals.rank = 2, .host = "node-a"}};
	struct report_model model = {.rank_count = 1, .ranks = rows};
	struct verdict verdict = {.verdict_class = VERDICT_HOST_SLOW,
		.cause = CAUSE_BLOCK_IO,
		.rank_count = 1,
		.ranks = {2},
		.slowdown = 1.014,
		.period.steps = 7,
		.period.slowdown = 1.1,
		.first_step = 120,
		.last_step = 480,
		.evidence_count = 1,
		.evidence = {{.kind = CAUSE_BLOCK_IO, .overlap_ms_per_step = 18.2}}};
	char text[REPORT_SENTENCE_LENGTH], phrase[64];

	(void)state;
	report_verdict_sentence(&model, &verdict, text);
	assert_string_equal(text,
		"rank 2 on node-a is host-slow in every 7th step: block-io; the job runs 1.01x "
		"slower because of it, 1.10x in these steps (steps 120-480, each of them 18.2 ms "
		"blocked on storage, healthy ranks 0.0)");
	report_alert_line(&model, VERDICT_EVENT_ALERT, &verdict, text);
	assert_string_equal(text,
		"ALERT rank 2 (node-a) host-slow in every 7th step: block-io, job 1.01x slower, "
		"1.10x in these steps, since step 120 (each of them 18.2 ms blocked on storage, "
		"healthy ranks 0.0)");
	for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++) {
		verdict.period.steps = periods[i];
		snprintf(phrase, sizeof(phrase), "host-slow in every %s step: ", words[i]);
		report_verdict_sentence(&model, &verdict, text);
		assert_non_null(strstr(text, phrase));
	}
}

static void a_full_disk_is_an_error(void **state)
{
	struct report_model model = {.job_id = "x"};
	FILE *full = fopen("/dev/full", "we");

	(void)state;
	if (!full)
		skip();
	assert_int_equal(report_json_write(&model, full), -ENOSPC);
	clearerr(full);
	assert_int_equal(report_text_write(&model, NULL, full), -ENOSPC);
	fclose(full);
}

/* Of a job that goes on without a collective nothing is known, and nothing must sound healthy. */
static void time_without_steps_is_told(void **state)
{
	struct report_model model = {.job_id = "x", .totals = {.steps = 45}};
	int64_t end_ns = INT64_C(5000000000);

	(void)state;
	model.totals.last_end.value = end_ns;
	for (int64_t unseen_s = 9; unseen_s < 43; unseen_s += 33) {
		char *bytes = NULL;
		size_t length = 0;
		FILE *out = open_memstream(&bytes, &length);

		model.last_heard.value = end_ns + unseen_s * 1000000000;
		assert_int_equal(report_text_write(&model, NULL, out), 0);
		assert_int_equal(report_json_write(&model, out), 0);
		fclose(out);
		assert_int_equal(
			strstr(bytes, "in the last 42 s no step was seen") != NULL, unseen_s == 42);
		assert_int_equal(strstr(bytes, "\"unseen_end_s\": 42.0") != NULL, unseen_s == 42);
		free(bytes);
	}
}

static void colour_only_where_it_is_wanted(void **state)
{
	struct verdict verdict = {.id = 1, .rank_count = 1, .slowdown = 2};
	struct report_model model = {.job_id = "x", .verdict_count = 1, .verdicts = &verdict};
	struct report_text_options options = {.colour = true};
	char *bytes = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&bytes, &length);

	(void)state;
	assert_int_equal(report_text_write(&model, &options, out), 0);
	assert_non_null(strstr(bytes, "\033[1;31mrank 0"));
	rewind(out);
	options.colour = false;
	assert_int_equal(report_text_write(&model, &options, out), 0);
	assert_null(memchr(bytes, '\033', length));
	fclose(out);
	free(bytes);
	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
	assert_true(report_text_colour_wanted(true));
	assert_false(report_text_colour_wanted(false));
	setenv("NO_COLOR", "1", 1);
	assert_false(report_text_colour_wanted(true));
	unsetenv("NO_COLOR");
	setenv("TERM", "dumb", 1);
	assert_false(report_text_colour_wanted(true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8_takes_only_what_rfc_3629_allows),
		cmocka_unit_test(printable_copies_never_overrun),
		cmocka_unit_test(decimals_are_exact),
		cmocka_unit_test(json_is_escaped_and_exact),
		cmocka_unit_test(ranks_become_ranges),
		cmocka_unit_test(every_cause_has_words),
		cmocka_unit_test(hosts_are_found_by_rank),
		cmocka_unit_test(looks_are_told),
		cmocka_unit_test(the_sentence_says_it_all),
		cmocka_unit_test(the_sentence_tells_of_a_period),
		cmocka_unit_test(a_full_disk_is_an_error),
		cmocka_unit_test(time_without_steps_is_told),
		cmocka_unit_test(colour_only_where_it_is_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
