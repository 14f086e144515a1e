/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/page/trail_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/page/packed.h"
#include "coordinator/report/look.h"

enum {
	DECIMALS_MS = 4,
	DECIMALS_US = 1,
	CELLS_PLAIN = 1 << 20, /* of so many and fewer, values are written as they are */
	RANKS_FEW = 16,	       /* of a job of so many, the course of all is shown */
	FEWER_BITS = 2,	       /* of more, to half an octave, and what is short is left out */
};

/* In a large job less than 1 % of its mean step is as good as nothing: of such a job that is most cells. */
static const double shown_share = 0.01;

static double mean_step_ns(const struct trail *trail)
{
	double sum_ns = 0, steps = 0;

	for (size_t i = 0; i < trail->column_count; i++) {
		sum_ns += trail->columns[i].length_ns;
		steps += trail->columns[i].steps;
	}
	return steps > 0 ? sum_ns / steps : 0;
}

/* 0 stays what was not seen, 1 what is short; others are rounded down to what fewer bits can say. */
static uint8_t coarse(uint8_t value, uint8_t least)
{
	if (value <= 1 || value < least)
		return value ? 1 : 0;
	return (uint8_t)(2 + ((value - 2) >> FEWER_BITS << FEWER_BITS));
}

static int compare_rows(const void *one, const void *other, void *rows)
{
	uint32_t a = ((const struct heat_row *)rows)[*(const uint32_t *)one].first_rank,
		 b = ((const struct heat_row *)rows)[*(const uint32_t *)other].first_rank;

	return (a > b) - (a < b);
}

/* Rows by their first ranks: nodes are numbered as they came. The caller frees it; NULL without memory. */
static uint32_t *row_order(const struct heat *heat)
{
	uint32_t *order = calloc(heat->row_count + 1, sizeof(*order));

	for (size_t row = 0; order && row < heat->row_count; row++)
		order[row] = (uint32_t)row;
	if (order)
		qsort_r(order, heat->row_count, sizeof(*order), compare_rows, heat->rows);
	return order;
}

static int write_plane(
	struct json_writer *writer, const char *key, const struct trail *trail, size_t offset)
{
	const struct heat *heat = &trail->heat;
	size_t count = heat->row_count * trail->column_count;
	bool plain = count <= CELLS_PLAIN;
	uint8_t *bytes = malloc(count ? count : 1), *next = bytes,
		least = heat_value((int64_t)(mean_step_ns(trail) * shown_share));
	uint32_t *order = row_order(heat);
	int error = -ENOMEM;

	if (!bytes || !order)
		goto out;
	for (size_t row = 0; row < heat->row_count; row++) {
		for (size_t column = 0; column < trail->column_count; column++) {
			const struct heat_cell *cell = heat_at(heat, order[row], column);
			uint8_t value = *((const uint8_t *)cell + offset);

			if (!plain && offset == offsetof(struct heat_cell, who))
				value = cell->own < least ? 0 : value;
			else if (!plain)
				value = coarse(value, least);
			*next++ = value;
		}
	}
	error = packed_json(writer, key, bytes, count);
out:
	free(order);
	free(bytes);
	return error;
}

int trail_rows_json(
	struct json_writer *writer, const struct trail *trail, const struct report_model *model)
{
	const struct heat *heat = &trail->heat;
	uint32_t *order = row_order(heat);
	const char *host = NULL;

	if (!order)
		return -ENOMEM;
	json_string(writer, "row_is", heat->by_node ? heat->node_shift ? "nodes" : "node" : "rank");
	json_array_begin(writer, "rows"); /* without a host: that of the row before */
	for (size_t row = 0; row < heat->row_count; row++) {
		const struct heat_row *now = &heat->rows[order[row]];
		const char *name =
			now->first_rank <= now->last_rank ? look_host(model, now->first_rank) : "";
		bool same = host && strcmp(name, host) == 0;

		json_array_begin(writer, NULL);
		json_signed(writer, NULL,
			now->first_rank <= now->last_rank ? (int64_t)now->first_rank : -1);
		json_unsigned(writer, NULL, now->last_rank);
		if (!same)
			json_string(writer, NULL, name);
		json_array_end(writer);
		host = name;
	}
	json_array_end(writer);
	free(order);
	return 0;
}

