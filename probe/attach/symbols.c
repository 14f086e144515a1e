/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/symbols.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/attach/collective_table.h"
#include "probe/attach/confined.h"
#include "probe/attach/elf_symbols.h"

struct row_search {
	const struct elf_file *file;
	struct symbol_offset *offsets;
};

static bool take_row(void *context, size_t row, const GElf_Sym *symbol)
{
	struct row_search *search = context;
	uint64_t offset = elf_file_offset(search->file, symbol->st_value);

	if (search->offsets[row].found || offset == 0)
		return true;
	for (size_t other = 0; other < collective_row_count; other++) {
		if (search->offsets[other].found && search->offsets[other].file_offset == offset)
			return true;
	}
	search->offsets[row] = (struct symbol_offset){true, offset, 0};
	return true;
}

static int find_functions(struct row_search *search)
{
	const char **names = calloc(collective_row_count, sizeof(*names));
	int error;

	if (!names)
		return -ENOMEM;
	for (size_t row = 0; row < collective_row_count; row++)
		names[row] = collective_rows[row].symbol;
	error = elf_symbols_find(search->file, &(struct elf_symbol_search){.names = names,
						       .count = collective_row_count,
						       .types = 1u << STT_FUNC,
						       .found = take_row,
						       .context = search});
	free(names);
	return error;
}

enum {
	PROBE_NOTE_TYPE = 3, /* NT_STAPSDT: address, base, semaphore */
	PROBE_NOTE_WORDS = 3,
	NOTES_BYTES_MAX = 1 << 20,
};

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
	uint64_t words[PROBE_NOTE_WORDS],
		moved = section_address(search->file->elf, ".stapsdt.base");
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
		uint64_t offset = elf_file_offset(search->file, words[0] + moved);
		uint64_t reference = words[2] ? elf_file_offset(search->file, words[2] + moved) : 0;

		if (offset && (reference || !words[2]))
			search->offsets[row] = (struct symbol_offset){true, offset, reference};
	}
}

static void visit_probe_notes(struct row_search *search)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(search->file->elf, section))) {
		Elf_Data *data;
		GElf_Nhdr note;
		size_t name_at, content_at;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_NOTE ||
			header.sh_size > NOTES_BYTES_MAX || !(data = elf_getdata(section, NULL)))
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

/* The file may be a rank's own: what comes of it is all that leaves the process that reads it. */
struct row_work {
	char path[PATH_MAX];
	struct symbol_offset offsets[];
};

static int read_rows(void *context)
{
	struct row_work *work = context;
	struct elf_file file;
	int error = elf_file_open(work->path, &file);

	if (error)
		return error;
	struct row_search search = {.file = &file, .offsets = work->offsets};
	error = find_functions(&search);
	if (!error)
		visit_probe_notes(&search);
	elf_file_close(&file);
	return error;
}

int symbols_find_rows(const char *path, struct symbol_offset *offsets)
{
	size_t bytes = collective_row_count * sizeof(*offsets);
	struct row_work *work = calloc(1, sizeof(*work) + bytes);
	int error;

	if (!work)
		return -ENOMEM;
	snprintf(work->path, sizeof(work->path), "%s", path);
	error = confined_call(read_rows, work, sizeof(*work) + bytes);
	if (!error)
		memcpy(offsets, work->offsets, bytes);
	free(work);
	return error;
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

static bool take_object(void *context, size_t index, const GElf_Sym *symbol)
{
	struct object_search *search = context;

	if (!search->objects[index].address && symbol->st_value) {
		search->objects[index].address = symbol->st_value;
		search->found++;
	}
	return search->found < search->count;
}

static int find_objects(const struct elf_file *file, struct object_search *search)
{
	const char **names = calloc(search->count, sizeof(*names));
	int error;

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < search->count; i++) {
		names[i] = search->objects[i].name;
		search->found += search->objects[i].address != 0;
	}
	/* An object whose address is found when it is asked for has a resolver in its place. */
	error = elf_symbols_find(file, &(struct elf_symbol_search){.names = names,
					       .count = search->count,
					       .types = 1u << STT_OBJECT | 1u << STT_GNU_IFUNC,
					       .found = take_object,
					       .context = search});
	free(names);
	return error;
}

struct object_work {
	char path[PATH_MAX];
	size_t count;
	bool position_independent;
	struct symbol_object objects[]; /* the names are the caller's, also in the other process */
};

static int read_objects(void *context)
{
	struct object_work *work = context;
	struct object_search search = {.objects = work->objects, .count = work->count};
	struct elf_file file;
	GElf_Ehdr header;
	int error = elf_file_open(work->path, &file);

	if (error)
		return error;
	if (!gelf_getehdr(file.elf, &header))
		error = -ENOEXEC;
	if (!error)
		error = find_objects(&file, &search);
	elf_file_close(&file);
	if (error)
		return error;
	work->position_independent = header.e_type == ET_DYN;
	return (int)search.found;
}

int symbols_find_objects(
	const char *path, struct symbol_object *objects, size_t count, bool *position_independent)
{
	size_t bytes = count * sizeof(*objects);
	struct object_work *work = calloc(1, sizeof(*work) + bytes);
	int found;

	if (!work)
		return -ENOMEM;
	snprintf(work->path, sizeof(work->path), "%s", path);
	work->count = count;
	memcpy(work->objects, objects, bytes);
	found = confined_call(read_objects, work, sizeof(*work) + bytes);
	if (found >= 0) {
		for (size_t i = 0; i < count; i++)
			objects[i].address = work->objects[i].address;
		*position_independent = work->position_independent;
	}
	free(work);
	return found;
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
