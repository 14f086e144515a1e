/* SPDX-License-Identifier: Apache-2.0 */
/* When a silent coordinator is spoken of: once, and only while something waits for its answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/uplink_watch.h"

static struct uplink_watch watch;

/* after_ms: since the start; pending, acknowledged: batches. */
static enum uplink_news look(int64_t after_ms, uint64_t pending, uint64_t acknowledged)
{
	const struct uplink_state state = {
		.batches_pending = pending, .batches_acknowledged = acknowledged};

	return uplink_watch_take(
		&watch, &state, (struct host_ns){INT64_C(7000000000) + after_ms * 1000000});
}

static void silence_is_told_once(void **state)
{
	(void)state;
	watch = (struct uplink_watch){0};
	assert_int_equal(look(0, 1, 0), UPLINK_NO_NEWS);
	assert_int_equal(look(UPLINK_SILENCE_MS - 1, 40, 0), UPLINK_NO_NEWS);
	assert_int_equal(look(UPLINK_SILENCE_MS, 41, 0), UPLINK_FELL_SILENT);
	assert_int_equal(look(3 * UPLINK_SILENCE_MS, 90, 0), UPLINK_NO_NEWS);
	assert_int_equal(look(3 * UPLINK_SILENCE_MS + 250, 89, 1), UPLINK_HEARD_AGAIN);
	assert_int_equal(look(3 * UPLINK_SILENCE_MS + 500, 80, 9), UPLINK_NO_NEWS);
	assert_int_equal(look(5 * UPLINK_SILENCE_MS, 80, 9), UPLINK_FELL_SILENT);
}

static void nothing_to_answer_is_no_silence(void **state)
{
	(void)state;
	watch = (struct uplink_watch){0};
	assert_int_equal(look(0, 0, 0), UPLINK_NO_NEWS);
	assert_int_equal(look(10 * UPLINK_SILENCE_MS, 0, 0), UPLINK_NO_NEWS);
	assert_int_equal(look(10 * UPLINK_SILENCE_MS + 250, 1, 0), UPLINK_NO_NEWS);
	assert_int_equal(look(11 * UPLINK_SILENCE_MS, 3, 0), UPLINK_FELL_SILENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_is_told_once),
		cmocka_unit_test(nothing_to_answer_is_no_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
