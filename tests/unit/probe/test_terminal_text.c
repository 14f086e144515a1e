/* SPDX-License-Identifier: Apache-2.0 */
/* What passes to a terminal, however it is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "probe/terminal_text.h"

static void check(const char *text, const char *expected)
{
	size_t length = strlen(text);

	for (size_t cut = 0; cut <= length; cut++) {
		char out[256 + 2 * TERMINAL_TEXT_HELD_MAX];
		struct terminal_text state = {.held_length = 0};
		size_t used = terminal_text_clean(&state, text, cut, out);

		used += terminal_text_clean(&state, text + cut, length - cut, out + used);
		out[used] = '\0';
		assert_string_equal(out, expected);
	}
}

static void text_and_colours_pass(void **state)
{
	(void)state;
	check("slowrank: rank 2\tslow\n", "slowrank: rank 2\tslow\n");
	check("\033[1;31mslow\033[0m\n", "\033[1;31mslow\033[0m\n");
	check("\xc3\xa9t\xc3\xa9, 3 \xc2\xb5s \xe2\x80\x9cx\xe2\x80\x9d\n",
		"\xc3\xa9t\xc3\xa9, 3 \xc2\xb5s \xe2\x80\x9cx\xe2\x80\x9d\n");
}

static void all_else_does_not(void **state)
{
	(void)state;
	check("a\033]0;title\007b\n", "a?]0;title?b\n");
	check("a\033[2Jb\n", "a?[2Jb\n");
	check("a\033[6nb\n", "a?[6nb\n");
	check("a\033\033[31mb\n", "a?\033[31mb\n");
	check("a\033[1111111111111111111111mb\n", "a?[1111111111111111111111mb\n");
	check("a\rb\bc\x7f\n", "a?b?c?\n");
	check("a\xc2\x9b"
	      "2Jb\n",
		"a??2Jb\n");
	check("a\033\nb\n", "a?\nb\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_and_colours_pass), cmocka_unit_test(all_else_does_not)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
