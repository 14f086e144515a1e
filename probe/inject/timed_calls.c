/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/timed_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "probe/inject/code_pointers.h"
#include "probe/inject/process.h"
#include "probe/inject/timed_events.h"

enum {
	GROUP_CALLS_MAX = 256, /* of a thread; what is more is not timed */
	GROUP_PAIRS_MAX = GROUP_CALLS_MAX / TIMED_CALLS_MAX,
	PATH_BYTES_MAX = 4096,
	/*
	 * A thread may be within a group when its calls begin to come here, and its end would be taken for that of
	 * none: groups are counted from the start, calls are timed only later.
	 */
	SETTLE_NS = 1000000000,
	REPORT_NS =
		250000000, /* what has no times waits for it: device_calls.c takes it for lost after 2 s */
};
/*
 * NCCL 2.28 launches a call in 5 to 15 us, a group of 24 in 140. In what took longer, the host was held up,
 * before the launch or behind it.
 */
#define LAUNCH_LONGEST_NS INT64_C(200000)
/*
 * Pointers that are set later, by a library that is opened, or by the first call of a function: after 5 s, 10,
 * 20... A look goes through all data of all libraries.
 */
#define LOOK_AGAIN_NS INT64_C(5000000000)
#define LOOK_SELDOM_NS INT64_C(300000000000)

enum timed_function {
	TIMED_ALL_REDUCE,
	TIMED_BROADCAST,
	TIMED_BCAST, /* in place: what PyTorch broadcasts buffers with */
	TIMED_REDUCE,
	TIMED_ALL_GATHER,
	TIMED_REDUCE_SCATTER,
	TIMED_ALL_TO_ALL,
	TIMED_GATHER,
	TIMED_SCATTER,
	TIMED_SEND,
	TIMED_RECEIVE,
	TIMED_GROUP_END,
	TIMED_GROUP_START, /* the last: see swap() */
	TIMED_FUNCTION_NR
};

struct grouped_call {
	struct timed_call call;
	void *stream;
};

struct group {
	uint32_t turn; /* that it was counted in */
	uint32_t depth;
	bool more_mixed; /* calls that had no room differ from the first */
	size_t count;
	struct grouped_call calls[GROUP_CALLS_MAX];
};

static struct {
	void *real[TIMED_FUNCTION_NR]; /* set before the first wrapper is called */
	uint32_t turn;		       /* atomic: of being on, from 1; 0: off */
	bool timing;		       /* atomic */
	/* The helper's. */
	bool found, on;
	uint32_t turns;
	uint32_t pointers;
	int64_t begun_ns, next_look_ns, look_again_ns, reported_ns;
} timed;

static _Thread_local struct group group;

static bool is_timing(void)
{
	return __atomic_load_n(&timed.timing, __ATOMIC_RELAXED) && process_is_live() &&
	       !__atomic_load_n(&process_control()->paused, __ATOMIC_RELAXED);
}

static void forget_calls(struct group *own)
{
	own->count = 0;
	own->more_mixed = false;
}

/* The thread's group; one of an earlier turn, whose end was not seen, is forgotten. */
static struct group *own_group(void)
{
	uint32_t turn = __atomic_load_n(&timed.turn, __ATOMIC_RELAXED);

	if (group.turn != turn) {
		group.turn = turn;
		group.depth = 0;
		forget_calls(&group);
	}
	return &group;
}

/* One call of a collective, from before NCCL's function until after it. */
struct frame {
	bool timing;
	struct group *group; /* NULL: not within one */
	struct timed_pair *pair;
	int64_t entered_ns, launching_ns;
};

static void enter(struct frame *frame, void *stream)
{
	int kept = errno;

	*frame = (struct frame){.timing = is_timing()};
	if (frame->timing) {
		struct group *own = own_group();

		frame->entered_ns = process_now_ns();
		if (own->depth)
			frame->group = own;
		else
			frame->pair = timed_events_start(stream, 1);
		frame->launching_ns = process_now_ns();
	}
	errno = kept;
}

