/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of another process, read in pages that are kept until they are forgotten: what lies together costs one
 * system call. Nothing that is read can be trusted, and every address may be wrong. One thread.
 */
#ifndef SLOWRANK_PROBE_STACKS_MEMORY_VIEW_H
#define SLOWRANK_PROBE_STACKS_MEMORY_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MEMORY_PAGE_BYTES = 4096, MEMORY_VIEW_PAGES = 64 };

/* Reads one page, at a multiple of its size. Returns 0 or a negative errno. */
typedef int (*memory_read_page)(void *context, uint64_t address, uint8_t *page);

struct memory_view {
	memory_read_page read_page;
	void *context;
	uint64_t reads; /* pages asked for so far */
	uint64_t addresses[MEMORY_VIEW_PAGES];
	bool kept[MEMORY_VIEW_PAGES];
	uint8_t pages[MEMORY_VIEW_PAGES][MEMORY_PAGE_BYTES];
};

void memory_view_init(struct memory_view *view, memory_read_page read_page, void *context);

/* All that was read is old. */
void memory_view_forget(struct memory_view *view);

/* Returns 0, or a negative errno when not all of it can be read; bytes may then be written in part. */
int memory_view_read(struct memory_view *view, uint64_t address, void *bytes, size_t length)
	__attribute__((warn_unused_result));

/*
 * Opens the memory of a process, for reading only: the descriptor stays that of this very program, also when its number
 * is another's. Takes the right to trace the process, and does not trace it. Returns a descriptor, which the caller
 * closes, -ESRCH when there is no such process, -EACCES.
 */
int memory_open(pid_t pid) __attribute__((warn_unused_result));

/* A memory_read_page of such a descriptor; context points to it. */
int memory_read_process(void *context, uint64_t address, uint8_t *page);

#endif
