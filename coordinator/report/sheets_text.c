/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>

#include "coordinator/report/line.h"
#include "coordinator/report/look.h"
#include "coordinator/report/sheets_internal.h"

enum { TEXT_LENGTH = 1024 };

#define SHARE_SMALL 0.1 /* such shares have one decimal more */

static void add_value(struct line *line, double value, enum gate_unit unit)
{
	if (unit == GATE_SHARE)
		line_add_decimal(line, 100 * value, fabs(value) < SHARE_SMALL ? 2 : 1);
	else if (unit == GATE_MS)
		line_add_ms(line, value);
	else
		line_add_decimal(line, value, unit == GATE_COUNT ? 0 : 1);
	line_add(line, "%s", unit == GATE_SHARE ? " %" : unit == GATE_MS ? " ms" : "");
}

/* "level 2.1 % of 1.8 %" */
static void add_reading(struct line *line, const struct gate_sheet *sheet, enum gate gate)
{
	const struct gate_reading *reading = &sheet->gates[gate];
	const struct gate_rule *rule = gate_rule(gate);

	line_add(line, "%s", rule->name);
	if (rule->unit == GATE_IS)
		return;
	line_add(line, " ");
	add_value(line, reading->value, rule->unit);
	line_add(line, isinf(reading->limit) ? ", where nothing is enough" : " of ");
	if (!isinf(reading->limit))
		add_value(line, reading->limit, rule->unit);
}

/* "rank 3, steps 412-431, late since step 300: not named: it did not go on ... (blocks 2 of 3)" */
static void write_head(const struct gate_sheet *sheet, FILE *out)
{
	enum gate reach = gate_sheet_reach(sheet);
	char text[TEXT_LENGTH];
	struct line line;

	line_init(&line, text, sizeof(text));
	if (sheet->rank == GATE_OF_TRANSFERS)
		line_add(&line, "  transfers");
	else
		line_add(&line, "  rank %" PRIu32, sheet->rank);
	line_add(&line, ", step%s %" PRIu64, sheet->first_step < sheet->last_step ? "s" : "",
		sheet->first_step);
	if (sheet->first_step < sheet->last_step)
		line_add(&line, "-%" PRIu64, sheet->last_step);
	if (sheet->since_known)
		line_add(&line, ", %s since step %" PRIu64, sheet->small ? "a little late" : "late",
			sheet->since_step);
	if (sheet->since_known && sheet->every_steps)
		line_add(&line, " in every %" PRIu32 " steps", sheet->every_steps);
	if (sheet->verdict)
		line_add(&line, ": named by verdict #%" PRIu32, sheet->verdict);
	else if (reach == GATE_NR)
		line_add(&line, ": named");
	else
		line_add(&line, ": not named: %s (", gate_rule(reach)->why);
	if (!sheet->verdict && reach < GATE_NR) {
		add_reading(&line, sheet, reach);
		line_add(&line, ")");
	}
	fprintf(out, "%s\n", text);
}

static void write_signal(const struct kept_sheet *kept, FILE *out)
{
	char text[TEXT_LENGTH];
	struct line line;

	line_init(&line, text, sizeof(text));
	for (unsigned i = 0; i < kept->signal_count; i++) {
		line_add(&line, i == kept->at ? " [" : " ");
		line_add_decimal(&line, 100 * (double)kept->signal[i], 1);
		line_add(&line, i == kept->at ? "]" : "");
	}
	fprintf(out, "     late by: %s %% of the time, block by block\n", text);
}

static void write_passed(const struct gate_sheet *sheet, FILE *out)
{
	char text[TEXT_LENGTH];
	struct line line;
	bool any = false;

	line_init(&line, text, sizeof(text));
	for (enum gate gate = 0; gate < GATE_NR; gate++) {
		if (!sheet->gates[gate].asked || !sheet->gates[gate].passed)
			continue;
		line_add(&line, any ? "; " : "");
		add_reading(&line, sheet, gate);
		any = true;
	}
	fprintf(out, "     passed:   %s\n", any ? text : "none");
}

static void write_cause(const struct explanation *why, enum cause cause, FILE *out)
{
	const struct finding *finding = &why->findings[cause];
	double steps = why->sums.steps ? (double)why->sums.steps : 1;
	bool missing = finding->known == KNOWN_MISSING || finding->known == KNOWN_UNASKED;
	char text[TEXT_LENGTH];
	struct line line;

	line_init(&line, text, sizeof(text));
	line_add(&line, "%-18s ", cause_name(cause));
	if (missing)
		line_add(&line, "not measurable%s", finding->text[0] ? ": " : "");
	if (finding->known >= KNOWN_SHARE) {
		line_add_ms(&line, finding->own_ns / 1e6 / steps);
		line_add(&line, " ms/step, control ");
		line_add_ms(&line, finding->control_ns / 1e6 / steps);
		line_add(&line, ", explains ");
		line_add_decimal(&line, 100 * finding->share, 0);
		line_add(&line, " %%%s", finding->text[0] ? "; " : "");
	}
	line_add_outside(&line, finding->text);
	fprintf(out, "     measured: %s\n", text);
}

static void write_where(const struct verdict_where *where, FILE *out)
{
	char text[TEXT_LENGTH];
	struct line line;

	if (!where->text[0])
		return;
	line_init(&line, text, sizeof(text));
	line_add_outside(&line, where->text);
	line_add(&line, ", ");
	line_add_ms(&line, where->ms_per_step);
	line_add(&line, " ms/step, control ");
	line_add_ms(&line, where->control_ms_per_step);
	fprintf(out, "     where:    %s\n", text);
}

static void write_causes(const struct explanation *why, FILE *out)
{
	fprintf(out, "     made of:  %s, cause %s\n", verdict_class_name(why->verdict_class),
		cause_name(why->cause));
	for (size_t i = 0; i < CAUSE_ROWS; i++) {
		if (why->findings[cause_order[i]].known != KNOWN_NOTHING)
			write_cause(why, cause_order[i], out);
	}
	write_where(&why->where, out);
}

void report_sheets_text(const struct report_sheets *sheets, FILE *out)
{
	const struct kept_sheet *kept;

	for (size_t next = 0; (kept = report_sheets_next(sheets, &next));) {
		write_head(&kept->sheet, out);
		if (sheets->wish.all)
			continue;
		write_signal(kept, out);
		write_passed(&kept->sheet, out);
		if (kept->explained)
			write_causes(&kept->why, out);
	}
	if (sheets->kept_count == 0)
		fprintf(out, "  no block of it was judged%s\n",
			sheets->wish.at_step ? " from that step on" : "");
	if (sheets->seen > sheets->kept_count && sheets->kept_count)
		fprintf(out, "  … %zu more, which came less far\n",
			sheets->seen - sheets->kept_count);
	if (sheets->no_memory)
		fprintf(out, "  … and some for which there was no memory\n");
}
