/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions of this program's own file, by addresses in them. */
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "probe/attach/symbol_names.h"

static uint64_t bias;

__attribute__((noinline)) static int only_here(int value)
{
	return value * 3 + 1;
}

/* Two names of one function: the one that is meant to be read counts. */
__attribute__((noinline)) int __under_scored(int value);
int __under_scored(int value)
{
	return value * 5 + only_here(value);
}
int plain_name(int value) __attribute__((alias("__under_scored")));

static int take_bias(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	(void)context;
	bias = info->dlpi_addr;
	return 1; /* the program comes first */
}

static void test_own(void **state)
{
	struct symbol_name names[4];

	(void)state;
	dl_iterate_phdr(take_bias, NULL);
	names[0].address = (uintptr_t)plain_name - bias + 1;
	names[1].address = (uintptr_t)only_here - bias;
	names[2].address = 1;
	names[3].address = UINT64_MAX;
	assert_int_equal(symbol_names_find("/proc/self/exe", names, 4), 0);
	assert_string_equal(names[0].name, ""); /* sorted by address */
	assert_string_equal(names[3].name, "");
	for (size_t i = 1; i < 3; i++) {
		if (names[i].address == (uintptr_t)only_here - bias)
			assert_string_equal(names[i].name, "only_here");
		else
			assert_string_equal(names[i].name, "plain_name");
	}
	assert_int_equal(only_here(1) + plain_name(1), 4 + 9);
}

static void test_no_file(void **state)
{
	struct symbol_name name = {.address = 1};

	(void)state;
	assert_int_equal(symbol_names_find("/nonexistent", &name, 1), -ENOENT);
	assert_int_equal(symbol_names_find("/proc/self/status", &name, 1), -ENOEXEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
