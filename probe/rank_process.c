/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rank_process.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/attach/collective_table.h"
#include "probe/attach/communicator_identity.h"
#include "probe/attach/communicator_memory.h"
#include "probe/attach/mpi_members.h"
#include "probe/sources/launcher_delays.h"

struct rank_process *rank_process_create(pid_t pid, bool attached)
{
	struct rank_process *process = calloc(1, sizeof(*process));

	if (!process)
		return NULL;
	process->pid = pid;
	process->attached = attached;
	process->rank = STEP_RANK_UNKNOWN;
	return process;
}

void rank_process_destroy(struct rank_process *process)
{
	if (!process)
		return;
	step_builder_destroy(process->builder);
	device_calls_destroy(process->device_calls);
	launcher_delays_destroy(process->delays);
	kernel_calls_destroy(process->kernel_calls);
	call_times_destroy(process->call_times);
	rank_groups_fini(&process->groups);
	free(process->communicators);
	free(process);
}

static struct known_communicator *find_communicator(struct rank_process *process, uint64_t handle)
{
	if (process->last_communicator < process->communicator_count &&
		process->communicators[process->last_communicator].handle == handle)
		return &process->communicators[process->last_communicator];
	for (size_t i = 0; i < process->communicator_count; i++) {
		if (process->communicators[i].handle == handle) {
			process->last_communicator = i;
			return &process->communicators[i];
		}
	}
	return NULL;
}

/* Adds or replaces; NULL when the table is full or memory is short: then it is not joined. */
static struct known_communicator *add_communicator(
	struct rank_process *process, uint64_t handle, uint64_t id, bool from_start)
{
	struct known_communicator *known = find_communicator(process, handle);

	if (!process->communicators) {
		process->communicators =
			calloc(RANK_PROCESS_COMMUNICATORS_MAX, sizeof(*process->communicators));
		if (!process->communicators)
			return NULL;
	}
	if (!known) {
		if (process->communicator_count == RANK_PROCESS_COMMUNICATORS_MAX)
			return NULL;
		known = &process->communicators[process->communicator_count++];
	}
	*known = (struct known_communicator){
		.handle = handle,
		.communicator = {.id = id, .own_index = STEP_RANK_UNKNOWN},
		.from_start = from_start,
	};
	return known;
}

void rank_process_examine(struct rank_process *process)
{
	char path[64], name[256];
	FILE *file;

	if (process->examined)
		return;
	process->examined = true;
	if (launcher_environment_read(process->pid, &process->launcher) == 0 &&
		process->launcher.rank != STEP_RANK_UNKNOWN) {
		process->rank = process->launcher.rank;
		process->rank_known = true;
		process->world_size = process->launcher.world_size;
	}
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)process->pid);
	file = fopen(path, "re");
	if (file) {
		if (fgets(name, sizeof(name), file))
			snprintf(process->program, sizeof(process->program), "%.*s",
				(int)strcspn(name, "\n"), name);
		fclose(file);
	}
	process->world_id = communicator_world_id(process->launcher.job_id);
}

/*
 * Programs load MPI when they like: looked for when it is called, and, where the library that calls is
 * not known, as long as it is not found.
 */
static void examine_mpi(struct rank_process *process, bool called)
{
	struct known_communicator *world, *self;

	if (process->mpi_examined)
		return;
	bool found = mpi_objects_read(process->pid, &process->mpi) == 0;

	process->mpi_examined = found || called;
	if (!found)
		return;
	world = add_communicator(
		process, process->mpi.world, process->world_id, !process->attached);
	if (world) {
		world->communicator.size = process->world_size;
		world->communicator.own_index = process->rank;
	}
	self = add_communicator(process, process->mpi.self, 0, !process->attached);
	if (self) {
		self->communicator.size = 1;
		self->communicator.own_index = 0;
	}
}

static void examine_for(struct rank_process *process, const struct collective_row *row)
{
	rank_process_examine(process);
	if (collective_library(row)->has_objects)
		examine_mpi(process, true);
}

