/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How to get from a frame to its caller at one address of code, as .eh_frame has it. See unwind.h for the sources.
 * Reads foreign memory: every loop is bounded. One thread.
 */
#ifndef SLOWRANK_PROBE_STACKS_UNWIND_TABLE_H
#define SLOWRANK_PROBE_STACKS_UNWIND_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/stacks/memory_view.h"
#include "probe/stacks/unwind.h"

enum unwind_rule_kind {
	UNWIND_SAME = 0,
	UNWIND_UNDEFINED = 1,
	UNWIND_AT_CFA = 2,   /* saved at the frame's address + value */
	UNWIND_CFA_PLUS = 3, /* is the frame's address + value */
	UNWIND_REGISTER = 4, /* is in the register of that number */
	UNWIND_AT_RESULT =
		5, /* saved at the address that an expression gives; value: where the expression lies */
	UNWIND_RESULT = 6, /* is what the expression gives */
};

struct unwind_rule {
	uint8_t kind;
	int64_t value;
};

struct unwind_row {
	uint8_t cfa_register;
	bool cfa_by_expression;
	bool is_signal_frame; /* the address is of an instruction, not behind a call */
	int64_t cfa_offset;   /* or where the expression lies */
	struct unwind_rule rules[UNWIND_REGISTERS];
};

/* header: the address of .eh_frame_hdr, which ends at header_end. Returns 0, or -ENOENT when there is no rule. */
int unwind_table_find(struct memory_view *memory, uint64_t header, uint64_t header_end,
	uint64_t address, struct unwind_row *row) __attribute__((warn_unused_result));

/* Reads a number of DWARF's at *at, and moves on. False when it cannot be read, or has no end. */
bool unwind_read_unsigned(struct memory_view *memory, uint64_t *at, uint64_t *value);
bool unwind_read_signed(struct memory_view *memory, uint64_t *at, int64_t *value);

#endif
