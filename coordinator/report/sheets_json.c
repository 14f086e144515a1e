/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/json.h"
#include "coordinator/report/sheets_internal.h"

enum { DECIMALS = 4 };

static void write_gates(struct json_writer *writer, const struct gate_sheet *sheet)
{
	json_array_begin(writer, "gates");
	for (enum gate gate = 0; gate < GATE_NR; gate++) {
		const struct gate_reading *reading = &sheet->gates[gate];

		if (!reading->asked)
			continue;
		json_object_begin(writer, NULL);
		json_string(writer, "name", gate_rule(gate)->name);
		json_boolean(writer, "passed", reading->passed);
		json_string(writer, "unit", gate_unit_name(gate_rule(gate)->unit));
		json_decimal(writer, "value", reading->value, DECIMALS);
		json_decimal(writer, "limit", reading->limit, DECIMALS);
		json_object_end(writer);
	}
	json_array_end(writer);
}

static void write_cause(
	struct json_writer *writer, const struct finding *finding, enum cause cause, double steps)
{
	bool missing = finding->known == KNOWN_MISSING || finding->known == KNOWN_UNASKED;

	json_object_begin(writer, NULL);
	json_string(writer, "kind", cause_name(cause));
	json_boolean(writer, "measured", !missing);
	if (finding->known >= KNOWN_SHARE) {
		json_decimal(
			writer, "overlap_ms_per_step", finding->own_ns / 1e6 / steps, DECIMALS);
		json_decimal(
			writer, "control_ms_per_step", finding->control_ns / 1e6 / steps, DECIMALS);
		json_decimal(writer, "share_explained", finding->share, DECIMALS);
	}
	json_string(writer, "detail", finding->text);
	json_object_end(writer);
}

static void write_causes(struct json_writer *writer, const struct explanation *why)
{
	double steps = why->sums.steps ? (double)why->sums.steps : 1;

	json_string(writer, "class", verdict_class_name(why->verdict_class));
	json_string(writer, "cause", cause_name(why->cause));
	json_array_begin(writer, "causes");
	for (size_t i = 0; i < CAUSE_ROWS; i++) {
		const struct finding *finding = &why->findings[cause_order[i]];

		if (finding->known != KNOWN_NOTHING)
			write_cause(writer, finding, cause_order[i], steps);
	}
	json_array_end(writer);
	report_json_where(writer, &why->where);
}

static void write_sheet(struct json_writer *writer, const struct kept_sheet *kept)
{
	const struct gate_sheet *sheet = &kept->sheet;
	enum gate reach = gate_sheet_reach(sheet);

	json_object_begin(writer, NULL);
	if (sheet->rank != GATE_OF_TRANSFERS)
		json_unsigned(writer, "rank", sheet->rank);
	json_string(writer, "of", sheet->rank == GATE_OF_TRANSFERS ? "transfers" : "rank");
	json_unsigned(writer, "first_step", sheet->first_step);
	json_unsigned(writer, "last_step", sheet->last_step);
	if (sheet->since_known)
		json_unsigned(writer, "since_step", sheet->since_step);
	if (sheet->every_steps)
		json_unsigned(writer, "every_steps", sheet->every_steps);
	json_boolean(writer, "small", sheet->small);
	if (sheet->verdict)
		json_unsigned(writer, "verdict", sheet->verdict);
	json_boolean(writer, "told", sheet->verdict || reach == GATE_NR);
	json_string(writer, "held_by", reach == GATE_NR ? "" : gate_rule(reach)->name);
	json_string(writer, "why", reach == GATE_NR ? "" : gate_rule(reach)->why);
	json_array_begin(writer, "signal");
	for (unsigned i = 0; i < kept->signal_count; i++)
		json_decimal(writer, NULL, (double)kept->signal[i], DECIMALS);
	json_array_end(writer);
	json_unsigned(writer, "signal_at", kept->at);
	write_gates(writer, sheet);
	if (kept->explained)
		write_causes(writer, &kept->why);
	json_object_end(writer);
}

void report_sheets_json(struct json_writer *writer, const struct report_sheets *sheets)
{
	const struct kept_sheet *kept;

	json_object_begin(writer, "explain");
	json_array_begin(writer, "sheets");
	for (size_t next = 0; (kept = report_sheets_next(sheets, &next));)
		write_sheet(writer, kept);
	json_array_end(writer);
	json_unsigned(writer, "left_out", sheets->seen - sheets->kept_count);
	json_boolean(writer, "no_memory", sheets->no_memory);
	json_object_end(writer);
}