void rank_process_told(struct rank_process *process, const struct event_rank *event)
{
	rank_process_examine(process);
	examine_mpi(process, false);
	struct known_communicator *known = find_communicator(process, event->handle);

	if (!known || event->value < 0)
		return;
	uint32_t value = (uint32_t)event->value;
	uint32_t *field =
		event->is_size ? &known->communicator.size : &known->communicator.own_index;
	if (*field != value) {
		*field = value;
		known->announced = false;
	}
	if (known->communicator.id != process->world_id)
		return;
	if (event->is_size && process->world_size != value) {
		process->world_size = value;
		process->announced = false;
	} else if (!event->is_size && (!process->rank_known || process->rank != value)) {
		process->rank = value;
		process->rank_known = true;
		process->announced = false;
	}
}

static void forget_communicator(struct rank_process *process, uint64_t handle)
{
	struct known_communicator *known = find_communicator(process, handle);

	if (known)
		*known = process->communicators[--process->communicator_count];
}

/* The largest communicator that names our rank is the world, where no launcher said so. */
static void take_world(struct rank_process *process, uint32_t rank, uint32_t rank_count)
{
	if (process->rank_known || rank_count < process->world_size)
		return;
	process->rank = rank;
	process->world_size = rank_count;
	process->announced = false;
}

/*
 * The creation_number-th communicator made from a parent, the members that gave this colour. 0 for
 * a parent from before an attach: how often it was split is not known alike on all.
 */
static uint64_t split_id(const struct known_communicator *parent, const struct collective_row *row,
	const struct event_communicator *event, uint64_t color)
{
	if (!parent || !parent->communicator.id || !parent->from_start)
		return 0;
	return communicator_identity(
		row->symbol, (uint64_t[]){parent->communicator.id, event->sequence, color}, 3);
}

/* Who is in a communicator, by the process's memory. False: that is not known. */
static bool look_up(struct rank_process *process, uint64_t handle, struct communicator *found)
{
	const struct mpi_world world = {process->world_id, process->world_size, process->rank};

	return process->world_id &&
	       mpi_members_read(process->pid, &process->mpi, &world, handle, found) == 0;
}

static void make_grid(struct known_communicator *made, const struct known_communicator *parent,
	const struct collective_row *row, const struct event_communicator *event)
{
	const struct event_list *list = &event->list;

	made->communicator.id = split_id(parent, row, event, 0);
	if (list->number_count < list->count ||
		!rank_grid_make(&made->grid, list->numbers, list->count))
		return;
	made->communicator.size = rank_grid_size(&made->grid);
	/* Ranks keep their order unless the program allows another. */
	made->any_order = event->color != 0;
	if (parent && !made->any_order && parent->communicator.own_index < made->communicator.size)
		made->communicator.own_index = parent->communicator.own_index;
}

static void make_subgrid(struct rank_process *process, struct known_communicator *made,
	const struct known_communicator *parent, const struct collective_row *row,
	const struct event_communicator *event)
{
	uint32_t number, own_index;
	struct communicator found;

	if (!parent || event->list.number_count < parent->grid.dimension_count ||
		parent->grid.dimension_count == 0)
		return;
	/* Who is where in the grid may be told by some ranks alone: so it is the members that tell the parts apart. */
	if (parent->any_order && look_up(process, event->handle, &found)) {
		made->any_order = true;
		rank_grid_part(
			&parent->grid, event->list.numbers, 0, &number, &made->grid, &own_index);
		made->communicator = found;
		made->communicator.id = split_id(parent, row, event, found.id);
		return;
	}
	if (parent->communicator.own_index >= rank_grid_size(&parent->grid))
		return;
	rank_grid_part(&parent->grid, event->list.numbers, parent->communicator.own_index, &number,
		&made->grid, &made->communicator.own_index);
	made->communicator.size = rank_grid_size(&made->grid);
	made->communicator.id = split_id(parent, row, event, number);
}

