/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/load_symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/attach/confined.h"
#include "probe/attach/library.h"
#include "probe/attach/target_root.h"

enum {
	CODE_BYTES_MAX = 16 << 20,
	FOUND_MAX = 512, /* each name with all of its versions */
	RESTORERS_MAX = 8,
};

struct open_elf {
	int fd;
	Elf *elf;
	uint64_t bias; /* address in the process - address in the file */
};

uint64_t load_symbols_inode(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

static int open_file(const struct load_elf *elf)
{
	char range[64], link[LIBRARY_LINK_LENGTH];
	struct library_file file;
	int error;

	snprintf(range, sizeof(range), "%" PRIx64 "-%" PRIx64, elf->base, elf->first_end);
	error = library_of_mapping(elf->pid, range, elf->path, &file);
	return error ? error : target_file_open(library_open(&file, link), O_RDONLY);
}

static int open_elf(struct open_elf *out, uint64_t base)
{
	GElf_Phdr segment;
	GElf_Ehdr header;
	size_t count;

	elf_version(EV_CURRENT);
	out->elf = elf_begin(out->fd, ELF_C_READ, NULL);
	if (!out->elf || elf_kind(out->elf) != ELF_K_ELF || gelf_getclass(out->elf) != ELFCLASS64 ||
		!gelf_getehdr(out->elf, &header) || elf_getphdrnum(out->elf, &count) != 0) {
		elf_end(out->elf);
		return -ENOEXEC;
	}
	out->bias = header.e_type == ET_EXEC ? 0 : base;
	for (size_t i = 0; i < count && out->bias; i++) {
		if (gelf_getphdr(out->elf, (int)i, &segment) && segment.p_type == PT_LOAD) {
			out->bias -= segment.p_vaddr & ~UINT64_C(4095);
			break;
		}
	}
	return 0;
}

/* What is looked for in a file, and what came of it, begins with this. */
struct elf_work {
	int fd;
	uint64_t base;
};

/* The file is the process's own: what comes of it is all that leaves the process that reads it. */
static int look_into(const struct load_elf *file, int (*look)(void *work), void *work, size_t bytes)
{
	struct elf_work *of = work;
	int error;

	*of = (struct elf_work){.fd = open_file(file), .base = file->base};
	if (of->fd < 0)
		return -ENOENT;
	error = confined_call(look, work, bytes);
	close(of->fd);
	return error;
}

struct symbol_work {
	struct elf_work of;
	const char *const *names; /* the caller's, also in the other process */
	size_t name_count, count;
	struct {
		size_t index;
		uint64_t address, bytes;
	} found[FOUND_MAX];
};

static void take_symbol(
	struct symbol_work *work, const char *name, uint64_t bias, const GElf_Sym *symbol)
{
	for (size_t k = 0; name && k < work->name_count && work->count < FOUND_MAX; k++) {
		if (strcmp(name, work->names[k]) != 0)
			continue;
		work->found[work->count].index = k;
		work->found[work->count].address = bias + symbol->st_value;
		work->found[work->count++].bytes = symbol->st_size;
	}
}

static int find_symbols(void *context)
{
	struct symbol_work *work = context;
	struct open_elf open = {.fd = work->of.fd};
	int error = open_elf(&open, work->of.base);

	if (error)
		return error;
	for (Elf_Scn *section = elf_nextscn(open.elf, NULL); section;
		section = elf_nextscn(open.elf, section)) {
		GElf_Shdr header;
		GElf_Sym symbol;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNSYM ||
			header.sh_entsize == 0)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		for (size_t i = 0; data && i < header.sh_size / header.sh_entsize; i++) {
			if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF ||
				GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
				continue;
			take_symbol(work, elf_strptr(open.elf, header.sh_link, symbol.st_name),
				open.bias, &symbol);
		}
	}
	elf_end(open.elf);
	return work->count == FOUND_MAX ? -ENOEXEC : 0;
}

