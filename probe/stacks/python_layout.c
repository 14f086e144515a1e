/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stacks/python_layout.h"

#include <errno.h>
#include <string.h>

static const struct python_layout layouts[] = {
	{.minor = 9,
		.interpreters_head = 32,
		.interpreter_next = 0,
		.threads_head = 8,
		.thread_next = 8,
		.thread_frame = 24,
		.thread_cframe = PYTHON_ABSENT,
		.cframe_frame = PYTHON_ABSENT,
		.thread_id = 176,
		.frame_previous = 24,
		.frame_code = 32,
		.frame_instruction = 104,
		.frame_owner = PYTHON_ABSENT,
		.frame_is_entry = PYTHON_ABSENT,
		.code_file = 104,
		.code_name = 112,
		.code_first_line = 40,
		.code_lines = 120,
		.code_instructions = PYTHON_ABSENT,
		.instruction_bytes = 1,
		.type_name = 24,
		.text_ascii_bytes = 48,
		.text_compact_bytes = 72,
		.lines = PYTHON_LINES_LNOTAB,
		.entry = PYTHON_ENTRY_ALL},
	{.minor = 10,
		.interpreters_head = 32,
		.interpreter_next = 0,
		.threads_head = 8,
		.thread_next = 8,
		.thread_frame = 24,
		.thread_cframe = PYTHON_ABSENT,
		.cframe_frame = PYTHON_ABSENT,
		.thread_id = 176,
		.frame_previous = 24,
		.frame_code = 32,
		.frame_instruction = 96,
		.frame_owner = PYTHON_ABSENT,
		.frame_is_entry = PYTHON_ABSENT,
		.code_file = 104,
		.code_name = 112,
		.code_first_line = 40,
		.code_lines = 120,
		.code_instructions = PYTHON_ABSENT,
		.instruction_bytes = 2,
		.type_name = 24,
		.text_ascii_bytes = 48,
		.text_compact_bytes = 72,
		.lines = PYTHON_LINES_LINETABLE,
		.entry = PYTHON_ENTRY_ALL},
	{.minor = 11,
		.interpreters_head = 40,
		.interpreter_next = 0,
		.threads_head = 16,
		.thread_next = 8,
		.thread_frame = PYTHON_ABSENT,
		.thread_cframe = 56,
		.cframe_frame = 8,
		.thread_id = 152,
		.frame_previous = 48,
		.frame_code = 32,
		.frame_instruction = 56,
		.frame_owner = 69,
		.frame_is_entry = 68,
		.code_file = 112,
		.code_name = 128,
		.code_first_line = 72,
		.code_lines = 136,
		.code_instructions = 184,
		.instruction_bytes = 1,
		.type_name = 24,
		.text_ascii_bytes = 48,
		.text_compact_bytes = 72,
		.lines = PYTHON_LINES_LOCATIONS,
		.entry = PYTHON_ENTRY_FLAG},
	{.minor = 12,
		.interpreters_head = 40,
		.interpreter_next = 0,
		.threads_head = 72,
		.thread_next = 8,
		.thread_frame = PYTHON_ABSENT,
		.thread_cframe = 56,
		.cframe_frame = 0,
		.thread_id = 136,
		.frame_previous = 8,
		.frame_code = 0,
		.frame_instruction = 56,
		.frame_owner = 70,
		.frame_is_entry = PYTHON_ABSENT,
		.code_file = 112,
		.code_name = 128,
		.code_first_line = 68,
		.code_lines = 136,
		.code_instructions = 192,
		.instruction_bytes = 1,
		.type_name = 24,
		.text_ascii_bytes = 40,
		.text_compact_bytes = 56,
		.lines = PYTHON_LINES_LOCATIONS,
		.entry = PYTHON_ENTRY_SHIM},
};

const struct python_layout *python_layout_of(unsigned minor)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (layouts[i].minor == minor)
			return &layouts[i];
	}
	return NULL;
}

/* Which word of the interpreter's own table (_Py_DebugOffsets) has what; new versions put fields between. */
struct own_table {
	unsigned minor;
	unsigned words;
	unsigned char interpreters_head, interpreter_next, threads_head, thread_next, thread_frame,
		thread_id, frame_previous, frame_code, frame_instruction, frame_owner, code_file,
		code_name, code_lines, code_first_line, code_instructions, object_type, type_name,
		bytes_length, bytes_content, text_state, text_length, text_ascii_bytes;
};

