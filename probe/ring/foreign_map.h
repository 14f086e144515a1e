/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory whose file belongs to somebody else, who may cut it at any time: a look behind its end is a
 * SIGBUS, which would end the process that looks. In such a mapping it is none: the first one replaces all of the
 * mapping by zeros, which nobody else sees, and says so. The handler is the process's; a SIGBUS elsewhere
 * does what it did before. One thread makes, uses and removes mappings.
 */
#ifndef SLOWRANK_PROBE_RING_FOREIGN_MAP_H
#define SLOWRANK_PROBE_RING_FOREIGN_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct foreign_map {
	void *address;
	size_t length_bytes;
	bool cut; /* read by foreign_map_is_cut() */
	struct foreign_map *next;
};

/* Maps a file to be read and written. map stays where it is until the _fini. Returns 0 or a negative errno. */
int foreign_map_init(struct foreign_map *map, int fd, size_t length_bytes)
	__attribute__((warn_unused_result));
void foreign_map_fini(struct foreign_map *map);

/* True once the file was shorter than the mapping where that was looked at: zeros are there since. */
bool foreign_map_is_cut(const struct foreign_map *map);

#endif
