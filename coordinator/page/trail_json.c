/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/page/trail_json.h"

#include <string.h>

#include "coordinator/report/look.h"

enum {
	DECIMALS_MS = 4,
	DECIMALS_US = 1,
};

double trail_mean_step_ns(const struct trail *trail)
{
	double sum_ns = 0, steps = 0;

	for (size_t i = 0; i < trail->column_count; i++) {
		sum_ns += trail->columns[i].length_ns;
		steps += trail->columns[i].steps;
	}
	return steps > 0 ? sum_ns / steps : 0;
}

void trail_rows_json(struct json_writer *writer, const struct trail *trail, const uint32_t *order,
	const struct report_model *model)
{
	const char *host = "";
	uint32_t next = 0;

	json_array_begin(writer, NULL);
	for (size_t row = 0; row < trail->heat.row_count; row++) {
		const struct heat_row *now = &trail->heat.rows[order[row]];
		bool seen = now->first_rank <= now->last_rank, follows = now->first_rank == next;
		const char *name = seen ? look_host(model, now->first_rank) : host;

		/* Its ranks; its host, where it is not that of the row before; its first rank, where it does not follow that row's. */
		json_array_begin(writer, NULL);
		json_unsigned(writer, NULL, seen ? now->last_rank - now->first_rank + 1 : 0);
		if (seen && (!follows || strcmp(name, host) != 0))
			json_string(writer, NULL, name);
		if (seen && !follows)
			json_unsigned(writer, NULL, now->first_rank);
		json_array_end(writer);
		host = name;
		next = seen ? now->last_rank + 1 : next;
	}
	json_array_end(writer);
}

void trail_columns_json(struct json_writer *writer, const struct trail *trail, size_t first,
	size_t last, int64_t unix_offset_ns)
{
	json_array_begin(writer, NULL); /* first step, steps, judged, begin, mean, longest */
	for (size_t i = first; i <= last; i++) {
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

void trail_walk_json(
	struct json_writer *writer, const struct walk_step *walk, int64_t unix_offset_ns)
{
	json_object_begin(writer, NULL);
	json_unsigned(writer, "step", walk->number);
	json_signed(writer, "start_unix_ms",
		look_unix_ns((struct job_ns){walk->start_ns}, unix_offset_ns) / 1000000);
	json_decimal(writer, "length_us", (double)walk->length_ns / 1e3, DECIMALS_US);
	json_unsigned(writer, "rank_count", walk->rank_count);
	json_array_begin(
		writer, "hops"); /* rank, instance, from and to in us, held; the last one first */
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

static void write_series(struct json_writer *writer)
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

	/* Of a track, in ms a step, after the steps that it was judged in. */
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
}

/* What is sampled: after the series, in this order, and once more of its control. */
static void write_sampled(struct json_writer *writer)
{
	json_array_begin(writer, "sampled"); /* name, unit */
	for (size_t i = 0; i < SAMPLED_NR; i++) {
		json_array_begin(writer, NULL);
		json_string(writer, NULL, sampled_kinds[i].name);
		json_string(writer, NULL, sampled_kinds[i].unit);
		json_array_end(writer);
	}
	json_array_end(writer);
}

/* Which steps are kept whole, and who was late in them. */
static void write_walk_index(struct json_writer *writer, const struct trail *trail)
{
	json_array_begin(writer, "walks");
	for (size_t i = 0; i < trail->walk_count; i++) {
		const struct walk_step *walk = &trail->walks[i];

		json_object_begin(writer, NULL);
		json_unsigned(writer, "step", walk->number);
		json_array_begin(writer, "late"); /* rank, us */
		for (size_t r = 0; r < walk->row_count; r++) {
			if (walk->rows[r].delay_ns <= 0)
				continue;
			json_array_begin(writer, NULL);
			json_unsigned(writer, NULL, walk->rows[r].rank);
			write_us(writer, walk->rows[r].delay_ns);
			json_array_end(writer);
		}
		json_array_end(writer);
		json_object_end(writer);
	}
	json_array_end(writer);
}

void trail_index_json(struct json_writer *writer, const struct trail *trail, const char *layout,
	const bool shown[TRACKS_MAX])
{
	const struct heat *heat = &trail->heat;

	json_object_begin(writer, NULL);
	json_string(writer, "layout", layout);
	json_unsigned(writer, "steps", trail->steps);
	json_unsigned(writer, "left_out", trail->left_out);
	json_unsigned(writer, "steps_in_column", trail->steps_in_column);
	json_decimal(writer, "mean_ms", trail_mean_step_ns(trail) / 1e6, DECIMALS_MS);
	json_string(writer, "row_is", heat->by_node ? heat->node_shift ? "nodes" : "node" : "rank");
	json_unsigned(writer, "row_count", heat->row_count);
	json_unsigned(writer, "column_count", trail->column_count);
	write_series(writer);
	write_sampled(writer);
	json_array_begin(writer, "tracks");
	for (size_t i = 0; i < trail->tracks.count; i++) {
		if (shown[i])
			json_unsigned(writer, NULL, trail->tracks.list[i].rank);
	}
	json_array_end(writer);
	json_array_begin(writer, "operations");
	for (int operation = 0; operation < OPERATION_NR; operation++)
		json_string(writer, NULL, operation_name((enum operation)operation));
	json_array_end(writer);
	write_walk_index(writer, trail);
	json_object_end(writer);
}