/* The identity of a communicator and what is known of it; id stays 0 where it has none. */
static void describe(struct rank_process *process, struct known_communicator *made,
	const struct known_communicator *parent, const struct event_communicator *event)
{
	const struct collective_row *row = &collective_rows[event->row];
	struct communicator *communicator = &made->communicator;
	uint64_t node;

	switch (row->action) {
	case ROW_ACTION_CREATE_UNIQUE_ID:
		if (event->unique_id_valid)
			communicator->id = communicator_id_from_unique(
				event->unique_id, sizeof(event->unique_id));
		if (event->rank_count > 0)
			communicator->size = (uint32_t)event->rank_count;
		if (event->rank >= 0)
			communicator->own_index = (uint32_t)event->rank;
		break;
	case ROW_ACTION_SPLIT:
		communicator->id = split_id(parent, row, event, (uint32_t)event->color);
		break;
	case ROW_ACTION_SPLIT_TYPE:
		if (event->color == process->mpi.type_shared &&
			communicator_node(process->pid, process->launcher.rank_variable, &node) ==
				0)
			communicator->id = split_id(parent, row, event, node);
		break;
	case ROW_ACTION_DUPLICATE:
		if (parent) {
			*communicator = parent->communicator;
			made->grid = parent->grid;
			made->any_order = parent->any_order;
		}
		communicator->id = split_id(parent, row, event, 0);
		break;
	case ROW_ACTION_TOPOLOGY:
		communicator->id = split_id(parent, row, event, 0);
		break;
	case ROW_ACTION_GRID:
		make_grid(made, parent, row, event);
		break;
	case ROW_ACTION_SUBGRID:
		make_subgrid(process, made, parent, row, event);
		break;
	case ROW_ACTION_CREATE_BY_GROUP:
	case ROW_ACTION_CREATE_IN_GROUP:
		communicator->id = rank_groups_communicator(&process->groups, row, event,
			parent && parent->from_start ? parent->communicator.id : 0,
			&communicator->size);
		break;
	default: /* seen, but not joined: better than joined wrongly */
		break;
	}
	if (parent && parent->communicator.size == 1) { /* of MPI_COMM_SELF and its kin: alone */
		communicator->size = 1;
		communicator->own_index = 0;
	}
	if (!communicator->id && parent && !parent->communicator.id && parent->made_by)
		made->made_by = parent->made_by;
}

void rank_process_communicator(struct rank_process *process, const struct event_communicator *event)
{
	const struct collective_row *row = &collective_rows[event->row];
	struct known_communicator *parent, *known;
	struct known_communicator made = {.handle = event->handle,
		.communicator = {.own_index = STEP_RANK_UNKNOWN},
		.from_start = true,
		.made_by = row->symbol};

	examine_for(process, row);
	parent = event->parent ? find_communicator(process, event->parent) : NULL;
	if (collective_makes_group(row)) {
		rank_groups_take(&process->groups, row, event, parent ? parent->communicator.id : 0,
			parent ? parent->communicator.size : 0);
		return;
	}
	if (event->destroyed) {
		forget_communicator(process, event->handle);
		return;
	}
	describe(process, &made, parent, event);
	if (event->handle == 0 || event->handle == process->mpi.null)
		return; /* the caller is no member of what was made */
	known = add_communicator(process, event->handle, made.communicator.id, true);
	if (!known)
		return;
	*known = made;
	if (event->rank >= 0 && event->rank_count > 0)
		take_world(process, (uint32_t)event->rank, (uint32_t)event->rank_count);
}

void rank_process_device_communicator(
	struct rank_process *process, const struct communicator *communicator)
{
	rank_process_examine(process);
	struct known_communicator *known = find_communicator(process, communicator->id);

	if (known && known->communicator.size == communicator->size &&
		known->communicator.own_index == communicator->own_index)
		return;
	known = add_communicator(process, communicator->id, communicator->id, true);
	if (known)
		known->communicator = *communicator;
	take_world(process, communicator->own_index, communicator->size);
}

/* A communicator from before an attach, by the process's memory. Looked at once per handle. */
static struct known_communicator *identify(
	struct rank_process *process, const struct library_traits *library, uint64_t handle)
{
	struct communicator_memory memory = {0};
	struct communicator found = {.own_index = STEP_RANK_UNKNOWN};
	struct known_communicator *known;

	if (library->found_in_memory &&
		communicator_memory_read(process->pid, handle, &memory) == 0) {
		found = (struct communicator){
			.id = memory.hash, .size = memory.rank_count, .own_index = memory.rank};
		take_world(process, memory.rank, memory.rank_count);
	} else if (library->has_objects && !look_up(process, handle, &found)) {
		found.id = 0;
	}
	known = add_communicator(process, handle, found.id, false);
	if (known && found.id)
		known->communicator = found;
	return known;
}

