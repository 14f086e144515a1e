/* SPDX-License-Identifier: Apache-2.0 */
/* Values and files of the three numbers; what is wrong with them is named. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/config/alert_limits.h"

#define SECOND INT64_C(1000000000)

static char path[64], problem[ALERT_LIMITS_PROBLEM_LENGTH];

static int set_up(void **state)
{
	int fd;

	(void)state;
	strcpy(path, "/tmp/slowrank-config-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
	(void)state;
	return unlink(path);
}

static void write_config(const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void values(void **state)
{
	static const struct {
		const char *text;
		double slowdown;
	} factors[] = {{"1.10", 1.10}, {"1", 1}, {"2x", 2}, {"0.9", 0}, {"-2", 0}, {"", 0},
		{"nan", 0}, {"inf", 0}, {"0x2", 0}, {"1.1%", 0}, {"1e9", 0}, {"1.1 x", 0}};
	static const struct {
		const char *text;
		int64_t after_ns;
	} times[] = {{"30s", 30 * SECOND}, {"30", 30 * SECOND}, {"1.5m", 90 * SECOND},
		{"2h", 7200 * SECOND}, {"250ms", SECOND / 4}, {"30 s", -1}, {"s", -1}, {"-1s", -1},
		{"1d", -1}, {"1e30h", -1}, {"", -1}};

	(void)state;
	for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
		struct alert_limits limits = {.after_ns = 5};
		int error = alert_limits_given(
			&(struct alert_settings){.slowdown = factors[i].text}, &limits, problem);

		assert_int_equal(error, factors[i].slowdown > 0 ? 0 : -EINVAL);
		assert_true(limits.slowdown == factors[i].slowdown);
		assert_int_equal(limits.after_ns, 5);
	}
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		struct alert_limits limits = {.after_ns = -1};
		int error = alert_limits_given(
			&(struct alert_settings){.after = times[i].text}, &limits, problem);

		assert_int_equal(error, times[i].after_ns >= 0 ? 0 : -EINVAL);
		assert_int_equal(limits.after_ns, times[i].after_ns);
	}
}

static void of_a_file(void **state)
{
	struct alert_limits limits = {.imbalance = 1.5};
	char text[2000] = "# ", *end = text + strlen(text);

	(void)state;
	memset(end, 'x', 1500); /* a long comment is one line */
	strcpy(end + 1500, "\n\n  alert-slowdown=1.10 \nalert-after = 30s # half a minute");
	write_config(text);
	assert_int_equal(
		alert_limits_given(&(struct alert_settings){.file = path}, &limits, problem), 0);
	assert_true(limits.slowdown == 1.10);
	assert_int_equal(limits.after_ns, 30 * SECOND);
	assert_true(limits.imbalance == 1.5);
	/* An option is worth more than a file. */
	assert_int_equal(alert_limits_given(&(struct alert_settings){.file = path, .after = "1m"},
				 &limits, problem),
		0);
	assert_int_equal(limits.after_ns, 60 * SECOND);
}

static void bad_files(void **state)
{
	static const struct {
		const char *text, *line, *what;
	} cases[] = {
		{"alert-after = 30s\nalert-slowdown = fast\n",
			":2: ", "'fast' is no value for alert-slowdown"},
		{"\n\nalert-before = 3\n", ":3: ", "nothing is named 'alert-before'"},
		{"alert-after 30s\n", ":1: ", "name = value"},
		{"silent-imbalance =\n", ":1: ", "'' is no value for silent-imbalance"},
	};
	struct alert_limits limits = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		write_config(cases[i].text);
		assert_int_equal(alert_limits_given(
					 &(struct alert_settings){.file = path}, &limits, problem),
			-EINVAL);
		assert_memory_equal(problem, path, strlen(path));
		assert_memory_equal(problem + strlen(path), cases[i].line, strlen(cases[i].line));
		assert_non_null(strstr(problem, cases[i].what));
		assert_null(strchr(problem, '\n'));
		assert_int_equal(limits.after_ns, 0);
	}
	assert_int_equal(alert_limits_given(&(struct alert_settings){.file = "/none/at/all"},
				 &limits, problem),
		-ENOENT);
	assert_string_equal(problem, "/none/at/all: No such file or directory");
}

/* Nobody named it: one line for each bad one, and the others hold. */
static void a_file_that_is_found(void **state)
{
	struct alert_limits limits = {0};
	char *told = NULL, wanted[256];
	size_t length = 0;
	FILE *out = open_memstream(&told, &length);

	(void)state;
	alert_limits_found("/none/at/all", &limits, out);
	write_config("alert-slowdown = 2\nwhat\nsilent-imbalance = 1.2\n");
	alert_limits_found(path, &limits, out);
	assert_int_equal(fclose(out), 0);
	snprintf(wanted, sizeof(wanted),
		"slowrank: %s:2: 'what' is no line of the form name = value; the line is "
		"ignored\n",
		path);
	assert_string_equal(told, wanted);
	assert_true(limits.slowdown == 2 && limits.imbalance == 1.2);
	free(told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(of_a_file),
		cmocka_unit_test(bad_files),
		cmocka_unit_test(a_file_that_is_found),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