static const struct own_table own_tables[] = {
	{13, 71, 5, 8, 9, 21, 23, 24, 29, 30, 31, 33, 35, 37, 38, 39, 43, 45, 47, 65, 66, 68, 69,
		70},
	{14, 81, 5, 8, 9, 24, 26, 27, 32, 33, 34, 36, 40, 42, 43, 44, 48, 51, 53, 75, 76, 78, 79,
		80},
};

enum {
	VERSION_WORD = 1,
	FREE_THREADED_WORD = 2,
	OFFSET_MAX = 32768, /* PyInterpreterState is the largest, and its lists come first */
};

static const char cookie[] = "xdebugpy";

bool python_layout_has_own(const uint8_t *bytes, size_t length)
{
	return length >= sizeof(cookie) - 1 && memcmp(bytes, cookie, sizeof(cookie) - 1) == 0;
}

static uint64_t word_at(const uint8_t *bytes, unsigned index)
{
	uint64_t word;

	memcpy(&word, bytes + index * sizeof(word), sizeof(word));
	return word;
}

static const struct own_table *find_table(const uint8_t *bytes, size_t length)
{
	uint64_t version = word_at(bytes, VERSION_WORD); /* PY_VERSION_HEX */

	for (size_t i = 0; i < sizeof(own_tables) / sizeof(own_tables[0]); i++) {
		if (version >> 24 == 3 && (version >> 16 & 0xff) == own_tables[i].minor &&
			length >= own_tables[i].words * sizeof(uint64_t))
			return &own_tables[i];
	}
	return NULL;
}

int python_layout_read_own(const uint8_t *bytes, size_t length, struct python_layout *layout)
{
	const struct own_table *own;

	if (length < (FREE_THREADED_WORD + 1) * sizeof(uint64_t) ||
		!python_layout_has_own(bytes, length))
		return -EINVAL;
	own = find_table(bytes, length);
	if (!own || word_at(bytes, FREE_THREADED_WORD))
		return -ENOTSUP;
	for (unsigned i = FREE_THREADED_WORD + 1; i < own->words; i++) {
		/* Sizes of structures may be larger; they are not asked for. */
		if (word_at(bytes, i) > UINT32_MAX)
			return -EINVAL;
	}
	if (word_at(bytes, own->object_type) != PYTHON_OBJECT_TYPE ||
		word_at(bytes, own->bytes_length) != PYTHON_BYTES_LENGTH ||
		word_at(bytes, own->bytes_content) != PYTHON_BYTES_CONTENT ||
		word_at(bytes, own->text_state) != PYTHON_TEXT_STATE ||
		word_at(bytes, own->text_length) != PYTHON_TEXT_LENGTH)
		return -ENOTSUP;
#define OFFSET(name) .name = (uint16_t)word_at(bytes, own->name)
	const struct python_layout read = {.minor = (uint16_t)own->minor,
		OFFSET(interpreters_head),
		OFFSET(interpreter_next),
		OFFSET(threads_head),
		OFFSET(thread_next),
		OFFSET(thread_frame),
		.thread_cframe = PYTHON_ABSENT,
		.cframe_frame = PYTHON_ABSENT,
		OFFSET(thread_id),
		OFFSET(frame_previous),
		OFFSET(frame_code),
		OFFSET(frame_instruction),
		OFFSET(frame_owner),
		.frame_is_entry = PYTHON_ABSENT,
		OFFSET(code_file),
		OFFSET(code_name),
		OFFSET(code_first_line),
		OFFSET(code_lines),
		OFFSET(code_instructions),
		.instruction_bytes = 1,
		OFFSET(type_name),
		OFFSET(text_ascii_bytes),
		.text_compact_bytes =
			(uint16_t)(word_at(bytes, own->text_ascii_bytes) + 2 * sizeof(uint64_t)),
		.lines = PYTHON_LINES_LOCATIONS,
		.entry = PYTHON_ENTRY_SHIM};
#undef OFFSET
	/* Those that are followed; each is below the largest structure. */
	const unsigned char used[] = {own->interpreters_head, own->interpreter_next,
		own->threads_head, own->thread_next, own->thread_frame, own->thread_id,
		own->frame_previous, own->frame_code, own->frame_instruction, own->frame_owner,
		own->code_file, own->code_name, own->code_lines, own->code_first_line,
		own->code_instructions, own->type_name, own->text_ascii_bytes};

	for (size_t i = 0; i < sizeof(used); i++) {
		if (word_at(bytes, used[i]) > OFFSET_MAX)
			return -EINVAL;
	}
	*layout = read;
	return 0;
}
