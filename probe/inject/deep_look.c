/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/deep_look.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "probe/inject/activity_buffers.h"
#include "probe/inject/process.h"

enum { PATH_BYTES_MAX = 4096, CLOCK_SAMPLES = 100, KINDS = 5 };
enum { STEADY_FLUSH_NS = 50000000, STEADY_CLOCK_NS = 1000000000 };
enum { END_PATIENCE_NS = 500000000 };

static const char *const cupti_names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"};
static const char *const runtime_names[] = {
	"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};

static const struct {
	uint32_t wanted, kind;
} kinds[KINDS] = {{RING_DEEP_KERNELS, CUPTI_ABI_KIND_CONCURRENT_KERNEL},
	{RING_DEEP_COPIES, CUPTI_ABI_KIND_MEMCPY},
	{RING_DEEP_SYNCHRONISATION, CUPTI_ABI_KIND_SYNCHRONIZATION},
	{RING_DEEP_LAUNCHES, CUPTI_ABI_KIND_DRIVER}, {RING_DEEP_LAUNCHES, CUPTI_ABI_KIND_RUNTIME}};

/* Of the helper thread alone, but for cupti, which CUPTI's threads read. */
static struct {
	bool loaded;
	struct cupti_abi cupti;
	void *subscriber;
	bool on, ending;   /* ending: nothing new is recorded, what is under way is waited for */
	bool with_runtime; /* a steady look records the runtime's calls, too */
	enum ring_deep_state end_state;
	int end_error;
	int64_t end_ns;
	uint32_t request, wanted;
	uint32_t taken; /* the last request that was looked at */
	uint32_t guest; /* a look that a steady one serves; 0: none */
	int64_t guest_stop_ns;
	int64_t stop_ns;
	int64_t flushed_ns, clock_ns; /* of a steady look: when last */
} look;

static bool find(void *library, const char *name, void *function)
{
	void *symbol = dlsym(library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

/* libcupti beside the runtime library that is loaded: pip's packages put it elsewhere too. */
static void *open_beside(const char *runtime, const char *name)
{
	void *library = dlopen(runtime, RTLD_NOW | RTLD_NOLOAD), *symbol;
	char path[PATH_BYTES_MAX];
	const char *slash;
	Dl_info place;
	int length;

	if (!library)
		return NULL;
	symbol = dlsym(library, "cudaRuntimeGetVersion");
	if (!symbol || !dladdr(symbol, &place) || !place.dli_fname)
		return NULL;
	slash = strrchr(place.dli_fname, '/');
	if (!slash)
		return NULL;
	for (int i = 0; i < 3; i++) {
		static const char *const folders[] = {
			"", "../extras/CUPTI/lib64/", "../../cuda_cupti/lib/"};

		length = snprintf(path, sizeof(path), "%.*s/%s%s", (int)(slash - place.dli_fname),
			place.dli_fname, folders[i], name);
		if (length < 0 || (size_t)length >= sizeof(path))
			continue;
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (library)
			return library;
	}
	return NULL;
}

static void *open_cupti(void)
{
	void *library = NULL;

	for (size_t i = 0; i < sizeof(cupti_names) / sizeof(cupti_names[0]) && !library; i++)
		library = dlopen(cupti_names[i], RTLD_NOW | RTLD_NOLOAD);
	for (size_t i = 0; i < sizeof(cupti_names) / sizeof(cupti_names[0]) && !library; i++)
		library = open_beside(runtime_names[i], cupti_names[i]);
	return library;
}

static bool load(void)
{
	void *library;

	if (look.loaded)
		return true;
	library = open_cupti();
	if (!library)
		return false;
	look.loaded =
		find(library, "cuptiSubscribe", &look.cupti.subscribe) &&
		find(library, "cuptiUnsubscribe", &look.cupti.unsubscribe) &&
		find(library, "cuptiActivityRegisterCallbacks", &look.cupti.register_callbacks) &&
		find(library, "cuptiActivityEnable", &look.cupti.enable) &&
		find(library, "cuptiActivityDisable", &look.cupti.disable) &&
		find(library, "cuptiActivityFlushAll", &look.cupti.flush_all) &&
		find(library, "cuptiActivityGetNextRecord", &look.cupti.next_record) &&
		find(library, "cuptiGetTimestamp", &look.cupti.timestamp);
	(void)find(library, "cuptiActivityGetNumDroppedRecords", &look.cupti.dropped_records);
	return look.loaded;
}

static void report(uint32_t request, enum ring_deep_state state, int error, int64_t host_ns)
{
	struct activity_counts counts;
	struct ring_deep_report record = {.request = request,
		.state = (uint32_t)state,
		.error = error,
		.kinds = look.wanted,
		.host_ns = host_ns};

	activity_buffers_counts(&counts);
	record.record_count = counts.records;
	record.dropped = counts.dropped;
	record.invalid = counts.invalid;
	process_write(RING_RECORD_DEEP_STATE, &record, sizeof(record));
}

/* CUPTI's clock against ours: the narrowest of many brackets. */
static void write_clock(void)
{
	struct ring_clock_pair pair = {
		.domain = RING_CLOCK_CUPTI, .device = -1, .error_ns = INT64_MAX};

	for (int i = 0; i < CLOCK_SAMPLES; i++) {
		int64_t before = process_now_ns(), after;
		uint64_t stamp;

		if (look.cupti.timestamp(&stamp) != CUPTI_ABI_SUCCESS) {
			pair.failed_count++;
			continue;
		}
		after = process_now_ns();
		pair.sample_count++;
		if ((after - before + 1) / 2 >= pair.error_ns)
			continue;
		pair.error_ns = (after - before + 1) / 2;
		pair.host_ns = before + (after - before) / 2;
		pair.gpu_ns = (int64_t)stamp;
	}
	if (pair.sample_count)
		process_write(RING_RECORD_CLOCK_PAIR, &pair, sizeof(pair));
}

/* Subscribing is only to hold the place: no callback is ever enabled. */
static void ignore_callback(void *user, uint32_t domain, uint32_t id, const void *data)
{
	(void)user;
	(void)domain;
	(void)id;
	(void)data;
}

/*
 * Never a forced flush: that hands out records of kernels which still run, and CUPTI may write into
 * them when these end, wherever the buffer is by then.
 */
static void end_look(enum ring_deep_state state, int error)
{
	for (size_t i = 0; i < KINDS; i++) {
		if (look.wanted & kinds[i].wanted)
			(void)look.cupti.disable(kinds[i].kind);
	}
	look.on = false;
	look.ending = true;
	look.end_state = state;
	look.end_error = error;
	look.end_ns = process_now_ns();
}

static void go_on_ending(void)
{
	(void)look.cupti.flush_all(0);
	if (!activity_buffers_idle() && process_now_ns() - look.end_ns < END_PATIENCE_NS)
		return;
	activity_buffers_flushed(true);
	write_clock();
	(void)look.cupti.unsubscribe(look.subscriber);
	look.subscriber = NULL;
	look.ending = false;
	report(look.request, look.end_state, look.end_error, look.end_ns);
}

/* A steady look does without the runtime's calls, which are many, where the driver's show launches. */
static bool is_wanted(size_t kind)
{
	return look.wanted & kinds[kind].wanted &&
	       (kinds[kind].kind != CUPTI_ABI_KIND_RUNTIME || look.with_runtime ||
		       !(look.wanted & RING_DEEP_STEADY));
}

static void begin_look(void)
{
	int error;

	if (!load()) {
		report(look.request, RING_DEEP_NO_LIBRARY, 0, process_now_ns());
		return;
	}
	if (!activity_buffers_begin(&look.cupti, look.wanted & RING_DEEP_LAUNCHES)) {
		report(look.request, RING_DEEP_FAILED, 0, process_now_ns());
		return;
	}
	error = look.cupti.subscribe(&look.subscriber, ignore_callback, NULL);
	if (error != CUPTI_ABI_SUCCESS) {
		report(look.request,
			error == CUPTI_ABI_MULTIPLE_SUBSCRIBERS ? RING_DEEP_OTHER_SUBSCRIBER
								: RING_DEEP_FAILED,
			error, process_now_ns());
		return;
	}
	write_clock();
	error = look.cupti.register_callbacks(activity_buffer_requested, activity_buffer_completed);
	for (size_t i = 0; i < KINDS && error == CUPTI_ABI_SUCCESS; i++) {
		if (is_wanted(i))
			error = look.cupti.enable(kinds[i].kind);
	}
	look.on = true;
	if (error == CUPTI_ABI_SUCCESS)
		report(look.request, RING_DEEP_ON, 0, process_now_ns());
	else
		end_look(RING_DEEP_FAILED, error);
}

static void end_guest(void)
{
	if (look.guest)
		report(look.guest, RING_DEEP_OFF, 0, process_now_ns());
	look.guest = 0;
}

/*
 * While kernels are shown steadily, another look is part of it, whatever it wants: switching CUPTI in a
 * program that runs is what harms it.
 */
static void take_guest(const struct ring_control *control, uint32_t request, uint32_t wanted)
{
	end_guest();
	if (wanted & RING_DEEP_STEADY) {
		look.request = request;
		look.stop_ns = __atomic_load_n(&control->deep_stop_host_ns, __ATOMIC_RELAXED);
		report(request, RING_DEEP_ON, 0, process_now_ns());
		return;
	}
	if (!wanted)
		return;
	look.guest = request;
	look.guest_stop_ns = __atomic_load_n(&control->deep_stop_host_ns, __ATOMIC_RELAXED);
	report(request, RING_DEEP_ON, 0, process_now_ns());
}

static void take_request(const struct ring_control *control, uint32_t request)
{
	look.request = request;
	look.wanted = __atomic_load_n(&control->deep_kinds, __ATOMIC_RELAXED);
	look.stop_ns = __atomic_load_n(&control->deep_stop_host_ns, __ATOMIC_RELAXED);
	if (look.wanted & ~(uint32_t)RING_DEEP_STEADY && look.stop_ns > process_now_ns())
		begin_look();
	else
		report(request, RING_DEEP_OFF, 0, process_now_ns());
}

/* CUPTI hands out full buffers only, if it is not asked; its clock drifts over hours. */
static void keep_steady(int64_t now_ns)
{
	if (now_ns - look.flushed_ns >= STEADY_FLUSH_NS) {
		look.flushed_ns = now_ns;
		(void)look.cupti.flush_all(0);
		activity_buffers_flushed(false);
		if (look.wanted & RING_DEEP_LAUNCHES && !look.with_runtime &&
			!activity_buffers_launches_known()) {
			look.with_runtime = true; /* for good */
			(void)look.cupti.enable(CUPTI_ABI_KIND_RUNTIME);
		}
	}
	if (now_ns - look.clock_ns >= STEADY_CLOCK_NS) {
		look.clock_ns = now_ns;
		write_clock();
	}
}

void deep_look_poll(void)
{
	const struct ring_control *control = process_control();
	uint32_t request = __atomic_load_n(&control->deep_request, __ATOMIC_ACQUIRE);
	uint32_t wanted = __atomic_load_n(&control->deep_kinds, __ATOMIC_RELAXED);

	if (look.guest && process_now_ns() >= look.guest_stop_ns)
		end_guest();
	if (look.on && request != look.taken && look.wanted & RING_DEEP_STEADY &&
		wanted != RING_DEEP_STEADY) {
		look.taken = request;
		take_guest(control, request, wanted);
	}
	if (look.on && (process_now_ns() >= look.stop_ns || request != look.taken)) {
		end_guest();
		end_look(RING_DEEP_OFF, 0);
	}
	if (look.ending)
		go_on_ending();
	if (!look.on && !look.ending && request != look.taken) {
		look.taken = request;
		take_request(control, request);
	}
	if (look.on && look.wanted & RING_DEEP_STEADY)
		keep_steady(process_now_ns());
}
