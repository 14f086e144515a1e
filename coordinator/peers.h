/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is connected, and how much of the coordinator each address may have, with the key and without: so many
 * connections, fewer that have brought nothing that was believed yet, so many bytes; and none that brings nothing. IPv6
 * addresses of one /64 are one. No clock and no lock: times come in, and the caller has one thread or a lock.
 */
#ifndef SLOWRANK_COORDINATOR_PEERS_H
#define SLOWRANK_COORDINATOR_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/base/step.h"

enum {
	PEERS_PER_ADDRESS_MAX = 256, /* a host has some 128 ranks, at most a probe for each */
	/* Each may be in the middle of a message of 8 MiB. Honest ones prove themselves at once, or come again. */
	PEERS_STRANGERS_MAX = 24,
	PEERS_STRANGER_MS =
		1000, /* and for so long they are not too many: a host's probes start together */
	PEERS_IDLE_MS = 30000, /* a probe that is there sends each second */
	/*
	 * What a probe's memory and spool hold, at once; then what 128 ranks with 45 steps of 63 collectives a
	 * second send (docs/results.md, What ingest costs: 343 bytes a rank-step).
	 */
	PEERS_BURST_BYTES = 96 << 20,
	PEERS_BYTES_PER_SECOND = 2 << 20,
	/*
	 * The same of an address that has not told of a rank of the job's world, whoever has the key: two messages of any
	 * length, and of samples and ranks that are yet to come 20 times what a probe sends. In an hour 241 MiB.
	 */
	PEERS_OUTSIDE_BURST_BYTES = 16 << 20,
	PEERS_OUTSIDE_BYTES_PER_SECOND = 64 << 10,
};

/* IPv6, or IPv4 as ::ffff:a.b.c.d; all 0: a socket of this host's own, which has no limits. */
struct peer_address {
	uint8_t bytes[16];
};

struct peers;

int peers_create(struct peers **peers) __attribute__((warn_unused_result)); /* 0 or -ENOMEM */
void peers_destroy(struct peers *peers);				    /* NULL is fine */

/*
 * A new connection. Returns which one is to be closed for it, since its address has too many: itself, or of those
 * that nobody believed yet the one that has brought nothing for the longest time, and for long; 0: none.
 */
uint32_t peers_add(
	struct peers *peers, uint32_t id, const struct peer_address *address, struct job_ns now);
void peers_remove(struct peers *peers, uint32_t id); /* one that is not there: nothing */

/* Of whom a message came, for the order in which those that wait are taken. */
struct peer_standing {
	bool first; /* of an address that told of a rank of the job's world, or of this host's own */
	uint32_t address;   /* a number */
	int64_t left_bytes; /* that it may send at once behind this one */
};

/* A whole message came. False: its address has sent too much, and it is to be dropped. */
bool peers_heard(struct peers *peers, uint32_t id, size_t length, struct job_ns now,
	struct peer_standing *standing);

/* What it brought was believed: it is one of the job's. of_world: and told of a rank that the job has. */
void peers_believe(struct peers *peers, uint32_t id, bool of_world);

/*
 * Connections that have brought no whole message for idle_ns, or for PEERS_STRANGER_MS where their address has too
 * many that nobody believed; at most capacity. The caller closes them. Returns how many.
 */
size_t peers_idle(const struct peers *peers, int64_t idle_ns, struct job_ns now, uint32_t *ids,
	size_t capacity);

size_t peers_count(const struct peers *peers);

#endif
