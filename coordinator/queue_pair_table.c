/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/queue_pair_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_RETRY_EXCEEDED = 12 }; /* IBV_WC_RETRY_EXC_ERR */

void queue_pair_table_init(struct queue_pair_table *table)
{
	*table = (struct queue_pair_table){.most = QUEUE_PAIRS_MAX};
}

void queue_pair_table_fini(struct queue_pair_table *table)
{
	free(table->entries);
	free(table->by_name);
	free(table->by_address);
	free(table->ports);
	free(table->report);
	*table = (struct queue_pair_table){0};
}

/* FNV-1a (Fowler, Noll, Vo), spread over the upper bits as well. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static size_t spread(const struct queue_pair_table *table, uint64_t hash)
{
	return (size_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (table->place_count - 1);
}

static size_t place_by_name(
	const struct queue_pair_table *table, const struct message_queue_pair *pair)
{
	uint32_t numbers[2] = {pair->rank, pair->number};
	uint64_t hash = hash_bytes(UINT64_C(0xcbf29ce484222325), numbers, sizeof(numbers));

	return spread(table, hash_bytes(hash, pair->device, strlen(pair->device)));
}

static size_t place_by_address(const struct queue_pair_table *table, uint32_t number,
	bool is_global, const uint8_t gid[WIRE_GID_BYTES], uint16_t lid)
{
	uint64_t hash = hash_bytes(UINT64_C(0xcbf29ce484222325), &number, sizeof(number));

	hash = is_global ? hash_bytes(hash, gid, WIRE_GID_BYTES)
			 : hash_bytes(hash, &lid, sizeof(lid));
	return spread(table, hash);
}

static void add_place(
	const struct queue_pair_table *table, uint32_t *places, size_t place, size_t index)
{
	while (places[place])
		place = (place + 1) & (table->place_count - 1);
	places[place] = (uint32_t)index + 1;
}

/* Under each address it may be called by. */
static void index_address(struct queue_pair_table *table, size_t index)
{
	static const uint8_t none[WIRE_GID_BYTES];
	struct queue_pair_entry *entry = &table->entries[index];
	const struct message_queue_pair *pair = &entry->last;

	if (!(pair->flags & QUEUE_PAIR_OWN_ADDRESS))
		return;
	entry->indexed = true;
	if (memcmp(pair->own_gid, none, sizeof(none)) != 0)
		add_place(table, table->by_address,
			place_by_address(table, pair->number, true, pair->own_gid, 0), index);
	if (pair->own_lid)
		add_place(table, table->by_address,
			place_by_address(table, pair->number, false, none, pair->own_lid), index);
}

static int grow(struct queue_pair_table *table)
{
	size_t capacity = table->capacity ? 2 * table->capacity : 64, places = 4 * capacity;
	uint32_t *by_name = calloc(places, sizeof(*by_name));
	uint32_t *by_address = calloc(places, sizeof(*by_address));
	struct queue_pair_entry *entries = NULL;

	if (by_name && by_address)
		entries = realloc(table->entries, capacity * sizeof(*entries));
	if (!entries) {
		free(by_name);
		free(by_address);
		return -ENOMEM;
	}
	free(table->by_name);
	free(table->by_address);
	table->entries = entries;
	table->by_name = by_name;
	table->by_address = by_address;
	table->capacity = capacity;
	table->place_count = places;
	for (size_t i = 0; i < table->count; i++) {
		add_place(table, by_name, place_by_name(table, &entries[i].last), i);
		if (entries[i].indexed)
			index_address(table, i);
	}
	return 0;
}

static struct queue_pair_entry *find_entry(
	const struct queue_pair_table *table, const struct message_queue_pair *pair)
{
	size_t place;

	if (!table->place_count)
		return NULL;
	place = place_by_name(table, pair);
	for (; table->by_name[place]; place = (place + 1) & (table->place_count - 1)) {
		struct queue_pair_entry *entry = &table->entries[table->by_name[place] - 1];

		if (entry->last.rank == pair->rank && entry->last.number == pair->number &&
			strcmp(entry->last.device, pair->device) == 0)
			return entry;
	}
	return NULL;
}

/* other is what pair says its peer is. */
static bool is_called(const struct message_queue_pair *pair, const struct message_queue_pair *other)
{
	if (pair->peer_number != other->number || !(other->flags & QUEUE_PAIR_OWN_ADDRESS))
		return false;
	if (pair->flags & QUEUE_PAIR_PEER_GLOBAL)
		return memcmp(pair->peer_gid, other->own_gid, WIRE_GID_BYTES) == 0;
	return pair->peer_lid != 0 && pair->peer_lid == other->own_lid;
}

