/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/verbs_attach.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/attach/confined.h"
#include "probe/attach/elf_file.h"

enum { VERSION_HIDDEN = 0x8000, RANGE_LENGTH = 64, LINE_LENGTH = PATH_MAX + 128 };

/* A line of /proc/PID/maps; name points into the line. */
struct mapping {
	uint64_t start, end, offset;
	bool executable;
	char range[RANGE_LENGTH];
	const char *name;
};

static bool parse_mapping(char *line, struct mapping *mapping)
{
	char permissions[8];
	int name_at = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%63s %7s %" SCNx64 " %*s %*s %n", mapping->range, permissions,
		    &mapping->offset, &name_at) < 3 ||
		name_at == 0 || line[name_at] != '/' ||
		sscanf(mapping->range, "%" SCNx64 "-%" SCNx64, &mapping->start, &mapping->end) != 2)
		return false;
	mapping->executable = permissions[2] == 'x';
	mapping->name = line + name_at;
	return true;
}

static bool is_libibverbs(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strncmp(slash ? slash + 1 : path, "libibverbs.so.1", strlen("libibverbs.so.1")) == 0;
}

/* Finds the executable mapping of libibverbs (address 0), or the one that holds address. */
static int find_mapping(
	pid_t pid, uint64_t address, struct library_file *file, uint64_t *file_offset)
{
	char path[64], line[LINE_LENGTH];
	struct mapping mapping;
	int error = -ENOENT;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return errno == ENOENT ? -ESRCH : -errno;
	while (fgets(line, sizeof(line), maps)) {
		if (!parse_mapping(line, &mapping) || !mapping.executable)
			continue;
		if (address ? address < mapping.start || address >= mapping.end
			    : !is_libibverbs(mapping.name))
			continue;
		error = library_of_mapping(pid, mapping.range, mapping.name, file);
		*file_offset = address - mapping.start + mapping.offset;
		break;
	}
	fclose(maps);
	return error;
}

int verbs_library_find(pid_t pid, struct library_file *result)
{
	struct library_file file = {0};
	uint64_t unused;
	int error = find_mapping(pid, 0, &file, &unused);

	if (!error)
		*result = file;
	return error;
}

int verbs_place_find(pid_t pid, uint64_t address, struct verbs_place *result)
{
	char link[LIBRARY_LINK_LENGTH];
	struct verbs_place place = {0};
	int error, fd;

	if (!address)
		return -ENOENT;
	error = find_mapping(pid, address, &place.file, &place.offset);
	if (error)
		return error;
	fd = library_open(&place.file, link);
	if (fd < 0)
		return fd;
	error = first_opcode_read(link, &place.offset, &place.cost);
	close(fd);
	if (!error)
		*result = place;
	return error;
}

static void take_symbol(const struct elf_file *file, const char *name, const GElf_Sym *symbol,
	struct verbs_library *library)
{
	const struct {
		const char *name;
		uint64_t *offset;
	} wanted[] = {
		{"ibv_open_device", &library->open_device},
		{"ibv_import_device", &library->import_device},
		{"ibv_create_cq", &library->create_cq},
		{"ibv_create_qp", &library->create_qp},
		{"ibv_modify_qp", &library->modify_qp},
		{"ibv_destroy_qp", &library->destroy_qp},
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (name && strcmp(name, wanted[i].name) == 0)
			*wanted[i].offset = elf_file_offset(file, symbol->st_value);
	}
}

static void read_symbols(const struct elf_file *file, struct verbs_library *library)
{
	Elf_Data *symbols = NULL, *versions = NULL;
	GElf_Shdr header, symbols_header = {0};
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(file->elf, section))) {
		if (!gelf_getshdr(section, &header))
			continue;
		if (header.sh_type == SHT_DYNSYM) {
			symbols = elf_getdata(section, NULL);
			symbols_header = header;
		} else if (header.sh_type == SHT_GNU_versym) {
			versions = elf_getdata(section, NULL);
		}
	}
	for (int i = 0; symbols && symbols_header.sh_entsize &&
			(uint64_t)i < symbols_header.sh_size / symbols_header.sh_entsize;
		i++) {
		GElf_Versym version = 0;
		GElf_Sym symbol;

		if (!gelf_getsym(symbols, i, &symbol) || symbol.st_shndx == SHN_UNDEF ||
			GELF_ST_TYPE(symbol.st_info) != STT_FUNC ||
			(versions && gelf_getversym(versions, i, &version) &&
				(version & VERSION_HIDDEN)))
			continue;
		take_symbol(file, elf_strptr(file->elf, symbols_header.sh_link, symbol.st_name),
			&symbol, library);
	}
}

/* The file is a rank's own: what comes of it is all that leaves the process that reads it. */
struct library_work {
	const char *path; /* the caller's, also in the other process */
	struct verbs_library library;
};

static int read_library(void *context)
{
	struct library_work *work = context;
	struct elf_file file;
	int error = elf_file_open(work->path, &file);

	if (error)
		return error;
	read_symbols(&file, &work->library);
	elf_file_close(&file);
	return 0;
}

int verbs_library_read(const char *path, struct verbs_library *result)
{
	struct library_work work = {.path = path};
	int error = confined_call(read_library, &work, sizeof(work));

	if (error)
		return error;
	if (!work.library.open_device || !work.library.create_qp || !work.library.create_cq)
		return -ENOEXEC;
	*result = work.library;
	return 0;
}
