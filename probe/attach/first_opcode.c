/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/first_opcode.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { OPCODE_BYTES = 24 };

/*
 * Instructions that touch neither the stack nor an argument register: a probe may as well sit
 * behind them. A function's first instruction is such a one when the compiler protects branches
 * (endbr64) or starts with loading a global (mov disp(%rip),%rax).
 */
static size_t harmless_length(const uint8_t *bytes, size_t length_bytes)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	static const uint8_t load_global[] = {0x48, 0x8b, 0x05}; /* and 4 bytes of displacement */

	if (length_bytes >= 4 && memcmp(bytes, endbr64, sizeof(endbr64)) == 0)
		return 4;
	if (length_bytes >= 7 && memcmp(bytes, load_global, sizeof(load_global)) == 0)
		return 7;
	return 0;
}

/* The instructions that arch/x86/kernel/uprobes.c emulates: branch_setup_xol_ops and
 * push_setup_xol_ops. */
enum opcode_cost first_opcode_cost(const uint8_t *bytes, size_t length_bytes)
{
#if defined(__x86_64__)
	if (length_bytes < 2)
		return OPCODE_EXPENSIVE;
	if (bytes[0] >= 0x50 && bytes[0] <= 0x57) /* push %rax..%rdi */
		return OPCODE_CHEAP;
	if (bytes[0] == 0x41 && bytes[1] >= 0x50 && bytes[1] <= 0x57) /* push %r8..%r15 */
		return OPCODE_CHEAP;
	switch (bytes[0]) {
	case 0x90: /* nop */
	case 0xe9: /* jmp */
	case 0xeb:
	case 0xe8: /* call */
		return OPCODE_CHEAP;
	case 0x66: /* 66 90: two-byte nop */
		return bytes[1] == 0x90 ? OPCODE_CHEAP : OPCODE_EXPENSIVE;
	case 0x0f: /* 0f 1f: longer nop; 0f 80-8f: conditional jump */
		return bytes[1] == 0x1f || (bytes[1] >= 0x80 && bytes[1] <= 0x8f)
			       ? OPCODE_CHEAP
			       : OPCODE_EXPENSIVE;
	default:
		return bytes[0] >= 0x70 && bytes[0] <= 0x7f ? OPCODE_CHEAP : OPCODE_EXPENSIVE;
	}
#else
	(void)bytes;
	(void)length_bytes;
	return OPCODE_CHEAP;
#endif
}

int first_opcode_read(const char *path, uint64_t *offset, enum opcode_cost *cost)
{
	uint8_t bytes[OPCODE_BYTES];
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return -EIO;
	length = pread(fd, bytes, sizeof(bytes), (off_t)*offset);
	close(fd);
	if (length < 2)
		return -EIO;
	for (size_t at = 0, skip = 1; skip > 0 && at + 2 <= (size_t)length; at += skip) {
		if (first_opcode_cost(bytes + at, (size_t)length - at) == OPCODE_CHEAP) {
			*offset += at;
			*cost = OPCODE_CHEAP;
			return 0;
		}
		skip = harmless_length(bytes + at, (size_t)length - at);
	}
	*cost = first_opcode_cost(bytes, (size_t)length);
	return 0;
}
