/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which libraries matter and where they are: of a running process (through
 * /proc/PID/map_files, so that containers and chroots are seen as they see themselves), and
 * of a command before it runs (its dependencies, the loader's cache and paths). Pure functions
 * of the file system; no state, no threads.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LIBRARY_H
#define SLOWRANK_PROBE_ATTACH_LIBRARY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { LIBRARY_PATH_LENGTH = 512, LIBRARY_LINK_LENGTH = 32 };

/* A file to attach to. path finds it from this process's view; name is for people. */
struct library_file {
	uint64_t device;
	uint64_t inode;
	char path[LIBRARY_PATH_LENGTH]; /* may be /proc/PID/root/... or /proc/PID/map_files/... */
	char name[LIBRARY_PATH_LENGTH]; /* as its process sees it, e.g. /usr/lib/libmpi.so.40 */
};

/*
 * Pins a file before its contents are trusted: a process can put another one under the same path, or
 * map it at the same place, at any time. Returns a descriptor of O_PATH, which the caller closes, and
 * in link a path that opens this very file until then; -ESTALE when another one is there by now, or
 * another negative errno.
 */
int library_open(const struct library_file *file, char link[LIBRARY_LINK_LENGTH])
	__attribute__((warn_unused_result));

/*
 * The regular file that a process has mapped at range ("START-END" as in /proc/PID/maps), as name.
 * Returns 0 or a negative errno.
 */
int library_of_mapping(pid_t pid, const char *range, const char *name, struct library_file *file)
	__attribute__((warn_unused_result));

/*
 * Finds the mapped files of a process whose name matches a library pattern of the table of
 * collectives, or whose dynamic symbols hold its rows (NCCL inside libtorch_cuda.so, a
 * statically linked MPI). Writes at most capacity files, no doubles; *count is how many.
 * Returns 0, -ESRCH when the process is gone, -EACCES without rights.
 */
int library_find_in_process(pid_t pid, struct library_file *files, size_t capacity, size_t *count)
	__attribute__((warn_unused_result));

/*
 * Finds the libraries that a command will map, before it runs: looks at every word of argv that
 * names an ELF file (launchers pass the program on), follows its dependencies (RPATH, RUNPATH,
 * LD_LIBRARY_PATH, the loader's cache), and takes every library in the loader's cache and in
 * the usual Python package folders that matches a pattern. Same results as above.
 */
int library_find_for_command(char *const argv[], struct library_file *files, size_t capacity,
	size_t *count) __attribute__((warn_unused_result));

#endif
