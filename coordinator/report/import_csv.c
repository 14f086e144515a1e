/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/import_csv.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

enum { LINE_BYTES = 1024, FIELDS_MAX = 64, COLUMN_MISSING = FIELDS_MAX };

enum column {
	COLUMN_REPLICA,
	COLUMN_STAGE,
	COLUMN_RANK,
	COLUMN_STEP,
	COLUMN_TYPE,
	COLUMN_START,
	COLUMN_DURATION,
	COLUMN_SEQUENCE,
	COLUMN_CHUNK, /* these two may be missing: jobs with one chunk a stage need none */
	COLUMN_MODEL_CHUNK,
	COLUMN_NR
};

static const char *const column_names[COLUMN_NR] = {"dp_rank", "stage", "rank", "step", "optype",
	"start_ts", "duration", "seq_id", "mc", "gmc"};

static const char *const type_names[TRACE_KIND_NR] = {
	[TRACE_FORWARD_COMPUTE] = "forward-compute",
	[TRACE_BACKWARD_COMPUTE] = "backward-compute",
	[TRACE_FORWARD_SEND] = "forward-send",
	[TRACE_FORWARD_RECEIVE] = "forward-recv",
	[TRACE_BACKWARD_SEND] = "backward-send",
	[TRACE_BACKWARD_RECEIVE] = "backward-recv",
	[TRACE_PARAMETERS_GATHER] = "params-all-gather",
	[TRACE_GRADIENTS_SCATTER] = "grads-reduce-scatter",
	[TRACE_SEPARATE_GRADIENTS] = "separate-grads-all-reduce",
	[TRACE_LAYERNORM] = "layernorm-grads-all-reduce",
	[TRACE_EMBEDDING] = "embedding-grads-all-reduce",
	[TRACE_CLIP] = "optimizer-clip-main-grad",
	[TRACE_GARBAGE_COLLECTION] = "gc",
	[TRACE_OPTIMIZER] = "optimizer",
};

/* A day: nothing lasts longer within one step. */
static const double seconds_max = 86400;

/* Takes the quotes off a field, in place (RFC 4180). Returns what follows the last of them. */
static char *unquote(char *field)
{
	char *to = field, *from = field + 1;

	for (; *from && (*from != '"' || from[1] == '"'); from++) {
		from += *from == '"';
		*to++ = *from;
	}
	from += *from == '"';
	*to = '\0';
	return from;
}

static size_t split(char *line, char **fields)
{
	size_t count = 0;

	line[strcspn(line, "\r\n")] = '\0';
	for (char *next = line; next && count < FIELDS_MAX; count++) {
		fields[count] = next;
		next = strchr(*next == '"' ? unquote(next) : next, ',');
		if (next)
			*next++ = '\0';
	}
	return count;
}

static bool find_columns(char *line, size_t places[COLUMN_NR])
{
	char *fields[FIELDS_MAX];
	/* Some programs begin a file with the mark of UTF-8. */
	size_t count = split(line + (strncmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0), fields);

	for (size_t column = 0; column < COLUMN_NR; column++) {
		size_t at = 0;

		while (at < count && strcmp(fields[at], column_names[column]) != 0)
			at++;
		if (at == count && column < COLUMN_CHUNK)
			return false;
		places[column] = at < count ? at : COLUMN_MISSING;
	}
	return true;
}

static bool read_number(const char *text, double least, double most, double *number)
{
	char *end;

	*number = strtod(text, &end);
	return end != text && *end == '\0' && *number >= least && *number <= most;
}

static bool read_chunk(char **fields, size_t place, double *chunk)
{
	*chunk = -1;
	return place == COLUMN_MISSING || !*fields[place] ||
	       read_number(fields[place], -1, STEP_PART_COUNT_MAX, chunk);
}

/* Of part of the model; where none is said it is the stage's only one. */
static bool has_chunk(unsigned kind)
{
	return kind <= TRACE_BACKWARD_COMPUTE || kind == TRACE_PARAMETERS_GATHER ||
	       kind == TRACE_GRADIENTS_SCATTER;
}

