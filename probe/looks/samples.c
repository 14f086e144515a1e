/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/looks/samples.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/arena.h"

enum { SUM_PLACES = 2 * SAMPLES_SUMS_MAX, /* a power of two */ NAME_BEGINS = SAMPLES_TEXT_MAX / 8 };

/* A look whose time has not been assigned. */
struct waiting_look {
	int64_t time_ns;
	size_t first, count; /* of seen */
};

struct counted_sum {
	struct stack_sum sum;
	uint64_t last_step; /* in which it was seen, from 1; 0: the place is free */
};

/* As its host went through it, which runs ahead of its device. */
struct passed_step {
	int64_t start_ns, end_ns;
	size_t first, count; /* of parts */
};

/* A collective of one of them: when its host called it, and came back. */
struct passed_part {
	int64_t call_ns, return_ns;
	uint64_t communicator_id;
	uint8_t operation;
};

struct samples {
	uint32_t node_count, thread_count, segment_count, text_length, sum_count;
	uint32_t looks, incomplete, steps;
	uint64_t left_out_looks, left_out_segments;
	struct stack_node *nodes; /* SAMPLES_NODES_MAX */
	uint16_t *depths;	  /* likewise */
	char *text;		  /* SAMPLES_TEXT_MAX */
	uint8_t *name_begins;	  /* a bit each byte of text */
	struct counted_sum *sums; /* SUM_PLACES */
	struct stack_thread_info threads[STACK_PROFILE_THREADS_MAX];
	struct stack_segment segments[STACK_PROFILE_SEGMENTS_MAX]; /* the first is nowhere */
	size_t look_count, look_capacity, seen_count, seen_capacity;
	struct waiting_look *waiting;
	struct sample_seen *seen;
	int64_t first_look_ns, last_look_ns;
	/* Steps that wait for a look behind their end: all of theirs have come then. */
	size_t step_count, step_capacity, part_count, part_capacity;
	int64_t told_end_ns, host_end_ns; /* of the newest step: as it was told, and its host's */
	struct passed_step *passed;
	struct passed_part *parts;
	struct host_ns start, stop; /* of what was summed */
};

struct samples *samples_create(void)
{
	struct samples *samples = calloc(1, sizeof(*samples));

	if (!samples)
		return NULL;
	samples->nodes = calloc(SAMPLES_NODES_MAX, sizeof(*samples->nodes));
	samples->depths = calloc(SAMPLES_NODES_MAX, sizeof(*samples->depths));
	samples->text = calloc(SAMPLES_TEXT_MAX, 1);
	samples->name_begins = calloc(NAME_BEGINS, 1);
	samples->sums = calloc(SUM_PLACES, sizeof(*samples->sums));
	if (!samples->nodes || !samples->depths || !samples->text || !samples->name_begins ||
		!samples->sums) {
		samples_destroy(samples);
		return NULL;
	}
	samples->text_length = samples->name_begins[0] = 1; /* the empty name */
	samples->segment_count = 1;
	return samples;
}

void samples_destroy(struct samples *samples)
{
	if (!samples)
		return;
	free(samples->nodes);
	free(samples->depths);
	free(samples->text);
	free(samples->name_begins);
	free(samples->sums);
	free(samples->waiting);
	free(samples->seen);
	free(samples->passed);
	free(samples->parts);
	free(samples);
}

int samples_text(struct samples *samples, const char *text, size_t length)
{
	if (length == 0 || text[length - 1] || length > SAMPLES_TEXT_MAX - samples->text_length)
		return -EBADMSG;
	for (size_t at = 0, name; at < length; at += name) {
		uint32_t place = samples->text_length + (uint32_t)at;

		name = strlen(text + at) + 1;
		if (name > STACK_PROFILE_NAME_MAX + 1)
			return -EBADMSG;
		samples->name_begins[place / 8] |= (uint8_t)(1u << place % 8);
	}
	memcpy(samples->text + samples->text_length, text, length);
	samples->text_length += (uint32_t)length;
	return 0;
}

