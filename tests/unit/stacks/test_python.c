/* SPDX-License-Identifier: Apache-2.0 */
/* An interpreter's structures in memory that is made, of each version of the table, and what is wrong with them. */
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

#include "probe/stacks/python.h"
#include "tests/unit/stacks/made_python.h"

static int open_made(struct made_python *made, struct python *python, char *reason)
{
	uint64_t version = made->layout->minor >= 11
				   ? UINT64_C(3) << 24 | (uint64_t)made->layout->minor << 16
				   : 0;

	return python_open(&made->view, RUNTIME, version, made->name, made_tids, 2, python, reason);
}

static void test_versions(void **state)
{
	char reason[PYTHON_REASON_LENGTH];

	(void)state;
	for (unsigned minor = 9; minor <= 12; minor++) {
		struct made_python *made = make_python(minor);
		struct python_frame frames[PYTHON_FRAMES_MAX];
		struct python_thread threads[4];
		struct python_code code;
		struct python python;
		size_t count;
		bool complete;

		assert_int_equal(open_made(made, &python, reason), 0);
		assert_int_equal(python.tid_at, TID_AT);
		assert_int_equal(python_threads(&made->view, &python, threads, 4, &count), 0);
		assert_int_equal(count, 2);
		assert_int_equal(threads[0].tid, 4711);
		assert_int_equal(threads[1].tid, 4712);
		assert_int_equal(python_frames(&made->view, &python, threads[0].state, frames,
					 PYTHON_FRAMES_MAX, &count, &complete),
			0);
		assert_int_equal(count, FRAMES);
		assert_true(complete);
		assert_int_equal(python_code_read(&made->view, &python, frames[0].code, &code), 0);
		assert_string_equal(code.file, "/job/train.py");
		assert_string_equal(code.name, "train");
		for (int i = 0; i < FRAMES; i++) {
			assert_int_equal(frames[i].instruction, 2 * i + 2);
			assert_int_equal(python_code_line(&made->view, &python, &code,
						 frames[i].instruction),
				12 + i);
		}
		if (made->layout->entry == PYTHON_ENTRY_FLAG)
			assert_true(!frames[0].is_entry && frames[FRAMES - 1].is_entry);
		free(made);
	}
}

/* From 3.12 on a frame of the C stack stands for a call: it is none, and the one before it was entered from C. */
static void test_shim(void **state)
{
	struct made_python *made = make_python(12);
	struct python_frame frames[PYTHON_FRAMES_MAX];
	struct python python;
	char reason[PYTHON_REASON_LENGTH];
	size_t count;
	bool complete;

	(void)state;
	made_write(&made->memory, FRAME + FRAME_STEP + made->layout->frame_owner,
		&(uint8_t){PYTHON_OWNER_SHIM}, 1);
	made_write_word(&made->memory, FRAME + FRAME_STEP + made->layout->frame_code, 1);
	assert_int_equal(open_made(made, &python, reason), 0);
	assert_int_equal(python_frames(&made->view, &python, THREAD, frames, PYTHON_FRAMES_MAX,
				 &count, &complete),
		0);
	assert_int_equal(count, FRAMES - 1);
	assert_true(frames[0].is_entry && !frames[1].is_entry);
	assert_int_equal(frames[0].entered_at, FRAME + FRAME_STEP);
	free(made);
}

/* What makes a version, a list or an object wrong: opening refuses it, and says why. */
static void test_refused(void **state)
{
	static const struct {
		uint64_t address, word;
		const char *reason;
	} wrong[] = {
		{RUNTIME + 40, 0, "no thread"},
		{RUNTIME + 40, 0xdead0000, "lists of threads"},
		{INTERPRETER, INTERPRETER, "lists of threads"}, /* a circle of interpreters */
		{THREAD + THREAD_STEP + 8, THREAD, "lists of threads"}, /* one of threads */
		{PTHREAD + TID_AT, 99, "not those of the process"},
		{PTHREAD + PTHREAD_STEP + TID_AT, 4711, "not those of the process"}, /* twice */
		{FRAME + 2 * FRAME_STEP + 48, FRAME, "frames"},			     /* a circle */
		{FRAME + 32, 0, "frames"},
		{FRAME + 56, 0xffffffffffff, "frames"},
		{CODE + PYTHON_OBJECT_TYPE, INTERPRETER, "code objects"},
		{TYPE_NAME, 0x64, "code objects"},
		{CODE + 112, 0, "code objects"},
		{FUNCTION_NAME + PYTHON_TEXT_STATE, 0, "code objects"},
		{FUNCTION_NAME + PYTHON_TEXT_LENGTH, UINT64_MAX, "code objects"},
		{CFRAME + 8, 0, "no thread is in Python code"},
	};
	char reason[PYTHON_REASON_LENGTH];
	struct python python;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct made_python *made = make_python(11);

		made_write_word(&made->memory, wrong[i].address, wrong[i].word);
		assert_int_equal(open_made(made, &python, reason), -ENOTSUP);
		if (!strstr(reason, wrong[i].reason))
			fail_msg("%zu: %s", i, reason);
		free(made);
	}
}

