/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/open_calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/attach/collective_table.h"
#include "probe/rank_process.h"
#include "probe/sources/thread_look.h"

int open_calls_init(struct open_calls *open)
{
	*open = (struct open_calls){0};
	open->calls = calloc(WIRE_OPEN_CALLS_PER_BATCH_MAX, sizeof(*open->calls));
	return open->calls ? 0 : -ENOMEM;
}

void open_calls_fini(struct open_calls *open)
{
	free(open->calls);
	*open = (struct open_calls){0};
}

static void copy_name(char out[OPEN_CALL_WHERE_LENGTH], const char *name)
{
	snprintf(out, OPEN_CALL_WHERE_LENGTH, "%.*s", OPEN_CALL_WHERE_LENGTH - 1, name);
}

/* Fills kind and what the call is of; false when it has begun too lately, or is no wait. */
static bool take_call(struct job *job, const struct job_stalled *stalled,
	const struct thread_look *look, struct host_ns now, struct message_open_call *call)
{
	const struct collective_row *row;
	struct collective_part part;

	if (look->call.row >= collective_row_count ||
		now.value - (int64_t)look->call.arrival_ns < OPEN_CALL_AGE_NS)
		return false;
	row = &collective_rows[look->call.row];
	call->arrival.value = (int64_t)look->call.arrival_ns;
	copy_name(call->where, row->symbol);
	switch (row->kind) {
	case ROW_COLLECTIVE:
		if (!job_open_part(job, stalled->pid, &look->call, &part))
			return false;
		call->communicator_id = part.communicator_id;
		call->sequence = part.sequence;
		call->operation = part.operation;
		call->flags = part.flags;
		/* Of a communicator that is not joined, nobody knows who else is to come. */
		call->kind = part.communicator_id ? OPEN_CALL_COLLECTIVE : OPEN_CALL_POINT_TO_POINT;
		return true;
	case ROW_COMM_CALL:
	case ROW_COMMUNICATOR: /* making one waits for others too */
		call->kind = OPEN_CALL_POINT_TO_POINT;
		return true;
	case ROW_DEVICE_WAIT:
		call->kind = OPEN_CALL_DEVICE_WAIT;
		return true;
	default:
		return false;
	}
}

static void take_process(const struct job_stalled *stalled, const struct thread_look *look,
	struct host_ns now, struct message_stall *stall)
{
	struct used_before *before = stalled->before;

	stall->threads = look->threads;
	copy_name(stall->wait_channel, look->place);
	if (!look->threads)
		return;
	if (before->last.value != stalled->last.value)
		*before = (struct used_before){stalled->last, now, look->cpu_ms, look->io_bytes};
	stall->over_ms = (uint64_t)(now.value - before->looked.value) / 1000000;
	stall->cpu_ms = look->cpu_ms > before->cpu_ms ? look->cpu_ms - before->cpu_ms : 0;
	stall->io_bytes = look->io_bytes > before->io_bytes ? look->io_bytes - before->io_bytes : 0;
}

static bool look_at(const struct bpf_source *bpf, const struct device_source *device,
	struct job *job, const struct job_stalled *stalled, struct host_ns now,
	struct message_open_call *call)
{
	bool moves = stalled->last.value > now.value - OPEN_CALL_AGE_NS;
	struct message_stall stall = {0};
	bool in_flight = device && device_source_in_flight(device, stalled->pid, now, &stall);
	struct thread_look look;

	/* Which call a host that moves is in says nothing, and its threads may be many. */
	if ((moves && !in_flight) || thread_look(moves ? NULL : bpf, stalled->pid, &look) < 0)
		return false;
	*call = (struct message_open_call){.rank = stalled->rank,
		.arrival = stalled->last,
		.kind = OPEN_CALL_NONE,
		.state = (uint8_t)look.state,
		.reason = (uint8_t)look.reason,
		.stall = stall};
	take_process(stalled, &look, now, &call->stall);
	if (!moves && look.open && take_call(job, stalled, &look, now, call))
		return true;
	if (moves || look.open) {
		call->kind = OPEN_CALL_UNSEEN;
		call->arrival = stalled->last;
		call->where[0] = '\0';
		return in_flight;
	}
	copy_name(call->where, look.place);
	if ((int64_t)look.entered_ns > stalled->last.value)
		call->stall.acted_ms =
			(uint32_t)(((int64_t)look.entered_ns - stalled->last.value) / 1000000);
	/* Without the kernel side it may well be in a call: only who is stopped is known to be in none. */
	if (!bpf && look.state != 'T' && look.state != 't' && look.state != 'Z')
		call->kind = OPEN_CALL_UNSEEN;
	return true;
}

void open_calls_look(struct open_calls *open, const struct bpf_source *bpf,
	const struct device_source *device, struct job *job, struct host_ns now)
{
	struct job_stalled stalled;
	size_t next = 0;

	open->count = 0;
	while (job_next_stalled(job, now, &next, &stalled)) {
		struct message_open_call call;

		if (!look_at(bpf, device, job, &stalled, now, &call))
			continue;
		if (open->count < WIRE_OPEN_CALLS_PER_BATCH_MAX)
			open->calls[open->count++] = call;
		else
			open->dropped++;
	}
}
