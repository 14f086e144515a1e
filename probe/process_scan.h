/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of the job without the kernel's help: a look through /proc for what descends from
 * those known. Finds late what the kernel side tells at once; for hosts where that may not load. One
 * thread.
 */
#ifndef SLOWRANK_PROBE_PROCESS_SCAN_H
#define SLOWRANK_PROBE_PROCESS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "analysis/base/step.h"

struct process_scan;

struct process_scan_callbacks {
	void (*found)(void *context, pid_t pid);
	void (*ended)(void *context, pid_t pid);
};

/* Returns NULL without memory. */
struct process_scan *process_scan_create(void);
void process_scan_destroy(struct process_scan *scan); /* NULL is fine */

/* A process whose descendants belong to the job. */
void process_scan_add_root(struct process_scan *scan, pid_t pid);

/*
 * Looks once: calls found for each new process, ended for each that is gone. Where processes have neither come nor
 * gone for a while, it goes through the host's only every two seconds: there may be thousands.
 */
void process_scan_look(struct process_scan *scan, struct host_ns now,
	const struct process_scan_callbacks *callbacks, void *context);

#endif
