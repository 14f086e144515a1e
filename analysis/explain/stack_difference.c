/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/explain/stack_difference.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/explain/kernel_profile.h"
#include "analysis/explain/stack_tree.h"
#include "analysis/policy.h"

/* A place in the tree, in words, and how much of the excess is there. */
struct told {
	double over_ns; /* a step; 0: there is none */
	struct verdict_where where;
	uint32_t thread;			   /* of the suspect, which was there longest */
	bool segments[STACK_PROFILE_SEGMENTS_MAX]; /* of the suspect, in which it was there */
};

struct comparison {
	struct stack_tree tree;
	uint32_t every_steps;
	/* By class: of callers, and of other threads. */
	struct stack_time callers[STACK_CLASS_NR][STACK_SIDES], others[STACK_CLASS_NR][STACK_SIDES];
	struct stack_time piped[STACK_SIDES]; /* callers' waits for a process, of no class */
	double blocked_ns[STACK_CLASS_NR];    /* of the suspect's callers */
	struct told places[STACK_GROUP_NR];
};

/* In a step, or in one of those that are a period apart. */
static double each_ns(
	const struct comparison *comparison, int of, const struct stack_time times[STACK_SIDES])
{
	double steps = comparison->tree.sides[of].steps;

	return times[of].ns /
	       (comparison->every_steps ? fmax(steps / comparison->every_steps, 1) : steps);
}

static double over_ns(
	const struct comparison *comparison, const struct stack_time times[STACK_SIDES])
{
	return each_ns(comparison, STACK_SUSPECT, times) -
	       each_ns(comparison, STACK_CONTROL, times);
}

/* More than two ranks that do the same are seen to differ by, as they are looked at now and then. */
static bool is_no_chance(
	const struct comparison *comparison, const struct stack_time times[STACK_SIDES])
{
	const struct stack_side *sides = comparison->tree.sides;
	double each = (double)sides[STACK_SUSPECT].profile->looks /
		      fmax((double)sides[STACK_CONTROL].profile->looks, 1);
	double own = times[STACK_SUSPECT].looks, control = times[STACK_CONTROL].looks;

	return own - each * control >= STACK_CHANCE_DEVIATIONS * sqrt(own + each * each * control);
}

static void add_sums(struct comparison *comparison, int of)
{
	const struct stack_side *side = &comparison->tree.sides[of];

	for (uint32_t i = 0; i < side->profile->sum_count; i++) {
		const struct stack_sum *sum = &side->profile->sums[i];
		enum stack_group group = stack_tree_group(side, sum);
		enum stack_class class = stack_tree_class(side, sum);

		if (sum->state == STACK_STATE_FAULT) /* the kernel says more of it */
			continue;
		if (group == STACK_GROUP_OTHER)
			stack_time_add(&comparison->others[class][of], side, sum);
		if (group != STACK_GROUP_WORKS && group != STACK_GROUP_WAITS)
			continue;
		stack_time_add(&comparison->callers[class][of], side, sum);
		if (class == STACK_CLASS_NONE && group == STACK_GROUP_WAITS)
			stack_time_add(&comparison->piped[of], side, sum);
		if (of == STACK_SUSPECT && sum->state != STACK_STATE_RUNNING)
			comparison->blocked_ns[class] += (double)sum->time_ns;
	}
}

/* A function's name to read. */
static void put_function(const struct stack_tree_node *node, char text[KERNEL_NAME_LENGTH])
{
	if (node->kind == STACK_FRAME_NATIVE)
		kernel_name_simplify(node->function, text);
	else
		snprintf(text, KERNEL_NAME_LENGTH, "%.60s", node->function);
}

/* The end of a path, which says more than its begin. */
static const char *end_of(const char *file, size_t length)
{
	size_t all = strlen(file);
	const char *end = all > length ? file + all - length : file, *slash = strchr(end, '/');

	return end > file && slash ? slash + 1 : end;
}

enum { FILE_TOLD = 48, WAITED_TOLD = 56 };

static void put_frame(const struct stack_tree *tree, const struct stack_tree_node *node,
	struct verdict_where *where)
{
	char function[KERNEL_NAME_LENGTH], *text;

