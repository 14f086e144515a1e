/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/explain/stack_tree.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/hash.h"
#include "analysis/policy.h"

enum { TREE_NODES_MAX = 4 * STACK_PROFILE_NODES_MAX, LINES_MAX = 64 };

static const char *text_of(const struct stack_profile *profile, uint32_t at)
{
	return profile->text + at;
}

/* Frames without a name, and what the kernel adds, are between a function and what it waits for. */
static bool is_by_python(const struct stack_profile *profile, uint32_t node)
{
	while (node != STACK_NODE_NONE && profile->nodes[node].kind != STACK_FRAME_PYTHON &&
		(profile->nodes[node].kind != STACK_FRAME_NATIVE ||
			!text_of(profile, profile->nodes[node].function)[0]))
		node = profile->nodes[node].parent;
	return node != STACK_NODE_NONE && profile->nodes[node].kind == STACK_FRAME_PYTHON;
}

/* Parents come first, and what is outermost counts; but below a wait nothing else is. */
static void classify(struct stack_side *side)
{
	const struct stack_profile *profile = side->profile;

	for (uint32_t i = 0; i < profile->node_count; i++) {
		const struct stack_node *node = &profile->nodes[i];
		uint8_t above = node->parent == STACK_NODE_NONE ? STACK_CLASS_NONE
								: side->classes[node->parent];
		uint8_t own = (uint8_t)stack_class_of(node->kind, text_of(profile, node->function),
			text_of(profile, node->file), is_by_python(profile, node->parent));

		side->classes[i] =
			above == STACK_CLASS_NONE || own == STACK_CLASS_WAIT ? own : above;
	}
}

void stack_time_add(
	struct stack_time *time, const struct stack_side *side, const struct stack_sum *sum)
{
	time->ns += fmin((double)sum->time_ns, sum->looks * side->look_ns_max);
	time->looks += sum->looks;
}

struct look_length {
	double ns, looks;
};

static bool is_callers(const struct stack_side *side, const struct stack_sum *sum)
{
	return side->profile->threads[sum->thread].role == STACK_THREAD_CALLER && sum->looks;
}

static int compare_lengths(const void *one, const void *other)
{
	const struct look_length *left = one, *right = other;

	return (left->ns > right->ns) - (left->ns < right->ns);
}

/* How long a look usually counts: the median over those at callers. lengths: room for one a sum. */
static double usual_length_ns(const struct stack_side *side, struct look_length *lengths)
{
	double looks = 0, before = 0;
	size_t count = 0, i = 0;

	for (uint32_t s = 0; s < side->profile->sum_count; s++) {
		const struct stack_sum *sum = &side->profile->sums[s];

		if (!is_callers(side, sum))
			continue;
		lengths[count++] =
			(struct look_length){(double)sum->time_ns / sum->looks, (double)sum->looks};
		looks += sum->looks;
	}
	if (count == 0)
		return INFINITY;
	qsort(lengths, count, sizeof(*lengths), compare_lengths);
	while (i + 1 < count && before + lengths[i].looks < looks / 2)
		before += lengths[i++].looks;
	return lengths[i].ns;
}

/*
 * The sampler may be kept from looking for seconds, by files that it reads, or by others that have its CPU. What one look would
 * count for then is nobody's, and so are the steps of that time.
 */
static int leave_out_gaps(struct stack_side *side)
{
	struct look_length *lengths = calloc(side->profile->sum_count + 1, sizeof(*lengths));
	struct stack_time kept = {0};
	double all = 0;

	if (!lengths)
		return -ENOMEM;
	side->look_ns_max = STACK_GAP_MIN * usual_length_ns(side, lengths);
	free(lengths);
	for (uint32_t s = 0; s < side->profile->sum_count; s++) {
		const struct stack_sum *sum = &side->profile->sums[s];

		if (!is_callers(side, sum))
			continue;
		stack_time_add(&kept, side, sum);
		all += (double)sum->time_ns;
	}
	side->steps = side->profile->steps * (kept.ns > 0 ? kept.ns / all : 1);
	return 0;
}

static int side_init(struct stack_side *side, const struct stack_profile *profile)
{
	side->profile = profile;
	side->classes = calloc(profile->node_count + 1, sizeof(*side->classes));
	side->leaves = calloc(profile->sum_count + 1, sizeof(*side->leaves));
	if (!side->classes || !side->leaves)
		return -ENOMEM;
	classify(side);
	return leave_out_gaps(side);
}

