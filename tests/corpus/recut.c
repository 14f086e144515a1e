/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a record again with its steps cut elsewhere, everything else as it was: who is slow must not
 * depend on where steps are cut (recuts.py).
 *
 *     recut RECORD OUT merge M     every M steps of a rank become one
 *     recut RECORD OUT split       every step becomes two, cut in the middle of its calls
 *     recut RECORD OUT shift K     every step ends K calls later
 *     recut RECORD OUT later N     as it were, had slowrank come N steps later
 *     recut RECORD OUT build       its calls go through the probe's step builder again
 *
 * A step is cut only where nothing overlaps; one that cannot be cut stays whole. merge 1 changes
 * nothing. What a step has of other threads and of launches goes to the piece that it ends in.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/record/reader.h"
#include "coordinator/record/writer.h"
#include "probe/step/builder.h"
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"

enum way { MERGE, SPLIT, SHIFT, LATER, BUILD };

/* What is not written yet of a rank; its parts are its own. */
struct open_step {
	struct step_entry step;
	size_t capacity;
	uint64_t probe_id;
	bool any;
	struct step_builder *builder; /* of BUILD; else NULL */
	struct activity others;	      /* running totals */
};

struct recut {
	enum way way;
	size_t count;		/* of steps, or of calls; LATER: the first step */
	struct open_step *open; /* by rank */
	struct step_entry *out; /* of the batch at hand */
	size_t out_count, out_capacity;
};

static void *grown(void *array, size_t *capacity, size_t count, size_t size)
{
	if (count > *capacity) {
		*capacity = count * 2;
		array = realloc(array, *capacity * size);
	}
	if (!array) {
		fprintf(stderr, "recut: no memory\n");
		exit(2);
	}
	return array;
}

static int64_t latest(const struct step_entry *step, size_t count)
{
	int64_t end_ns = step->start.value;

	for (size_t p = 0; p < count; p++) {
		if (step->parts[p].departure.value > end_ns)
			end_ns = step->parts[p].departure.value;
	}
	return end_ns;
}

/* The number of calls before the place next to `wanted` where all have ended; 0 = there is none. */
static size_t cut_place(const struct step_entry *step, size_t wanted)
{
	int64_t end_ns = step->start.value;
	size_t best = 0;

	for (size_t p = 1; p < step->part_count; p++) {
		if (step->parts[p - 1].departure.value > end_ns)
			end_ns = step->parts[p - 1].departure.value;
		if (end_ns > step->parts[p].arrival.value)
			continue;
		if (!best || llabs((int64_t)p - (int64_t)wanted) <
				     llabs((int64_t)best - (int64_t)wanted))
			best = p;
	}
	return best;
}

/* The time that no call takes of what lies between two places. */
static int64_t rest_of(const struct step_entry *step)
{
	int64_t rest_ns = 0, cursor = step->start.value;

	for (size_t p = 0; p < step->part_count; p++) {
		if (step->parts[p].arrival.value > cursor)
			rest_ns += step->parts[p].arrival.value - cursor;
		if (step->parts[p].departure.value > cursor)
			cursor = step->parts[p].departure.value;
	}
	return step->end.value > cursor ? rest_ns + step->end.value - cursor : rest_ns;
}

/* Calls [first, last) of a step and what lies before each; its parts stay the step's. */
static struct step_entry piece_of(const struct step_entry *step, size_t first, size_t last)
{
	struct step_entry piece = *step;
	bool ends = last == step->part_count;

	piece.parts = step->parts + first;
	piece.part_count = last - first;
	piece.start.value = first ? latest(step, first) : step->start.value;
	piece.end.value = ends ? step->end.value : latest(step, last);
	piece.signature = step->signature * 31 + first;
	if (!ends) {
		piece.tail = piece.other_threads = (struct activity){0};
		piece.launches = (struct step_launches){0};
	}
	double all_ns = (double)(step->input_ns + step->compute_ns + step->host_ns);
	double whole_ns = (double)rest_of(step);
	double share = whole_ns > 0 ? (double)rest_of(&piece) / whole_ns : 0;

	if (share * all_ns > (double)(piece.end.value - piece.start.value))
		share = (double)(piece.end.value - piece.start.value) / all_ns;
	piece.input_ns = (int64_t)(share * (double)step->input_ns);
	piece.compute_ns = (int64_t)(share * (double)step->compute_ns);
	piece.host_ns = (int64_t)(share * (double)step->host_ns);
	piece.comm_ns = piece.end.value - piece.start.value - piece.input_ns - piece.compute_ns -
			piece.host_ns;
	return piece;
}

