/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/host_calls.h"

static int64_t at_least_zero(int64_t value)
{
	return value > 0 ? value : 0;
}

static void depart(
	struct host_calls *calls, struct host_ns time, const struct step_launches *launches)
{
	calls->departed_ns = time.value;
	calls->departed_wait_ns = launches->wait_ns;
}

/* The host's own time before a call. */
static void fill_before(const struct host_calls *calls, struct host_call *call)
{
	struct activity *before = &call->part.before;
	int64_t wait_ns = at_least_zero(call->launches.wait_ns - calls->departed_wait_ns);

	if (!calls->departed_ns)
		return;
	before->host_ns = at_least_zero(
		call->part.arrival.value - calls->departed_ns - wait_ns - before->comm_call_ns);
	if (before->comm_call_ns)
		before->comm_call_ns += wait_ns;
}

void host_calls_did(struct host_calls *calls, const struct activity *did)
{
	activity_add(&calls->did, did);
}

bool host_calls_flush(struct host_calls *calls, struct host_call *done)
{
	if (!calls->holds)
		return false;
	calls->holds = false;
	*done = calls->held;
	return true;
}

bool host_calls_enqueue(
	struct host_calls *calls, const struct host_call *call, struct host_call *done)
{
	bool flushed = host_calls_flush(calls, done);

	calls->any = true;
	calls->holds = true;
	calls->held = *call;
	activity_add(&calls->held.part.before, &calls->did);
	calls->did = (struct activity){0};
	fill_before(calls, &calls->held);
	depart(calls, call->part.arrival, &call->launches);
	return flushed;
}

bool host_calls_wait(struct host_calls *calls, struct host_ns end,
	const struct step_launches *launches, struct host_call *done)
{
	if (!host_calls_flush(calls, done))
		return false;
	done->part.flags = (uint8_t)((done->part.flags & ~PART_ENQUEUE_ONLY) | PART_HOST_TIME);
	if (end.value > done->part.departure.value)
		done->part.departure = end;
	done->launches = *launches;
	depart(calls, end, launches);
	return true;
}