/* The rank of the other end; STEP_RANK_UNKNOWN when there is none, or two say that they are it. */
static uint32_t find_peer(
	const struct queue_pair_table *table, const struct message_queue_pair *pair)
{
	uint32_t found = STEP_RANK_UNKNOWN;
	size_t place, looked = 0;

	if (!(pair->flags & QUEUE_PAIR_HAS_PEER) || !(pair->flags & QUEUE_PAIR_OWN_ADDRESS))
		return STEP_RANK_UNKNOWN;
	place = place_by_address(table, pair->peer_number, pair->flags & QUEUE_PAIR_PEER_GLOBAL,
		pair->peer_gid, pair->peer_lid);
	for (; table->by_address[place]; place = (place + 1) & (table->place_count - 1)) {
		const struct message_queue_pair *other =
			&table->entries[table->by_address[place] - 1].last;

		if (++looked > QUEUE_PAIR_MATCHES_MAX)
			return STEP_RANK_UNKNOWN;
		if (!is_called(pair, other) || !(other->flags & QUEUE_PAIR_HAS_PEER) ||
			!is_called(other, pair))
			continue;
		if (found != STEP_RANK_UNKNOWN && found != other->rank)
			return STEP_RANK_UNKNOWN;
		found = other->rank;
	}
	return found;
}

static void add_counts(struct message_queue_pair *sum, const struct message_queue_pair *pair)
{
	sum->posted_requests += pair->posted_requests;
	sum->posted_bytes += pair->posted_bytes;
	sum->read_bytes += pair->read_bytes;
	sum->post_errors += pair->post_errors;
	sum->completed_requests += pair->completed_requests;
	sum->completed_bytes += pair->completed_bytes;
	sum->received_requests += pair->received_requests;
	sum->received_bytes += pair->received_bytes;
	sum->latency_count += pair->latency_count;
	sum->latency_sum_ns += pair->latency_sum_ns;
	sum->latency_unmeasured += pair->latency_unmeasured;
	if (pair->latency_max_ns > sum->latency_max_ns)
		sum->latency_max_ns = pair->latency_max_ns;
	for (size_t i = 0; i < WIRE_QUEUE_PAIR_STATUS_NR; i++)
		sum->statuses[i] += pair->statuses[i];
	for (size_t i = 0; i < WIRE_QUEUE_PAIR_BUCKET_NR; i++)
		sum->latency[i] += pair->latency[i];
}

/* Counts of one queue pair only grow: smaller ones are of a new one that got its number. */
static bool is_new_owner(
	const struct message_queue_pair *last, const struct message_queue_pair *pair)
{
	return ((last->flags & QUEUE_PAIR_DESTROYED) && !(pair->flags & QUEUE_PAIR_DESTROYED)) ||
	       pair->posted_requests + pair->post_errors <
		       last->posted_requests + last->post_errors ||
	       pair->received_requests < last->received_requests;
}

static bool same_peer(const struct message_queue_pair *one, const struct message_queue_pair *other)
{
	return one->peer_number == other->peer_number && one->peer_lid == other->peer_lid &&
	       memcmp(one->peer_gid, other->peer_gid, WIRE_GID_BYTES) == 0;
}

/* What is new since the analysis was told last; both ends must be known. */
static bool make_sample(struct queue_pair_entry *entry, struct link_sample *sample)
{
	const struct message_queue_pair *pair = &entry->last;
	uint64_t posted = pair->posted_bytes - entry->told_posted;
	uint64_t read = pair->read_bytes - entry->told_read;
	uint64_t retries = pair->statuses[STATUS_RETRY_EXCEEDED];
	bool reads = 2 * (read < posted ? read : posted) > posted;

	if (entry->peer_rank == STEP_RANK_UNKNOWN || entry->peer_rank == pair->rank ||
		pair->latency_count < entry->told_count ||
		pair->latency_sum_ns < entry->told_sum_ns || retries < entry->told_retries)
		return false;
	*sample = (struct link_sample){
		.from = reads ? entry->peer_rank : pair->rank,
		.to = reads ? pair->rank : entry->peer_rank,
		.latency_count = pair->latency_count - entry->told_count,
		.latency_sum_ns = pair->latency_sum_ns - entry->told_sum_ns,
		.retries_exceeded = retries - entry->told_retries,
		/* Requests without a completion of their own have no time. */
		.sampled = (pair->flags & QUEUE_PAIR_SAMPLED) ||
			   pair->latency_count < pair->completed_requests / 2,
	};
	entry->told_count = pair->latency_count;
	entry->told_sum_ns = pair->latency_sum_ns;
	entry->told_retries = retries;
	entry->told_posted = pair->posted_bytes;
	entry->told_read = pair->read_bytes;
	return sample->latency_count > 0 || sample->retries_exceeded > 0;
}

