/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/load_trace.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/attach/load_frame.h"

#if defined(__x86_64__)

enum {
	SPIN_NS = 50000,       /* a running thread comes to its stop in less */
	FIRST_POLL_NS = 20000, /* then between two looks; 20 us, then longer */
	POLL_MAX_NS = 500000,
	SYSCALL_STOP = SIGTRAP | 0x80,
	RSEQ_CONFIGURATION = 0x420f, /* PTRACE_GET_RSEQ_CONFIGURATION, linux/ptrace.h */
};

/*
 * For a stop. A thread that waits for a CPU (a throttled cgroup, a full machine) or for the kernel comes to
 * it late, and loses nothing by our waiting. With our registers in it, it must not be let go: it would
 * go on in the middle of our call.
 */
static const int64_t stop_wait_ns = INT64_C(10000000000);
static const int64_t changed_stop_wait_ns = INT64_C(60000000000);

/* What stop a status is. */
enum stop_kind { STOP_INTERRUPT, STOP_GROUP, STOP_SYSCALL, STOP_SIGNAL };

int64_t load_trace_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int result_of(long result)
{
	return result < 0 ? -errno : 0;
}

/* ptrace()'s last two arguments are pointers or numbers, by request. */
static int trace_request(
	const struct load_trace *trace, unsigned request, uintptr_t address, uintptr_t data)
{
	return result_of(ptrace((enum __ptrace_request)request, trace->thread, address, data));
}

/*
 * The stop is looked at and not taken (WNOWAIT): a signal that it is for is still delivered when the
 * tracer ends here.
 */
static int wait_stop(struct load_trace *trace, enum stop_kind *kind, int *signal_number)
{
	int64_t began_ns = load_trace_now_ns(), now_ns;
	int64_t end_ns = began_ns + (trace->changed ? changed_stop_wait_ns : stop_wait_ns);
	const int flags = WSTOPPED | WEXITED | WNOHANG | WNOWAIT;
	struct timespec pause = {.tv_nsec = FIRST_POLL_NS};
	siginfo_t found;

	for (;;) {
		found = (siginfo_t){0};
		if (waitid(P_PID, (id_t)trace->thread, &found, flags | __WALL) < 0 &&
			errno != EINTR)
			return -ESRCH;
		if (found.si_pid == trace->thread)
			break;
		now_ns = load_trace_now_ns();
		if (now_ns > end_ns)
			return -ETIMEDOUT;
		if (now_ns < began_ns + SPIN_NS)
			continue;
		(void)nanosleep(&pause, NULL);
		if (pause.tv_nsec < POLL_MAX_NS)
			pause.tv_nsec += pause.tv_nsec / 4;
	}
	if (found.si_code != CLD_TRAPPED && found.si_code != CLD_STOPPED) {
		trace->seized = trace->stopped = false;
		return -ESRCH;
	}
	*signal_number = found.si_status & 0xff;
	if (found.si_status >> 8 == PTRACE_EVENT_STOP)
		*kind = *signal_number == SIGTRAP ? STOP_INTERRUPT : STOP_GROUP;
	else
		*kind = *signal_number == SYSCALL_STOP ? STOP_SYSCALL : STOP_SIGNAL;
	trace->stopped = true;
	trace->in_signal_stop = *kind != STOP_SYSCALL;
	return 0;
}

static int resume(struct load_trace *trace, unsigned request, int signal_number)
{
	int error = trace_request(trace, request, 0, (uintptr_t)signal_number);

	if (!error)
		trace->stopped = false;
	return error;
}

/* Runs on until the wanted kind of stop. Signals are kept for later, but for those of our code. */
static int run_until(struct load_trace *trace, unsigned request, enum stop_kind wanted)
{
	enum stop_kind kind;
	int signal_number, error;

	for (unsigned i = 0; i < 64; i++) {
		error = resume(trace, request, 0);
		if (!error)
			error = wait_stop(trace, &kind, &signal_number);
		if (error || kind == wanted)
			return error;
		if (kind != STOP_SIGNAL)
			continue;
		if (signal_number == SIGSEGV || signal_number == SIGBUS ||
			signal_number == SIGILL || signal_number == SIGFPE)
			return -EFAULT; /* our own doing: it is not delivered */
		if (trace->deferred_count < LOAD_DEFERRED_MAX)
			trace->deferred[trace->deferred_count++] = signal_number;
	}
	return -EAGAIN;
}

