/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/export/table.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/report/look.h"

/* Enums of columns, so that rows are filled by name; in the order of the shapes below. */
enum {
	RECORD_NUMBER,
	RECORD_PATH,
	RECORD_PROGRAM,
	RECORD_WHOLE,
	RECORD_THINNED,
	RECORD_JOB,
	RECORD_RANKS,
	RECORD_WORLD,
	RECORD_NODES,
	RECORD_STEPS,
	RECORD_STEPS_INCOMPLETE,
	RECORD_START,
	RECORD_END,
	RECORD_STEP_MEDIAN,
	RECORD_STEP_IDEAL,
	RECORD_SLOWDOWN,
	RECORD_WASTED,
	RECORD_CLOCK_ERROR,
	RECORD_DROPPED,
	RECORD_COLUMNS
};
enum {
	RANK_RECORD,
	RANK_RANK,
	RANK_NODE,
	RANK_PID,
	RANK_ROLE,
	RANK_STEPS,
	RANK_PHASES, /* five */
	RANK_OWN_DELAY = RANK_PHASES + PHASE_NR,
	RANK_INHERITED,
	RANK_COLUMNS
};
enum {
	STEP_RECORD,
	STEP_STRETCH,
	STEP_STEP,
	STEP_START,
	STEP_END,
	STEP_JUDGED,
	STEP_IS_IRREGULAR,
	STEP_COLUMNS
};
enum {
	CELL_RECORD,
	CELL_STRETCH,
	CELL_STEP,
	CELL_RANK,
	CELL_START,
	CELL_END,
	CELL_INPUT,
	CELL_COMPUTE,
	CELL_HOST,
	CELL_COMM,
	CELL_WAIT,
	CELL_TRANSFER,
	CELL_OWN_DELAY,
	CELL_INHERITED,
	CELL_COLUMNS
};
enum {
	INCIDENT_RECORD,
	INCIDENT_ID,
	INCIDENT_CLASS,
	INCIDENT_CAUSE,
	INCIDENT_ONSET,
	INCIDENT_ALERT,
	INCIDENT_END,
	INCIDENT_ENDED,
	INCIDENT_UNMEASURED,
	INCIDENT_FIRST_STEP,
	INCIDENT_LAST_STEP,
	INCIDENT_EVERY,
	INCIDENT_SLOWDOWN,
	INCIDENT_CONFIDENCE,
	INCIDENT_EXPLAINED,
	INCIDENT_CLOCK_ERROR,
	INCIDENT_MORE_RANKS,
	INCIDENT_VICTIMS,
	INCIDENT_COLUMNS
};
enum { NAMED_RECORD, NAMED_INCIDENT, NAMED_AS, NAMED_RANK, NAMED_NODE, NAMED_COLUMNS };
enum {
	EVIDENCE_RECORD,
	EVIDENCE_INCIDENT,
	EVIDENCE_NUMBER,
	EVIDENCE_KIND,
	EVIDENCE_REJECTED,
	EVIDENCE_OVERLAP,
	EVIDENCE_CONTROL,
	EVIDENCE_DETAIL,
	EVIDENCE_COLUMNS
};
enum {
	SOURCE_RECORD,
	SOURCE_NAME,
	SOURCE_STATE,
	SOURCE_WHY,
	SOURCE_PROBES,
	SOURCE_PROBES_ON,
	SOURCE_COLUMNS
};
enum { GAP_RECORD, GAP_NUMBER, GAP_FIRST, GAP_LAST, GAP_BATCHES, GAP_COLUMNS };

_Static_assert((int)RECORD_COLUMNS <= (int)EXPORT_COLUMNS_MAX, "room for all columns");

