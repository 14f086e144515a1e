/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/export/sqlite.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/report/utf8.h"

struct sqlite {
	sqlite3 *database;
	sqlite3_stmt *inserts[EXPORT_TABLE_NR];
};

enum {
	PRAGMAS_LENGTH = 256,
	TEXT_BYTES_MAX = 8192, /* longer ones, which only paths can be, are cut */
	UTF8_BYTES_MAX = 4,
	UTF8_REPLACEMENT_BYTES = 3,
};

/*
 * What a report says per rank, from the steps; and who was named how often. A workload's imbalance is the program's own
 * doing, and nobody's node.
 */
static const char views[] =
	"CREATE VIEW rank_sums AS SELECT record, rank, SUM(input_ns) AS input_ns,"
	" SUM(compute_ns) AS compute_ns, SUM(host_ns) AS host_ns, SUM(comm_ns) AS comm_ns,"
	" TOTAL(wait_ns) / MAX(TOTAL(wait_ns) + TOTAL(transfer_ns), 1) AS wait_share,"
	" SUM(own_delay_ns) AS own_delay_ns, SUM(inherited_ns) AS inherited_ns"
	" FROM rank_steps GROUP BY record, rank;"
	"CREATE VIEW node_named AS SELECT DISTINCT n.node, n.record, i.class, i.cause"
	" FROM incident_ranks n JOIN incidents i USING (record, incident)"
	" WHERE n.named_as = 'culprit' AND n.node <> '' AND i.class <> 'workload-imbalance';"
	"CREATE VIEW nodes AS SELECT r.node,"
	" COUNT(DISTINCT r.record) AS jobs,"
	" (SELECT COUNT(DISTINCT n.record) FROM node_named n WHERE n.node = r.node) AS jobs_named"
	" FROM ranks r WHERE r.node <> '' GROUP BY r.node;";

static int error_of(int result)
{
	switch (result) {
	case SQLITE_OK:
	case SQLITE_DONE:
		return 0;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_TOOBIG:
		return -EFBIG;
	case SQLITE_CONSTRAINT:
		return -EBADMSG; /* two rows of a kind: the record contradicts itself */
	default:
		return -EIO;
	}
}

static int run(struct sqlite *sqlite, const char *statement)
{
	return error_of(sqlite3_exec(sqlite->database, statement, NULL, NULL, NULL));
}

static int make_table(struct sqlite *sqlite, const struct export_shape *shape)
{
	static const char *const types[] = {
		[EXPORT_INTEGER] = "INTEGER", [EXPORT_REAL] = "REAL", [EXPORT_TEXT] = "TEXT"};
	char *statement = sqlite3_mprintf("CREATE TABLE %s (", shape->name), *longer;
	int error;

	for (size_t c = 0; c < shape->column_count && statement; c++) {
		longer = sqlite3_mprintf("%z%s%s %s", statement, c ? ", " : "",
			shape->columns[c].name, types[shape->columns[c].type]);
		statement = longer;
	}
	if (statement && shape->key)
		statement = sqlite3_mprintf(
			"%z, PRIMARY KEY (%s)) WITHOUT ROWID", statement, shape->key);
	else if (statement)
		statement = sqlite3_mprintf("%z)", statement);
	error = statement ? run(sqlite, statement) : -ENOMEM;
	sqlite3_free(statement);
	return error;
}

static int prepare_insert(struct sqlite *sqlite, enum export_table table)
{
	const struct export_shape *shape = export_shape(table);
	char *statement = sqlite3_mprintf("INSERT INTO %s VALUES (?", shape->name);
	int error;

	for (size_t c = 1; c < shape->column_count && statement; c++)
		statement = sqlite3_mprintf("%z, ?", statement);
	if (statement)
		statement = sqlite3_mprintf("%z)", statement);
	if (!statement)
		return -ENOMEM;
	error = error_of(sqlite3_prepare_v3(sqlite->database, statement, -1,
		SQLITE_PREPARE_PERSISTENT, &sqlite->inserts[table], NULL));
	sqlite3_free(statement);
	return error;
}

/* The caller gives the file its name when all is in it: nothing else needs to survive. */
static int make_schema(struct sqlite *sqlite)
{
	char pragmas[PRAGMAS_LENGTH];
	int error;

	snprintf(pragmas, sizeof(pragmas),
		"PRAGMA application_id = %d; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = "
		"OFF; PRAGMA locking_mode = EXCLUSIVE;",
		SQLITE_EXPORT_ID);
	error = run(sqlite, pragmas);
	for (int table = 0; table < EXPORT_TABLE_NR && !error; table++) {
		error = make_table(sqlite, export_shape((enum export_table)table));
		if (!error)
			error = prepare_insert(sqlite, (enum export_table)table);
	}
	return error ? error : run(sqlite, views);
}

int sqlite_open(const char *path, struct sqlite **result)
{
	struct sqlite *sqlite = calloc(1, sizeof(*sqlite));
	int error = sqlite ? 0 : -ENOMEM;

	if (!error)
		error = error_of(
			sqlite3_open_v2(path, &sqlite->database, SQLITE_OPEN_READWRITE, NULL));
	if (!error)
		error = make_schema(sqlite);
	if (error)
		sqlite_close(sqlite);
	else
		*result = sqlite;
	return error;
}

void sqlite_close(struct sqlite *sqlite)
{
	if (!sqlite)
		return;
	for (int table = 0; table < EXPORT_TABLE_NR; table++)
		sqlite3_finalize(sqlite->inserts[table]);
	sqlite3_close(sqlite->database);
	free(sqlite);
}

int sqlite_begin(struct sqlite *sqlite)
{
	return run(sqlite, "BEGIN");
}

int sqlite_commit(struct sqlite *sqlite)
{
	return run(sqlite, "COMMIT");
}

/* What is no UTF-8 would be a text that no program can read. */
static int bind_text(sqlite3_stmt *insert, int at, const char *text)
{
	char whole[TEXT_BYTES_MAX];
	size_t length = 0;

	while (*text && length + UTF8_BYTES_MAX < sizeof(whole)) {
		const char *start = text;
		bool broken = utf8_next(&text) == UTF8_REPLACEMENT;
		size_t bytes = broken ? UTF8_REPLACEMENT_BYTES : (size_t)(text - start);

		memcpy(whole + length, broken ? "\xEF\xBF\xBD" : start, bytes);
		length += bytes;
	}
	return sqlite3_bind_text(insert, at, whole, (int)length, SQLITE_TRANSIENT);
}

static int bind(
	sqlite3_stmt *insert, int at, enum export_type type, const struct export_value *value)
{
	if (!value->known || (type == EXPORT_REAL && !isfinite(value->real)))
		return sqlite3_bind_null(insert, at);
	if (type == EXPORT_INTEGER)
		return sqlite3_bind_int64(insert, at, value->integer);
	if (type == EXPORT_REAL)
		return sqlite3_bind_double(insert, at, value->real);
	return bind_text(insert, at, value->text);
}

int sqlite_put(void *context, enum export_table table, const struct export_value *values)
{
	const struct export_shape *shape = export_shape(table);
	struct sqlite *sqlite = context;
	sqlite3_stmt *insert = sqlite->inserts[table];
	int result = SQLITE_OK;

	for (size_t c = 0; c < shape->column_count && result == SQLITE_OK; c++)
		result = bind(insert, (int)c + 1, shape->columns[c].type, &values[c]);
	if (result == SQLITE_OK)
		result = sqlite3_step(insert);
	sqlite3_reset(insert);
	sqlite3_clear_bindings(insert);
	return error_of(result);
}
