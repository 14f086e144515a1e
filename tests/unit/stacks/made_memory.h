/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a process that is made: one stretch, whose bytes a test writes by address; nothing else can be read. */
#ifndef SLOWRANK_TESTS_UNIT_STACKS_MADE_MEMORY_H
#define SLOWRANK_TESTS_UNIT_STACKS_MADE_MEMORY_H

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "probe/stacks/memory_view.h"

#define MADE_BASE UINT64_C(0x10000)
enum { MADE_BYTES = 16 * MEMORY_PAGE_BYTES };

struct made_memory {
	uint8_t bytes[MADE_BYTES];
};

static inline int made_read_page(void *context, uint64_t address, uint8_t *page)
{
	const struct made_memory *memory = context;

	if (address < MADE_BASE || address >= MADE_BASE + MADE_BYTES)
		return -EFAULT;
	memcpy(page, memory->bytes + (address - MADE_BASE), MEMORY_PAGE_BYTES);
	return 0;
}

static inline void made_write(
	struct made_memory *memory, uint64_t address, const void *bytes, size_t length)
{
	assert(address >= MADE_BASE && address + length <= MADE_BASE + MADE_BYTES);
	memcpy(memory->bytes + (address - MADE_BASE), bytes, length);
}

static inline void made_write_word(struct made_memory *memory, uint64_t address, uint64_t word)
{
	made_write(memory, address, &word, sizeof(word));
}

#endif
