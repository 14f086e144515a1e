/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/rank_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rank_table_init(struct rank_table *table)
{
	memset(table, 0, sizeof(*table));
}

void rank_table_fini(struct rank_table *table)
{
	for (size_t i = 0; i < table->rank_capacity; i++) {
		struct rank_entry *rank = &table->ranks[i];

		while (rank->entry_count)
			rank_entry_pop(rank);
		free(rank->entries);
		for (size_t c = 0; c < rank->communicator_count; c++)
			free(rank->communicators[c].history);
		free(rank->communicators);
		free(rank->channels);
	}
	free(table->ranks);
	free(table->hosts);
	free(table->host_table);
	memset(table, 0, sizeof(*table));
}

/* The entry of a rank, made when it is new. Pointers to entries move when ranks are added. */
static int get_rank(struct rank_table *table, uint32_t number, struct rank_entry **entry)
{
	if (number >= STEP_RANK_COUNT_MAX)
		return -EINVAL;
	if (number >= table->rank_capacity) {
		size_t capacity = table->rank_capacity ? table->rank_capacity : 16;

		while (capacity <= number)
			capacity *= 2;
		struct rank_entry *grown = realloc(table->ranks, capacity * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + table->rank_capacity, 0,
			(capacity - table->rank_capacity) * sizeof(*grown));
		table->ranks = grown;
		table->rank_capacity = capacity;
	}
	struct rank_entry *rank = &table->ranks[number];

	if (!rank->known) {
		rank->known = true;
		rank->host = UINT32_MAX;
		rank->done.value = INT64_MIN;
		rank->communicator_most = table->known_count < RANK_FIRST_RANKS
						  ? RANK_COMMUNICATORS_MAX
						  : RANK_COMMUNICATORS_MANY;
		table->known_count++;
		if (number >= table->end)
			table->end = number + 1;
	}
	*entry = rank;
	return 0;
}

