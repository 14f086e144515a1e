/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines, and the environment below them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "coordinator/words.h"

static struct {
	const char *ranks, *output;
	bool lines;
} found;

static int take(struct words *words, const char **argv)
{
	static const struct words_option list[] = {
		{"--ranks", "SLOWRANK_RANKS", &found.ranks, NULL},
		{"--output", "SLOWRANK_OUTPUT", &found.output, NULL},
		{"-o", "SLOWRANK_OUTPUT", &found.output, NULL},
		{"--lines", NULL, NULL, &found.lines},
	};
	int argc = 0;

	while (argv[argc])
		argc++;
	found.lines = false;
	*words = (struct words){
		.command = "words", .usage = "", .options = list, .option_count = WORDS_IN(list)};
	return words_take(words, argc, (char **)argv);
}

static void test_line_over_environment(void **state)
{
	const char *argv[] = {"words", "one", "--ranks=3", "-o", "here", "two", "--lines", NULL};
	struct words words;

	(void)state;
	setenv("SLOWRANK_RANKS", "7", 1);
	setenv("SLOWRANK_OUTPUT", "there", 1);
	assert_int_equal(take(&words, argv), -1);
	assert_string_equal(found.ranks, "3");
	assert_string_equal(found.output, "here");
	assert_true(found.lines);
	assert_int_equal(words.other_count, 2);
	assert_string_equal(words.others[0], "one");
	assert_string_equal(words.others[1], "two");

	assert_int_equal(take(&words, (const char *[]){"words", NULL}), -1);
	assert_string_equal(found.ranks, "7");
	assert_string_equal(found.output, "there");
	assert_false(found.lines);
	setenv("SLOWRANK_RANKS", "", 1); /* counts as not set */
	unsetenv("SLOWRANK_OUTPUT");
	assert_int_equal(take(&words, (const char *[]){"words", NULL}), -1);
	assert_null(found.ranks);
	assert_null(found.output);
}

static void test_names_that_look_like_options(void **state)
{
	struct words words;

	(void)state;
	assert_int_equal(
		take(&words, (const char *[]){"words", "-", "--", "--lines", "-o", NULL}), -1);
	assert_false(found.lines);
	assert_int_equal(words.other_count, 3);
	assert_string_equal(words.others[0], "-");
	assert_string_equal(words.others[1], "--lines");
	assert_string_equal(words.others[2], "-o");
}

static void test_wrong_words(void **state)
{
	static const char *const wrong[] = {
		"--nothing", "--rank", "--rankss", "--lines=1", "-x", "--ranks", "--ranks=", "-o"};
	struct words words;

	(void)state;
	for (size_t i = 0; i < WORDS_IN(wrong); i++)
		assert_int_equal(
			take(&words, (const char *[]){"words", "one", wrong[i], NULL}), WORDS_BAD);
	assert_int_equal(take(&words, (const char *[]){"words", "-o", "", NULL}), WORDS_BAD);
	assert_int_equal(take(&words, (const char *[]){"words", "-h", "-x", NULL}), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line_over_environment),
		cmocka_unit_test(test_names_that_look_like_options),
		cmocka_unit_test(test_wrong_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