/* Appends a step, or a piece of one, to what is open of its rank. */
static void take(struct open_step *open, const struct step_entry *step)
{
	struct step_entry *all = &open->step;
	size_t before = open->any ? all->part_count : 0;
	struct collective_part *parts =
		grown(all->parts, &open->capacity, before + step->part_count + 1, sizeof(*parts));

	if (step->part_count)
		memcpy(parts + before, step->parts, step->part_count * sizeof(*parts));
	if (!open->any) {
		*all = *step;
	} else {
		if (step->part_count)
			activity_add(&parts[before].before, &all->tail);
		all->tail = step->tail;
		all->flags |= step->flags;
		if (step->start.value != all->end.value)
			all->flags |= STEP_INCOMPLETE;
		all->signature = all->signature * 1099511628211u + step->signature;
		all->comm_ns += step->comm_ns + step->start.value - all->end.value;
		all->input_ns += step->input_ns;
		all->compute_ns += step->compute_ns;
		all->host_ns += step->host_ns;
		all->end = step->end;
		activity_add(&all->other_threads, &step->other_threads);
		step_launches_add(&all->launches, &step->launches);
		all->part_count += step->part_count;
	}
	all->parts = parts;
	open->any = true;
}

/* What is open of a rank becomes a step of the batch, which has its parts then. */
static void close_step(struct recut *recut, uint32_t rank, uint64_t index)
{
	struct open_step *open = &recut->open[rank];

	if (!open->any)
		return;
	recut->out =
		grown(recut->out, &recut->out_capacity, recut->out_count + 1, sizeof(*recut->out));
	open->step.index = index;
	recut->out[recut->out_count++] = open->step;
	*open = (struct open_step){
		.probe_id = open->probe_id, .builder = open->builder, .others = open->others};
}

static void take_built(struct recut *recut, uint32_t rank)
{
	struct open_step *open = &recut->open[rank];
	struct step_entry entry;

	while (step_builder_take(open->builder, &entry)) {
		take(open, &entry);
		close_step(recut, rank, entry.index);
	}
}

static void build_step(struct recut *recut, const struct step_entry *step)
{
	struct step_builder_options options = {.rank = step->rank};
	struct open_step *open = &recut->open[step->rank];

	if (!open->builder && step_builder_create(&options, &open->builder) < 0) {
		fprintf(stderr, "recut: no memory\n");
		exit(2);
	}
	if (step->flags & STEP_INCOMPLETE)
		step_builder_lost(open->builder, 1);
	for (size_t p = 0; p < step->part_count; p++) {
		step_builder_push(open->builder, &step->parts[p], &open->others);
		take_built(recut, step->rank);
	}
	activity_add(&open->others, &step->other_threads);
	step_builder_tick(open->builder, step->end);
	take_built(recut, step->rank);
}

static void recut_step(struct recut *recut, const struct step_entry *step)
{
	struct open_step *open = &recut->open[step->rank];
	size_t wanted = recut->way == SPLIT ? step->part_count / 2 : recut->count;
	size_t at = recut->way != MERGE && wanted < step->part_count ? cut_place(step, wanted) : 0;

	if (recut->way == BUILD) {
		build_step(recut, step);
		return;
	}
	if (recut->way == LATER) {
		if (step->index < recut->count)
			return;
		take(open, step);
		close_step(recut, step->rank, step->index);
		return;
	}
	if (recut->way == MERGE) {
		uint64_t index = step->index / recut->count;

		if (open->any &&
			(open->step.index / recut->count != index ||
				open->step.part_count + step->part_count > STEP_PART_COUNT_MAX))
			close_step(recut, step->rank, open->step.index / recut->count);
		take(open, step);
		if (step->index % recut->count == recut->count - 1)
			close_step(recut, step->rank, index);
		return;
	}
	if (at) {
		struct step_entry begin = piece_of(step, 0, at);
		struct step_entry end = piece_of(step, at, step->part_count);

		take(open, &begin);
		close_step(recut, step->rank, recut->way == SPLIT ? 2 * step->index : step->index);
		take(open, &end);
	} else {
		take(open, step);
	}
	if (recut->way == SPLIT || !at)
		close_step(
			recut, step->rank, recut->way == SPLIT ? 2 * step->index + 1 : step->index);
}

