// SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only)
/*
 * The kernel side: library calls and launches (uprobes), off-CPU accounting, page faults, the process tree.
 * Everything is filtered to the tracked processes first. Per-thread state lives in task
 * storage; what a thread did between communication calls accumulates there and leaves with the
 * next collective's record. One object, so that all programs share the maps; the probe loads it
 * without those that a kernel refuses.
 */
#include "calls.bpf.h"
#include "faults.bpf.h"
#include "off_cpu.bpf.h"
#include "process_tree.bpf.h"

char LICENSE[] SEC("license") = "GPL";
