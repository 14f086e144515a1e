/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/record_keeper.h"

/* Not oftener: what changes may be many, and is somebody's who means no good. */
static const int64_t verdicts_every_ns = INT64_C(1000000000);

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
static int save_verdicts(struct record_keeper *keeper, struct job_ns now, bool all)
{
	keeper->verdicts_changed = false;
	keeper->verdicts_saved = now;
	return history_save_verdicts(
		&keeper->history, record_keeper_report(keeper), keeper->record, now, all);
}

static int save_sums(struct record_keeper *keeper, struct job_ns now)
{
	return history_save_sums(
		&keeper->history, record_keeper_report(keeper), keeper->record, now);
}

static const struct record_span *get_spans(void *context, size_t *count)
{
	struct record_keeper *keeper = context;

	return history_spans(&keeper->history, record_keeper_report(keeper), count);
}

static int save_all(void *context, struct record_writer *record)
{
	struct record_keeper *keeper = context;
	int error = save_verdicts(keeper, keeper->now, true);

	(void)record;
	return error ? error : save_sums(keeper, keeper->now);
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
	bool due = record_writer_wants_sums(keeper->record);

	keeper->now = now;
	record_writer_get_state(keeper->record, &state);
	/* What cannot be saved now is saved with the next sums: these are of all until then. */
	if (state.thinned && /* else its batches say them all */
		(due || (keeper->verdicts_changed &&
				now.value - keeper->verdicts_saved.value >= verdicts_every_ns)))
		(void)!save_verdicts(keeper, now, false);
	if (due)
		(void)!save_sums(keeper, now);
	return record_writer_thin(keeper->record);
}

void record_keeper_finish(struct record_keeper *keeper, struct job_ns now)
{
	struct record_writer_state state;

	record_writer_get_state(keeper->record, &state);
	if (!state.thinned)
		return;
	if (save_verdicts(keeper, now, false) == 0)
		(void)!save_sums(keeper, now); /* else, without the last minute */
}
