/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the fields lie in CPython's structures, by version: 3.9 to 3.12 from a table (scripts/check_python_headers.sh
 * compares it with the headers), from 3.13 on from what the interpreter itself has at the begin of _PyRuntime for this
 * purpose. Pure.
 */
#ifndef SLOWRANK_PROBE_STACKS_PYTHON_LAYOUT_H
#define SLOWRANK_PROBE_STACKS_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a code object maps instructions to lines. */
enum python_lines_format {
	PYTHON_LINES_NONE = 0,
	PYTHON_LINES_LNOTAB = 1,    /* 3.9 */
	PYTHON_LINES_LINETABLE = 2, /* 3.10: PEP 626 */
	PYTHON_LINES_LOCATIONS = 3, /* 3.11: PEP 657 */
};

/* Which frames were entered from C, by a call of _PyEval_EvalFrameDefault() of their own. */
enum python_entry_rule {
	PYTHON_ENTRY_NONE = 0,
	PYTHON_ENTRY_ALL = 1,  /* up to 3.10 */
	PYTHON_ENTRY_FLAG = 2, /* 3.11: those with is_entry */
	PYTHON_ENTRY_SHIM = 3, /* 3.12: those before a frame of the C stack */
};

enum { PYTHON_ABSENT = 0xffff };

/* Offsets in bytes; PYTHON_ABSENT where a version has no such field. */
struct python_layout {
	uint16_t minor;		    /* 3.minor */
	uint16_t interpreters_head; /* _PyRuntimeState */
	uint16_t interpreter_next;  /* PyInterpreterState */
	uint16_t threads_head;
	uint16_t thread_next; /* PyThreadState */
	uint16_t thread_frame;
	uint16_t thread_cframe; /* where the frame lies behind a pointer: _PyCFrame */
	uint16_t cframe_frame;
	uint16_t thread_id;	 /* pthread_self() */
	uint16_t frame_previous; /* PyFrameObject, or _PyInterpreterFrame */
	uint16_t frame_code;
	uint16_t
		frame_instruction; /* a pointer, or an int where it counts from the begin of the code */
	uint16_t frame_owner;
	uint16_t frame_is_entry;
	uint16_t code_file; /* PyCodeObject */
	uint16_t code_name;
	uint16_t code_first_line;
	uint16_t code_lines;
	uint16_t code_instructions; /* the instructions themselves; absent: the frame counts */
	uint16_t instruction_bytes; /* what a frame counts in */
	uint16_t type_name;	    /* PyTypeObject */
	uint16_t text_ascii_bytes;  /* sizeof(PyASCIIObject) and sizeof(PyCompactUnicodeObject) */
	uint16_t text_compact_bytes;
	enum python_lines_format lines;
	enum python_entry_rule entry;
};

/* In every version; asserted by the same script. */
enum {
	PYTHON_OBJECT_TYPE = 8,
	PYTHON_BYTES_LENGTH = 16,
	PYTHON_BYTES_CONTENT = 32,
	PYTHON_TEXT_LENGTH = 16,
	PYTHON_TEXT_STATE = 32,
	PYTHON_OWNER_SHIM = 3, /* FRAME_OWNED_BY_CSTACK; FRAME_OWNED_BY_INTERPRETER in 3.14 */
};

enum { PYTHON_DEBUG_OFFSETS_BYTES = 704 }; /* the table of 3.14 up to what is read, rounded up */

/* The row of a version without such a table; NULL for any other. */
const struct python_layout *python_layout_of(unsigned minor);

/* True when bytes begin as the interpreter's own table does. */
bool python_layout_has_own(const uint8_t *bytes, size_t length);

/*
 * Reads the interpreter's own table. Returns 0, -ENOTSUP for a version or a build whose table is not known (another
 * minor version than 3.13, free threading), or -EINVAL when the offsets cannot be.
 */
int python_layout_read_own(const uint8_t *bytes, size_t length, struct python_layout *layout)
	__attribute__((warn_unused_result));

#endif
