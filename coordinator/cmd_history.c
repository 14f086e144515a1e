/* SPDX-License-Identifier: Apache-2.0 */
/* slowrank history: the incidents of all records in a folder, by node. */
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/base/arena.h"
#include "coordinator/commands.h"
#include "coordinator/nodes/nodes.h"
#include "coordinator/replay.h"
#include "coordinator/words.h"

enum {
	STATUS_OK = 0,
	STATUS_BAD = 2, /* bad usage, or records that are not (all) readable */
	PROGRESS_S = 5, /* from one line about it to the next */
};

static const char usage[] =
	"usage: slowrank history FOLDER [OPTION...]\n\n"
	"Reads the records (*.slr) of FOLDER and of the folders in it, and says which nodes were "
	"named\n"
	"in how many jobs, and as what: the node that is slow in job after job.\n\n"
	"  --format text|json  text for people (default), or json (slowrank.history/1)\n"
	"  --help              this text\n\n"
	"The option has an environment variable: SLOWRANK_FORMAT.\n"
	"Exit status: 0; 2 for bad usage, or where records are unreadable or cut short (the "
	"others\n"
	"count all the same).\n";

static int complain(const char *problem, const char *word)
{
	return words_complain("history", problem, word);
}

/* Returns -1 to go on, or the exit status. */
static int parse(char **folder, bool *json, int argc, char **argv)
{
	static const char *const formats[] = {"text", "json"};
	const char *format;
	const struct words_option list[] = {{"--format", "SLOWRANK_FORMAT", &format, NULL}};
	struct words words = {.command = "history",
		.usage = usage,
		.options = list,
		.option_count = WORDS_IN(list)};
	int found, status = words_take(&words, argc, argv);

	if (status >= 0)
		return status;
	if (!words.other_count)
		return complain("name the folder to look into", NULL);
	if (words.other_count > 1)
		return complain("one folder at a time, not also", words.others[1]);
	*folder = words.others[0];
	found = format ? words_find(formats, WORDS_IN(formats), format) : 0;
	if (found < 0)
		return complain("the format is text or json, not", format);
	*json = found == 1;
	return -1;
}

/* The records' paths. */
struct paths {
	char **list;
	size_t count, capacity;
	bool incomplete; /* some could not be looked for: a line was printed */
};

/* "job.slr", or what is left of a run that was killed: "job.slr.1". */
static bool is_record_name(const char *name)
{
	const char *ending = strstr(name, ".slr");

	while (ending && strstr(ending + 1, ".slr"))
		ending = strstr(ending + 1, ".slr");
	if (!ending)
		return false;
	ending += strlen(".slr");
	return !*ending || (ending[0] == '.' && ending[1] &&
				   strspn(ending + 1, "0123456789") == strlen(ending + 1));
}

static int add_path(struct paths *paths, const char *path)
{
	int error = array_grow(
		(void **)&paths->list, &paths->capacity, paths->count + 1, sizeof(*paths->list));

	if (error < 0)
		return error;
	paths->list[paths->count] = strdup(path);
	if (!paths->list[paths->count])
		return -ENOMEM;
	paths->count++;
	return 0;
}

/* Links in the folder are not followed. */
static int add_paths(struct paths *paths, FTS *tree)
{
	FTSENT *entry;
	int error = 0;

	while (!error && (entry = fts_read(tree))) {
		if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR ||
			entry->fts_info == FTS_NS) {
			fprintf(stderr, "slowrank history: cannot read %s: %s\n", entry->fts_path,
				strerror(entry->fts_errno));
			paths->incomplete = true;
		} else if (entry->fts_info == FTS_F && is_record_name(entry->fts_name)) {
			if (paths->count == NODES_RECORDS_MAX)
				return -E2BIG;
			error = add_path(paths, entry->fts_path);
		}
	}
	return error;
}

static int by_name(const void *one, const void *other)
{
	return strcmp(*(char *const *)one, *(char *const *)other);
}

