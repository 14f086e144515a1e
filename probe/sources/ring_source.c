/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/ring_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/ring/ring_writer.h"
#include "probe/sources/ring_source_internal.h"

#define LIFE_CHECK_NS INT64_C(1000000000)
/* Turns are 50 ms apart, and ask twice. */
#define LOOK_NS INT64_C(40000000)

int ring_source_create(const char *directory, const struct ring_source_callbacks *callbacks,
	void *context, struct ring_source **result)
{
	struct ring_source *source;

	if (!directory)
		directory = getenv(RING_DIRECTORY_VARIABLE);
	if (!directory || !directory[0])
		directory = RING_DIRECTORY_DEFAULT;
	if (directory[0] != '/' || strlen(directory) >= RING_SOURCE_DIRECTORY_BYTES)
		return -EINVAL;
	source = calloc(1, sizeof(*source));
	if (!source)
		return -ENOMEM;
	memcpy(source->directory, directory, strlen(directory) + 1);
	source->callbacks = *callbacks;
	source->context = context;
	ring_process_clean_stale(directory);
	*result = source;
	return 0;
}

static void add_counts(struct ring_reader_counts *sum, const struct ring_reader_counts *counts)
{
	sum->records += counts->records;
	sum->damaged += counts->damaged;
	sum->abandoned += counts->abandoned;
	sum->resynchronised += counts->resynchronised;
	sum->dropped_full += counts->dropped_full;
	sum->dropped_late += counts->dropped_late;
}

static void close_process(struct ring_source *source, struct ring_process *process, bool remove)
{
	if (process->reader) {
		struct ring_reader_counts counts;

		ring_reader_counts(process->reader, &counts);
		add_counts(&source->ended, &counts);
		source->ended_unknown += process->unknown;
		source->ended_library_drops += process->library_drops;
		if (remove)
			ring_process_unlink(process);
		ring_reader_close(process->reader);
	}
	if (process->directory_fd >= 0)
		ring_process_close_directory(process);
	for (size_t i = 0; i < RING_SOURCE_NAMES_MAX; i++)
		free(process->names[i].text);
	free(process);
}

void ring_source_destroy(struct ring_source *source)
{
	if (!source)
		return;
	for (uint32_t i = 0; i < source->process_count; i++)
		close_process(
			source, source->processes[i], ring_process_has_ended(source->processes[i]));
	free(source);
}

static struct ring_process *find_process(const struct ring_source *source, pid_t pid)
{
	for (uint32_t i = 0; i < source->process_count; i++) {
		if (source->processes[i]->pid == pid)
			return source->processes[i];
	}
	return NULL;
}

/* Looks for a ring where there is none, and tells it what all are told. */
static void look_for_ring(struct ring_source *source, struct ring_process *process, uint64_t number)
{
	const struct ring_look look = {source->processes, source->process_count, number};

	if (!process->reader) {
		int result = ring_process_find(process, source->directory, &look);

		if (result && result != -ENOENT)
			source->last_error = result;
	}
	if (!process->reader || process->told)
		return;
	process->told = true;
	ring_reader_pause(process->reader, source->paused);
	if (source->wants_launchers_cpu)
		ring_reader_want_launchers_cpu(process->reader);
}

void ring_source_want_launchers_cpu(struct ring_source *source)
{
	source->wants_launchers_cpu = true;
	for (uint32_t i = 0; i < source->process_count; i++) {
		if (source->processes[i]->reader)
			ring_reader_want_launchers_cpu(source->processes[i]->reader);
	}
}

int ring_source_add_process(struct ring_source *source, pid_t pid)
{
	struct ring_process *process = find_process(source, pid);
	uint64_t start_time;
	char number[16];

	snprintf(number, sizeof(number), "%d", (int)pid);
	if (pid <= 0 || ring_start_time(-1, number, &start_time))
		return -ESRCH;
	if (process && process->start_time == start_time)
		return 0;
	if (source->process_count == RING_SOURCE_PROCESSES_MAX)
		return -ENOSPC;
	process = calloc(1, sizeof(*process));
	if (!process)
		return -ENOMEM;
	process->pid = pid;
	process->start_time = start_time;
	process->directory_fd = -1;
	source->processes[source->process_count++] = process;
	look_for_ring(source, process, ++source->looks);
	return 0;
}

