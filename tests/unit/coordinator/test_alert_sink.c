/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts as lines: whole at once, appended, counted when they cannot be written. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "coordinator/alert_sink.h"
#include "coordinator/report/json.h"

static char why[WIRE_DETAIL_LENGTH_MAX + 1];
static const struct report_rank ranks[] = {{.totals.rank = 2, .host = "node-a"}};
static const struct report_model model = {.rank_count = 1, .ranks = ranks, .unix_offset_ns = 1000};
static const struct verdict verdict = {.id = 1,
	.verdict_class = VERDICT_HOST_SLOW,
	.cause = CAUSE_CGROUP_THROTTLE,
	.rank_count = 1,
	.ranks = {2},
	.slowdown = 1.24,
	.first_step = 120,
	.last_step = 130,
	.onset = {7},
	.end = {11},
	.alert = {9}};

static size_t read_all(const char *path, char *bytes, size_t capacity)
{
	FILE *file = fopen(path, "re");
	size_t length;

	assert_non_null(file);
	length = fread(bytes, 1, capacity - 1, file);
	fclose(file);
	bytes[length] = '\0';
	return length;
}

static void a_period_is_told(void **state)
{
	char path[] = "/tmp/slowrank-alerts-XXXXXX", bytes[4096];
	struct verdict periodic = verdict;
	struct alert_sink *sink;

	(void)state;
	periodic.period.steps = 7;
	periodic.period.slowdown = 1.5;
	close(mkstemp(path));
	assert_int_equal(
		alert_sink_create(&(struct alert_sink_options){.json_path = path}, &sink, why), 0);
	alert_sink_verdict(sink, VERDICT_EVENT_ALERT, &periodic, &model);
	read_all(path, bytes, sizeof(bytes));
	assert_non_null(strstr(bytes, "\"victim_count\": 0, \"every_steps\": 7, "
				      "\"slowdown_in_these\": 1.5}}\n"));
	alert_sink_destroy(sink);
	unlink(path);
}

static void lines_are_there_at_once_and_appended(void **state)
{
	char path[] = "/tmp/slowrank-alerts-XXXXXX", bytes[4096], text[1024] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");
	struct alert_sink *sink;
	char *second;

	(void)state;
	close(mkstemp(path));
	assert_int_equal(
		alert_sink_create(
			&(struct alert_sink_options){.text = out, .json_path = path}, &sink, why),
		0);
	alert_sink_verdict(sink, VERDICT_EVENT_ALERT, &verdict, &model);
	/* Read while the sink is open: nothing waits in a buffer. */
	read_all(path, bytes, sizeof(bytes));
	assert_string_equal(bytes,
		"{\"event\": \"alert\", \"verdict\": {\"id\": 1, \"class\": \"host-slow\", "
		"\"ranks\": [2], \"cause\": \"cgroup-throttle\", \"slowdown\": 1.24, "
		"\"confidence\": 0.0, \"share_explained\": 0.0, \"first_step\": 120, "
		"\"last_step\": 130, \"onset_unix_ns\": 1007, \"end_unix_ns\": 1011, "
		"\"alert_unix_ns\": 1009, "
		"\"clock_error_us\": 0.0, \"ended\": false, \"evidence\": [], \"rejected\": [], "
		"\"victims\": [], \"victim_count\": 0}}\n");
	assert_string_equal(text, "slowrank: ALERT rank 2 (node-a) host-slow: cgroup-throttle, job "
				  "1.24x slower since step 120\n");
	alert_sink_destroy(sink);
	fclose(out);

	assert_int_equal(
		alert_sink_create(&(struct alert_sink_options){.json_path = path}, &sink, why), 0);
	alert_sink_verdict(sink, VERDICT_EVENT_RECOVERED, &verdict, &model);
	read_all(path, bytes, sizeof(bytes));
	second = strchr(bytes, '\n') + 1;
	assert_int_equal(strncmp(second, "{\"event\": \"recovered\", ", 23), 0);
	assert_string_equal(strchr(second, '\n'), "\n");
	assert_int_equal(alert_sink_errors(sink), 0);
	alert_sink_destroy(sink);
	unlink(path);
}

