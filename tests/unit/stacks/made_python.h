/* SPDX-License-Identifier: Apache-2.0 */
/* An interpreter of CPython's in memory that is made: two threads, one with three frames of one code object. */
#ifndef SLOWRANK_TESTS_UNIT_STACKS_MADE_PYTHON_H
#define SLOWRANK_TESTS_UNIT_STACKS_MADE_PYTHON_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/stacks/python.h"
#include "tests/unit/stacks/made_memory.h"

enum {
	RUNTIME = MADE_BASE,
	INTERPRETER = MADE_BASE + 0x1000,
	THREAD = MADE_BASE + 0x2000, /* and another one 0x400 behind */
	THREAD_STEP = 0x400,
	PTHREAD = MADE_BASE + 0x3000,
	PTHREAD_STEP = 0x800,
	TID_AT = 720,
	CFRAME = MADE_BASE + 0x4000,
	FRAME = MADE_BASE + 0x5000,
	FRAME_STEP = 0x80,
	FRAMES = 3,
	CODE = MADE_BASE + 0x6000,
	TYPE = MADE_BASE + 0x7000,
	TYPE_NAME = MADE_BASE + 0x7800,
	FILE_NAME = MADE_BASE + 0x8000,
	FUNCTION_NAME = MADE_BASE + 0x9000,
	LINES = MADE_BASE + 0xa000,
};

static const pid_t made_tids[] = {4711, 4712};

struct made_python {
	struct made_memory memory;
	struct memory_view view;
	const struct python_layout *layout;
	char name[32];
};

static void make_text(
	struct made_python *made, uint64_t address, const char *text, uint32_t kind, bool ascii)
{
	uint32_t state = kind << 2 | 1 << 5 | (uint32_t)ascii << 6;
	uint64_t at = address +
		      (ascii ? made->layout->text_ascii_bytes : made->layout->text_compact_bytes);

	made_write_word(&made->memory, address + PYTHON_TEXT_LENGTH, strlen(text));
	made_write(&made->memory, address + PYTHON_TEXT_STATE, &state, sizeof(state));
	for (; *text; text++, at += kind)
		made_write(&made->memory, at, text, 1);
}

/* Each calls the next one; the innermost first. */
static void make_frame(struct made_python *made, unsigned index, uint64_t previous)
{
	const struct python_layout *layout = made->layout;
	uint64_t at = FRAME + index * FRAME_STEP;
	int32_t instruction = (int32_t)(2 * index + 2);
	int32_t counted = instruction / layout->instruction_bytes;

	made_write_word(&made->memory, at + layout->frame_previous, previous);
	made_write_word(&made->memory, at + layout->frame_code, CODE);
	if (layout->code_instructions == PYTHON_ABSENT)
		made_write(
			&made->memory, at + layout->frame_instruction, &counted, sizeof(counted));
	else
		made_write_word(&made->memory, at + layout->frame_instruction,
			CODE + layout->code_instructions + (uint64_t)instruction);
	if (layout->frame_is_entry != PYTHON_ABSENT)
		made_write(&made->memory, at + layout->frame_is_entry,
			&(uint8_t){index == FRAMES - 1}, 1);
}

static void make_thread(struct made_python *made, unsigned index)
{
	const struct python_layout *layout = made->layout;
	uint64_t at = THREAD + index * THREAD_STEP, pthread = PTHREAD + index * PTHREAD_STEP;
	uint64_t frame = index == 0 ? (uint64_t)FRAME : 0;
	uint32_t tid = (uint32_t)made_tids[index];

	made_write_word(&made->memory, at + layout->thread_next,
		index == 0 ? (uint64_t)THREAD + THREAD_STEP : 0);
	made_write_word(&made->memory, at + layout->thread_id, pthread);
	made_write(&made->memory, pthread + TID_AT, &tid, sizeof(tid));
	if (layout->thread_cframe == PYTHON_ABSENT) {
		made_write_word(&made->memory, at + layout->thread_frame, frame);
		return;
	}
	made_write_word(&made->memory, at + layout->thread_cframe, CFRAME + index * 64);
	made_write_word(&made->memory, CFRAME + index * 64 + layout->cframe_frame, frame);
}

static inline struct made_python *make_python(unsigned minor)
{
	static const uint8_t lnotab[] = {0, 1, 2, 1, 2, 1, 2, 1},
			     table[] = {2, 1, 2, 1, 2, 1, 2, 1},
			     locations[] = {0xd8, 0, 1, 0xd8, 0, 1, 0xd8, 0, 1, 0xd8, 0, 1};
	struct made_python *made = calloc(1, sizeof(*made));
	const struct python_layout *layout = python_layout_of(minor);
	int32_t first_line = 10;

	assert(made && layout);
	made->layout = layout;
	snprintf(made->name, sizeof(made->name), "/usr/bin/python3.%u", minor);
	memory_view_init(&made->view, made_read_page, &made->memory);
	made_write_word(&made->memory, RUNTIME + layout->interpreters_head, INTERPRETER);
	made_write_word(&made->memory, INTERPRETER + layout->threads_head, THREAD);
	make_thread(made, 0);
	make_thread(made, 1);
	for (unsigned i = 0; i < FRAMES; i++)
		make_frame(made, i, i + 1 < FRAMES ? FRAME + (i + 1) * (uint64_t)FRAME_STEP : 0);
	made_write_word(&made->memory, CODE + PYTHON_OBJECT_TYPE, TYPE);
	made_write_word(&made->memory, TYPE + layout->type_name, TYPE_NAME);
	made_write(&made->memory, TYPE_NAME, "code", 5);
	made_write_word(&made->memory, CODE + layout->code_file, FILE_NAME);
	made_write_word(&made->memory, CODE + layout->code_name, FUNCTION_NAME);
	made_write_word(&made->memory, CODE + layout->code_lines, LINES);
	made_write(&made->memory, CODE + layout->code_first_line, &first_line, sizeof(first_line));
	make_text(made, FILE_NAME, "/job/train.py", 1, true);
	make_text(made, FUNCTION_NAME, "train", 2, false);
	made_write_word(&made->memory, LINES + PYTHON_BYTES_LENGTH,
		layout->lines == PYTHON_LINES_LOCATIONS ? sizeof(locations) : sizeof(table));
	made_write(&made->memory, LINES + PYTHON_BYTES_CONTENT,
		layout->lines == PYTHON_LINES_LOCATIONS ? locations
		: layout->lines == PYTHON_LINES_LNOTAB	? lnotab
							: table,
		layout->lines == PYTHON_LINES_LOCATIONS ? sizeof(locations) : sizeof(table));
	return made;
}

#endif
