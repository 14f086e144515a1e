/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "coordinator/report/costs.h"
#include "coordinator/report/coverage_text.h"
#include "coordinator/report/flush.h"
#include "coordinator/report/look.h"
#include "coordinator/report/looks_json.h"
#include "coordinator/report/pairs.h"
#include "coordinator/report/sheets.h"
#include "coordinator/report/stacks_json.h"

enum {
	DECIMALS_MS = 4, /* 0.1 us */
	DECIMALS_RATIO = 4,
	DECIMALS_US = 3,
	LINES_TO_DEPTH = 2, /* one line per verdict, rank and source */
};

static void write_evidence(struct json_writer *writer, const struct verdict *verdict)
{
	json_array_begin(writer, "evidence");
	for (uint32_t i = 0; i < verdict->evidence_count && i < VERDICT_EVIDENCE_MAX; i++) {
		const struct verdict_evidence *evidence = &verdict->evidence[i];

		json_object_begin(writer, NULL);
		json_string(writer, "kind", cause_name(evidence->kind));
		json_decimal(
			writer, "overlap_ms_per_step", evidence->overlap_ms_per_step, DECIMALS_MS);
		json_decimal(
			writer, "control_ms_per_step", evidence->control_ms_per_step, DECIMALS_MS);
		json_string(writer, "detail", evidence->detail);
		json_object_end(writer);
	}
	json_array_end(writer);
	json_array_begin(writer, "rejected");
	for (uint32_t i = 0; i < verdict->rejected_count && i < VERDICT_EVIDENCE_MAX; i++) {
		json_object_begin(writer, NULL);
		json_string(writer, "kind", cause_name(verdict->rejected[i].kind));
		json_string(writer, "why", verdict->rejected[i].why);
		json_object_end(writer);
	}
	json_array_end(writer);
}

static void write_ranks_of(
	struct json_writer *writer, const char *key, const uint32_t *ranks, size_t count)
{
	json_array_begin(writer, key);
	for (size_t i = 0; i < count; i++)
		json_unsigned(writer, NULL, ranks[i]);
	json_array_end(writer);
}

static void write_pairs_of(struct json_writer *writer, const struct verdict *verdict)
{
	json_array_begin(writer, "pairs");
	for (size_t i = 0; i < look_at_most(verdict->pairs.count, VERDICT_PAIRS_MAX); i++) {
		json_object_begin(writer, NULL);
		json_unsigned(writer, "from", verdict->pairs.list[i].from);
		json_unsigned(writer, "to", verdict->pairs.list[i].to);
		json_object_end(writer);
	}
	json_array_end(writer);
}

/* The call that the others wait in. */
static void write_hang_of(struct json_writer *writer, const struct verdict_hang *hang)
{
	char id[24];

	snprintf(id, sizeof(id), "%016" PRIx64, hang->communicator_id);
	json_object_begin(writer, "hang");
	json_string(writer, "operation", operation_name((enum operation)hang->operation));
	json_string(writer, "communicator", id);
	json_unsigned(writer, "sequence", hang->sequence);
	json_unsigned(writer, "entered", hang->entered);
	json_unsigned(writer, "members", hang->members);
	json_object_end(writer);
}

void report_json_where(struct json_writer *writer, const struct verdict_where *where)
{
	if (!where->text[0])
		return;
	json_object_begin(writer, "where");
	json_string(writer, "text", where->text);
	json_array_begin(writer, "frames");
	for (size_t i = 0; i < look_at_most(where->frame_count, VERDICT_FRAMES_MAX); i++)
		json_string(writer, NULL, where->frames[i]);
	json_array_end(writer);
	json_decimal(writer, "ms_per_step", where->ms_per_step, DECIMALS_MS);
	json_decimal(writer, "control_ms", where->control_ms_per_step, DECIMALS_MS);
	if (where->operation) {
		json_object_begin(writer, "segment");
		json_string(writer, "before", operation_name((enum operation)where->operation));
		json_unsigned(writer, "call", where->ordinal);
		json_object_end(writer);
	}
	json_object_end(writer);
}

/* Only what is limited is there; without limits, nothing. */
static void write_alert_limits(struct json_writer *writer, const struct report_model *model)
{
	const struct alert_limits *limits = look_alert_limits(model);

	if (!limits)
		return;
	json_object_begin(writer, "alert_limits");
	if (limits->slowdown > 0)
		json_decimal(writer, "slowdown", limits->slowdown, DECIMALS_RATIO);
	if (limits->after_ns > 0)
		json_decimal(writer, "after_s", (double)limits->after_ns / 1e9, DECIMALS_MS);
	if (limits->imbalance > 0)
		json_decimal(writer, "silent_imbalance", limits->imbalance, DECIMALS_RATIO);
	json_object_end(writer);
}

