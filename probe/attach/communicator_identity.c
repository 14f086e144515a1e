/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/communicator_identity.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/attach/symbols.h"

/* MPICH's mpi.h, and that of its relatives (Intel MPI, MVAPICH, Cray MPICH). */
enum { MPICH_COMM_WORLD = 0x44000000, MPICH_COMM_SELF = 0x44000001 };

static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * 1099511628211u; /* FNV-1a, 64 bits */
	return hash;
}

static uint64_t finish(uint64_t hash)
{
	hash ^= hash >> 33; /* the last step of MurmurHash3, so that all bits depend on all bytes */
	hash *= 0xff51afd7ed558ccdu;
	hash ^= hash >> 33;
	return hash ? hash : 1;
}

uint64_t communicator_world_id(const char *job_id)
{
	return finish(mix(mix(14695981039346656037u, "world", 5), job_id, strlen(job_id)));
}

uint64_t communicator_id_from_unique(const void *unique_id, size_t length_bytes)
{
	return finish(mix(mix(14695981039346656037u, "unique", 6), unique_id, length_bytes));
}

uint64_t communicator_id_from_parent(uint64_t parent_id, uint64_t creation_number, int32_t color)
{
	uint64_t hash = mix(14695981039346656037u, "split", 5);

	hash = mix(hash, &parent_id, sizeof(parent_id));
	hash = mix(hash, &creation_number, sizeof(creation_number));
	return finish(mix(hash, &color, sizeof(color)));
}

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

/* The address of a data symbol in a process: the executable's copy wins over the library's. */
static int find_address(
	pid_t pid, const struct mpi_files *files, const char *name, uint64_t *address)
{
	char path[PATH_MAX + 64];
	bool position_independent;
	uint64_t offset;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (symbols_find_object(path, name, &offset, &position_independent) == 0) {
		*address = offset + (position_independent ? files->executable_base : 0);
		return 0;
	}
	if (!files->library_base)
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, files->library);
	if (symbols_find_object(path, name, &offset, &position_independent) != 0)
		return -ENOENT;
	*address = offset + (position_independent ? files->library_base : 0);
	return 0;
}

int communicator_world_handles(pid_t pid, uint64_t *world, uint64_t *self)
{
	struct mpi_files files;
	uint64_t found_world, found_self;

	if (!read_files(pid, &files))
		return -ENOENT;
	if (find_address(pid, &files, "ompi_mpi_comm_world", &found_world) == 0 &&
		find_address(pid, &files, "ompi_mpi_comm_self", &found_self) == 0) {
		*world = found_world;
		*self = found_self;
		return 0;
	}
	if (!files.mpich)
		return -ENOENT;
	*world = MPICH_COMM_WORLD;
	*self = MPICH_COMM_SELF;
	return 0;
}
