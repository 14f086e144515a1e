/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/symbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/attach/collective_table.h"

struct elf_file {
	int fd;
	Elf *elf;
};

static int elf_file_open(const char *path, struct elf_file *file)
{
	elf_version(EV_CURRENT);
	file->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (file->fd < 0)
		return -ENOENT;
	file->elf = elf_begin(file->fd, ELF_C_READ_MMAP, NULL);
	if (!file->elf || elf_kind(file->elf) != ELF_K_ELF) {
		if (file->elf)
			elf_end(file->elf);
		close(file->fd);
		return -ENOEXEC;
	}
	return 0;
}

static void elf_file_close(struct elf_file *file)
{
	elf_end(file->elf);
	close(file->fd);
}

/* Turns a virtual address into an offset in the file; 0 when no segment holds it. */
static uint64_t file_offset_of(Elf *elf, uint64_t address)
{
	size_t count;
	GElf_Phdr segment;

	if (elf_getphdrnum(elf, &count) != 0)
		return 0;
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_LOAD)
			continue;
		if (address >= segment.p_vaddr && address < segment.p_vaddr + segment.p_filesz)
			return address - segment.p_vaddr + segment.p_offset;
	}
	return 0;
}

typedef bool symbol_visitor(void *context, const char *name, const GElf_Sym *symbol);

/* Calls visit for every defined symbol, until it returns false. */
static void visit_symbols(Elf *elf, symbol_visitor *visit, void *context)
{
	for (Elf_Scn *section = elf_nextscn(elf, NULL); section;
		section = elf_nextscn(elf, section)) {
		GElf_Shdr header;
		GElf_Sym symbol;

		if (!gelf_getshdr(section, &header) || header.sh_entsize == 0 ||
			(header.sh_type != SHT_DYNSYM && header.sh_type != SHT_SYMTAB))
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		size_t count = header.sh_size / header.sh_entsize;
		for (size_t i = 0; data && i < count; i++) {
			if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF)
				continue;
			const char *name = elf_strptr(elf, header.sh_link, symbol.st_name);
			if (name && !visit(context, name, &symbol))
				return;
		}
	}
}

struct row_search {
	Elf *elf;
	struct symbol_offset *offsets;
	size_t found_count;
};

static bool visit_row(void *context, const char *name, const GElf_Sym *symbol)
{
	struct row_search *search = context;

	if (GELF_ST_TYPE(symbol->st_info) != STT_FUNC)
		return true;
	/* Cheap test first: libraries have hundreds of thousands of symbols. */
	if (strncmp(name, "MPI_", 4) && strncmp(name, "nccl", 4) && strncmp(name, "slowrank_", 9) &&
		strncmp(name, "nvtx", 4))
		return true;
	for (size_t row = 0; row < collective_row_count; row++) {
		if (search->offsets[row].found || strcmp(name, collective_rows[row].symbol) != 0)
			continue;
		uint64_t offset = file_offset_of(search->elf, symbol->st_value);
		if (offset == 0)
			return true;
		for (size_t other = 0; other < collective_row_count; other++) {
			if (search->offsets[other].found &&
				search->offsets[other].file_offset == offset)
				return true;
		}
		search->offsets[row] = (struct symbol_offset){true, offset};
		search->found_count++;
		return true;
	}
	return true;
}

int symbols_find_rows(const char *path, struct symbol_offset *offsets)
{
	struct elf_file file;
	int error = elf_file_open(path, &file);

	if (error)
		return error;
	memset(offsets, 0, collective_row_count * sizeof(*offsets));
	struct row_search search = {.elf = file.elf, .offsets = offsets};
	visit_symbols(file.elf, visit_row, &search);
	elf_file_close(&file);
	return 0;
}

bool symbols_has_rows(const char *path)
{
	struct symbol_offset *offsets = calloc(collective_row_count, sizeof(*offsets));
	bool any = false;

	if (offsets && symbols_find_rows(path, offsets) == 0) {
		for (size_t row = 0; row < collective_row_count && !any; row++)
			any = offsets[row].found;
	}
	free(offsets);
	return any;
}

struct object_search {
	const char *name;
	uint64_t address;
	bool found;
};

static bool visit_object(void *context, const char *name, const GElf_Sym *symbol)
{
	struct object_search *search = context;

	if (GELF_ST_TYPE(symbol->st_info) == STT_OBJECT && strcmp(name, search->name) == 0) {
		search->address = symbol->st_value;
		search->found = true;
	}
	return !search->found;
}

int symbols_find_object(
	const char *path, const char *name, uint64_t *address, bool *position_independent)
{
	struct object_search search = {.name = name};
	struct elf_file file;
	GElf_Ehdr header;
	int error = elf_file_open(path, &file);

	if (error)
		return error;
	visit_symbols(file.elf, visit_object, &search);
	if (search.found && gelf_getehdr(file.elf, &header)) {
		*address = search.address;
		*position_independent = header.e_type == ET_DYN;
	}
	elf_file_close(&file);
	return search.found ? 0 : -ENOENT;
}