static void write_hold(
	struct json_writer *writer, const struct verdict *verdict, const struct report_model *model)
{
	static const char *const names[] = {
		[ALERT_HOLD_SLOWDOWN] = "slowdown",
		[ALERT_HOLD_DURATION] = "duration",
		[ALERT_HOLD_IMBALANCE] = "known-imbalance",
	};
	enum alert_hold hold = look_hold(model, verdict);

	if (hold != ALERT_HOLD_NONE)
		json_string(writer, "not_alerted", names[hold]);
}

void report_json_verdict(struct json_writer *writer, const char *key, const struct verdict *verdict,
	const struct report_model *model)
{
	int64_t unix_offset_ns = model->unix_offset_ns;

	json_object_begin(writer, key);
	json_unsigned(writer, "id", verdict->id);
	json_string(writer, "class", verdict_class_name(verdict->verdict_class));
	write_ranks_of(writer, "ranks", verdict->ranks,
		look_at_most(verdict->rank_count, VERDICT_RANKS_MAX));
	if (verdict->more_ranks)
		json_unsigned(writer, "ranks_not_listed", verdict->more_ranks);
	json_string(writer, "cause", cause_name(verdict->cause));
	json_decimal(writer, "slowdown", verdict->slowdown, DECIMALS_RATIO);
	json_decimal(writer, "confidence", verdict->sure.confidence, DECIMALS_RATIO);
	json_decimal(writer, "share_explained", verdict->sure.share_explained, DECIMALS_RATIO);
	json_unsigned(writer, "first_step", verdict->first_step);
	json_unsigned(writer, "last_step", verdict->last_step);
	json_signed(writer, "onset_unix_ns", look_unix_ns(verdict->onset, unix_offset_ns));
	json_signed(writer, "end_unix_ns", look_unix_ns(verdict->end, unix_offset_ns));
	json_signed(writer, "alert_unix_ns", look_unix_ns(verdict->alert, unix_offset_ns));
	json_decimal(writer, "clock_error_us", verdict->sure.clock_error_us, DECIMALS_US);
	json_boolean(writer, "ended", verdict->ended != 0);
	if (verdict->sure.unmeasured_since)
		json_unsigned(writer, "unmeasured_since_step", verdict->sure.unmeasured_since);
	write_evidence(writer, verdict);
	write_ranks_of(writer, "victims", verdict->victims,
		look_at_most(verdict->victim_count, VERDICT_VICTIMS_MAX));
	json_unsigned(writer, "victim_count", verdict->victim_count);
	if (verdict->period.steps) {
		json_unsigned(writer, "every_steps", verdict->period.steps);
		json_decimal(writer, "slowdown_in_these", verdict->period.slowdown, DECIMALS_RATIO);
	}
	if (verdict->pairs.count)
		write_pairs_of(writer, verdict);
	if (verdict->hang.operation)
		write_hang_of(writer, &verdict->hang);
	report_json_where(writer, &verdict->where);
	write_hold(writer, verdict, model);
	report_json_stacks(writer, model, verdict);
	json_object_end(writer);
}

static void write_job(struct json_writer *writer, const struct report_model *model)
{
	const struct job_totals *totals = &model->totals;
	bool seen = totals->steps > 0;

	json_object_begin(writer, "job");
	json_string(writer, "id", model->job_id);
	json_unsigned(writer, "ranks", model->rank_count);
	json_unsigned(writer, "nodes", model->node_count);
	json_unsigned(writer, "steps", totals->steps);
	json_signed(writer, "start_unix_ns",
		seen ? look_unix_ns(totals->first_start, model->unix_offset_ns) : 0);
	json_signed(writer, "end_unix_ns",
		seen ? look_unix_ns(totals->last_end, model->unix_offset_ns) : 0);
	json_unsigned(writer, "world_size", model->world_size);
	json_object_end(writer);

	json_object_begin(writer, "summary");
	json_decimal(writer, "step_ms_median", totals->step_ms_median, DECIMALS_MS);
	json_decimal(writer, "step_ms_ideal", totals->step_ms_ideal, DECIMALS_MS);
	json_decimal(writer, "slowdown", totals->slowdown, DECIMALS_RATIO);
	json_decimal(writer, "wasted_rank_seconds", totals->wasted_rank_seconds, DECIMALS_MS);
	json_object_end(writer);
}

