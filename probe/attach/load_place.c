/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/load_place.h"

#include <string.h>
#include <sys/syscall.h>

#if defined(__x86_64__)

enum {
	STACK_BYTES_MAX = 1 << 20, /* deeper frames belong to what began long before */
	CHUNK_BYTES = 65536,
	CONTROL_BLOCK_BYTES =
		2048, /* of glibc's struct pthread, that holds the thread's number and stack */
	FIRST_STACK_BYTES_MAX = 64 << 20, /* the kernel maps nothing else within 128 MiB of it */
	CALL_BYTES_MAX = 7,
};

const char *load_place_name(enum load_place place)
{
	static const char *const names[LOAD_PLACE_NR] = {"a safe place",
		"in a system call that a stop would end", "in the C library or an allocator",
		"in a signal handler", "in a restartable sequence", "not the C library's thread",
		"a stack that cannot be read",
		"on a stack that is not the thread's (a coroutine?)"};

	return (unsigned)place < LOAD_PLACE_NR ? names[place] : "unknown";
}

/*
 * Those which the kernel begins again with the time that is left, whatever their arguments
 * (signal(7), stops without a handler). Not: epoll_wait(), the waits for semaphores and signals,
 * sockets with a timeout: they return EINTR.
 */
bool load_place_call_goes_on(int64_t number)
{
	static const int calls[] = {SYS_futex, SYS_nanosleep, SYS_clock_nanosleep, SYS_poll,
		SYS_ppoll, SYS_select, SYS_pselect6, SYS_read, SYS_wait4, SYS_waitid, SYS_pause,
		SYS_rt_sigsuspend, SYS_write, SYS_sched_yield};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i] == number)
			return true;
	}
	return false;
}

static bool in_range(const struct load_range *range, uint64_t address)
{
	return address >= range->start && address < range->end;
}

static bool is_unsafe(const struct load_target *target, uint64_t address)
{
	for (size_t i = 0; i < target->range_count; i++) {
		if (in_range(&target->ranges[i], address))
			return true;
	}
	return false;
}

static bool is_restorer(const struct load_target *target, uint64_t address)
{
	for (size_t i = 0; i < target->restorer_count; i++) {
		if (target->restorers[i] == address)
			return true;
	}
	return false;
}

/* Does a call instruction end at address? (Intel SDM, volume 2: E8 rel32; FF /2, 2 to 7 bytes.) */
static bool follows_call(pid_t pid, uint64_t address)
{
	uint8_t code[CALL_BYTES_MAX];

	if (load_trace_read(pid, address - CALL_BYTES_MAX, code, sizeof(code)) < 0)
		return true;
	if (code[CALL_BYTES_MAX - 5] == 0xe8)
		return true;
	for (size_t length = 2; length <= CALL_BYTES_MAX; length++) {
		const uint8_t *at = code + CALL_BYTES_MAX - length;

		if (at[0] == 0xff && (at[1] & 0x38) == 0x10)
			return true;
	}
	return false;
}

static enum load_place look_at_stack(const struct load_target *target, uint64_t stack)
{
	static uint64_t words[CHUNK_BYTES / sizeof(uint64_t)];
	enum load_place found = LOAD_PLACE_SAFE;

	stack &= ~UINT64_C(7);
	for (uint64_t done = 0; done < STACK_BYTES_MAX;) {
		size_t bytes = CHUNK_BYTES - (size_t)((stack + done) & 4095);

		/* Its end is not known: read less and less. */
		while (load_trace_read(target->pid, stack + done, words, bytes) < 0) {
			if (bytes <= 4096)
				return done ? found : LOAD_PLACE_UNKNOWN;
			bytes = bytes > 8192 ? (bytes / 2 & ~(size_t)4095) -
						       (size_t)((stack + done) & 4095)
					     : 4096 - (size_t)((stack + done) & 4095);
		}
		for (size_t i = 0; i < bytes / sizeof(words[0]); i++) {
			if (is_restorer(target, words[i]))
				return LOAD_PLACE_SIGNAL;
			if (is_unsafe(target, words[i]) && follows_call(target->pid, words[i]))
				return LOAD_PLACE_LIBRARY;
		}
		done += bytes;
	}
	return found;
}

/*
 * glibc's thread control block: the first word and the third point to itself, and it holds the
 * thread's number (sysdeps/x86_64/nptl/tls.h, nptl/descr.h). A thread made by a bare clone() may
 * have none, or share another's.
 */
static bool is_libc_thread(const struct load_target *target, const struct load_thread *what,
	const struct load_trace *trace)
{
	uint32_t block[CONTROL_BLOCK_BYTES / sizeof(uint32_t)];
	uint64_t address = trace->registers.fs_base, first, self;

	if (load_trace_read(target->pid, address, block, sizeof(block)) < 0)
		return false;
	memcpy(&first, block, sizeof(first));
	memcpy(&self, block + 4, sizeof(self));
	if (first != address || self != address)
		return false;
	for (size_t i = 32; i < sizeof(block) / sizeof(block[0]); i++) {
		if (block[i] == (uint32_t)what->inner)
			return true;
	}
	return false;
}

/*
 * Its frame (load_frame.h) may lie below its stack pointer only where a signal's could, too: on the stack that
 * it was made with, which struct pthread names by start and length, and in whose end it lies itself, or on the
 * first thread's.
 */
static bool is_on_own_stack(const struct load_target *target, const struct load_thread *what,
	const struct load_trace *trace)
{
	uint64_t block[CONTROL_BLOCK_BYTES / sizeof(uint64_t)];
	uint64_t control = trace->registers.fs_base, stack = trace->registers.rsp;

	if (what->first_stack - stack < FIRST_STACK_BYTES_MAX)
		return true;
	if (load_trace_read(target->pid, control, block, sizeof(block)) < 0)
		return false;
	for (size_t i = 0; i + 1 < sizeof(block) / sizeof(block[0]); i++) {
		uint64_t start = block[i], bytes = block[i + 1];

		if (start && bytes < UINT64_C(1) << 40 && control - start < bytes &&
			stack - start < bytes)
			return true;
	}
	return false;
}

enum load_place load_place_of(const struct load_target *target, const struct load_thread *what,
	const struct load_trace *trace)
{
	const struct user_regs_struct *registers = &trace->registers;
	bool in_call = (int64_t)registers->orig_rax >= 0;

	if (in_call && !load_place_call_goes_on((int64_t)registers->orig_rax))
		return LOAD_PLACE_SYSTEM_CALL;
	/* Outside the C library, or in its wrapper of a system call. */
	if (is_unsafe(target, registers->rip) ||
		(!in_call && (in_range(&target->libc, registers->rip) || target->own_allocator)))
		return LOAD_PLACE_LIBRARY;
	if (is_restorer(target, registers->rip))
		return LOAD_PLACE_SIGNAL;
	if (load_trace_in_rseq(trace))
		return LOAD_PLACE_SEQUENCE;
	if (what->shadow_stack || !is_libc_thread(target, what, trace))
		return LOAD_PLACE_FOREIGN;
	if (!is_on_own_stack(target, what, trace))
		return LOAD_PLACE_STACK;
	return look_at_stack(target, registers->rsp);
}

#endif
