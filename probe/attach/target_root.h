/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds files of another process as that process sees them. Its root, its mounts and its links may
 * be the choice of an ordinary user, so no path leads out of its root, and what is found is not
 * opened before it is known to be a regular file: a FIFO could block, a device act. Needs openat2()
 * (Linux 5.6). Keeps nothing; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_TARGET_ROOT_H
#define SLOWRANK_PROBE_ATTACH_TARGET_ROOT_H

#include <sys/types.h>

/*
 * What the process finds at path, links followed as it would follow them; flags: 0 or O_DIRECTORY.
 * Returns a descriptor of O_PATH, which the caller closes, or a negative errno: -ENOSYS before
 * Linux 5.6, -ELOOP for a link of the kernel's (/proc/PID/fd/N).
 */
int target_root_find(pid_t pid, const char *path, int flags) __attribute__((warn_unused_result));

/*
 * Opens the regular file that a descriptor of O_PATH is, with O_RDONLY or O_RDWR, and closes that
 * one, whatever comes. Returns a descriptor, -EINVAL when it is no regular file, or another
 * negative errno; a negative found is returned as it is.
 */
int target_file_open(int found, int flags) __attribute__((warn_unused_result));

/* Whose rights a process has on files, and whose the files are that it makes. */
struct target_owner {
	uid_t user;
	gid_t group;
};

/* Returns 0, -ESRCH, or another negative errno. */
int target_owner_read(pid_t pid, struct target_owner *owner) __attribute__((warn_unused_result));

#endif
