/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/probe_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	CAPACITY_FIRST = 64,
	CAPACITY_MAX = 1 << 18, /* twice as many places as ranks there may be */
};

void probe_map_fini(struct probe_map *map)
{
	free(map->items);
	*map = (struct probe_map){.item_bytes = map->item_bytes};
}

static struct probe_key *key_at(const struct probe_map *map, size_t place)
{
	return (struct probe_key *)(void *)((char *)map->items + place * map->item_bytes);
}

/* The probe's place, or the free one where it would go. */
static struct probe_key *find_place(const struct probe_map *map, uint64_t probe_id)
{
	size_t mask = map->capacity - 1;
	size_t at = (size_t)((probe_id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;

	while (key_at(map, at)->used && key_at(map, at)->probe_id != probe_id)
		at = (at + 1) & mask;
	return key_at(map, at);
}

static int grow(struct probe_map *map)
{
	struct probe_map grown = *map;

	grown.capacity = map->capacity ? map->capacity * 2 : CAPACITY_FIRST;
	if (grown.capacity > CAPACITY_MAX)
		return -ENOMEM;
	grown.items = calloc(grown.capacity, grown.item_bytes);
	if (!grown.items)
		return -ENOMEM;
	for (size_t i = 0; i < map->capacity; i++) {
		const struct probe_key *key = key_at(map, i);

		if (key->used)
			memcpy(find_place(&grown, key->probe_id), key, map->item_bytes);
	}
	free(map->items);
	*map = grown;
	return 0;
}

void *probe_map_find(const struct probe_map *map, uint64_t probe_id)
{
	struct probe_key *key = map->capacity ? find_place(map, probe_id) : NULL;

	return key && key->used ? key : NULL;
}

int probe_map_get(struct probe_map *map, uint64_t probe_id, void **item)
{
	struct probe_key *key = probe_map_find(map, probe_id);

	if (!key) {
		int error = map->count * 2 >= map->capacity ? grow(map) : 0;

		if (error < 0)
			return error;
		key = find_place(map, probe_id);
		*key = (struct probe_key){.probe_id = probe_id, .used = true};
		map->count++;
	}
	*item = key;
	return 0;
}

void *probe_map_at(const struct probe_map *map, size_t place)
{
	struct probe_key *key = key_at(map, place);

	return key->used ? key : NULL;
}