static const struct export_shape shapes[EXPORT_TABLE_NR] = {
	[EXPORT_RECORDS] = {"records", "record", RECORD_COLUMNS,
		{{"record", EXPORT_INTEGER}, {"path", EXPORT_TEXT}, {"program", EXPORT_TEXT},
			{"whole", EXPORT_INTEGER}, {"thinned", EXPORT_INTEGER},
			{"job", EXPORT_TEXT}, {"ranks", EXPORT_INTEGER},
			{"world_size", EXPORT_INTEGER}, {"nodes", EXPORT_INTEGER},
			{"steps", EXPORT_INTEGER}, {"steps_incomplete", EXPORT_INTEGER},
			{"start_unix_ns", EXPORT_INTEGER}, {"end_unix_ns", EXPORT_INTEGER},
			{"step_ms_median", EXPORT_REAL}, {"step_ms_ideal", EXPORT_REAL},
			{"slowdown", EXPORT_REAL}, {"wasted_rank_seconds", EXPORT_REAL},
			{"clock_error_us", EXPORT_REAL}, {"events_dropped", EXPORT_INTEGER}}},
	[EXPORT_RANKS] = {"ranks", "record, rank", RANK_COLUMNS,
		{{"record", EXPORT_INTEGER}, {"rank", EXPORT_INTEGER}, {"node", EXPORT_TEXT},
			{"pid", EXPORT_INTEGER}, {"role", EXPORT_INTEGER},
			{"steps", EXPORT_INTEGER}, {"input_ns", EXPORT_INTEGER},
			{"compute_ns", EXPORT_INTEGER}, {"host_ns", EXPORT_INTEGER},
			{"comm_wait_ns", EXPORT_INTEGER}, {"comm_transfer_ns", EXPORT_INTEGER},
			{"own_delay_ns", EXPORT_INTEGER}, {"inherited_ns", EXPORT_INTEGER}}},
	[EXPORT_STEPS] = {"steps", "record, stretch, step", STEP_COLUMNS,
		{{"record", EXPORT_INTEGER}, {"stretch", EXPORT_INTEGER}, {"step", EXPORT_INTEGER},
			{"start_unix_ns", EXPORT_INTEGER}, {"end_unix_ns", EXPORT_INTEGER},
			{"judged", EXPORT_INTEGER}, {"irregular", EXPORT_INTEGER}}},
	[EXPORT_RANK_STEPS] = {"rank_steps", NULL, CELL_COLUMNS,
		{{"record", EXPORT_INTEGER}, {"stretch", EXPORT_INTEGER}, {"step", EXPORT_INTEGER},
			{"rank", EXPORT_INTEGER}, {"start_unix_ns", EXPORT_INTEGER},
			{"end_unix_ns", EXPORT_INTEGER}, {"input_ns", EXPORT_INTEGER},
			{"compute_ns", EXPORT_INTEGER}, {"host_ns", EXPORT_INTEGER},
			{"comm_ns", EXPORT_INTEGER}, {"wait_ns", EXPORT_INTEGER},
			{"transfer_ns", EXPORT_INTEGER}, {"own_delay_ns", EXPORT_INTEGER},
			{"inherited_ns", EXPORT_INTEGER}}},
	[EXPORT_INCIDENTS] = {"incidents", "record, incident", INCIDENT_COLUMNS,
		{{"record", EXPORT_INTEGER}, {"incident", EXPORT_INTEGER}, {"class", EXPORT_TEXT},
			{"cause", EXPORT_TEXT}, {"onset_unix_ns", EXPORT_INTEGER},
			{"alert_unix_ns", EXPORT_INTEGER}, {"end_unix_ns", EXPORT_INTEGER},
			{"ended", EXPORT_INTEGER}, {"unmeasured_since_step", EXPORT_INTEGER},
			{"first_step", EXPORT_INTEGER}, {"last_step", EXPORT_INTEGER},
			{"every_steps", EXPORT_INTEGER}, {"slowdown", EXPORT_REAL},
			{"confidence", EXPORT_REAL}, {"share_explained", EXPORT_REAL},
			{"clock_error_us", EXPORT_REAL}, {"ranks_not_listed", EXPORT_INTEGER},
			{"victim_count", EXPORT_INTEGER}}},
	[EXPORT_INCIDENT_RANKS] = {"incident_ranks", NULL, NAMED_COLUMNS,
		{{"record", EXPORT_INTEGER}, {"incident", EXPORT_INTEGER},
			{"named_as", EXPORT_TEXT}, {"rank", EXPORT_INTEGER},
			{"node", EXPORT_TEXT}}},
	[EXPORT_EVIDENCE] = {"evidence", NULL, EVIDENCE_COLUMNS,
		{{"record", EXPORT_INTEGER}, {"incident", EXPORT_INTEGER},
			{"number", EXPORT_INTEGER}, {"kind", EXPORT_TEXT},
			{"rejected", EXPORT_INTEGER}, {"overlap_ms_per_step", EXPORT_REAL},
			{"control_ms_per_step", EXPORT_REAL}, {"detail", EXPORT_TEXT}}},
	[EXPORT_SOURCES] = {"sources", NULL, SOURCE_COLUMNS,
		{{"record", EXPORT_INTEGER}, {"name", EXPORT_TEXT}, {"state", EXPORT_TEXT},
			{"why", EXPORT_TEXT}, {"probes", EXPORT_INTEGER},
			{"probes_on", EXPORT_INTEGER}}},
	[EXPORT_GAPS] = {"gaps", "record, gap", GAP_COLUMNS,
		{{"record", EXPORT_INTEGER}, {"gap", EXPORT_INTEGER},
			{"first_unix_ns", EXPORT_INTEGER}, {"last_unix_ns", EXPORT_INTEGER},
			{"batches", EXPORT_INTEGER}}},
};

