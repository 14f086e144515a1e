/* SPDX-License-Identifier: Apache-2.0 */
/* Options of run and attach: precedence, bad words, what is left for the command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probe/config/size.h"
#include "probe/options.h"

static struct probe_options options;

static enum options_result parse_run(char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	return probe_options_parse_run(&options, argc, argv);
}

static void test_command_after_dashes(void **state)
{
	char *argv[] = {
		"run", "--record", "x.slr", "--quiet", "--", "mpirun", "--record", "y", NULL};

	(void)state;
	assert_int_equal(parse_run(argv), OPTIONS_OK);
	assert_string_equal(options.record, "x.slr");
	assert_true(options.quiet);
	assert_string_equal(options.command[0], "mpirun");
	assert_string_equal(options.command[1], "--record");
}

static void test_command_without_dashes(void **state)
{
	char *argv[] = {"run", "--alerts=a.jsonl", "./app", "--quiet", NULL};

	(void)state;
	assert_int_equal(parse_run(argv), OPTIONS_OK);
	assert_string_equal(options.alerts, "a.jsonl");
	assert_false(options.quiet);
	assert_string_equal(options.command[1], "--quiet");
}

static void test_deep_attach(void **state)
{
	char *asked[] = {"attach", "--deep", "--yes", "--pid", "12", "13", NULL};
	char *plain[] = {"attach", "--pid", "12", NULL};

	(void)state;
	assert_int_equal(probe_options_parse_attach(&options, 6, asked), OPTIONS_OK);
	assert_int_equal(options.deep, PROBE_DEEP_ON);
	assert_true(options.yes);
	assert_int_equal(options.pid_count, 2);
	assert_int_equal(probe_options_parse_attach(&options, 3, plain), OPTIONS_OK);
	assert_int_equal(options.deep, PROBE_DEEP_AUTO);
	assert_false(options.yes);
	setenv("SLOWRANK_YES", "1", 1);
	assert_int_equal(probe_options_parse_attach(&options, 3, plain), OPTIONS_OK);
	assert_true(options.yes);
	unsetenv("SLOWRANK_YES");
}

/* What would do nothing is refused, not taken in silence; a variable for all commands is not. */
static void test_options_of_the_other_command(void **state)
{
	char *attach[] = {"attach", "--pid", "12", "--verbs", "off", NULL};
	char *run[] = {"run", "--yes", "--", "app", NULL};
	char *verbs[] = {"run", "--verbs", "off", "--", "app", NULL};
	char *plain[] = {"attach", "--pid", "12", NULL};

	(void)state;
	assert_int_equal(probe_options_parse_attach(&options, 5, attach), OPTIONS_BAD);
	attach[3] = "--verbs=off";
	assert_int_equal(probe_options_parse_attach(&options, 4, attach), OPTIONS_BAD);
	assert_int_equal(parse_run(run), OPTIONS_BAD);
	assert_int_equal(parse_run(verbs), OPTIONS_OK);
	assert_int_equal(options.verbs, PROBE_VERBS_OFF);
	setenv("SLOWRANK_VERBS", "off", 1);
	assert_int_equal(probe_options_parse_attach(&options, 3, plain), OPTIONS_OK);
	unsetenv("SLOWRANK_VERBS");
}

static void test_pids(void **state)
{
	char *list[] = {"attach", "--pid=12,13", "--pid", "14", "15", "--quiet", NULL};
	char *none[] = {"attach", "--pid", "--quiet", NULL};
	char *empty[] = {"attach", "--pid=", NULL};

	(void)state;
	assert_int_equal(probe_options_parse_attach(&options, 6, list), OPTIONS_OK);
	assert_int_equal(options.pid_count, 4);
	assert_int_equal(options.pids[1], 13);
	assert_int_equal(options.pids[3], 15);
	assert_int_equal(probe_options_parse_attach(&options, 3, none), OPTIONS_BAD);
	assert_int_equal(probe_options_parse_attach(&options, 2, empty), OPTIONS_BAD);
}

