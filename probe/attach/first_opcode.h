/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the first instruction of a function costs under a uprobe. The kernel emulates some
 * instructions; others are single-stepped out of line, ten microseconds each. Any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_FIRST_OPCODE_H
#define SLOWRANK_PROBE_ATTACH_FIRST_OPCODE_H

#include <stddef.h>
#include <stdint.h>

enum opcode_cost {
	OPCODE_CHEAP = 1,     /* emulated: push, nop, jmp, call */
	OPCODE_EXPENSIVE = 2, /* single-stepped */
};

/* The cost of the instruction that bytes start with (x86-64; elsewhere cheap is assumed). */
enum opcode_cost first_opcode_cost(const uint8_t *bytes, size_t length_bytes);

/*
 * Reads the cost at *offset of a file. Instructions there that change neither stack
 * nor arguments (endbr64, the load of a global) are stepped over when what follows is cheap. Returns 0 or -EIO.
 */
int first_opcode_read(const char *path, uint64_t *offset, enum opcode_cost *cost)
	__attribute__((warn_unused_result));

#endif
