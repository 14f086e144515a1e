/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe/wire/schedule.h"

/* A hash table of entry numbers + 1; entries themselves lie in the tables. 0 = free. */
struct index_map {
	uint32_t *slots;
	size_t mask;
};

struct builder {
	struct wire_schedule_table *table;
	struct index_map communicators;
	struct index_map tokens;
	struct index_map schedules;
	uint32_t *last_seen; /* by communicator: the schedule it was last counted in, + 1 */
};

static int index_map_init(struct index_map *map, size_t entry_count_max)
{
	size_t capacity = 16;

	while (capacity < 2 * entry_count_max)
		capacity *= 2;
	map->slots = calloc(capacity, sizeof(*map->slots));
	map->mask = capacity - 1;
	return map->slots ? 0 : -ENOMEM;
}

/* The finalizer of MurmurHash3 (public domain): every input bit changes about half the output. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash ^= value;
	hash ^= hash >> 33;
	hash *= UINT64_C(0xff51afd7ed558ccd);
	hash ^= hash >> 33;
	hash *= UINT64_C(0xc4ceb9fe1a85ec53);
	hash ^= hash >> 33;
	return hash;
}

static uint32_t find_communicator(struct builder *builder, uint64_t id)
{
	struct wire_schedule_table *table = builder->table;
	struct index_map *map = &builder->communicators;
	size_t slot = mix(0, id) & map->mask;

	for (; map->slots[slot]; slot = (slot + 1) & map->mask) {
		if (table->communicator_ids[map->slots[slot] - 1] == id)
			return map->slots[slot] - 1;
	}
	table->communicator_ids[table->communicator_count] = id;
	map->slots[slot] = (uint32_t)++table->communicator_count;
	return map->slots[slot] - 1;
}

static bool token_equal(const struct wire_token *a, const struct wire_token *b)
{
	return a->length_bytes == b->length_bytes && a->communicator == b->communicator &&
	       a->root == b->root && a->operation == b->operation && a->flags == b->flags &&
	       a->purpose == b->purpose && a->stream == b->stream && a->peer == b->peer &&
	       a->chunk == b->chunk;
}

static uint32_t find_token(struct builder *builder, const struct collective_part *part)
{
	struct wire_schedule_table *table = builder->table;
	struct index_map *map = &builder->tokens;
	struct wire_token token = {
		.length_bytes = part->length_bytes,
		.communicator = find_communicator(builder, part->communicator_id),
		.root = part->root,
		.operation = part->operation,
		.flags = part->flags,
		.purpose = part->purpose,
		.stream = part->stream,
		.peer = part->peer,
		.chunk = part->chunk,
	};
	uint64_t hash = mix(token.communicator, token.length_bytes);
	size_t slot;

	hash = mix(hash, (uint64_t)(uint32_t)token.root << 16 | (uint64_t)token.operation << 8 |
				 token.flags);
	if (token.purpose | token.stream | token.peer | token.chunk)
		hash = mix(mix(hash, (uint64_t)token.purpose << 8 | token.stream),
			(uint64_t)token.peer << 32 | token.chunk);
	for (slot = hash & map->mask; map->slots[slot]; slot = (slot + 1) & map->mask) {
		if (token_equal(&table->tokens[map->slots[slot] - 1], &token))
			return map->slots[slot] - 1;
	}
	table->tokens[table->token_count] = token;
	map->slots[slot] = (uint32_t)++table->token_count;
	return map->slots[slot] - 1;
}

static bool schedule_equal(const struct wire_schedule_table *table, const struct wire_schedule *a,
	const struct wire_schedule *b)
{
	return a->signature == b->signature && a->position_count == b->position_count &&
	       memcmp(table->token_of_position + a->first_position,
		       table->token_of_position + b->first_position,
		       a->position_count * sizeof(*table->token_of_position)) == 0;
}

static size_t count_communicators(struct builder *builder, const struct wire_schedule *schedule)
{
	const struct wire_schedule_table *table = builder->table;
	uint32_t mark = (uint32_t)table->schedule_count + 1;
	size_t count = 0;

	for (size_t i = 0; i < schedule->position_count; i++) {
		uint32_t token = table->token_of_position[schedule->first_position + i];
		uint32_t communicator = table->tokens[token].communicator;

		if (builder->last_seen[communicator] != mark) {
			builder->last_seen[communicator] = mark;
			count++;
		}
	}
	return count;
}

static uint32_t find_schedule(struct builder *builder, const struct step_entry *step)
{
	struct wire_schedule_table *table = builder->table;
	struct index_map *map = &builder->schedules;
	struct wire_schedule schedule = {
		.signature = step->signature,
		.first_position = table->position_count,
		.position_count = step->part_count,
	};
	uint64_t hash = mix(0, step->signature);
	size_t slot;

	/* The positions are written behind the table's end, and stay there only when they are new. */
	for (size_t i = 0; i < step->part_count; i++) {
		uint32_t token = find_token(builder, &step->parts[i]);

		table->token_of_position[schedule.first_position + i] = token;
		hash = mix(hash, token);
	}
	for (slot = hash & map->mask; map->slots[slot]; slot = (slot + 1) & map->mask) {
		if (schedule_equal(table, &table->schedules[map->slots[slot] - 1], &schedule))
			return map->slots[slot] - 1;
	}
	schedule.communicator_count = count_communicators(builder, &schedule);
	table->position_count += schedule.position_count;
	table->schedules[table->schedule_count] = schedule;
	map->slots[slot] = (uint32_t)++table->schedule_count;
	return map->slots[slot] - 1;
}

static int allocate(struct builder *builder, size_t step_count, size_t part_count)
{
	struct wire_schedule_table *table = builder->table;

	/* + 1: an allocation of nothing may return NULL. */
	table->communicator_ids = calloc(part_count + 1, sizeof(*table->communicator_ids));
	table->tokens = calloc(part_count + 1, sizeof(*table->tokens));
	table->token_of_position = calloc(part_count + 1, sizeof(*table->token_of_position));
	table->schedules = calloc(step_count + 1, sizeof(*table->schedules));
	table->schedule_of_step = calloc(step_count + 1, sizeof(*table->schedule_of_step));
	builder->last_seen = calloc(part_count + 1, sizeof(*builder->last_seen));
	if (!table->communicator_ids || !table->tokens || !table->token_of_position ||
		!table->schedules || !table->schedule_of_step || !builder->last_seen)
		return -ENOMEM;
	if (index_map_init(&builder->communicators, part_count) ||
		index_map_init(&builder->tokens, part_count) ||
		index_map_init(&builder->schedules, step_count))
		return -ENOMEM;
	return 0;
}

int wire_schedule_table_init(struct wire_schedule_table *table, const struct step_entry *steps,
	size_t step_count, size_t part_count)
{
	struct builder builder = {.table = table};
	int error;

	*table = (struct wire_schedule_table){0};
	error = allocate(&builder, step_count, part_count);
	if (!error) {
		for (size_t i = 0; i < step_count; i++)
			table->schedule_of_step[i] = find_schedule(&builder, &steps[i]);
	}
	free(builder.last_seen);
	free(builder.communicators.slots);
	free(builder.tokens.slots);
	free(builder.schedules.slots);
	if (error)
		wire_schedule_table_fini(table);
	return error;
}

void wire_schedule_table_fini(struct wire_schedule_table *table)
{
	free(table->communicator_ids);
	free(table->tokens);
	free(table->token_of_position);
	free(table->schedules);
	free(table->schedule_of_step);
	*table = (struct wire_schedule_table){0};
}
