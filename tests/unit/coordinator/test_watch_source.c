/* SPDX-License-Identifier: Apache-2.0 */
/* A record that `slowrank watch` follows: while it is written, when a thinned one takes its place, and when its writer is gone. */
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
#include "coordinator/watch_source.h"

static char path[64], other[72];
static uint8_t bytes[SUMS_BYTES_MAX];
static struct watch_view view;
static const struct watch_wish all;
static char why[WATCH_SOURCE_WHY_LENGTH];

static struct record_writer *write_to(const char *where, const char *job_id, uint64_t steps)
{
	const struct record_writer_options options = {.program = "test"};
	const struct sums_job job = {.job_id = "", .totals.steps = steps};
	struct sums_job named = job;
	struct record_writer *writer;

	snprintf(named.job_id, sizeof(named.job_id), "%s", job_id);
	assert_int_equal(record_writer_create(where, &options, &writer, NULL), 0);
	memset(bytes, 1, 24);
	assert_int_equal(record_writer_save(writer, RECORD_GAP, bytes, 24, (struct job_ns){1}), 0);
	assert_int_equal(record_writer_save(writer, RECORD_JOB, bytes, sums_put_job(&named, bytes),
				 (struct job_ns){3}),
		0);
	return writer;
}

static struct watch_source *open_source(void)
{
	struct watch_source *source;

	if (watch_source_open(
		    &(struct watch_source_options){.place = path, .silent = true}, &source, why))
		fail_msg("%s", why);
	return source;
}

static void test_followed(void **state)
{
	struct record_writer *writer = write_to(path, "first", 100), *thinned;
	struct watch_source *source;

	(void)state;
	assert_int_equal(record_writer_sync(writer), 0);
	source = open_source();
	assert_int_equal(watch_source_next(source, &all, false, &view, why), WATCH_VIEW);
	assert_string_equal(view.job.id, "first");
	assert_int_equal(view.job.steps, 100);
	assert_int_equal(watch_source_next(source, &all, false, &view, why), WATCH_NOTHING);
	assert_int_equal(watch_source_next(source, &all, true, &view, why), WATCH_VIEW);
	assert_true(watch_source_wait_ms(source) > 0);
	thinned = write_to(other, "first", 200);
	assert_int_equal(rename(other, path), 0);
	assert_int_equal(watch_source_next(source, &all, false, &view, why), WATCH_NOTHING);
	assert_int_equal(record_writer_save(thinned, RECORD_GAP, memset(bytes, 1, 24), 24,
				 (struct job_ns){INT64_C(2000000000)}),
		0);
	assert_int_equal(record_writer_finish(thinned), 0);
	for (int i = 0; i < 4 && !*watch_source_note(source); i++)
		(void)!watch_source_next(source, &all, false, &view, why);
	assert_string_equal(watch_source_note(source), "ended");
	assert_int_equal(view.job.steps, 200);
	assert_true(watch_source_is_whole(source));
	watch_source_close(source);
	assert_int_equal(record_writer_finish(writer), 0);
}

static void test_cut_short(void **state)
{
	struct record_writer *writer = write_to(path, "cut", 100);
	struct watch_source *source;
	int news = WATCH_NOTHING;
	FILE *file;
	long length;

	(void)state;
	assert_int_equal(record_writer_finish(writer), 0);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	length = ftell(file);
	fclose(file);
	assert_int_equal(truncate(path, length - 1), 0);
	source = open_source();
	for (int i = 0; i < 4 && news != WATCH_ENDED; i++)
		news = watch_source_next(source, &all, false, &view, why);
	assert_int_equal(news, WATCH_ENDED);
	assert_string_equal(view.job.id, "cut");
	assert_false(watch_source_is_whole(source));
	watch_source_close(source);
}

static void test_places(void **state)
{
	static const struct {
		const char *place, *name;
	} places[] = {{NULL, "http://127.0.0.1:9400"}, {"9401", "http://127.0.0.1:9401"},
		{"node-a:80", "http://node-a:80"}, {"[::1]:80", "http://[::1]:80"},
		{"0.0.0.0:80", "http://127.0.0.1:80"}, {"https://a/b/", "https://a/b/"}};
	struct watch_source *source;

	(void)state;
	unsetenv("SLOWRANK_HTTP");
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const struct watch_source_options options = {.place = places[i].place};

		if (watch_source_open(&options, &source, why))
			fail_msg("%s", why);
		assert_string_equal(watch_source_name(source), places[i].name);
		watch_source_close(source);
	}
	assert_int_equal(watch_source_open(&(struct watch_source_options){.place = "no-such.slr"},
				 &source, why),
		-ENOENT);
	assert_non_null(strstr(why, "no-such.slr is neither a record nor"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_followed),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_places),
	};
	int failed, fd;

	snprintf(path, sizeof(path), "/tmp/slowrank-watch-XXXXXX");
	fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	unlink(path);
	snprintf(other, sizeof(other), "%s.thin", path);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	unlink(other);
	return failed;
}