static double milliseconds(struct job_ns from, struct job_ns until)
{
	return until.value > from.value ? (double)(until.value - from.value) / 1e6 : 0;
}

/* What the rank's device had not ended; ids are the same number on all members. */
static void write_device_stall(struct json_writer *writer, const struct report_stall *stall)
{
	char id[24];

	snprintf(id, sizeof(id), "%016" PRIx64, stall->told.communicator_id);
	json_object_begin(writer, "device");
	json_string(writer, "operation", operation_name((enum operation)stall->told.operation));
	json_string(writer, "communicator", id);
	json_unsigned(writer, "sequence", stall->told.sequence);
	json_unsigned(writer, "calls", stall->told.calls);
	json_boolean(writer, "started", stall->told.started != 0);
	json_decimal(writer, "launched_ms_before", milliseconds(stall->launched, stall->seen),
		DECIMALS_MS);
	json_object_end(writer);
}

/* What cannot be measured is not there. */
static void write_stall(
	struct json_writer *writer, const struct report_stall *stall, int64_t unix_offset_ns)
{
	static const char *const kinds[OPEN_CALL_KIND_NR] = {
		"collective", "point-to-point", "device-wait", "none", "unseen"};
	char state[2] = {(char)stall->state, '\0'};

	json_object_begin(writer, "stall");
	json_signed(writer, "seen_unix_ns", look_unix_ns(stall->seen, unix_offset_ns));
	json_decimal(writer, "still_ms", milliseconds(stall->since, stall->seen), DECIMALS_MS);
	json_string(
		writer, "call", stall->kind < OPEN_CALL_KIND_NR ? kinds[stall->kind] : "unknown");
	if (stall->where[0] && stall->kind < OPEN_CALL_NONE)
		json_string(writer, "function", stall->where);
	if (stall->state >= 'A' && stall->state <= 'z')
		json_string(writer, "state", state);
	if (stall->told.wait_channel[0])
		json_string(writer, "wait_channel", stall->told.wait_channel);
	json_unsigned(writer, "threads", stall->told.threads);
	if (stall->told.over_ms) {
		json_unsigned(writer, "cpu_ms", stall->told.cpu_ms);
		json_unsigned(writer, "over_ms", stall->told.over_ms);
		json_unsigned(writer, "io_bytes", stall->told.io_bytes);
	}
	if (stall->told.operation)
		write_device_stall(writer, stall);
	json_object_end(writer);
}

static void write_rank(
	struct json_writer *writer, const struct report_rank *rank, int64_t unix_offset_ns)
{
	const struct rank_totals *totals = &rank->totals;

	json_object_begin(writer, NULL);
	json_unsigned(writer, "rank", totals->rank);
	json_string(writer, "host", rank->host);
	json_unsigned(writer, "pid", rank->pid);
	json_unsigned(writer, "role", totals->role);
	json_unsigned(writer, "steps", totals->steps);
	json_object_begin(writer, "step_ms");
	for (int phase = 0; phase < PHASE_NR; phase++)
		json_decimal(writer, phase_name((enum phase)phase),
			look_ms_per_step(totals->phase_ns[phase], totals->steps), DECIMALS_MS);
	json_object_end(writer);
	json_decimal(writer, "own_excess_ms_per_step",
		look_ms_per_step(totals->own_excess_ns, totals->steps), DECIMALS_MS);
	json_decimal(writer, "inherited_ms_per_step",
		look_ms_per_step(totals->inherited_ns, totals->steps), DECIMALS_MS);
	json_boolean(writer, "exited", rank->exited != 0);
	json_signed(writer, "exit_code", rank->exit_code);
	if (rank->look)
		report_json_look(writer, rank->look);
	if (rank->stall)
		write_stall(writer, rank->stall, unix_offset_ns);
	json_object_end(writer);
}

/* Only where there are some. */
static void write_summed(struct json_writer *writer, const struct report_model *model)
{
	if (!model->summed_count)
		return;
	json_array_begin(writer, "sums_alone");
	for (size_t i = 0; i < model->summed_count; i++) {
		const struct report_stretch *stretch = &model->summed[i];

		json_object_begin(writer, NULL);
		json_signed(writer, "start_unix_ns",
			look_unix_ns(stretch->first, model->unix_offset_ns));
		json_signed(
			writer, "end_unix_ns", look_unix_ns(stretch->last, model->unix_offset_ns));
		json_unsigned(writer, "frames", stretch->batches);
		json_object_end(writer);
	}
	json_array_end(writer);
}