static bool is_name(const struct samples *samples, uint32_t at)
{
	return at < samples->text_length && samples->name_begins[at / 8] >> at % 8 & 1;
}

int samples_node(struct samples *samples, const struct stack_node *node)
{
	uint32_t index = samples->node_count, depth = 1;

	if (index == SAMPLES_NODES_MAX || !is_name(samples, node->function) ||
		!is_name(samples, node->file) || node->line < 0)
		return -EBADMSG;
	if (node->parent != STACK_NODE_NONE) {
		if (node->parent >= index)
			return -EBADMSG;
		depth = samples->depths[node->parent] + 1u;
	}
	if (depth > STACK_PROFILE_DEPTH_MAX)
		return -EBADMSG;
	samples->depths[index] = (uint16_t)depth;
	samples->nodes[index] = *node;
	samples->node_count++;
	return 0;
}

/* Of one look; -1: not known. */
static bool is_counted(int64_t time_ns)
{
	return time_ns >= -1 && time_ns <= SAMPLES_TIME_NS_MAX;
}

int samples_thread(struct samples *samples, uint32_t index, const struct stack_thread_info *thread)
{
	if (index > samples->thread_count || index >= STACK_PROFILE_THREADS_MAX ||
		thread->pid < 0 || thread->tid < 0 || !is_counted(thread->cpu_ns) ||
		!is_counted(thread->blocked_ns) || thread->major_faults < -1)
		return -EBADMSG;
	samples->threads[index] = *thread;
	samples->threads[index].name[STACK_THREAD_NAME_LENGTH - 1] = '\0';
	if (index == samples->thread_count)
		samples->thread_count++;
	return 0;
}

static bool seen_is_valid(
	const struct samples *samples, const struct sample_seen *seen, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (seen[i].thread >= samples->thread_count || seen[i].node >= samples->node_count)
			return false;
	}
	return true;
}

/* 0, which is nowhere, when there is no room for another one. */
static uint32_t segment_of(struct samples *samples, const struct stack_segment *wanted)
{
	for (uint32_t i = 1; i < samples->segment_count; i++) {
		const struct stack_segment *segment = &samples->segments[i];

		if (segment->communicator_id == wanted->communicator_id &&
			segment->ordinal == wanted->ordinal &&
			segment->operation == wanted->operation &&
			segment->inside == wanted->inside)
			return i;
	}
	if (samples->segment_count == STACK_PROFILE_SEGMENTS_MAX) {
		samples->left_out_segments++;
		return 0;
	}
	samples->segments[samples->segment_count] = *wanted;
	return samples->segment_count++;
}

/* In a step: the first collective that is still to come, or goes on; behind the last one, the next step's first. */
static uint32_t find_segment(
	struct samples *samples, const struct passed_step *step, int64_t time_ns)
{
	const struct passed_step *next = step + 1;
	const struct passed_part *parts = samples->parts + step->first, *found = NULL;

	/* In order of arrival, which on a device is not that of the calls. */
	for (size_t i = 0; i < step->count; i++) {
		if (time_ns < parts[i].return_ns && (!found || parts[i].call_ns < found->call_ns))
			found = &parts[i];
	}
	if (found)
		return segment_of(
			samples, &(struct stack_segment){.communicator_id = found->communicator_id,
					 .ordinal = (uint32_t)(found - parts),
					 .operation = found->operation,
					 .inside = time_ns >= found->call_ns});
	if (!next->count)
		return 0;
	parts = samples->parts + next->first;
	return segment_of(
		samples, &(struct stack_segment){.communicator_id = parts->communicator_id,
				 .operation = parts->operation});
}

static struct counted_sum *place_of(struct samples *samples, const struct stack_sum *wanted)
{
	uint64_t hash =
		(((uint64_t)wanted->node * 512 + wanted->thread) * 512 + wanted->segment) * 16 +
		wanted->state;
	size_t at = hash * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (SUM_PLACES - 1);

