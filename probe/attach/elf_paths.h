/* SPDX-License-Identifier: Apache-2.0 */
/* The folders that an ELF file names for its libraries. Reads the file, keeps nothing. */
#ifndef SLOWRANK_PROBE_ATTACH_ELF_PATHS_H
#define SLOWRANK_PROBE_ATTACH_ELF_PATHS_H

/* Calls visit with each RPATH and RUNPATH (colon-separated folders), $ORIGIN replaced. */
void elf_paths_visit(
	const char *path, void (*visit)(void *context, const char *folders), void *context);

#endif