static void write_coverage(struct json_writer *writer, const struct report_model *model)
{
	const struct message_counters *counters = &model->counters;

	json_object_begin(writer, "coverage");
	json_array_begin(writer, "sources");
	for (size_t i = 0; i < model->source_count; i++) {
		const struct report_source *source = &model->sources[i];

		json_object_begin(writer, NULL);
		json_string(writer, "name", source->source.name);
		json_string(writer, "state",
			source_state_name((enum source_state)source->source.state));
		json_string(writer, "why", source->source.why);
		json_unsigned(writer, "probes", source->probe_count);
		json_unsigned(writer, "probes_on", source->on_count);
		json_object_end(writer);
	}
	json_array_end(writer);
	json_unsigned(writer, "events", counters->events);
	json_unsigned(writer, "dropped", counters->dropped);
	json_unsigned(writer, "steps_incomplete", model->totals.steps_incomplete);
	json_decimal(writer, "clock_error_us", model->totals.clock_error_us, DECIMALS_US);
	json_decimal(writer, "probe_cpu_percent", model->probe_cpu_percent, DECIMALS_RATIO);
	json_unsigned(writer, "rank_steps_incomplete", counters->steps_incomplete);
	json_unsigned(writer, "steps_contradictory", model->totals.steps_contradictory);
	json_unsigned(writer, "probe_resident_bytes", counters->resident_bytes);
	json_unsigned(writer, "batches_spooled", counters->batches_spooled);
	json_unsigned(writer, "batches_lost", counters->batches_lost);
	json_unsigned(writer, "frames", model->frames);
	json_unsigned(writer, "frames_refused", model->frames_refused);
	json_boolean(writer, "record_truncated", model->record_truncated != 0);
	json_boolean(writer, "enqueue_only", model->enqueue_only != 0);
	if (coverage_unseen_end_s(model) > 0)
		json_decimal(writer, "unseen_end_s", coverage_unseen_end_s(model), DECIMALS_RATIO);
	write_summed(writer, model);
	if (model->missing_ranks[0])
		json_string(writer, "ranks_missing", model->missing_ranks);
	if (model->late_count)
		json_string(writer, "ranks_late", model->late_ranks);
	json_object_end(writer);
}

const char *verdict_event_name(enum verdict_event event)
{
	switch (event) {
	case VERDICT_EVENT_ALERT:
		return "alert";
	case VERDICT_EVENT_UPDATE:
		return "update";
	case VERDICT_EVENT_RECOVERED:
		return "recovered";
	case VERDICT_EVENT_ENDED:
		return "ended";
	}
	return "unknown";
}

void report_json_alert(enum verdict_event event, const struct verdict *verdict,
	const struct report_model *model, FILE *out)
{
	struct json_writer writer;

	json_writer_init(&writer, out, 0);
	json_object_begin(&writer, NULL);
	json_string(&writer, "event", verdict_event_name(event));
	report_json_verdict(&writer, "verdict", verdict, model);
	json_object_end(&writer);
}

void report_json_object(
	struct json_writer *writer, const char *key, const struct report_model *model)
{
	json_object_begin(writer, key);
	json_string(writer, "schema", REPORT_JSON_SCHEMA);
	write_job(writer, model);
	write_alert_limits(writer, model);
	json_array_begin(writer, "verdicts");
	for (size_t i = 0; i < model->verdict_count; i++)
		report_json_verdict(writer, NULL, &model->verdicts[i], model);
	json_array_end(writer);
	report_costs_json(writer, model);
	json_array_begin(writer, "ranks");
	for (uint32_t i = 0; i < model->rank_count; i++)
		write_rank(writer, &model->ranks[i], model->unix_offset_ns);
	json_array_end(writer);
	write_coverage(writer, model);
	report_json_pairs(writer, model);
	if (model->sheets)
		report_sheets_json(writer, model->sheets);
	json_object_end(writer);
}

int report_json_write(const struct report_model *model, FILE *out)
{
	struct json_writer writer;

	errno = 0; /* for report_flush() */
	json_writer_init(&writer, out, LINES_TO_DEPTH);
	report_json_object(&writer, NULL, model);
	fputc('\n', out);
	return report_flush(out);
}
