/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator's identity from memory: here that of this process. */
#include "probe/attach/communicator_memory.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

enum { BEFORE_WORDS = 150001, MAPPING_BYTES = 2 << 20, WORDS = MAPPING_BYTES / 8 };

struct tail {
	uint64_t magic, hash;
	int32_t rank, rank_count, device, nvml, capability, least, most, padding;
	int64_t bus_id;
};

static uint64_t *memory;

static int set_up(void **state)
{
	/* Nothing is mapped behind it: the end of memory ends the search. */
	memory = mmap(NULL, 2 * MAPPING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	(void)state;
	return memory == MAP_FAILED || munmap((char *)memory + MAPPING_BYTES, MAPPING_BYTES);
}

static int tear_down(void **state)
{
	(void)state;
	return munmap(memory, MAPPING_BYTES);
}

static struct tail *fill(void)
{
	struct tail *tail = (struct tail *)(void *)(memory + BEFORE_WORDS);
	uint64_t mixed = 88172645463325252u;

	for (size_t i = 0; i < WORDS; i++) { /* pointers, counts, hashes */
		mixed ^= mixed << 13;
		mixed ^= mixed >> 7;
		mixed ^= mixed << 17;
		memory[i] = i % 3 == 0 ? 0x7f0000000000u + (mixed & 0xffffffff) : mixed % 100;
	}
	memory[0] = 0x0280028002800280;
	*tail = (struct tail){
		0x5eed5eed12341234, 0xfeedfacecafebeef, 3, 8, 3, 3, 90, 90, 90, 0, 0x1b000};
	return tail;
}

static int read_it(struct communicator_memory *out)
{
	return communicator_memory_read(getpid(), (uint64_t)(uintptr_t)memory, out);
}

static void test_found(void **state)
{
	struct communicator_memory out;

	(void)state;
	fill();
	assert_int_equal(read_it(&out), 0);
	assert_int_equal(out.hash, 0xfeedfacecafebeef);
	assert_int_equal(out.rank, 3);
	assert_int_equal(out.rank_count, 8);
}

/* Another communicator lies behind it, as mappings do that are made one after the other. */
static void test_two_in_a_row(void **state)
{
	struct communicator_memory out;
	struct tail *tail = fill(), *other = tail + 100;

	(void)state;
	*other = *tail;
	other->hash++;
	assert_int_equal(read_it(&out), -ENOENT);
	*(uint64_t *)(void *)(tail + 50) = memory[0];
	assert_int_equal(read_it(&out), 0);
	assert_int_equal(out.hash, 0xfeedfacecafebeef);
}

static void test_nothing_is_guessed(void **state)
{
	struct communicator_memory out = {1, 2, 3};
	struct tail *tail = fill(), copy = *tail;

	(void)state;
	tail->rank = 8; /* not below the number of ranks */
	assert_int_equal(read_it(&out), -ENOENT);
	*tail = copy;
	tail->capability = 3;
	assert_int_equal(read_it(&out), -ENOENT);
	*tail = copy;
	tail->hash = 0;
	assert_int_equal(read_it(&out), -ENOENT);
	*tail = copy;
	memcpy(memory + 100, tail, sizeof(*tail)); /* two places look alike */
	assert_int_equal(read_it(&out), -ENOENT);
	fill();
	memory[0]++;
	assert_int_equal(read_it(&out), -ENOENT);
	assert_int_equal(out.hash, 1); /* untouched */
	assert_int_equal(communicator_memory_read(getpid(), 8, &out), -ENOENT);
	assert_int_equal(communicator_memory_read(getpid(), 13, &out), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_two_in_a_row, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_is_guessed, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