static void write_columns(
	struct json_writer *writer, const struct trail *trail, int64_t unix_offset_ns)
{
	json_array_begin(writer, "columns"); /* first step, steps, judged, begin, mean, longest */
	for (size_t i = 0; i < trail->column_count; i++) {
		const struct trail_column *column = &trail->columns[i];
		int64_t start_ns = look_unix_ns((struct job_ns){column->start_ns}, unix_offset_ns);

		json_array_begin(writer, NULL);
		json_unsigned(writer, NULL, column->first_step);
		json_unsigned(writer, NULL, column->steps);
		json_unsigned(writer, NULL, column->judged);
		json_signed(writer, NULL, start_ns / 1000000);
		json_decimal(writer, NULL,
			column->steps ? column->length_ns / column->steps / 1e6 : 0, DECIMALS_MS);
		json_decimal(writer, NULL, (double)column->longest_ns / 1e6, DECIMALS_MS);
		json_array_end(writer);
	}
	json_array_end(writer);
}

void trail_show(const struct trail *trail, const struct report_model *model, bool shown[TRACKS_MAX])
{
	for (size_t i = 0; i < trail->tracks.count; i++)
		shown[i] = model->rank_count <= RANKS_FEW ||
			   look_is_named(model, trail->tracks.list[i].rank);
}

static int write_track(
	struct json_writer *writer, const struct trail *trail, const struct track *track)
{
	size_t count = trail->column_count * (TRACK_NR + 1);
	float *values = malloc(count * sizeof(*values) + 1);
	int error;

	if (!values)
		return -ENOMEM;
	for (size_t column = 0; column < trail->column_count; column++) {
		float steps = (float)track->steps[column];

		values[column] = steps;
		for (size_t k = 0; k < TRACK_NR; k++)
			values[(k + 1) * trail->column_count + column] =
				steps > 0 ? track->sum_ns[column * TRACK_NR + k] / steps / 1e6F : 0;
	}
	json_object_begin(writer, NULL);
	json_unsigned(writer, "rank", track->rank);
	error = packed_json(writer, "values", values, count * sizeof(*values));
	json_object_end(writer);
	free(values);
	return error;
}

static int write_tracks(
	struct json_writer *writer, const struct trail *trail, const bool shown[TRACKS_MAX])
{
	static const char *const kinds[EXCESS_NR] = {[EXCESS_COMPUTE] = "work",
		[EXCESS_PREEMPTED] = "preempted",
		[EXCESS_THROTTLED] = "throttled",
		[EXCESS_BLOCK_IO] = "block i/o",
		[EXCESS_ASLEEP] = "asleep",
		[EXCESS_MAJOR_FAULT] = "major faults",
		[EXCESS_MINOR_FAULT] = "minor faults",
		[EXCESS_HOST_CPU] = "host CPU",
		[EXCESS_COLLECTOR] = "garbage collection"};
	int error = 0;

	/* Values are single floats, in ms a step, series by series: the steps it was judged in, then in this order. */
	json_array_begin(writer, "series");
	json_string(writer, NULL, "wait");
	json_string(writer, NULL, "transfer");
	json_string(writer, NULL, "late");
	json_string(writer, NULL, "inherited");
	for (size_t side = 0; side < 2; side++) {
		for (size_t kind = 0; kind < EXCESS_NR; kind++)
			json_string(writer, NULL, kinds[kind]);
	}
	json_array_end(writer);
	json_array_begin(writer, "tracks");
	for (size_t i = 0; i < trail->tracks.count && error == 0; i++) {
		if (shown[i])
			error = write_track(writer, trail, &trail->tracks.list[i]);
	}
	json_array_end(writer);
	return error;
}