const struct export_shape *export_shape(enum export_table table)
{
	return &shapes[table];
}

static struct export_value integer(int64_t value)
{
	return (struct export_value){.known = true, .integer = value};
}

/* Counts that nobody counts so far are cut. */
static struct export_value count(uint64_t value)
{
	return integer(value < INT64_MAX ? (int64_t)value : INT64_MAX);
}

static struct export_value real(double value)
{
	return (struct export_value){.known = true, .real = value};
}

static struct export_value text(const char *value)
{
	return (struct export_value){.known = true, .text = value ? value : ""};
}

static struct export_value when(bool known, struct job_ns time, const struct report_model *model)
{
	return known ? integer(look_unix_ns(time, model->unix_offset_ns))
		     : (struct export_value){.known = false};
}

static struct export_value if_known(bool known, int64_t value)
{
	return known ? integer(value) : (struct export_value){.known = false};
}

static int put(
	const struct export_sink *sink, enum export_table table, const struct export_value *values)
{
	return sink->put(sink->context, table, values);
}

static int put_cell(const struct export_sink *sink, const struct export_record *record,
	const struct export_step *step, const struct export_rank_step *row)
{
	bool calls = row->known & EXPORT_KNOWS_CALLS;
	const struct export_value values[CELL_COLUMNS] = {[CELL_RECORD] = integer(record->number),
		[CELL_STRETCH] = integer(step->stretch),
		[CELL_STEP] = count(step->number),
		[CELL_RANK] = integer(row->rank),
		[CELL_START] = integer(row->start_ns),
		[CELL_END] = integer(row->end_ns),
		[CELL_INPUT] = integer(row->phases.input_ns),
		[CELL_COMPUTE] = integer(row->phases.compute_ns),
		[CELL_HOST] = integer(row->phases.host_ns),
		[CELL_COMM] = integer(row->phases.comm_ns),
		[CELL_WAIT] = if_known(calls, row->wait_ns),
		[CELL_TRANSFER] = if_known(calls, row->transfer_ns),
		[CELL_OWN_DELAY] = if_known(row->known & EXPORT_KNOWS_DELAY, row->own_delay_ns),
		[CELL_INHERITED] = if_known(calls, row->inherited_ns)};

	return put(sink, EXPORT_RANK_STEPS, values);
}

