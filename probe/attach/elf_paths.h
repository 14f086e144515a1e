/* SPDX-License-Identifier: Apache-2.0 */
/* What an ELF file says of its libraries: names and folders. Reads the file, keeps nothing. */
#ifndef SLOWRANK_PROBE_ATTACH_ELF_PATHS_H
#define SLOWRANK_PROBE_ATTACH_ELF_PATHS_H

/* Calls visit with each RPATH and RUNPATH (colon-separated folders), $ORIGIN replaced. */
void elf_paths_visit(
	const char *path, void (*visit)(void *context, const char *folders), void *context);

/* Calls visit with the name of each library that the file needs, as written in it. */
void elf_needed_visit(
	const char *path, void (*visit)(void *context, const char *name), void *context);

#endif
