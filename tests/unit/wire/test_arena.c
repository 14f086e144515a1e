/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever takes several pieces of memory looks at the error once, after the last. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/wire/arena.h"

static void test_an_error_stays(void **state)
{
	struct wire_arena arena;

	(void)state;
	wire_arena_init(&arena, 1000000);
	assert_non_null(wire_arena_take(&arena, 10, 10));
	assert_null(wire_arena_take(&arena, 1000, 1000));
	assert_int_equal(arena.error, -EMSGSIZE);
	assert_null(wire_arena_take(&arena, 100, 1000)); /* for which there is room */
	assert_int_equal(arena.error, -EMSGSIZE);
	assert_null(wire_arena_take(&arena, 1, 1));
	wire_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_an_error_stays)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
