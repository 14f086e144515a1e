/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/device/busy.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint8_t *slots; /* NULL: nobody asks */

static void open_slots(void)
{
	const char *folder = getenv("STAND_IN_GPUS");
	char path[PATH_MAX];
	void *mapped;
	int fd;

	if (!folder)
		return;
	snprintf(path, sizeof(path), "%s/%d", folder, (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	mapped = ftruncate(fd, BUSY_SLOTS)
			 ? MAP_FAILED
			 : mmap(NULL, BUSY_SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	slots = mapped == MAP_FAILED ? NULL : mapped;
}

void busy_tell(int64_t start_ns, int64_t end_ns)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int64_t first = start_ns / BUSY_SLOT_NS, last = end_ns / BUSY_SLOT_NS;

	pthread_once(&once, open_slots);
	if (last - first >= BUSY_SLOTS)
		first = last - BUSY_SLOTS + 1;
	for (int64_t slot = first; slots && slot < last; slot++)
		__atomic_store_n(&slots[slot % BUSY_SLOTS], busy_mark(slot), __ATOMIC_RELAXED);
}
