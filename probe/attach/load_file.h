/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives a file of ours to another process under a path that it can open, whatever its mounts and
 * root are: through a memory file that it made, or, where it sees no /proc, as a copy in its own
 * folders that is removed again.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LOAD_FILE_H
#define SLOWRANK_PROBE_ATTACH_LOAD_FILE_H

#include <stdint.h>
#include <sys/types.h>

#include "probe/attach/load_stub.h"

struct load_file {
	char path[LOAD_PATH_BYTES];	     /* as the process opens it */
	char to_remove[LOAD_PATH_BYTES * 2]; /* from here; "" = nothing */
};

/* memory_fd: of the process, or negative. Returns 0 or a negative errno; file is always set. */
int load_file_provide(pid_t pid, const char *path, const char *name, int32_t memory_fd,
	struct load_file *file) __attribute__((warn_unused_result));
void load_file_remove(const struct load_file *file);

#endif
