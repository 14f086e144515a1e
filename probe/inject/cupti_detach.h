/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes CUPTI out of the process again. Once it was started, every call into CUDA goes through it
 * and costs more, though nothing is recorded any more; only cuptiFinalize() ends that. It is safe where a
 * call into CUDA returns, so it is done there: by the next thread of the program that leaves one.
 * begin, poll and cancel are the helper's.
 */
#ifndef SLOWRANK_PROBE_INJECT_CUPTI_DETACH_H
#define SLOWRANK_PROBE_INJECT_CUPTI_DETACH_H

#include <stdbool.h>

#include "probe/inject/cupti_abi.h"

/* The callback of every subscription of ours; nothing happens in it but what begin() asks for. */
void cupti_detach_callback(void *user, uint32_t domain, uint32_t id, const void *data);

/* cupti stays valid. False: this CUPTI cannot (before CUDA 12.6), or said no. */
bool cupti_detach_begin(const struct cupti_abi *cupti, void *subscriber);

/* It is done; the subscriber is gone with it. */
bool cupti_detach_is_done(void);

/* No thread came by. False: one is at it just now. */
bool cupti_detach_cancel(void);

#endif