/* Nothing more comes of a rank that exited, or of a probe's last batch. */
static void close_last(struct recut *recut, const struct message_batch *batch)
{
	for (uint32_t rank = 0; rank < STEP_RANK_COUNT_MAX; rank++) {
		struct open_step *open = &recut->open[rank];
		bool last = batch->final && open->probe_id == batch->probe_id;

		for (size_t i = 0; i < batch->rank_count && (open->any || open->builder); i++)
			last |= batch->ranks[i].rank == rank && batch->ranks[i].exited;
		if (open->builder && last) {
			step_builder_finish(open->builder);
			take_built(recut, rank);
			step_builder_destroy(open->builder);
			open->builder = NULL;
		} else if (open->any && last)
			close_step(recut, rank,
				recut->way == MERGE ? open->step.index / recut->count
						    : open->step.index + 1);
	}
}

static int recut_batch(
	struct recut *recut, const void *bytes, size_t length, struct wire_buffer *buffer)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct message_batch *batch = NULL;
	int error = wire_decode_batch(bytes, length, &batch, why);

	if (error < 0) {
		fprintf(stderr, "recut: %s\n", why);
		return error;
	}
	for (size_t i = 0; i < batch->step_count; i++) {
		recut->open[batch->steps[i].rank].probe_id = batch->probe_id;
		recut_step(recut, &batch->steps[i]);
	}
	close_last(recut, batch);
	batch->steps = recut->out;
	batch->step_count = recut->out_count;
	error = wire_encode_batch(batch, buffer);
	for (size_t i = 0; i < recut->out_count; i++)
		free(recut->out[i].parts);
	recut->out_count = 0;
	message_batch_destroy(batch);
	return error;
}

static int recut_record(struct recut *recut, const char *from, const char *to)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct record_reader_state state;
	struct record_reader *reader = NULL;
	struct record_writer *writer = NULL;
	struct wire_buffer buffer = {0};
	struct job_ns received;
	const void *bytes;
	size_t length;
	int error = record_reader_open(from, &reader, why);

	if (error < 0)
		goto out;
	record_reader_get_state(reader, &state);
	error = record_writer_create(to,
		&(struct record_writer_options){.program = "recut",
			.created = state.created,
			.created_unix_ns = state.created_unix_ns,
			.whole = true},
		&writer, why);
	while (error == 0 &&
		(error = record_reader_next(reader, &bytes, &length, &received)) == 0) {
		error = recut_batch(recut, bytes, length, &buffer) < 0 ? -EIO : 0;
		if (error == 0)
			error = record_writer_append(writer, buffer.bytes, buffer.length, received);
	}
	if (error == -ENODATA || error == -EBADMSG) { /* ended, or cut short */
		error = record_writer_finish(writer);
		writer = NULL;
	}
out:
	if (error < 0)
		fprintf(stderr, "recut: %s %s\n", strerror(-error), why);
	record_writer_destroy(writer);
	record_reader_close(reader);
	wire_buffer_fini(&buffer);
	return error;
}

int main(int argc, char **argv)
{
	static const char *const ways[] = {"merge", "split", "shift", "later", "build"};
	enum { WAY_NR = sizeof(ways) / sizeof(ways[0]) };
	struct recut recut = {.count = argc > 4 ? strtoul(argv[4], NULL, 10) : 1};
	int way = 0;

	while (argc > 3 && way < WAY_NR && strcmp(argv[3], ways[way]) != 0)
		way++;
	if (argc < 4 || way == WAY_NR || recut.count == 0) {
		fprintf(stderr,
			"usage: %s RECORD OUT merge M | split | shift K | later N | build\n",
			argv[0]);
		return 2;
	}
	recut.way = (enum way)way;
	recut.open = calloc(STEP_RANK_COUNT_MAX, sizeof(*recut.open));
	if (!recut.open)
		return 2;
	int error = recut_record(&recut, argv[1], argv[2]);

	for (uint32_t rank = 0; rank < STEP_RANK_COUNT_MAX; rank++) {
		free(recut.open[rank].step.parts);
		step_builder_destroy(recut.open[rank].builder);
	}
	free(recut.open);
	free(recut.out);
	return error < 0 ? 1 : 0;
}
