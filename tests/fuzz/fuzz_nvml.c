/* SPDX-License-Identifier: Apache-2.0 */
/* A driver whose library answers anything: results, counts, texts. */
#include <dlfcn.h>

#include "probe/sources/nvml.h"
#include "tests/fuzz/fuzz.h"

enum { LOOKS = 8, PROCESS_BYTES = 24, UTILIZATION_BYTES = 32, RATES_BYTES = 8 };

static struct fuzz_input input;

/* The first byte of an answer is its result: mostly success, or there would be few answers. */
static int answer(void *out, size_t length)
{
	uint8_t result;

	fuzz_take(&input, &result, 1);
	if (out)
		fuzz_take(&input, out, length);
	return result < 0xe0 ? 0 : result & 0xf;
}

/* The functions that the sampler asks the library for: this program is its library. */
#define EXPORTED __attribute__((visibility("default")))
EXPORTED int nvmlInit_v2(void);
EXPORTED int nvmlShutdown(void);
EXPORTED int nvmlDeviceGetCount_v2(unsigned *count);
EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
EXPORTED int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *entries);
EXPORTED int nvmlDeviceGetProcessUtilization(
	void *device, void *entries, unsigned *count, unsigned long long since_us);
EXPORTED int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz);
EXPORTED int nvmlDeviceGetUtilizationRates(void *device, void *rates);
EXPORTED int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons);
EXPORTED int nvmlDeviceGetTotalEccErrors(
	void *device, int type, int counter, unsigned long long *count);

int nvmlInit_v2(void)
{
	return answer(NULL, 0);
}

int nvmlShutdown(void)
{
	return answer(NULL, 0);
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	return answer(count, sizeof(*count));
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = &input;
	(void)index;
	return answer(NULL, 0);
}

/* The driver fills as many as there is room for, and tells of more. */
static int list(unsigned *count, void *entries, size_t entry_bytes)
{
	unsigned room = *count;
	uint8_t more;
	int result = answer(&more, 1);

	*count = more == UINT8_MAX ? UINT32_MAX : more;
	for (unsigned i = 0; i < *count && i < room && input.length; i++)
		fuzz_take(&input, (char *)entries + i * entry_bytes, entry_bytes);
	return result;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *entries)
{
	(void)device;
	return list(count, entries, PROCESS_BYTES);
}

int nvmlDeviceGetProcessUtilization(
	void *device, void *entries, unsigned *count, unsigned long long since_us)
{
	(void)device;
	(void)since_us;
	return list(count, entries, UTILIZATION_BYTES);
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz)
{
	(void)device;
	(void)type;
	return answer(mhz, sizeof(*mhz));
}

int nvmlDeviceGetUtilizationRates(void *device, void *rates)
{
	(void)device;
	return answer(rates, RATES_BYTES);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
	(void)device;
	return answer(reasons, sizeof(*reasons));
}

int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *count)
{
	(void)device;
	(void)type;
	(void)counter;
	return answer(count, sizeof(*count));
}

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags)
{
	return __real_dlopen(strcmp(path, "libnvidia-ml.so.1") == 0 ? NULL : path, flags);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct metric_sample samples[SAMPLER_SAMPLES_MAX];
	struct sampler *sampler;
	struct hurry hurry;

	input = (struct fuzz_input){bytes, length};
	hurry_init(&hurry, 1000000000, 0.01, 1000000000);
	fuzz_require(nvml_sampler_create(1, 0, &hurry, &sampler) == 0);
	for (int64_t i = 1; i <= LOOKS; i++) {
		struct host_ns now = {i * 1000000000};

		(void)hurry_follow(&hurry, i == LOOKS / 2, now);
		fuzz_require(sampler_sample(sampler, now, samples, SAMPLER_SAMPLES_MAX) <=
			     SAMPLER_SAMPLES_MAX);
	}
	sampler_destroy(sampler);
	return 0;
}