/* By what was saved at its end, else replayed. Returns 0 or a negative errno, and then a line was printed. */
static int read_record(const char *path, struct replay **replay, struct report_model *model)
{
	const struct replay_options options = {.command = "slowrank history", .path = path};
	int error = replay_open(&options, replay);

	if (error)
		return error;
	error = replay_saved(*replay);
	if (error == -ENODATA) {
		replay_close(*replay);
		*replay = NULL;
		error = replay_open(&options, replay);
		if (!error)
			error = replay_run(*replay);
	}
	return error ? error : replay_report(*replay, model);
}

/* Returns 0 or a negative errno. *whole: it could be read, all of it. */
static int take_record(struct nodes *nodes, const char *path, bool *whole)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct record_reader *reader;
	struct replay *replay = NULL;
	struct report_model model;
	int error = record_reader_open(path, &reader, why);

	*whole = false;
	if (error < 0)
		return nodes_add_unreadable(nodes, path, why);
	record_reader_close(reader);
	error = read_record(path, &replay, &model);
	if (error) {
		error = nodes_add_unreadable(nodes, path, strerror(-error));
	} else {
		*whole = replay_is_whole(replay);
		error = nodes_add(nodes, path, &model, *whole);
	}
	replay_close(replay);
	return error;
}

/* All of them, in order of their names. Returns the exit status. */
static int take_records(struct nodes *nodes, const struct paths *paths)
{
	bool tells_progress = isatty(STDERR_FILENO), whole;
	time_t told = time(NULL);
	int status = STATUS_OK;

	for (size_t i = 0; i < paths->count; i++) {
		if (tells_progress && time(NULL) - told >= PROGRESS_S) {
			told = time(NULL);
			fprintf(stderr, "slowrank history: %zu of %zu records\n", i, paths->count);
		}
		if (take_record(nodes, paths->list[i], &whole) < 0) {
			fprintf(stderr, "slowrank history: out of memory\n");
			return STATUS_BAD;
		}
		if (!whole)
			status = STATUS_BAD;
	}
	return status;
}

static int write_output(struct nodes *nodes, const char *folder, bool json)
{
	int error;

	nodes_sort(nodes);
	error = json ? nodes_write_json(nodes, folder, stdout)
		     : nodes_write_text(nodes, folder, stdout);
	if (error)
		fprintf(stderr, "slowrank history: cannot write to standard output: %s\n",
			strerror(-error));
	return error;
}

/* Finds the records, in order of their names. Returns 0 or a negative errno, and then a line was printed. */
static int find_records(struct paths *paths, char *folder)
{
	char *const folders[] = {folder, NULL};
	FTS *tree = fts_open(folders, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
	int error = tree ? add_paths(paths, tree) : -errno;

	if (tree)
		fts_close(tree);
	if (error == -E2BIG)
		fprintf(stderr, "slowrank history: %s has more than %d records\n", folder,
			NODES_RECORDS_MAX);
	else if (error)
		fprintf(stderr, "slowrank history: %s: %s\n", folder, strerror(-error));
	if (!error && !paths->count && !paths->incomplete)
		fprintf(stderr, "slowrank history: no record (*.slr) in %s\n", folder);
	if (error || !paths->count)
		return error ? error : -ENOENT;
	qsort(paths->list, paths->count, sizeof(*paths->list), by_name);
	return 0;
}

int cmd_history(int argc, char **argv)
{
	struct nodes nodes = {0};
	struct paths paths = {0};
	char *folder = NULL;
	bool json = false;
	int status = parse(&folder, &json, argc, argv);

	if (status >= 0)
		return status;
	status = STATUS_BAD;
	if (find_records(&paths, folder) == 0) {
		status = take_records(&nodes, &paths);
		if (write_output(&nodes, folder, json) || paths.incomplete)
			status = STATUS_BAD;
	}
	nodes_fini(&nodes);
	for (size_t i = 0; i < paths.count; i++)
		free(paths.list[i]);
	free(paths.list);
	return status;
}
