/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/elf_paths.h"

#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/attach/elf_file.h"

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

struct dynamic_visit {
	int64_t tag, other_tag;
	void (*visit)(void *context, const char *text);
	void *context;
};

static void visit_section(
	const struct elf_file *file, const GElf_Shdr *section, const struct dynamic_visit *visit)
{
	Elf_Scn *names_section = elf_getscn(file->elf, section->sh_link);
	GElf_Shdr names;
	Elf64_Dyn entry;

	if (!names_section || !gelf_getshdr(names_section, &names))
		return;
	for (uint64_t at = 0; elf_file_read(file, section, at, &entry, sizeof(entry)) == 0 &&
			      entry.d_tag != DT_NULL;
		at += sizeof(entry)) {
		char text[PATH_MAX];
		size_t length;

		if (entry.d_tag != visit->tag && entry.d_tag != visit->other_tag)
			continue;
		length = elf_file_read_some(file, &names, entry.d_un.d_val, text, sizeof(text));
		if (memchr(text, '\0', length))
			visit->visit(visit->context, text);
	}
}

/* Calls visit with the text of each entry of the dynamic section that has one of two tags. */
static void visit_dynamic(const char *path, const struct dynamic_visit *visit)
{
	struct elf_file file;
	GElf_Shdr section;

	if (elf_file_open(path, &file) < 0)
		return;
	for (Elf_Scn *at = elf_nextscn(file.elf, NULL); at; at = elf_nextscn(file.elf, at)) {
		if (gelf_getshdr(at, &section) && section.sh_type == SHT_DYNAMIC)
			visit_section(&file, &section, visit);
	}
	elf_file_close(&file);
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

	visit_dynamic(path, &(struct dynamic_visit){DT_RPATH, DT_RUNPATH, on_run_path, &outer});
}

void elf_needed_visit(
	const char *path, void (*visit)(void *context, const char *name), void *context)
{
	visit_dynamic(path, &(struct dynamic_visit){DT_NEEDED, DT_NEEDED, visit, context});
}