static struct queue_pair_entry *add_entry(
	struct queue_pair_table *table, const struct message_queue_pair *pair, struct job_ns time)
{
	struct queue_pair_entry *entry = &table->entries[table->count++];

	*entry = (struct queue_pair_entry){.last = *pair,
		.peer_rank = STEP_RANK_UNKNOWN,
		.first_time = time,
		.last_time = time,
		.first_bytes = pair->completed_bytes};
	add_place(table, table->by_name, place_by_name(table, pair), table->count - 1);
	return entry;
}

static void update_entry(
	struct queue_pair_entry *entry, const struct message_queue_pair *pair, struct job_ns time)
{
	bool new_owner = is_new_owner(&entry->last, pair);

	if (new_owner) {
		add_counts(&entry->before, &entry->last);
		entry->told_count = entry->told_sum_ns = entry->told_retries = 0;
		entry->told_posted = entry->told_read = 0;
	}
	if (new_owner || !same_peer(&entry->last, pair))
		entry->peer_rank = STEP_RANK_UNKNOWN;
	entry->last = *pair;
	entry->last_time = time;
}

int queue_pair_table_take(struct queue_pair_table *table, const struct message_queue_pair *pair,
	struct job_ns time, struct link_sample *sample, bool *has_sample)
{
	struct queue_pair_entry *entry = find_entry(table, pair);

	*has_sample = false;
	if (!entry && table->count >= table->most) {
		table->unseen++;
		return 0;
	}
	if (!entry && table->count == table->capacity && grow(table) < 0)
		return -ENOMEM;
	if (!entry)
		entry = add_entry(table, pair, time);
	else if (time.value < entry->last_time.value)
		return 0; /* a batch that comes late: newer counts have all of it */
	else
		update_entry(entry, pair, time);
	if (!entry->indexed)
		index_address(table, (size_t)(entry - table->entries));
	if (entry->peer_rank == STEP_RANK_UNKNOWN)
		entry->peer_rank = find_peer(table, &entry->last);
	*has_sample = make_sample(entry, sample);
	return 0;
}

static int get_ports(struct queue_pair_table *table, uint32_t rank, struct port_growth **ports)
{
	size_t capacity = table->port_capacity ? table->port_capacity : 16;
	struct port_growth *grown;

	if (rank >= STEP_RANK_COUNT_MAX)
		return -EINVAL;
	while (capacity <= rank)
		capacity *= 2;
	if (capacity > table->port_capacity) {
		grown = realloc(table->ports, capacity * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + table->port_capacity, 0,
			(capacity - table->port_capacity) * sizeof(*grown));
		table->ports = grown;
		table->port_capacity = capacity;
	}
	*ports = &table->ports[rank];
	return 0;
}

int queue_pair_table_sample(struct queue_pair_table *table, const struct metric_sample *sample)
{
	struct port_growth *ports;
	int error;

	if (sample->metric != METRIC_RDMA_RETRANSMITS && sample->metric != METRIC_RDMA_PACKETS_SENT)
		return 0;
	error = get_ports(table, sample->rank, &ports);
	if (error < 0)
		return error;
	if (sample->metric == METRIC_RDMA_RETRANSMITS) {
		if (!ports->has_retransmits)
			ports->first_retransmits = sample->value;
		ports->has_retransmits = true;
		ports->last_retransmits = sample->value;
	} else {
		if (!ports->has_packets)
			ports->first_packets = sample->value;
		ports->has_packets = true;
		ports->last_packets = sample->value;
	}
	return 0;
}

static double port_loss(const struct queue_pair_table *table, uint32_t rank)
{
	const struct port_growth *ports;
	double packets, again;

	if (rank >= table->port_capacity)
		return -1;
	ports = &table->ports[rank];
	packets = (double)ports->last_packets - (double)ports->first_packets;
	again = (double)ports->last_retransmits - (double)ports->first_retransmits;
	if (!ports->has_retransmits || !ports->has_packets || packets < 1 || again < 0)
		return -1;
	return again < packets ? again / packets : 1;
}

static int compare_pairs(const void *left, const void *right)
{
	const struct report_pair *one = left, *other = right;

	if (one->rank != other->rank)
		return one->rank < other->rank ? -1 : 1;
	return one->peer < other->peer ? -1 : one->peer > other->peer;
}

