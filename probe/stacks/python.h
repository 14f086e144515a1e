/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython in another process: finds it, checks that its structures lie where they are expected, and reads the frames of
 * its threads. The interpreter runs meanwhile: what is read may not fit together. Loops are bounded, and what cannot be
 * is told as torn. Nothing is allocated by reading; one thread.
 */
#ifndef SLOWRANK_PROBE_STACKS_PYTHON_H
#define SLOWRANK_PROBE_STACKS_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/stacks/memory_view.h"
#include "probe/stacks/python_layout.h"

enum {
	PYTHON_THREADS_MAX = 2048,
	PYTHON_FRAMES_MAX = 128,
	PYTHON_INTERPRETERS_MAX = 64,
	PYTHON_TEXT_LENGTH_MAX = 256, /* bytes of a name, in UTF-8, with a NUL */
	PYTHON_REASON_LENGTH = 160,
};

struct python {
	uint64_t runtime; /* of _PyRuntime */
	struct python_layout layout;
	uint32_t tid_at; /* where the C library has a thread's number, from pthread_self() on */
};

struct python_thread {
	uint64_t state; /* of its PyThreadState */
	pid_t tid;
};

struct python_frame {
	uint64_t code;
	int64_t instruction; /* bytes from the code's begin */
	bool is_entry;	     /* C called the interpreter for it */
	uint64_t
		entered_at; /* then, from 3.12 on: an address in the stack of the function that was called; else 0 */
};

/* What a code object says of itself. */
struct python_code {
	char file[PYTHON_TEXT_LENGTH_MAX];
	char name[PYTHON_TEXT_LENGTH_MAX];
	int32_t first_line;
	uint64_t lines; /* the bytes object that has the lines */
};

/*
 * runtime: the address of _PyRuntime; version: what Py_Version is (3.11 and later), or 0; name: of the file, which names the
 * version of others. tids: the threads of the process. Checks everything that reading relies on. Returns 0, or -ENOTSUP
 * with the reason.
 */
int python_open(struct memory_view *memory, uint64_t runtime, uint64_t version, const char *name,
	const pid_t *tids, size_t tid_count, struct python *python,
	char reason[PYTHON_REASON_LENGTH]) __attribute__((warn_unused_result));

/* The interpreter's threads. Returns 0, or -EAGAIN when the lists are torn. */
int python_threads(struct memory_view *memory, const struct python *python,
	struct python_thread *threads, size_t capacity, size_t *count)
	__attribute__((warn_unused_result));

/*
 * A thread's frames, the innermost first; *complete: false when there are more of them. Returns 0, or -EAGAIN when they
 * are torn.
 */
int python_frames(struct memory_view *memory, const struct python *python, uint64_t thread_state,
	struct python_frame *frames, size_t capacity, size_t *count, bool *complete)
	__attribute__((warn_unused_result));

/* Returns 0, or -EAGAIN when there is no code object (any more). */
int python_code_read(struct memory_view *memory, const struct python *python, uint64_t address,
	struct python_code *code) __attribute__((warn_unused_result));

/* The line of an instruction; 0 = unknown. */
int32_t python_code_line(struct memory_view *memory, const struct python *python,
	const struct python_code *code, int64_t instruction);

#endif