	if (!node || where->frame_count == VERDICT_FRAMES_MAX)
		return;
	text = where->frames[where->frame_count++];
	put_function(node, function);
	if (node->kind == STACK_FRAME_PYTHON)
		snprintf(text, VERDICT_FRAME_LENGTH, "%.36s (%s:%" PRId32 ")", function,
			end_of(stack_file_short(node->file), FILE_TOLD),
			stack_tree_line(tree, node));
	else
		snprintf(text, VERDICT_FRAME_LENGTH,
			node->kind == STACK_FRAME_WAIT ? "%.36s %s" : "%.36s (%s)", function,
			end_of(node->file, FILE_TOLD));
}

/* The frames of a place that people know it by; NULL: there is none. */
struct known_frames {
	const struct stack_tree_node *program; /* the innermost of the program's own code */
	const struct stack_tree_node *library; /* what that called */
	const struct stack_tree_node *waits;   /* what it waits for, most of the time */
};

static const struct stack_tree_node *find_wait(
	const struct stack_tree *tree, const struct stack_tree_node *place)
{
	double least = STACK_SHARE_MIN * stack_tree_over(tree, place);
	const struct stack_tree_node *best = NULL;

	for (uint32_t i = 0; i < tree->count; i++) {
		const struct stack_tree_node *node = &tree->nodes[i], *above = node;

		if (node->kind != STACK_FRAME_WAIT || stack_tree_over(tree, node) < least)
			continue;
		while (above != place && above->parent != STACK_NODE_NONE)
			above = &tree->nodes[above->parent];
		if (above == place && (!best || stack_tree_is_more(tree, node, best)))
			best = node;
	}
	return best;
}

/* 0: says nothing; a function of Python says most, then one that is in the table. */
static int says(const struct stack_tree_node *node)
{
	if (node->kind == STACK_FRAME_PYTHON)
		return 3;
	if (node->kind != STACK_FRAME_NATIVE || !node->function[0])
		return 0;
	return stack_class_of(node->kind, node->function, node->file, false) ? 2 : 1;
}

static struct known_frames find_frames(
	const struct stack_tree *tree, const struct stack_tree_node *place)
{
	struct known_frames known = {.waits = find_wait(tree, place)};
	const struct stack_tree_node *node;
	bool python = false;
	int best = 1;

	for (node = place; node->kind; node = &tree->nodes[node->parent])
		python |= node->kind == STACK_FRAME_PYTHON;
	/* From the innermost outwards: of those that say as much, the one that the program itself called. */
	for (node = place; node->kind && !known.program; node = &tree->nodes[node->parent]) {
		if ((!python || node->kind == STACK_FRAME_PYTHON) &&
			stack_frame_is_program(node->kind, node->function, node->file)) {
			known.program = node;
		} else if (says(node) >= best) {
			known.library = node;
			best = says(node);
		}
	}
	/* That Python code calls native code says nothing. */
	if (python && known.program && best < 2)
		known.library = NULL;
	return known;
}

/* "in torch/serialization.py:save (train.py:212); write /data/x.pt" */
static void put_text(const struct stack_tree *tree, const struct known_frames *known,
	char text[VERDICT_DETAIL_LENGTH])
{
	const struct stack_tree_node *program = known->program, *library = known->library;
	const struct stack_tree_node *first = library ? library : program;
	char function[KERNEL_NAME_LENGTH], from[KERNEL_NAME_LENGTH];
	size_t used;

	if (!first)
		return;
	put_function(first, function);
	if (!library && program->kind == STACK_FRAME_PYTHON)
		snprintf(text, VERDICT_DETAIL_LENGTH, "in %.36s (%s:%" PRId32 ")", function,
			end_of(stack_file_short(program->file), FILE_TOLD),
			stack_tree_line(tree, program));
	else if (!library || !program)
		snprintf(text, VERDICT_DETAIL_LENGTH, "in %.36s (%s)", function,
			end_of(stack_file_short(first->file), FILE_TOLD));
	else if (program->kind == STACK_FRAME_PYTHON)
		snprintf(text, VERDICT_DETAIL_LENGTH, "in %s%s%.36s (%s:%" PRId32 ")",
			library->kind == STACK_FRAME_PYTHON
				? end_of(stack_file_short(library->file), FILE_TOLD)
				: "",
			library->kind == STACK_FRAME_PYTHON ? ":" : "", function,
			end_of(stack_file_short(program->file), FILE_TOLD),
			stack_tree_line(tree, program));
	else {
		put_function(program, from);
		snprintf(text, VERDICT_DETAIL_LENGTH, "in %.36s (%.36s, %s)", function, from,
			end_of(stack_file_short(program->file), FILE_TOLD));
	}
	used = strlen(text);
	if (known->waits && (known->waits->file[0] || !library))
		snprintf(text + used, VERDICT_DETAIL_LENGTH - used, "; %.36s%s%s",
			known->waits->function, known->waits->file[0] ? " " : "",
			end_of(known->waits->file, WAITED_TOLD));
}

