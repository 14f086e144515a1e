/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/symbol_names.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/attach/confined.h"
#include "probe/attach/elf_file.h"

enum { SYMBOLS_AT_ONCE = 256 };

struct work {
	char path[PATH_MAX];
	size_t count;
	struct symbol_name names[];
};

static int compare_names(const void *a, const void *b)
{
	const struct symbol_name *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

/* The first of those that lie at an address or behind. */
static size_t first_from(const struct work *work, uint64_t address)
{
	size_t low = 0, high = work->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (work->names[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void take_symbol(const struct elf_file *file, const GElf_Shdr *texts, const GElf_Sym *symbol,
	struct work *work)
{
	size_t at = first_from(work, symbol->st_value), length;
	char name[SYMBOL_NAME_LENGTH];

	if (at == work->count || work->names[at].address - symbol->st_value >= symbol->st_size)
		return;
	length = elf_file_read_some(file, texts, symbol->st_name, name, sizeof(name) - 1);
	name[length] = '\0';
	for (char *c = name; *c; c++) {
		if (!isprint((unsigned char)*c))
			*c = '?';
	}
	if (!name[0])
		return;
	for (; at < work->count && work->names[at].address - symbol->st_value < symbol->st_size;
		at++) {
		char *kept = work->names[at].name;

		if (!kept[0] || strspn(name, "_") < strspn(kept, "_"))
			memcpy(kept, name, sizeof(name));
	}
}

static void visit_table(const struct elf_file *file, const GElf_Shdr *table, const GElf_Shdr *texts,
	struct work *work)
{
	uint64_t count = table->sh_size / sizeof(GElf_Sym);
	GElf_Sym symbols[SYMBOLS_AT_ONCE];

	for (uint64_t i = 0; i < count; i++) {
		const GElf_Sym *symbol = &symbols[i % SYMBOLS_AT_ONCE];
		uint64_t left = count - i;
		unsigned type;

		if (i % SYMBOLS_AT_ONCE == 0 &&
			elf_file_read(file, table, i * sizeof(*symbol), symbols,
				sizeof(*symbol) *
					(left < SYMBOLS_AT_ONCE ? left : SYMBOLS_AT_ONCE)))
			return;
		type = GELF_ST_TYPE(symbol->st_info);
		if (symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC))
			take_symbol(file, texts, symbol, work);
	}
}

static void visit_kind(const struct elf_file *file, unsigned type, struct work *work)
{
	for (Elf_Scn *section = elf_nextscn(file->elf, NULL); section;
		section = elf_nextscn(file->elf, section)) {
		GElf_Shdr table, texts;
		Elf_Scn *names;

		if (!gelf_getshdr(section, &table) || table.sh_type != type ||
			table.sh_entsize != sizeof(GElf_Sym))
			continue;
		names = elf_getscn(file->elf, table.sh_link);
		if (names && gelf_getshdr(names, &texts) && texts.sh_type == SHT_STRTAB)
			visit_table(file, &table, &texts, work);
	}
}

static int read_names(void *context)
{
	struct work *work = context;
	struct elf_file file;
	int error = elf_file_open(work->path, &file);

	if (error)
		return error;
	visit_kind(&file, SHT_SYMTAB, work);
	visit_kind(&file, SHT_DYNSYM, work); /* of a file that is stripped; else the same again */
	return 0;
}

int symbol_names_find(const char *path, struct symbol_name *names, size_t count)
{
	size_t bytes = sizeof(struct work) + count * sizeof(*names);
	struct work *work = calloc(1, bytes);
	int error;

	assert(count <= SYMBOL_NAMES_MAX);
	if (!work)
		return -ENOMEM;
	snprintf(work->path, sizeof(work->path), "%s", path);
	work->count = count;
	memcpy(work->names, names, count * sizeof(*names));
	for (size_t i = 0; i < count; i++)
		work->names[i].name[0] = '\0';
	qsort(work->names, count, sizeof(*names), compare_names);
	error = confined_call(read_names, work, bytes);
	if (!error)
		memcpy(names, work->names, count * sizeof(*names));
	free(work);
	return error;
}
