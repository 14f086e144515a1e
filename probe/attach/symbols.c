/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/symbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
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
	file->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
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
	if (strncmp(name, "MPI_", 4) && strncmp(name, "nccl", 4) && strncmp(name, "cu", 2) &&
		strncmp(name, "slowrank_", 9) && strncmp(name, "nvtx", 4))
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
		search->offsets[row] = (struct symbol_offset){true, offset, 0};
		search->found_count++;
		return true;
	}
	return true;
}

enum { PROBE_NOTE_TYPE = 3, PROBE_NOTE_WORDS = 3 }; /* NT_STAPSDT: address, base, semaphore */

/* The address of a section's first byte; 0 when there is none of that name. */
static uint64_t section_address(Elf *elf, const char *wanted)
{
	GElf_Shdr header;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return 0;
	for (Elf_Scn *section = elf_nextscn(elf, NULL); section;
		section = elf_nextscn(elf, section)) {
		const char *name = gelf_getshdr(section, &header)
					   ? elf_strptr(elf, names, header.sh_name)
					   : NULL;
		if (name && strcmp(name, wanted) == 0)
			return header.sh_addr;
	}
	return 0;
}

/* One static probe: three words, then provider and name, each with its NUL. */
static void take_probe_note(struct row_search *search, const char *content, size_t length)
{
	uint64_t words[PROBE_NOTE_WORDS], moved = section_address(search->elf, ".stapsdt.base");
	const char *provider = content + sizeof(words), *end = content + length, *name;
	char symbol[64];

	if (length <= sizeof(words))
		return;
	memcpy(words, content, sizeof(words));
	name = memchr(provider, '\0', (size_t)(end - provider));
	if (!name || ++name == end || !memchr(name, '\0', (size_t)(end - name)))
		return;
	snprintf(symbol, sizeof(symbol), "%.31s:%.31s", provider, name);
	moved = moved ? moved - words[1] : 0; /* prelinked since */
	for (size_t row = 0; row < collective_row_count; row++) {
		if (search->offsets[row].found || strcmp(symbol, collective_rows[row].symbol) != 0)
			continue;
		uint64_t offset = file_offset_of(search->elf, words[0] + moved);
		uint64_t reference = words[2] ? file_offset_of(search->elf, words[2] + moved) : 0;

		if (offset && (reference || !words[2]))
			search->offsets[row] = (struct symbol_offset){true, offset, reference};
	}
}

static void visit_probe_notes(struct row_search *search)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	if (gelf_getclass(search->elf) != ELFCLASS64)
		return;
	while ((section = elf_nextscn(search->elf, section))) {
		Elf_Data *data;
		GElf_Nhdr note;
		size_t name_at, content_at;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_NOTE ||
			!(data = elf_getdata(section, NULL)))
			continue;
		for (size_t at = 0, next;
			(next = gelf_getnote(data, at, &note, &name_at, &content_at)) > 0;
			at = next) {
			const char *bytes = data->d_buf;

			if (note.n_type == PROBE_NOTE_TYPE && note.n_namesz == sizeof("stapsdt") &&
				memcmp(bytes + name_at, "stapsdt", sizeof("stapsdt")) == 0)
				take_probe_note(search, bytes + content_at, note.n_descsz);
		}
	}
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
	visit_probe_notes(&search);
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
	struct symbol_object *objects;
	size_t count, found;
};

static int compare_objects(const void *a, const void *b)
{
	return strcmp(
		((const struct symbol_object *)a)->name, ((const struct symbol_object *)b)->name);
}

static bool visit_object(void *context, const char *name, const GElf_Sym *symbol)
{
	struct object_search *search = context;
	struct symbol_object *object;

	/* An object whose address is found when it is asked for has a resolver in its place. */
	if (GELF_ST_TYPE(symbol->st_info) != STT_OBJECT &&
		GELF_ST_TYPE(symbol->st_info) != STT_GNU_IFUNC)
		return true;
	object = bsearch(&(struct symbol_object){.name = name}, search->objects, search->count,
		sizeof(*search->objects), compare_objects);
	if (object && !object->address) {
		object->address = symbol->st_value;
		search->found++;
	}
	return search->found < search->count;
}

int symbols_find_objects(
	const char *path, struct symbol_object *objects, size_t count, bool *position_independent)
{
	struct object_search search = {.objects = objects, .count = count};
	struct elf_file file;
	GElf_Ehdr header;
	int error = elf_file_open(path, &file);

	if (error)
		return error;
	for (size_t i = 0; i < count; i++)
		search.found += objects[i].address != 0;
	if (!gelf_getehdr(file.elf, &header)) {
		elf_file_close(&file);
		return -ENOEXEC;
	}
	visit_symbols(file.elf, visit_object, &search);
	*position_independent = header.e_type == ET_DYN;
	elf_file_close(&file);
	return (int)search.found;
}

int symbols_find_object(
	const char *path, const char *name, uint64_t *address, bool *position_independent)
{
	struct symbol_object object = {.name = name};
	bool independent;
	int found = symbols_find_objects(path, &object, 1, &independent);

	if (found <= 0)
		return found ? found : -ENOENT;
	*address = object.address;
	*position_independent = independent;
	return 0;
}