int stack_tree_init(struct stack_tree *tree, const struct stack_profile *suspect,
	const struct stack_profile *control)
{
	size_t wanted = 2 * ((size_t)suspect->node_count + control->node_count) +
			suspect->thread_count + control->thread_count + STACK_GROUP_NR;
	uint32_t buckets = 1;

	memset(tree, 0, sizeof(*tree));
	tree->capacity = (uint32_t)(wanted < TREE_NODES_MAX ? wanted : TREE_NODES_MAX);
	while (buckets < tree->capacity)
		buckets *= 2;
	tree->bucket_mask = buckets - 1;
	tree->nodes = calloc(tree->capacity, sizeof(*tree->nodes));
	tree->buckets = calloc(buckets, sizeof(*tree->buckets));
	if (!tree->nodes || !tree->buckets || side_init(&tree->sides[STACK_SUSPECT], suspect) ||
		side_init(&tree->sides[STACK_CONTROL], control)) {
		stack_tree_fini(tree);
		return -ENOMEM;
	}
	return 0;
}

void stack_tree_fini(struct stack_tree *tree)
{
	for (int s = 0; s < STACK_SIDES; s++) {
		free(tree->sides[s].classes);
		free(tree->sides[s].leaves);
	}
	free(tree->nodes);
	free(tree->buckets);
}

enum stack_class stack_tree_class(const struct stack_side *side, const struct stack_sum *sum)
{
	enum stack_class class = (enum stack_class)side->classes[sum->node];

	if (class != STACK_CLASS_NONE)
		return class;
	return sum->state == STACK_STATE_FILE	   ? STACK_CLASS_FILE
	       : sum->state == STACK_STATE_LOCK	   ? STACK_CLASS_THREAD
	       : sum->state == STACK_STATE_RUNNING ? STACK_CLASS_CODE
						   : STACK_CLASS_NONE;
}

enum stack_group stack_tree_group(const struct stack_side *side, const struct stack_sum *sum)
{
	const struct stack_profile *profile = side->profile;
	bool inside = profile->segments[sum->segment].inside;
	bool waits = sum->state == STACK_STATE_LOCK || sum->state == STACK_STATE_SOCKET;

	if (sum->state == STACK_STATE_RUNNABLE || side->classes[sum->node] == STACK_CLASS_WAIT)
		return STACK_GROUP_LEFT_OUT;
	switch (profile->threads[sum->thread].role) {
	case STACK_THREAD_CALLER:
		return inside  ? STACK_GROUP_LEFT_OUT
		       : waits ? STACK_GROUP_WAITS
			       : STACK_GROUP_WORKS;
	case STACK_THREAD_OTHER:
		return sum->state == STACK_STATE_LOCK ? STACK_GROUP_LEFT_OUT : STACK_GROUP_OTHER;
	case STACK_THREAD_WORKER:
		return sum->state == STACK_STATE_LOCK ? STACK_GROUP_LEFT_OUT : STACK_GROUP_WORKER;
	default:
		return STACK_GROUP_LEFT_OUT;
	}
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *after_digits(const char *text)
{
	while (is_digit(*text))
		text++;
	return text;
}

/* Names of threads are the same but for their numbers: those of devices, of ranks, of members of a pool. */
static bool same_thread_name(const char *one, const char *other)
{
	while (*one || *other) {
		if (is_digit(*one) && is_digit(*other)) {
			one = after_digits(one);
			other = after_digits(other);
		} else if (*one++ != *other++) {
			return false;
		}
	}
	return true;
}

static uint64_t hash_text(uint64_t hash, const char *text, bool is_thread)
{
	for (; *text; text++) {
		if (!is_thread || !is_digit(*text))
			hash = hash_bytes(hash, text, 1);
	}
	return hash_mix(hash, 0);
}

static bool is_same(const struct stack_tree_node *node, const struct stack_tree_node *wanted)
{
	if (node->parent != wanted->parent || node->kind != wanted->kind ||
		node->group != wanted->group)
		return false;
	if (wanted->kind == 0)
		return same_thread_name(node->function, wanted->function);
	return strcmp(node->function, wanted->function) == 0 &&
	       strcmp(node->file, wanted->file) == 0;
}

/* Returns the node's index, or STACK_NODE_NONE when there is no room. */
static uint32_t find_or_add(struct stack_tree *tree, const struct stack_tree_node *wanted)
{
	uint64_t hash = hash_mix(wanted->parent, wanted->kind | (uint64_t)wanted->group << 8);
	uint32_t *bucket, at;

	hash = hash_text(hash, wanted->function, wanted->kind == 0);
	hash = hash_text(hash, wanted->file, false);
	bucket = &tree->buckets[hash & tree->bucket_mask];
	for (at = *bucket; at != STACK_NODE_NONE; at = tree->nodes[at].next) {
		if (is_same(&tree->nodes[at], wanted))
			return at;
	}
	if (tree->count == tree->capacity)
		return STACK_NODE_NONE;
	at = tree->count++;
	tree->nodes[at] = *wanted;
	tree->nodes[at].next = *bucket;
	tree->nodes[at].first_child = STACK_NODE_NONE;
	*bucket = at;
	if (wanted->parent != STACK_NODE_NONE) {
		tree->nodes[at].sibling = tree->nodes[wanted->parent].first_child;
		tree->nodes[wanted->parent].first_child = at;
	}
	return at;
}

/*
 * How many frames of a path, the innermost first, count. Native frames outside of Python's are there or not, as each look could
 * read them: the same stack would have two places.
 */
static uint32_t without_outer_frames(
	const struct stack_profile *profile, const uint32_t *path, uint32_t depth)
{
	uint32_t left = depth;

	while (left && profile->nodes[path[left - 1]].kind == STACK_FRAME_NATIVE)
		left--;
	return left && profile->nodes[path[left - 1]].kind == STACK_FRAME_PYTHON ? left : depth;
}

/* Returns the innermost node. */
static uint32_t add_sum(
	struct stack_tree *tree, int of, const struct stack_sum *sum, enum stack_group group)
{
	const struct stack_profile *profile = tree->sides[of].profile;
	bool named = group == STACK_GROUP_OTHER || group == STACK_GROUP_WORKER;
	struct stack_tree_node wanted = {
		.function = named ? profile->threads[sum->thread].name : "",
		.file = "",
		.parent = STACK_NODE_NONE,
		.sibling = STACK_NODE_NONE,
		.group = (uint8_t)group};
	uint32_t path[STACK_PROFILE_DEPTH_MAX], depth = 0, at;

