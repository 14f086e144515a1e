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
	for (size_t i = 0; i < table->streams.rank_capacity; i++)
		stream_fini(&table->streams.ranks[i]);
	free(table->streams.ranks);
	free(table->streams.hosts);
	free(table->ranks);
	free(table->host_table);
	memset(table, 0, sizeof(*table));
}

/* Room for a rank; what was there stays as it was when there is no memory. */
static int reserve_ranks(struct rank_table *table, uint32_t number)
{
	struct rank_streams *streams = &table->streams;
	size_t before = streams->rank_capacity, capacity = before ? before : 16;

	while (capacity <= number)
		capacity *= 2;
	struct rank_entry *ranks = realloc(table->ranks, capacity * sizeof(*ranks));
	if (!ranks)
		return -ENOMEM;
	table->ranks = ranks;
	struct rank_stream *grown = realloc(streams->ranks, capacity * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	streams->ranks = grown;
	memset(ranks + before, 0, (capacity - before) * sizeof(*ranks));
	memset(grown + before, 0, (capacity - before) * sizeof(*grown));
	streams->rank_capacity = capacity;
	return 0;
}

/* The stream of a rank, made when it is new. Pointers to streams move when ranks are added. */
static int get_stream(struct rank_table *table, uint32_t number, struct rank_stream **stream)
{
	struct rank_streams *streams = &table->streams;

	if (number >= STEP_RANK_COUNT_MAX)
		return -EINVAL;
	if (number >= streams->rank_capacity) {
		int error = reserve_ranks(table, number);

		if (error < 0)
			return error;
	}
	struct rank_stream *rank = &streams->ranks[number];

	if (!rank->known) {
		rank->known = true;
		rank->host = UINT32_MAX;
		rank->done.value = INT64_MIN;
		rank->communicator_most = streams->known_count < RANK_FIRST_RANKS
						  ? RANK_COMMUNICATORS_MAX
						  : RANK_COMMUNICATORS_MANY;
		streams->known_count++;
		if (number >= streams->end)
			streams->end = number + 1;
	}
	*stream = rank;
	return 0;
}

static uint32_t *host_slot(const struct rank_table *table, uint64_t host_id)
{
	size_t mask = table->host_table_capacity - 1;
	size_t at = (size_t)((host_id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;

	while (table->host_table[at] &&
		table->streams.hosts[table->host_table[at] - 1].host_id != host_id)
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
	for (size_t i = 0; i < table->streams.host_count; i++)
		*host_slot(table, table->streams.hosts[i].host_id) = (uint32_t)i + 1;
	return 0;
}

int rank_table_host(struct rank_table *table, uint64_t host_id, uint32_t *index)
{
	if (2 * table->streams.host_count >= table->host_table_capacity) {
		int error = grow_host_table(table);

		if (error < 0)
			return error;
	}
	uint32_t *slot = host_slot(table, host_id);

	if (*slot) {
		*index = *slot - 1;
		return 0;
	}
	if (table->streams.host_count == table->streams.host_capacity) {
		size_t capacity =
			table->streams.host_capacity ? table->streams.host_capacity * 2 : 8;
		struct host_entry *grown = realloc(table->streams.hosts, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		table->streams.hosts = grown;
		table->streams.host_capacity = capacity;
	}
	struct host_entry *host = &table->streams.hosts[table->streams.host_count];

	memset(host, 0, sizeof(*host));
	host->host_id = host_id;
	clock_fit_init(&host->clock);
	*index = (uint32_t)table->streams.host_count++;
	*slot = *index + 1;
	return 0;
}

static void place_on_host(struct rank_table *table, struct rank_stream *rank, uint32_t host)
{
	if (rank->host != host) {
		rank->host = host;
		table->streams.hosts[host].rank_count++;
	}
}

static bool is_missing(const struct rank_table *table, uint32_t rank, struct job_ns after)
{
	(void)after;
	return rank >= table->streams.rank_capacity || !table->streams.ranks[rank].known;
}

static bool is_late(const struct rank_table *table, uint32_t rank, struct job_ns after)
{
	return rank < table->streams.rank_capacity && table->ranks[rank].owned &&
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
	return list(
		table, table->streams.world_size, is_missing, (struct job_ns){0}, text, capacity);
}

uint32_t rank_table_late(
	const struct rank_table *table, struct job_ns after, char *text, size_t capacity)
{
	return list(table, table->streams.end, is_late, after, text, capacity);
}

int rank_table_announce(struct rank_table *table, const struct message_rank *message, uint32_t host)
{
	struct rank_stream *stream;
	int error = get_stream(table, message->rank, &stream);

	if (error < 0)
		return error;
	place_on_host(table, stream, host);
	stream->exited = message->exited;
	struct rank_entry *rank = &table->ranks[message->rank];

	rank->pid = message->pid;
	rank->restarts = message->restarts;
	rank->exit_code = message->exit_code;
	memcpy(rank->host_name, message->host, sizeof(rank->host_name));
	if (!table->first_world_size)
		table->first_world_size = message->world_size;
	if (message->world_size > table->streams.world_size &&
		message->world_size <= STEP_RANK_COUNT_MAX)
		table->streams.world_size = message->world_size;
	return 0;
}

void rank_table_stamp(struct rank_table *table, uint32_t number, const struct rank_stamp *stamp)
{
	if (number >= table->streams.rank_capacity || !stamp->valid)
		return;
	struct rank_stamp *known = &table->streams.ranks[number].stamp;

	if (!known->valid || stamp->number < known->number)
		*known = *stamp;
}

int rank_table_communicator(struct rank_table *table, uint32_t number,
	const struct communicator *communicator, bool *first)
{
	struct rank_communicator *known;
	struct rank_stream *rank;
	int error = get_stream(table, number, &rank);

	if (error < 0)
		return error;
	known = stream_communicator(rank, communicator->id);
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

static int grow_queue(struct rank_stream *rank)
{
	size_t capacity = rank->entry_capacity ? rank->entry_capacity * 2 : 4;
	struct stream_entry *grown = malloc(capacity * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	for (size_t i = 0; i < rank->entry_count; i++)
		grown[i] = *stream_at(rank, i);
	free(rank->entries);
	rank->entries = grown;
	rank->entry_capacity = capacity;
	rank->entry_head = 0;
	return 0;
}

static bool takes_too_much(const struct rank_table *table, const struct rank_stream *rank)
{
	size_t most = RANK_TABLE_HELD_BYTES + (size_t)table->streams.known_count * RANK_HELD_BYTES;

	return rank->entry_count == RANK_ENTRIES_MAX ||
	       (rank->entry_count && rank->entry_bytes > RANK_HELD_BYTES &&
		       table->held_bytes > most);
}

static void count_bytes(
	struct rank_table *table, struct rank_stream *rank, const struct stream_entry *entry)
{
	struct stream_batch *batch = entry->batch;

	rank->entry_bytes += stream_entry_bytes(entry->entry);
	if (!batch->counted_in) {
		batch->counted_in = &table->held_bytes;
		table->held_bytes += batch->length_bytes;
	}
}

int rank_table_queue(struct rank_table *table, struct held_steps *held,
	const struct packed_step *step, uint32_t host)
{
	struct rank_stream *rank;
	int error = get_stream(table, step->rank, &rank);
	size_t at;

	if (error < 0)
		return error;
	place_on_host(table, rank, host);
	struct rank_entry *of = &table->ranks[step->rank];

	if (step->start.value < rank->done.value) {
		of->entries_dropped++;
		return 0;
	}
	while (takes_too_much(table, rank)) {
		stream_pop(rank);
		rank->hole = true;
		of->entries_dropped++;
	}
	if (rank->entry_count == rank->entry_capacity) {
		error = grow_queue(rank);
		if (error < 0)
			return error;
	}
	for (at = rank->entry_count; at > 0; at--) {
		const struct packed_step *before = stream_at(rank, at - 1)->entry;

		if (before->start.value == step->start.value && before->index == step->index) {
			of->entries_dropped++; /* a double under another batch number */
			return 0;
		}
		if (before->start.value <= step->start.value)
			break;
	}
	if (at == 0 && rank->part_head > 0) { /* the head was begun: too late to go before it */
		of->entries_dropped++;
		return 0;
	}
	rank->entry_count++;
	for (size_t i = rank->entry_count - 1; i > at; i--)
		*stream_at(rank, i) = *stream_at(rank, i - 1);
	*stream_at(rank, at) = (struct stream_entry){&held->batch, step};
	held->batch.references++;
	count_bytes(table, rank, stream_at(rank, at));
	of->input_ns += step->input_ns;
	of->compute_ns += step->compute_ns;
	of->host_ns += step->host_ns;
	of->comm_ns += step->comm_ns;
	if (step->end.value > rank->newest.value)
		rank->newest = step->end;
	return 0;
}
