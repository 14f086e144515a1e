/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/communicator_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "analysis/base/step.h"

enum {
	/* Its channels come first, 64 of about a KiB, and seven graphs with a place for each
	 * channel and GPU of 576: 1.1 MiB in NCCL 2.28. */
	SEARCH_BYTES_MAX = 4 << 20,
	HASH_HIGH_BIT_MIN = 40, /* of 64 random bits some above it are set; of small numbers none */
	CHUNK_BYTES = 4096,
	DEVICES_MAX = 256,
	CAPABILITY_MIN = 10,
	CAPABILITY_MAX = 400,
	BUS_ID_BITS = 44, /* domain, bus, device, function */
};

#define NCCL_MAGIC UINT64_C(0x0280028002800280)

struct identity {
	uint64_t magic, hash;
	int32_t rank, rank_count, cuda_device, nvml_device;
	int32_t capability, capability_min, capability_max, padding;
	int64_t bus_id;
};
_Static_assert(sizeof(struct identity) == 56, "as it lies in struct ncclComm");

/* Reads what is there: the structure may end before. Returns the bytes read. */
static size_t read_memory(pid_t pid, uint64_t address, uint8_t *data, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		size_t part = CHUNK_BYTES - (size_t)((address + done) % CHUNK_BYTES);
		struct iovec local = {data + done, part < bytes - done ? part : bytes - done};
		struct iovec remote = {(void *)(uintptr_t)(address + done), local.iov_len};

		if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)local.iov_len)
			break;
		done += local.iov_len;
	}
	return done;
}

static bool looks_right(const struct identity *identity)
{
	return identity->magic >> HASH_HIGH_BIT_MIN && identity->hash >> HASH_HIGH_BIT_MIN &&
	       identity->padding == 0 && identity->rank_count > 0 &&
	       identity->rank_count <= STEP_RANK_COUNT_MAX && identity->rank >= 0 &&
	       identity->rank < identity->rank_count && identity->cuda_device >= 0 &&
	       identity->cuda_device < DEVICES_MAX && identity->nvml_device >= 0 &&
	       identity->nvml_device < DEVICES_MAX && identity->capability_min >= CAPABILITY_MIN &&
	       identity->capability_min <= identity->capability &&
	       identity->capability <= identity->capability_max &&
	       identity->capability_max <= CAPABILITY_MAX && identity->bus_id >= 0 &&
	       identity->bus_id >> BUS_ID_BITS == 0;
}

/* The structure also ends with the magic number; where it does not, another one may follow, which begins with it. */
static size_t end_of(const uint8_t *data, size_t bytes)
{
	uint64_t word;

	for (size_t at = sizeof(word); at + sizeof(word) <= bytes; at += sizeof(word)) {
		memcpy(&word, data + at, sizeof(word));
		if (word == NCCL_MAGIC)
			return at;
	}
	return bytes;
}

static int search(const uint8_t *data, size_t bytes, struct communicator_memory *out)
{
	struct identity identity, found = {0};
	unsigned count = 0;

	for (size_t at = 0; at + sizeof(identity) <= bytes; at += sizeof(uint64_t)) {
		memcpy(&identity, data + at, sizeof(identity));
		if (!looks_right(&identity))
			continue;
		found = identity;
		count++;
	}
	if (count != 1)
		return -ENOENT;
	*out = (struct communicator_memory){.hash = found.hash,
		.rank = (uint32_t)found.rank,
		.rank_count = (uint32_t)found.rank_count};
	return 0;
}

int communicator_memory_read(pid_t pid, uint64_t handle, struct communicator_memory *out)
{
	uint8_t *data;
	uint64_t magic;
	size_t bytes;
	int result;

	if (handle % sizeof(uint64_t) ||
		read_memory(pid, handle, (uint8_t *)&magic, sizeof(magic)) != sizeof(magic) ||
		magic != NCCL_MAGIC)
		return -ENOENT;
	data = malloc(SEARCH_BYTES_MAX);
	if (!data)
		return -ENOMEM;
	bytes = read_memory(pid, handle, data, SEARCH_BYTES_MAX);
	result = search(data, end_of(data, bytes), out);
	free(data);
	return result;
}