/* The segment in which most of a place's time is, and the thread. */
static void find_most(
	const struct stack_tree *tree, const struct stack_tree_node *place, struct told *told)
{
	const struct stack_side *side = &tree->sides[STACK_SUSPECT];
	const struct stack_profile *profile = side->profile;
	double segments[STACK_PROFILE_SEGMENTS_MAX] = {0}, threads[STACK_PROFILE_THREADS_MAX] = {0};
	uint32_t segment = 0;

	for (uint32_t i = 0; i < profile->sum_count; i++) {
		const struct stack_sum *sum = &profile->sums[i];

		if (!stack_tree_is_below(tree, side, i, place))
			continue;
		told->segments[sum->segment] = true;
		segments[sum->segment] += (double)sum->time_ns;
		threads[sum->thread] += (double)sum->time_ns;
		segment = segments[sum->segment] > segments[segment] ? sum->segment : segment;
		if (threads[sum->thread] > threads[told->thread])
			told->thread = sum->thread;
	}
	if (place->group == STACK_GROUP_WORKER)
		return; /* they work ahead */
	told->where.ordinal = profile->segments[segment].ordinal;
	told->where.operation = profile->segments[segment].operation;
}

static void tell_place(
	const struct comparison *comparison, enum stack_group group, struct told *told)
{
	const struct stack_tree *tree = &comparison->tree;
	const struct stack_tree_node *place = stack_tree_place(tree, group);
	struct known_frames known;

	if (!place || !is_no_chance(comparison, place->times))
		return;
	told->over_ns = stack_tree_over(tree, place);
	told->where.ms_per_step = each_ns(comparison, STACK_SUSPECT, place->times) / 1e6;
	told->where.control_ms_per_step = each_ns(comparison, STACK_CONTROL, place->times) / 1e6;
	find_most(tree, place, told);
	known = find_frames(tree, place);
	put_text(tree, &known, told->where.text);
	put_frame(tree, known.program, &told->where);
	put_frame(tree, known.library, &told->where);
	if (place->kind && place != known.program && place != known.library && place != known.waits)
		put_frame(tree, place, &told->where);
	put_frame(tree, known.waits, &told->where);
}

static bool is_as_long(const struct told *one, double than_ns)
{
	return one->where.text[0] && one->over_ns >= STACK_SHARE_MIN * than_ns;
}

/* Who waits for another thread, or process, of the rank gives way to the one that works, or waits for what is outside. */
static const struct told *who_is_waited_for(const struct comparison *comparison)
{
	const struct told *waits = &comparison->places[STACK_GROUP_WAITS];
	const struct told *other = &comparison->places[STACK_GROUP_OTHER];
	const struct told *worker = &comparison->places[STACK_GROUP_WORKER];

	if (is_as_long(worker, waits->over_ns) &&
		(!is_as_long(other, waits->over_ns) || worker->over_ns > other->over_ns))
		return worker;
	return is_as_long(other, waits->over_ns) ? other : waits;
}

