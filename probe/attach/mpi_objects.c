/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/mpi_objects.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "probe/attach/symbols.h"
#include "probe/attach/target_root.h"

/* MPICH's mpi.h, and that of its relatives (Intel MPI, MVAPICH, Cray MPICH). */
enum {
	MPICH_COMM_NULL = 0x04000000,
	MPICH_COMM_WORLD = 0x44000000,
	MPICH_COMM_SELF = 0x44000001,
	MPICH_TYPE_SHARED = 1,
};
enum { OPEN_MPI_TYPE_SHARED = 0 }; /* mpi.h of Open MPI 4.1 */

/*
 * struct opal_datatype_t of Open MPI 4.1 (opal_datatype.h): an opal_object_t of 16 bytes, two 16-bit
 * fields, a 32-bit one, the size. Not relied upon: the types of known length must confirm it.
 */
enum { DATATYPE_SIZE_OFFSET = 24, LENGTH_BYTES_MAX = 64 };

struct object_name {
	const char *name;
	uint64_t
		length_bytes; /* what C and IEEE 754 fix; 0 = depends on how it was built, or no datatype */
};

/* Sorted. */
static const struct object_name names[] = {
	{"ompi_mpi_2dblprec", 0},
	{"ompi_mpi_2int", 0},
	{"ompi_mpi_2integer", 0},
	{"ompi_mpi_2real", 0},
	{"ompi_mpi_aint", 0},
	{"ompi_mpi_byte", 0},
	{"ompi_mpi_c_bool", 0},
	{"ompi_mpi_c_complex", 0},
	{"ompi_mpi_c_double_complex", 16},
	{"ompi_mpi_c_float_complex", 0},
	{"ompi_mpi_c_long_double_complex", 0},
	{"ompi_mpi_char", 1},
	{"ompi_mpi_character", 0},
	{"ompi_mpi_comm_null", 0},
	{"ompi_mpi_comm_self", 0},
	{"ompi_mpi_comm_world", 0},
	{"ompi_mpi_complex16", 0},
	{"ompi_mpi_complex32", 0},
	{"ompi_mpi_complex8", 0},
	{"ompi_mpi_count", 0},
	{"ompi_mpi_cplex", 0},
	{"ompi_mpi_cxx_bool", 0},
	{"ompi_mpi_cxx_cplex", 0},
	{"ompi_mpi_cxx_dblcplex", 0},
	{"ompi_mpi_cxx_ldblcplex", 0},
	{"ompi_mpi_dblcplex", 0},
	{"ompi_mpi_dblprec", 0},
	{"ompi_mpi_double", 8},
	{"ompi_mpi_double_int", 0},
	{"ompi_mpi_float", 4},
	{"ompi_mpi_float_int", 0},
	{"ompi_mpi_int", 4},
	{"ompi_mpi_int16_t", 0},
	{"ompi_mpi_int32_t", 0},
	{"ompi_mpi_int64_t", 8},
	{"ompi_mpi_int8_t", 0},
	{"ompi_mpi_integer", 0},
	{"ompi_mpi_integer1", 0},
	{"ompi_mpi_integer16", 0},
	{"ompi_mpi_integer2", 0},
	{"ompi_mpi_integer4", 0},
	{"ompi_mpi_integer8", 0},
	{"ompi_mpi_ldblcplex", 0},
	{"ompi_mpi_logical", 0},
	{"ompi_mpi_logical1", 0},
	{"ompi_mpi_logical2", 0},
	{"ompi_mpi_logical4", 0},
	{"ompi_mpi_logical8", 0},
	{"ompi_mpi_long", 0},
	{"ompi_mpi_long_double", 0},
	{"ompi_mpi_long_int", 0},
	{"ompi_mpi_long_long_int", 0},
	{"ompi_mpi_longdbl_int", 0},
	{"ompi_mpi_offset", 0},
	{"ompi_mpi_packed", 0},
	{"ompi_mpi_real", 0},
	{"ompi_mpi_real16", 0},
	{"ompi_mpi_real2", 0},
	{"ompi_mpi_real4", 0},
	{"ompi_mpi_real8", 0},
	{"ompi_mpi_short", 2},
	{"ompi_mpi_short_int", 0},
	{"ompi_mpi_signed_char", 0},
	{"ompi_mpi_uint16_t", 0},
	{"ompi_mpi_uint32_t", 0},
	{"ompi_mpi_uint64_t", 0},
	{"ompi_mpi_uint8_t", 0},
	{"ompi_mpi_unsigned", 0},
	{"ompi_mpi_unsigned_char", 0},
	{"ompi_mpi_unsigned_long", 0},
	{"ompi_mpi_unsigned_long_long", 0},
	{"ompi_mpi_unsigned_short", 0},
	{"ompi_mpi_wchar", 0},
};
enum { NAME_COUNT = sizeof(names) / sizeof(names[0]) };
_Static_assert((int)NAME_COUNT <= (int)MPI_OBJECTS_DATATYPES_MAX, "room for all");

/* What a process maps, as far as it matters here. */
struct mpi_files {
	char executable[PATH_MAX], library[PATH_MAX];
	uint64_t executable_base, library_base;
	bool mpich;
};

static void note_mapping(struct mpi_files *files, uint64_t start, const char *name)
{
	const char *slash = strrchr(name, '/');
	const char *base = slash ? slash + 1 : name;

	if (strcmp(name, files->executable) == 0 && files->executable_base == 0)
		files->executable_base = start;
	if (strncmp(base, "libmpich.so", 11) == 0 || strncmp(base, "libmpi_cray.so", 14) == 0 ||
		strcmp(base, "libmpi.so.12") == 0)
		files->mpich = true;
	if (strncmp(base, "libmpi.so", 9) == 0 && files->library_base == 0) {
		files->library_base = start;
		snprintf(files->library, sizeof(files->library), "%s", name);
	}
}

