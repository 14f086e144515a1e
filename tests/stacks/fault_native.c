/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fault_job.py calls of C's: work on the CPU, a mutex and who holds it, and a kernel for the stand-in of CUDA. Preloaded: Open
 * MPI then sleeps between two polls, see tests/workload/yield.c.
 */
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "tests/workload/device/cuda_api.h"

#define NATIVE DEVICE_EXPORT __attribute__((noinline))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void sleep_ns(int64_t length_ns)
{
	const struct timespec length = {length_ns / 1000000000, length_ns % 1000000000};

	(void)nanosleep(&length, NULL);
}

NATIVE uint64_t native_churn(int64_t length_ns);
NATIVE void native_hold(int64_t length_ns);
NATIVE int native_enter(void);

/* As long on the CPU as is asked. */
uint64_t native_churn(int64_t length_ns)
{
	uint64_t state = 88172645463325252;

	for (int64_t end = cpu_ns() + length_ns; cpu_ns() < end;) {
		for (int i = 0; i < 20000; i++) {
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
		}
	}
	return state;
}

void native_hold(int64_t length_ns)
{
	pthread_mutex_lock(&mutex);
	sleep_ns(length_ns);
	pthread_mutex_unlock(&mutex);
}

int native_enter(void)
{
	int error = pthread_mutex_lock(&mutex);

	return error ? error : pthread_mutex_unlock(&mutex);
}

/* device_pass_time() of the stand-in, which is loaded later than this. */
extern DEVICE_EXPORT void (*native_pass_time)(int64_t);
void (*native_pass_time)(int64_t);

static void kernel_code(void *const *arguments)
{
	native_pass_time(*(const int64_t *)arguments[0]);
}

extern DEVICE_EXPORT const struct device_function native_kernel;
const struct device_function native_kernel = {
	"forward_backward_kernel", kernel_code, 1, {sizeof(int64_t)}};
