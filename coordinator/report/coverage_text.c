/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/coverage_text.h"

#include <inttypes.h>

/* Programs write what they found, and end, for so long after their last collective. */
enum { TEXT_LENGTH = 1024, UNSEEN_END_S = 10 };

double coverage_unseen_end_s(const struct report_model *model)
{
	double unseen_s = (double)(model->last_heard.value - model->totals.last_end.value) / 1e9;

	return model->totals.steps > 0 && unseen_s >= UNSEEN_END_S ? unseen_s : 0;
}

static void add_names(struct line *line, const struct report_model *model, enum source_state state)
{
	const char *separator = " ";

	for (size_t i = 0; i < model->source_count; i++) {
		if (model->sources[i].source.state != state)
			continue;
		line_add(line, "%s", separator);
		line_add_outside(line, model->sources[i].source.name);
		separator = ", ";
	}
}

static size_t count_in_state(const struct report_model *model, enum source_state state)
{
	size_t count = 0;

	for (size_t i = 0; i < model->source_count; i++)
		count += model->sources[i].source.state == state;
	return count;
}

void coverage_text_add_unseen(struct line *line, const struct report_model *model)
{
	static const struct {
		enum source_state state;
		const char *words;
	} kinds[] = {
		{SOURCE_MISSING, "; not measurable:"},
		{SOURCE_DEGRADED, "; seen in part:"},
		{SOURCE_OFF, "; off:"},
	};

	if (model->world_size > model->rank_count)
		line_add(line, "; %" PRIu32 " of %" PRIu32 " ranks were not seen",
			model->world_size - model->rank_count, model->world_size);
	if (2 * model->totals.steps_incomplete > model->totals.steps)
		line_add(line, "; calls of some rank are missing in %" PRIu64 " of the steps",
			model->totals.steps_incomplete);
	if (coverage_unseen_end_s(model) > 0)
		line_add(line, "; in the last %.0f s no step was seen",
			coverage_unseen_end_s(model));
	if (model->enqueue_only)
		line_add(line, "; some collectives were seen by enqueue time only and are not "
			       "judged");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!count_in_state(model, kinds[i].state))
			continue;
		line_add(line, "%s", kinds[i].words);
		add_names(line, model, kinds[i].state);
	}
	if (model->source_count == 0)
		line_add(line, "; no probe said what it can see");
}

static void write_sources(const struct report_model *model, FILE *out)
{
	static const enum source_state order[] = {SOURCE_MISSING, SOURCE_DEGRADED, SOURCE_OFF};
	char text[TEXT_LENGTH];
	struct line line;

	for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++) {
		for (size_t i = 0; i < model->source_count; i++) {
			const struct report_source *source = &model->sources[i];

			if (source->source.state != order[k])
				continue;
			line_init(&line, text, sizeof(text));
			line_add(&line, "  ");
			line_add_outside(&line, source->source.name);
			line_add(&line, ": %s", source_state_name(order[k]));
			if (source->on_count && source->on_count < source->probe_count)
				line_add(&line, " by %" PRIu32 " of %" PRIu32 " probes",
					source->probe_count - source->on_count,
					source->probe_count);
			line_add(&line, "%s", source->source.why[0] ? ": " : "");
			line_add_outside(&line, source->source.why);
			fprintf(out, "%s\n", text);
		}
	}
	line_init(&line, text, sizeof(text));
	add_names(&line, model, SOURCE_ON);
	fprintf(out, "  seen in full:%s\n", line.used ? text : " nothing");
}

static void write_losses(const struct report_model *model, FILE *out)
{
	const struct message_counters *counters = &model->counters;

	if (model->world_size > model->rank_count)
		fprintf(out,
			"  %" PRIu32 " of %" PRIu32
			" ranks were not seen%s%s%s: they are excluded from the analysis\n",
			model->world_size - model->rank_count, model->world_size,
			model->missing_ranks[0] ? " (" : "", model->missing_ranks,
			model->missing_ranks[0] ? ")" : "");
	if (model->late_count)
		fprintf(out,
			"  %" PRIu32 " of %" PRIu32 " ranks were first seen up to %.0f s later "
			"(%s): they are excluded from the analysis before that\n",
			model->late_count, model->rank_count, model->late_s, model->late_ranks);
	if (coverage_unseen_end_s(model) > 0)
		fprintf(out,
			"  no step was seen in the last %.0f s: nothing can be said of them; sends "
			"and receives "
			"alone make no steps\n",
			coverage_unseen_end_s(model));
	if (model->enqueue_only)
		fprintf(out, "  some collectives were seen by enqueue time only: their waits are "
			     "not judged\n");
	if (model->record_truncated)
		fprintf(out, "  the record ends in the middle of a frame: what came later is "
			     "missing\n");
	if (model->frames_refused)
		fprintf(out, "  %" PRIu64 " of %" PRIu64 " frames could not be decoded\n",
			model->frames_refused, model->frames + model->frames_refused);
	if (counters->batches_lost)
		fprintf(out,
			"  %" PRIu64 " batches were lost: the coordinator was away for too "
			"long\n",
			counters->batches_lost);
	if (counters->steps_incomplete)
		fprintf(out, "  %" PRIu64 " steps of single ranks lost events inside\n",
			counters->steps_incomplete);
	if (model->totals.steps_contradictory)
		fprintf(out,
			"  %" PRIu64
			" steps were not judged: by their device times, calls ended before "
			"all had begun.\n  Where these are many, NCCL's progress threads get too "
			"little "
			"CPU time: give each rank another core\n",
			model->totals.steps_contradictory);
}

void coverage_text_write(const struct report_model *model, FILE *out)
{
	const struct message_counters *counters = &model->counters;
	char text[TEXT_LENGTH];
	struct line line;

	write_losses(model, out);
	write_sources(model, out);
	line_init(&line, text, sizeof(text));
	line_add(&line,
		"  %" PRIu64 " events, %" PRIu64 " dropped; %" PRIu64 " of %" PRIu64
		" steps incomplete; clock error at most ",
		counters->events, counters->dropped, model->totals.steps_incomplete,
		model->totals.steps);
	line_add_decimal(&line, model->totals.clock_error_us, 1);
	line_add(&line, " us\n  cost of the worst probe: ");
	line_add_decimal(&line, model->probe_cpu_percent, 2);
	line_add(&line, " %% of a core, ");
	line_add_decimal(&line, (double)counters->resident_bytes / (1024.0 * 1024.0), 1);
	fprintf(out, "%s MiB\n", text);
}
