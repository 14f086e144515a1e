/* SPDX-License-Identifier: Apache-2.0 */
/* Which first instructions the kernel emulates (arch/x86/kernel/uprobes.c). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach/first_opcode.h"

#if defined(__x86_64__)
static const struct {
	const char *name;
	enum opcode_cost cost;
	uint8_t bytes[8];
} cases[] = {
	{"push %rbp", OPCODE_CHEAP, {0x55, 0x48, 0x89, 0xe5}},
	{"push %rax", OPCODE_CHEAP, {0x50}},
	{"push %rdi", OPCODE_CHEAP, {0x57}},
	{"push %r15", OPCODE_CHEAP, {0x41, 0x57}},
	{"nop", OPCODE_CHEAP, {0x90}},
	{"xchg %ax,%ax", OPCODE_CHEAP, {0x66, 0x90}},
	{"nopl", OPCODE_CHEAP, {0x0f, 0x1f, 0x44, 0x00, 0x00}},
	{"jmp", OPCODE_CHEAP, {0xe9, 1, 2, 3, 4}},
	{"jmp short", OPCODE_CHEAP, {0xeb, 1}},
	{"call", OPCODE_CHEAP, {0xe8, 1, 2, 3, 4}},
	{"je short", OPCODE_CHEAP, {0x74, 5}},
	{"jne", OPCODE_CHEAP, {0x0f, 0x85, 1, 2, 3, 4}},
	{"pop %rax", OPCODE_EXPENSIVE, {0x58}},
	{"pop %r8", OPCODE_EXPENSIVE, {0x41, 0x58}},
	{"endbr64", OPCODE_EXPENSIVE, {0xf3, 0x0f, 0x1e, 0xfa}},
	{"mov %rsp,%rbp", OPCODE_EXPENSIVE, {0x48, 0x89, 0xe5}},
	{"sub $8,%rsp", OPCODE_EXPENSIVE, {0x48, 0x83, 0xec, 0x08}},
	{"lea", OPCODE_EXPENSIVE, {0x48, 0x8d, 0x05}},
	{"ret", OPCODE_EXPENSIVE, {0xc3}},
	{"int3", OPCODE_EXPENSIVE, {0xcc}},
	{"syscall", OPCODE_EXPENSIVE, {0x0f, 0x05}},
	{"zero bytes", OPCODE_EXPENSIVE, {0, 0}},
};

static void table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (first_opcode_cost(cases[i].bytes, sizeof(cases[i].bytes)) != cases[i].cost)
			fail_msg("%s", cases[i].name);
	}
	assert_int_equal(first_opcode_cost((const uint8_t *)"", 0), OPCODE_EXPENSIVE);
	assert_int_equal(first_opcode_cost((const uint8_t *)"\x55", 1), OPCODE_EXPENSIVE);
}

static void from_a_file(void **state)
{
	static const uint8_t bytes[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x90, /* endbr64; push */
		0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89,			    /* endbr64; mov */
		0x41, 0x54};						    /* push %r12 */
	char path[] = "/tmp/slowrank-opcode-XXXXXX";
	int fd = mkstemp(path);
	enum opcode_cost cost = 0;
	uint64_t offset = 0;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	close(fd);
	assert_int_equal(first_opcode_read(path, &offset, &cost), 0);
	assert_int_equal(cost, OPCODE_CHEAP);
	assert_int_equal(offset, 4); /* past the endbr64 */
	offset = 6;
	assert_int_equal(first_opcode_read(path, &offset, &cost), 0);
	assert_int_equal(cost, OPCODE_EXPENSIVE);
	assert_int_equal(offset, 6);
	offset = 12;
	assert_int_equal(first_opcode_read(path, &offset, &cost), 0);
	assert_int_equal(cost, OPCODE_CHEAP);
	offset = sizeof(bytes);
	assert_int_equal(first_opcode_read(path, &offset, &cost), -EIO);
	offset = UINT64_MAX;
	assert_int_equal(first_opcode_read(path, &offset, &cost), -EIO);
	unlink(path);
	offset = 0;
	assert_int_equal(first_opcode_read(path, &offset, &cost), -EIO);
}
#endif

int main(void)
{
#if defined(__x86_64__)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table),
		cmocka_unit_test(from_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
#else
	puts("skipped: the table is of x86-64");
	return 77;
#endif
}