/* Returns 0, -EBADMSG, or 1 for a type that is not known. */
static int read_row(char *line, const size_t places[COLUMN_NR], struct import_row *row)
{
	double replica, stage, rank, step, start, duration, sequence, chunk, model_chunk;
	char *fields[FIELDS_MAX];
	size_t count = split(line, fields);
	unsigned kind = 0;

	for (size_t column = 0; column < COLUMN_NR; column++) {
		if (places[column] >= count && places[column] != COLUMN_MISSING)
			return -EBADMSG;
	}
	if (!read_number(fields[places[COLUMN_REPLICA]], 0, STEP_RANK_COUNT_MAX - 1, &replica) ||
		!read_number(fields[places[COLUMN_STAGE]], 0, TRACE_STAGES_MAX - 1, &stage) ||
		!read_number(fields[places[COLUMN_RANK]], 0, STEP_RANK_COUNT_MAX - 1, &rank) ||
		!read_number(fields[places[COLUMN_STEP]], 0, 1e15, &step) ||
		!read_number(fields[places[COLUMN_START]], -seconds_max, seconds_max, &start) ||
		!read_number(
			fields[places[COLUMN_DURATION]], -seconds_max, seconds_max, &duration) ||
		!read_number(fields[places[COLUMN_SEQUENCE]], 0, STEP_PART_COUNT_MAX, &sequence) ||
		!read_chunk(fields, places[COLUMN_CHUNK], &chunk) ||
		!read_chunk(fields, places[COLUMN_MODEL_CHUNK], &model_chunk))
		return -EBADMSG;
	while (kind < TRACE_KIND_NR && strcmp(fields[places[COLUMN_TYPE]], type_names[kind]) != 0)
		kind++;
	if (kind == TRACE_KIND_NR)
		return 1;
	if (chunk < 0 && model_chunk < 0 && has_chunk(kind))
		chunk = 0;
	*row = (struct import_row){.step = (uint64_t)step,
		.rank = (uint32_t)rank,
		.replica = (uint32_t)replica,
		.stage = (uint32_t)stage,
		.model_chunk = model_chunk >= 0 ? (int32_t)model_chunk : -2 - (int32_t)chunk,
		.sequence = (uint32_t)sequence,
		.start_ns = llround(start * 1e9),
		.end_ns = llround((start + fmax(duration, 0)) * 1e9),
		.kind = (uint8_t)kind};
	return 0;
}

static int add_row(struct import_rows *rows, const struct import_row *row)
{
	if (rows->count == TRACE_OPERATIONS_MAX)
		return -EMSGSIZE;
	if (rows->count == rows->capacity) {
		size_t capacity = rows->capacity ? rows->capacity * 2 : 4096;
		struct import_row *grown = realloc(rows->rows, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		rows->rows = grown;
		rows->capacity = capacity;
	}
	rows->rows[rows->count++] = *row;
	if (row->stage >= rows->stage_count)
		rows->stage_count = row->stage + 1;
	return 0;
}

/* Where only the chunk within the stage is given, the model's follows: chunks are interleaved. */
static void number_chunks(struct import_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		struct import_row *row = &rows->rows[i];

		if (row->model_chunk >= 0)
			continue;
		int32_t chunk = -2 - row->model_chunk;

		row->model_chunk =
			chunk < 0 ? -1 : chunk * (int32_t)rows->stage_count + (int32_t)row->stage;
	}
}

static int read_rows(gzFile file, struct import_rows *rows, const char *path, char *why)
{
	char line[LINE_BYTES];
	size_t places[COLUMN_NR];
	uint64_t number = 1;
	int error = 0;

	if (!gzgets(file, line, sizeof(line)) || !find_columns(line, places)) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"%.120s is no what-if trace: its first line must name dp_rank, stage, "
			"rank, "
			"step, optype, start_ts, duration and seq_id",
			path);
		return -EBADMSG;
	}
	while (error >= 0 && gzgets(file, line, sizeof(line))) {
		struct import_row row;

		number++;
		if (line[0] == '\n' || line[0] == '\r')
			continue;
		error = read_row(line, places, &row);
		rows->unknown += error == 1;
		if (error == 0)
			error = add_row(rows, &row);
	}
	if (error >= 0 && !gzeof(file))
		error = -EIO;
	if (error < 0) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "%.160s, line %llu: %s", path,
			(unsigned long long)number,
			error == -EBADMSG    ? "not an operation with numbers that can be"
			: error == -EMSGSIZE ? "more operations than can be kept"
			: error == -EIO	     ? "damaged, or cut short"
					     : strerror(-error));
		return error;
	}
	if (rows->count == 0) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "%.160s holds no operations", path);
		return -EBADMSG;
	}
	number_chunks(rows);
	return 0;
}

int import_rows_read(
	const char *path, struct import_rows *rows, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	gzFile file;
	int error;

	*rows = (struct import_rows){0};
	file = gzopen(path, "rb");
	if (!file) {
		error = errno ? -errno : -ENOMEM;
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "cannot read %.160s: %s", path,
			strerror(-error));
		return error;
	}
	error = read_rows(file, rows, path, why);
	if (gzclose(file) != Z_OK && error == 0) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "%.160s is cut short or damaged", path);
		error = -EBADMSG;
	}
	return error;
}

void import_rows_fini(struct import_rows *rows)
{
	free(rows->rows);
	*rows = (struct import_rows){0};
}
