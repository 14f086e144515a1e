/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/export/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/attribute/blame.h"
#include "coordinator/report/flush.h"
#include "coordinator/report/json_writer.h"
#include "coordinator/report/look.h"

enum {
	TRACK_STEPS = 0,
	TRACK_PHASES = 1,
	TRACK_CALLS = 2, /* collectives that overlap are on several */
	TRACK_NR = 8,
	ARROWS_MAX = 64, /* from one rank in one step */
	INCIDENT_TRACKS_MAX = 64,
	NO_TRACK = UINT8_MAX,
	DECIMALS_MS = 3,
	LINES_TO_DEPTH = 2, /* an event a line */
	NAME_LENGTH = 160,
};

/* Where one rank's tracks are, and end so far. */
struct rank_tracks {
	uint32_t process;
	uint32_t named; /* bits: of tracks that have something */
	int64_t ends[TRACK_NR];
};

struct trace {
	FILE *out;
	struct json_writer writer;
	const struct export_selection *selection;
	struct verdict *verdicts; /* of the record at hand */
	size_t verdict_count;
	int64_t unix_offset_ns;
	int64_t origin_ns;	  /* its begin, of the epoch */
	uint64_t process, thread; /* numbers of them so far: each record has its own */
	uint32_t host_end;	  /* of its hosts */
	struct rank_tracks *ranks;
	size_t rank_capacity;
	uint32_t rank_end;
	uint8_t *call_tracks; /* by cell of the grid: where its slice is, or NO_TRACK */
	uint32_t *sorted;
	size_t call_capacity, sorted_capacity;
	uint64_t arrows, left_out;
};

int trace_create(FILE *out, const struct export_selection *selection, struct trace **result)
{
	struct trace *trace = calloc(1, sizeof(*trace));

	if (!trace)
		return -ENOMEM;
	trace->out = out;
	trace->selection = selection;
	trace->process = trace->thread = 1; /* 0 has a meaning of its own */
	errno = 0;			    /* for report_flush() */
	json_writer_init(&trace->writer, out, LINES_TO_DEPTH);
	json_object_begin(&trace->writer, NULL);
	json_object_begin(&trace->writer, "otherData");
	json_string(&trace->writer, "schema", TRACE_SCHEMA);
	json_object_end(&trace->writer);
	json_string(&trace->writer, "displayTimeUnit", "ms");
	json_array_begin(&trace->writer, "traceEvents");
	*result = trace;
	return 0;
}

void trace_destroy(struct trace *trace)
{
	if (!trace)
		return;
	free(trace->ranks);
	free(trace->call_tracks);
	free(trace->sorted);
	free(trace->verdicts);
	free(trace);
}

static int check(const struct trace *trace)
{
	if (!ferror(trace->out))
		return 0;
	return errno ? -errno : -EIO;
}

/* The head of an event; json_object_end() ends it. */
static void begin_event(
	struct trace *trace, const char *kind, const char *name, uint64_t process, uint64_t thread)
{
	json_object_begin(&trace->writer, NULL);
	json_string(&trace->writer, "ph", kind);
	json_string(&trace->writer, "name", name);
	json_unsigned(&trace->writer, "pid", process);
	json_unsigned(&trace->writer, "tid", thread);
}

/* What was saved in a record may be any time: what is longer than can be said is cut. */
static int64_t between(int64_t from_ns, int64_t until_ns)
{
	int64_t ns;

	if (__builtin_sub_overflow(until_ns, from_ns, &ns))
		return until_ns > from_ns ? INT64_MAX : INT64_MIN;
	return ns;
}

/* A name, or its like, of a process or thread. */
static void put_metadata(struct trace *trace, const char *what, const char *key, const char *value,
	uint64_t process, uint64_t thread)
{
	begin_event(trace, "M", what, process, thread);
	json_object_begin(&trace->writer, "args");
	json_string(&trace->writer, key, value);
	json_object_end(&trace->writer);
	json_object_end(&trace->writer);
}

