/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/gpu_clock.h"

#include <dlfcn.h>
#include <string.h>

#include "probe/inject/cuda_abi.h"
#include "probe/inject/process.h"

#define MEASURE_PERIOD_NS INT64_C(10000000000)
/* All samples together: a device at work may not come to us, and NCCL's init() waits. */
#define MEASURE_TIMEOUT_NS INT64_C(20000000)

enum { SAMPLES = 100, DEVICES = 16 };

/* cell[0] = globaltimer, then cell[1] = the number that was asked for, in this order. */
static const char kernel_ptx[] = ".version 6.0\n"
				 ".target sm_50\n"
				 ".address_size 64\n"
				 ".visible .entry slowrank_globaltimer(\n"
				 "	.param .u64 cell, .param .u64 number)\n"
				 "{\n"
				 "	.reg .b64 %c, %n, %t;\n"
				 "	ld.param.u64 %c, [cell];\n"
				 "	ld.param.u64 %n, [number];\n"
				 "	mov.u64 %t, %globaltimer;\n"
				 "	st.volatile.global.u64 [%c], %t;\n"
				 "	membar.sys;\n"
				 "	st.volatile.global.u64 [%c+8], %n;\n"
				 "	ret;\n"
				 "}\n";

struct device_clock {
	void *context; /* the kernel is loaded there; another context: loaded anew */
	void *stream, *function;
	uint64_t *cell;
	unsigned long long device_cell;
	uint64_t number;
	int64_t measured_ns;
	uint32_t failed_count;
};

static struct {
	int busy; /* atomic */
	struct device_clock devices[DEVICES];
} clocks;

enum waits { WAITS_NOT_KNOWN = 0, WAITS_SPIN = 1, WAITS_SLEEP = 2 };
static int waits; /* atomic, enum waits */