/* One queue pair as a pair of ranks. */
static void fill_pair(const struct queue_pair_entry *entry, struct report_pair *pair)
{
	struct message_queue_pair sum = entry->before;
	double seconds = (double)(entry->last_time.value - entry->first_time.value) / 1e9;

	add_counts(&sum, &entry->last);
	*pair = (struct report_pair){.rank = entry->last.rank,
		.peer = entry->peer_rank,
		.queue_pairs = 1,
		.live = !(entry->last.flags & QUEUE_PAIR_DESTROYED),
		.timeout = entry->last.timeout,
		.retry_count = entry->last.retry_count,
		.flags = entry->last.flags,
		.posted_requests = sum.posted_requests,
		.posted_bytes = sum.posted_bytes,
		.read_bytes = sum.read_bytes,
		.post_errors = sum.post_errors,
		.completed_requests = sum.completed_requests,
		.completed_bytes = sum.completed_bytes,
		.received_requests = sum.received_requests,
		.received_bytes = sum.received_bytes,
		.latency_count = sum.latency_count,
		.latency_sum_ns = sum.latency_sum_ns,
		.latency_max_ns = sum.latency_max_ns,
		.latency_unmeasured = sum.latency_unmeasured,
		.bytes_per_s = -1};
	memcpy(pair->statuses, sum.statuses, sizeof(pair->statuses));
	memcpy(pair->latency, sum.latency, sizeof(pair->latency));
	if (seconds >= 0.5 && !(entry->last.flags & QUEUE_PAIR_SAMPLED) &&
		sum.completed_bytes >= entry->first_bytes)
		pair->bytes_per_s = (double)(sum.completed_bytes - entry->first_bytes) / seconds;
}

static void merge_pair(struct report_pair *into, const struct report_pair *pair)
{
	into->queue_pairs += pair->queue_pairs;
	into->live += pair->live;
	into->timeout = pair->timeout;
	into->retry_count = pair->retry_count;
	into->flags |= pair->flags;
	into->posted_requests += pair->posted_requests;
	into->posted_bytes += pair->posted_bytes;
	into->read_bytes += pair->read_bytes;
	into->post_errors += pair->post_errors;
	into->completed_requests += pair->completed_requests;
	into->completed_bytes += pair->completed_bytes;
	into->received_requests += pair->received_requests;
	into->received_bytes += pair->received_bytes;
	into->latency_count += pair->latency_count;
	into->latency_sum_ns += pair->latency_sum_ns;
	if (pair->latency_max_ns > into->latency_max_ns)
		into->latency_max_ns = pair->latency_max_ns;
	into->latency_unmeasured += pair->latency_unmeasured;
	for (size_t i = 0; i < WIRE_QUEUE_PAIR_STATUS_NR; i++)
		into->statuses[i] += pair->statuses[i];
	for (size_t i = 0; i < WIRE_QUEUE_PAIR_BUCKET_NR; i++)
		into->latency[i] += pair->latency[i];
	if (pair->bytes_per_s >= 0)
		into->bytes_per_s =
			pair->bytes_per_s + (into->bytes_per_s >= 0 ? into->bytes_per_s : 0);
}

void queue_pair_table_report(struct queue_pair_table *table, struct report_model *model)
{
	size_t count = 0;

	model->pair_count = 0;
	model->pairs = NULL;
	model->pairs_unseen = table->unseen;
	if (table->count > table->report_capacity) {
		struct report_pair *grown =
			realloc(table->report, table->capacity * sizeof(*grown));

		if (!grown)
			return; /* a report without pairs is better than none */
		table->report = grown;
		table->report_capacity = table->capacity;
	}
	for (size_t i = 0; i < table->count; i++) {
		struct queue_pair_entry *entry = &table->entries[i];

		if (entry->peer_rank == STEP_RANK_UNKNOWN)
			entry->peer_rank = find_peer(table, &entry->last);
		fill_pair(entry, &table->report[i]);
	}
	if (table->count)
		qsort(table->report, table->count, sizeof(*table->report), compare_pairs);
	for (size_t i = 0; i < table->count; i++) {
		if (count && compare_pairs(&table->report[count - 1], &table->report[i]) == 0)
			merge_pair(&table->report[count - 1], &table->report[i]);
		else
			table->report[count++] = table->report[i];
	}
	for (size_t i = 0; i < count; i++)
		table->report[i].port_loss = port_loss(table, table->report[i].rank);
	model->pair_count = count;
	model->pairs = table->report;
}
