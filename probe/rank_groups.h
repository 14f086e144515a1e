/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MPI groups of one process, and how often it made communicators from them. A group's identity
 * is how it was made: two processes that make it alike get the same number, and groups with
 * different members never do. So what is made from groups is joined where all members made theirs
 * alike, and otherwise not joined. One thread.
 */
#ifndef SLOWRANK_PROBE_RANK_GROUPS_H
#define SLOWRANK_PROBE_RANK_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/event_layout.h"
#include "probe/attach/collective_table.h"

enum {
	RANK_GROUPS_MAX = 1024,		 /* further groups have no identity */
	RANK_GROUP_CREATIONS_MAX = 1024, /* nor have communicators made from further ones */
};

struct known_group {
	uint64_t handle, identity;
	uint32_t references; /* the library gives one handle out again and again */
	uint32_t size;	     /* 0 = not known */
};

struct group_creation {
	uint64_t key; /* parent, group and tag */
	uint64_t count;
};

struct rank_groups {
	uint64_t next_call;
	bool lost; /* a record is missing: from here on nothing is known of groups */
	size_t group_count, creation_count;
	struct known_group *groups;
	struct group_creation *creations;
};

void rank_groups_fini(struct rank_groups *groups);

/* A row of groups: one was made or freed. communicator_id (0 = not known) and size are of the parent. */
void rank_groups_take(struct rank_groups *groups, const struct collective_row *row,
	const struct event_communicator *event, uint64_t communicator_id, uint32_t size);

/*
 * The identity of a communicator made from a group of the parent, by all of the parent's members
 * or by the group's; 0 = it has none. Its size, where the group tells it, goes to size.
 */
uint64_t rank_groups_communicator(struct rank_groups *groups, const struct collective_row *row,
	const struct event_communicator *event, uint64_t parent_id, uint32_t *size);

#endif
