/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/kernel_calls.h"

#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 8192, KERNELS_MAX = 8192 };

/* Calls of one group follow each other at once. */
static const int64_t group_ns = 1000000;
/* Kernels of other streams and threads come by other buffers: a few flushes of the library. */
static const int64_t settle_ns = 150000000;

struct call {
	struct collective_part part;
	uint64_t handle;
};

struct kernel {
	int64_t launch_ns, start_ns, stop_ns;
	uint32_t stream;
	uint8_t operation;
};

struct kernel_calls {
	bool on;
	size_t call_count, kernel_count;
	size_t decided, taken; /* of the first calls */
	struct kernel_calls_counts counts;
	struct call calls[CALLS_MAX];	    /* ascending by time */
	struct kernel kernels[KERNELS_MAX]; /* ascending by launch */
};

struct kernel_calls *kernel_calls_create(void)
{
	return calloc(1, sizeof(struct kernel_calls));
}

void kernel_calls_destroy(struct kernel_calls *calls)
{
	free(calls);
}

/* Names as "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclKernel_..." before NCCL 2.19. */
static bool parse_name(const char *name, uint8_t *operation)
{
	static const struct {
		const char *word;
		uint8_t operation;
	} words[] = {{"AllReduce", OPERATION_ALL_REDUCE}, {"AllGather", OPERATION_ALL_GATHER},
		{"ReduceScatter", OPERATION_REDUCE_SCATTER}, {"Broadcast", OPERATION_BROADCAST},
		{"Reduce", OPERATION_REDUCE}, {"SendRecv", OPERATION_SEND}};
	const char *at = strstr(name, "ncclDevKernel");

	if (!at)
		at = strstr(name, "ncclKernel");
	if (!at)
		return false;
	*operation = OPERATION_UNKNOWN;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strstr(at, words[i].word)) {
			*operation = words[i].operation;
			break;
		}
	}
	return true;
}

/* NCCL carries several kinds by a kernel of another name: only a plain contradiction counts. */
static bool fits(uint8_t kernel, uint8_t call)
{
	return kernel == OPERATION_UNKNOWN || kernel == call || kernel == OPERATION_SEND ||
	       call == OPERATION_ALL_TO_ALL || call == OPERATION_GATHER ||
	       call == OPERATION_SCATTER;
}

static void forget_taken(struct kernel_calls *calls)
{
	if (calls->taken < CALLS_MAX / 2 && calls->taken != calls->call_count)
		return;
	calls->call_count -= calls->taken;
	calls->decided -= calls->taken;
	memmove(calls->calls, calls->calls + calls->taken,
		calls->call_count * sizeof(calls->calls[0]));
	calls->taken = 0;
}

void kernel_calls_call(
	struct kernel_calls *calls, const struct collective_part *part, uint64_t handle)
{
	forget_taken(calls);
	if (calls->call_count == CALLS_MAX) {
		calls->counts.dropped++;
		return;
	}
	struct call *call = &calls->calls[calls->call_count++];

	*call = (struct call){.part = *part, .handle = handle};
	call->part.flags |= PART_ENQUEUE_ONLY;
	call->part.enqueue = part->arrival;
	call->part.departure = part->arrival;
}

void kernel_calls_kernel(struct kernel_calls *calls, const struct kernel_calls_kernel *kernel)
{
	struct kernel made = {.launch_ns = kernel->launch.value,
		.start_ns = kernel->start.value,
		.stop_ns = kernel->stop.value,
		.stream = kernel->stream};
	size_t place = calls->kernel_count;

	if (!parse_name(kernel->name, &made.operation) || made.launch_ns <= 0 || made.start_ns <= 0)
		return;
	if (calls->kernel_count == KERNELS_MAX) {
		calls->counts.dropped++;
		if (calls->decided < calls->call_count)
			return;
		calls->kernel_count = place = 0; /* of no call that is seen */
	}
	while (place > 0 && calls->kernels[place - 1].launch_ns > made.launch_ns)
		place--;
	memmove(calls->kernels + place + 1, calls->kernels + place,
		(calls->kernel_count - place) * sizeof(made));
	calls->kernels[place] = made;
	calls->kernel_count++;
}

void kernel_calls_switch(struct kernel_calls *calls, bool on)
{
	calls->on = on;
}

static int64_t time_of(const struct kernel_calls *calls, size_t call)
{
	return call < calls->call_count ? calls->calls[call].part.arrival.value : INT64_MAX;
}

/* The calls of the turn that begins at the first undecided one: until a kernel is launched. */
static size_t end_of_turn(const struct kernel_calls *calls, size_t first_kernel)
{
	int64_t launch_ns = first_kernel < calls->kernel_count
				    ? calls->kernels[first_kernel].launch_ns
				    : INT64_MAX;
	size_t end = calls->decided + 1;

	while (end < calls->call_count && time_of(calls, end) <= launch_ns)
		end++;
	return end;
}

