/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rank_groups.h"

#include <stdlib.h>

#include "probe/attach/communicator_identity.h"

void rank_groups_fini(struct rank_groups *groups)
{
	free(groups->groups);
	free(groups->creations);
	*groups = (struct rank_groups){0};
}

static struct known_group *find(const struct rank_groups *groups, uint64_t handle)
{
	for (size_t i = 0; i < groups->group_count; i++) {
		if (groups->groups[i].handle == handle)
			return &groups->groups[i];
	}
	return NULL;
}

/* Every call with groups has a number. One missing may have given a handle another meaning. */
static void follow(struct rank_groups *groups, uint64_t call)
{
	if (groups->next_call != call)
		groups->lost = true;
	groups->next_call = call + 1;
}

static void add(struct rank_groups *groups, uint64_t handle, uint64_t identity, uint32_t size)
{
	struct known_group *known = find(groups, handle);

	if (!groups->groups)
		groups->groups = calloc(RANK_GROUPS_MAX, sizeof(*groups->groups));
	if (!groups->groups)
		return;
	if (!known) {
		if (groups->group_count == RANK_GROUPS_MAX)
			return;
		known = &groups->groups[groups->group_count++];
		*known = (struct known_group){.handle = handle};
	}
	known->identity = identity;
	known->size = size;
	known->references++;
}

static void drop(struct rank_groups *groups, uint64_t handle)
{
	struct known_group *known = find(groups, handle);

	if (known && --known->references == 0)
		*known = groups->groups[--groups->group_count];
}

static uint64_t identity_of(const struct rank_groups *groups, uint64_t handle, uint32_t *size)
{
	const struct known_group *known = find(groups, handle);

	*size = known ? known->size : 0;
	return known ? known->identity : 0;
}

/* How a group was made from one or two others; 0 where that is not known. */
static uint64_t derive(const struct rank_groups *groups, const struct collective_row *row,
	const struct event_communicator *event, uint32_t *size)
{
	uint32_t from_size, other_size;
	uint64_t from = identity_of(groups, event->group, &from_size);
	uint64_t other = identity_of(groups, event->other_group, &other_size);

	if (!from)
		return 0;
	if (row->action == ROW_ACTION_GROUP_COMBINE)
		return other ? communicator_identity(row->symbol, (uint64_t[]){from, other}, 2) : 0;
	if (!event->list.digest)
		return 0;
	if (row->action == ROW_ACTION_GROUP_INCLUDE)
		*size = event->list.count;
	else if (row->action == ROW_ACTION_GROUP_EXCLUDE && from_size > event->list.count)
		*size = from_size - event->list.count;
	return communicator_identity(
		row->symbol, (uint64_t[]){from, event->list.count, event->list.digest}, 3);
}

void rank_groups_take(struct rank_groups *groups, const struct collective_row *row,
	const struct event_communicator *event, uint64_t communicator_id, uint32_t size)
{
	uint64_t identity;

	follow(groups, event->group_call);
	if (event->destroyed) {
		drop(groups, event->handle);
		return;
	}
	if (row->action == ROW_ACTION_GROUP_OF) {
		identity = communicator_id ? communicator_identity(row->symbol, &communicator_id, 1)
					   : 0;
	} else {
		size = 0;
		identity = derive(groups, row, event, &size);
	}
	add(groups, event->handle, identity, size);
}

/* How often a communicator was made in this way before; false when that is not known. */
static bool count_creation(struct rank_groups *groups, uint64_t key, uint64_t *number)
{
	if (!groups->creations)
		groups->creations = calloc(RANK_GROUP_CREATIONS_MAX, sizeof(*groups->creations));
	for (size_t i = 0; i < groups->creation_count; i++) {
		if (groups->creations[i].key == key) {
			*number = groups->creations[i].count++;
			return true;
		}
	}
	if (!groups->creations || groups->creation_count == RANK_GROUP_CREATIONS_MAX)
		return false;
	groups->creations[groups->creation_count++] = (struct group_creation){key, 1};
	*number = 0;
	return true;
}

uint64_t rank_groups_communicator(struct rank_groups *groups, const struct collective_row *row,
	const struct event_communicator *event, uint64_t parent_id, uint32_t *size)
{
	bool by_list = collective_list_ints(row) > 0;
	uint64_t group, key, number;
	uint32_t group_size = 0;

	follow(groups, event->group_call);
	group = by_list ? event->list.digest : identity_of(groups, event->group, &group_size);
	if (groups->lost || !group || !parent_id)
		return 0;
	if (row->action == ROW_ACTION_CREATE_BY_GROUP) {
		*size = group_size;
		return communicator_identity(
			row->symbol, (uint64_t[]){parent_id, event->sequence, group}, 3);
	}
	key = communicator_identity(row->symbol,
		(uint64_t[]){parent_id, group, by_list ? event->list.count : (uint32_t)event->key},
		3);
	if (!count_creation(groups, key, &number))
		return 0;
	*size = group_size;
	return communicator_identity(row->symbol, (uint64_t[]){key, number}, 2);
}
