/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deep looks of a probe: asks processes for them when the coordinator wants it, and turns what
 * comes into profiles. Each process has one look at a time; a process in which it cannot work is
 * left alone for a while, as is one that launches so much that a look would slow it down
 * (launch_rates.h), which is counted first. One thread.
 */
#ifndef SLOWRANK_PROBE_DEVICE_LOOKS_H
#define SLOWRANK_PROBE_DEVICE_LOOKS_H

#include "probe/job.h"
#include "probe/launch_rates.h"
#include "probe/options.h"
#include "probe/sources/ring_source.h"

enum {
	DEVICE_LOOKS_AT_ONCE = 16, /* more have to wait */
	DEVICE_LOOKS_STEPS_MAX = 200,
	DEVICE_LOOKS_LIMIT_MS_MAX = 60000,
	DEVICE_LOOKS_BASELINE_STEP = 40, /* with --deep on, each rank is looked at once, early */
	DEVICE_LOOKS_BASELINE_STEPS = 12,
};
/*
 * What a process may be looked at, whoever asks: so much of its time on average, and so long in a row.
 * A coordinator gone wild must not slow the job down.
 */
enum { DEVICE_LOOKS_OF_PROCESS_MAX = 16 }; /* in all: CUPTI is not made for being switched often */
#define DEVICE_LOOKS_SHARE 0.05
#define DEVICE_LOOKS_SPENT_NS_MAX INT64_C(20000000000)
/* After a process could not be looked at; another profiler may be gone by then. */
#define DEVICE_LOOKS_REST_NS INT64_C(600000000000)
/* For a count of launches: windows have a length of whole steps, and some seconds in between. */
#define DEVICE_LOOKS_COUNT_NS INT64_C(30000000000)

struct device_looks;

struct device_looks_options {
	enum probe_deep deep;
	bool attached; /* then looks are only made when asked for in words: deep is on */
	bool can_count; /* launches can be counted; if not, looks of `run` are made with deep on alone */
};

/* rings, job and rates outlive it. Returns NULL without memory. */
struct device_looks *device_looks_create(const struct device_looks_options *options,
	struct ring_source *rings, struct job *job, const struct launch_rates *rates);
void device_looks_destroy(struct device_looks *looks); /* NULL is fine */

/* Does what a directive says: once for each request number. */
void device_looks_ask(
	struct device_looks *looks, const struct message_directive *directive, struct host_ns now);

/* A step of a rank, in order. */
void device_looks_step(struct device_looks *looks, pid_t pid, const struct step_entry *step);

/* What the rings tell. */
void device_looks_hello(struct device_looks *looks, pid_t pid);
void device_looks_kernel(struct device_looks *looks, const struct ring_source_kernel *kernel);
void device_looks_copy(struct device_looks *looks, const struct ring_source_memcpy *copy);
void device_looks_synchronisation(
	struct device_looks *looks, const struct ring_source_synchronisation *synchronisation);
/* A look at the process is under way: others' requests would end it. */
bool device_looks_is_busy(const struct device_looks *looks, pid_t pid);
void device_looks_report(
	struct device_looks *looks, pid_t pid, const struct ring_deep_report *report);
void device_looks_ended(struct device_looks *looks, pid_t pid);

/* Some look waits until what its process launches is counted. */
bool device_looks_wants_launches(const struct device_looks *looks);

/* Starts baselines and what waited for a count, ends looks. To be called after the rings were emptied. */
void device_looks_tick(struct device_looks *looks, struct host_ns now);

/* What is done since the last call: stays valid until the next tick. Returns the count. */
size_t device_looks_take(struct device_looks *looks, struct kernel_profile **profiles);

/* Results that did not fit and were lost here. */
uint64_t device_looks_lost(const struct device_looks *looks);

/* "device.kernels". False: no process has the library in it ("device.time" says why). */
bool device_looks_state(const struct device_looks *looks, struct message_source *out);

#endif
