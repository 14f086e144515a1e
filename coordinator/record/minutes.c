/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/record/minutes.h"

#include <errno.h>
#include <stdlib.h>

enum { MINUTES_AT_FIRST = 64 };

void record_gap_add(struct record_gap *gap, const struct record_gap *more)
{
	if (!more->batches)
		return;
	if (!gap->batches || more->first_ns < gap->first_ns)
		gap->first_ns = more->first_ns;
	if (!gap->batches || more->last_ns > gap->last_ns)
		gap->last_ns = more->last_ns;
	gap->batches += more->batches;
}

void record_minutes_fini(struct record_minutes *minutes)
{
	free(minutes->minutes);
	*minutes = (struct record_minutes){0};
}

void record_minutes_halve(struct record_minutes *minutes)
{
	size_t count = 0;

	for (size_t i = 0; i < minutes->count; i += 2) {
		struct record_minute both = minutes->minutes[i], *later = &minutes->minutes[i + 1];

		if (i + 1 == minutes->count) {
			minutes->minutes[count++] = both;
			break;
		}
		record_gap_add(&both.batches, &later->batches);
		both.thinned |= later->thinned;
		both.sums = later->sums;
		both.end = later->end;
		minutes->minutes[count++] = both;
	}
	minutes->count = count;
}

int record_minutes_add(struct record_minutes *minutes, const struct record_minute *minute)
{
	if (minutes->count == minutes->capacity) {
		size_t capacity =
			minutes->capacity ? 2 * minutes->capacity : (size_t)MINUTES_AT_FIRST;
		struct record_minute *grown = realloc(minutes->minutes, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		minutes->minutes = grown;
		minutes->capacity = capacity;
	}
	minutes->minutes[minutes->count++] = *minute;
	return 0;
}

struct record_minute *record_minutes_open(const struct record_minutes *minutes)
{
	struct record_minute *last = minutes->count ? &minutes->minutes[minutes->count - 1] : NULL;

	return last && !last->end ? last : NULL;
}

int record_minutes_note(struct record_minutes *minutes, enum record_kind kind, uint64_t offset,
	uint64_t size, struct job_ns stamp, const struct record_gap *gap)
{
	struct record_minute *open = record_minutes_open(minutes);

	if (open && open->thinned && kind == RECORD_BATCH) {
		open->sums = open->end = offset; /* a gap without sums is a minute of its own */
		open = NULL;
	}
	if (!open) {
		/* Nothing lies between two, even where there was no memory to note it. */
		uint64_t begin = minutes->count ? minutes->minutes[minutes->count - 1].end : offset;
		int error = record_minutes_add(minutes, &(struct record_minute){.begin = begin});

		if (error)
			return error;
		open = record_minutes_open(minutes);
	}
	switch (kind) {
	case RECORD_BATCH:
		record_gap_add(&open->batches, &(struct record_gap){1, stamp.value, stamp.value});
		open->sums = 0; /* what was there was never whole */
		break;
	case RECORD_GAP:
		record_gap_add(&open->batches, gap);
		open->thinned = true;
		break;
	case RECORD_RANKS:
		open->sums = open->sums ? open->sums : offset;
		break;
	case RECORD_JOB:
		open->sums = open->sums ? open->sums : offset;
		open->end = offset + size;
		break;
	case RECORD_VERDICT:
		break;
	}
	return 0;
}

static bool touches(
	const struct record_gap *batches, const struct record_span *spans, size_t span_count)
{
	for (size_t i = 0; i < span_count; i++) {
		if (batches->first_ns <= spans[i].until.value &&
			batches->last_ns >= spans[i].from.value)
			return true;
	}
	return false;
}

static bool take(uint64_t *left, uint64_t bytes)
{
	if (bytes > *left)
		return false;
	*left -= bytes;
	return true;
}

void record_minutes_choose(struct record_minutes *minutes, const struct record_span *spans,
	size_t span_count, uint64_t bytes_max)
{
	uint64_t newest = bytes_max / 2, touched = bytes_max / 4, sums = bytes_max / 4;

	for (size_t i = minutes->count; i-- > 0;) {
		struct record_minute *minute = &minutes->minutes[i];
		uint64_t bytes = minute->end - minute->begin;

		minute->keep = RECORD_KEEP_WHOLE;
		if (!minute->end)
			continue;
		if (!minute->thinned && take(&newest, bytes))
			continue;
		newest = 0; /* without a gap, up to now */
		if (!minute->thinned && touches(&minute->batches, spans, span_count) &&
			take(&touched, bytes))
			continue;
		bytes = minute->end - minute->sums;
		minute->keep = bytes && take(&sums, bytes) ? RECORD_KEEP_SUMS : RECORD_KEEP_NOTHING;
		sums = minute->keep == RECORD_KEEP_SUMS || !bytes ? sums : 0;
	}
}
