/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stacks/modules.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANGES_MAX = 2 * MODULES_MAX, SEGMENTS_MAX = 64, LINE_LENGTH = 4352, LINES_MAX = 262144 };

int modules_init(struct modules *modules)
{
	*modules = (struct modules){.modules = calloc(MODULES_MAX, sizeof(struct module)),
		.ranges = calloc(RANGES_MAX, sizeof(struct code_range))};
	if (modules->modules && modules->ranges)
		return 0;
	modules_fini(modules);
	return -ENOMEM;
}

void modules_fini(struct modules *modules)
{
	free(modules->modules);
	free(modules->ranges);
	*modules = (struct modules){0};
}

/* What the program headers say, which are mapped with the first page of a file. */
static void read_headers(struct module *module, struct memory_view *memory)
{
	bool placed = false;
	Elf64_Ehdr header;

	if (memory_view_read(memory, module->base, &header, sizeof(header)) ||
		memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
		header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
		return;
	for (unsigned i = 0; i < header.e_phnum && i < SEGMENTS_MAX; i++) {
		Elf64_Phdr segment;

		if (memory_view_read(memory, module->base + header.e_phoff + i * sizeof(segment),
			    &segment, sizeof(segment)))
			return;
		if (segment.p_type == PT_LOAD && !placed) {
			module->bias = module->base - (segment.p_vaddr - segment.p_offset);
			placed = true;
		} else if (segment.p_type == PT_GNU_EH_FRAME && placed) {
			module->unwind_table = module->bias + segment.p_vaddr;
			module->unwind_end = module->unwind_table + segment.p_memsz;
		}
	}
	module->readable = placed;
}

struct line {
	uint64_t start, end, offset, inode;
	char permissions[5];
	const char *path; /* in the text; "" = anonymous */
};

static bool read_line(char *text, struct line *line)
{
	int path_at = 0;

	text[strcspn(text, "\n")] = '\0';
	if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64 " %n",
		    &line->start, &line->end, line->permissions, &line->offset, &line->inode,
		    &path_at) != 5 ||
		line->end <= line->start)
		return false;
	line->path = text + (path_at ? (size_t)path_at : strlen(text));
	return true;
}

/* A mapping of a file's begin starts a module; the others of the same file follow it. */
static void take_line(struct modules *modules, const struct line *line, int *current)
{
	struct module *module = *current == MODULE_NONE ? NULL : &modules->modules[*current];
	bool named = line->inode != 0 || strcmp(line->path, "[vdso]") == 0;

	if (named && line->offset == 0 &&
		(!module || strcmp(module->path, line->path) != 0 || line->start < module->base)) {
		if (modules->module_count == MODULES_MAX ||
			strlen(line->path) >= MODULE_PATH_LENGTH) {
			modules->left_out++;
			*current = MODULE_NONE;
			return;
		}
		*current = (int)modules->module_count++;
		module = &modules->modules[*current];
		*module = (struct module){.base = line->start};
		snprintf(module->path, sizeof(module->path), "%s", line->path);
		snprintf(module->range, sizeof(module->range), "%" PRIx64 "-%" PRIx64, line->start,
			line->end);
	}
	if (line->permissions[2] != 'x')
		return;
	if (modules->range_count == RANGES_MAX) {
		modules->left_out++;
		return;
	}
	bool belongs = named && module && strcmp(module->path, line->path) == 0;

	modules->ranges[modules->range_count++] =
		(struct code_range){line->start, line->end, belongs ? *current : MODULE_NONE};
}

int modules_read(struct modules *modules, pid_t pid, struct memory_view *memory)
{
	char path[32], text[LINE_LENGTH];
	struct modules next;
	int current = MODULE_NONE, error;
	struct line line;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT ? -ESRCH : -errno;
	error = modules_init(&next);
	for (unsigned i = 0; !error && i < LINES_MAX && fgets(text, sizeof(text), file); i++) {
		if (read_line(text, &line))
			take_line(&next, &line, &current);
	}
	fclose(file);
	if (!error && next.range_count == 0)
		error = -ESRCH; /* a process that ended has an empty file */
	if (error) {
		modules_fini(&next);
		return error;
	}
	for (size_t i = 0; i < next.module_count; i++)
		read_headers(&next.modules[i], memory);
	modules_fini(modules);
	*modules = next;
	return 0;
}

const struct code_range *modules_find(const struct modules *modules, uint64_t address)
{
	size_t low = 0, high = modules->range_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct code_range *range = &modules->ranges[middle];

		if (address < range->start)
			high = middle;
		else if (address >= range->end)
			low = middle + 1;
		else
			return range;
	}
	return NULL;
}
