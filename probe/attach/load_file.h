/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives a file of ours to another process under a path that it can open, whatever its mounts and
 * root are: through a memory file that it made, or, where it sees no /proc or its descriptors
 * cannot be had, as a copy in its own folders that is removed again. The process is not trusted:
 * nothing is written but into an empty memory file of its own user, or into a new file that this
 * user could have made. One thread: the copy is made with that user's rights.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LOAD_FILE_H
#define SLOWRANK_PROBE_ATTACH_LOAD_FILE_H

#include <stdint.h>
#include <sys/types.h>

#include "probe/attach/load_stub.h"

struct load_file {
	char path[LOAD_PATH_BYTES]; /* as the process opens it */
	int folder;		    /* of the copy; negative: there is none */
	dev_t device;		    /* of the copy */
	ino_t inode;
};

/*
 * memory_fd: of the process, or negative. Returns 0 or a negative errno: -EBADF when memory_fd is
 * not what the process was made to create, -ENOSYS before Linux 5.6. file is always set.
 */
int load_file_provide(pid_t pid, const char *path, const char *name, int32_t memory_fd,
	struct load_file *file) __attribute__((warn_unused_result));
/* Removes the copy, if there is one. */
void load_file_remove(struct load_file *file);

#endif