static void name_thread(struct trace *trace, const char *name, uint64_t process, uint64_t thread)
{
	put_metadata(trace, "thread_name", "name", name, process, thread);
	begin_event(trace, "M", "thread_sort_index", process, thread);
	json_object_begin(&trace->writer, "args");
	json_unsigned(&trace->writer, "sort_index", thread);
	json_object_end(&trace->writer);
	json_object_end(&trace->writer);
}

static uint64_t thread_of(const struct trace *trace, uint32_t rank, unsigned track)
{
	return trace->thread + INCIDENT_TRACKS_MAX + (uint64_t)rank * TRACK_NR + track;
}

/* A slice begins, of which the arguments follow: end_slice(). The times are of the epoch. */
static void begin_slice(struct trace *trace, const char *name, const char *category,
	uint64_t process, uint64_t thread, int64_t start_ns, int64_t end_ns)
{
	begin_event(trace, "X", name, process, thread);
	json_string(&trace->writer, "cat", category);
	json_thousandth(&trace->writer, "ts", between(trace->origin_ns, start_ns));
	json_thousandth(&trace->writer, "dur", between(start_ns, end_ns));
	json_object_begin(&trace->writer, "args");
}

static void end_slice(struct trace *trace)
{
	json_object_end(&trace->writer);
	json_object_end(&trace->writer);
}

/* The same on a track of a rank, behind what is there already. */
static void begin_rank_slice(struct trace *trace, uint32_t rank, unsigned track, const char *name,
	const char *category, int64_t start_ns, int64_t end_ns)
{
	static const char *const kinds[TRACK_NR] = {
		[TRACK_PHASES] = " phases", [TRACK_CALLS] = " collectives"};
	struct rank_tracks *tracks = &trace->ranks[rank];
	uint64_t thread = thread_of(trace, rank, track);
	char thread_name[NAME_LENGTH];

	if (!(tracks->named & 1u << track)) {
		tracks->named |= 1u << track;
		if (track > TRACK_CALLS)
			snprintf(thread_name, sizeof(thread_name),
				"rank %" PRIu32 " collectives %u", rank, track - TRACK_CALLS + 1);
		else
			snprintf(thread_name, sizeof(thread_name), "rank %" PRIu32 "%s", rank,
				kinds[track] ? kinds[track] : "");
		name_thread(trace, thread_name, tracks->process, thread);
	}
	if (start_ns < tracks->ends[track])
		start_ns = tracks->ends[track];
	if (end_ns < start_ns)
		end_ns = start_ns;
	tracks->ends[track] = end_ns;
	begin_slice(trace, name, category, tracks->process, thread, start_ns, end_ns);
}

/* Room for a rank, whose process is its first host's. */
static int get_rank(struct trace *trace, uint32_t rank, uint32_t host)
{
	struct rank_tracks *tracks;
	int error = array_grow((void **)&trace->ranks, &trace->rank_capacity, rank + (size_t)1,
		sizeof(*trace->ranks));

	if (error)
		return error;
	tracks = &trace->ranks[rank];
	if (rank >= trace->rank_end)
		trace->rank_end = rank + 1;
	if (tracks->process)
		return 0;
	tracks->process = (uint32_t)(trace->process + 1 + host);
	if (host >= trace->host_end)
		trace->host_end = host + 1;
	for (int track = 0; track < TRACK_NR; track++)
		tracks->ends[track] = trace->origin_ns;
	return 0;
}

int trace_begin(struct trace *trace, const struct report_model *model)
{
	size_t bytes = model->verdict_count * sizeof(*model->verdicts);
	char name[NAME_LENGTH];

	free(trace->verdicts);
	trace->verdicts = malloc(bytes + 1);
	if (!trace->verdicts)
		return -ENOMEM;
	if (bytes)
		memcpy(trace->verdicts, model->verdicts, bytes);
	trace->verdict_count = model->verdict_count;
	trace->unix_offset_ns = model->unix_offset_ns;
	trace->origin_ns = look_unix_ns(model->totals.first_start, model->unix_offset_ns);
	snprintf(name, sizeof(name), "incidents of %.128s", model->job_id ? model->job_id : "");
	put_metadata(trace, "process_name", "name", name, trace->process, 0);
	return check(trace);
}

