/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a process that is anything: an interpreter and tables for unwinding that are right, and words of the input
 * written over them. Whatever is read ends, and stays within its bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "probe/stacks/unwind.h"
#include "probe/stacks/unwind_table.h"
#include "tests/unit/stacks/made_python.h"
#include "tests/unit/stacks/made_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

enum { PATCH_BYTES = sizeof(uint16_t) + sizeof(uint64_t), STACK = MADE_BASE + 0xc000 };

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void patch(struct made_memory *memory, const uint8_t *bytes, size_t length)
{
	for (; length >= PATCH_BYTES; bytes += PATCH_BYTES, length -= PATCH_BYTES) {
		uint16_t place;

		memcpy(&place, bytes, sizeof(place));
		memcpy(memory->bytes + place % (MADE_BYTES - sizeof(uint64_t)),
			bytes + sizeof(place), sizeof(uint64_t));
	}
}

static void read_python(struct made_python *made)
{
	char reason[PYTHON_REASON_LENGTH];
	struct python_frame frames[PYTHON_FRAMES_MAX];
	struct python_thread threads[8];
	struct python_code code;
	struct python python;
	size_t count, frame_count;
	bool complete;

	if (python_open(&made->view, RUNTIME, 0, made->name, made_tids, 2, &python, reason) != 0)
		python = (struct python){RUNTIME, *made->layout, TID_AT};
	if (python_threads(&made->view, &python, threads, 8, &count) != 0)
		return;
	require(count <= 8);
	for (size_t i = 0; i < count; i++) {
		if (python_frames(&made->view, &python, threads[i].state, frames, PYTHON_FRAMES_MAX,
			    &frame_count, &complete) != 0)
			continue;
		require(frame_count <= PYTHON_FRAMES_MAX);
		for (size_t k = 0; k < frame_count; k++) {
			if (python_code_read(&made->view, &python, frames[k].code, &code) != 0)
				continue;
			require(strlen(code.name) < sizeof(code.name) &&
				strlen(code.file) < sizeof(code.file));
			require(python_code_line(
					&made->view, &python, &code, frames[k].instruction) >= 0);
		}
	}
}

static void read_native(struct made_memory *memory)
{
	struct module module = {
		.unwind_table = MADE_BASE, .unwind_end = MADE_BASE + sizeof(made_table)};
	struct code_range range = {MADE_BASE + 0x8000, MADE_BASE + 0x8200, 0};
	struct modules modules = {&module, &range, 1, 1, 0};
	struct unwind_registers registers = {.known = (1u << UNWIND_REGISTERS) - 1};
	static struct memory_view stack, tables;
	struct unwind_frame frames[32];
	struct unwinder *unwinder;
	size_t count;

	memory_view_init(&stack, made_read_page, memory);
	memory_view_init(&tables, made_read_page, memory);
	for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
		registers.values[i] = STACK;
	registers.values[UNWIND_RIP] = range.start + 1;
	require(unwinder_create(&modules, &tables, &stack, &unwinder) == 0);
	(void)unwind(unwinder, &registers, frames, 32, &count);
	require(count <= 32);
	unwinder_destroy(unwinder);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct made_python *made;

	if (length == 0)
		return 0;
	made = make_python(9 + bytes[0] % 4);
	if (bytes[0] & 0x80)
		made_write(&made->memory, MADE_BASE, made_table, sizeof(made_table));
	patch(&made->memory, bytes + 1, length - 1);
	if (bytes[0] & 0x80)
		read_native(&made->memory);
	else
		read_python(made);
	free(made);
	return 0;
}
