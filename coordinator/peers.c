/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS_FIRST = 64, ADDRESSES_FIRST = 64, IPV6_HOST_BYTES = 8 };

struct connection {
	uint32_t id; /* 0: a free place */
	uint32_t address;
	bool believed;
	struct job_ns last;
};

/* Stays when its connections are gone: or who connects anew for each message would have no limit. */
struct address {
	struct peer_address address;
	uint32_t connections, strangers;
	bool of_world;	    /* it told of a rank that the job has */
	int64_t left_bytes; /* as of then: */
	struct job_ns filled;
};

struct peers {
	struct connection *connections; /* hash table, at most half full */
	size_t capacity, count;
	struct address *addresses;
	size_t address_capacity, address_count;
};

int peers_create(struct peers **peers)
{
	struct peers *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	made->capacity = CONNECTIONS_FIRST;
	made->address_capacity = ADDRESSES_FIRST;
	made->connections = calloc(made->capacity, sizeof(*made->connections));
	made->addresses = calloc(made->address_capacity, sizeof(*made->addresses));
	if (!made->connections || !made->addresses) {
		peers_destroy(made);
		return -ENOMEM;
	}
	*peers = made;
	return 0;
}

void peers_destroy(struct peers *peers)
{
	if (!peers)
		return;
	free(peers->connections);
	free(peers->addresses);
	free(peers);
}

static size_t place_of(const struct peers *peers, uint32_t id)
{
	return (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (peers->capacity - 1);
}

static struct connection *find(const struct peers *peers, uint32_t id)
{
	size_t at = place_of(peers, id);

	while (peers->connections[at].id && peers->connections[at].id != id)
		at = (at + 1) & (peers->capacity - 1);
	return &peers->connections[at];
}

static bool grow(struct peers *peers)
{
	struct peers grown = *peers;

	grown.capacity = 2 * peers->capacity;
	grown.connections = calloc(grown.capacity, sizeof(*grown.connections));
	if (!grown.connections)
		return false;
	for (size_t i = 0; i < peers->capacity; i++) {
		if (peers->connections[i].id)
			*find(&grown, peers->connections[i].id) = peers->connections[i];
	}
	free(peers->connections);
	*peers = grown;
	return true;
}

static bool is_this_host(const struct peer_address *address)
{
	static const struct peer_address this_host;

	return memcmp(address, &this_host, sizeof(this_host)) == 0;
}

static int64_t burst_bytes(const struct address *address)
{
	return address->of_world ? PEERS_BURST_BYTES : PEERS_OUTSIDE_BURST_BYTES;
}

static void refill(struct address *address, struct job_ns now)
{
	int64_t per_second =
		address->of_world ? PEERS_BYTES_PER_SECOND : PEERS_OUTSIDE_BYTES_PER_SECOND;
	int64_t most = burst_bytes(address), passed_ms;

	if (now.value <= address->filled.value)
		return;
	passed_ms = (now.value - address->filled.value) / 1000000;
	if (passed_ms > most / per_second * 1000)
		passed_ms = most / per_second * 1000;
	address->filled = now;
	address->left_bytes += passed_ms * per_second / 1000;
	if (address->left_bytes > most)
		address->left_bytes = most;
}

/* What has no connection and its burst again is as if it had never come. */
static bool is_forgotten(const struct address *address, struct job_ns now)
{
	struct address later = *address;

	refill(&later, now);
	return !later.connections && later.left_bytes == burst_bytes(&later);
}

/* The address's entry, made when it is new; NULL: no memory. Cut to the part that is a host's or a network's. */
static struct address *get_address(
	struct peers *peers, struct peer_address wanted, struct job_ns now)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct address *free_one = NULL;

	if (memcmp(wanted.bytes, mapped, sizeof(mapped)) != 0)
		memset(wanted.bytes + IPV6_HOST_BYTES, 0, IPV6_HOST_BYTES);
	for (size_t i = 0; i < peers->address_count; i++) {
		struct address *address = &peers->addresses[i];

		if (memcmp(&address->address, &wanted, sizeof(wanted)) == 0)
			return address;
		if (!free_one && is_forgotten(address, now))
			free_one = address;
	}
	if (!free_one && peers->address_count == peers->address_capacity) {
		size_t capacity = 2 * peers->address_capacity;
		struct address *grown = realloc(peers->addresses, capacity * sizeof(*grown));

		if (!grown)
			return NULL;
		peers->addresses = grown;
		peers->address_capacity = capacity;
	}
	if (!free_one)
		free_one = &peers->addresses[peers->address_count++];
	*free_one = (struct address){
		.address = wanted, .left_bytes = PEERS_OUTSIDE_BURST_BYTES, .filled = now};
	return free_one;
}