static void *driver_library(void)
{
	/* Never loads it: a process without CUDA stays without. The handle is never given back. */
	return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

static bool find(void *library, const char *name, void *function)
{
	void *symbol = dlsym(library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

static bool load_driver(struct cuda_abi *cuda)
{
	void *library = driver_library();

	return library && find(library, "cuDriverGetVersion", &cuda->driver_get_version) &&
	       find(library, "cuCtxGetCurrent", &cuda->context_get_current) &&
	       find(library, "cuCtxGetDevice", &cuda->context_get_device) &&
	       find(library, "cuThreadExchangeStreamCaptureMode", &cuda->exchange_capture_mode) &&
	       find(library, "cuModuleLoadData", &cuda->module_load_data) &&
	       find(library, "cuModuleGetFunction", &cuda->module_get_function) &&
	       find(library, "cuMemHostAlloc", &cuda->host_alloc) &&
	       find(library, "cuMemHostGetDevicePointer_v2", &cuda->host_get_device_pointer) &&
	       find(library, "cuStreamCreate", &cuda->stream_create) &&
	       find(library, "cuStreamQuery", &cuda->stream_query) &&
	       find(library, "cuLaunchKernel", &cuda->launch_kernel);
}

int32_t gpu_clock_driver_version(void)
{
	void *library = driver_library();
	int (*get_version)(int *version);
	int version = 0;

	if (!library || !find(library, "cuDriverGetVersion", &get_version))
		return 0;
	return get_version(&version) == CUDA_ABI_SUCCESS ? version : 0;
}

static void note_waits(void)
{
	int (*get_flags)(unsigned int *flags);
	unsigned int flags;

	if (!find(driver_library(), "cuCtxGetFlags", &get_flags) ||
		get_flags(&flags) != CUDA_ABI_SUCCESS ||
		(flags & CUDA_ABI_SCHEDULE_MASK) == CUDA_ABI_SCHEDULE_BLOCKING_SYNC)
		__atomic_store_n(&waits, WAITS_SLEEP, __ATOMIC_RELAXED);
	else if (__atomic_load_n(&waits, __ATOMIC_RELAXED) == WAITS_NOT_KNOWN)
		__atomic_store_n(&waits, WAITS_SPIN, __ATOMIC_RELAXED);
}

bool gpu_clock_waits_spin(void)
{
	return __atomic_load_n(&waits, __ATOMIC_RELAXED) == WAITS_SPIN;
}

uint8_t gpu_clock_device(void)
{
	struct cuda_abi cuda;
	int device = -1;

	if (!load_driver(&cuda) || cuda.context_get_device(&device) != CUDA_ABI_SUCCESS ||
		device < 0 || device >= DEVICES)
		return 255;
	note_waits();
	return (uint8_t)device;
}

static bool prepare(const struct cuda_abi *cuda, struct device_clock *clock, void *context)
{
	void *module, *cell;

	if (clock->context == context)
		return clock->function != NULL;
	*clock = (struct device_clock){.context = context, .failed_count = clock->failed_count};
	if (cuda->module_load_data(&module, kernel_ptx) != CUDA_ABI_SUCCESS ||
		cuda->stream_create(&clock->stream, CUDA_ABI_STREAM_NON_BLOCKING) !=
			CUDA_ABI_SUCCESS ||
		cuda->host_alloc(&cell, 2 * sizeof(uint64_t),
			CUDA_ABI_HOST_ALLOC_PORTABLE | CUDA_ABI_HOST_ALLOC_DEVICE_MAPPED) !=
			CUDA_ABI_SUCCESS ||
		cuda->host_get_device_pointer(&clock->device_cell, cell, 0) != CUDA_ABI_SUCCESS)
		return false;
	clock->cell = cell;
	clock->cell[1] = 0;
	return cuda->module_get_function(&clock->function, module, "slowrank_globaltimer") ==
	       CUDA_ABI_SUCCESS;
}

/* One launch: the device read its timer between *before_ns and *after_ns. */
static bool take_sample(const struct cuda_abi *cuda, struct device_clock *clock, int64_t *before_ns,
	int64_t *after_ns, int64_t *gpu_ns)
{
	uint64_t number = ++clock->number;
	void *arguments[] = {&clock->device_cell, &number};
	int64_t before = process_now_ns(), after;

	if (cuda->launch_kernel(clock->function, 1, 1, 1, 1, 1, 1, 0, clock->stream, arguments,
		    NULL) != CUDA_ABI_SUCCESS)
		return false;
	while (__atomic_load_n(&clock->cell[1], __ATOMIC_ACQUIRE) != number) {
		if (process_now_ns() - before > MEASURE_TIMEOUT_NS)
			return false;
	}
	after = process_now_ns();
	*before_ns = before;
	*after_ns = after;
	*gpu_ns = (int64_t)__atomic_load_n(&clock->cell[0], __ATOMIC_RELAXED);
	return *gpu_ns != 0;
}

static void measure_device(const struct cuda_abi *cuda, struct device_clock *clock, int device)
{
	struct ring_clock_pair pair = {
		.domain = RING_CLOCK_GLOBALTIMER, .device = device, .error_ns = INT64_MAX};
	int64_t begin_ns = process_now_ns();

	/* What an earlier measurement gave up may still come: never two kernels on one cell. */
	if (cuda->stream_query(clock->stream) != CUDA_ABI_SUCCESS) {
		clock->failed_count++;
		return;
	}
	while (pair.sample_count < SAMPLES && process_now_ns() - begin_ns < MEASURE_TIMEOUT_NS) {
		int64_t before_ns, after_ns, gpu_ns;

		if (!take_sample(cuda, clock, &before_ns, &after_ns, &gpu_ns)) {
			clock->failed_count++;
			break;
		}
		pair.sample_count++;
		if ((after_ns - before_ns) / 2 >= pair.error_ns)
			continue;
		pair.error_ns = (after_ns - before_ns + 1) / 2;
		pair.host_ns = before_ns + (after_ns - before_ns) / 2;
		pair.gpu_ns = gpu_ns;
	}
	pair.failed_count = clock->failed_count;
	clock->measured_ns = process_now_ns();
	if (pair.sample_count)
		process_write(RING_RECORD_CLOCK_PAIR, &pair, sizeof(pair));
}

static void measure(void)
{
	struct cuda_abi cuda;
	void *context = NULL;
	int device = -1, mode = CUDA_ABI_CAPTURE_MODE_RELAXED;
	struct device_clock *clock;

	if (!load_driver(&cuda) || cuda.context_get_current(&context) != CUDA_ABI_SUCCESS ||
		!context || cuda.context_get_device(&device) != CUDA_ABI_SUCCESS || device < 0 ||
		device >= DEVICES)
		return;
	clock = &clocks.devices[device];
	if (clock->measured_ns && process_now_ns() - clock->measured_ns < MEASURE_PERIOD_NS)
		return;
	/* A capture elsewhere must neither see our launches nor be broken by them. */
	if (cuda.exchange_capture_mode(&mode) != CUDA_ABI_SUCCESS)
		return;
	if (prepare(&cuda, clock, context))
		measure_device(&cuda, clock, device);
	else
		clock->failed_count++;
	(void)cuda.exchange_capture_mode(&mode);
}

void gpu_clock_measure(void)
{
	int free_now = 0;

	if (!process_is_live() || !__atomic_compare_exchange_n(&clocks.busy, &free_now, 1, false,
					  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	measure();
	__atomic_store_n(&clocks.busy, 0, __ATOMIC_RELEASE);
}