	for (;; at = (at + 1) & (SUM_PLACES - 1)) {
		struct counted_sum *place = &samples->sums[at];

		if (!place->last_step ||
			(place->sum.node == wanted->node && place->sum.thread == wanted->thread &&
				place->sum.segment == wanted->segment &&
				place->sum.state == wanted->state))
			return place;
	}
}

static void sum_look(
	struct samples *samples, const struct waiting_look *look, uint32_t segment, int64_t time_ns)
{
	uint64_t step = (uint64_t)samples->steps + 1;

	samples->looks++;
	for (size_t i = look->first; i < look->first + look->count; i++) {
		const struct sample_seen *seen = &samples->seen[i];
		const struct stack_sum wanted = {.node = seen->node,
			.thread = seen->thread,
			.segment = segment,
			.state = seen->state};
		struct counted_sum *place = place_of(samples, &wanted);

		if (!place->last_step) {
			if (samples->sum_count == SAMPLES_SUMS_MAX) {
				samples->incomplete++;
				continue;
			}
			samples->sum_count++;
			place->sum = wanted;
		}
		place->sum.looks++;
		place->sum.time_ns += time_ns;
		place->sum.steps += place->last_step != step;
		place->last_step = step;
	}
}

int samples_look(
	struct samples *samples, struct host_ns time, const struct sample_seen *seen, size_t count)
{
	if (time.value <= 0 || time.value >> 60 || count > STACK_PROFILE_THREADS_MAX ||
		(samples->first_look_ns &&
			(time.value < samples->last_look_ns ||
				time.value - samples->first_look_ns > SAMPLES_TIME_NS_MAX)) ||
		!seen_is_valid(samples, seen, count))
		return -EBADMSG;
	if (!samples->first_look_ns)
		samples->first_look_ns = time.value;
	samples->last_look_ns = time.value;
	if (samples->seen_count + count > SAMPLES_WAITING_MAX ||
		samples->look_count == SAMPLES_WAITING_MAX) {
		samples->left_out_looks++;
		return 0;
	}
	/* One more than there are: what has room is never NULL. */
	if (array_grow((void **)&samples->waiting, &samples->look_capacity, samples->look_count + 1,
		    sizeof(*samples->waiting)) ||
		array_grow((void **)&samples->seen, &samples->seen_capacity,
			samples->seen_count + count + 1, sizeof(*samples->seen)))
		return -ENOMEM;
	samples->waiting[samples->look_count++] =
		(struct waiting_look){time.value, samples->seen_count, count};
	if (count)
		memcpy(samples->seen + samples->seen_count, seen, count * sizeof(*seen));
	samples->seen_count += count;
	return 0;
}

/* Until the next look; the last one of all counts as nothing. */
static int64_t length_of(const struct samples *samples, size_t look)
{
	return look + 1 < samples->look_count
		       ? samples->waiting[look + 1].time_ns - samples->waiting[look].time_ns
		       : 0;
}

/* Those before an index are done with. */
static void drop_looks(struct samples *samples, size_t count)
{
	size_t seen =
		count < samples->look_count ? samples->waiting[count].first : samples->seen_count;

	memmove(samples->waiting, samples->waiting + count,
		(samples->look_count - count) * sizeof(*samples->waiting));
	memmove(samples->seen, samples->seen + seen,
		(samples->seen_count - seen) * sizeof(*samples->seen));
	samples->look_count -= count;
	samples->seen_count -= seen;
	for (size_t i = 0; i < samples->look_count; i++)
		samples->waiting[i].first -= seen;
}

