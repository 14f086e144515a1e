/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/arena.h"

enum { ARRAYS = 50 };

/* Arrays of a step do not overlap, also where they had to be taken in pieces, and steps that follow are the same. */
static void arrays_lie_apart(void **state)
{
	struct arena arena = {0};
	unsigned char *arrays[ARRAYS], *first = NULL;

	(void)state;
	for (size_t step = 0; step < 4; step++) {
		arena_reset(&arena);
		for (size_t i = 0; i < ARRAYS; i++) {
			arrays[i] = arena_take(&arena, 37 * i, i % 3 + 1);
			assert_non_null(arrays[i]);
			assert_int_equal((uintptr_t)arrays[i] % _Alignof(max_align_t), 0);
			memset(arrays[i], (int)i, 37 * i * (i % 3 + 1));
		}
		for (size_t i = 0; i < ARRAYS; i++) {
			for (size_t at = 0; at < 37 * i * (i % 3 + 1); at++)
				assert_int_equal(arrays[i][at], i);
		}
		if (step > 1)
			assert_ptr_equal(arrays[0], first); /* one piece by now */
		first = arrays[0];
		assert_int_equal(arena_error(&arena), 0);
	}
	arena_fini(&arena);
}

static void what_does_not_fit_is_remembered(void **state)
{
	struct arena arena = {0};
	unsigned char *zeroed;

	(void)state;
	assert_null(arena_take(&arena, SIZE_MAX / 2, 8));
	assert_null(arena_take_zeroed(&arena, SIZE_MAX / 2, 1));
	zeroed = arena_take_zeroed(&arena, 100, 1);
	assert_non_null(zeroed);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(zeroed[i], 0);
	assert_int_equal(arena_error(&arena), -ENOMEM);
	arena_reset(&arena);
	assert_int_equal(arena_error(&arena), 0);
	arena_fini(&arena);
}

static void grown_arrays_keep_what_they_had(void **state)
{
	int64_t *values = NULL;
	size_t capacity = 0;

	(void)state;
	for (size_t count = 0; count < 1000; count++) {
		assert_int_equal(
			array_grow((void **)&values, &capacity, count + 1, sizeof(*values)), 0);
		assert_true(capacity > count);
		assert_int_equal(values[count], 0);
		values[count] = (int64_t)count + 1;
	}
	for (size_t count = 0; count < 1000; count++)
		assert_int_equal(values[count], count + 1);
	assert_int_equal(
		array_grow((void **)&values, &capacity, SIZE_MAX / 2, sizeof(*values)), -ENOMEM);
	assert_int_equal(values[999], 1000);
	free(values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrays_lie_apart),
		cmocka_unit_test(what_does_not_fit_is_remembered),
		cmocka_unit_test(grown_arrays_keep_what_they_had),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