static int get_registers(const struct load_trace *trace, struct user_regs_struct *registers)
{
	struct iovec vector = {registers, sizeof(*registers)};

	return trace_request(trace, PTRACE_GETREGSET, NT_PRSTATUS, (uintptr_t)&vector);
}

static int set_mask(const struct load_trace *trace, uint64_t mask)
{
	return trace_request(trace, PTRACE_SETSIGMASK, sizeof(mask), (uintptr_t)&mask);
}

static int set_registers(struct load_trace *trace, const struct user_regs_struct *registers)
{
	struct iovec vector = {(void *)(uintptr_t)registers, sizeof(*registers)};

	return trace_request(trace, PTRACE_SETREGSET, NT_PRSTATUS, (uintptr_t)&vector);
}

uint64_t load_trace_blocked_signals(void)
{
	/* Faults of our own must not undo the program's handlers for them. */
	return ~((UINT64_C(1) << (SIGSEGV - 1)) | (UINT64_C(1) << (SIGBUS - 1)) |
		 (UINT64_C(1) << (SIGILL - 1)) | (UINT64_C(1) << (SIGFPE - 1)) |
		 (UINT64_C(1) << (SIGTRAP - 1)));
}

/* Into code that puts the thread back. Registers first: that code sets the mask right, too. */
static int enter(struct load_trace *trace, struct user_regs_struct *registers)
{
	int error;

	registers->orig_rax = UINT64_MAX; /* nothing to begin again */
	trace->changed = true;
	error = set_registers(trace, registers);
	if (!error && !trace->masked) {
		trace->masked = true;
		error = set_mask(trace, load_trace_blocked_signals());
	}
	return error;
}

/* Calls that a stop ends with EINTR, though no signal came (signal(7)), having done nothing yet. */
static bool ends_early(int64_t number)
{
	static const int calls[] = {SYS_epoll_wait, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_semop,
		SYS_semtimedop, SYS_rt_sigtimedwait, SYS_io_getevents, SYS_io_pgetevents,
		SYS_io_uring_enter, SYS_recvfrom, SYS_recvmsg, SYS_accept, SYS_accept4};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i] == number)
			return true;
	}
	return false;
}

/*
 * No thread is stopped that is seen in such a call; one that began it in that instant begins it again,
 * unless a signal's handler runs: the kernel decides.
 */
static int mend_call(struct load_trace *trace)
{
	struct user_regs_struct *registers = &trace->registers;

	if (!ends_early((int64_t)registers->orig_rax) || (int64_t)registers->rax != -EINTR)
		return 0;
	registers->rax = (uint64_t)-LOAD_RESTART_NOHAND;
	return set_registers(trace, registers);
}

int load_trace_seize(struct load_trace *trace, pid_t pid, pid_t thread)
{
	enum stop_kind kind = STOP_SIGNAL;
	int signal_number, error;

	memset(trace, 0, offsetof(struct load_trace, xstate));
	trace->deferred_count = 0;
	trace->pid = pid;
	trace->thread = thread;
	error = trace_request(trace, PTRACE_SEIZE, 0, PTRACE_O_TRACESYSGOOD);
	if (error)
		return error;
	trace->seized = true;
	trace->stopped_ns = load_trace_now_ns();
	error = trace_request(trace, PTRACE_INTERRUPT, 0, 0);
	for (unsigned i = 0; i < 64 && !error && kind != STOP_INTERRUPT; i++) {
		error = wait_stop(trace, &kind, &signal_number);
		if (!error && kind == STOP_GROUP)
			error = -EAGAIN;
		/* It was on its way to a handler: let it, and stop at the handler's start. */
		if (!error && kind != STOP_INTERRUPT)
			error = resume(trace, PTRACE_CONT, kind == STOP_SIGNAL ? signal_number : 0);
	}
	if (!error && kind != STOP_INTERRUPT)
		error = -EAGAIN;
	if (!error)
		error = get_registers(trace, &trace->registers);
	if (!error)
		error = mend_call(trace);
	if (error)
		(void)load_trace_release(trace);
	return error;
}