static bool is_silent(const struct connection *connection, int64_t for_ns, struct job_ns now)
{
	return now.value - connection->last.value > for_ns;
}

/* 0: none is silent for long. */
static uint32_t oldest_stranger(const struct peers *peers, uint32_t address, struct job_ns now)
{
	const struct connection *oldest = NULL;

	for (size_t i = 0; i < peers->capacity; i++) {
		const struct connection *connection = &peers->connections[i];

		if (connection->id && connection->address == address && !connection->believed &&
			(!oldest || connection->last.value < oldest->last.value))
			oldest = connection;
	}
	return oldest && is_silent(oldest, PEERS_STRANGER_MS * INT64_C(1000000), now) ? oldest->id
										      : 0;
}

uint32_t peers_add(
	struct peers *peers, uint32_t id, const struct peer_address *wanted, struct job_ns now)
{
	bool limited = !is_this_host(wanted);
	struct address *address;
	uint32_t instead = 0, number;

	if (!id || (2 * peers->count >= peers->capacity && !grow(peers)))
		return id;
	address = get_address(peers, *wanted, now);
	if (!address || (limited && address->connections >= PEERS_PER_ADDRESS_MAX))
		return id;
	number = (uint32_t)(address - peers->addresses);
	if (limited && address->strangers >= PEERS_STRANGERS_MAX) {
		instead = oldest_stranger(peers, number, now);
		peers_remove(peers, instead);
	}
	address->connections++;
	address->strangers++;
	*find(peers, id) = (struct connection){.id = id, .address = number, .last = now};
	peers->count++;
	return instead;
}

void peers_remove(struct peers *peers, uint32_t id)
{
	struct connection *connection = find(peers, id);
	size_t hole, at;

	if (!id || !connection->id)
		return;
	peers->addresses[connection->address].connections--;
	peers->addresses[connection->address].strangers -= !connection->believed;
	peers->count--;
	hole = at = (size_t)(connection - peers->connections);
	for (;;) { /* what was put behind it for lack of place moves up */
		size_t home;

		at = (at + 1) & (peers->capacity - 1);
		if (!peers->connections[at].id)
			break;
		home = place_of(peers, peers->connections[at].id);
		if (((at - home) & (peers->capacity - 1)) < ((at - hole) & (peers->capacity - 1)))
			continue;
		peers->connections[hole] = peers->connections[at];
		hole = at;
	}
	peers->connections[hole] = (struct connection){0};
}

bool peers_heard(struct peers *peers, uint32_t id, size_t length, struct job_ns now,
	struct peer_standing *standing)
{
	struct connection *connection = find(peers, id);
	struct address *address;

	*standing = (struct peer_standing){.address = UINT32_MAX};
	if (!id || !connection->id)
		return true; /* it is gone by now */
	address = &peers->addresses[connection->address];
	connection->last = now;
	standing->address = connection->address;
	standing->first = address->of_world || is_this_host(&address->address);
	if (is_this_host(&address->address))
		return true;
	refill(address, now);
	if (address->left_bytes < (int64_t)length)
		return false;
	address->left_bytes -= (int64_t)length;
	standing->left_bytes = address->left_bytes;
	return true;
}

void peers_believe(struct peers *peers, uint32_t id, bool of_world)
{
	struct connection *connection = find(peers, id);
	struct address *address;

	if (!connection->id)
		return;
	address = &peers->addresses[connection->address];
	address->strangers -= !connection->believed;
	connection->believed = true;
	if (of_world && !address->of_world)
		address->left_bytes += PEERS_BURST_BYTES - PEERS_OUTSIDE_BURST_BYTES;
	address->of_world |= of_world;
}

size_t peers_idle(const struct peers *peers, int64_t idle_ns, struct job_ns now, uint32_t *ids,
	size_t capacity)
{
	size_t count = 0;

	for (size_t i = 0; i < peers->capacity && count < capacity; i++) {
		const struct connection *connection = &peers->connections[i];

		const struct address *address = &peers->addresses[connection->address];
		bool too_many = !connection->believed && address->strangers > PEERS_STRANGERS_MAX;

		if (connection->id && !is_this_host(&address->address) &&
			(is_silent(connection, idle_ns, now) ||
				(too_many && is_silent(connection,
						     PEERS_STRANGER_MS * INT64_C(1000000), now))))
			ids[count++] = connection->id;
	}
	return count;
}

size_t peers_count(const struct peers *peers)
{
	return peers->count;
}
