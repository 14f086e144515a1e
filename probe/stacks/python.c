/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stacks/python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/stacks/python_lines.h"

enum {
	OPEN_ATTEMPTS = 16, /* the interpreter runs while it is checked */
	/* The number lies behind 720 bytes in glibc for x86-64, 208 for arm64, 48 in musl. */
	PTHREAD_BYTES = 1024,
	LINES_BYTES_MAX = 65536,
	POINTER_TAG = 7, /* 3.14 keeps marks in the low bits of a frame's code */
};

static bool read_word(struct memory_view *memory, uint64_t address, uint64_t *word)
{
	return memory_view_read(memory, address, word, sizeof(*word)) == 0;
}

/* Walks all interpreters' lists of threads; takes thread states only. */
static int read_thread_states(struct memory_view *memory, const struct python *python,
	struct python_thread *threads, size_t capacity, size_t *count)
{
	const struct python_layout *layout = &python->layout;
	uint64_t interpreter, state;
	size_t found = 0;

	if (!read_word(memory, python->runtime + layout->interpreters_head, &interpreter))
		return -EAGAIN;
	for (unsigned i = 0; interpreter; i++) {
		if (i == PYTHON_INTERPRETERS_MAX ||
			!read_word(memory, interpreter + layout->threads_head, &state))
			return -EAGAIN;
		/* What does not fit may be a circle: the caller cannot tell. */
		for (; state; found++) {
			if (found == capacity)
				return -EAGAIN;
			threads[found] = (struct python_thread){.state = state};
			if (!read_word(memory, state + layout->thread_next, &state))
				return -EAGAIN;
		}
		if (!read_word(memory, interpreter + layout->interpreter_next, &interpreter))
			return -EAGAIN;
	}
	*count = found;
	return 0;
}

int python_threads(struct memory_view *memory, const struct python *python,
	struct python_thread *threads, size_t capacity, size_t *count)
{
	size_t found;
	int error = read_thread_states(memory, python, threads, capacity, &found);

	if (error)
		return error;
	*count = 0;
	for (size_t i = 0; i < found; i++) {
		uint64_t handle;
		uint32_t tid;

		/* A thread of C's that has ended may leave its state behind. */
		if (!read_word(memory, threads[i].state + python->layout.thread_id, &handle) ||
			memory_view_read(memory, handle + python->tid_at, &tid, sizeof(tid)))
			continue;
		threads[*count].state = threads[i].state;
		threads[(*count)++].tid = (pid_t)tid;
	}
	return 0;
}

static bool read_instruction(struct memory_view *memory, const struct python_layout *layout,
	uint64_t at, struct python_frame *frame)
{
	uint64_t pointer;
	int32_t index;

	if (layout->code_instructions == PYTHON_ABSENT) {
		if (memory_view_read(memory, at + layout->frame_instruction, &index, sizeof(index)))
			return false;
		frame->instruction = (int64_t)index * layout->instruction_bytes;
		return true;
	}
	if (!read_word(memory, at + layout->frame_instruction, &pointer))
		return false;
	frame->instruction = (int64_t)(pointer - frame->code - layout->code_instructions);
	return frame->instruction <= INT32_MAX && frame->instruction >= INT32_MIN;
}

/* One frame of those in the chain; *is_shim: it stands for a call of C's, and is none. */
static bool read_frame(struct memory_view *memory, const struct python_layout *layout, uint64_t at,
	struct python_frame *frame, bool *is_shim)
{
	uint8_t owner = 0, is_entry = 0;

	if (layout->entry == PYTHON_ENTRY_SHIM &&
		memory_view_read(memory, at + layout->frame_owner, &owner, 1))
		return false;
	*is_shim = layout->entry == PYTHON_ENTRY_SHIM && owner == PYTHON_OWNER_SHIM;
	if (*is_shim)
		return true;
	if (layout->entry == PYTHON_ENTRY_FLAG &&
		memory_view_read(memory, at + layout->frame_is_entry, &is_entry, 1))
		return false;
	if (owner > PYTHON_OWNER_SHIM || is_entry > 1 ||
		!read_word(memory, at + layout->frame_code, &frame->code))
		return false;
	frame->code &= ~(uint64_t)POINTER_TAG;
	frame->is_entry = layout->entry == PYTHON_ENTRY_ALL || is_entry;
	frame->entered_at = 0;
	return frame->code && read_instruction(memory, layout, at, frame);
}

static bool first_frame(struct memory_view *memory, const struct python_layout *layout,
	uint64_t state, uint64_t *frame)
{
	if (layout->thread_cframe == PYTHON_ABSENT)
		return read_word(memory, state + layout->thread_frame, frame);
	if (!read_word(memory, state + layout->thread_cframe, frame))
		return false;
	return *frame == 0 || read_word(memory, *frame + layout->cframe_frame, frame);
}