int load_trace_save(struct load_trace *trace, uint64_t gate)
{
	struct iovec vector = {trace->xstate, sizeof(trace->xstate)};
	int error = trace_request(trace, PTRACE_GETREGSET, NT_X86_XSTATE, (uintptr_t)&vector);
	struct load_frame frame;

	if (error)
		return error;
	if (vector.iov_len >= sizeof(trace->xstate))
		return -E2BIG;
	trace->xstate_bytes = vector.iov_len;
	trace->gate = gate;
	error = trace_request(trace, PTRACE_GETSIGMASK, sizeof(trace->signal_mask),
		(uintptr_t)&trace->signal_mask);
	if (error)
		return error;
	load_frame_fill(&trace->registers, trace->signal_mask, &frame);
	error = load_trace_poke(
		trace, load_frame_address(&trace->registers), &frame, sizeof(frame));
	if (!error)
		error = load_trace_poke(
			trace, gate, load_gate_start, (size_t)(load_gate_end - load_gate_start));
	return error;
}

int load_trace_syscall(
	struct load_trace *trace, int64_t number, const uint64_t arguments[6], int64_t *result)
{
	struct user_regs_struct registers = trace->registers;
	int error;

	registers.rip = trace->gate;
	registers.rsp = load_frame_address(&trace->registers);
	registers.rax = (uint64_t)number;
	registers.rdi = arguments[0];
	registers.rsi = arguments[1];
	registers.rdx = arguments[2];
	registers.r10 = arguments[3];
	registers.r8 = arguments[4];
	registers.r9 = arguments[5];
	error = enter(trace, &registers);
	if (!error)
		error = run_until(trace, PTRACE_SYSCALL, STOP_SYSCALL); /* entry */
	if (!error)
		error = run_until(trace, PTRACE_SYSCALL, STOP_SYSCALL); /* exit */
	if (!error)
		error = get_registers(trace, &registers);
	if (!error)
		*result = (int64_t)registers.rax;
	return error;
}

int load_trace_start(struct load_trace *trace, uint64_t code, uint64_t stack, uint64_t argument)
{
	struct user_regs_struct registers = trace->registers;
	int error;

	registers.rip = code;
	registers.rsp = stack;
	registers.rbx = argument;
	error = enter(trace, &registers);
	return error ? error : resume(trace, PTRACE_CONT, 0);
}

/* To a stop from which an interrupted system call is begun again by the kernel. */
static int to_signal_stop(struct load_trace *trace)
{
	int error = 0;

	if (trace->stopped && trace->in_signal_stop)
		return 0;
	if (!trace->seized)
		return -ESRCH;
	error = trace_request(trace, PTRACE_INTERRUPT, 0, 0);
	if (!error && trace->stopped)
		return run_until(trace, PTRACE_CONT, STOP_INTERRUPT);
	for (unsigned i = 0; i < 64 && !error; i++) {
		enum stop_kind kind;
		int signal_number;

		error = wait_stop(trace, &kind, &signal_number);
		if (error || kind == STOP_INTERRUPT || kind == STOP_GROUP)
			return error;
		if (kind == STOP_SIGNAL && (signal_number == SIGSEGV || signal_number == SIGBUS ||
						   signal_number == SIGILL)) {
			trace->faulted = true;
			return 0;
		}
		if (kind == STOP_SIGNAL && trace->deferred_count < LOAD_DEFERRED_MAX)
			trace->deferred[trace->deferred_count++] = signal_number;
		error = resume(trace, PTRACE_CONT, 0);
	}
	return error ? error : -EAGAIN;
}