int export_put_step(const struct export_sink *sink, const struct export_record *record,
	const struct export_selection *selection, const struct export_step *step)
{
	const struct export_value values[STEP_COLUMNS] = {[STEP_RECORD] = integer(record->number),
		[STEP_STRETCH] = integer(step->stretch),
		[STEP_STEP] = count(step->number),
		[STEP_START] = integer(step->start_ns),
		[STEP_END] = integer(step->end_ns),
		[STEP_JUDGED] = integer(step->judged),
		[STEP_IS_IRREGULAR] = integer(step->irregular)};
	int error = put(sink, EXPORT_STEPS, values);

	for (size_t r = 0; r < step->row_count && !error; r++) {
		if (export_selects_rank(selection, step->rows[r].rank))
			error = put_cell(sink, record, step, &step->rows[r]);
	}
	return error;
}

/* What was saved in a record may be any number: no overflow is undefined. */
static struct export_value rest(int64_t whole_ns, int64_t in_steps_ns)
{
	return integer((int64_t)((uint64_t)whole_ns - (uint64_t)in_steps_ns));
}

/* The row without a step of one rank, if it has anything. */
static int put_rest_of(const struct export_sink *sink, const struct export_record *record,
	const struct rank_totals *totals, const struct export_rank_sum *sum)
{
	const int64_t *phase_ns = totals->phase_ns;
	int64_t comm_ns = (int64_t)((uint64_t)phase_ns[PHASE_COMM_WAIT] +
				    (uint64_t)phase_ns[PHASE_COMM_TRANSFER]);
	const struct export_value values[CELL_COLUMNS] = {[CELL_RECORD] = integer(record->number),
		[CELL_RANK] = integer(totals->rank),
		[CELL_INPUT] = rest(phase_ns[PHASE_INPUT], sum->phases.input_ns),
		[CELL_COMPUTE] = rest(phase_ns[PHASE_COMPUTE], sum->phases.compute_ns),
		[CELL_HOST] = rest(phase_ns[PHASE_HOST], sum->phases.host_ns),
		[CELL_COMM] = rest(comm_ns, sum->phases.comm_ns),
		[CELL_OWN_DELAY] = rest(totals->own_excess_ns, sum->own_delay_ns),
		[CELL_INHERITED] = rest(totals->inherited_ns, sum->inherited_ns)};

	for (int column = CELL_INPUT; column < CELL_COLUMNS; column++) {
		if (values[column].integer)
			return put(sink, EXPORT_RANK_STEPS, values);
	}
	return 0;
}

int export_put_rest(const struct export_sink *sink, const struct export_record *record,
	const struct export_steps *steps, const struct report_model *model)
{
	int error = 0;

	for (uint32_t i = 0; i < model->rank_count && !error; i++) {
		const struct rank_totals *totals = &model->ranks[i].totals;
		const struct export_rank_sum sum = export_steps_sum(steps, totals->rank);

		error = put_rest_of(sink, record, totals, &sum);
	}
	return error;
}

static int put_ranks(const struct export_sink *sink, const struct export_record *record,
	const struct report_model *model)
{
	int error = 0;

	for (uint32_t i = 0; i < model->rank_count && !error; i++) {
		const struct report_rank *rank = &model->ranks[i];
		const struct rank_totals *totals = &rank->totals;
		struct export_value values[RANK_COLUMNS] = {[RANK_RECORD] = integer(record->number),
			[RANK_RANK] = integer(totals->rank),
			[RANK_NODE] = text(rank->host),
			[RANK_PID] = integer(rank->pid),
			[RANK_ROLE] = integer(totals->role),
			[RANK_STEPS] = count(totals->steps),
			[RANK_OWN_DELAY] = integer(totals->own_excess_ns),
			[RANK_INHERITED] = integer(totals->inherited_ns)};

		for (int phase = 0; phase < PHASE_NR; phase++)
			values[RANK_PHASES + phase] = integer(totals->phase_ns[phase]);
		error = put(sink, EXPORT_RANKS, values);
	}
	return error;
}