/* Steps follow each other; looks before them are dropped, those behind them stay. */
static void sum_step(struct samples *samples, const struct passed_step *step)
{
	size_t i = 0;

	while (i < samples->look_count && samples->waiting[i].time_ns < step->start_ns)
		i++;
	for (; i < samples->look_count && samples->waiting[i].time_ns < step->end_ns; i++)
		sum_look(samples, &samples->waiting[i],
			find_segment(samples, step, samples->waiting[i].time_ns),
			length_of(samples, i));
	if (i)
		drop_looks(samples, i);
	if (!samples->steps)
		samples->start.value = step->start_ns;
	samples->stop.value = step->end_ns;
	samples->steps++;
}

static void drop_steps(struct samples *samples, size_t count)
{
	size_t parts =
		count < samples->step_count ? samples->passed[count].first : samples->part_count;

	memmove(samples->passed, samples->passed + count,
		(samples->step_count - count) * sizeof(*samples->passed));
	memmove(samples->parts, samples->parts + parts,
		(samples->part_count - parts) * sizeof(*samples->parts));
	samples->step_count -= count;
	samples->part_count -= parts;
	for (size_t i = 0; i < samples->step_count; i++)
		samples->passed[i].first -= parts;
}

/* Those that have a successor, and all of their looks. force: one at least, to make room. */
static void sum_steps(struct samples *samples, bool force)
{
	size_t done = 0;

	while (done + 1 < samples->step_count &&
		(force || samples->passed[done].end_ns <= samples->last_look_ns)) {
		sum_step(samples, &samples->passed[done++]);
		force = false;
	}
	if (done)
		drop_steps(samples, done);
}

static bool is_of_device(const struct collective_part *part)
{
	return part->enqueue.value || part->flags & (PART_HOST_TIME | PART_ENQUEUE_ONLY);
}

/* A call that a device carries out returns at once; what its host waits for later, its stacks say. */
static struct passed_part passed_part_of(const struct collective_part *part)
{
	int64_t call_ns = part->enqueue.value ? part->enqueue.value : part->arrival.value;

	return (struct passed_part){.call_ns = call_ns,
		.return_ns = is_of_device(part) ? call_ns : part->departure.value,
		.communicator_id = part->communicator_id,
		.operation = part->operation};
}

/* A host is done with what its device does when it came back from the last of the calls. */
static int64_t host_end_ns(const struct step_entry *step)
{
	int64_t end_ns = 0;
	bool of_device = false;

	for (size_t i = 0; i < step->part_count; i++) {
		int64_t return_ns = passed_part_of(&step->parts[i]).return_ns;

		of_device |= is_of_device(&step->parts[i]);
		end_ns = return_ns > end_ns ? return_ns : end_ns;
	}
	return of_device && !(step->flags & STEP_MARKED) ? end_ns : step->end.value;
}

int samples_step(struct samples *samples, const struct step_entry *step)
{
	struct passed_step passed = {.start_ns = step->start.value,
		.end_ns = host_end_ns(step),
		.count = step->part_count};

	if (samples->told_end_ns == step->start.value)
		passed.start_ns = samples->host_end_ns;
	samples->told_end_ns = step->end.value;
	samples->host_end_ns = passed.end_ns;
	if (!samples->first_look_ns || passed.start_ns < samples->first_look_ns ||
		passed.end_ns <= passed.start_ns)
		return 0;
	if (samples->step_count &&
		passed.start_ns < samples->passed[samples->step_count - 1].end_ns)
		return 0; /* not in order */
	sum_steps(samples, samples->step_count == SAMPLES_STEPS_MAX ||
				   samples->part_count > SAMPLES_PARTS_MAX);
	if (array_grow((void **)&samples->passed, &samples->step_capacity, samples->step_count + 1,
		    sizeof(*samples->passed)) ||
		array_grow((void **)&samples->parts, &samples->part_capacity,
			samples->part_count + step->part_count + 1, sizeof(*samples->parts)))
		return -ENOMEM;
	passed.first = samples->part_count;
	samples->passed[samples->step_count++] = passed;
	for (size_t i = 0; i < step->part_count; i++)
		samples->parts[samples->part_count++] = passed_part_of(&step->parts[i]);
	return 0;
}

