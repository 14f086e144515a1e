/* SPDX-License-Identifier: Apache-2.0 */
/* What a hang says: where the missing ranks were last seen, and what they do instead. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "coordinator/pipeline_hang_internal.h"

struct text {
	char *at;
	size_t room;
};

static void text_add(struct text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void text_add(struct text *text, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text->at, text->room, format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	if ((size_t)length >= text->room)
		length = (int)text->room - 1; /* cut, with its NUL */
	text->at += length;
	text->room -= (size_t)length;
}

static double seconds_since(struct job_ns then, struct job_ns now)
{
	return now.value > then.value ? (double)(now.value - then.value) / 1e9 : 0;
}

/* What its thread does, by its state in /proc and by why it is off the CPU. */
static void add_state(struct text *text, const struct hang_rank *rank)
{
	const char *place = rank->kind == OPEN_CALL_NONE ? rank->where : "";

	switch (rank->state) {
	case 'T':
		text_add(text, "stopped by a signal");
		break;
	case 't':
		text_add(text, "stopped by a debugger");
		break;
	case 'Z':
		text_add(text, "dead, its parent has not noticed");
		break;
	case 'D':
		text_add(text, "blocked%s%s", place[0] ? " in " : " in the kernel", place);
		break;
	case 'S':
		text_add(text, "asleep%s%s", place[0] ? " in " : "", place);
		break;
	case 'R':
		if (rank->reason == OFF_CPU_PREEMPTED || rank->reason == OFF_CPU_THROTTLED)
			text_add(text, "runnable, but %s",
				off_cpu_reason_name((enum off_cpu_reason)rank->reason));
		else
			text_add(text, "running");
		break;
	default:
		text_add(text, "state unknown");
	}
	if (rank->reason == OFF_CPU_BLOCK_IO || rank->reason == OFF_CPU_MAJOR_FAULT)
		text_add(text, " (%s)", off_cpu_reason_name((enum off_cpu_reason)rank->reason));
}

static void add_rank(struct text *text, const struct pipeline_hang *hang,
	const struct rank_table *table, uint32_t r, struct job_ns now)
{
	const struct hang_rank *rank = &hang->ranks[r];

	text_add(text, "rank %" PRIu32 " ", r);
	if (r < table->end && table->ranks[r].exited) {
		text_add(text, "has ended with status %d", table->ranks[r].exit_code);
		return;
	}
	if (rank->last_known)
		text_add(text, "last left %s %" PRIu64 ", %.1f s ago",
			operation_name((enum operation)rank->last_operation), rank->last_sequence,
			seconds_since(rank->last_departure, now));
	else
		text_add(text, "was never seen in one");
	if (!rank->listed)
		return;
	if (rank->kind == OPEN_CALL_NONE)
		text_add(text, "; in its own work, ");
	else
		text_add(text, "; in %s for %.1f s, ", rank->where[0] ? rank->where : "a call",
			seconds_since(rank->since, now));
	add_state(text, rank);
}

void pipeline_hang_describe(const struct pipeline_hang *hang, const struct rank_table *table,
	const struct meeting_place *place, enum hang_end end, struct job_ns now,
	struct hang_finding *finding)
{
	struct text text = {finding->details[0], sizeof(finding->details[0])};

	finding->detail_count = 1;
	if (end == HANG_CIRCLE) {
		text_add(&text, "the calls of %zu ranks wait for each other in a circle",
			finding->waiting_count);
		return;
	}
	if (place->call->kind == OPEN_CALL_COLLECTIVE)
		text_add(&text, "%s %" PRIu64 " entered by %zu of %zu",
			operation_name((enum operation)place->call->operation),
			place->call->sequence, place->inside_count, place->member_count);
	else if (place->call->kind == OPEN_CALL_NONE)
		text_add(&text, "%zu other%s still, too", finding->waiting_count,
			finding->waiting_count == 1 ? " stands" : "s stand");
	else
		text_add(&text, "%zu ranks wait in calls", finding->waiting_count);
	for (size_t i = 0; i < finding->missing_count && i < VERDICT_EVIDENCE_MAX; i++) {
		if (i > 0)
			text = (struct text){finding->details[i], sizeof(finding->details[i])};
		else
			text_add(&text, "; ");
		add_rank(&text, hang, table, finding->missing[i], now);
		finding->detail_count = i + 1;
	}
}