int load_symbols_visit(const struct load_elf *file, const char *const *names, size_t name_count,
	void (*take)(void *context, size_t index, uint64_t address, uint64_t bytes), void *context)
{
	struct symbol_work work = {.names = names, .name_count = name_count};
	int error = look_into(file, find_symbols, &work, sizeof(work));

	for (size_t i = 0; !error && i < work.count; i++)
		take(context, work.found[i].index, work.found[i].address, work.found[i].bytes);
	return error;
}

/* mov $15, %rax or %eax; syscall */
static size_t find_restorers(const uint8_t *code, size_t bytes, uint64_t address,
	uint64_t *addresses, size_t capacity, size_t count)
{
	static const uint8_t wide[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05},
			     narrow[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};

	for (size_t i = 0; i + sizeof(wide) <= bytes && count < capacity; i++) {
		if (memcmp(code + i, wide, sizeof(wide)) == 0 ||
			memcmp(code + i, narrow, sizeof(narrow)) == 0)
			addresses[count++] = address + i;
	}
	return count;
}

struct restorer_work {
	struct elf_work of;
	size_t count;
	uint64_t addresses[RESTORERS_MAX];
};

static int find_in_segments(void *context)
{
	struct restorer_work *work = context;
	struct open_elf open = {.fd = work->of.fd};
	GElf_Phdr segment;
	size_t segments = 0;
	int error = open_elf(&open, work->of.base);

	if (error)
		return error;
	elf_getphdrnum(open.elf, &segments);
	for (size_t i = 0; i < segments && !error; i++) {
		if (!gelf_getphdr(open.elf, (int)i, &segment) || segment.p_type != PT_LOAD ||
			!(segment.p_flags & PF_X) || segment.p_filesz > CODE_BYTES_MAX)
			continue;
		uint8_t *code = malloc(segment.p_filesz);
		ssize_t got =
			code ? pread(open.fd, code, segment.p_filesz, (off_t)segment.p_offset) : -1;

		if (got < 0)
			error = -EIO;
		else
			work->count = find_restorers(code, (size_t)got, open.bias + segment.p_vaddr,
				work->addresses, RESTORERS_MAX, work->count);
		free(code);
	}
	elf_end(open.elf);
	return error;
}

int load_symbols_restorers(
	const struct load_elf *file, uint64_t *addresses, size_t capacity, size_t *count)
{
	struct restorer_work work = {0};
	int error = look_into(file, find_in_segments, &work, sizeof(work));

	if (error)
		return error;
	*count = work.count < capacity ? work.count : capacity;
	memcpy(addresses, work.addresses, *count * sizeof(*addresses));
	return 0;
}

struct room_work {
	struct elf_work of;
	uint64_t bytes, address;
};

static int find_room(void *context)
{
	struct room_work *work = context;
	struct open_elf open = {.fd = work->of.fd};
	GElf_Phdr segment;
	size_t segments = 0;
	int error = open_elf(&open, work->of.base);

	if (error)
		return error;
	elf_getphdrnum(open.elf, &segments);
	for (size_t i = 0; i < segments; i++) {
		if (!gelf_getphdr(open.elf, (int)i, &segment) || segment.p_type != PT_LOAD ||
			!(segment.p_flags & PF_X) || (segment.p_flags & PF_W))
			continue;
		uint64_t end = (open.bias + segment.p_vaddr + segment.p_memsz + 15) & ~UINT64_C(15);

		if ((end & 4095) && 4096 - (end & 4095) >= work->bytes)
			work->address = end;
	}
	elf_end(open.elf);
	return 0;
}

int load_symbols_room(const struct load_elf *file, size_t bytes, uint64_t *address)
{
	struct room_work work = {.bytes = bytes};
	int error = look_into(file, find_room, &work, sizeof(work));

	*address = error ? 0 : work.address;
	return error;
}
