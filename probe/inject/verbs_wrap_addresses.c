/* SPDX-License-Identifier: Apache-2.0 */
/* Objects by address: open addressing, looked up without a lock. */
#include "probe/inject/verbs_wrap_internal.h"

enum { PROBES_MAX = 64, LOCK_TRIES = 20000 };

#define GONE ((const void *)1)

/* Fibonacci hashing (Knuth, TAOCP 3, 6.4); objects are aligned to 16 bytes. */
static size_t first_place(const void *address)
{
	return (size_t)(((uintptr_t)address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 53);
}
_Static_assert(VERBS_ADDRESSES_MAX == 1 << (64 - 53), "the hash's range");

int verbs_addresses_find(const struct verbs_addresses *addresses, const void *address)
{
	size_t place = first_place(address);

	for (size_t i = 0; i < PROBES_MAX; i++, place = (place + 1) % VERBS_ADDRESSES_MAX) {
		const void *found =
			atomic_load_explicit(&addresses->places[place], memory_order_acquire);

		if (found == address)
			return (int)place;
		if (!found)
			return -1;
	}
	return -1;
}

int verbs_addresses_place(const struct verbs_addresses *addresses, const void *address)
{
	int found = verbs_addresses_find(addresses, address);
	size_t place = first_place(address);

	for (size_t i = 0; i < PROBES_MAX && found < 0; i++) {
		const void *other = atomic_load(&addresses->places[place]);

		if (!other || other == GONE)
			found = (int)place;
		place = (place + 1) % VERBS_ADDRESSES_MAX;
	}
	return found;
}

void verbs_addresses_set(struct verbs_addresses *addresses, int place, const void *address)
{
	addresses->generation += addresses->generation == UINT32_MAX ? 2 : 1;
	addresses->generations[place] = addresses->generation;
	atomic_store_explicit(&addresses->places[place], address, memory_order_release);
}

uint32_t verbs_addresses_generation(const struct verbs_addresses *addresses, const void *address)
{
	int place = verbs_addresses_find(addresses, address);

	return place < 0 ? 0 : addresses->generations[place];
}

void verbs_addresses_remove(
	struct verbs_addresses *addresses, const void *address, uint32_t generation)
{
	if (generation == 0 || !verbs_addresses_lock(addresses))
		return;
	if (verbs_addresses_generation(addresses, address) == generation)
		atomic_store(&addresses->places[verbs_addresses_find(addresses, address)], GONE);
	verbs_addresses_unlock(addresses);
}

bool verbs_addresses_lock(struct verbs_addresses *addresses)
{
	/* Held for some instructions; in a child that was forked meanwhile, for ever. */
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (!atomic_exchange(&addresses->lock, 1))
			return true;
	}
	return false;
}

void verbs_addresses_unlock(struct verbs_addresses *addresses)
{
	atomic_store(&addresses->lock, 0);
}
