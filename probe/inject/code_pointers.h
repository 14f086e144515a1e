/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointers to functions in the writable data of the libraries that are loaded: entries of the GOT, and
 * variables in which a program keeps what dlsym() gave it. One word of 64 bits that is the address of a
 * function is taken for a pointer to it. What lies on the heap is not looked at. One thread at a time;
 * not the program's.
 */
#ifndef SLOWRANK_PROBE_INJECT_CODE_POINTERS_H
#define SLOWRANK_PROBE_INJECT_CODE_POINTERS_H

#include <stddef.h>
#include <stdint.h>

struct code_pointer {
	uintptr_t from, to;
};

/* The file of the first library whose name begins so ("libnccl"). Returns 0 or a negative errno. */
int code_pointers_library(const char *name, char *path, size_t capacity)
	__attribute__((warn_unused_result));

/*
 * Makes each pointer to `from` one to `to`, in one atomic store each and in the order of the pairs, in all
 * libraries but this one and that of the first `from` and `to`. Pages that are read-only after relocation are so again afterwards. Reads
 * through the kernel, so what is unloaded meanwhile harms nobody. Returns how many it changed.
 */
size_t code_pointers_swap(const struct code_pointer *pairs, size_t pair_count);

#endif