static int64_t launched(int64_t from_ns, int64_t until_ns)
{
	return until_ns - from_ns < LAUNCH_LONGEST_NS ? until_ns : from_ns;
}

static void add_call(struct group *own, const struct timed_call *call, void *stream)
{
	const struct grouped_call *first = &own->calls[0];

	if (own->count < GROUP_CALLS_MAX) {
		own->calls[own->count++] = (struct grouped_call){*call, stream};
		return;
	}
	own->more_mixed |= first->stream != stream || first->call.handle != call->handle;
	timed_events_count_failed(1);
}

static int leave(const struct frame *frame, void *communicator, void *stream, int result)
{
	struct timed_call call = {(uint64_t)(uintptr_t)communicator, frame->entered_ns, 0};
	int kept = errno;

	if (!frame->timing)
		return result;
	call.returned_ns = process_now_ns();
	if (frame->pair && result) /* in progress: it will be launched by another thread */
		timed_events_cancel(frame->pair, 1);
	else if (frame->pair)
		timed_events_stop(
			frame->pair, &call, 1, launched(frame->launching_ns, call.returned_ns));
	else if (frame->group && !result)
		add_call(frame->group, &call, stream);
	else if (frame->group)
		timed_events_count_failed(1);
	timed_events_spent(
		frame->launching_ns - frame->entered_ns, process_now_ns() - call.returned_ns, 1);
	errno = kept;
	return result;
}

struct group_pair {
	struct timed_pair *pair;
	size_t count;
	struct timed_call calls[TIMED_CALLS_MAX];
};

/* Calls of several communicators on one stream: which kernel is whose is not known. */
static bool is_mixed(const struct group *own, const struct grouped_call *first)
{
	for (size_t i = 0; i < own->count; i++) {
		if (own->calls[i].stream == first->stream &&
			own->calls[i].call.handle != first->call.handle)
			return true;
	}
	return own->more_mixed;
}

/* Takes calls of one stream, that of the first: all, or as many as a pair takes. False: no more. */
static bool take_stream(struct group *own, struct group_pair *taken)
{
	struct grouped_call first = own->calls[0];
	bool mixed = is_mixed(own, &first);
	size_t kept = 0;

	if (!own->count)
		return false;
	taken->count = 0;
	for (size_t i = 0; i < own->count; i++) {
		const struct grouped_call *call = &own->calls[i];

		if (call->stream == first.stream && mixed)
			timed_events_count_failed(1);
		else if (call->stream == first.stream && taken->count < TIMED_CALLS_MAX)
			taken->calls[taken->count++] = call->call;
		else
			own->calls[kept++] = *call;
	}
	own->count = kept;
	taken->pair = mixed ? NULL : timed_events_start(first.stream, taken->count);
	return true;
}

static int end_group(struct group *own, int (*real)(void))
{
	struct group_pair pairs[GROUP_PAIRS_MAX];
	int64_t entered_ns = process_now_ns(), launching_ns, returned_ns;
	size_t count = 0;
	int result, kept = errno;

	while (count < GROUP_PAIRS_MAX && take_stream(own, &pairs[count]))
		count += pairs[count].pair != NULL;
	timed_events_count_failed(own->count);
	forget_calls(own);
	launching_ns = process_now_ns();
	errno = kept;
	result = real();
	kept = errno;
	returned_ns = process_now_ns();
	for (size_t i = 0; i < count; i++) {
		if (result)
			timed_events_cancel(pairs[i].pair, pairs[i].count);
		else
			timed_events_stop(pairs[i].pair, pairs[i].calls, pairs[i].count,
				launched(launching_ns, returned_ns));
	}
	timed_events_spent(launching_ns - entered_ns, process_now_ns() - returned_ns, count);
	errno = kept;
	return result;
}