/* "worker pt_data_worker (pid 4242): in load (data.py:12)" */
static void put_thread(const struct comparison *comparison, const struct told *told,
	const char *what, size_t length, char *text)
{
	const struct stack_thread_info *thread =
		&comparison->tree.sides[STACK_SUSPECT].profile->threads[told->thread];
	bool blocked = thread->cpu_ns >= 0 && thread->blocked_ns > thread->cpu_ns;

	snprintf(text, length, "%s %.15s (pid %d%s): %.80s", what, thread->name, (int)thread->pid,
		blocked ? ", blocked on storage" : "", told->where.text);
}

static struct verdict_where where_of(const struct comparison *comparison, const struct told *told)
{
	struct verdict_where where = told->where;

	if (told == &comparison->places[STACK_GROUP_WORKER])
		put_thread(comparison, told, "worker", sizeof(where.text), where.text);
	else if (told == &comparison->places[STACK_GROUP_OTHER])
		put_thread(comparison, told, "thread", sizeof(where.text), where.text);
	return where;
}

static void tell_all(struct comparison *comparison, struct stack_excess *all)
{
	const struct told *told = &comparison->places[STACK_GROUP_WORKS];

	if (comparison->places[STACK_GROUP_WAITS].over_ns > told->over_ns)
		told = who_is_waited_for(comparison);
	all->where = where_of(comparison, told);
	all->own_ns = told->where.ms_per_step * 1e6;
	all->control_ns = told->where.control_ms_per_step * 1e6;
}

/* What another thread did in the segments in which it waited for a lock: of those that have one, nobody says who has this one. */
static void put_holder(struct comparison *comparison, struct told *own)
{
	char *text = own->where.text;
	struct told other = {0};
	size_t used = strlen(text);

	if (!used)
		return;
	stack_tree_fill(&comparison->tree, (struct stack_choice){.others_in = own->segments});
	tell_place(comparison, STACK_GROUP_OTHER, &other);
	if (!is_as_long(&other, own->over_ns) || used + 2 >= sizeof(own->where.text))
		return;
	snprintf(text + used, sizeof(own->where.text) - used, "; ");
	put_thread(comparison, &other, "meanwhile", sizeof(own->where.text) - used - 2,
		text + used + 2);
}

/* Where it is: in its own stacks, or in those of whom it waited for. */
static struct verdict_where where_of_class(
	struct comparison *comparison, enum stack_class class, bool by_others)
{
	const struct told *worker = &comparison->places[STACK_GROUP_WORKER];
	const struct told *other = &comparison->places[STACK_GROUP_OTHER];
	struct told own = {0};

	if (by_others)
		return where_of(comparison, class == STACK_CLASS_DATA_LOADER ? worker : other);
	stack_tree_fill(&comparison->tree, (struct stack_choice){.only = class});
	tell_place(comparison, STACK_GROUP_WORKS, &own);
	if (class == STACK_CLASS_DATA_LOADER && is_as_long(worker, own.over_ns))
		return where_of(comparison, worker);
	if (class == STACK_CLASS_LOCK)
		put_holder(comparison, &own);
	return own.where;
}

/* Without a loader that is known: how long it waited for a process, while its own did something. */
static double waits_for_workers_ns(const struct comparison *comparison)
{
	const struct stack_time *piped = comparison->piped;
	double over = is_no_chance(comparison, piped) ? over_ns(comparison, piped) : 0;

	return is_as_long(&comparison->places[STACK_GROUP_WORKER], over) ? over : 0;
}

static void take_place(struct stack_excess *excess)
{
	excess->own_ns = excess->where.ms_per_step * 1e6;
	excess->control_ns = excess->where.control_ms_per_step * 1e6;
}

/* All programs compute, and on a slow CPU for longer: only a place that the control is not in says something. */
static void tell_code(struct comparison *comparison, struct stack_excess *excess)
{
	struct told own = {0};

	stack_tree_fill(&comparison->tree, (struct stack_choice){.only = STACK_CLASS_CODE});
	tell_place(comparison, STACK_GROUP_WORKS, &own);
	excess->where = own.where;
	take_place(excess);
}

