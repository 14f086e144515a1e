/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread of another process under ptrace: stop it, see where it is, call something in it, put
 * it back exactly. Every wait is bounded. The calling thread is the tracer: when it ends, the
 * kernel lets go of the other, which then goes on from its registers. So whatever is changed is changed
 * by one write of all registers, to a state from which the thread puts itself back alone: at
 * the gate (load_stub.h), or in code that ends so. x86-64.
 *
 * Order: seize, [save, calls, start], release. A released or gone thread needs nothing more.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LOAD_TRACE_H
#define SLOWRANK_PROBE_ATTACH_LOAD_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "probe/attach/load_stub.h"

enum { LOAD_DEFERRED_MAX = 8 };

struct load_trace {
	pid_t pid, thread;
	bool seized;
	bool stopped;
	bool in_signal_stop; /* a stop from which an interrupted system call can be begun again */
	bool faulted;	     /* our own code met a fault: the signal was taken away */
	bool changed;	     /* registers are not the thread's own now */
	bool masked;	     /* nor are the signals that it blocks */
	uint64_t gate;	     /* in the process */
	int64_t stopped_ns;  /* when the stop began */
	struct user_regs_struct registers;
	uint64_t signal_mask;
	size_t xstate_bytes;
	_Alignas(64) uint8_t xstate[LOAD_XSTATE_BYTES];
	size_t deferred_count; /* signals that came meanwhile: sent again at the release */
	int deferred[LOAD_DEFERRED_MAX];
};

int64_t load_trace_now_ns(void);

/*
 * Stops the thread and reads its registers. -ESRCH: it has ended; -EPERM: no right, or traced by
 * another; -EAGAIN: stopped by job control; -ETIMEDOUT: it does not stop (the tracer should end).
 */
int load_trace_seize(struct load_trace *trace, pid_t pid, pid_t thread)
	__attribute__((warn_unused_result));

/*
 * Saves all state that a call may change, here and in the thread's frame, and puts the code of the gate at
 * gate, where the process has no use for 64 bytes of code.
 */
int load_trace_save(struct load_trace *trace, uint64_t gate) __attribute__((warn_unused_result));

/* The program's signals, which stay blocked while the thread is not where the program left it. */
uint64_t load_trace_blocked_signals(void);

/* A system call on the stopped thread, through the gate. Result: as the kernel's. */
int load_trace_syscall(struct load_trace *trace, int64_t number, const uint64_t arguments[6],
	int64_t *result) __attribute__((warn_unused_result));

/* Lets the thread run at code with rbx = argument. The code ends as the gate does. */
int load_trace_start(struct load_trace *trace, uint64_t code, uint64_t stack, uint64_t argument)
	__attribute__((warn_unused_result));

/* Stops it again. *at: where it is. */
int load_trace_stop(struct load_trace *trace, uint64_t *at) __attribute__((warn_unused_result));

/* Puts everything back, if something was changed, and lets the thread go. */
int load_trace_release(struct load_trace *trace);
/* Lets it go as it is: it puts itself back (see load_stub.h). */
int load_trace_leave(struct load_trace *trace);

/* 0 or a negative errno. */
int load_trace_read(pid_t pid, uint64_t address, void *data, size_t bytes)
	__attribute__((warn_unused_result));
int load_trace_write(pid_t pid, uint64_t address, const void *data, size_t bytes)
	__attribute__((warn_unused_result));
/* Of a stopped thread's process, where it may only read or run, too. bytes: rounded up to 8. */
int load_trace_poke(const struct load_trace *trace, uint64_t address, const void *data,
	size_t bytes) __attribute__((warn_unused_result));

/* The thread is in the middle of a restartable sequence: it must not run anything else now. */
bool load_trace_in_rseq(const struct load_trace *trace);

#endif
