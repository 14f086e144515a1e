/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/record_keeper.h"

void record_keeper_fini(struct record_keeper *keeper)
{
	history_fini(&keeper->history);
}

const struct report_model *record_keeper_pipeline_report(void *context)
{
	const struct record_keeper *keeper = context;

	return pipeline_report(keeper->pipeline);
}

const struct report_model *record_keeper_report(struct record_keeper *keeper)
{
	keeper->model = *pipeline_report(keeper->pipeline);
	(void)!history_report(&keeper->history, &keeper->model); /* else, of what is new */
	return &keeper->model;
}

const struct verdict *record_keeper_tell(struct record_keeper *keeper, const struct verdict *own)
{
	keeper->verdicts_changed = true;
	return history_tell(&keeper->history, own);
}

/* all: for a file that has none of them yet. */
static int save(struct record_keeper *keeper, struct job_ns now, bool all)
{
	const struct report_model *model = record_keeper_report(keeper);
	struct record_writer_state state;
	int error = 0;

	record_writer_get_state(keeper->record, &state);
	if (all || state.thinned) /* else its batches say them all */
		error = history_save_verdicts(&keeper->history, model, keeper->record, now, all);
	if (!error)
		error = history_save_sums(&keeper->history, model, keeper->record, now);
	return error;
}

static const struct record_span *get_spans(void *context, size_t *count)
{
	struct record_keeper *keeper = context;

	return history_spans(&keeper->history, record_keeper_report(keeper), count);
}

static int save_all(void *context, struct record_writer *record)
{
	(void)record;
	return save(context, (struct job_ns){0}, true);
}

void record_keeper_options(struct record_keeper *keeper, struct record_writer_options *options)
{
	options->get_spans = get_spans;
	options->save = save_all;
	options->context = keeper;
}

int record_keeper_keep(struct record_keeper *keeper, struct job_ns now)
{
	struct record_writer_state state;

	record_writer_get_state(keeper->record, &state);
	/* What cannot be saved now is saved with the next sums: these are of all until then. */
	if (record_writer_wants_sums(keeper->record) || (keeper->verdicts_changed && state.thinned))
		(void)!save(keeper, now, false);
	keeper->verdicts_changed = false;
	return record_writer_thin(keeper->record);
}

void record_keeper_finish(struct record_keeper *keeper, struct job_ns now)
{
	struct record_writer_state state;

	record_writer_get_state(keeper->record, &state);
	if (state.thinned)
		(void)!save(keeper, now, false); /* else, without the last minute */
}