int python_frames(struct memory_view *memory, const struct python *python, uint64_t thread_state,
	struct python_frame *frames, size_t capacity, size_t *count, bool *complete)
{
	const struct python_layout *layout = &python->layout;
	uint64_t at, mark = 0; /* a frame that was passed: who meets it again goes in a circle */
	size_t found = 0;

	if (!first_frame(memory, layout, thread_state, &at))
		return -EAGAIN;
	/* Shims are no more than frames. */
	for (size_t passed = 0; at; passed++) {
		bool is_shim;

		if (at == mark)
			return -EAGAIN;
		if ((passed & (passed - 1)) == 0)
			mark = at;
		if (found == capacity || passed == 2 * capacity) {
			*count = found;
			*complete = false;
			return 0;
		}
		if (!read_frame(memory, layout, at, &frames[found], &is_shim))
			return -EAGAIN;
		if (!is_shim) {
			found++;
		} else if (found && !frames[found - 1].is_entry) {
			frames[found - 1].is_entry = true;
			frames[found - 1].entered_at = at;
		}
		if (!read_word(memory, at + layout->frame_previous, &at))
			return -EAGAIN;
	}
	*count = found;
	*complete = true;
	return 0;
}

enum {
	TEXT_KIND_SHIFT = 2,
	TEXT_KIND_MASK = 7,
	TEXT_COMPACT = 1 << 5,
	TEXT_ASCII = 1 << 6,
};

