/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/page/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "coordinator/page/packed.h"
#include "coordinator/page/trail_json.h"
#include "coordinator/report/look.h"

enum {
	NAME_LENGTH = 96,
	DIGITS_MAX = 18,
	FOLD_SHIFT = 2, /* 4 rows of a level are one of the next one */
	PLANES = 3,	/* own, held, who */
	TRACK_LINES = 1 + TRACK_NR + 2 * SAMPLED_NR,
	CELLS_PLAIN = 1 << 20, /* of so many and fewer, values are sent as they are */
	RANKS_FEW = 16,	       /* of a job of so many, the course of all is shown */
	FEWER_BITS = 2,	       /* of more, to half an octave, and what is short is left out */
};

/* In a large job less than 1 % of its mean step is as good as nothing: of such a job that is most cells. */
static const double shown_share = 0.01;

struct range {
	size_t first, last;
};

/* Layouts are told apart by the ranks that incidents name, too: of these, cells are exact. */
static unsigned long named_sum(const struct report_model *model)
{
	unsigned long sum = crc32(0, NULL, 0);

	for (size_t i = 0; i < model->verdict_count; i++) {
		const struct verdict *verdict = &model->verdicts[i];
		size_t count = look_at_most(verdict->rank_count, VERDICT_RANKS_MAX);

		sum = crc32(sum, (const unsigned char *)verdict->ranks,
			(unsigned)(count * sizeof(verdict->ranks[0])));
	}
	return sum;
}

void parts_begin(struct parts *parts, const struct trail *trail, const struct report_model *model,
	const char *run)
{
	*parts = (struct parts){.trail = trail, .unix_offset_ns = model->unix_offset_ns};
	snprintf(parts->layout, sizeof(parts->layout), "%.24s-%" PRIx32 "-%lx", run,
		trail->heat.generation, named_sum(model));
	for (size_t i = 0; i < trail->tracks.count; i++)
		parts->shown[i] = model->rank_count <= RANKS_FEW ||
				  look_is_named(model, trail->tracks.list[i].rank);
}

static int compare_rows(const void *one, const void *other, void *rows)
{
	uint32_t a = ((const struct heat_row *)rows)[*(const uint32_t *)one].first_rank,
		 b = ((const struct heat_row *)rows)[*(const uint32_t *)other].first_rank;

	return (a > b) - (a < b);
}

