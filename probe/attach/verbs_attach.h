/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where verbs can be probed. Two kinds of places: libibverbs' exported functions, by name; and the
 * provider's post_send and poll_cq, which have no names and are reached through pointers in a
 * process's memory. Reads files, keeps nothing; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_VERBS_ATTACH_H
#define SLOWRANK_PROBE_ATTACH_VERBS_ATTACH_H

#include <stdint.h>
#include <sys/types.h>

#include "probe/attach/first_opcode.h"
#include "probe/attach/library.h"

/* Offsets in the file; 0 = it has no such function. Only default versions count. */
struct verbs_library {
	uint64_t open_device, import_device, create_cq, create_qp, modify_qp, destroy_qp;
};

/* Returns 0, -ENOENT when the file cannot be opened, -ENOEXEC when it is no libibverbs. */
int verbs_library_read(const char *path, struct verbs_library *library)
	__attribute__((warn_unused_result));

/* The libibverbs.so.1 that a process has mapped. Returns 0, -ENOENT, -ESRCH or -EACCES. */
int verbs_library_find(pid_t pid, struct library_file *file) __attribute__((warn_unused_result));

/* A function of a provider. */
struct verbs_place {
	struct library_file file;
	uint64_t
		offset; /* in the file; moved behind an expensive first instruction where harmless */
	enum opcode_cost cost;
};

/*
 * What lies at an address of a process. Returns 0; -ENOENT when it is in no executable mapping of a
 * file (generated code); -ESRCH, -EACCES, -EIO.
 */
int verbs_place_find(pid_t pid, uint64_t address, struct verbs_place *place)
	__attribute__((warn_unused_result));

#endif
