/* SPDX-License-Identifier: Apache-2.0 */
/* What frames say of a stack: what it is for, and whose code it is. Pure; any thread. */
#ifndef SLOWRANK_ANALYSIS_EXPLAIN_STACK_FRAMES_H
#define SLOWRANK_ANALYSIS_EXPLAIN_STACK_FRAMES_H

#include <stdbool.h>

#include "analysis/explain/stack_profile.h"

enum stack_class {
	STACK_CLASS_NONE = 0,
	STACK_CLASS_CHECKPOINT,
	STACK_CLASS_LOGGING,
	STACK_CLASS_DATA_LOADER,
	STACK_CLASS_COPY,
	STACK_CLASS_ALLOCATOR,
	STACK_CLASS_LOCK,   /* it wants what another thread holds */
	STACK_CLASS_THREAD, /* it waits for what another thread does */
	STACK_CLASS_FILE,   /* by what it waits for alone */
	STACK_CLASS_WAIT,   /* for other ranks, or for the device: not its own time */
	STACK_CLASS_CODE,   /* on a CPU, and no frame says what for */
	STACK_CLASS_NR
};

/* By stack_frames.def; by_python: the innermost frame with a name above it is one of Python. */
enum stack_class stack_class_of(
	uint8_t kind, const char *function, const char *file, bool by_python);

/* The program's own code: of Python what is installed with no interpreter; else what is in no shared library. */
bool stack_frame_is_program(uint8_t kind, const char *function, const char *file);

/* The part of a path that says which file it is: "torch/serialization.py", "train.py". */
const char *stack_file_short(const char *file);

#endif