/* So many rows, in order, begin at a rank or before it. */
static size_t rows_until(const struct heat *heat, const uint32_t *order, uint32_t rank)
{
	size_t low = 0, high = heat->row_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (heat->rows[order[middle]].first_rank <= rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void mark_named(
	struct parts_rows *rows, const struct heat *heat, const struct report_model *model)
{
	for (size_t i = 0; i < model->verdict_count; i++) {
		const struct verdict *verdict = &model->verdicts[i];

		for (size_t r = 0; r < verdict->rank_count && r < VERDICT_RANKS_MAX; r++) {
			size_t until = rows_until(heat, rows->order, verdict->ranks[r]);

			if (until)
				rows->named[until - 1] = 1;
		}
	}
}

int parts_take_rows(struct parts *parts, const struct report_model *model)
{
	const struct heat *heat = &parts->trail->heat;
	struct parts_rows *rows = &parts->rows;
	FILE *memory = open_memstream(&rows->json, &rows->json_length);
	struct json_writer writer;
	bool good = false;

	rows->order = calloc(heat->row_count + 1, sizeof(*rows->order));
	rows->named = calloc(heat->row_count + 1, 1);
	if (memory && rows->order && rows->named) {
		/* Nodes are numbered as they came. */
		for (size_t row = 0; row < heat->row_count; row++)
			rows->order[row] = (uint32_t)row;
		qsort_r(rows->order, heat->row_count, sizeof(*rows->order), compare_rows,
			heat->rows);
		mark_named(rows, heat, model);
		json_writer_init(&writer, memory, 0);
		trail_rows_json(&writer, parts->trail, rows->order, model);
		good = !ferror(memory);
	}
	if (memory)
		good = fclose(memory) == 0 && good;
	return good ? 0 : -ENOMEM;
}

void parts_fini(struct parts *parts)
{
	free(parts->rows.order);
	free(parts->rows.named);
	free(parts->rows.json);
	parts->rows = (struct parts_rows){0};
}

/* What a name is read from; each returns false for what it is not. */
static bool read_number(const char **at, uint64_t *number)
{
	size_t digits = strspn(*at, "0123456789");

	if (digits == 0 || digits > DIGITS_MAX)
		return false;
	*number = strtoull(*at, NULL, 10);
	*at += digits;
	return true;
}

static bool read_letter(const char **at, char letter)
{
	bool is = **at == letter;

	*at += is;
	return is;
}

static bool read_range(const char **at, struct range *range)
{
	uint64_t first, last;

	if (!read_number(at, &first) || !read_letter(at, '-') || !read_number(at, &last) ||
		first > last)
		return false;
	*range = (struct range){first, last};
	return true;
}

static bool ends(const char *at)
{
	return *at == '\0';
}

/* Takes the bytes, also on failure. */
static int pack(void *bytes, size_t length, struct part *part)
{
	int error = bytes ? packed_make(bytes, length, &part->bytes, &part->length) : -ENOMEM;

	free(bytes);
	return error;
}

static int make_rows(const struct parts *parts, const char *at, struct part *part)
{
	if (!ends(at))
		return -EINVAL;
	part->finished = true;
	return packed_make(parts->rows.json, parts->rows.json_length, &part->bytes, &part->length);
}

/* The newest column may change. */
static bool is_finished(const struct trail *trail, const struct range *columns)
{
	return columns->last + 1 < trail->column_count;
}

/* Writes JSON by a function. */
static int make_json(const struct parts *parts, struct part *part, const struct range *columns,
	const struct walk_step *walk)
{
	char *json = NULL;
	size_t length = 0;
	FILE *memory = open_memstream(&json, &length);
	struct json_writer writer;

	if (!memory)
		return -ENOMEM;
	json_writer_init(&writer, memory, 0);
	if (walk)
		trail_walk_json(&writer, walk, parts->unix_offset_ns);
	else
		trail_columns_json(&writer, parts->trail, columns->first, columns->last,
			parts->unix_offset_ns);
	if (fclose(memory) != 0) {
		free(json);
		return -ENOMEM;
	}
	return pack(json, length, part);
}

static int make_columns(const struct parts *parts, const char *at, struct part *part)
{
	struct range columns;

	if (!read_range(&at, &columns) || !ends(at))
		return -EINVAL;
	if (columns.last >= parts->trail->column_count)
		return -ENOENT;
	part->finished = is_finished(parts->trail, &columns);
	return make_json(parts, part, &columns, NULL);
}

static int make_walk(const struct parts *parts, const char *at, struct part *part)
{
	uint64_t number;

	if (!read_number(&at, &number) || !ends(at))
		return -EINVAL;
	for (size_t i = 0; i < parts->trail->walk_count; i++) {
		if (parts->trail->walks[i].number == number) {
			part->finished = true;
			return make_json(parts, part, NULL, &parts->trail->walks[i]);
		}
	}
	return -ENOENT;
}

/* A column of a track: in how many steps the rank was judged, what these were made of, what was sampled; stride values apart. */
static void track_values(const struct track *track, size_t column, float *into, size_t stride)
{
	float steps = (float)track->steps[column];

	*into = steps;
	for (size_t k = 0; k < TRACK_NR; k++)
		*(into += stride) =
			steps > 0 ? track->sum_ns[column * TRACK_NR + k] / steps / 1e6F : 0;
	for (size_t k = 0; k < 2 * SAMPLED_NR; k++)
		*(into += stride) =
			track->times[column] ? track->sampled[column * 2 * SAMPLED_NR + k] : NAN;
}

static int make_track(const struct parts *parts, const char *at, struct part *part)
{
	const struct track *track = NULL;
	struct range columns;
	uint64_t rank;
	size_t count;
	float *values;

	if (!read_number(&at, &rank) || !read_letter(&at, '/') || !read_range(&at, &columns) ||
		!ends(at))
		return -EINVAL;
	for (size_t i = 0; i < parts->trail->tracks.count && !track; i++) {
		if (parts->shown[i] && parts->trail->tracks.list[i].rank == rank)
			track = &parts->trail->tracks.list[i];
	}
	if (!track || columns.last >= parts->trail->column_count)
		return -ENOENT;
	count = columns.last - columns.first + 1;
	values = malloc(count * TRACK_LINES * sizeof(*values));
	for (size_t i = 0; values && i < count; i++)
		track_values(track, columns.first + i, &values[i], count);
	return pack(values, count * TRACK_LINES * sizeof(*values), part);
}

/* How cells of the map are sent. */
struct sent {
	bool plain;
	uint8_t least;
};

static struct sent how_sent(const struct trail *trail)
{
	return (struct sent){
		.plain = trail->heat.row_count * trail->column_count <= CELLS_PLAIN,
		.least = heat_value((int64_t)(trail_mean_step_ns(trail) * shown_share)),
	};
}

/* 0 stays what was not seen, 1 what is short; others are rounded down to what fewer bits can say. */
static uint8_t coarse(uint8_t value, uint8_t least)
{
	if (value <= 1 || value < least)
		return value ? 1 : 0;
	return (uint8_t)(2 + ((value - 2) >> FEWER_BITS << FEWER_BITS));
}

static struct heat_cell sent_cell(const struct sent *sent, struct heat_cell cell, bool named)
{
	if (sent->plain || named)
		return cell;
	return (struct heat_cell){.own = coarse(cell.own, sent->least),
		.held = coarse(cell.held, sent->least),
		.who = cell.own < sent->least ? 0 : cell.who};
}

/* The largest of what some rows have in a column. */
static struct heat_cell largest(const struct parts *parts, const struct sent *sent, size_t column,
	const struct range *places)
{
	const struct heat *heat = &parts->trail->heat;
	struct heat_cell most = {0};

	for (size_t place = places->first; place <= places->last; place++) {
		struct heat_cell cell = sent_cell(sent,
			*heat_at(heat, parts->rows.order[place], column), parts->rows.named[place]);

		most.own = most.own > cell.own ? most.own : cell.own;
		most.held = most.held > cell.held ? most.held : cell.held;
		most.who = cell.who; /* of one row alone it is sent */
	}
	return most;
}

static bool has_who(const struct heat *heat, size_t level)
{
	return level == 0 && heat->by_node;
}

static int make_tile(const struct parts *parts, size_t level, const struct range *rows,
	const struct range *columns, struct part *part)
{
	const struct heat *heat = &parts->trail->heat;
	struct sent sent = how_sent(parts->trail);
	size_t high = rows->last - rows->first + 1, wide = columns->last - columns->first + 1,
	       shift = level * FOLD_SHIFT;
	uint8_t *bytes = malloc(high * wide * PLANES);

	for (size_t x = 0; bytes && x < wide; x++) {
		for (size_t y = 0; y < high; y++) {
			struct range places = {
				(rows->first + y) << shift, ((rows->first + y + 1) << shift) - 1};
			struct heat_cell cell;

			if (places.last >= heat->row_count)
				places.last = heat->row_count - 1;
			cell = largest(parts, &sent, columns->first + x, &places);
			bytes[y * wide + x] = cell.own;
			bytes[(high + y) * wide + x] = cell.held;
			bytes[(2 * high + y) * wide + x] = cell.who;
		}
	}
	part->finished = is_finished(parts->trail, columns);
	return pack(bytes, high * wide * (has_who(heat, level) ? PLANES : PLANES - 1), part);
}

/* So many rows the level has. */
static size_t rows_of(const struct heat *heat, size_t level)
{
	size_t fold = (size_t)1 << level * FOLD_SHIFT;

	return (heat->row_count + fold - 1) / fold;
}

static int make_heat(const struct parts *parts, const char *at, struct part *part)
{
	struct range rows, columns;
	uint64_t level;

	if (!read_number(&at, &level) || !read_letter(&at, '/') || !read_range(&at, &rows) ||
		!read_letter(&at, '/') || !read_range(&at, &columns) || !ends(at) ||
		rows.last - rows.first >= PARTS_TILE || columns.last - columns.first >= PARTS_TILE)
		return -EINVAL;
	if (level > PARTS_LEVEL_MAX || rows.last >= rows_of(&parts->trail->heat, level) ||
		columns.last >= parts->trail->column_count)
		return -ENOENT;
	return make_tile(parts, level, &rows, &columns, part);
}

int parts_make(const struct parts *parts, const char *name, struct part *part)
{
	static const struct {
		const char *begins;
		int (*make)(const struct parts *parts, const char *at, struct part *part);
	} kinds[] = {{"rows", make_rows}, {"columns/", make_columns}, {"heat/", make_heat},
		{"track/", make_track}, {"walk/", make_walk}};

	*part = (struct part){0};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t length = strlen(kinds[i].begins);

		if (strncmp(name, kinds[i].begins, length) == 0)
			return kinds[i].make(parts, name + length, part);
	}
	return -EINVAL;
}

static int write_part(struct json_writer *writer, const struct parts *parts, const char *name)
{
	struct part part;
	int error = parts_make(parts, name, &part);

	if (error == 0)
		error = packed_json(writer, name, part.bytes, part.length);
	free(part.bytes);
	return error;
}

/* The level as tiles. */
static int write_level(struct json_writer *writer, const struct parts *parts, size_t level)
{
	size_t rows = rows_of(&parts->trail->heat, level), columns = parts->trail->column_count;
	char name[NAME_LENGTH];
	int error = 0;

	for (size_t row = 0; row < rows; row += PARTS_TILE) {
		for (size_t column = 0; column < columns && error == 0; column += PARTS_TILE) {
			size_t last_row = row + PARTS_TILE < rows ? row + PARTS_TILE - 1 : rows - 1,
			       last = column + PARTS_TILE < columns ? column + PARTS_TILE - 1
								    : columns - 1;

			snprintf(name, sizeof(name), "heat/%zu/%zu-%zu/%zu-%zu", level, row,
				last_row, column, last);
			error = write_part(writer, parts, name);
		}
	}
	return error;
}

int parts_json(struct json_writer *writer, const struct parts *parts)
{
	const struct trail *trail = parts->trail;
	char name[NAME_LENGTH];
	int error = 0;

	json_object_begin(writer, NULL);
	if (trail->column_count) {
		snprintf(name, sizeof(name), "columns/0-%zu", trail->column_count - 1);
		error = write_part(writer, parts, "rows");
		if (error == 0)
			error = write_part(writer, parts, name);
	}
	for (size_t level = 0; level <= PARTS_LEVEL_MAX && error == 0; level++) {
		if (level == 0 || rows_of(&trail->heat, level - 1) > PARTS_TILE)
			error = write_level(writer, parts, level);
	}
	for (size_t i = 0; i < trail->tracks.count && error == 0; i++) {
		snprintf(name, sizeof(name), "track/%" PRIu32 "/0-%zu", trail->tracks.list[i].rank,
			trail->column_count - 1);
		if (parts->shown[i])
			error = write_part(writer, parts, name);
	}
	for (size_t i = 0; i < trail->walk_count && error == 0; i++) {
		snprintf(name, sizeof(name), "walk/%" PRIu64, trail->walks[i].number);
		error = write_part(writer, parts, name);
	}
	json_object_end(writer);
	return error;
}
