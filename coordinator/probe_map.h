/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of probes, by their id: what is kept of each is its user's, and begins with a struct
 * probe_key. Zeroed but for item_bytes it is empty. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_PROBE_MAP_H
#define SLOWRANK_COORDINATOR_PROBE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct probe_key {
	uint64_t probe_id;
	bool used;
};

struct probe_map {
	size_t item_bytes;
	void *items; /* capacity of them: a power of two, at most half of them used */
	size_t capacity, count;
};

void probe_map_fini(struct probe_map *map);

/* The probe's item, or NULL. */
void *probe_map_find(const struct probe_map *map, uint64_t probe_id);

/* The probe's item, made of zeros when it is new; items move when one is made. 0, or -ENOMEM, as for too many probes. */
int probe_map_get(struct probe_map *map, uint64_t probe_id, void **item)
	__attribute__((warn_unused_result));

/* The item at a place below capacity, or NULL where there is none. */
void *probe_map_at(const struct probe_map *map, size_t place);

#endif
