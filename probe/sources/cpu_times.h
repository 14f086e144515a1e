/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the CPUs of this host did, from /proc/stat: how long each wanted to run something, and how long the
 * hypervisor ran something else meanwhile (steal). Read once for all ranks of a look. For one thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_CPU_TIMES_H
#define SLOWRANK_PROBE_SOURCES_CPU_TIMES_H

#include <sched.h>

#include "analysis/base/step.h"

enum { CPU_TIMES_CPUS_MAX = CPU_SETSIZE };

/* Of one CPU since boot, in ticks of /proc/stat. */
struct cpu_ticks {
	bool present;
	int64_t stolen;
	int64_t wanted; /* all but idle: stolen ones too, for somebody wanted to run */
};

/*
 * Reads the lines "cpuN ..." of /proc/stat (proc(5)): user nice system idle iowait irq softirq steal; guest
 * time is in user time already. ticks: CPU_TIMES_CPUS_MAX of them. Returns how many were found; lines that are
 * cut short, have fewer numbers (kernels before 2.6.11 count no steal) or numbers that are none are left out.
 */
size_t cpu_times_parse(const char *text, struct cpu_ticks *ticks);

struct cpu_times;

/* Returns 0 or -ENOMEM. What cannot be read is told by each look. */
int cpu_times_create(struct cpu_times **times) __attribute__((warn_unused_result));
void cpu_times_destroy(struct cpu_times *times); /* NULL is fine */

/*
 * What the CPUs of a set did between the last two looks, in ns, both 0 after the first one. A new look is taken
 * when none had the same now. Returns 0; -ENOTSUP when nothing of the kind is in /proc/stat; -ENODATA when this is a
 * guest that was never told of stolen time: its hypervisor may not say. Or why /proc/stat cannot be read.
 */
int cpu_times_look(struct cpu_times *times, struct host_ns now, const cpu_set_t *cpus,
	int64_t *stolen_ns, int64_t *wanted_ns) __attribute__((warn_unused_result));

#endif