static size_t kernels_before(const struct kernel_calls *calls, int64_t time_ns)
{
	size_t count = 0;

	while (count < calls->kernel_count && calls->kernels[count].launch_ns < time_ns)
		count++;
	return count;
}

static void set_times(struct kernel_calls *calls, size_t call, const struct kernel *kernel)
{
	struct collective_part *part = &calls->calls[call].part;

	part->flags &= (uint8_t)~PART_ENQUEUE_ONLY;
	part->flags |= PART_DEVICE_TIME;
	part->stream = (uint8_t)(1 + kernel->stream % UINT8_MAX);
	part->arrival.value = kernel->start_ns;
	part->departure.value = kernel->stop_ns;
}

static bool turn_fits(
	const struct kernel_calls *calls, size_t end, size_t first_kernel, size_t kernel_count)
{
	size_t call_count = end - calls->decided;

	if (kernel_count != call_count && kernel_count != 1)
		return false;
	if (kernel_count != call_count &&
		time_of(calls, end - 1) - time_of(calls, calls->decided) > group_ns)
		return false; /* no group: kernels are missing */
	for (size_t i = 0; i < call_count; i++) {
		const struct call *call = &calls->calls[calls->decided + i];
		const struct kernel *kernel =
			&calls->kernels[first_kernel + (kernel_count == 1 ? 0 : i)];

		if (kernel_count == 1 && call->handle != calls->calls[calls->decided].handle)
			return false;
		/* A group's kernel has the name of one of its calls. */
		if (kernel_count == call_count && !fits(kernel->operation, call->part.operation))
			return false;
		if (kernel->start_ns < call->part.enqueue.value)
			return false;
	}
	return true;
}

static void decide_turn(
	struct kernel_calls *calls, size_t end, size_t first_kernel, size_t kernel_count)
{
	size_t call_count = end - calls->decided;

	if (turn_fits(calls, end, first_kernel, kernel_count)) {
		for (size_t i = 0; i < call_count; i++)
			set_times(calls, calls->decided + i,
				&calls->kernels[first_kernel + (kernel_count == 1 ? 0 : i)]);
		calls->counts.matched += call_count;
	} else if (calls->on) {
		calls->counts.unmatched += call_count;
	}
	calls->decided = end;
	/* Kernels up to here belong to decided calls, or to none that is seen. */
	size_t used = first_kernel + kernel_count;
	calls->kernel_count -= used;
	memmove(calls->kernels, calls->kernels + used,
		calls->kernel_count * sizeof(calls->kernels[0]));
}

/* A stream's kernels become known in order: one that was launched later says all are there. */
static bool is_complete(
	const struct kernel_calls *calls, size_t first_kernel, size_t count, int64_t now_ns)
{
	if (!count || now_ns - calls->kernels[first_kernel + count - 1].stop_ns < settle_ns)
		return false;
	for (size_t i = first_kernel; i < first_kernel + count; i++) {
		bool later = false;

		for (size_t k = first_kernel + count; k < calls->kernel_count && !later; k++)
			later = calls->kernels[k].stream == calls->kernels[i].stream;
		if (!later)
			return false;
	}
	return true;
}

static bool decide(struct kernel_calls *calls, struct host_ns now, bool finish)
{
	size_t first_kernel, end, kernel_count;

	if (calls->decided == calls->call_count)
		return false;
	first_kernel = kernels_before(calls, time_of(calls, calls->decided));
	end = end_of_turn(calls, first_kernel);
	kernel_count = kernels_before(calls, time_of(calls, end)) - first_kernel;
	bool late = now.value - time_of(calls, end - 1) > KERNEL_CALLS_WAIT_NS;

	if (!calls->on || finish || late ||
		(end < calls->call_count &&
			is_complete(calls, first_kernel, kernel_count, now.value))) {
		/* Several calls, and no kernel yet: the later ones may still get theirs. */
		if (kernel_count == 0 && !finish && calls->on)
			end = calls->decided + 1;
		decide_turn(calls, end, first_kernel, kernel_count);
		return true;
	}
	return false;
}

bool kernel_calls_take(
	struct kernel_calls *calls, struct host_ns now, bool finish, struct collective_part *part)
{
	if (calls->taken == calls->decided && !decide(calls, now, finish))
		return false;
	*part = calls->calls[calls->taken++].part;
	return true;
}

void kernel_calls_get_counts(const struct kernel_calls *calls, struct kernel_calls_counts *counts)
{
	*counts = calls->counts;
}
