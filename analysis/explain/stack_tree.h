/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a suspect and of its control as one tree: a node for each function in its place, with the time of both, summed
 * over lines. Points into the profiles. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_EXPLAIN_STACK_TREE_H
#define SLOWRANK_ANALYSIS_EXPLAIN_STACK_TREE_H

#include <stdbool.h>

#include "analysis/explain/stack_frames.h"

/* Whose time: each has trees of its own, one for each name of a thread where it is no caller's. */
enum stack_group {
	STACK_GROUP_WORKS =
		0, /* callers that do something, or wait for what is outside of the rank's processes */
	STACK_GROUP_WAITS = 1, /* callers that wait for a thread, or a process */
	STACK_GROUP_OTHER =
		2, /* other threads that do something while callers are outside of collectives */
	STACK_GROUP_WORKER = 3, /* threads of the rank's children, likewise */
	STACK_GROUP_NR,
	STACK_GROUP_LEFT_OUT =
		STACK_GROUP_NR, /* a wait for a CPU, and what is not the rank's own time */
};

enum stack_whose { STACK_SUSPECT = 0, STACK_CONTROL = 1, STACK_SIDES = 2 };

struct stack_time {
	double ns;
	uint32_t looks;
};

struct stack_tree_node {
	const char *function, *file; /* of an outermost one: the thread's name, or "" */
	uint32_t parent, next, first_child, sibling;
	uint8_t kind; /* 0: an outermost one */
	uint8_t group;
	struct stack_time times[STACK_SIDES]; /* with all below it */
};

struct stack_side {
	const struct stack_profile *profile;
	uint8_t *classes;   /* enum stack_class of each of its nodes, by all frames of the stack */
	uint32_t *leaves;   /* of each of its sums; STACK_NODE_NONE: left out */
	double look_ns_max; /* a look counts for so long at most: beyond, nobody looked */
	double steps;	    /* as many as what was looked at */
};

struct stack_tree {
	struct stack_side sides[STACK_SIDES];
	struct stack_tree_node *nodes;
	uint32_t *buckets;
	uint32_t count, capacity, bucket_mask;
};

/* Returns 0 or -ENOMEM. The tree is empty. */
int stack_tree_init(struct stack_tree *tree, const struct stack_profile *suspect,
	const struct stack_profile *control) __attribute__((warn_unused_result));
void stack_tree_fini(struct stack_tree *tree);

/* Of which sums a tree is made: of all, or of some. */
struct stack_choice {
	enum stack_class only; /* of callers' sums of this class, which then are of one group */
	/* Or of other threads': what the suspect's do in these segments (by their indices), and the control's at any time.
	   What a thread always does is no excess then. */
	const bool *others_in;
};

/* Makes it anew. */
void stack_tree_fill(struct stack_tree *tree, struct stack_choice choice);

/* What a sum is: of one side, by its index. */
enum stack_class stack_tree_class(const struct stack_side *side, const struct stack_sum *sum);
enum stack_group stack_tree_group(const struct stack_side *side, const struct stack_sum *sum);

void stack_time_add(
	struct stack_time *time, const struct stack_side *side, const struct stack_sum *sum);

/* The rank's time a step beyond the control's. */
double stack_tree_over(const struct stack_tree *tree, const struct stack_tree_node *node);

/* More excess; of as much, by name: the order in which nodes came must not matter. */
bool stack_tree_is_more(const struct stack_tree *tree, const struct stack_tree_node *one,
	const struct stack_tree_node *other);

/* The deepest function that still has half of a group's largest excess; NULL: no excess. */
const struct stack_tree_node *stack_tree_place(
	const struct stack_tree *tree, enum stack_group group);

/* The line of a node on which most of the excess is; 0 = not known. */
int32_t stack_tree_line(const struct stack_tree *tree, const struct stack_tree_node *node);

/* True when the sum's stack goes through the node. */
bool stack_tree_is_below(const struct stack_tree *tree, const struct stack_side *side, uint32_t sum,
	const struct stack_tree_node *node);

#endif