static void write_us(struct json_writer *writer, int64_t ns)
{
	json_decimal(writer, NULL, (double)ns / 1e3, DECIMALS_US);
}

static void write_walk_rows(struct json_writer *writer, const struct walk_step *walk)
{
	json_array_begin(writer,
		"ranks"); /* cells: arrival and departure in us, instance, operation, lane, held in us */
	for (size_t i = 0; i < walk->row_count; i++) {
		const struct walk_row *row = &walk->rows[i];

		json_object_begin(writer, NULL);
		json_unsigned(writer, "rank", row->rank);
		json_boolean(writer, "cut", row->cut);
		json_decimal(writer, "late_us", (double)row->delay_ns / 1e3, DECIMALS_US);
		json_decimal(writer, "wait_us", (double)row->wait_ns / 1e3, DECIMALS_US);
		json_array_begin(writer, "cells");
		for (uint32_t c = row->first_cell; c < row->first_cell + row->cell_count; c++) {
			const struct walk_cell *cell = &walk->cells[c];

			json_array_begin(writer, NULL);
			write_us(writer, cell->arrival_ns);
			write_us(writer, cell->departure_ns);
			json_signed(writer, NULL,
				cell->instance == GRID_NONE ? -1 : (int64_t)cell->instance);
			json_unsigned(writer, NULL, cell->operation);
			json_unsigned(writer, NULL, cell->lane);
			write_us(writer, cell->held_ns);
			json_array_end(writer);
		}
		json_array_end(writer);
		json_object_end(writer);
	}
	json_array_end(writer);
}

static void write_walks(
	struct json_writer *writer, const struct trail *trail, int64_t unix_offset_ns)
{
	json_array_begin(writer, "walks");
	for (size_t i = 0; i < trail->walk_count; i++) {
		const struct walk_step *walk = &trail->walks[i];

		json_object_begin(writer, NULL);
		json_unsigned(writer, "step", walk->number);
		json_signed(writer, "start_unix_ms",
			look_unix_ns((struct job_ns){walk->start_ns}, unix_offset_ns) / 1000000);
		json_decimal(writer, "length_us", (double)walk->length_ns / 1e3, DECIMALS_US);
		json_unsigned(writer, "rank_count", walk->rank_count);
		json_array_begin(writer,
			"hops"); /* rank, instance, from and to in us, held; the last one first */
		for (size_t h = 0; h < walk->hop_count; h++) {
			json_array_begin(writer, NULL);
			json_unsigned(writer, NULL, walk->hops[h].rank);
			json_unsigned(writer, NULL, walk->hops[h].instance);
			write_us(writer, walk->hops[h].from_ns);
			write_us(writer, walk->hops[h].to_ns);
			json_boolean(writer, NULL, walk->hops[h].held);
			json_array_end(writer);
		}
		json_array_end(writer);
		write_walk_rows(writer, walk);
		json_object_end(writer);
	}
	json_array_end(writer);
}

int trail_json(struct json_writer *writer, const struct trail *trail, int64_t unix_offset_ns,
	const bool shown[TRACKS_MAX])
{
	int error;

	json_object_begin(writer, NULL);
	json_unsigned(writer, "steps", trail->steps);
	json_unsigned(writer, "left_out", trail->left_out);
	json_unsigned(writer, "steps_in_column", trail->steps_in_column);
	write_columns(writer, trail, unix_offset_ns);
	error = write_plane(writer, "own", trail, offsetof(struct heat_cell, own));
	if (error == 0)
		error = write_plane(writer, "held", trail, offsetof(struct heat_cell, held));
	if (error == 0 && trail->heat.by_node)
		error = write_plane(writer, "who", trail, offsetof(struct heat_cell, who));
	if (error == 0)
		error = write_tracks(writer, trail, shown);
	json_array_begin(writer, "operations");
	for (int operation = 0; operation < OPERATION_NR; operation++)
		json_string(writer, NULL, operation_name((enum operation)operation));
	json_array_end(writer);
	write_walks(writer, trail, unix_offset_ns);
	json_object_end(writer);
	return error;
}
