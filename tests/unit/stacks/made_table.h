/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for unwinding, to be put at MADE_BASE. */
#ifndef SLOWRANK_TESTS_UNIT_STACKS_MADE_TABLE_H
#define SLOWRANK_TESTS_UNIT_STACKS_MADE_TABLE_H

#include "tests/unit/stacks/made_memory.h"

/*
 * A .eh_frame_hdr with one function, and what it points to: the code is from 0x18000 on for 0x100 bytes; its frame's address is
 * rsp + 8, after one byte rsp + 16 with rbp saved, and after two more rbp + 16.
 */
static const uint8_t made_table[] = {
	/* 0x00: version, encodings, .eh_frame from here, one function */
	1, 0x1b, 0x03, 0x3b, 0x10, 0, 0, 0, 1, 0, 0, 0,
	/* 0x0c: the function and its description, both from the header on */
	0x00, 0x80, 0, 0, 0x30, 0, 0, 0,
	/* 0x14: what all have in common: length, id, version, "zR", alignments, return address */
	0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b,
	/* rsp + 8; the return address 8 below; filled up */
	0x0c, 7, 8, 0x90, 1, 0, 0,
	/* 0x2c: filled up */
	0, 0, 0, 0,
	/* 0x30: length, back to 0x14, the function from here on, its length, no augmentation */
	0x18, 0, 0, 0, 0x20, 0, 0, 0, 0xc8, 0x7f, 0, 0, 0x00, 0x01, 0, 0, 0,
	/* advance 1, rsp + 16, rbp at -16, advance 2, by rbp */
	0x41, 0x0e, 16, 0x86, 2, 0x42, 0x0d, 6, 0, 0, 0, 0};

#endif