static int wrap_group_start(void)
{
	int (*real)(void);

	memcpy(&real, &timed.real[TIMED_GROUP_START], sizeof(real));
	own_group()->depth++;
	return real();
}

static int wrap_group_end(void)
{
	struct group *own = own_group();
	int (*real)(void);

	memcpy(&real, &timed.real[TIMED_GROUP_END], sizeof(real));
	if (own->depth)
		own->depth--;
	if (own->depth == 0 && own->count && is_timing())
		return end_group(own, real);
	if (own->depth == 0)
		forget_calls(own);
	return real();
}

/* nccl.h: enums are ints, communicators and streams are pointers. */
#define WRAP(function, index, parameters, arguments)                                               \
	static int function parameters                                                             \
	{                                                                                          \
		int(*real) parameters;                                                             \
		struct frame frame;                                                                \
                                                                                                   \
		memcpy(&real, &timed.real[index], sizeof(real));                                   \
		enter(&frame, stream);                                                             \
		return leave(&frame, communicator, stream, real arguments);                        \
	}

WRAP(wrap_all_reduce, TIMED_ALL_REDUCE,
	(const void *input, void *output, size_t count, int type, int operation, void *communicator,
		void *stream),
	(input, output, count, type, operation, communicator, stream))
WRAP(wrap_broadcast, TIMED_BROADCAST,
	(const void *input, void *output, size_t count, int type, int root, void *communicator,
		void *stream),
	(input, output, count, type, root, communicator, stream))
WRAP(wrap_bcast, TIMED_BCAST,
	(void *buffer, size_t count, int type, int root, void *communicator, void *stream),
	(buffer, count, type, root, communicator, stream))
WRAP(wrap_reduce, TIMED_REDUCE,
	(const void *input, void *output, size_t count, int type, int operation, int root,
		void *communicator, void *stream),
	(input, output, count, type, operation, root, communicator, stream))
WRAP(wrap_all_gather, TIMED_ALL_GATHER,
	(const void *input, void *output, size_t count, int type, void *communicator, void *stream),
	(input, output, count, type, communicator, stream))
WRAP(wrap_reduce_scatter, TIMED_REDUCE_SCATTER,
	(const void *input, void *output, size_t count, int type, int operation, void *communicator,
		void *stream),
	(input, output, count, type, operation, communicator, stream))
WRAP(wrap_all_to_all, TIMED_ALL_TO_ALL,
	(const void *input, void *output, size_t count, int type, void *communicator, void *stream),
	(input, output, count, type, communicator, stream))
WRAP(wrap_gather, TIMED_GATHER,
	(const void *input, void *output, size_t count, int type, int root, void *communicator,
		void *stream),
	(input, output, count, type, root, communicator, stream))
WRAP(wrap_scatter, TIMED_SCATTER,
	(const void *input, void *output, size_t count, int type, int root, void *communicator,
		void *stream),
	(input, output, count, type, root, communicator, stream))

WRAP(wrap_send, TIMED_SEND,
	(const void *input, size_t count, int type, int peer, void *communicator, void *stream),
	(input, count, type, peer, communicator, stream))
WRAP(wrap_receive, TIMED_RECEIVE,
	(void *output, size_t count, int type, int peer, void *communicator, void *stream),
	(output, count, type, peer, communicator, stream))

#define ROW(name, wrapper)                                                                         \
	{                                                                                          \
		name, (uintptr_t)(wrapper)                                                         \
	}
