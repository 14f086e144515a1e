/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any texts as those that /proc has of a rank: its environment, command line, name, mappings, status; and as its
 * memory. All who read them before and while it runs.
 */
#include "probe/attach/communicator_identity.h"
#include "probe/attach/communicator_memory.h"
#include "probe/attach/launcher_environment.h"
#include "probe/attach/library.h"
#include "probe/attach/load_target.h"
#include "probe/attach/mpi_objects.h"
#include "probe/attach/target_root.h"
#include "probe/attach/verbs_attach.h"
#include "probe/rank_process.h"
#include "probe/sources/thread_look.h"
#include "tests/fuzz/foreign.h"
#include "tests/fuzz/fuzz.h"

enum { FILES_MAX = 8, HANDLES = 24 };

static void look_at_launcher(void)
{
	struct rank_process *process = rank_process_create(FOREIGN_PID, false);
	struct launcher_environment environment;
	uint64_t node;

	fuzz_require(process != NULL);
	rank_process_examine(process);
	rank_process_destroy(process);
	if (launcher_environment_read(FOREIGN_PID, &environment) == 0) {
		fuzz_require(environment.rank == STEP_RANK_UNKNOWN ||
			     environment.rank < STEP_RANK_COUNT_MAX);
		fuzz_require(memchr(environment.job_id, 0, sizeof(environment.job_id)));
		fuzz_require(
			memchr(environment.leader_address, 0, sizeof(environment.leader_address)));
		if (environment.rank_variable)
			(void)!communicator_node(FOREIGN_PID, environment.rank_variable, &node);
	}
}

static void look_up_datatypes(const struct mpi_objects *objects)
{
	fuzz_require(objects->datatype_count <= MPI_OBJECTS_DATATYPES_MAX);
	for (size_t i = 0; i < objects->datatype_count; i++)
		fuzz_require(
			mpi_objects_datatype_bytes(objects, objects->datatypes[i].address) > 0);
	(void)mpi_objects_datatype_bytes(objects, 0);
}

static void look_at_mappings(void)
{
	struct library_file *files = calloc(FILES_MAX, sizeof(*files));
	struct communicator_memory memory;
	struct verbs_place place;
	struct mpi_objects objects;
	size_t count = 0;

	fuzz_require(files != NULL);
	if (library_find_in_process(FOREIGN_PID, files, FILES_MAX, &count) == 0)
		fuzz_require(count <= FILES_MAX);
	(void)!verbs_library_find(FOREIGN_PID, files);
	(void)!verbs_place_find(FOREIGN_PID, 0x401000, &place);
	if (mpi_objects_read(FOREIGN_PID, &objects) == 0)
		look_up_datatypes(&objects);
	for (uint64_t handle = 0; handle < HANDLES; handle += HANDLES / 6)
		(void)!communicator_memory_read(FOREIGN_PID, handle, &memory);
	fuzz_fail_allocation(1);
	fuzz_require(communicator_memory_read(FOREIGN_PID, 0, &memory) < 0);
	fuzz_fail_allocation(0);
	free(files);
}

static void look_at_target(void)
{
	struct load_target *target = malloc(sizeof(*target));
	struct target_owner owner;
	struct thread_look look;
	char why[256] = "";

	fuzz_require(target != NULL);
	if (load_target_read(FOREIGN_PID, "libslowrank_inject.so", target, why, sizeof(why)))
		fuzz_require(why[0] != '\0');
	free(target);
	(void)!target_owner_read(FOREIGN_PID, &owner);
	if (thread_look(NULL, FOREIGN_PID, &look) == 0)
		fuzz_require(memchr(look.place, 0, sizeof(look.place)));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	foreign_begin(bytes, length);
	look_at_launcher();
	look_at_mappings();
	look_at_target();
	foreign_end();
	return 0;
}
