/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/communicator_identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/base/hash.h"
#include "probe/attach/launcher_daemon.h"

static uint64_t finish(uint64_t hash)
{
	hash ^= hash >> 33; /* the last step of MurmurHash3, so that all bits depend on all bytes */
	hash *= 0xff51afd7ed558ccdu;
	hash ^= hash >> 33;
	return hash ? hash : 1;
}

uint64_t communicator_world_id(const char *job_id)
{
	return finish(
		hash_bytes(hash_bytes(hash_bytes_begin(), "world", 5), job_id, strlen(job_id)));
}

uint64_t communicator_id_from_unique(const void *unique_id, size_t length_bytes)
{
	return finish(
		hash_bytes(hash_bytes(hash_bytes_begin(), "unique", 6), unique_id, length_bytes));
}

uint64_t communicator_identity(const char *way, const uint64_t *numbers, size_t number_count)
{
	uint64_t hash = hash_bytes(hash_bytes_begin(), way, strlen(way));

	return finish(hash_bytes(hash, numbers, number_count * sizeof(*numbers)));
}

int communicator_node(pid_t pid, const char *rank_variable, uint64_t *node)
{
	char boot[64] = "", host[256] = "";
	struct launcher_daemon daemon;
	int error = launcher_daemon_find(pid, rank_variable, &daemon);
	FILE *file;

	if (error)
		return error;
	file = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (!file)
		return -ENOENT;
	if (!fgets(boot, sizeof(boot), file))
		boot[0] = '\0';
	fclose(file);
	if (!boot[0] || gethostname(host, sizeof(host) - 1) < 0)
		return -ENOENT;
	/* Machines started from one snapshot may have one boot id. */
	*node = communicator_identity("node",
		(uint64_t[]){hash_bytes(0, boot, strlen(boot)), hash_bytes(0, host, strlen(host)),
			(uint64_t)daemon.pid, daemon.start_ticks},
		4);
	return 0;
}