static size_t put_utf8(uint32_t c, char *out)
{
	if (c < 0x20 || c == 0x7f || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		c = '?';
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* A str; of a longer one its begin, or its end (of paths, what tells files apart). */
static bool read_text(struct memory_view *memory, const struct python_layout *layout,
	uint64_t address, bool of_end, char text[PYTHON_TEXT_LENGTH_MAX])
{
	uint64_t length, first = 0, content;
	size_t used = 0;
	uint32_t state, kind;

	if (!read_word(memory, address + PYTHON_TEXT_LENGTH, &length) || length > INT32_MAX ||
		memory_view_read(memory, address + PYTHON_TEXT_STATE, &state, sizeof(state)))
		return false;
	kind = state >> TEXT_KIND_SHIFT & TEXT_KIND_MASK;
	if (!(state & TEXT_COMPACT) || (kind != 1 && kind != 2 && kind != 4) ||
		(state & TEXT_ASCII && kind != 1))
		return false;
	if (of_end && length > PYTHON_TEXT_LENGTH_MAX - 1)
		first = length - (PYTHON_TEXT_LENGTH_MAX - 1);
	content = address +
		  (state & TEXT_ASCII ? layout->text_ascii_bytes : layout->text_compact_bytes);
	for (uint64_t i = first; i < length && used + 4 < PYTHON_TEXT_LENGTH_MAX; i++) {
		uint32_t c = 0; /* little-endian */

		if (memory_view_read(memory, content + i * kind, &c, kind))
			return false;
		used += put_utf8(c, text + used);
	}
	text[used] = '\0';
	return true;
}

static bool is_code(
	struct memory_view *memory, const struct python_layout *layout, uint64_t address)
{
	static const char wanted[] = "code";
	char name[sizeof(wanted)];
	uint64_t type, at;

	return read_word(memory, address + PYTHON_OBJECT_TYPE, &type) &&
	       read_word(memory, type + layout->type_name, &at) &&
	       memory_view_read(memory, at, name, sizeof(name)) == 0 &&
	       memcmp(name, wanted, sizeof(wanted)) == 0;
}

int python_code_read(struct memory_view *memory, const struct python *python, uint64_t address,
	struct python_code *code)
{
	const struct python_layout *layout = &python->layout;
	uint64_t file, name;

	if (!is_code(memory, layout, address) ||
		!read_word(memory, address + layout->code_file, &file) ||
		!read_word(memory, address + layout->code_name, &name) ||
		!read_word(memory, address + layout->code_lines, &code->lines) ||
		memory_view_read(memory, address + layout->code_first_line, &code->first_line,
			sizeof(code->first_line)) ||
		!read_text(memory, layout, file, true, code->file) ||
		!read_text(memory, layout, name, false, code->name))
		return -EAGAIN;
	return 0;
}

int32_t python_code_line(struct memory_view *memory, const struct python *python,
	const struct python_code *code, int64_t instruction)
{
	uint8_t table[LINES_BYTES_MAX];
	uint64_t length;

	if (!read_word(memory, code->lines + PYTHON_BYTES_LENGTH, &length))
		return 0;
	if (length > sizeof(table))
		length = sizeof(table);
	if (memory_view_read(memory, code->lines + PYTHON_BYTES_CONTENT, table, (size_t)length))
		return 0;
	return python_line(
		python->layout.lines, table, (size_t)length, code->first_line, instruction);
}

static int compare_tids(const void *a, const void *b)
{
	pid_t left = *(const pid_t *)a, right = *(const pid_t *)b;

	return (left > right) - (left < right);
}

/* Every thread has a number there that is a thread's of this process, each another one. */
static bool fits_tids(struct memory_view *memory, const struct python *python,
	const struct python_thread *threads, size_t count, const pid_t *tids, size_t tid_count)
{
	pid_t seen[PYTHON_THREADS_MAX];
	size_t seen_count = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t handle;
		uint32_t tid;

		if (!read_word(memory, threads[i].state + python->layout.thread_id, &handle) ||
			memory_view_read(memory, handle + python->tid_at, &tid, sizeof(tid)))
			continue;
		seen[seen_count] = (pid_t)tid;
		if (!bsearch(&seen[seen_count++], tids, tid_count, sizeof(*tids), compare_tids))
			return false;
	}
	qsort(seen, seen_count, sizeof(*seen), compare_tids);
	for (size_t i = 1; i < seen_count; i++) {
		if (seen[i] == seen[i - 1])
			return false;
	}
	return seen_count > 0;
}

static bool find_tids(struct memory_view *memory, struct python *python,
	const struct python_thread *threads, size_t count, const pid_t *tids, size_t tid_count)
{
	for (python->tid_at = 0; python->tid_at < PTHREAD_BYTES;
		python->tid_at += sizeof(uint32_t)) {
		if (fits_tids(memory, python, threads, count, tids, tid_count))
			return true;
	}
	return false;
}

/* All that reading relies on, at work. Returns NULL, or what does not hold. */
static const char *check(
	struct memory_view *memory, struct python *python, const pid_t *tids, size_t tid_count)
{
	struct python_thread threads[PYTHON_THREADS_MAX];
	struct python_frame frames[PYTHON_FRAMES_MAX];
	size_t count, frame_count, checked = 0;
	struct python_code code;
	bool complete;

	memory_view_forget(memory);
	if (read_thread_states(memory, python, threads, PYTHON_THREADS_MAX, &count))
		return "its lists of threads are not where they are expected";
	if (count == 0)
		return "the interpreter has no thread (yet)";
	if (!find_tids(memory, python, threads, count, tids, tid_count))
		return "its threads are not those of the process";
	for (size_t i = 0; i < count; i++) {
		if (python_frames(memory, python, threads[i].state, frames, PYTHON_FRAMES_MAX,
			    &frame_count, &complete))
			return "its frames are not where they are expected";
		for (size_t k = 0; k < frame_count; k++, checked++) {
			if (python_code_read(memory, python, frames[k].code, &code))
				return "its code objects are not as expected";
		}
	}
	return checked ? NULL : "no thread is in Python code, so nothing could be checked";
}

/* The version that a file's name tells: "libpython3.9.so.1.0", "python3.10". */
static unsigned minor_of_name(const char *path)
{
	static const char word[] = "python3.";
	const char *name = strrchr(path, '/'), *at;

	at = strstr(name ? name : path, word);
	return at ? (unsigned)strtoul(at + sizeof(word) - 1, NULL, 10) : 0;
}

static int find_layout(struct memory_view *memory, uint64_t runtime, uint64_t version,
	const char *name, struct python_layout *layout, char reason[PYTHON_REASON_LENGTH])
{
	unsigned minor = version ? (unsigned)(version >> 16 & 0xff) : minor_of_name(name);
	const struct python_layout *row =
		version == 0 || version >> 24 == 3 ? python_layout_of(minor) : NULL;
	uint8_t own[PYTHON_DEBUG_OFFSETS_BYTES];

	if (memory_view_read(memory, runtime, own, sizeof(own)) == 0 &&
		python_layout_has_own(own, sizeof(own))) {
		if (python_layout_read_own(own, sizeof(own), layout) == 0)
			return 0;
		snprintf(reason, PYTHON_REASON_LENGTH,
			"Python 3.%u, or this build of it (free threading), is not known", minor);
		return -ENOTSUP;
	}
	if (!row) {
		if (minor)
			snprintf(reason, PYTHON_REASON_LENGTH,
				"Python 3.%u is not known (3.9 to 3.14 are)", minor);
		else
			snprintf(reason, PYTHON_REASON_LENGTH,
				"its version of Python cannot be found out");
		return -ENOTSUP;
	}
	*layout = *row;
	return 0;
}

int python_open(struct memory_view *memory, uint64_t runtime, uint64_t version, const char *name,
	const pid_t *tids, size_t tid_count, struct python *python,
	char reason[PYTHON_REASON_LENGTH])
{
	struct python opened = {.runtime = runtime};
	const char *problem = NULL;
	int error = find_layout(memory, runtime, version, name, &opened.layout, reason);

	if (error)
		return error;
	for (unsigned attempt = 0; attempt < OPEN_ATTEMPTS; attempt++) {
		problem = check(memory, &opened, tids, tid_count);
		if (!problem) {
			*python = opened;
			return 0;
		}
	}
	snprintf(reason, PYTHON_REASON_LENGTH, "Python 3.%u: %s", opened.layout.minor, problem);
	return -ENOTSUP;
}
