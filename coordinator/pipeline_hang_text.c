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

static void add_call(struct text *text, const struct hang_call *call)
{
	text_add(text, "%s %" PRIu64 " of communicator %016" PRIx64,
		operation_name((enum operation)call->operation), call->sequence,
		call->communicator_id);
}

/* What its thread does, by its state in /proc and by why it is off the CPU. */
static void add_state(struct text *text, const struct hang_rank *rank, bool in_call)
{
	const struct message_stall *told = &rank->stall.told;
	const char *place = in_call ? "" : rank->where[0] ? rank->where : told->wait_channel;

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
	if (!in_call && rank->stall.known && told->over_ms)
		text_add(text, ", %.1f s of CPU time in %.1f s", (double)told->cpu_ms / 1e3,
			(double)told->over_ms / 1e3);
}

static void add_rank(struct text *text, const struct pipeline_hang *hang,
	const struct rank_table *table, uint32_t r, struct job_ns now)
{
	const struct hang_rank *rank = &hang->ranks[r];
	struct hang_call call = pipeline_hang_call(rank);

	text_add(text, "rank %" PRIu32 " ", r);
	if (table->streams.ranks[r].exited) {
		text_add(text, "has ended with status %d", table->ranks[r].exit_code);
		return;
	}
	if (rank->last_known)
		text_add(text, "last left %s %" PRIu64 ", %.1f s ago",
			operation_name((enum operation)rank->last_operation), rank->last_sequence,
			seconds_since(rank->last_departure, now));
	else
		text_add(text, "was never seen in one");
	if (!rank->heard) {
		text_add(text, "; nothing was heard of it for %.1f s",
			seconds_since(rank->stall.seen, now));
		return;
	}
	if (!rank->listed)
		return;
	if (call.kind == OPEN_CALL_COLLECTIVE || call.on_device) {
		text_add(text, "; in ");
		add_call(text, &call);
		text_add(text, " for %.1f s, ", seconds_since(call.since, now));
	} else if (call.kind == OPEN_CALL_NONE || call.kind == OPEN_CALL_UNSEEN) {
		text_add(text, "; in its own work, ");
	} else {
		text_add(text, "; in %s for %.1f s, ", rank->where[0] ? rank->where : "a call",
			seconds_since(call.since, now));
	}
	add_state(text, rank, call.kind != OPEN_CALL_NONE && call.kind != OPEN_CALL_UNSEEN);
}

static void add_meeting_place(
	struct text *text, const struct meeting_place *place, struct verdict_hang *hang)
{
	*hang = (struct verdict_hang){.communicator_id = place->call.communicator_id,
		.sequence = place->call.sequence,
		.entered = (uint32_t)place->inside_count,
		.members = (uint32_t)place->member_count,
		.operation = place->call.operation};
	add_call(text, &place->call);
	if (hang->members)
		text_add(text, " entered by %zu of %zu", place->inside_count, place->member_count);
	else
		text_add(text, " has not ended; ");
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
	if (place->member_count || (place->call.on_device && place->call.operation))
		add_meeting_place(&text, place, &finding->call);
	if (!place->member_count)
		text_add(&text, "%zu other%s still, too", finding->waiting_count,
			finding->waiting_count == 1 ? " stands" : "s stand");
	for (size_t i = 0;
		i < finding->missing_count && finding->detail_count < VERDICT_EVIDENCE_MAX; i++) {
		text = (struct text){
			finding->details[finding->detail_count], sizeof(finding->details[0])};
		finding->detail_count++;
		add_rank(&text, hang, table, finding->missing[i], now);
	}
}
