/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions addresses lie in, by an ELF file's symbols (.symtab, else .dynsym). The file is read in a process
 * that can do nothing else; keeps nothing; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_SYMBOL_NAMES_H
#define SLOWRANK_PROBE_ATTACH_SYMBOL_NAMES_H

#include <stddef.h>
#include <stdint.h>

enum { SYMBOL_NAME_LENGTH = 96, SYMBOL_NAMES_MAX = 512 };

struct symbol_name {
	uint64_t address;	       /* as the file has it */
	char name[SYMBOL_NAME_LENGTH]; /* cut where it is longer; "" = no symbol covers it */
};

/*
 * Fills in the names; count: SYMBOL_NAMES_MAX at most. Sorts by address. Of several symbols the one with
 * the fewest leading underscores counts. Returns 0, -ENOENT when the file cannot be opened, -ENOEXEC, -ENOMEM.
 */
int symbol_names_find(const char *path, struct symbol_name *names, size_t count)
	__attribute__((warn_unused_result));

#endif