static int put_named(const struct export_sink *sink, const struct export_record *record,
	const struct report_model *model, const struct verdict *verdict, const char *as,
	const uint32_t *ranks, size_t rank_count)
{
	int error = 0;

	for (size_t i = 0; i < rank_count && !error; i++) {
		const struct export_value values[NAMED_COLUMNS] = {
			[NAMED_RECORD] = integer(record->number),
			[NAMED_INCIDENT] = integer(verdict->id),
			[NAMED_AS] = text(as),
			[NAMED_RANK] = integer(ranks[i]),
			[NAMED_NODE] = text(look_host(model, ranks[i]))};

		error = put(sink, EXPORT_INCIDENT_RANKS, values);
	}
	return error;
}

static int put_evidence(const struct export_sink *sink, const struct export_record *record,
	const struct verdict *verdict)
{
	size_t shown = look_at_most(verdict->evidence_count, VERDICT_EVIDENCE_MAX);
	size_t rejected = look_at_most(verdict->rejected_count, VERDICT_EVIDENCE_MAX);
	struct export_value values[EVIDENCE_COLUMNS] = {[EVIDENCE_RECORD] = integer(record->number),
		[EVIDENCE_INCIDENT] = integer(verdict->id)};
	int error = 0;

	for (size_t i = 0; i < shown + rejected && !error; i++) {
		const struct verdict_evidence *evidence = &verdict->evidence[i];
		bool is_rejected = i >= shown;

		values[EVIDENCE_NUMBER] = integer((int64_t)i);
		values[EVIDENCE_REJECTED] = integer(is_rejected);
		if (is_rejected) {
			const struct verdict_rejection *other = &verdict->rejected[i - shown];

			values[EVIDENCE_KIND] = text(cause_name(other->kind));
			values[EVIDENCE_OVERLAP].known = values[EVIDENCE_CONTROL].known = false;
			values[EVIDENCE_DETAIL] = text(other->why);
		} else {
			values[EVIDENCE_KIND] = text(cause_name(evidence->kind));
			values[EVIDENCE_OVERLAP] = real(evidence->overlap_ms_per_step);
			values[EVIDENCE_CONTROL] = real(evidence->control_ms_per_step);
			values[EVIDENCE_DETAIL] = text(evidence->detail);
		}
		error = put(sink, EXPORT_EVIDENCE, values);
	}
	return error;
}

static int put_incident(const struct export_sink *sink, const struct export_record *record,
	const struct report_model *model, const struct verdict *verdict)
{
	const struct export_value values[INCIDENT_COLUMNS] = {
		[INCIDENT_RECORD] = integer(record->number),
		[INCIDENT_ID] = integer(verdict->id),
		[INCIDENT_CLASS] = text(verdict_class_name(verdict->verdict_class)),
		[INCIDENT_CAUSE] = text(cause_name(verdict->cause)),
		[INCIDENT_ONSET] = when(true, verdict->onset, model),
		[INCIDENT_ALERT] = when(true, verdict->alert, model),
		[INCIDENT_END] = when(true, verdict->end, model),
		[INCIDENT_ENDED] = integer(verdict->ended != 0),
		[INCIDENT_UNMEASURED] = verdict->sure.unmeasured_since
						? count(verdict->sure.unmeasured_since)
						: (struct export_value){0},
		[INCIDENT_FIRST_STEP] = count(verdict->first_step),
		[INCIDENT_LAST_STEP] = count(verdict->last_step),
		[INCIDENT_EVERY] = if_known(verdict->period.steps != 0, verdict->period.steps),
		[INCIDENT_SLOWDOWN] = real(verdict->slowdown),
		[INCIDENT_CONFIDENCE] = real(verdict->sure.confidence),
		[INCIDENT_EXPLAINED] = real(verdict->sure.share_explained),
		[INCIDENT_CLOCK_ERROR] = real(verdict->sure.clock_error_us),
		[INCIDENT_MORE_RANKS] = integer(verdict->more_ranks),
		[INCIDENT_VICTIMS] = integer(verdict->victim_count)};
	int error = put(sink, EXPORT_INCIDENTS, values);

	if (!error)
		error = put_named(sink, record, model, verdict, "culprit", verdict->ranks,
			look_at_most(verdict->rank_count, VERDICT_RANKS_MAX));
	if (!error)
		error = put_named(sink, record, model, verdict, "victim", verdict->victims,
			look_at_most(verdict->victim_count, VERDICT_VICTIMS_MAX));
	return error ? error : put_evidence(sink, record, verdict);
}

