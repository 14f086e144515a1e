/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/elf_paths.h"

#include <fcntl.h>
#include <gelf.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Replaces $ORIGIN and ${ORIGIN} by the folder of the file. */
static void expand_origin(const char *text, const char *path, char out[PATH_MAX])
{
	char real[PATH_MAX];
	size_t used = 0;
	const char *folder;

	if (!realpath(path, real))
		snprintf(real, sizeof(real), "%s", path);
	folder = dirname(real);
	while (*text && used + 1 < PATH_MAX) {
		size_t skip = !strncmp(text, "$ORIGIN", 7)     ? 7
			      : !strncmp(text, "${ORIGIN}", 9) ? 9
							       : 0;

		if (skip) {
			int added = snprintf(out + used, PATH_MAX - used, "%s", folder);

			used += (size_t)added < PATH_MAX - used ? (size_t)added
								: PATH_MAX - used - 1;
			text += skip;
		} else {
			out[used++] = *text++;
		}
	}
	out[used] = '\0';
}

void elf_paths_visit(
	const char *path, void (*visit)(void *context, const char *folders), void *context)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char folders[PATH_MAX];
	Elf *elf;

	if (fd < 0)
		return;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	for (Elf_Scn *section = elf ? elf_nextscn(elf, NULL) : NULL; section;
		section = elf_nextscn(elf, section)) {
		GElf_Shdr header;
		GElf_Dyn entry;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNAMIC ||
			header.sh_entsize == 0)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		for (size_t i = 0; data && i < header.sh_size / header.sh_entsize; i++) {
			if (!gelf_getdyn(data, (int)i, &entry) ||
				(entry.d_tag != DT_RPATH && entry.d_tag != DT_RUNPATH))
				continue;
			const char *text = elf_strptr(elf, header.sh_link, entry.d_un.d_val);
			if (text) {
				expand_origin(text, path, folders);
				visit(context, folders);
			}
		}
	}
	if (elf)
		elf_end(elf);
	close(fd);
}
