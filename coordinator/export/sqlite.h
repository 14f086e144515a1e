/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All tables in one SQLite database, a transaction for each record: all that knows libsqlite3. docs/export.md has the
 * schema. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_EXPORT_SQLITE_H
#define SLOWRANK_COORDINATOR_EXPORT_SQLITE_H

#include "coordinator/export/table.h"

struct sqlite;

/* "SLRX": the application id of a database that was made here. */
#define SQLITE_EXPORT_ID 0x534c5258

/* Makes tables and views in an empty file, which stays the caller's. Returns 0 or a negative errno. */
int sqlite_open(const char *path, struct sqlite **sqlite) __attribute__((warn_unused_result));
void sqlite_close(struct sqlite *sqlite); /* NULL is fine; what was not committed is lost */

/* Around the rows of a record. Return 0 or a negative errno. */
int sqlite_begin(struct sqlite *sqlite) __attribute__((warn_unused_result));
int sqlite_commit(struct sqlite *sqlite) __attribute__((warn_unused_result));
/* Of struct export_sink. */
int sqlite_put(void *sqlite, enum export_table table, const struct export_value *values)
	__attribute__((warn_unused_result));

#endif