static const struct {
	const char *name;
	uintptr_t wrapper;
} functions[TIMED_FUNCTION_NR] = {
	[TIMED_ALL_REDUCE] = ROW("ncclAllReduce", wrap_all_reduce),
	[TIMED_BROADCAST] = ROW("ncclBroadcast", wrap_broadcast),
	[TIMED_BCAST] = ROW("ncclBcast", wrap_bcast),
	[TIMED_REDUCE] = ROW("ncclReduce", wrap_reduce),
	[TIMED_ALL_GATHER] = ROW("ncclAllGather", wrap_all_gather),
	[TIMED_REDUCE_SCATTER] = ROW("ncclReduceScatter", wrap_reduce_scatter),
	[TIMED_ALL_TO_ALL] = ROW("ncclAlltoAll", wrap_all_to_all),
	[TIMED_GATHER] = ROW("ncclGather", wrap_gather),
	[TIMED_SCATTER] = ROW("ncclScatter", wrap_scatter),
	[TIMED_SEND] = ROW("ncclSend", wrap_send),
	[TIMED_RECEIVE] = ROW("ncclRecv", wrap_receive),
	[TIMED_GROUP_END] = ROW("ncclGroupEnd", wrap_group_end),
	[TIMED_GROUP_START] = ROW("ncclGroupStart", wrap_group_start),
};

/* Functions that this NCCL has not stay NULL, and unasked for. */
static bool find_functions(void)
{
	char path[PATH_BYTES_MAX];
	void *library;

	if (timed.found || !timed_events_load() ||
		code_pointers_library("libnccl.so", path, sizeof(path)))
		return timed.found;
	library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	for (size_t i = 0; library && i < TIMED_FUNCTION_NR; i++)
		timed.real[i] = dlsym(library, functions[i].name);
	timed.found = timed.real[TIMED_ALL_REDUCE] && timed.real[TIMED_GROUP_START] &&
		      timed.real[TIMED_GROUP_END];
	return timed.found;
}

/* No start of a group may come here unless its end does: it is the last to come, and the first to go. */
static uint32_t swap(bool on)
{
	struct code_pointer pairs[TIMED_FUNCTION_NR];
	size_t count = 0;

	for (size_t i = 0; i < TIMED_FUNCTION_NR; i++) {
		size_t function = on ? i : TIMED_FUNCTION_NR - 1 - i;
		uintptr_t real = (uintptr_t)timed.real[function];
		uintptr_t wrapper = functions[function].wrapper;

		if (real)
			pairs[count++] = on ? (struct code_pointer){real, wrapper}
					    : (struct code_pointer){wrapper, real};
	}
	return (uint32_t)code_pointers_swap(pairs, count);
}

static void look_for_pointers(int64_t now_ns)
{
	timed.next_look_ns = now_ns + timed.look_again_ns;
	if (timed.look_again_ns < LOOK_SELDOM_NS)
		timed.look_again_ns *= 2;
	if (find_functions())
		timed.pointers += swap(true);
}

static void begin(int64_t now_ns)
{
	timed.on = true;
	timed.begun_ns = now_ns;
	timed.pointers = 0;
	timed.look_again_ns = LOOK_AGAIN_NS;
	timed_events_forget();
	__atomic_store_n(&timed.turn, ++timed.turns, __ATOMIC_RELAXED);
	look_for_pointers(now_ns);
}

/* The code stays: a thread may be in it. */
static void end(void)
{
	timed.on = false;
	__atomic_store_n(&timed.timing, false, __ATOMIC_RELAXED);
	if (!timed.found)
		return;
	(void)swap(false);
}

void timed_calls_poll(void)
{
	int64_t now_ns = process_now_ns();
	bool wanted =
		__atomic_load_n(&process_control()->timed_until_host_ns, __ATOMIC_RELAXED) > now_ns;

	if (wanted && !timed.on)
		begin(now_ns);
	else if (!wanted && timed.on)
		end();
	if (!timed.on)
		return;
	if (now_ns - timed.begun_ns >= SETTLE_NS)
		__atomic_store_n(&timed.timing, true, __ATOMIC_RELAXED);
	if (now_ns >= timed.next_look_ns)
		look_for_pointers(now_ns);
	if (timed.found)
		timed_events_poll();
	if (now_ns - timed.reported_ns >= REPORT_NS) {
		timed.reported_ns = now_ns;
		timed_events_report(timed.pointers);
	}
}
