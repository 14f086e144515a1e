/* SPDX-License-Identifier: Apache-2.0 */
/* What a thinned record's end holds is taken as it is, and only where it is of all that was. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "coordinator/history/sums.h"
#include "coordinator/record/writer.h"
#include "coordinator/replay.h"

static char path[64];
static uint8_t bytes[SUMS_BYTES_MAX];
static const struct replay_options silent = {.command = "test", .path = path, .silent = true};

static void save(struct record_writer *writer, enum record_kind kind, size_t length, int64_t at)
{
	assert_int_equal(record_writer_save(writer, kind, bytes, length, (struct job_ns){at}), 0);
}

/* Behind a gap, a batch that nobody can decode, and the sums, if any, of all that was. */
static void write_record(bool gap, bool sums, bool later_batch)
{
	static struct sums_ranks ranks;
	const struct record_writer_options options = {.program = "test"};
	const struct verdict verdict = {.id = 1, .rank_count = 1, .ranks = {3}, .slowdown = 1.5};
	const struct sums_job job = {.job_id = "saved", .totals.steps = 100};
	struct record_writer *writer;

	unlink(path);
	assert_int_equal(record_writer_create(path, &options, &writer, NULL), 0);
	if (gap) {
		memset(bytes, 1, 24);
		save(writer, RECORD_GAP, 24, 1);
	}
	assert_int_equal(record_writer_append(writer, "no batch", 8, (struct job_ns){2}), 0);
	if (sums) {
		save(writer, RECORD_VERDICT, sums_put_verdict(&verdict, bytes), 3);
		ranks.count = 1;
		ranks.ranks[0] = (struct sums_rank){
			.known = true, .host = "node-a", .totals = {.rank = 3, .steps = 100}};
		save(writer, RECORD_RANKS, sums_put_ranks(&ranks, bytes), 3);
		save(writer, RECORD_JOB, sums_put_job(&job, bytes), 3);
	}
	if (later_batch)
		assert_int_equal(
			record_writer_append(writer, "no batch", 8, (struct job_ns){4}), 0);
	assert_int_equal(record_writer_finish(writer), 0);
}

static int saved(struct replay **replay)
{
	assert_int_equal(replay_open(&silent, replay), 0);
	return replay_saved(*replay);
}

static void the_end_is_taken(void **state)
{
	struct report_model model;
	struct replay *replay;

	(void)state;
	write_record(true, true, false);
	assert_int_equal(saved(&replay), 0);
	assert_int_equal(replay_report(replay, &model), 0);
	assert_true(replay_is_whole(replay)); /* the batch was not looked at */
	assert_string_equal(model.job_id, "saved");
	assert_int_equal(model.totals.steps, 100);
	assert_int_equal(model.verdict_count, 1);
	assert_int_equal(model.verdicts[0].ranks[0], 3);
	assert_int_equal(model.rank_count, 1);
	assert_string_equal(model.ranks[0].host, "node-a");
	replay_close(replay);
	assert_int_equal(replay_open(&silent, &replay), 0);
	assert_int_equal(replay_run(replay), 0);
	assert_false(replay_is_whole(replay));
	replay_close(replay);
}

static void a_replay_must_tell(void **state)
{
	struct replay *replay;

	(void)state;
	for (int which = 0; which < 3; which++) { /* no gap, no sums, or a batch behind them */
		write_record(which != 0, which != 1, which == 2);
		assert_int_equal(saved(&replay), -ENODATA);
		replay_close(replay);
	}
	write_record(true, true, false);
	assert_int_equal(truncate(path, 300), 0);
	assert_int_equal(saved(&replay), -ENODATA);
	replay_close(replay);
}

static int stop(void *context, const struct record_frame *frame)
{
	(void)frame;
	++*(int *)context;
	return -ENOSPC;
}

static void who_watches_may_end_it(void **state)
{
	int frames = 0;
	struct replay_options options = silent;
	struct replay *replay;

	(void)state;
	options.on_frame = stop;
	options.context = &frames;
	write_record(true, true, true);
	assert_int_equal(replay_open(&options, &replay), 0);
	assert_int_equal(replay_run(replay), -ENOSPC);
	assert_int_equal(frames, 1);
	replay_close(replay);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "/tmp/slowrank-replay-%d.slr", (int)getpid());
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_is_taken),
		cmocka_unit_test(a_replay_must_tell),
		cmocka_unit_test(who_watches_may_end_it),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
