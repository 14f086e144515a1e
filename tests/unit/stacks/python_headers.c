/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe/stacks/python_layout.c against the headers of CPython that this is built with: says which offset differs, and
 * ends with 1 then. From 3.13 on: what is read of the interpreter's own table against the headers. Built by
 * scripts/check_python_headers.sh, with the folder of Python.h.
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "internal/pycore_runtime.h"
/* Each needs what is before it. */
#include "internal/pycore_interp.h"
#if PY_VERSION_HEX >= 0x030e0000
#include "internal/pycore_debug_offsets.h"
#include "internal/pycore_interpframe.h"
#include "internal/pycore_interpframe_structs.h"
#elif PY_VERSION_HEX >= 0x030b0000
#include "internal/pycore_frame.h"
#else
#include <frameobject.h>
#endif

#include "probe/stacks/python_layout.h"

static int differences;

static void compare(const char *name, size_t here, size_t header)
{
	if (here == header)
		return;
	printf("Python %s: %s is %zu, not %zu\n", PY_VERSION, name, header, here);
	differences++;
}

#define SAME(field, type, member) compare(#field, layout->field, offsetof(type, member))
#define ABSENT(field) compare(#field, layout->field, PYTHON_ABSENT)

static void compare_frames(const struct python_layout *layout)
{
#if PY_VERSION_HEX < 0x030b0000
	SAME(threads_head, PyInterpreterState, tstate_head);
	SAME(thread_frame, PyThreadState, frame);
	SAME(frame_previous, PyFrameObject, f_back);
	SAME(frame_code, PyFrameObject, f_code);
	SAME(frame_instruction, PyFrameObject, f_lasti);
	SAME(code_name, PyCodeObject, co_name);
	ABSENT(code_instructions);
	compare("entry", layout->entry, PYTHON_ENTRY_ALL);
#if PY_VERSION_HEX < 0x030a0000
	SAME(code_lines, PyCodeObject, co_lnotab);
#else
	SAME(code_lines, PyCodeObject, co_linetable);
#endif
#else
	SAME(threads_head, PyInterpreterState, threads.head);
	SAME(frame_previous, struct _PyInterpreterFrame, previous);
	SAME(frame_owner, struct _PyInterpreterFrame, owner);
	SAME(code_name, PyCodeObject, co_qualname);
	SAME(code_lines, PyCodeObject, co_linetable);
	SAME(code_instructions, PyCodeObject, co_code_adaptive);
#if PY_VERSION_HEX >= 0x030d0000
	SAME(thread_frame, PyThreadState, current_frame);
	SAME(frame_code, struct _PyInterpreterFrame, f_executable);
	SAME(frame_instruction, struct _PyInterpreterFrame, instr_ptr);
#else
	SAME(thread_cframe, PyThreadState, cframe);
	SAME(cframe_frame, _PyCFrame, current_frame);
	SAME(frame_code, struct _PyInterpreterFrame, f_code);
	SAME(frame_instruction, struct _PyInterpreterFrame, prev_instr);
#endif
#if PY_VERSION_HEX < 0x030c0000
	SAME(frame_is_entry, struct _PyInterpreterFrame, is_entry);
	compare("entry", layout->entry, PYTHON_ENTRY_FLAG);
#else
	compare("entry", layout->entry, PYTHON_ENTRY_SHIM);
#if PY_VERSION_HEX >= 0x030e0000
	compare("PYTHON_OWNER_SHIM", PYTHON_OWNER_SHIM, FRAME_OWNED_BY_INTERPRETER);
#else
	compare("PYTHON_OWNER_SHIM", PYTHON_OWNER_SHIM, FRAME_OWNED_BY_CSTACK);
#endif
#endif
#endif
}

