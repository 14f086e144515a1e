/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/rank_table_text.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/report/line.h"
#include "coordinator/report/look.h"

enum {
	ROWS_MAX = 256,
	HOST_WIDTH_MIN = 4,
	HOST_WIDTH_MAX = 24,
	ROW_LENGTH = 320,
};

struct rows {
	size_t count;
	const struct report_rank *rows[ROWS_MAX];
};

static double own_excess(const struct report_rank *rank)
{
	return look_ms_per_step(rank->totals.own_excess_ns, rank->totals.steps);
}

/* Insertion into a short sorted list: the model may hold 131,072 ranks, the list 16. */
static void select_worst(const struct report_model *model, size_t limit, struct rows *rows)
{
	rows->count = 0;
	for (uint32_t i = 0; i < model->rank_count; i++) {
		const struct report_rank *rank = &model->ranks[i];
		size_t place = rows->count;

		while (place > 0 && own_excess(rank) > own_excess(rows->rows[place - 1]))
			place--;
		if (place == limit)
			continue;
		if (rows->count < limit)
			rows->count++;
		memmove(&rows->rows[place + 1], &rows->rows[place],
			(rows->count - place - 1) * sizeof(rows->rows[0]));
		rows->rows[place] = rank;
	}
}

static void host_name(const struct report_rank *rank, char text[HOST_WIDTH_MAX + 1])
{
	struct line line;

	line_init(&line, text, HOST_WIDTH_MAX + 1);
	line_add_outside(&line, rank->host && *rank->host ? rank->host : "?");
}

static void add_cell(struct line *line, double ms, int width)
{
	char text[64];
	struct line cell;

	line_init(&cell, text, sizeof(text));
	line_add_decimal(&cell, ms, 2);
	line_add(line, " %*s", width, text);
}

static void write_row(
	const struct report_model *model, const struct report_rank *rank, int host_width, FILE *out)
{
	static const int widths[PHASE_NR] = {8, 9, 8, 9, 9};
	const struct rank_totals *totals = &rank->totals;
	char text[ROW_LENGTH], host[HOST_WIDTH_MAX + 1];
	struct line line;

	host_name(rank, host);
	line_init(&line, text, sizeof(text));
	line_add(&line, "%c %6" PRIu32 " %-*s %8" PRIu32 " %5" PRIu32 " %7" PRIu64,
		look_is_named(model, totals->rank) ? '*' : ' ', totals->rank, host_width, host,
		rank->pid, totals->role, totals->steps);
	if (totals->steps) {
		for (int phase = 0; phase < PHASE_NR; phase++)
			add_cell(&line, look_ms_per_step(totals->phase_ns[phase], totals->steps),
				widths[phase]);
		add_cell(&line, own_excess(rank), 11);
		add_cell(&line, look_ms_per_step(totals->inherited_ns, totals->steps), 10);
	} else {
		line_add(&line, "  not measured: no step of it was seen");
	}
	if (rank->exited && rank->exit_code)
		line_add(&line, "  exited with %" PRId32, rank->exit_code);
	fprintf(out, "%s\n", text);
}

void rank_table_text_write(const struct report_model *model, size_t shown, FILE *out)
{
	struct rows rows;
	size_t host_width = HOST_WIDTH_MIN;

	shown = look_at_most(shown, ROWS_MAX);
	if (model->rank_count > shown) {
		select_worst(model, shown, &rows);
	} else {
		rows.count = model->rank_count;
		for (size_t i = 0; i < rows.count; i++)
			rows.rows[i] = &model->ranks[i];
	}
	for (size_t i = 0; i < rows.count; i++) {
		char host[HOST_WIDTH_MAX + 1];

		host_name(rows.rows[i], host);
		if (strlen(host) > host_width)
			host_width = strlen(host);
	}
	fprintf(out,
		"    rank %-*s      pid  role   steps    input   compute     host      wait"
		"  transfer  own excess  inherited\n",
		(int)host_width, "host");
	for (size_t i = 0; i < rows.count; i++)
		write_row(model, rows.rows[i], (int)host_width, out);
	if (rows.count < model->rank_count)
		fprintf(out, "  … %zu more with less own excess (the JSON report has all)\n",
			model->rank_count - rows.count);
}
