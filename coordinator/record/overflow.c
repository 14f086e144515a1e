/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/record/overflow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/record/reader.h"

static void end(struct overflow *overflow)
{
	record_reader_close(overflow->reader);
	record_writer_destroy(overflow->writer);
	(void)unlink(overflow->path);
	*overflow = (struct overflow){.path = overflow->path};
}

/* Reads the next frame that has not moved on. Returns 0 or a negative errno. */
static int peek(struct overflow *overflow)
{
	int error = 0;

	if (overflow->bytes)
		return 0;
	if (overflow->reader)
		error = record_reader_next(
			overflow->reader, &overflow->bytes, &overflow->length, &overflow->received);
	if (overflow->reader && !error)
		return 0;
	/* The reader does not see what was written behind its end. */
	record_reader_close(overflow->reader);
	overflow->reader = NULL;
	error = record_reader_open(overflow->path, &overflow->reader, NULL);
	for (uint64_t i = 0; !error && i <= overflow->moved; i++)
		error = record_reader_next(
			overflow->reader, &overflow->bytes, &overflow->length, &overflow->received);
	if (error)
		overflow->bytes = NULL;
	return error;
}

static void next(struct overflow *overflow)
{
	overflow->bytes = NULL;
	overflow->moved++;
	overflow->frames--;
}

/* How many of its frames are in the record, too: up to the record's newest. */
static uint64_t count_moved(const char *path, struct job_ns newest)
{
	uint64_t count = 0, moved = 0;
	struct record_reader *reader;
	struct job_ns received;
	const void *bytes;
	size_t length;

	if (record_reader_open(path, &reader, NULL))
		return 0;
	while (!record_reader_next(reader, &bytes, &length, &received)) {
		count++;
		if (received.value == newest.value)
			moved = count;
	}
	record_reader_close(reader);
	return moved;
}

/* What a writer before left, less what it came to move. */
static void take_over(struct overflow *overflow, struct job_ns newest)
{
	const struct record_writer_options options = {.continues = true};
	struct record_writer_state state;

	if (record_writer_create(overflow->path, &options, &overflow->writer, NULL))
		return;
	record_writer_get_state(overflow->writer, &state);
	overflow->moved = newest.value ? count_moved(overflow->path, newest) : 0;
	overflow->frames = state.frames - overflow->moved;
}

int overflow_open(struct overflow *overflow, const char *path, bool continues, struct job_ns newest)
{
	if (!path)
		return 0;
	overflow->path = strdup(path);
	if (!overflow->path)
		return -ENOMEM;
	if (access(path, F_OK) == 0)
		take_over(overflow, newest);
	if (overflow->writer && (!continues || !overflow->frames))
		end(overflow);
	return 0;
}

/* Moves on what waits. Returns 0: nothing does any more; or why not. */
static int empty(struct overflow *overflow, struct record_writer *record)
{
	int error;

	while (overflow->frames) {
		error = peek(overflow);
		if (error && error != -ENOMEM) { /* damaged */
			for (; overflow->frames; overflow->frames--)
				record_writer_lose(record);
			break;
		}
		if (!error)
			error = record_writer_append(
				record, overflow->bytes, overflow->length, overflow->received);
		if (error)
			return error;
		next(overflow);
	}
	if (overflow->writer)
		end(overflow);
	return 0;
}

/* error: why the record cannot have it now. Returns 0 or, where that cannot either, that error. */
static int put_aside(struct overflow *overflow, int error, const void *bytes, size_t length,
	struct job_ns received)
{
	const struct record_writer_options options = {0};
	struct record_writer_state state;

	if (!overflow->path || (error != -ENOSPC && error != -EDQUOT))
		return error;
	if (!overflow->writer &&
		record_writer_create(overflow->path, &options, &overflow->writer, NULL))
		return error;
	record_writer_get_state(overflow->writer, &state);
	if (state.bytes + length > OVERFLOW_BYTES ||
		record_writer_append(overflow->writer, bytes, length, received))
		return error;
	overflow->frames++;
	return 0;
}

int overflow_append(struct overflow *overflow, struct record_writer *record, const void *bytes,
	size_t length, struct job_ns received)
{
	int error = empty(overflow, record);

	if (!error)
		error = record_writer_append(record, bytes, length, received);
	return error ? put_aside(overflow, error, bytes, length, received) : 0;
}

void overflow_wait_no_more(struct overflow *overflow, struct record_writer *record)
{
	if (!empty(overflow, record))
		return;
	for (; overflow->frames; overflow->frames--)
		record_writer_lose(record);
	end(overflow);
}

void overflow_close(struct overflow *overflow)
{
	record_reader_close(overflow->reader);
	record_writer_destroy(overflow->writer);
	free(overflow->path);
	*overflow = (struct overflow){0};
}
