/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/elf_paths.h"

#include <fcntl.h>
#include <gelf.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
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

/* Calls visit with the text of each entry of the dynamic section that has one of two tags. */
static void visit_dynamic(const char *path, int64_t tag, int64_t other_tag,
	void (*visit)(void *context, const char *text), void *context)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf;

	if (fd < 0)
		return;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
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
				(entry.d_tag != tag && entry.d_tag != other_tag))
				continue;
			const char *text = elf_strptr(elf, header.sh_link, entry.d_un.d_val);
			if (text)
				visit(context, text);
		}
	}
	if (elf)
		elf_end(elf);
	close(fd);
}

struct run_path_visit {
	const char *path;
	void (*visit)(void *context, const char *folders);
	void *context;
};

static void on_run_path(void *context, const char *text)
{
	struct run_path_visit *outer = context;
	char folders[PATH_MAX];

	expand_origin(text, outer->path, folders);
	outer->visit(outer->context, folders);
}

void elf_paths_visit(
	const char *path, void (*visit)(void *context, const char *folders), void *context)
{
	struct run_path_visit outer = {path, visit, context};

	visit_dynamic(path, DT_RPATH, DT_RUNPATH, on_run_path, &outer);
}

void elf_needed_visit(
	const char *path, void (*visit)(void *context, const char *name), void *context)
{
	visit_dynamic(path, DT_NEEDED, DT_NEEDED, visit, context);
}