static bool read_files(pid_t pid, struct mpi_files *files)
{
	char path[64], line[PATH_MAX + 128];
	unsigned long long start, offset;
	ssize_t length;
	int name_at;

	memset(files, 0, sizeof(*files));
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	length = readlink(path, files->executable, sizeof(files->executable) - 1);
	if (length <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "re");
	if (!maps)
		return false;
	while (fgets(line, sizeof(line), maps)) {
		line[strcspn(line, "\n")] = '\0';
		name_at = 0;
		if (sscanf(line, "%llx-%*x %*s %llx %*s %*s %n", &start, &offset, &name_at) < 2 ||
			name_at == 0 || line[name_at] != '/' || offset != 0)
			continue;
		note_mapping(files, start, line + name_at);
	}
	fclose(maps);
	return true;
}

/* The names above that are communicators. */
static bool is_communicator(const char *name)
{
	return strncmp(name, "ompi_mpi_comm_", strlen("ompi_mpi_comm_")) == 0;
}

static int find_in_library(pid_t pid, const char *name, struct symbol_object objects[NAME_COUNT],
	bool *position_independent)
{
	int fd = target_file_open(target_root_find(pid, name, 0), O_RDONLY), found;
	char path[32];

	if (fd < 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	found = symbols_find_objects(path, objects, NAME_COUNT, position_independent);
	close(fd);
	return found;
}

/* Addresses in the process: the executable's copy wins over the library's. */
static void find_objects(
	pid_t pid, const struct mpi_files *files, struct symbol_object objects[NAME_COUNT])
{
	char path[64];
	bool position_independent = false;

	for (size_t i = 0; i < NAME_COUNT; i++)
		objects[i] = (struct symbol_object){.name = names[i].name};
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (symbols_find_objects(path, objects, NAME_COUNT, &position_independent) > 0) {
		for (size_t i = 0; i < NAME_COUNT && position_independent; i++)
			objects[i].address += objects[i].address ? files->executable_base : 0;
	}
	if (!files->library_base)
		return;
	struct symbol_object in_library[NAME_COUNT];

	for (size_t i = 0; i < NAME_COUNT; i++)
		in_library[i] = (struct symbol_object){.name = names[i].name};
	if (find_in_library(pid, files->library, in_library, &position_independent) <= 0)
		return;
	for (size_t i = 0; i < NAME_COUNT; i++) {
		if (!objects[i].address && in_library[i].address)
			objects[i].address = in_library[i].address +
					     (position_independent ? files->library_base : 0);
	}
}

static uint64_t address_of(const struct symbol_object objects[NAME_COUNT], const char *name)
{
	for (size_t i = 0; i < NAME_COUNT; i++) {
		if (strcmp(objects[i].name, name) == 0)
			return objects[i].address;
	}
	return 0;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct mpi_datatype *)a)->address;
	uint64_t y = ((const struct mpi_datatype *)b)->address;

	return (x > y) - (x < y);
}

/* Reads the lengths; none where one that is known is another in memory. */
static void read_datatypes(
	pid_t pid, const struct symbol_object objects[NAME_COUNT], struct mpi_objects *out)
{
	for (size_t i = 0; i < NAME_COUNT; i++) {
		uint64_t length = 0;
		struct iovec local = {&length, sizeof(length)};
		struct iovec remote = {
			(void *)(uintptr_t)(objects[i].address + DATATYPE_SIZE_OFFSET),
			sizeof(length)};

		if (!objects[i].address || is_communicator(names[i].name))
			continue;
		if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)sizeof(length) ||
			(names[i].length_bytes && length != names[i].length_bytes)) {
			out->datatype_count = 0;
			return;
		}
		if (length > 0 &&
			length <= LENGTH_BYTES_MAX) /* 0: not supported, or made by MPI_Init() */
			out->datatypes[out->datatype_count++] =
				(struct mpi_datatype){objects[i].address, length};
	}
	qsort(out->datatypes, out->datatype_count, sizeof(out->datatypes[0]), by_address);
}

int mpi_objects_read(pid_t pid, struct mpi_objects *out)
{
	struct symbol_object objects[NAME_COUNT];
	struct mpi_files files;
	uint64_t world, self;

	if (!read_files(pid, &files))
		return -ENOENT;
	find_objects(pid, &files, objects);
	world = address_of(objects, "ompi_mpi_comm_world");
	self = address_of(objects, "ompi_mpi_comm_self");
	if (world && self) {
		*out = (struct mpi_objects){.world = world,
			.self = self,
			.null = address_of(objects, "ompi_mpi_comm_null"),
			.type_shared = OPEN_MPI_TYPE_SHARED};
		read_datatypes(pid, objects, out);
		return 0;
	}
	if (!files.mpich)
		return -ENOENT;
	*out = (struct mpi_objects){.world = MPICH_COMM_WORLD,
		.self = MPICH_COMM_SELF,
		.null = MPICH_COMM_NULL,
		.type_shared = MPICH_TYPE_SHARED};
	return 0;
}

size_t mpi_objects_datatype_bytes(const struct mpi_objects *objects, uint64_t datatype)
{
	struct mpi_datatype key = {.address = datatype};
	const struct mpi_datatype *found = bsearch(&key, objects->datatypes,
		objects->datatype_count, sizeof(objects->datatypes[0]), by_address);

	return found ? (size_t)found->length_bytes : 0;
}
