/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a look and of its control as one tree of frames, for folded stacks and flame graphs: the same frame of both is
 * one node. The kernels that their devices ran stand beside, where a deep look summed them. Points into the looks. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_FLAME_TREE_H
#define SLOWRANK_COORDINATOR_REPORT_FLAME_TREE_H

#include "coordinator/report/stacks.h"

enum flame_side { FLAME_OWN = 0, FLAME_CONTROL = 1, FLAME_SIDES = 2 };

enum { FLAME_KIND_DEVICE = 5 }; /* of a node, beside enum stack_frame_kind: a kernel */

enum flame_role { FLAME_ROLE_DEVICE = 4 }; /* of a thread, beside enum stack_thread_role */

enum flame_unit {
	FLAME_US_PER_STEP = 0,
	FLAME_US = 1,	 /* of the whole look: no whole step lay within it */
	FLAME_LOOKS = 2, /* how often it was seen: no time lay between the looks, as of a hang */
};

struct flame_node {
	uint32_t parent;     /* below the node's own index; STACK_NODE_NONE: the outermost */
	uint32_t name, file; /* indices of names */
	uint32_t short_file; /* likewise */
	int32_t line;	     /* 0 = unknown */
	uint8_t kind;
};

struct flame_sum {
	uint32_t node, thread, segment; /* indices */
	uint32_t looks;
	uint8_t side, state; /* enum flame_side, enum stack_state; 0: of a device */
	double value;	     /* enum flame_unit */
};

struct flame_label {
	char text[STACKS_LABEL_LENGTH];
	char key[STACKS_LABEL_LENGTH]; /* the same for what both looks have */
	uint8_t role;		       /* of a thread */
};

struct flame_tree {
	struct stacks_pair pair;
	enum flame_unit unit;
	uint32_t name_count, node_count, sum_count, thread_count, segment_count;
	const char **names; /* the first one is empty */
	struct flame_node *nodes;
	struct flame_sum *sums;
	struct flame_label *threads, *segments;
	uint32_t capacity;	      /* of nodes; three names each */
	uint32_t *name_slots, *slots; /* hash tables of names and nodes */
	uint32_t mask;
};

/* Returns 0 or -ENOMEM. */
int flame_tree_init(struct flame_tree *tree, const struct report_model *model,
	const struct stacks_pair *pair) __attribute__((warn_unused_result));
void flame_tree_fini(struct flame_tree *tree);

/* The frame without its way to it, as stacks_add_frame() has it. */
void flame_tree_add_frame(struct line *line, const struct flame_tree *tree, uint32_t node);

#endif
