/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/schedule.h"

#include <string.h>

enum {
	EVALUATION_DISTANCE = 40, /* steps between two evaluations of SCHEDULE_EVAL */
	MICRO_BATCHES = 4,
	INNER_LOOP = 8,
	WARM_UP_PASSES = 3,
};

static const char *const schedule_names[SCHEDULE_KIND_NR] = {
	"ddp", "accumulate", "eval", "changing", "nested", "irregular"};

const char *schedule_kind_name(enum schedule_kind kind)
{
	return (unsigned int)kind < SCHEDULE_KIND_NR ? schedule_names[kind] : "unknown";
}

bool schedule_kind_parse(const char *name, enum schedule_kind *kind)
{
	for (size_t i = 0; i < SCHEDULE_KIND_NR; i++) {
		if (strcmp(name, schedule_names[i]) == 0) {
			*kind = (enum schedule_kind)i;
			return true;
		}
	}
	return false;
}

const char *pass_kind_name(enum pass_kind kind)
{
	static const char *const names[] = {"train", "warm-up", "evaluate", "checkpoint", "end"};

	return (unsigned int)kind <= PASS_END ? names[kind] : "unknown";
}

/* Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (splitmix64). */
uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void schedule_init(struct schedule *schedule, const struct schedule_options *options)
{
	*schedule = (struct schedule){.options = *options,
		.next_evaluation = EVALUATION_DISTANCE,
		.random = options->seed ^ 0x5eed5c4ed01eull};
	if (options->kind == SCHEDULE_IRREGULAR)
		schedule->next_evaluation = 15 + random_next(&schedule->random) % 40;
}

static void add_item(struct schedule_item *items, size_t *count, struct schedule_item item)
{
	if (*count < SCHEDULE_ITEMS_MAX)
		items[(*count)++] = item;
}

/* Buckets that grow from first to last, then a gradient norm. share: work left for them. */
static void add_buckets(const struct schedule_options *options, uint32_t collectives,
	size_t length_bytes, double share, struct schedule_item *items, size_t *count)
{
	uint32_t bucket_count = collectives > 1 ? collectives - 1 : 1;
	double weight_sum = 0.5 * bucket_count * (bucket_count + 1.0);

	for (uint32_t i = 0; i < bucket_count; i++) {
		size_t elements = (size_t)((double)length_bytes * (i + 1) / weight_sum / 4);

		add_item(items, count,
			(struct schedule_item){COLLECTIVE_ALL_REDUCE, options->split && i % 2 == 1,
				elements ? elements : 1, 0.95 * share / bucket_count});
	}
	if (collectives > 1)
		add_item(items, count,
			(struct schedule_item){COLLECTIVE_ALL_REDUCE, false, 2, 0.05 * share});
}

static void fill_train(const struct schedule *schedule, struct schedule_item *items, size_t *count)
{
	const struct schedule_options *options = &schedule->options;
	uint32_t collectives = options->collectives;
	size_t bytes = options->length_bytes;
	bool second_half = schedule->step >= options->step_count / 2;

	if (options->kind == SCHEDULE_ACCUMULATE) {
		for (int i = 0; i < MICRO_BATCHES; i++)
			add_item(items, count,
				(struct schedule_item){COLLECTIVE_ALL_REDUCE, false, 1, 0.15});
		add_buckets(options, collectives, bytes, 0.4, items, count);
		return;
	}
	if (options->kind == SCHEDULE_NESTED) {
		for (int i = 0; i < INNER_LOOP; i++) {
			add_item(items, count,
				(struct schedule_item){
					COLLECTIVE_ALL_GATHER, options->split, 256, 0.04});
			add_item(items, count,
				(struct schedule_item){
					COLLECTIVE_REDUCE_SCATTER, options->split, 256, 0.04});
		}
		add_buckets(options, collectives, bytes, 0.36, items, count);
		return;
	}
	if ((options->kind == SCHEDULE_CHANGING || options->kind == SCHEDULE_IRREGULAR) &&
		second_half) {
		collectives += 2;
		bytes = bytes / 2 + 4;
	}
	add_buckets(options, collectives, bytes, 1.0, items, count);
}

static void fill_evaluation(struct schedule_item *items, size_t *count, int batches)
{
	for (int i = 0; i < batches; i++)
		add_item(
			items, count, (struct schedule_item){COLLECTIVE_ALL_REDUCE, false, 3, 0.4});
	add_item(items, count, (struct schedule_item){COLLECTIVE_ALL_GATHER, false, 16, 0.1});
}

static enum pass_kind other_pass(
	struct schedule *schedule, struct schedule_item *items, size_t *count)
{
	enum schedule_kind kind = schedule->options.kind;

	if (kind != SCHEDULE_EVAL && kind != SCHEDULE_IRREGULAR)
		return PASS_TRAIN;
	if (kind == SCHEDULE_IRREGULAR && schedule->pass_count < WARM_UP_PASSES) {
		add_item(items, count,
			(struct schedule_item){COLLECTIVE_BROADCAST, false, 1024, 0.2});
		add_item(items, count, (struct schedule_item){COLLECTIVE_BARRIER, false, 0, 0.1});
		return PASS_WARM_UP;
	}
	if (schedule->step < schedule->next_evaluation)
		return PASS_TRAIN;
	if (kind == SCHEDULE_EVAL) {
		schedule->next_evaluation += EVALUATION_DISTANCE;
		fill_evaluation(items, count, 5);
		return PASS_EVALUATE;
	}
	schedule->next_evaluation += 15 + random_next(&schedule->random) % 60;
	if (random_next(&schedule->random) % 3 == 0) {
		add_item(items, count, (struct schedule_item){COLLECTIVE_REDUCE, false, 4, 0.1});
		add_item(items, count, (struct schedule_item){COLLECTIVE_BARRIER, false, 0, 2.0});
		return PASS_CHECKPOINT;
	}
	fill_evaluation(items, count, 3 + (int)(random_next(&schedule->random) % 5));
	return PASS_EVALUATE;
}

enum pass_kind schedule_next(
	struct schedule *schedule, struct schedule_item *items, size_t *item_count, uint64_t *step)
{
	enum pass_kind kind;

	*item_count = 0;
	*step = schedule->step;
	if (schedule->step >= schedule->options.step_count)
		return PASS_END;
	kind = other_pass(schedule, items, item_count);
	schedule->pass_count++;
	if (kind == PASS_TRAIN) {
		fill_train(schedule, items, item_count);
		schedule->step++;
	} else {
		schedule->other_count++;
	}
	return kind;
}

size_t schedule_buffer_bytes(const struct schedule_options *options, uint32_t world_size)
{
	size_t bucket = options->length_bytes + 64;
	size_t gathered = (size_t)1024 * 4 * world_size;

	return bucket > gathered ? bucket : gathered;
}
