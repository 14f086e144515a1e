/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/step/phases.h"

#include <stdlib.h>

/* From the call to the start on an idle device it takes 5 to 30 us; event waits included. */
#define QUEUED_MIN_NS INT64_C(100000)

enum {
	SIGNATURE_COMMUNICATORS_MAX = 64, /* told apart by order; further ones by their id */
};

static int64_t at_least_zero(int64_t value)
{
	return value > 0 ? value : 0;
}

static int64_t scale(int64_t value, int64_t numerator, int64_t denominator)
{
	return (int64_t)((double)value * ((double)numerator / (double)denominator));
}

/* Shares a gap of gap_ns between what its activity says and computing. */
static void fill_gap(struct step_entry *entry, const struct activity *activity, int64_t gap_ns)
{
	int64_t host = at_least_zero(activity->preempted_ns) +
		       at_least_zero(activity->throttled_ns) + at_least_zero(activity->asleep_ns) +
		       at_least_zero(activity->major_fault_ns) +
		       at_least_zero(activity->minor_fault_ns);
	int64_t input = at_least_zero(activity->block_io_ns);
	int64_t call = at_least_zero(activity->comm_call_ns);
	int64_t sum = host + input + call;

	if (gap_ns <= 0)
		return;
	if (sum > gap_ns) {
		host = scale(host, gap_ns, sum);
		input = scale(input, gap_ns, sum);
		call = scale(call, gap_ns, sum);
	}
	entry->host_ns += host;
	entry->input_ns += input;
	entry->comm_ns += call;
}

/* By the host's times: what it took itself; what it waited for, the device computed, or did not. */
static void fill_host_gap(struct step_entry *entry, const struct activity *before, int64_t gap_ns)
{
	struct activity host = *before;

	host.asleep_ns += at_least_zero(host.host_ns - host.preempted_ns - host.throttled_ns -
					host.asleep_ns - host.major_fault_ns - host.minor_fault_ns -
					host.block_io_ns);
	fill_gap(entry, &host, gap_ns);
}

/*
 * With device time: a collective that starts as soon as it was called found the device idle, so
 * the host was the one to wait for; one that had to queue found the device at work.
 */
static void fill_device_gap(
	struct step_entry *entry, const struct collective_part *part, int64_t gap_ns)
{
	int64_t queued_ns =
		part->enqueue.value ? part->arrival.value - part->enqueue.value : QUEUED_MIN_NS;

	if (queued_ns >= QUEUED_MIN_NS || gap_ns <= 0)
		return; /* all of it computing */
	fill_host_gap(entry, &part->before, gap_ns);
}

void step_phases_fill(struct step_entry *entry)
{
	int64_t cursor = entry->start.value, end = entry->end.value;

	entry->input_ns = entry->host_ns = entry->comm_ns = 0;
	for (size_t i = 0; i < entry->part_count; i++) {
		const struct collective_part *part = &entry->parts[i];
		int64_t arrival = part->arrival.value, departure = part->departure.value;

		if (arrival > end)
			arrival = end;
		if (departure > end)
			departure = end;
		if (arrival > cursor) {
			if (part->flags & PART_DEVICE_TIME)
				fill_device_gap(entry, part, arrival - cursor);
			else if (part->flags & PART_HOST_TIME)
				fill_host_gap(entry, &part->before, arrival - cursor);
			else
				fill_gap(entry, &part->before, arrival - cursor);
			cursor = arrival;
		}
		if (departure > cursor) {
			if (!(part->flags & PART_HOST_TIME)) /* else mostly the device's work */
				entry->comm_ns += departure - cursor;
			cursor = departure;
		}
	}
	fill_gap(entry, &entry->tail, end - cursor);
	/* Rounding of the scaled shares goes to computing; it never makes it negative by more. */
	entry->compute_ns =
		end - entry->start.value - entry->input_ns - entry->host_ns - entry->comm_ns;
	if (entry->compute_ns < 0) {
		int64_t *most = &entry->comm_ns;

		if (entry->host_ns > *most)
			most = &entry->host_ns;
		if (entry->input_ns > *most)
			most = &entry->input_ns;
		*most += entry->compute_ns;
		entry->compute_ns = 0;
	}
}

static int compare_arrivals(const void *left, const void *right)
{
	const struct collective_part *a = left, *b = right;

	if (a->arrival.value != b->arrival.value)
		return a->arrival.value < b->arrival.value ? -1 : 1;
	if (a->departure.value != b->departure.value)
		return a->departure.value < b->departure.value ? -1 : 1;
	return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

void step_parts_sort(struct collective_part *parts, size_t part_count)
{
	size_t moves = 0;

	for (size_t i = 1; i < part_count; i++) {
		struct collective_part part = parts[i];
		size_t at = i;

		while (at > 0 && parts[at - 1].arrival.value > part.arrival.value) {
			parts[at] = parts[at - 1];
			at--;
			moves++;
		}
		parts[at] = part;
		if (moves > 16 * part_count) {
			qsort(parts, part_count, sizeof(*parts), compare_arrivals);
			return;
		}
	}
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9fb21c651e98df25);
	return hash ^ (hash >> 29);
}

static bool has_root(uint8_t operation)
{
	return operation == OPERATION_BROADCAST || operation == OPERATION_REDUCE ||
	       operation == OPERATION_GATHER || operation == OPERATION_SCATTER;
}

uint64_t step_signature(const struct collective_part *parts, size_t part_count)
{
	uint64_t known[SIGNATURE_COMMUNICATORS_MAX];
	size_t known_count = 0, at = 0;
	uint64_t hash = mix(UINT64_C(0x51605e9), part_count);

	for (size_t i = 0; i < part_count; i++) {
		const struct collective_part *part = &parts[i];
		uint64_t communicator = part->communicator_id;

		if (at >= known_count || known[at] != communicator) {
			for (at = 0; at < known_count && known[at] != communicator; at++)
				;
			if (at == known_count && known_count < SIGNATURE_COMMUNICATORS_MAX)
				known[known_count++] = communicator;
		}
		if (at < known_count)
			communicator = at;
		hash = mix(hash, communicator);
		/* A peer of a send is another on every rank; a root is the same for all. */
		hash = mix(hash, (uint64_t)part->operation << 32 |
					 (uint32_t)(has_root(part->operation) ? part->root
									      : STEP_ROOT_NONE));
	}
	return hash;
}

struct activity step_activity_share(
	const struct activity *activity, int64_t numerator, int64_t denominator)
{
	double share = (double)numerator / (double)denominator;

	return (struct activity){
		.preempted_ns = scale(activity->preempted_ns, numerator, denominator),
		.throttled_ns = scale(activity->throttled_ns, numerator, denominator),
		.block_io_ns = scale(activity->block_io_ns, numerator, denominator),
		.asleep_ns = scale(activity->asleep_ns, numerator, denominator),
		.major_fault_ns = scale(activity->major_fault_ns, numerator, denominator),
		.minor_fault_ns = scale(activity->minor_fault_ns, numerator, denominator),
		.comm_call_ns = scale(activity->comm_call_ns, numerator, denominator),
		.host_ns = scale(activity->host_ns, numerator, denominator),
		.collector_ns = scale(activity->collector_ns, numerator, denominator),
		.major_faults = (uint32_t)(activity->major_faults * share),
		.minor_faults = (uint32_t)(activity->minor_faults * share),
	};
}