/* One that was killed left a line, and half of the next one: each is there once, and whole. */
static void what_was_told_is_not_told_again(void **state)
{
	char path[] = "/tmp/slowrank-alerts-XXXXXX", once[4096], bytes[8192];
	const struct alert_sink_options options = {.json_path = path};
	struct alert_sink *sink;
	size_t length, half;
	char *line;

	(void)state;
	close(mkstemp(path));
	assert_int_equal(alert_sink_create(&options, &sink, why), 0);
	alert_sink_verdict(sink, VERDICT_EVENT_ALERT, &verdict, &model);
	length = read_all(path, once, sizeof(once));
	alert_sink_verdict(sink, VERDICT_EVENT_RECOVERED, &verdict, &model);
	alert_sink_destroy(sink);
	half = length + 40;
	assert_int_equal(truncate(path, (off_t)half), 0);

	assert_int_equal(alert_sink_create(&options, &sink, why), 0);
	alert_sink_doubt(sink, true);
	alert_sink_verdict(sink, VERDICT_EVENT_ALERT, &verdict, &model);
	alert_sink_verdict(sink, VERDICT_EVENT_RECOVERED, &verdict, &model);
	alert_sink_verdict(sink, VERDICT_EVENT_RECOVERED, &verdict, &model);
	assert_int_equal(alert_sink_errors(sink), 0);
	read_all(path, bytes, sizeof(bytes));
	assert_memory_equal(bytes, once, length);
	assert_int_equal(bytes[half], '\n');
	line = bytes + half + 1;
	assert_int_equal(strncmp(line, "{\"event\": \"recovered\", ", 23), 0);
	assert_string_equal(strchr(line, '\n'), "\n");
	alert_sink_doubt(sink, false);
	alert_sink_verdict(sink, VERDICT_EVENT_ALERT, &verdict, &model);
	read_all(path, bytes, sizeof(bytes));
	assert_string_equal(strchr(line, '\n') + 1, once);
	alert_sink_destroy(sink);
	unlink(path);
}

static void a_pipe_that_nobody_reads_holds_nobody_up(void **state)
{
	enum { ALERTS = 1000 }; /* more than a pipe holds */
	static char bytes[1 << 18];
	char path[] = "/tmp/slowrank-alerts-XXXXXX";
	struct alert_sink *sink;
	uint64_t errors, lines = 0;

	(void)state;
	close(mkstemp(path));
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_int_equal(
		alert_sink_create(&(struct alert_sink_options){.json_path = path}, &sink, why), 0);
	alarm(60); /* where it waits, it waits for ever */
	for (int i = 0; i < ALERTS; i++)
		alert_sink_verdict(sink, VERDICT_EVENT_ALERT, &verdict, &model);
	errors = alert_sink_errors(sink);
	assert_in_range(errors, 1, ALERTS - 1);
	ssize_t length = read(reader, bytes, sizeof(bytes) - 1);
	assert_true(length > 0);
	bytes[length] = '\0';
	for (char *line = strtok(bytes, "\n"); line; line = strtok(NULL, "\n")) {
		assert_int_equal(strncmp(line, "{\"event\": ", 10), 0);
		lines += line[strlen(line) - 1] == '}';
	}
	assert_in_range(lines, ALERTS - errors, ALERTS);
	alert_sink_verdict(sink, VERDICT_EVENT_ALERT, &verdict, &model);
	assert_int_equal(alert_sink_errors(sink), errors);
	alarm(0);
	alert_sink_destroy(sink);
	close(reader);
	unlink(path);
}

static void colour_is_only_in_the_text(void **state)
{
	char text[1024] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");
	struct alert_sink *sink;

	(void)state;
	assert_int_equal(
		alert_sink_create(
			&(struct alert_sink_options){.text = out, .colour = true}, &sink, why),
		0);
	alert_sink_verdict(sink, VERDICT_EVENT_UPDATE, &verdict, &model);
	assert_non_null(strstr(text, "slowrank: \033[1;31mUPDATE rank 2"));
	assert_non_null(strstr(text, "\033[0m\n"));
	alert_sink_destroy(sink);
	fclose(out);
}

static void what_cannot_be_written_is_counted(void **state)
{
	FILE *full = fopen("/dev/full", "we");
	struct alert_sink *sink = NULL;

	(void)state;
	if (!full)
		skip();
	assert_int_equal(alert_sink_create(&(struct alert_sink_options){.text = full,
						   .json_path = "/dev/full"},
				 &sink, why),
		0);
	alert_sink_verdict(sink, VERDICT_EVENT_ALERT, &verdict, &model);
	assert_int_equal(alert_sink_errors(sink), 1);
	alert_sink_verdict(sink, VERDICT_EVENT_ALERT, &verdict, &model);
	assert_int_equal(alert_sink_errors(sink), 2);
	alert_sink_destroy(sink);
	fclose(full);
}

static void a_bad_path_is_refused(void **state)
{
	struct alert_sink *sink = NULL;

	(void)state;
	assert_int_equal(
		alert_sink_create(
			&(struct alert_sink_options){.json_path = "/no/such/folder/alerts"}, &sink,
			why),
		-ENOENT);
	assert_null(sink);
	alert_sink_destroy(NULL);
	assert_string_equal(verdict_event_name((enum verdict_event)77), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_there_at_once_and_appended),
		cmocka_unit_test(a_period_is_told),
		cmocka_unit_test(what_was_told_is_not_told_again),
		cmocka_unit_test(a_pipe_that_nobody_reads_holds_nobody_up),
		cmocka_unit_test(colour_is_only_in_the_text),
		cmocka_unit_test(what_cannot_be_written_is_counted),
		cmocka_unit_test(a_bad_path_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