static void test_command_line_wins_over_environment(void **state)
{
	char *from_environment[] = {"run", "app", NULL};
	char *from_both[] = {"run", "--record", "b.slr", "app", NULL};

	(void)state;
	setenv("SLOWRANK_RECORD", "a.slr", 1);
	assert_int_equal(parse_run(from_environment), OPTIONS_OK);
	assert_string_equal(options.record, "a.slr");
	assert_int_equal(parse_run(from_both), OPTIONS_OK);
	assert_string_equal(options.record, "b.slr");
	setenv("SLOWRANK_RECORD", "", 1); /* as if not set */
	setenv("SLOWRANK_SOURCES", "", 1);
	assert_int_equal(parse_run(from_environment), OPTIONS_OK);
	assert_null(options.record);
	assert_int_equal(options.sources, PROBE_SOURCE_ALL);
	setenv("SLOWRANK_SOURCES", "tcp", 1);
	assert_int_equal(parse_run(from_environment), OPTIONS_OK);
	assert_int_equal(options.sources, PROBE_SOURCE_TCP);
	setenv("SLOWRANK_SOURCES", "nonsense", 1);
	assert_int_equal(parse_run(from_environment), OPTIONS_BAD);
	unsetenv("SLOWRANK_SOURCES");
	unsetenv("SLOWRANK_RECORD");
}

static void test_alert_settings(void **state)
{
	char *good[] = {"run", "--alert-after", "30s", "--silent-imbalance=1.2", "app", NULL};
	char *bad[] = {"run", "--alert-slowdown", "0.5", "app", NULL};
	char *no_file[] = {"run", "--config", "/none/at/all", "app", NULL};
	char *attach[] = {"attach", "--pid", "12", "--alert-after=soon", NULL};

	(void)state;
	assert_int_equal(parse_run(good), OPTIONS_OK);
	assert_string_equal(options.alert_settings.after, "30s");
	assert_string_equal(options.alert_settings.imbalance, "1.2");
	assert_null(options.alert_settings.slowdown);
	assert_int_equal(parse_run(bad), OPTIONS_BAD);
	assert_int_equal(parse_run(no_file), OPTIONS_BAD);
	assert_int_equal(probe_options_parse_attach(&options, 4, attach), OPTIONS_BAD);
	setenv("SLOWRANK_ALERT_SLOWDOWN", "1.1", 1);
	assert_int_equal(parse_run(good), OPTIONS_OK);
	assert_string_equal(options.alert_settings.slowdown, "1.1");
	setenv("SLOWRANK_ALERT_SLOWDOWN", "10%", 1);
	assert_int_equal(parse_run(good), OPTIONS_BAD);
	unsetenv("SLOWRANK_ALERT_SLOWDOWN");
}

static void test_spool_max(void **state)
{
	static const struct {
		const char *word;
		size_t bytes; /* 0: refused */
	} cases[] = {{"64K", 64 << 10}, {"1.5M", 3 << 19}, {"2G", (size_t)2 << 30},
		{"100000", 100000}, {"63K", 0}, {"65G", 0}, {"1T", 0}, {"1MB", 0}, {"M", 0},
		{"-1G", 0}, {"nan", 0}};
	char *words[] = {"run", "--spool-max", NULL, "app", NULL};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		words[2] = (char *)cases[i].word;
		assert_int_equal(parse_run(words), cases[i].bytes ? OPTIONS_OK : OPTIONS_BAD);
		assert_int_equal(options.spool_max, cases[i].bytes);
	}
}

static void test_sources(void **state)
{
	char *some[] = {"run", "--sources", "collectives,tcp", "app", NULL};
	char *none[] = {"run", "--sources", "none", "app", NULL};
	char *unknown[] = {"run", "--sources", "collectives,nonsense", "app", NULL};

	(void)state;
	assert_int_equal(parse_run(some), OPTIONS_OK);
	assert_int_equal(options.sources, PROBE_SOURCE_COLLECTIVES | PROBE_SOURCE_TCP);
	assert_int_equal(parse_run(none), OPTIONS_OK);
	assert_int_equal(options.sources, 0);
	assert_int_equal(parse_run(unknown), OPTIONS_BAD);
}

