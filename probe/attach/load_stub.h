/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine code that runs in the process while a library is loaded, and the block that it and
 * the loader share. The code is copied; it keeps no state of its own. x86-64.
 *
 * Each part needs no loader to come to its end: the stopped thread puts itself back by its frame
 * (load_frame.h) when it is not restored from outside, and the new thread ends.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LOAD_STUB_H
#define SLOWRANK_PROBE_ATTACH_LOAD_STUB_H

#include <stddef.h>
#include <stdint.h>

enum {
	LOAD_PATH_BYTES = 128,
	LOAD_NAME_BYTES = 64,
	LOAD_ERROR_BYTES = 256,
	/* The mapping: code, block, vector state, stack. */
	LOAD_PAGE_BYTES = 4096,
	LOAD_XSTATE_BYTES = 4 * LOAD_PAGE_BYTES, /* 11 KiB with AMX */
	LOAD_STACK_BYTES = 16 * LOAD_PAGE_BYTES,
	LOAD_BLOCK_OFFSET = LOAD_PAGE_BYTES,
	LOAD_XSTATE_OFFSET = 2 * LOAD_PAGE_BYTES,
	LOAD_STACK_OFFSET = LOAD_XSTATE_OFFSET + LOAD_XSTATE_BYTES,
	LOAD_MAPPING_BYTES = LOAD_STACK_OFFSET + LOAD_STACK_BYTES,
};

enum load_thread_state {
	LOAD_THREAD_NONE = 0,
	LOAD_THREAD_HAS_FILE = 1, /* memory_fd is set */
	LOAD_THREAD_ENDS = 2,	  /* all results are set */
};

enum load_stage { LOAD_STAGE_OPEN = 0, LOAD_STAGE_SYMBOL = 1, LOAD_STAGE_STARTED = 2 };

/* Whether the mapping goes with the new thread. It stays where the stopped one may come back to it. */
enum load_acknowledged { LOAD_ACKNOWLEDGED_UNMAP = 1, LOAD_ACKNOWLEDGED_KEEP = 2 };

enum load_go { LOAD_GO_WAIT = 0, LOAD_GO_OPEN = 1, LOAD_GO_END = 2 };

struct load_block {
	/* Functions of the process's C library. */
	uint64_t pthread_create, pthread_attr_init, pthread_attr_setdetachstate, errno_location;
	uint64_t dlopen, dlsym, dlerror, munmap;
	uint64_t mapping, mapping_bytes;
	uint32_t call_done;
	int32_t call_result; /* of pthread_create() */
	uint32_t thread_state;
	int32_t memory_fd;     /* or a negative errno */
	uint32_t go;	       /* set by the loader: enum load_go */
	uint32_t acknowledged; /* set by the loader: enum load_acknowledged */
	int32_t start_result;
	uint32_t stage;
	uint64_t frame;	 /* where the stopped thread's lies */
	uint64_t thread; /* pthread_t */
	uint64_t attributes[8];
	char path[LOAD_PATH_BYTES];
	char start[LOAD_NAME_BYTES];
	char error[LOAD_ERROR_BYTES];
	char library_name[LOAD_NAME_BYTES];
	uint64_t blocked_signals;   /* while the code runs */
	uint64_t xstate_components; /* of the vector state that is put back */
};
_Static_assert(offsetof(struct load_block, mapping) == 64, "load_block layout");
_Static_assert(offsetof(struct load_block, call_done) == 80, "load_block layout");
_Static_assert(offsetof(struct load_block, go) == 96, "load_block layout");
_Static_assert(offsetof(struct load_block, frame) == 112, "load_block layout");
_Static_assert(offsetof(struct load_block, attributes) == 128, "load_block layout");
_Static_assert(offsetof(struct load_block, path) == 192, "load_block layout");
_Static_assert(offsetof(struct load_block, start) == 320, "load_block layout");
_Static_assert(offsetof(struct load_block, error) == 384, "load_block layout");
_Static_assert(offsetof(struct load_block, library_name) == 640, "load_block layout");
_Static_assert(offsetof(struct load_block, blocked_signals) == 704, "load_block layout");
_Static_assert(offsetof(struct load_block, xstate_components) == 712, "load_block layout");
_Static_assert(LOAD_XSTATE_OFFSET - LOAD_BLOCK_OFFSET == 4096, "load_block layout");
_Static_assert(sizeof(struct load_block) <= LOAD_PAGE_BYTES, "load_block layout");

/* The code, to be copied to the start of the mapping; it is entered there, with rbx = the block. */
extern const unsigned char load_stub_start[], load_stub_end[];

/*
 * The gate: one system call, as the registers say when it is entered, and the way back by the frame at
 * the stack pointer. It is copied to where the process has no use for code's bytes: behind the last
 * function of a library.
 */
extern const unsigned char load_gate_start[], load_gate_end[];
enum { LOAD_GATE_BYTES_MAX = 64 };

#endif
