/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the table's symbols lie in an ELF file. Reads the file, keeps nothing; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_SYMBOLS_H
#define SLOWRANK_PROBE_ATTACH_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol_offset {
	bool found;
	uint64_t file_offset; /* bytes from the start of the file, as uprobes want it */
	/* Static probes: the counter that the kernel raises while someone listens; 0 = none. */
	uint64_t reference_offset;
};

/*
 * Fills one entry per row of the table of collectives, from .dynsym and .symtab, and rows named
 * "provider:name" from the notes of static probes (.note.stapsdt, SystemTap's format 3). Undefined
 * symbols are not found. Of two rows at one address only the first is. Returns 0, -ENOENT when
 * the file cannot be opened, -ENOEXEC when it is no ELF file of 64 bits or cut short, -ENOMEM.
 */
int symbols_find_rows(const char *path, struct symbol_offset *offsets)
	__attribute__((warn_unused_result));

/* True when a defined function of the table is in the file. */
bool symbols_has_rows(const char *path);

/* A data symbol to look for. */
struct symbol_object {
	const char *name;
	uint64_t address; /* virtual, as the file has it; 0 = not found */
};

/*
 * Finds the virtual addresses of defined data symbols. Returns how many have an address now, those that
 * had one before included; -ENOENT, -ENOEXEC, -ENOMEM.
 */
int symbols_find_objects(const char *path, struct symbol_object *objects, size_t count,
	bool *position_independent) __attribute__((warn_unused_result));

/* The same for one. Returns 0, -ENOENT, -ENOEXEC, -ENOMEM. */
int symbols_find_object(const char *path, const char *name, uint64_t *address,
	bool *position_independent) __attribute__((warn_unused_result));

#endif