static uint32_t *host_slot(const struct rank_table *table, uint64_t host_id)
{
	size_t mask = table->host_table_capacity - 1;
	size_t at = (size_t)((host_id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;

	while (table->host_table[at] && table->hosts[table->host_table[at] - 1].host_id != host_id)
		at = (at + 1) & mask;
	return &table->host_table[at];
}

/* The table is at most half full. */
static int grow_host_table(struct rank_table *table)
{
	size_t capacity = table->host_table_capacity ? table->host_table_capacity * 2 : 64;
	uint32_t *grown = calloc(capacity, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	free(table->host_table);
	table->host_table = grown;
	table->host_table_capacity = capacity;
	for (size_t i = 0; i < table->host_count; i++)
		*host_slot(table, table->hosts[i].host_id) = (uint32_t)i + 1;
	return 0;
}

int rank_table_host(struct rank_table *table, uint64_t host_id, uint32_t *index)
{
	if (2 * table->host_count >= table->host_table_capacity) {
		int error = grow_host_table(table);

		if (error < 0)
			return error;
	}
	uint32_t *slot = host_slot(table, host_id);

	if (*slot) {
		*index = *slot - 1;
		return 0;
	}
	if (table->host_count == table->host_capacity) {
		size_t capacity = table->host_capacity ? table->host_capacity * 2 : 8;
		struct host_entry *grown = realloc(table->hosts, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		table->hosts = grown;
		table->host_capacity = capacity;
	}
	struct host_entry *host = &table->hosts[table->host_count];

	memset(host, 0, sizeof(*host));
	host->host_id = host_id;
	clock_fit_init(&host->clock);
	*index = (uint32_t)table->host_count++;
	*slot = *index + 1;
	return 0;
}

static void place_on_host(struct rank_table *table, struct rank_entry *rank, uint32_t host)
{
	if (rank->host != host) {
		rank->host = host;
		table->hosts[host].rank_count++;
	}
}

static bool is_missing(const struct rank_table *table, uint32_t rank, struct job_ns after)
{
	(void)after;
	return rank >= table->rank_capacity || !table->ranks[rank].known;
}

static bool is_late(const struct rank_table *table, uint32_t rank, struct job_ns after)
{
	return rank < table->rank_capacity && table->ranks[rank].owned &&
	       table->ranks[rank].announced.value > after.value;
}

static uint32_t list(const struct rank_table *table, uint32_t end,
	bool (*is_one)(const struct rank_table *table, uint32_t rank, struct job_ns after),
	struct job_ns after, char *text, size_t capacity)
{
	uint32_t count = 0, last;
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t rank = 0; rank < end; rank = last + 1) {
		last = rank;
		if (!is_one(table, rank, after))
			continue;
		while (last + 1 < end && is_one(table, last + 1, after))
			last++;
		count += last - rank + 1;
		if (used < capacity)
			used += (size_t)snprintf(
				text + used, capacity - used, "%s%" PRIu32, used ? ", " : "", rank);
		if (used < capacity && last > rank)
			used += (size_t)snprintf(text + used, capacity - used, "-%" PRIu32, last);
	}
	return count;
}

uint32_t rank_table_missing(const struct rank_table *table, char *text, size_t capacity)
{
	return list(table, table->world_size, is_missing, (struct job_ns){0}, text, capacity);
}

uint32_t rank_table_late(
	const struct rank_table *table, struct job_ns after, char *text, size_t capacity)
{
	return list(table, table->end, is_late, after, text, capacity);
}

int rank_table_announce(struct rank_table *table, const struct message_rank *message, uint32_t host)
{
	struct rank_entry *rank;
	int error = get_rank(table, message->rank, &rank);

	if (error < 0)
		return error;
	place_on_host(table, rank, host);
	rank->pid = message->pid;
	rank->restarts = message->restarts;
	rank->exited = message->exited;
	rank->exit_code = message->exit_code;
	memcpy(rank->host_name, message->host, sizeof(rank->host_name));
	if (!table->first_world_size)
		table->first_world_size = message->world_size;
	if (message->world_size > table->world_size && message->world_size <= STEP_RANK_COUNT_MAX)
		table->world_size = message->world_size;
	return 0;
}

void rank_table_stamp(struct rank_table *table, uint32_t number, const struct rank_stamp *stamp)
{
	if (number >= table->rank_capacity || !stamp->valid)
		return;
	struct rank_stamp *known = &table->ranks[number].stamp;

	if (!known->valid || stamp->number < known->number)
		*known = *stamp;
}

int rank_table_communicator(struct rank_table *table, uint32_t number,
	const struct communicator *communicator, bool *first)
{
	struct rank_communicator *known;
	struct rank_entry *rank;
	int error = get_rank(table, number, &rank);

	if (error < 0)
		return error;
	known = rank_entry_communicator(rank, communicator->id);
	*first = known && !known->announced;
	if (known) {
		known->announced = true;
		known->size = communicator->size;
		known->own_index = communicator->own_index;
	}
	return 0;
}

uint32_t rank_table_limit(const struct rank_table *table, uint32_t told)
{
	uint64_t limit = 2 * (uint64_t)(table->first_world_size ? table->first_world_size : told);

	if (limit < RANK_TABLE_LIMIT_MIN)
		limit = RANK_TABLE_LIMIT_MIN;
	return limit < STEP_RANK_COUNT_MAX ? (uint32_t)limit : STEP_RANK_COUNT_MAX;
}

static int grow_queue(struct rank_entry *rank)
{
	size_t capacity = rank->entry_capacity ? rank->entry_capacity * 2 : 4;
	struct queued_entry *grown = malloc(capacity * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	for (size_t i = 0; i < rank->entry_count; i++)
		grown[i] = *rank_entry_at(rank, i);
	free(rank->entries);
	rank->entries = grown;
	rank->entry_capacity = capacity;
	rank->entry_head = 0;
	return 0;
}

static size_t entry_bytes(const struct packed_step *step)
{
	return sizeof(*step) +
	       step->part_count * (sizeof(struct packed_times) + sizeof(struct packed_call));
}

void rank_entry_pop(struct rank_entry *rank)
{
	const struct queued_entry *head = rank_entry_at(rank, 0);

	rank->entry_bytes -= entry_bytes(head->entry);
	if (head->entry->end.value > rank->done.value)
		rank->done = head->entry->end;
	held_steps_unref(head->held);
	rank->entry_head = (rank->entry_head + 1) & (rank->entry_capacity - 1);
	rank->entry_count--;
	rank->part_head = 0;
}

static bool takes_too_much(const struct rank_table *table, const struct rank_entry *rank)
{
	size_t most = RANK_TABLE_HELD_BYTES + (size_t)table->known_count * RANK_HELD_BYTES;

	return rank->entry_count == RANK_ENTRIES_MAX ||
	       (rank->entry_count && rank->entry_bytes > RANK_HELD_BYTES &&
		       table->held_bytes > most);
}

int rank_table_queue(struct rank_table *table, struct held_steps *held,
	const struct packed_step *step, uint32_t host)
{
	struct rank_entry *rank;
	int error = get_rank(table, step->rank, &rank);
	size_t at;

	if (error < 0)
		return error;
	place_on_host(table, rank, host);
	if (step->start.value < rank->done.value) {
		rank->entries_dropped++;
		return 0;
	}
	while (takes_too_much(table, rank)) {
		rank_entry_pop(rank);
		rank->hole = true;
		rank->entries_dropped++;
	}
	if (rank->entry_count == rank->entry_capacity) {
		error = grow_queue(rank);
		if (error < 0)
			return error;
	}
	for (at = rank->entry_count; at > 0; at--) {
		const struct packed_step *before = rank_entry_at(rank, at - 1)->entry;

		if (before->start.value == step->start.value && before->index == step->index) {
			rank->entries_dropped++; /* a double under another batch number */
			return 0;
		}
		if (before->start.value <= step->start.value)
			break;
	}
	if (at == 0 && rank->part_head > 0) { /* the head was begun: too late to go before it */
		rank->entries_dropped++;
		return 0;
	}
	rank->entry_count++;
	for (size_t i = rank->entry_count - 1; i > at; i--)
		*rank_entry_at(rank, i) = *rank_entry_at(rank, i - 1);
	*rank_entry_at(rank, at) = (struct queued_entry){held, step};
	held->references++;
	rank->entry_bytes += entry_bytes(step);
	if (!held->counted_in) {
		held->counted_in = &table->held_bytes;
		table->held_bytes += held->length_bytes;
	}
	rank->input_ns += step->input_ns;
	rank->compute_ns += step->compute_ns;
	rank->host_ns += step->host_ns;
	rank->comm_ns += step->comm_ns;
	if (step->end.value > rank->newest.value)
		rank->newest = step->end;
	return 0;
}

const struct rank_communicator *rank_entry_member(const struct rank_entry *rank, uint64_t id)
{
	for (size_t i = 0; i < rank->communicator_count; i++) {
		if (rank->communicators[i].id == id)
			return &rank->communicators[i];
	}
	return NULL;
}

struct rank_communicator *rank_entry_find_communicator(struct rank_entry *rank, uint64_t id)
{
	const struct rank_communicator *known = rank_entry_member(rank, id);
	size_t count = rank->communicator_count;

	if (known) {
		rank->communicator_last = (size_t)(known - rank->communicators);
		return &rank->communicators[rank->communicator_last];
	}
	if (count == rank->communicator_most)
		return NULL;
	if (count == rank->communicator_capacity) {
		size_t capacity = count ? count * 2 : 1;
		struct rank_communicator *grown =
			realloc(rank->communicators, capacity * sizeof(*grown));

		if (!grown)
			return NULL;
		rank->communicators = grown;
		rank->communicator_capacity = capacity;
	}
	rank->communicators[count] =
		(struct rank_communicator){.id = id, .own_index = STEP_RANK_UNKNOWN};
	rank->communicator_last = count;
	rank->communicator_count = count + 1;
	return &rank->communicators[count];
}