void activity_from_event(struct activity *out, const struct event_activity *in)
{
	*out = (struct activity){
		.preempted_ns = (int64_t)in->preempted_ns,
		.throttled_ns = (int64_t)in->throttled_ns,
		.block_io_ns = (int64_t)in->block_io_ns,
		.asleep_ns = (int64_t)in->asleep_ns,
		.major_fault_ns = (int64_t)in->major_fault_ns,
		.minor_fault_ns = (int64_t)in->minor_fault_ns,
		.comm_call_ns = (int64_t)in->comm_call_ns,
		.collector_ns = (int64_t)in->collector_ns,
		.major_faults = in->major_faults,
		.minor_faults = in->minor_faults,
	};
}

void launches_from_event(struct step_launches *out, const struct event_launches *in)
{
	*out = (struct step_launches){
		.window = in->window,
		.launches = in->launches,
		.graph_launches = in->graph_launches,
		.silence_ns = (int64_t)in->silence_ns,
		.idle_ns = (int64_t)in->idle_ns,
		.wait_ns = (int64_t)in->device_wait_ns,
	};
}

/* Sends and receives of a communicator are counted for each pair, so they have an identity of their own. */
static uint64_t messages_id(
	struct rank_process *process, const struct known_communicator *communicator)
{
	struct communicator messages = communicator->communicator;

	if (!messages.id)
		return 0;
	messages.id = communicator_identity("messages", &communicator->communicator.id, 1);
	rank_process_device_communicator(process, &messages);
	return messages.id;
}

/* What is exchanged with oneself keeps no peer: nobody waits for it. */
static void make_message(struct rank_process *process, const struct known_communicator *known,
	struct collective_part *part)
{
	uint32_t peer = (uint32_t)part->root;

	part->root = STEP_ROOT_NONE;
	part->flags |= PART_ENQUEUE_ONLY | PART_SEQUENCE_RELATIVE;
	if (peer < STEP_RANK_COUNT_MAX && !(known && known->communicator.own_index == peer))
		part->peer = peer + 1;
	if (known)
		part->communicator_id = messages_id(process, known);
}

bool rank_process_alone(struct rank_process *process, uint64_t handle)
{
	struct known_communicator *known = find_communicator(process, handle);

	return known && known->communicator.size == 1 && process->world_size > 1;
}

bool rank_process_part(struct rank_process *process, const struct event_collective *event,
	struct collective_part *part)
{
	const struct library_traits *library;
	const struct collective_row *row;

	if (event->row >= collective_row_count)
		return false;
	row = &collective_rows[event->row];
	if (row->kind != ROW_COLLECTIVE && !collective_is_message(row))
		return false;
	library = collective_library(row);
	examine_for(process, row);
	struct known_communicator *known = find_communicator(process, event->handle);
	if (!known && process->attached && (library->found_in_memory || library->has_objects))
		known = identify(process, library, event->handle);
	size_t element_bytes = collective_datatype_bytes(row, event->datatype);

	if (!element_bytes && library->has_objects)
		element_bytes = mpi_objects_datatype_bytes(&process->mpi, event->datatype);

	*part = (struct collective_part){
		.communicator_id = known ? known->communicator.id : 0,
		.sequence = event->sequence,
		.length_bytes = event->count * (element_bytes ? element_bytes : 1),
		.arrival = {(int64_t)event->arrival_ns},
		.departure = {(int64_t)event->departure_ns},
		.root = event->root >= 0 ? event->root : STEP_ROOT_NONE,
		.operation = row->operation,
	};
	if (!row->blocking || (event->flags & EVENT_COLLECTIVE_NO_RETURN))
		part->flags |= PART_ENQUEUE_ONLY;
	if (process->attached && !(known && known->from_start))
		part->flags |= PART_SEQUENCE_RELATIVE;
	if (collective_is_message(row))
		make_message(process, known, part);
	if (!part->communicator_id && !(known && known->communicator.size == 1) &&
		!(library->device_times && process->device_calls)) {
		process->not_joined++;
		process->not_joined_made_by = known ? known->made_by : NULL;
	}
	activity_from_event(&part->before, &event->before);
	activity_from_event(&part->inside, &event->inside);
	return true;
}