static int put_sources(const struct export_sink *sink, const struct export_record *record,
	const struct report_model *model)
{
	int error = 0;

	for (size_t i = 0; i < model->source_count && !error; i++) {
		const struct report_source *source = &model->sources[i];
		const struct export_value values[SOURCE_COLUMNS] = {
			[SOURCE_RECORD] = integer(record->number),
			[SOURCE_NAME] = text(source->source.name),
			[SOURCE_STATE] =
				text(source_state_name((enum source_state)source->source.state)),
			[SOURCE_WHY] = text(source->source.why),
			[SOURCE_PROBES] = integer(source->probe_count),
			[SOURCE_PROBES_ON] = integer(source->on_count)};

		error = put(sink, EXPORT_SOURCES, values);
	}
	return error;
}

static int put_gaps(const struct export_sink *sink, const struct export_record *record,
	const struct report_model *model)
{
	int error = 0;

	for (size_t i = 0; i < model->summed_count && !error; i++) {
		const struct report_stretch *gap = &model->summed[i];
		const struct export_value values[GAP_COLUMNS] = {
			[GAP_RECORD] = integer(record->number),
			[GAP_NUMBER] = integer((int64_t)i),
			[GAP_FIRST] = when(true, gap->first, model),
			[GAP_LAST] = when(true, gap->last, model),
			[GAP_BATCHES] = count(gap->batches)};

		error = put(sink, EXPORT_GAPS, values);
	}
	return error;
}

static int put_record(const struct export_sink *sink, const struct export_record *record,
	const struct report_model *model)
{
	const struct job_totals *totals = &model->totals;
	bool seen = totals->steps > 0;
	const struct export_value values[RECORD_COLUMNS] = {
		[RECORD_NUMBER] = integer(record->number),
		[RECORD_PATH] = text(record->path),
		[RECORD_PROGRAM] = text(record->program),
		[RECORD_WHOLE] = integer(record->whole),
		[RECORD_THINNED] = integer(model->summed_count > 0),
		[RECORD_JOB] = text(model->job_id),
		[RECORD_RANKS] = integer(model->rank_count),
		[RECORD_WORLD] = if_known(model->world_size != 0, model->world_size),
		[RECORD_NODES] = integer(model->node_count),
		[RECORD_STEPS] = count(totals->steps),
		[RECORD_STEPS_INCOMPLETE] = count(totals->steps_incomplete),
		[RECORD_START] = when(seen, totals->first_start, model),
		[RECORD_END] = when(seen, totals->last_end, model),
		[RECORD_STEP_MEDIAN] = real(totals->step_ms_median),
		[RECORD_STEP_IDEAL] = real(totals->step_ms_ideal),
		[RECORD_SLOWDOWN] = real(totals->slowdown),
		[RECORD_WASTED] = real(totals->wasted_rank_seconds),
		[RECORD_CLOCK_ERROR] = real(totals->clock_error_us),
		[RECORD_DROPPED] = count(model->counters.dropped)};

	return put(sink, EXPORT_RECORDS, values);
}

int export_put_report(const struct export_sink *sink, const struct export_record *record,
	const struct report_model *model)
{
	int error = put_record(sink, record, model);

	if (!error)
		error = put_ranks(sink, record, model);
	for (size_t i = 0; i < model->verdict_count && !error; i++)
		error = put_incident(sink, record, model, &model->verdicts[i]);
	if (!error)
		error = put_sources(sink, record, model);
	return error ? error : put_gaps(sink, record, model);
}
