/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that somebody made to do harm come out as texts, in CSV and in a database. */
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
#include <sqlite3.h>

#include "coordinator/export/csv.h"
#include "coordinator/export/sqlite.h"

#define REPLACEMENT "\xEF\xBF\xBD"

/* What is given, what a field of CSV is, what a database has. */
static const struct {
	const char *text, *field, *stored;
} hostile[] = {
	{"node-a", "\"node-a\"", "node-a"},
	{"", "\"\"", ""},
	{"a,b", "\"a,b\"", "a,b"},
	{"say \"hi\"\r\nthere", "\"say \"\"hi\"\"\r\nthere\"", "say \"hi\"\r\nthere"},
	{"=HYPERLINK(\"http://x\")", "\"'=HYPERLINK(\"\"http://x\"\")\"",
		"=HYPERLINK(\"http://x\")"},
	{"+1", "\"'+1\"", "+1"},
	{"-1+1", "\"'-1+1\"", "-1+1"},
	{"@SUM(A1)", "\"'@SUM(A1)\"", "@SUM(A1)"},
	{"\t=1", "\"'\t=1\"", "\t=1"},
	{"a'); DROP TABLE ranks; --", "\"a'); DROP TABLE ranks; --\"", "a'); DROP TABLE ranks; --"},
	{"bad \xff\xc3 utf", "\"bad " REPLACEMENT REPLACEMENT " utf\"",
		"bad " REPLACEMENT REPLACEMENT " utf"},
	{"caf\xc3\xa9", "\"caf\xc3\xa9\"", "caf\xc3\xa9"},
};

enum { HOSTILE = sizeof(hostile) / sizeof(hostile[0]), SOURCE_FIELDS = 6 };

static void fill(struct export_value values[SOURCE_FIELDS], const char *text)
{
	for (int i = 0; i < SOURCE_FIELDS; i++)
		values[i] = (struct export_value){.known = true, .integer = i};
	values[1].text = values[2].text = text;
	values[3].known = false;
	values[5] = (struct export_value){.known = true, .integer = INT64_MIN};
}

static void csv_quotes(void **state)
{
	struct export_value values[SOURCE_FIELDS];

	(void)state;
	for (size_t i = 0; i < HOSTILE; i++) {
		char *written = NULL, expected[512];
		size_t length;
		FILE *out = open_memstream(&written, &length);
		struct csv csv = {out, "\r\n", EXPORT_SOURCES};

		fill(values, hostile[i].text);
		assert_int_equal(csv_begin(&csv), 0);
		assert_int_equal(csv_put(&csv, EXPORT_SOURCES, values), 0);
		assert_int_equal(csv_put(&csv, EXPORT_GAPS, values), 0); /* another table's */
		fclose(out);
		snprintf(expected, sizeof(expected),
			"record,name,state,why,probes,probes_on\r\n0,%s,%s,,4,%s\r\n",
			hostile[i].field, hostile[i].field, "-9223372036854775808");
		assert_string_equal(written, expected);
		free(written);
	}
}

static void csv_says_that_the_disk_is_full(void **state)
{
	FILE *out = fopen("/dev/full", "we");
	struct csv csv = {out, "\r\n", EXPORT_STEPS};

	(void)state;
	assert_non_null(out);
	setvbuf(out, NULL, _IONBF, 0);
	assert_int_equal(csv_begin(&csv), -ENOSPC);
	fclose(out);
}

static void database_stores(void **state)
{
	char path[] = "/tmp/slowrank-sqlite-XXXXXX";
	int fd = mkstemp(path);
	struct export_value values[SOURCE_FIELDS];
	struct sqlite *sqlite;
	sqlite3_stmt *rows;
	sqlite3 *database;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(sqlite_open(path, &sqlite), 0);
	assert_int_equal(sqlite_begin(sqlite), 0);
	for (size_t i = 0; i < HOSTILE; i++) {
		fill(values, hostile[i].text);
		assert_int_equal(sqlite_put(sqlite, EXPORT_SOURCES, values), 0);
	}
	assert_int_equal(sqlite_commit(sqlite), 0);
	assert_int_equal(sqlite_begin(sqlite), 0); /* of a record that fails: nothing of it stays */
	assert_int_equal(sqlite_put(sqlite, EXPORT_SOURCES, values), 0);
	sqlite_close(sqlite);

	assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
	assert_int_equal(
		sqlite3_prepare_v2(database,
			"SELECT name, state, why IS NULL, probes_on FROM sources", -1, &rows, NULL),
		SQLITE_OK);
	for (size_t i = 0; i < HOSTILE; i++) {
		assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
		assert_string_equal((const char *)sqlite3_column_text(rows, 0), hostile[i].stored);
		assert_string_equal((const char *)sqlite3_column_text(rows, 1), hostile[i].stored);
		assert_int_equal(sqlite3_column_int(rows, 2), 1);
		assert_true(sqlite3_column_int64(rows, 3) == INT64_MIN);
	}
	assert_int_equal(sqlite3_step(rows), SQLITE_DONE);
	sqlite3_finalize(rows);
	sqlite3_close(database);
	close(fd);
	unlink(path);
}

static void contradictions_are_refused(void **state)
{
	char path[] = "/tmp/slowrank-sqlite-XXXXXX";
	int fd = mkstemp(path);
	struct export_value values[EXPORT_COLUMNS_MAX];
	struct sqlite *sqlite;

	(void)state;
	memset(values, 0, sizeof(values));
	values[0].known = values[1].known = true;
	assert_int_equal(sqlite_open(path, &sqlite), 0);
	assert_int_equal(sqlite_put(sqlite, EXPORT_RANKS, values), 0);
	assert_int_equal(sqlite_put(sqlite, EXPORT_RANKS, values), -EBADMSG);
	sqlite_close(sqlite);
	close(fd);
	unlink(path);
	assert_int_equal(sqlite_open("/tmp/no-such-folder/x.db", &sqlite), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_quotes),
		cmocka_unit_test(csv_says_that_the_disk_is_full),
		cmocka_unit_test(database_stores),
		cmocka_unit_test(contradictions_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
