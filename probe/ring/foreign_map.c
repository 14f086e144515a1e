/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ring/foreign_map.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

/* A signal's handler is given no context. */
static struct {
	struct sigaction before;
	struct foreign_map *maps;
} state;

static bool replace_by_zeros(struct foreign_map *map)
{
	void *zeros = mmap(map->address, map->length_bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);

	if (zeros == MAP_FAILED)
		return false;
	__atomic_store_n(&map->cut, true, __ATOMIC_RELAXED);
	return true;
}

/* The look is done again when this returns. */
static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
	int kept_errno = errno;

	(void)context;
	for (struct foreign_map *map = state.maps; map; map = map->next) {
		if ((uintptr_t)info->si_addr - (uintptr_t)map->address < map->length_bytes &&
			replace_by_zeros(map)) {
			errno = kept_errno;
			return;
		}
	}
	sigaction(signal_number, &state.before, NULL);
	errno = kept_errno;
}

static int handle(void)
{
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO}, before;

	if (sigaction(SIGBUS, &action, &before))
		return -errno;
	if (before.sa_sigaction != on_bus_error)
		state.before = before;
	return 0;
}

int foreign_map_init(struct foreign_map *map, int fd, size_t length_bytes)
{
	int error = handle();
	void *address;

	if (error < 0)
		return error;
	address = mmap(NULL, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (address == MAP_FAILED)
		return -errno;
	*map = (struct foreign_map){
		.address = address, .length_bytes = length_bytes, .next = state.maps};
	state.maps = map;
	return 0;
}

void foreign_map_fini(struct foreign_map *map)
{
	struct foreign_map **at = &state.maps;

	while (*at != map)
		at = &(*at)->next;
	*at = map->next;
	munmap(map->address, map->length_bytes);
}

bool foreign_map_is_cut(const struct foreign_map *map)
{
	return __atomic_load_n(&map->cut, __ATOMIC_RELAXED);
}
