/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that a process has mapped: which file (or other module, such as the vDSO) an address belongs to, where its
 * tables for unwinding lie, and what to take from an address to get the one in the file. All of it is read from the
 * process's memory and /proc/PID/maps; no file is opened. One thread.
 */
#ifndef SLOWRANK_PROBE_STACKS_MODULES_H
#define SLOWRANK_PROBE_STACKS_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/stacks/memory_view.h"

enum {
	MODULES_MAX = 2048,
	MODULE_PATH_LENGTH = 512,
	MODULE_RANGE_LENGTH = 40, /* "START-END" as in /proc/PID/maps */
	MODULE_NONE = -1,
};

struct module {
	char path[MODULE_PATH_LENGTH]; /* as its process sees it; "[vdso]" is none */
	char range[MODULE_RANGE_LENGTH];
	uint64_t base;	       /* where the ELF header is mapped */
	uint64_t bias;	       /* address in the process - address in the file */
	uint64_t unwind_table; /* .eh_frame_hdr; 0 = none */
	uint64_t unwind_end;
	bool readable; /* it has an ELF header that can be read */
};

/* An executable range of addresses. */
struct code_range {
	uint64_t start, end;
	int module; /* MODULE_NONE: code that is in no file */
};

struct modules {
	struct module *modules;
	struct code_range *ranges; /* in order */
	size_t module_count, range_count;
	size_t left_out; /* modules or ranges that did not fit */
};

/* Returns 0 or -ENOMEM. */
int modules_init(struct modules *modules) __attribute__((warn_unused_result));
void modules_fini(struct modules *modules);

/*
 * Reads what is mapped now in place of what was before. Returns 0, -ESRCH when the process is gone, -EACCES, or another
 * negative errno; what was there before then stays.
 */
int modules_read(struct modules *modules, pid_t pid, struct memory_view *memory)
	__attribute__((warn_unused_result));

/* The range that holds an address; NULL when it is no code. */
const struct code_range *modules_find(const struct modules *modules, uint64_t address);

#endif
