/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of functions in a file that a process has mapped, by the file itself (through
 * /proc/PID/map_files, so that another mount namespace or a replaced file does not mislead).
 * Reads the file, keeps nothing; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LOAD_SYMBOLS_H
#define SLOWRANK_PROBE_ATTACH_LOAD_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct load_elf {
	pid_t pid;
	uint64_t base, first_end; /* of the mapping of its first page */
	const char *path;	  /* as the process sees it */
};

/* Of /proc/PID/exe and the like; 0 when it cannot be told. */
uint64_t load_symbols_inode(const char *path);

/*
 * Calls take for each of names that the file defines as an exported function: the index in names,
 * the address in the process, its length. Returns 0, -ENOENT, or -ENOEXEC when it is no 64-bit ELF
 * file.
 */
int load_symbols_visit(const struct load_elf *elf, const char *const *names, size_t name_count,
	void (*take)(void *context, size_t index, uint64_t address, uint64_t bytes), void *context)
	__attribute__((warn_unused_result));

/* Where code of the file calls rt_sigreturn(): what a signal handler's stack frame returns to. */
int load_symbols_restorers(const struct load_elf *elf, uint64_t *addresses, size_t capacity,
	size_t *count) __attribute__((warn_unused_result));

/*
 * An address behind the last code of the file, in the last page of its code's mapping: bytes that the
 * process runs never. 0: that page has less than bytes left. Returns 0, -ENOENT or -ENOEXEC.
 */
int load_symbols_room(const struct load_elf *elf, size_t bytes, uint64_t *address)
	__attribute__((warn_unused_result));

#endif
