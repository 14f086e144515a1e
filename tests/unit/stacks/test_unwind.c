/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native frames: of this very process, whose memory is read as another's is, and of tables that are made. What the compiler's
 * tables say is compared with the C library's own unwinder.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <execinfo.h>
#include <stdio.h>
#include <ucontext.h>

#include "probe/stacks/unwind.h"
#include "probe/stacks/unwind_table.h"
#include "tests/unit/stacks/made_table.h"

#if defined(__x86_64__)
enum { DEPTH_MAX = 64 };

struct look {
	struct memory_view stack, tables;
	struct modules modules;
	struct unwinder *unwinder;
	int memory;
	struct unwind_frame frames[DEPTH_MAX];
	void *expected[DEPTH_MAX];
	size_t count;
	int expected_count;
	enum unwind_end end;
};

static void take_registers(const ucontext_t *context, struct unwind_registers *registers)
{
	static const int order[UNWIND_REGISTERS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI,
		REG_RDI, REG_RBP, REG_RSP, REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13,
		REG_R14, REG_R15, REG_RIP};

	for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
		registers->values[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
	registers->known = (1u << UNWIND_REGISTERS) - 1;
}

/* Called back by the C library, from a stack that is somebody else's in part. */
static struct look *looking;

static int look(const void *left, const void *right)
{
	struct unwind_registers registers;
	ucontext_t context;

	(void)left;
	(void)right;
	if (looking->count)
		return 0;
	assert_int_equal(getcontext(&context), 0);
	take_registers(&context, &registers);
	memory_view_forget(&looking->stack);
	looking->end =
		unwind(looking->unwinder, &registers, looking->frames, DEPTH_MAX, &looking->count);
	looking->expected_count = backtrace(looking->expected, DEPTH_MAX);
	return 0;
}

static void open_self(struct look *self)
{
	memset(self, 0, sizeof(*self));
	self->memory = memory_open(getpid());
	assert_true(self->memory >= 0);
	memory_view_init(&self->stack, memory_read_process, &self->memory);
	memory_view_init(&self->tables, memory_read_process, &self->memory);
	assert_int_equal(modules_init(&self->modules), 0);
	assert_int_equal(modules_read(&self->modules, getpid(), &self->tables), 0);
	assert_int_equal(
		unwinder_create(&self->modules, &self->tables, &self->stack, &self->unwinder), 0);
}

static void close_self(struct look *self)
{
	unwinder_destroy(self->unwinder);
	modules_fini(&self->modules);
	close(self->memory);
}

static void test_self(void **state)
{
	static struct look self;
	int numbers[4] = {4, 3, 2, 1};
	void *warm[1];

	(void)state;
	assert_int_equal(backtrace(warm, 1), 1); /* it loads a library by its first call */
	open_self(&self);
	looking = &self;
	qsort(numbers, 4, sizeof(numbers[0]), look);
	assert_int_equal(self.end, UNWIND_COMPLETE);
	assert_true(self.count > 5);
	/* From the outermost on: of the innermost, each took an address of its own (a sanitizer has one more). */
	assert_in_range(self.expected_count, self.count, self.count + 1);
	for (size_t i = 1; i < self.count; i++)
		assert_int_equal(self.frames[self.count - i].address + 1,
			(uintptr_t)self.expected[(size_t)self.expected_count - i]);
	for (size_t i = 1; i < self.count; i++)
		assert_true(self.frames[i].stack_end > self.frames[i - 1].stack_end);
	close_self(&self);
}

/* Without any registers but those that /proc tells, and from an address that is no code. */
static void test_few_registers(void **state)
{
	static struct look self;
	struct unwind_registers registers = {0};
	ucontext_t context;

	(void)state;
	open_self(&self);
	assert_int_equal(unwind(self.unwinder, &registers, self.frames, DEPTH_MAX, &self.count),
		UNWIND_NOT_STARTED);
	assert_int_equal(self.count, 0);
	assert_int_equal(getcontext(&context), 0);
	take_registers(&context, &registers);
	assert_int_equal(
		unwind(self.unwinder, &registers, self.frames, 1, &self.count), UNWIND_TOO_DEEP);
	assert_int_equal(self.count, 1);
	registers.values[UNWIND_RIP] = (uintptr_t)&self;
	assert_int_equal(unwind(self.unwinder, &registers, self.frames, DEPTH_MAX, &self.count),
		UNWIND_NO_CODE);
	close_self(&self);
}

static int find(struct made_memory *memory, uint64_t address, struct unwind_row *row)
{
	static struct memory_view view;

	memory_view_init(&view, made_read_page, memory);
	return unwind_table_find(&view, MADE_BASE, MADE_BASE + sizeof(made_table), address, row);
}

static void test_table(void **state)
{
	static struct made_memory memory;
	struct unwind_row row;

	(void)state;
	made_write(&memory, MADE_BASE, made_table, sizeof(made_table));
	assert_int_equal(find(&memory, 0x18000, &row), 0);
	assert_int_equal(row.cfa_register, UNWIND_RSP);
	assert_int_equal(row.cfa_offset, 8);
	assert_int_equal(row.rules[UNWIND_RIP].kind, UNWIND_AT_CFA);
	assert_int_equal(row.rules[UNWIND_RIP].value, -8);
	assert_int_equal(row.rules[UNWIND_RBP].kind, UNWIND_SAME);
	assert_int_equal(find(&memory, 0x18001, &row), 0);
	assert_int_equal(row.cfa_offset, 16);
	assert_int_equal(row.rules[UNWIND_RBP].kind, UNWIND_AT_CFA);
	assert_int_equal(row.rules[UNWIND_RBP].value, -16);
	assert_int_equal(find(&memory, 0x180ff, &row), 0);
	assert_int_equal(row.cfa_register, UNWIND_RBP);
	assert_int_equal(row.cfa_offset, 16);
	assert_int_equal(find(&memory, 0x18100, &row), -ENOENT);
	assert_int_equal(find(&memory, 0x17fff, &row), -ENOENT);
}

/* Each byte of it, changed in every way: an answer or none, and always an end. */
static void test_damaged_table(void **state)
{
	static struct made_memory memory;
	struct unwind_row row;

	(void)state;
	for (size_t at = 0; at < sizeof(made_table); at++) {
		for (unsigned value = 0; value < 256; value += 5) {
			made_write(&memory, MADE_BASE, made_table, sizeof(made_table));
			made_write(&memory, MADE_BASE + at, &(uint8_t){(uint8_t)value}, 1);
			if (find(&memory, 0x18001, &row) == 0)
				assert_in_range(row.cfa_register, 0, UNWIND_REGISTERS - 1);
		}
	}
}
#endif

int main(void)
{
#if defined(__x86_64__)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_self),
		cmocka_unit_test(test_few_registers),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_damaged_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
#else
	return 77; /* native frames are read on x86-64 */
#endif
}