static size_t drain(struct ring_source *source, struct ring_process *process, struct host_ns now,
	size_t record_max)
{
	struct ring_record record;
	size_t count = 0;
	int result = 0;

	while (count < record_max) {
		result = ring_reader_next(process->reader, now.value, process->gone, &record);
		if (result)
			break;
		ring_source_deliver(source, process, &record);
		count++;
	}
	if (result && result != -EAGAIN) { /* the file was cut: nothing more can come from it */
		source->last_error = result;
		process->gone = true;
	}
	return count;
}

/* Asking /proc is dear beside all else here: once a second will do. */
static void check_life(struct ring_process *process, struct host_ns now)
{
	int64_t age_ns = now.value - process->checked.value;

	if (process->gone || (age_ns >= 0 && age_ns < LIFE_CHECK_NS))
		return;
	process->checked = now;
	process->gone = ring_process_has_ended(process);
}

size_t ring_source_poll(struct ring_source *source, struct host_ns now, size_t record_max)
{
	bool due = now.value < source->looked.value || now.value - source->looked.value >= LOOK_NS;
	uint64_t number = ++source->looks;
	size_t count = 0;

	if (due)
		source->looked = now;
	for (uint32_t i = 0; i < source->process_count;) {
		struct ring_process *process = source->processes[i];
		size_t drained = 0;

		check_life(process, now);
		/* Also after its end: it may have made the ring since the last look. */
		if (due || process->gone)
			look_for_ring(source, process, number);
		if (process->reader)
			drained = drain(source, process, now, record_max);
		count += drained;
		if (!process->gone || (process->reader && drained == record_max)) {
			i++;
			continue;
		}
		if (source->callbacks.ended)
			source->callbacks.ended(source->context, process->pid);
		source->processes[i] = source->processes[--source->process_count];
		close_process(source, process, true);
	}
	return count;
}

int ring_source_request_deep(struct ring_source *source, pid_t pid, uint32_t kinds,
	struct host_ns stop, uint32_t *request)
{
	struct ring_process *process = find_process(source, pid);
	uint32_t number;

	if (!process || !process->reader)
		return -ENOENT;
	number = ring_reader_request(process->reader, kinds, stop.value);
	if (request)
		*request = number;
	return 0;
}

int ring_source_time_calls(struct ring_source *source, pid_t pid, struct host_ns until)
{
	struct ring_process *process = find_process(source, pid);

	if (!process || !process->reader)
		return -ENOENT;
	ring_reader_time_calls(process->reader, until.value);
	return 0;
}

void ring_source_pause(struct ring_source *source, bool paused)
{
	source->paused = paused;
	for (uint32_t i = 0; i < source->process_count; i++) {
		if (source->processes[i]->reader)
			ring_reader_pause(source->processes[i]->reader, paused);
	}
}

static void note_clock_error(const struct ring_clock *clock, struct ring_source_state *state)
{
	if (clock->valid && ring_clock_error_ns(clock) > state->clock_error_ns)
		state->clock_error_ns = ring_clock_error_ns(clock);
}

void ring_source_get_state(const struct ring_source *source, struct ring_source_state *state)
{
	struct ring_reader_counts sum = source->ended;
	struct ring_source_state result = {.process_count = source->process_count,
		.last_error = source->last_error,
		.unknown = source->ended_unknown};
	uint64_t library_drops = source->ended_library_drops;

	for (uint32_t i = 0; i < source->process_count; i++) {
		const struct ring_process *process = source->processes[i];
		struct ring_reader_counts counts;

		if (!process->reader)
			continue;
		result.ring_count++;
		ring_reader_counts(process->reader, &counts);
		add_counts(&sum, &counts);
		result.unknown += process->unknown;
		library_drops += process->library_drops;
		for (size_t j = 0; j < RING_SOURCE_DEVICES; j++) {
			note_clock_error(&process->clocks[j], &result);
			note_clock_error(&process->event_clocks[j], &result);
		}
	}
	result.records = sum.records;
	result.dropped = sum.dropped_full + sum.dropped_late + sum.abandoned + library_drops;
	result.dropped_full = sum.dropped_full;
	result.dropped_by_writer = library_drops;
	result.damaged = sum.damaged + sum.resynchronised;
	*state = result;
}