uint32_t samples_steps(const struct samples *samples)
{
	return samples->steps;
}

/* What goes into the profile: nodes and names in use, by their places in it + 1; 0: not in use. */
struct selection {
	const struct samples *samples;
	struct counted_sum **sums; /* those that took most time first */
	size_t sum_count;	   /* that are taken */
	uint32_t *nodes, *names;
	uint32_t node_count, text_length;
	int64_t taken_ns, left_ns;
};

static int compare_sums(const void *a, const void *b)
{
	const struct stack_sum *left = &(*(struct counted_sum *const *)a)->sum,
			       *right = &(*(struct counted_sum *const *)b)->sum;

	if (left->time_ns != right->time_ns)
		return left->time_ns < right->time_ns ? 1 : -1;
	if (left->node != right->node)
		return left->node < right->node ? -1 : 1;
	if (left->thread != right->thread)
		return left->thread < right->thread ? -1 : 1;
	if (left->segment != right->segment)
		return left->segment < right->segment ? -1 : 1;
	return (left->state > right->state) - (left->state < right->state);
}

static uint32_t name_bytes(const struct selection *selection, uint32_t name)
{
	return selection->names[name] ? 0 : (uint32_t)strlen(selection->samples->text + name) + 1;
}

/* Takes a node, all above it and their names, if they fit. */
static bool take_node(struct selection *selection, uint32_t node)
{
	const struct stack_node *nodes = selection->samples->nodes;
	uint32_t more_nodes = 0, more_text = 0;

	for (uint32_t n = node; n != STACK_NODE_NONE && !selection->nodes[n]; n = nodes[n].parent) {
		more_nodes++;
		more_text += name_bytes(selection, nodes[n].function) +
			     name_bytes(selection, nodes[n].file);
	}
	/* A name that comes twice is counted twice here: the limit is kept all the same. */
	if (selection->node_count + more_nodes > STACK_PROFILE_NODES_MAX ||
		selection->text_length + more_text > STACK_PROFILE_TEXT_MAX)
		return false;
	for (uint32_t n = node; n != STACK_NODE_NONE && !selection->nodes[n]; n = nodes[n].parent) {
		selection->nodes[n] = 1;
		selection->node_count++;
		selection->text_length += name_bytes(selection, nodes[n].function);
		selection->names[nodes[n].function] = 1;
		selection->text_length += name_bytes(selection, nodes[n].file);
		selection->names[nodes[n].file] = 1;
	}
	return true;
}

static int select_sums(struct samples *samples, struct selection *selection)
{
	size_t count = 0;

	*selection = (struct selection){.samples = samples, .text_length = 1};
	selection->sums = calloc(SAMPLES_SUMS_MAX, sizeof(struct counted_sum *));
	selection->nodes = calloc(SAMPLES_NODES_MAX, sizeof(*selection->nodes));
	selection->names = calloc(SAMPLES_TEXT_MAX, sizeof(*selection->names));
	if (!selection->sums || !selection->nodes || !selection->names)
		return -ENOMEM;
	selection->names[0] = 1;
	for (size_t i = 0; i < SUM_PLACES; i++) {
		if (samples->sums[i].last_step)
			selection->sums[count++] = &samples->sums[i];
	}
	qsort(selection->sums, count, sizeof(struct counted_sum *), compare_sums);
	for (size_t i = 0; i < count; i++) {
		struct counted_sum *sum = selection->sums[i];

		if (selection->sum_count < STACK_PROFILE_SUMS_MAX &&
			take_node(selection, sum->sum.node)) {
			selection->sums[selection->sum_count++] = sum;
			selection->taken_ns += sum->sum.time_ns;
		} else {
			selection->left_ns += sum->sum.time_ns;
			samples->incomplete += sum->sum.looks;
		}
	}
	return 0;
}

