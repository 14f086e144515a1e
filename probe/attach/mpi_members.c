/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/mpi_members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "probe/attach/communicator_identity.h"

enum {
	COMMUNICATOR_BYTES = 512, /* the name is 160 bytes in, the group 264, in Open MPI 4.1 */
	NAME_BYTES = 64,
	GROUP_OFFSET = NAME_BYTES + 24,
	REMOTE_OFFSET = GROUP_OFFSET + 8,
	GROUP_BYTES = 40, /* an object's head, how many, the own rank, a number, the processes */
	COUNT_OFFSET = 16,
	RANK_OFFSET = 20,
	PROCESSES_OFFSET = 32,
};

/* What lies behind a communicator's name. */
struct named {
	uint32_t context_id;
	int32_t rank;
	uint64_t group, remote_group;
};

/* The processes of a group: pointers, or names where a process was not met yet. */
struct group {
	int32_t count, rank;
	uint64_t *processes;
};

static bool read_memory(pid_t pid, uint64_t address, void *buffer, size_t length_bytes)
{
	struct iovec local = {buffer, length_bytes};
	struct iovec remote = {(void *)(uintptr_t)address, length_bytes};

	return address && address % sizeof(uint64_t) == 0 &&
	       process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)length_bytes;
}

static struct named behind_name(const uint8_t *name)
{
	struct named named;

	memcpy(&named.context_id, name + NAME_BYTES, sizeof(named.context_id));
	memcpy(&named.rank, name + NAME_BYTES + sizeof(named.context_id), sizeof(named.rank));
	memcpy(&named.group, name + GROUP_OFFSET, sizeof(named.group));
	memcpy(&named.remote_group, name + REMOTE_OFFSET, sizeof(named.remote_group));
	return named;
}

/* Where the world's name lies in its object, another's lies too. */
static bool read_named(
	pid_t pid, uint64_t world_handle, uint64_t handle, struct named *world, struct named *other)
{
	static const char name[] = "MPI_COMM_WORLD";
	uint8_t world_object[COMMUNICATOR_BYTES], object[COMMUNICATOR_BYTES];
	const uint8_t *place;

	if (!read_memory(pid, world_handle, world_object, sizeof(world_object)) ||
		!read_memory(pid, handle, object, sizeof(object)))
		return false;
	place = memmem(world_object, sizeof(world_object), name, sizeof(name));
	if (!place ||
		place + REMOTE_OFFSET + sizeof(uint64_t) > world_object + sizeof(world_object))
		return false;
	*world = behind_name(place);
	*other = behind_name(object + (place - world_object));
	return true;
}

/* The caller frees its processes. Returns 0, -ENOENT or -ENOMEM. */
static int read_group(pid_t pid, uint64_t address, uint32_t most, struct group *group)
{
	uint8_t object[GROUP_BYTES];
	uint64_t processes;

	if (!read_memory(pid, address, object, sizeof(object)))
		return -ENOENT;
	memcpy(&group->count, object + COUNT_OFFSET, sizeof(group->count));
	memcpy(&group->rank, object + RANK_OFFSET, sizeof(group->rank));
	memcpy(&processes, object + PROCESSES_OFFSET, sizeof(processes));
	if (group->count <= 0 || (uint32_t)group->count > most || group->rank < 0 ||
		group->rank >= group->count)
		return -ENOENT;
	group->processes = calloc((size_t)group->count, sizeof(*group->processes));
	if (!group->processes)
		return -ENOMEM;
	if (read_memory(pid, processes, group->processes,
		    (size_t)group->count * sizeof(*group->processes)))
		return 0;
	free(group->processes);
	return -ENOENT;
}

struct ranked {
	uint64_t process, rank;
};

static int by_process(const void *a, const void *b)
{
	uint64_t one = ((const struct ranked *)a)->process,
		 other = ((const struct ranked *)b)->process;

	return one < other ? -1 : one > other;
}

/* The world's processes with their ranks, ascending; NULL without memory, or where some are equal. */
static struct ranked *rank_processes(const struct group *world)
{
	size_t count = (size_t)world->count;
	struct ranked *ranked = calloc(count, sizeof(*ranked));
	bool different = ranked;

	for (size_t i = 0; i < count && ranked; i++)
		ranked[i] = (struct ranked){world->processes[i], i};
	if (ranked)
		qsort(ranked, count, sizeof(*ranked), by_process);
	for (size_t i = 1; i < count && different; i++)
		different = ranked[i - 1].process != ranked[i].process;
	if (different)
		return ranked;
	free(ranked);
	return NULL;
}

/* An odd number stands for a process that was not met yet: it holds the rank in the world, as those of the world do. */
static bool is_name(uint64_t process)
{
	return process & 1;
}

static uint64_t rank_in_name(uint64_t process)
{
	return process >> 1 & UINT32_MAX;
}

static bool names_hold_ranks(const struct group *world)
{
	for (int32_t i = 0; i < world->count; i++) {
		if (is_name(world->processes[i]) &&
			rank_in_name(world->processes[i]) != (uint64_t)i)
			return false;
	}
	return true;
}

/* The members' ranks in the world, in order; false when some is not known. */
static bool find_ranks(const struct group *world, const struct ranked *ranked,
	const struct group *group, uint64_t *ranks)
{
	bool by_name = names_hold_ranks(world);

	for (int32_t i = 0; i < group->count; i++) {
		const struct ranked key = {.process = group->processes[i]};
		const struct ranked *found =
			bsearch(&key, ranked, (size_t)world->count, sizeof(*ranked), by_process);

		if (!found && !(by_name && is_name(key.process) &&
				      rank_in_name(key.process) < (uint64_t)world->count))
			return false;
		ranks[i] = found ? found->rank : rank_in_name(key.process);
	}
	return true;
}

/* Behind the two numbers of the world and the communicator. */
static int identify(const struct mpi_world *world, uint32_t context_id, const struct group *all,
	const struct group *group, struct communicator *out)
{
	struct ranked *ranked = rank_processes(all);
	uint64_t *numbers = calloc((size_t)group->count + 2, sizeof(*numbers));
	int result = -ENOENT;

	if (!numbers) {
		result = -ENOMEM;
	} else if (ranked && find_ranks(all, ranked, group, numbers + 2) &&
		   numbers[2 + group->rank] == world->rank) {
		numbers[0] = world->id;
		numbers[1] = context_id;
		*out = (struct communicator){
			.id = communicator_identity("members", numbers, (size_t)group->count + 2),
			.size = (uint32_t)group->count,
			.own_index = (uint32_t)group->rank};
		result = 0;
	}
	free(ranked);
	free(numbers);
	return result;
}

int mpi_members_read(pid_t pid, const struct mpi_objects *objects, const struct mpi_world *world,
	uint64_t handle, struct communicator *out)
{
	struct group all = {0}, group = {0};
	struct named of_world, named;
	int result = -ENOENT;

	if (!read_named(pid, objects->world, handle, &of_world, &named) ||
		of_world.context_id != 0 || named.context_id == 0 ||
		named.remote_group != named.group ||
		read_group(pid, of_world.group, world->size, &all) < 0)
		return -ENOENT;
	if (all.count == (int32_t)world->size && all.rank == (int32_t)world->rank &&
		of_world.rank == all.rank)
		result = read_group(pid, named.group, world->size, &group);
	if (result == 0 && group.rank == named.rank)
		result = identify(world, named.context_id, &all, &group, out);
	else if (result == 0)
		result = -ENOENT;
	free(all.processes);
	free(group.processes);
	return result;
}