static void put_ranks(struct trace *trace, const char *key, const uint32_t *ranks, size_t count)
{
	json_array_begin(&trace->writer, key);
	for (size_t i = 0; i < count; i++)
		json_unsigned(&trace->writer, NULL, ranks[i]);
	json_array_end(&trace->writer);
}

static void put_incident(struct trace *trace, const struct verdict *verdict, unsigned track,
	int64_t start_ns, int64_t end_ns)
{
	struct json_writer *writer = &trace->writer;
	char name[NAME_LENGTH];

	snprintf(name, sizeof(name), "%s: %s, %.2f x", verdict_class_name(verdict->verdict_class),
		cause_name(verdict->cause), verdict->slowdown);
	begin_slice(
		trace, name, "incident", trace->process, trace->thread + track, start_ns, end_ns);
	json_unsigned(writer, "incident", verdict->id);
	put_ranks(trace, "ranks", verdict->ranks,
		look_at_most(verdict->rank_count, VERDICT_RANKS_MAX));
	put_ranks(trace, "victims", verdict->victims,
		look_at_most(verdict->victim_count, VERDICT_VICTIMS_MAX));
	json_unsigned(writer, "first_step", verdict->first_step);
	json_unsigned(writer, "last_step", verdict->last_step);
	json_boolean(writer, "ended", verdict->ended != 0);
	if (verdict->sure.unmeasured_since)
		json_unsigned(writer, "unmeasured_since_step", verdict->sure.unmeasured_since);
	json_array_begin(writer, "evidence");
	for (size_t i = 0; i < look_at_most(verdict->evidence_count, VERDICT_EVIDENCE_MAX); i++) {
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
	end_slice(trace);
}

/* Those that overlap are on several tracks. */
static void put_incidents(struct trace *trace)
{
	int64_t ends[INCIDENT_TRACKS_MAX];
	unsigned tracks = 0, track;
	char name[NAME_LENGTH];

	for (size_t i = 0; i < trace->verdict_count; i++) {
		const struct verdict *verdict = &trace->verdicts[i];
		int64_t start_ns = look_unix_ns(verdict->onset, trace->unix_offset_ns);
		int64_t end_ns = look_unix_ns(verdict->end, trace->unix_offset_ns);

		if (!export_selects_span(trace->selection, verdict->first_step, verdict->last_step,
			    start_ns, end_ns))
			continue;
		start_ns = start_ns > trace->origin_ns ? start_ns : trace->origin_ns;
		end_ns = end_ns > start_ns ? end_ns : start_ns;
		for (track = 0; track < tracks && ends[track] > start_ns;)
			track++;
		if (track == INCIDENT_TRACKS_MAX) {
			trace->left_out++;
			continue;
		}
		if (track == tracks) {
			tracks++;
			snprintf(name, sizeof(name), "incidents %u", track + 1);
			name_thread(trace, name, trace->process, trace->thread + track);
		}
		ends[track] = end_ns;
		put_incident(trace, verdict, track, start_ns, end_ns);
	}
}

/* The nodes' names. */
static void name_processes(struct trace *trace, const struct report_model *model)
{
	uint32_t named = 0;

	for (uint32_t rank = 0; rank < trace->rank_end; rank++) {
		uint32_t process = trace->ranks[rank].process;

		if (process && process != named)
			put_metadata(
				trace, "process_name", "name", look_host(model, rank), process, 0);
		named = process ? process : named;
	}
}

int trace_end(struct trace *trace, const struct report_model *model)
{
	put_incidents(trace);
	name_processes(trace, model);
	trace->thread = thread_of(trace, trace->rank_end, 0);
	trace->process += 1 + (uint64_t)trace->host_end;
	if (trace->rank_end)
		memset(trace->ranks, 0, trace->rank_end * sizeof(*trace->ranks));
	trace->rank_end = trace->host_end = 0;
	return check(trace);
}

int trace_finish(struct trace *trace, uint64_t *left_out)
{
	json_array_end(&trace->writer);
	json_object_end(&trace->writer);
	fputc('\n', trace->out);
	*left_out = trace->left_out;
	return report_flush(trace->out);
}

/* In which order they were is not known: one after the other, from the step's begin. */
static void put_phases(struct trace *trace, const struct export_rank_step *row)
{
	const struct row_phases *phases = &row->phases;
	int64_t inside_ns = row->wait_ns + row->transfer_ns;
	double wait_share = inside_ns > 0 ? (double)row->wait_ns / (double)inside_ns : 0;
	int64_t wait_ns = (int64_t)(wait_share * (double)phases->comm_ns);
	const int64_t lengths_ns[PHASE_NR] = {[PHASE_INPUT] = phases->input_ns,
		[PHASE_COMPUTE] = phases->compute_ns,
		[PHASE_HOST] = phases->host_ns,
		[PHASE_COMM_WAIT] = wait_ns,
		[PHASE_COMM_TRANSFER] = phases->comm_ns - wait_ns};
	int64_t at_ns = row->start_ns;

	if (at_ns < trace->ranks[row->rank].ends[TRACK_PHASES])
		at_ns = trace->ranks[row->rank].ends[TRACK_PHASES];
	for (int phase = 0; phase < PHASE_NR; phase++) {
		const char *name = phase_name((enum phase)phase);

		if (lengths_ns[phase] <= 0)
			continue;
		if (phase >= PHASE_COMM_WAIT && !(row->known & EXPORT_KNOWS_CALLS)) {
			if (phase == PHASE_COMM_WAIT)
				continue;
			name = "comm"; /* nobody can say what of it is waiting */
		}
		begin_rank_slice(trace, row->rank, TRACK_PHASES, name, "phase", at_ns,
			at_ns + lengths_ns[phase]);
		end_slice(trace);
		at_ns += lengths_ns[phase];
	}
}

static void put_rank_step(
	struct trace *trace, const struct export_step *step, const struct export_rank_step *row)
{
	char name[NAME_LENGTH];

	snprintf(name, sizeof(name), "step %" PRIu64, step->number);
	begin_rank_slice(trace, row->rank, TRACK_STEPS, name, "step", row->start_ns, row->end_ns);
	json_thousandth(&trace->writer, "input_us", row->phases.input_ns);
	json_thousandth(&trace->writer, "compute_us", row->phases.compute_ns);
	json_thousandth(&trace->writer, "host_us", row->phases.host_ns);
	json_thousandth(&trace->writer, "comm_us", row->phases.comm_ns);
	if (row->known & EXPORT_KNOWS_CALLS) {
		json_thousandth(&trace->writer, "wait_us", row->wait_ns);
		json_thousandth(&trace->writer, "transfer_us", row->transfer_ns);
		json_thousandth(&trace->writer, "inherited_us", row->inherited_ns);
	}
	if (row->known & EXPORT_KNOWS_DELAY)
		json_thousandth(&trace->writer, "own_delay_us", row->own_delay_ns);
	end_slice(trace);
	put_phases(trace, row);
}

/* Each rank's tracks are there since its collectives were put. */
int trace_put_step(struct trace *trace, const struct export_step *step)
{
	for (size_t r = 0; r < step->row_count; r++) {
		const struct export_rank_step *row = &step->rows[r];

		if (export_selects_rank(trace->selection, row->rank) &&
			row->rank < trace->rank_end && trace->ranks[row->rank].process)
			put_rank_step(trace, step, row);
	}
	return check(trace);
}

static int64_t arrival_ns(const struct trace *trace, const struct step_grid *grid, uint32_t c)
{
	return look_unix_ns(
		(struct job_ns){grid->arrival_ns[grid->places[c]]}, trace->unix_offset_ns);
}

static int64_t departure_ns(const struct trace *trace, const struct step_grid *grid, uint32_t c)
{
	return look_unix_ns(
		(struct job_ns){grid->departure_ns[grid->places[c]]}, trace->unix_offset_ns);
}

static void put_call(struct trace *trace, const struct step_grid *grid, uint32_t c, unsigned track)
{
	const struct grid_cell *cell = &grid->cells[c];
	char id[24];

	begin_rank_slice(trace, grid->rows[cell->row].rank, track,
		operation_name((enum operation)cell->part->operation), "collective",
		arrival_ns(trace, grid, c), departure_ns(trace, grid, c));
	snprintf(id, sizeof(id), "%016" PRIx64, cell->part->communicator_id);
	json_string(&trace->writer, "communicator", id);
	json_unsigned(&trace->writer, "bytes", cell->part->length_bytes);
	if (cell->instance != GRID_NONE) {
		const struct grid_instance *instance = &grid->instances[cell->instance];

		json_unsigned(&trace->writer, "sequence", instance->sequence);
		json_unsigned(&trace->writer, "members", instance->member_count);
	}
	end_slice(trace);
}

static int by_arrival(const void *one, const void *other, void *context)
{
	const struct step_grid *grid = context;
	int64_t first = grid->arrival_ns[grid->places[*(const uint32_t *)one]];
	int64_t second = grid->arrival_ns[grid->places[*(const uint32_t *)other]];

	return first < second ? -1 : first > second;
}

/* Each on the first track on which the one before it has ended. */
static void put_row_calls(
	struct trace *trace, const struct step_grid *grid, const struct grid_row *row)
{
	const int64_t *ends = trace->ranks[row->rank].ends;

	for (uint32_t i = 0; i < row->cell_count; i++)
		trace->sorted[i] = row->first_cell + i;
	qsort_r(trace->sorted, row->cell_count, sizeof(*trace->sorted), by_arrival, (void *)grid);
	for (uint32_t i = 0; i < row->cell_count; i++) {
		uint32_t c = trace->sorted[i];
		unsigned track = TRACK_CALLS;

		while (track < TRACK_NR && ends[track] > arrival_ns(trace, grid, c))
			track++;
		trace->call_tracks[c] = track < TRACK_NR ? (uint8_t)track : NO_TRACK;
		if (track < TRACK_NR)
			put_call(trace, grid, c, track);
		else
			trace->left_out++;
	}
}

/* Its members wait for all, and their clocks tell who came last. */
static bool tells_last(const struct step_grid *grid, const struct blame *blame, uint32_t instance)
{
	return instance != GRID_NONE && grid->instances[instance].usable &&
	       grid->instances[instance].waits_for == WAITS_FOR_ALL &&
	       !blame->meetings[instance].by_duration;
}

/* What the other members waited for this cell, which came last; 0: another one did. */
static int64_t waited_ns(
	const struct step_grid *grid, const struct grid_instance *instance, int64_t came_ns)
{
	int64_t sum_ns = 0;

	for (uint32_t m = 0; m < instance->member_count; m++) {
		int64_t early_ns = came_ns - grid->arrival_ns[instance->first_member + m];

		if (early_ns < 0)
			return 0;
		sum_ns += early_ns;
	}
	return sum_ns;
}

static void put_arrow_end(struct trace *trace, const struct step_grid *grid, uint32_t c,
	const char *kind, int64_t at_ns)
{
	uint32_t rank = grid->rows[grid->cells[c].row].rank;

	begin_event(trace, kind, "held up", trace->ranks[rank].process,
		thread_of(trace, rank, trace->call_tracks[c]));
	json_string(&trace->writer, "cat", "held up");
	json_unsigned(&trace->writer, "id", trace->arrows);
	json_thousandth(&trace->writer, "ts", between(trace->origin_ns, at_ns));
	if (*kind == 'f')
		json_string(&trace->writer, "bp", "e"); /* to the slice around it */
	json_object_end(&trace->writer);
}

/* From the last one's call to those of who was there before it. */
static void put_arrows(struct trace *trace, const struct step_grid *grid, uint32_t last)
{
	const struct grid_instance *instance = &grid->instances[grid->cells[last].instance];
	int64_t at_ns = arrival_ns(trace, grid, last);
	unsigned count = 0;

	for (uint32_t m = 0; m < instance->member_count && count < ARROWS_MAX; m++) {
		uint32_t c = grid->members[instance->first_member + m];

		if (c == last || trace->call_tracks[c] == NO_TRACK || at_ns < trace->origin_ns ||
			arrival_ns(trace, grid, c) >= at_ns || departure_ns(trace, grid, c) < at_ns)
			continue;
		trace->arrows++;
		count++;
		put_arrow_end(trace, grid, last, "s", at_ns);
		put_arrow_end(trace, grid, c, "f", at_ns);
	}
}

/* Where the others waited longest for this rank in the step. */
static void put_arrows_of(
	struct trace *trace, const struct judged_step *judged, const struct grid_row *row)
{
	const struct step_grid *grid = judged->grid;
	int64_t longest_ns = 0;
	uint32_t last = GRID_NONE;

	for (uint32_t c = row->first_cell; c < row->first_cell + row->cell_count; c++) {
		uint32_t i = grid->cells[c].instance;
		int64_t ns;

		if (trace->call_tracks[c] == NO_TRACK || !tells_last(grid, judged->blame, i))
			continue;
		ns = waited_ns(grid, &grid->instances[i], grid->arrival_ns[grid->places[c]]);
		if (ns > longest_ns) {
			longest_ns = ns;
			last = c;
		}
	}
	if (last != GRID_NONE)
		put_arrows(trace, grid, last);
}

/* An incident names it that lasts at that time. */
static bool is_culprit(const struct trace *trace, uint32_t rank, const struct grid_step *step)
{
	for (size_t i = 0; i < trace->verdict_count; i++) {
		const struct verdict *verdict = &trace->verdicts[i];

		if (step->end_ns > verdict->onset.value && step->start_ns < verdict->end.value &&
			verdict_names(verdict, rank))
			return true;
	}
	return false;
}

static int prepare_calls(struct trace *trace, const struct step_grid *grid)
{
	size_t longest = 0;
	int error = array_grow((void **)&trace->call_tracks, &trace->call_capacity,
		grid->cell_count + 1, sizeof(*trace->call_tracks));

	for (size_t r = 0; r < grid->row_count; r++) {
		if (grid->rows[r].cell_count > longest)
			longest = grid->rows[r].cell_count;
	}
	if (!error)
		error = array_grow((void **)&trace->sorted, &trace->sorted_capacity, longest + 1,
			sizeof(*trace->sorted));
	if (!error)
		memset(trace->call_tracks, NO_TRACK, grid->cell_count);
	return error;
}

int trace_put_calls(struct trace *trace, const struct judged_step *judged)
{
	const struct step_grid *grid = judged->grid;
	int error = prepare_calls(trace, grid);

	for (size_t r = 0; r < grid->row_count && !error; r++) {
		const struct grid_row *row = &grid->rows[r];

		if (!export_selects_rank(trace->selection, row->rank))
			continue;
		error = get_rank(trace, row->rank, row->host);
		if (!error)
			put_row_calls(trace, grid, row);
	}
	for (size_t r = 0; r < grid->row_count && judged->blame && !error; r++) {
		const struct grid_row *row = &grid->rows[r];

		if (export_selects_rank(trace->selection, row->rank) &&
			is_culprit(trace, row->rank, &grid->step))
			put_arrows_of(trace, judged, row);
	}
	return error ? error : check(trace);
}