/* unclaimed_ns: how long callers waited for threads whose stacks then say what for. */
static void tell_class(struct comparison *comparison, enum stack_class class, double unclaimed_ns,
	struct stack_excess *excess)
{
	const struct stack_time *callers = comparison->callers[class];
	const struct stack_time *others = comparison->others[class];
	double own_over = is_no_chance(comparison, callers) ? over_ns(comparison, callers) : 0;
	double other_over = is_no_chance(comparison, others)
				    ? fmin(over_ns(comparison, others), unclaimed_ns)
				    : 0;

	if (class == STACK_CLASS_DATA_LOADER)
		other_over = waits_for_workers_ns(comparison);
	if (own_over <= 0 && other_over <= 0)
		return;
	if (own_over >= other_over) {
		excess->looks = callers[STACK_SUSPECT].looks;
		excess->own_ns = each_ns(comparison, STACK_SUSPECT, callers);
		excess->control_ns = each_ns(comparison, STACK_CONTROL, callers);
		excess->blocked_share = comparison->blocked_ns[class] / callers[STACK_SUSPECT].ns;
	} else {
		excess->looks = others[STACK_SUSPECT].looks;
		excess->own_ns = other_over;
		excess->blocked_share = 1; /* the caller waited */
	}
	excess->where = where_of_class(comparison, class, other_over > own_over);
	/* All programs wait for threads of their own, too. */
	if (class == STACK_CLASS_LOCK && own_over >= other_over && excess->where.text[0])
		take_place(excess);
	excess->where.ms_per_step = excess->own_ns / 1e6;
	excess->where.control_ms_per_step = excess->control_ns / 1e6;
}

/* A look that lost more says not how long anything took. */
static bool is_whole(const struct stack_profile *profile)
{
	double looks = 0;

	for (uint32_t i = 0; i < profile->sum_count; i++)
		looks += profile->sums[i].looks;
	return profile->incomplete <= STACK_LOST_MAX * (looks + profile->incomplete);
}

static bool can_be_compared(const struct stack_profile *suspect,
	const struct stack_profile *control, uint32_t every_steps, char why[VERDICT_DETAIL_LENGTH])
{
	const struct stack_profile *other = suspect->python_minor ? control : suspect;

	if (!is_whole(suspect) || !is_whole(control))
		snprintf(why, VERDICT_DETAIL_LENGTH,
			"too many stacks of rank %" PRIu32 " could not be read",
			is_whole(suspect) ? control->rank : suspect->rank);
	else if (!suspect->python_minor != !control->python_minor)
		snprintf(why, VERDICT_DETAIL_LENGTH, "no Python frames of rank %" PRIu32 ": %s",
			other->rank, other->why);
	else if (control->steps < every_steps)
		snprintf(why, VERDICT_DETAIL_LENGTH,
			"the control was looked at for fewer than %" PRIu32 " steps", every_steps);
	else
		return true;
	return false;
}

int stack_profile_compare(const struct stack_profile *suspect, const struct stack_profile *control,
	uint32_t every_steps, struct stack_difference *difference, char why[VERDICT_DETAIL_LENGTH])
{
	struct comparison comparison = {.every_steps = every_steps};
	int error;

	memset(difference, 0, sizeof(*difference));
	if (!can_be_compared(suspect, control, every_steps, why))
		return -ENODATA;
	error = stack_tree_init(&comparison.tree, suspect, control);
	if (error)
		return error;
	for (int of = 0; of < STACK_SIDES; of++)
		add_sums(&comparison, of);
	stack_tree_fill(&comparison.tree, (struct stack_choice){0});
	for (int group = 0; group < STACK_GROUP_NR; group++)
		tell_place(&comparison, (enum stack_group)group, &comparison.places[group]);
	tell_all(&comparison, &difference->all);
	for (int class = 0; class < STACK_CLASS_NR; class ++) {
		if (class == STACK_CLASS_CODE)
			tell_code(&comparison, &difference->classes[class]);
		else if (class != STACK_CLASS_NONE && class != STACK_CLASS_THREAD &&
			 class != STACK_CLASS_WAIT)
			tell_class(&comparison, (enum stack_class) class,
				fmax(0, over_ns(&comparison,
						comparison.callers[STACK_CLASS_THREAD])),
				&difference->classes[class]);
	}
	stack_tree_fini(&comparison.tree);
	return 0;
}