static void fill_tree(
	const struct samples *samples, struct selection *selection, struct stack_profile *profile)
{
	uint32_t text = 0, count = 0;

	for (uint32_t at = 0; at < samples->text_length; at++) {
		size_t length;

		if (!selection->names[at])
			continue;
		length = strlen(samples->text + at) + 1;
		memcpy(profile->text + text, samples->text + at, length);
		selection->names[at] = text;
		text += (uint32_t)length;
	}
	for (uint32_t i = 0; i < samples->node_count; i++) {
		struct stack_node node = samples->nodes[i];

		if (!selection->nodes[i])
			continue;
		node.function = selection->names[node.function];
		node.file = selection->names[node.file];
		if (node.parent != STACK_NODE_NONE)
			node.parent = selection->nodes[node.parent];
		profile->nodes[count] = node;
		selection->nodes[i] = count++;
	}
}

static void say_left_out(const struct samples *samples, const struct selection *selection,
	struct stack_profile *profile)
{
	size_t used = strlen(profile->why);
	char *at = profile->why + used;
	size_t room = sizeof(profile->why) - used;
	int64_t all_ns = selection->taken_ns + selection->left_ns;

	if (selection->left_ns)
		snprintf(at, room, "%srare stacks of %.1f %% of the time are left out",
			used ? "; " : "", 100.0 * (double)selection->left_ns / (double)all_ns);
	else if (samples->left_out_looks)
		snprintf(at, room, "%s%llu looks of a long step are left out", used ? "; " : "",
			(unsigned long long)samples->left_out_looks);
	else if (samples->left_out_segments)
		snprintf(at, room, "%sa step has more calls than are told apart", used ? "; " : "");
}

static struct stack_profile *fill(
	struct samples *samples, struct selection *selection, const struct stack_profile *fields)
{
	struct stack_profile counts = *fields, *profile;

	counts.node_count = selection->node_count;
	counts.sum_count = (uint32_t)selection->sum_count;
	counts.thread_count = samples->thread_count;
	counts.segment_count = samples->segment_count;
	counts.text_length = selection->text_length;
	counts.steps = samples->steps;
	counts.looks = samples->looks;
	counts.incomplete += samples->incomplete;
	counts.start = samples->start;
	counts.stop = samples->stop;
	profile = stack_profile_create(&counts);
	if (!profile)
		return NULL;
	fill_tree(samples, selection, profile);
	for (size_t i = 0; i < selection->sum_count; i++) {
		profile->sums[i] = selection->sums[i]->sum;
		profile->sums[i].node = selection->nodes[profile->sums[i].node];
		if (!samples->steps)
			profile->sums[i].steps = 0;
	}
	memcpy(profile->threads, samples->threads,
		samples->thread_count * sizeof(*profile->threads));
	memcpy(profile->segments, samples->segments,
		samples->segment_count * sizeof(*profile->segments));
	say_left_out(samples, selection, profile);
	return profile;
}

/* All that was seen, nowhere in a step. */
static void sum_all(struct samples *samples)
{
	for (size_t i = 0; i < samples->look_count; i++)
		sum_look(samples, &samples->waiting[i], 0, length_of(samples, i));
	samples->start.value = samples->first_look_ns;
	samples->stop.value = samples->last_look_ns;
}

struct stack_profile *samples_finish(
	struct samples *samples, const struct stack_profile *fields, bool steps_wanted)
{
	struct stack_profile own = *fields, *profile = NULL;
	struct selection selection;

	sum_steps(samples, false);
	if (!samples->steps) {
		sum_all(samples);
		if (steps_wanted && own.result == STACK_RESULT_DONE)
			own.result = STACK_RESULT_NO_STEPS;
	}
	if (select_sums(samples, &selection) == 0)
		profile = fill(samples, &selection, &own);
	free(selection.sums);
	free(selection.nodes);
	free(selection.names);
	return profile;
}
