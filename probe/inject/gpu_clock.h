/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's globaltimer against CLOCK_MONOTONIC, measured by a kernel of one thread that writes
 * the timer into host memory, the best of many launches (docs/clocks.md). Optional: without
 * libcuda, a current context, or during a stream capture, nothing happens. Called where NCCL makes
 * a communicator, which allocates and waits for the device itself; never in the steps of training.
 * One thread at a time does it, others pass by.
 */
#ifndef SLOWRANK_PROBE_INJECT_GPU_CLOCK_H
#define SLOWRANK_PROBE_INJECT_GPU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Measures the current context's device and writes a clock pair; at most every 10 s a device. */
void gpu_clock_measure(void);

/* The current context's device, or 255. */
uint8_t gpu_clock_device(void);

/*
 * Every context that gpu_clock_device() was asked in has its threads spin or yield while they wait for the device, as
 * CUDA has it where nobody asks for anything else. False where that is not known.
 */
bool gpu_clock_waits_spin(void);

/* As cuDriverGetVersion tells it; 0 = there is no driver library in this process. */
int32_t gpu_clock_driver_version(void);

#endif
