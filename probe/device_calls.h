/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives of one process of which the device's times are known, joined with what its host
 * did before each was enqueued. The two come from different sources: the in-process library tells
 * of a call when the device is done with it, the kernel side tells of the host when it is made. One
 * thread.
 */
#ifndef SLOWRANK_PROBE_DEVICE_CALLS_H
#define SLOWRANK_PROBE_DEVICE_CALLS_H

#include "analysis/base/step.h"

struct device_calls;

/* Returns NULL without memory. */
struct device_calls *device_calls_create(void);
void device_calls_destroy(struct device_calls *calls); /* NULL is fine */

/* What the host did up to a call, since the one before; in order of time. others: running totals of
 * the process's other threads. */
void device_calls_host(struct device_calls *calls, struct host_ns time,
	const struct activity *before, int64_t device_wait_ns, const struct activity *others);

/*
 * Where nobody tells what the host did (no device_calls_host()), a part's launchers_cpu_ns says how long its threads
 * were off the CPU, and this, how long of that they wanted one, or waited for storage, and did not sleep: so much more
 * since it was told last.
 */
void device_calls_delay(struct device_calls *calls, int64_t queued_ns, int64_t block_io_ns);

/*
 * A call that the device is done with: a part with PART_DEVICE_TIME and its enqueue time; or with
 * PART_ENQUEUE_ONLY, if the device does not tell of it. number: of the process's calls, in order of
 * launch, from 1; 0 = not counted, these come in order.
 */
void device_calls_done(
	struct device_calls *calls, const struct collective_part *part, uint64_t number);

/*
 * Hands out the calls done, in the order in which the program made them, with `before` filled: one
 * that was done early waits for those before it, on other streams, for up to two seconds of the
 * device's time (lost ones never come, or too late: without times they are then dropped). finish:
 * there will be no more. Call it when all that the host did until now was told. Returns false when
 * there is none left.
 */
bool device_calls_take(struct device_calls *calls, bool finish, struct collective_part *part,
	struct activity *others);

/* Calls and host records that did not fit, and calls that came too late. */
uint64_t device_calls_dropped(const struct device_calls *calls);

#endif