static void test_unknown_versions(void **state)
{
	struct made_python *made = make_python(11);
	char reason[PYTHON_REASON_LENGTH];
	struct python python;

	(void)state;
	assert_int_equal(python_open(&made->view, RUNTIME, UINT64_C(3) << 24 | 8 << 16, "/bin/app",
				 made_tids, 2, &python, reason),
		-ENOTSUP);
	assert_non_null(strstr(reason, "3.8 is not known"));
	assert_int_equal(python_open(&made->view, RUNTIME, UINT64_C(4) << 24 | 11 << 16, "/bin/app",
				 made_tids, 2, &python, reason),
		-ENOTSUP);
	assert_int_equal(
		python_open(&made->view, RUNTIME, 0, "/bin/app", made_tids, 2, &python, reason),
		-ENOTSUP);
	assert_non_null(strstr(reason, "version"));
	/* Another version's structures. */
	assert_int_equal(python_open(&made->view, RUNTIME, 0, "/usr/lib/libpython3.9.so.1.0",
				 made_tids, 2, &python, reason),
		-ENOTSUP);
	free(made);
}

/* More frames than there is room for: the innermost are told, and that there are more. */
static void test_deep(void **state)
{
	struct made_python *made = make_python(11);
	struct python_frame frames[2];
	struct python python;
	char reason[PYTHON_REASON_LENGTH];
	size_t count;
	bool complete = true;

	(void)state;
	assert_int_equal(open_made(made, &python, reason), 0);
	assert_int_equal(
		python_frames(&made->view, &python, THREAD, frames, 2, &count, &complete), 0);
	assert_int_equal(count, 2);
	assert_false(complete);
	free(made);
}

/* The interpreter's own table of 3.13 (71 words) and 3.14 (81); words are their own numbers where nothing else is said. */
static void make_own(uint8_t bytes[PYTHON_DEBUG_OFFSETS_BYTES], unsigned minor)
{
	unsigned last = minor == 13 ? 70 : 80, bytes_at = minor == 13 ? 65 : 75;
	uint64_t words[PYTHON_DEBUG_OFFSETS_BYTES / sizeof(uint64_t)];

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		words[i] = i;
	memcpy(words, "xdebugpy", 8);
	words[1] = UINT64_C(3) << 24 | (uint64_t)minor << 16 | 0xf0;
	words[2] = 0;
	words[minor == 13 ? 45 : 51] = PYTHON_OBJECT_TYPE;
	words[bytes_at] = PYTHON_BYTES_LENGTH;
	words[bytes_at + 1] = PYTHON_BYTES_CONTENT;
	words[last - 2] = PYTHON_TEXT_STATE;
	words[last - 1] = PYTHON_TEXT_LENGTH;
	memcpy(bytes, words, sizeof(words));
}

static void test_own_table(void **state)
{
	uint8_t bytes[PYTHON_DEBUG_OFFSETS_BYTES];
	struct python_layout layout;

	(void)state;
	for (unsigned minor = 13; minor <= 14; minor++) {
		make_own(bytes, minor);
		assert_int_equal(python_layout_read_own(bytes, sizeof(bytes), &layout), 0);
		assert_int_equal(layout.minor, minor);
		assert_int_equal(layout.interpreters_head, 5);
		assert_int_equal(layout.thread_frame, minor == 13 ? 23 : 26);
		assert_int_equal(layout.code_name, minor == 13 ? 37 : 42);
		assert_int_equal(layout.text_compact_bytes, (minor == 13 ? 70 : 80) + 16);
		assert_int_equal(python_layout_read_own(bytes, 71 * 8 - 1, &layout), -ENOTSUP);
		bytes[16] = 1; /* free threading */
		assert_int_equal(python_layout_read_own(bytes, sizeof(bytes), &layout), -ENOTSUP);
		make_own(bytes, minor);
		memset(bytes + 9 * 8, 0xff, 8); /* an offset that cannot be */
		assert_int_equal(python_layout_read_own(bytes, sizeof(bytes), &layout), -EINVAL);
		make_own(bytes, minor);
		bytes[0] = 'y';
		assert_int_equal(python_layout_read_own(bytes, sizeof(bytes), &layout), -EINVAL);
	}
	make_own(bytes, 15);
	assert_int_equal(python_layout_read_own(bytes, sizeof(bytes), &layout), -ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_shim),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_unknown_versions),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_own_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