	for (uint32_t node = sum->node; node != STACK_NODE_NONE && depth < STACK_PROFILE_DEPTH_MAX;
		node = profile->nodes[node].parent)
		path[depth++] = node;
	depth = without_outer_frames(profile, path, depth);
	at = find_or_add(tree, &wanted);
	while (at != STACK_NODE_NONE) {
		const struct stack_node *frame;

		stack_time_add(&tree->nodes[at].times[of], &tree->sides[of], sum);
		if (depth == 0)
			break;
		frame = &profile->nodes[path[--depth]];
		wanted.kind = frame->kind;
		wanted.function = text_of(profile, frame->function);
		wanted.file = text_of(profile, frame->file);
		wanted.parent = at;
		at = find_or_add(tree, &wanted);
	}
	return at;
}

/* The group in which a sum is in the tree. */
static enum stack_group chosen_group(const struct stack_tree *tree, int of,
	const struct stack_sum *sum, const struct stack_choice *choice)
{
	const struct stack_side *side = &tree->sides[of];
	enum stack_group group = stack_tree_group(side, sum);

	if (choice->others_in)
		return group == STACK_GROUP_OTHER &&
				       (of == STACK_CONTROL || choice->others_in[sum->segment])
			       ? group
			       : STACK_GROUP_LEFT_OUT;
	if (choice->only == STACK_CLASS_NONE)
		return group;
	return (group == STACK_GROUP_WORKS || group == STACK_GROUP_WAITS) &&
			       stack_tree_class(side, sum) == choice->only
		       ? STACK_GROUP_WORKS
		       : STACK_GROUP_LEFT_OUT;
}

void stack_tree_fill(struct stack_tree *tree, struct stack_choice choice)
{
	tree->count = 0;
	memset(tree->buckets, 0xff, (tree->bucket_mask + (size_t)1) * sizeof(*tree->buckets));
	for (int of = 0; of < STACK_SIDES; of++) {
		struct stack_side *side = &tree->sides[of];

		for (uint32_t i = 0; i < side->profile->sum_count; i++) {
			const struct stack_sum *sum = &side->profile->sums[i];
			enum stack_group group = chosen_group(tree, of, sum, &choice);

			side->leaves[i] = group == STACK_GROUP_LEFT_OUT
						  ? STACK_NODE_NONE
						  : add_sum(tree, of, sum, group);
		}
	}
}

double stack_tree_over(const struct stack_tree *tree, const struct stack_tree_node *node)
{
	const struct stack_side *sides = tree->sides;

	return node->times[STACK_SUSPECT].ns / sides[STACK_SUSPECT].steps -
	       node->times[STACK_CONTROL].ns / sides[STACK_CONTROL].steps;
}

bool stack_tree_is_more(const struct stack_tree *tree, const struct stack_tree_node *one,
	const struct stack_tree_node *other)
{
	double more = stack_tree_over(tree, one) - stack_tree_over(tree, other);
	int order;

	if (more > 0 || more < 0)
		return more > 0;
	order = strcmp(one->function, other->function);
	return order ? order < 0 : strcmp(one->file, other->file) < 0;
}

/* A function, or the outermost node: not what it waits for. */
static bool is_code(const struct stack_tree_node *node)
{
	return node->kind <= STACK_FRAME_NATIVE;
}

static const struct stack_tree_node *largest_child(
	const struct stack_tree *tree, const struct stack_tree_node *node)
{
	const struct stack_tree_node *best = NULL;

	for (uint32_t i = node->first_child; i != STACK_NODE_NONE; i = tree->nodes[i].sibling) {
		if (!is_code(&tree->nodes[i]))
			continue;
		if (!best || stack_tree_is_more(tree, &tree->nodes[i], best))
			best = &tree->nodes[i];
	}
	return best;
}

static uint32_t depth_of(const struct stack_tree *tree, const struct stack_tree_node *node)
{
	uint32_t depth = 0;

	for (; node->parent != STACK_NODE_NONE; node = &tree->nodes[node->parent])
		depth++;
	return depth;
}

const struct stack_tree_node *stack_tree_place(
	const struct stack_tree *tree, enum stack_group group)
{
	const struct stack_tree_node *place = NULL, *child;
	double least;

	/* Where a control waits for its device in a place that no rule knows, that hides in the sums of outer frames. */
	for (uint32_t i = 0; i < tree->count; i++) {
		const struct stack_tree_node *node = &tree->nodes[i];
		double over = stack_tree_over(tree, node);

		if (node->group != group || over <= 0 || !is_code(node))
			continue;
		if (!place || over > stack_tree_over(tree, place) ||
			(over >= stack_tree_over(tree, place) &&
				depth_of(tree, node) <= depth_of(tree, place) &&
				stack_tree_is_more(tree, node, place)))
			place = node;
	}
	if (!place)
		return NULL;
	least = STACK_SHARE_MIN * stack_tree_over(tree, place);
	while ((child = largest_child(tree, place)) && stack_tree_over(tree, child) >= least)
		place = child;
	return place;
}

struct line {
	int32_t number;
	double ns;
};

static void add_line(struct line *lines, size_t *count, int32_t number, double ns)
{
	size_t i = 0;

	while (i < *count && lines[i].number != number)
		i++;
	if (i == LINES_MAX)
		return;
	if (i == *count)
		lines[(*count)++] = (struct line){number, 0};
	lines[i].ns += ns;
}

/* The frame of the sum's stack that is a node; STACK_NODE_NONE: none. */
static uint32_t frame_at(const struct stack_tree *tree, const struct stack_side *side, uint32_t sum,
	const struct stack_tree_node *node)
{
	uint32_t at = side->leaves[sum], frame = side->profile->sums[sum].node;

	while (at != STACK_NODE_NONE && frame != STACK_NODE_NONE && &tree->nodes[at] != node) {
		at = tree->nodes[at].parent;
		frame = side->profile->nodes[frame].parent;
	}
	return at == STACK_NODE_NONE ? STACK_NODE_NONE : frame;
}

bool stack_tree_is_below(const struct stack_tree *tree, const struct stack_side *side, uint32_t sum,
	const struct stack_tree_node *node)
{
	uint32_t at = side->leaves[sum];

	while (at != STACK_NODE_NONE && &tree->nodes[at] != node)
		at = tree->nodes[at].parent;
	return at != STACK_NODE_NONE;
}

int32_t stack_tree_line(const struct stack_tree *tree, const struct stack_tree_node *node)
{
	struct line lines[LINES_MAX], best = {0, 0};
	size_t count = 0;

	for (int of = 0; of < STACK_SIDES; of++) {
		const struct stack_side *side = &tree->sides[of];
		double sign = of == STACK_SUSPECT ? 1 : -1;

		for (uint32_t i = 0; i < side->profile->sum_count; i++) {
			uint32_t frame = frame_at(tree, side, i, node);
			struct stack_time time = {0};

			stack_time_add(&time, side, &side->profile->sums[i]);
			if (frame != STACK_NODE_NONE)
				add_line(lines, &count, side->profile->nodes[frame].line,
					sign * time.ns / side->steps);
		}
	}
	for (size_t i = 0; i < count; i++) {
		if (lines[i].ns > best.ns ||
			(lines[i].ns >= best.ns && lines[i].number < best.number))
			best = lines[i];
	}
	return best.number;
}