int load_trace_stop(struct load_trace *trace, uint64_t *at)
{
	struct user_regs_struct registers;
	int error = to_signal_stop(trace);

	if (!error)
		error = get_registers(trace, &registers);
	if (!error)
		*at = registers.rip;
	return error;
}

static int let_go(struct load_trace *trace)
{
	int error = trace->seized ? trace_request(trace, PTRACE_DETACH, 0, 0) : 0;

	for (size_t i = 0; i < trace->deferred_count; i++)
		(void)syscall(SYS_tgkill, trace->pid, trace->thread, trace->deferred[i]);
	trace->deferred_count = 0;
	trace->seized = trace->stopped = false;
	return error;
}

int load_trace_release(struct load_trace *trace)
{
	struct iovec vector = {trace->xstate, trace->xstate_bytes};
	int error = 0;

	if (!trace->seized)
		return 0;
	if (!trace->changed)
		return let_go(trace);
	error = to_signal_stop(trace);
	if (error)
		return error; /* gone, or not to be stopped: it puts itself back */
	/* Registers last: until then it is in code that puts all of this back. */
	error = trace_request(trace, PTRACE_SETREGSET, NT_X86_XSTATE, (uintptr_t)&vector);
	if (set_mask(trace, trace->signal_mask) < 0 || set_registers(trace, &trace->registers) < 0)
		error = -ESRCH;
	trace->changed = trace->masked = false;
	int detached = let_go(trace);
	return error ? error : detached;
}

int load_trace_leave(struct load_trace *trace)
{
	int error = to_signal_stop(trace);

	return error ? error : let_go(trace);
}

int load_trace_read(pid_t pid, uint64_t address, void *data, size_t bytes)
{
	struct iovec local = {data, bytes}, remote = {(void *)(uintptr_t)address, bytes};
	ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	if (got < 0)
		return -errno;
	return (size_t)got == bytes ? 0 : -EFAULT;
}

int load_trace_write(pid_t pid, uint64_t address, const void *data, size_t bytes)
{
	struct iovec local = {(void *)(uintptr_t)data, bytes},
		     remote = {(void *)(uintptr_t)address, bytes};
	ssize_t got = process_vm_writev(pid, &local, 1, &remote, 1, 0);

	if (got < 0)
		return -errno;
	return (size_t)got == bytes ? 0 : -EFAULT;
}

int load_trace_poke(
	const struct load_trace *trace, uint64_t address, const void *data, size_t bytes)
{
	int error = 0;

	for (size_t done = 0; done < bytes && !error; done += sizeof(uint64_t)) {
		size_t left = bytes - done;
		uint64_t word = 0;

		memcpy(&word, (const uint8_t *)data + done, left < 8 ? left : 8);
		error = trace_request(trace, PTRACE_POKEDATA, address + done, word);
	}
	return error;
}

bool load_trace_in_rseq(const struct load_trace *trace)
{
	struct { /* struct ptrace_rseq_configuration */
		uint64_t address;
		uint32_t bytes, signature, flags, padding;
	} configuration;
	uint64_t address, section[4]; /* struct rseq_cs: versions, start, length, abort */

	if (ptrace((enum __ptrace_request)RSEQ_CONFIGURATION, trace->thread, sizeof(configuration),
		    &configuration) < 0)
		return false; /* an older kernel: glibc uses none there */
	if (!configuration.address)
		return false;
	/* struct rseq: cpu_id_start, cpu_id, rseq_cs. The last may be of a section left long ago. */
	if (load_trace_read(trace->pid, configuration.address + 8, &address, sizeof(address)) < 0)
		return true;
	if (!address)
		return false;
	if (load_trace_read(trace->pid, address, section, sizeof(section)) < 0)
		return true;
	return trace->registers.rip - section[1] < section[2];
}

#else

int64_t load_trace_now_ns(void)
{
	return 0;
}

#endif
