/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks symbols up by name. In .dynsym as the loader does, by the file's own hash table (.gnu.hash, else
 * .hash): that reads a few KiB of a library of any size. What has no hash table (.symtab) is gone through
 * once, in a small buffer. Reads the file, keeps nothing; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_ELF_SYMBOLS_H
#define SLOWRANK_PROBE_ATTACH_ELF_SYMBOLS_H

#include <stdbool.h>

#include "probe/attach/elf_file.h"

enum { ELF_SYMBOL_NAME_MAX = 127 }; /* of those that are looked for */

struct elf_symbol_search {
	const char *const *names; /* each once */
	size_t count;
	unsigned types; /* a bit for each STT_ that will do */
	/* A defined symbol with the name of that index: false ends the search. */
	bool (*found)(void *context, size_t index, const GElf_Sym *symbol);
	void *context;
};

/* .dynsym before .symtab. Returns 0, -ENOMEM, or -ENOEXEC when what should be read is not in the file. */
int elf_symbols_find(const struct elf_file *file, const struct elf_symbol_search *search)
	__attribute__((warn_unused_result));

#endif