static void compare_all(const struct python_layout *layout)
{
	SAME(interpreters_head, _PyRuntimeState, interpreters.head);
	SAME(interpreter_next, PyInterpreterState, next);
	SAME(thread_next, PyThreadState, next);
	SAME(thread_id, PyThreadState, thread_id);
	SAME(code_file, PyCodeObject, co_filename);
	SAME(code_first_line, PyCodeObject, co_firstlineno);
	SAME(type_name, PyTypeObject, tp_name);
	compare("text_ascii_bytes", layout->text_ascii_bytes, sizeof(PyASCIIObject));
	compare("text_compact_bytes", layout->text_compact_bytes, sizeof(PyCompactUnicodeObject));
	compare("PYTHON_OBJECT_TYPE", PYTHON_OBJECT_TYPE, offsetof(PyObject, ob_type));
	compare("PYTHON_BYTES_LENGTH", PYTHON_BYTES_LENGTH, offsetof(PyVarObject, ob_size));
	compare("PYTHON_BYTES_CONTENT", PYTHON_BYTES_CONTENT, offsetof(PyBytesObject, ob_sval));
	compare("PYTHON_TEXT_LENGTH", PYTHON_TEXT_LENGTH, offsetof(PyASCIIObject, length));
	compare("PYTHON_TEXT_STATE", PYTHON_TEXT_STATE, offsetof(PyASCIIObject, state));
	compare_frames(layout);
}

#if PY_VERSION_HEX >= 0x030d0000
/* The table as the interpreter fills it in: what is read of it. */
static const _Py_DebugOffsets own = {.cookie = "xdebugpy",
	.version = PY_VERSION_HEX,
	.runtime_state.interpreters_head = offsetof(_PyRuntimeState, interpreters.head),
	.interpreter_state.next = offsetof(PyInterpreterState, next),
	.interpreter_state.threads_head = offsetof(PyInterpreterState, threads.head),
	.thread_state.next = offsetof(PyThreadState, next),
	.thread_state.current_frame = offsetof(PyThreadState, current_frame),
	.thread_state.thread_id = offsetof(PyThreadState, thread_id),
	.interpreter_frame.previous = offsetof(_PyInterpreterFrame, previous),
	.interpreter_frame.executable = offsetof(_PyInterpreterFrame, f_executable),
	.interpreter_frame.instr_ptr = offsetof(_PyInterpreterFrame, instr_ptr),
	.interpreter_frame.owner = offsetof(_PyInterpreterFrame, owner),
	.code_object.filename = offsetof(PyCodeObject, co_filename),
	.code_object.qualname = offsetof(PyCodeObject, co_qualname),
	.code_object.linetable = offsetof(PyCodeObject, co_linetable),
	.code_object.firstlineno = offsetof(PyCodeObject, co_firstlineno),
	.code_object.co_code_adaptive = offsetof(PyCodeObject, co_code_adaptive),
	.pyobject.ob_type = offsetof(PyObject, ob_type),
	.type_object.tp_name = offsetof(PyTypeObject, tp_name),
	.bytes_object.ob_size = offsetof(PyVarObject, ob_size),
	.bytes_object.ob_sval = offsetof(PyBytesObject, ob_sval),
	.unicode_object.state = offsetof(PyASCIIObject, state),
	.unicode_object.length = offsetof(PyASCIIObject, length),
	.unicode_object.asciiobject_size = sizeof(PyASCIIObject)};
#endif

int main(void)
{
	const struct python_layout *layout = python_layout_of(PY_MINOR_VERSION);

#if PY_VERSION_HEX >= 0x030d0000
	static uint8_t bytes[PYTHON_DEBUG_OFFSETS_BYTES];
	struct python_layout read;

	memcpy(bytes, &own, sizeof(own) < sizeof(bytes) ? sizeof(own) : sizeof(bytes));
	if (python_layout_read_own(bytes, sizeof(bytes), &read) == 0)
		layout = &read;
#endif
	if (!layout) {
		printf("Python %s: not known\n", PY_VERSION);
		return 1;
	}
	compare_all(layout);
	printf("Python %s: %s\n", PY_VERSION, differences ? "differs" : "the same");
	return differences != 0;
}