static void test_bad_words(void **state)
{
	char *no_command[] = {"run", "--quiet", NULL};
	char *nothing_after[] = {"run", "--", NULL};
	char *unknown[] = {"run", "--recrod", "x", "--", "app", NULL};
	char *no_value[] = {"run", "--record", NULL};
	char *prefix[] = {"run", "--rec", "x", "--", "app", NULL};

	(void)state;
	assert_int_equal(parse_run(no_command), OPTIONS_BAD);
	assert_int_equal(parse_run(nothing_after), OPTIONS_BAD);
	assert_int_equal(parse_run(unknown), OPTIONS_BAD);
	assert_int_equal(parse_run(no_value), OPTIONS_BAD);
	assert_int_equal(parse_run(prefix), OPTIONS_BAD);
}

static void test_record_max(void **state)
{
	static char *const good[] = {"0", "1M", "1048576", "2g", "1.5G", "10T"};
	static char *const bad[] = {
		"1000", "-1", "x", "1M2", "1MB", "nan", "1e3M", "9999999T", ".5G"};
	char *words[] = {"run", "--record-max", NULL, "--", "app", NULL};
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		words[2] = good[i];
		assert_int_equal(parse_run(words), OPTIONS_OK);
		assert_string_equal(options.record_max, good[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		words[2] = bad[i];
		assert_int_equal(parse_run(words), OPTIONS_BAD);
	}
	assert_int_equal(record_max_parse("1.5G", &bytes), 0);
	assert_int_equal(bytes, UINT64_C(3) << 29);
}

static void test_attach_pids(void **state)
{
	char *good[] = {"attach", "--pid", "12", "13,14", "--record", "x", NULL};
	char *bad[] = {"attach", "--pid", "12x", NULL};
	char *zero[] = {"attach", "--pid", "0", NULL};
	char *none[] = {"attach", "--record", "x", NULL};

	(void)state;
	assert_int_equal(probe_options_parse_attach(&options, 6, good), OPTIONS_OK);
	assert_int_equal(options.pid_count, 3);
	assert_int_equal(options.pids[2], 14);
	assert_int_equal(probe_options_parse_attach(&options, 3, bad), OPTIONS_BAD);
	assert_int_equal(probe_options_parse_attach(&options, 3, zero), OPTIONS_BAD);
	assert_int_equal(probe_options_parse_attach(&options, 3, none), OPTIONS_BAD);
}

/* Who asks a coordinator has the options that say where it is, from the environment as well, and no others. */
static void test_to_ask(void **state)
{
	char *argv[] = {"stacks", "--leader=node0", "--job", "night", "--quiet", NULL};
	int index = 1;

	(void)state;
	setenv("SLOWRANK_COORDINATOR", "tcp://node9:5000", 1);
	setenv("SLOWRANK_SOURCES", "no such source", 1);
	setenv("SLOWRANK_RECORD", "x.slr", 1);
	assert_true(probe_options_begin_ask(&options));
	unsetenv("SLOWRANK_COORDINATOR");
	unsetenv("SLOWRANK_SOURCES");
	unsetenv("SLOWRANK_RECORD");
	assert_string_equal(options.coordinator, "tcp://node9:5000");
	assert_null(options.record);
	assert_int_equal(probe_options_take_ask(&options, "stacks", 5, argv, &index), OPTIONS_OK);
	index++;
	assert_int_equal(probe_options_take_ask(&options, "stacks", 5, argv, &index), OPTIONS_OK);
	assert_int_equal(index, 3);
	assert_string_equal(options.leader, "node0");
	assert_string_equal(options.job, "night");
	index++;
	assert_int_equal(probe_options_take_ask(&options, "stacks", 5, argv, &index), OPTIONS_BAD);
	argv[3] = "--job";
	index = 3;
	assert_int_equal(probe_options_take_ask(&options, "stacks", 4, argv, &index), OPTIONS_BAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_command_after_dashes),
		cmocka_unit_test(test_command_without_dashes),
		cmocka_unit_test(test_deep_attach),
		cmocka_unit_test(test_options_of_the_other_command),
		cmocka_unit_test(test_pids),
		cmocka_unit_test(test_command_line_wins_over_environment),
		cmocka_unit_test(test_alert_settings),
		cmocka_unit_test(test_spool_max),
		cmocka_unit_test(test_sources),
		cmocka_unit_test(test_bad_words),
		cmocka_unit_test(test_record_max),
		cmocka_unit_test(test_attach_pids),
		cmocka_unit_test(test_to_ask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
