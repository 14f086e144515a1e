/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of instructions. The tables are those that CPython 3.9.18, 3.10.13 and 3.11.7 make of one function: an expression over
 * two lines, 200 empty ones, a loop, a list over two lines; the lines are those that dis and co_lines() tell.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/stacks/python_lines.h"

static const uint8_t lnotab[] = {0x00, 0x01, 0x04, 0x01, 0x02, 0x01, 0x02, 0xff, 0x04, 0x7f, 0x00,
	0x4b, 0x0c, 0x01, 0x0a, 0x01, 0x02, 0x01, 0x02, 0xff};
static const uint8_t linetable[] = {0x04, 0x01, 0x02, 0x01, 0x02, 0x01, 0x04, 0xff, 0x00, 0x7f,
	0x0c, 0x4b, 0x0a, 0x01, 0x02, 0x01, 0x02, 0x01, 0x04, 0xff};
static const uint8_t locations[] = {0x80, 0x00, 0xd8, 0x08, 0x09, 0x80, 0x41, 0xd8, 0x09, 0x0a,
	0xd8, 0x09, 0x0a, 0xf1, 0x03, 0x01, 0x0a, 0x0b, 0x80, 0x41, 0xf5, 0x54, 0x06, 0x00, 0x0e,
	0x13, 0x90, 0x31, 0x89, 0x58, 0x8c, 0x58, 0xf0, 0x00, 0x01, 0x05, 0x0f, 0xf0, 0x00, 0x01,
	0x05, 0x0f, 0x88, 0x01, 0xd8, 0x08, 0x09, 0x88, 0x51, 0x89, 0x06, 0x88, 0x01, 0x88, 0x01,
	0xd8, 0x0c, 0x0d, 0xd8, 0x0c, 0x0d, 0xf0, 0x03, 0x01, 0x0c, 0x0f, 0xf0, 0x00, 0x01, 0x05,
	0x0f};

struct expected {
	int64_t instruction;
	int32_t line;
};

static void check(enum python_lines_format format, const uint8_t *table, size_t length,
	const struct expected *expected, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_int_equal(python_line(format, table, length, 1, expected[i].instruction),
			expected[i].line);
}

static void test_lnotab(void **state)
{
	static const struct expected expected[] = {{-1, 1}, {0, 2}, {2, 2}, {4, 3}, {6, 4}, {8, 3},
		{12, 205}, {22, 205}, {24, 206}, {34, 207}, {36, 208}, {38, 207}, {40, 207}};

	(void)state;
	check(PYTHON_LINES_LNOTAB, lnotab, sizeof(lnotab), expected,
		sizeof(expected) / sizeof(expected[0]));
}

static void test_linetable(void **state)
{
	static const struct expected expected[] = {{-2, 1}, {0, 2}, {4, 3}, {6, 4}, {8, 3}, {10, 3},
		{12, 205}, {22, 205}, {24, 206}, {34, 207}, {36, 208}, {38, 207}, {40, 207},
		{42, 0}};
	static const uint8_t no_line[] = {2, 1, 2, 0x80, 2, 1};

	(void)state;
	check(PYTHON_LINES_LINETABLE, linetable, sizeof(linetable), expected,
		sizeof(expected) / sizeof(expected[0]));
	check(PYTHON_LINES_LINETABLE, no_line, sizeof(no_line),
		(const struct expected[]){{0, 2}, {2, 0}, {4, 3}}, 3);
}

static void test_locations(void **state)
{
	static const struct expected expected[] = {{-10, 1}, {0, 1}, {2, 2}, {6, 3}, {8, 4},
		{10, 3}, {14, 3}, {16, 205}, {48, 205}, {50, 206}, {60, 206}, {62, 207}, {64, 208},
		{66, 207}, {68, 207}, {70, 0}};
	static const uint8_t no_line[] = {
		0xf8, 0xe8, 0x04}; /* none; then a line, two more, no columns */

	(void)state;
	check(PYTHON_LINES_LOCATIONS, locations, sizeof(locations), expected,
		sizeof(expected) / sizeof(expected[0]));
	check(PYTHON_LINES_LOCATIONS, no_line, sizeof(no_line),
		(const struct expected[]){{0, 0}, {2, 3}}, 2);
}

/* Tables that are cut, or none: no line, or one that is there; never a look behind the end (sanitizers tell). */
static void test_damaged(void **state)
{
	static const uint8_t endless[] = {0xf0, 0xff, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f};
	static const uint8_t no_begin[] = {0x00, 0x80};
	uint8_t *copy;

	(void)state;
	for (size_t length = 0; length < sizeof(locations); length++) {
		copy = malloc(length + 1);
		assert_non_null(copy);
		memcpy(copy, locations, length);
		for (int64_t at = 0; at < 80; at += 2)
			assert_in_range(
				python_line(PYTHON_LINES_LOCATIONS, copy, length, 1, at), 0, 1000);
		free(copy);
	}
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, endless, sizeof(endless), 1, 4), 0);
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, no_begin, sizeof(no_begin), 1, 0), 0);
	assert_int_equal(python_line(PYTHON_LINES_LINETABLE, linetable, 1, 1, 0), 0);
	assert_int_equal(python_line(PYTHON_LINES_LNOTAB, lnotab, 1, 7, 0), 7);
	assert_int_equal(python_line(PYTHON_LINES_NONE, lnotab, sizeof(lnotab), 7, 0), 0);
	assert_int_equal(python_line(PYTHON_LINES_LINETABLE, linetable, 2, INT32_MAX, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lnotab),
		cmocka_unit_test(test_linetable),
		cmocka_unit_test(test_locations),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
