/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/costs.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/report/line.h"
#include "coordinator/report/look.h"

enum { COSTS_SHOWN = 10, DECIMALS = 4, NAME_LENGTH = 160, NAME_WIDTH = 32, TEXT_LENGTH = 320 };

/* Below this the table does not show a part. */
static const double shown_slowdown_min = 1.01;

static void add_host(struct line *line, const struct report_model *model, uint32_t rank)
{
	const char *host = look_host(model, rank);

	line_add_outside(line, *host ? host : "?");
}

static void add_name(
	struct line *line, const struct report_model *model, const struct job_cost *cost)
{
	switch (cost->of) {
	case COST_NODE:
		add_host(line, model, cost->number);
		break;
	case COST_LINK:
		add_host(line, model, cost->number);
		if (cost->node_count == 2)
			line_add(line, " - ");
		else if (cost->node_count > 2)
			line_add(line, " ... ");
		if (cost->node_count >= 2)
			add_host(line, model, cost->other);
		break;
	case COST_PHASE:
		line_add(line, "%s", phase_name((enum phase)cost->number));
		break;
	default:
		line_add(line, "%" PRIu32, cost->number);
		break;
	}
}

void report_costs_json(struct json_writer *writer, const struct report_model *model)
{
	char name[NAME_LENGTH];

	json_array_begin(writer, "without");
	for (size_t i = 0; i < model->cost_count; i++) {
		const struct job_cost *cost = &model->costs[i];
		struct line line;

		line_init(&line, name, sizeof(name));
		add_name(&line, model, cost);
		json_object_begin(writer, NULL);
		json_string(writer, "what", cost_of_name((enum cost_of)cost->of));
		json_string(writer, "name", name);
		json_decimal(writer, "step_ms_without", cost->step_ms, DECIMALS);
		json_decimal(writer, "slowdown", cost->slowdown, DECIMALS);
		json_decimal(writer, "share", cost->share, DECIMALS);
		json_decimal(writer, "wasted_rank_seconds", cost->wasted_rank_seconds, DECIMALS);
		json_object_end(writer);
	}
	json_array_end(writer);
}

/* The dearest ones, whatever they are; the list of the model is by kind. */
static size_t select_costs(
	const struct report_model *model, const struct job_cost *selected[COSTS_SHOWN])
{
	size_t count = 0;

	for (size_t i = 0; i < model->cost_count; i++) {
		const struct job_cost *cost = &model->costs[i];
		size_t place = count;

		if (cost->slowdown < shown_slowdown_min)
			continue;
		while (place > 0 && cost->slowdown > selected[place - 1]->slowdown)
			place--;
		if (place == COSTS_SHOWN)
			continue;
		if (count < COSTS_SHOWN)
			count++;
		memmove(&selected[place + 1], &selected[place],
			(count - place - 1) * sizeof(selected[0]));
		selected[place] = cost;
	}
	return count;
}

bool report_costs_text_wanted(const struct report_model *model)
{
	const struct job_cost *selected[COSTS_SHOWN];

	return select_costs(model, selected) > 0;
}

static void add_cell(struct line *line, double value, unsigned decimals, int width)
{
	char text[64];
	struct line cell;

	line_init(&cell, text, sizeof(text));
	line_add_decimal(&cell, value, decimals);
	line_add(line, " %*s", width, text);
}

void report_costs_text(const struct report_model *model, FILE *out)
{
	const struct job_cost *selected[COSTS_SHOWN];
	size_t count = select_costs(model, selected);

	fprintf(out, "  %-*s %12s %9s %8s %13s\n", NAME_WIDTH, "without", "step, ms", "slow-down",
		"share, %", "rank-seconds");
	for (size_t i = 0; i < count; i++) {
		const struct job_cost *cost = selected[i];
		char text[TEXT_LENGTH], name[NAME_LENGTH];
		struct line line;

		line_init(&line, name, sizeof(name));
		line_add(&line, "%s ", cost_of_name((enum cost_of)cost->of));
		add_name(&line, model, cost);
		if (cost->node_count > 2)
			line_add(&line, " (%" PRIu32 " nodes)", cost->node_count);
		line_init(&line, text, sizeof(text));
		line_add(&line, "  %-*s", NAME_WIDTH, name);
		add_cell(&line, cost->step_ms, 2, 12);
		add_cell(&line, cost->slowdown, 3, 9);
		add_cell(&line, cost->share * 100, 0, 8);
		add_cell(&line, cost->wasted_rank_seconds, 1, 13);
		fprintf(out, "%s\n", text);
	}
}
