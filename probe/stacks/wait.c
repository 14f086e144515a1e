/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stacks/wait.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINE_LENGTH = 256, SOCKETS_MAX = 65536, PEER_LENGTH = 80 };

enum subject {
	NOTHING = 0,
	A_FILE = 1,
	AN_ADDRESS = 2,
};

/* What a thread may wait in; of all others the number is told. */
static const struct call_name {
	int number;
	const char *name;
	enum subject subject;	/* its first argument */
	enum stack_state state; /* 0: of a file, as that one is; else STACK_STATE_OTHER */
} call_names[] = {
	{SYS_read, "read", A_FILE, 0},
	{SYS_write, "write", A_FILE, 0},
	{SYS_readv, "readv", A_FILE, 0},
	{SYS_writev, "writev", A_FILE, 0},
	{SYS_pread64, "pread64", A_FILE, 0},
	{SYS_pwrite64, "pwrite64", A_FILE, 0},
	{SYS_preadv, "preadv", A_FILE, 0},
	{SYS_pwritev, "pwritev", A_FILE, 0},
	{SYS_fsync, "fsync", A_FILE, 0},
	{SYS_fdatasync, "fdatasync", A_FILE, 0},
	{SYS_sync_file_range, "sync_file_range", A_FILE, 0},
	{SYS_ftruncate, "ftruncate", A_FILE, 0},
	{SYS_fallocate, "fallocate", A_FILE, 0},
	{SYS_flock, "flock", A_FILE, STACK_STATE_LOCK},
	{SYS_fcntl, "fcntl", A_FILE, 0},
	{SYS_ioctl, "ioctl", A_FILE, STACK_STATE_DEVICE},
	{SYS_fstat, "fstat", A_FILE, 0},
	{SYS_newfstatat, "newfstatat", NOTHING, STACK_STATE_FILE},
	{SYS_statx, "statx", NOTHING, STACK_STATE_FILE},
	{SYS_getdents64, "getdents64", A_FILE, STACK_STATE_FILE},
	{SYS_openat, "openat", NOTHING, STACK_STATE_FILE},
	{SYS_close, "close", A_FILE, 0},
	{SYS_sendfile, "sendfile", A_FILE, 0},
	{SYS_splice, "splice", A_FILE, 0},
	{SYS_copy_file_range, "copy_file_range", A_FILE, 0},
	{SYS_accept, "accept", A_FILE, STACK_STATE_SOCKET},
	{SYS_accept4, "accept4", A_FILE, STACK_STATE_SOCKET},
	{SYS_connect, "connect", A_FILE, STACK_STATE_SOCKET},
	{SYS_recvfrom, "recvfrom", A_FILE, STACK_STATE_SOCKET},
	{SYS_recvmsg, "recvmsg", A_FILE, STACK_STATE_SOCKET},
	{SYS_recvmmsg, "recvmmsg", A_FILE, STACK_STATE_SOCKET},
	{SYS_sendto, "sendto", A_FILE, STACK_STATE_SOCKET},
	{SYS_sendmsg, "sendmsg", A_FILE, STACK_STATE_SOCKET},
	{SYS_sendmmsg, "sendmmsg", A_FILE, STACK_STATE_SOCKET},
	{SYS_epoll_pwait, "epoll_pwait", A_FILE, STACK_STATE_SOCKET},
#ifdef SYS_epoll_wait
	{SYS_epoll_wait, "epoll_wait", A_FILE, STACK_STATE_SOCKET},
#endif
#ifdef SYS_poll
	{SYS_poll, "poll", NOTHING, STACK_STATE_SOCKET},
#endif
#ifdef SYS_select
	{SYS_select, "select", NOTHING, STACK_STATE_SOCKET},
#endif
	{SYS_ppoll, "ppoll", NOTHING, STACK_STATE_SOCKET},
	{SYS_pselect6, "pselect6", NOTHING, STACK_STATE_SOCKET},
	{SYS_futex, "futex", AN_ADDRESS, STACK_STATE_LOCK},
	{SYS_nanosleep, "nanosleep", NOTHING, STACK_STATE_SLEEP},
	{SYS_clock_nanosleep, "clock_nanosleep", NOTHING, STACK_STATE_SLEEP},
	{SYS_wait4, "wait4", NOTHING, 0},
	{SYS_waitid, "waitid", NOTHING, 0},
	{SYS_rt_sigtimedwait, "rt_sigtimedwait", NOTHING, 0},
	{SYS_rt_sigsuspend, "rt_sigsuspend", NOTHING, 0},
	{SYS_io_getevents, "io_getevents", NOTHING, STACK_STATE_FILE},
	{SYS_io_uring_enter, "io_uring_enter", A_FILE, STACK_STATE_FILE},
	{SYS_msync, "msync", AN_ADDRESS, STACK_STATE_FILE},
	{SYS_mmap, "mmap", NOTHING, 0},
	{SYS_munmap, "munmap", AN_ADDRESS, 0},
	{SYS_mprotect, "mprotect", AN_ADDRESS, 0},
	{SYS_madvise, "madvise", AN_ADDRESS, 0},
	{SYS_brk, "brk", AN_ADDRESS, 0},
	{SYS_sched_yield, "sched_yield", NOTHING, 0},
	{SYS_exit, "exit", NOTHING, 0},
	{SYS_exit_group, "exit_group", NOTHING, 0},
};

static const struct call_name *find_call(int64_t number)
{
	for (size_t i = 0; i < sizeof(call_names) / sizeof(call_names[0]); i++) {
		if (call_names[i].number == number)
			return &call_names[i];
	}
	return NULL;
}

/* Words of /proc/net/tcp: an address in hexadecimal, each 32 bits in the machine's order, and the port. */
static bool read_address(const char *word, char *text, size_t length)
{
	uint32_t parts[4] = {0};
	unsigned port, count = strlen(word) > 8 + 5 ? 4 : 1;
	char address[INET6_ADDRSTRLEN];

	for (unsigned i = 0; i < count; i++, word += 8) {
		if (sscanf(word, "%8" SCNx32, &parts[i]) != 1)
			return false;
	}
	if (sscanf(word, ":%x", &port) != 1 ||
		!inet_ntop(count == 1 ? AF_INET : AF_INET6, parts, address, sizeof(address)))
		return false;
	snprintf(text, length, "%s%s%s:%u", count == 1 ? "" : "[", address, count == 1 ? "" : "]",
		port);
	return true;
}

static bool find_peer_in(
	pid_t pid, const char *table, unsigned long long wanted, char *text, size_t length)
{
	char path[48], line[LINE_LENGTH], peer[40];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, table);
	file = fopen(path, "re");
	for (unsigned i = 0; file && !found && i < SOCKETS_MAX && fgets(line, sizeof(line), file);
		i++) {
		unsigned long long inode;

		if (sscanf(line, " %*u: %*s %39s %*x %*s %*s %*s %*u %*u %llu", peer, &inode) ==
				2 &&
			inode == wanted)
			found = read_address(peer, text, length);
	}
	if (file)
		fclose(file);
	return found;
}

static void describe_file(pid_t pid, uint64_t number, char *text, size_t length)
{
	char link[48], peer[PEER_LENGTH];
	unsigned long long inode;
	ssize_t used;

	text[0] = '\0';
	if (number > INT32_MAX)
		return;
	snprintf(link, sizeof(link), "/proc/%d/fd/%" PRIu64, (int)pid, number);
	used = readlink(link, text, length - 1);
	text[used > 0 ? used : 0] = '\0';
	for (char *c = text; *c; c++) {
		if (!isprint((unsigned char)*c))
			*c = '?';
	}
	if (sscanf(text, "socket:[%llu]", &inode) == 1 &&
		(find_peer_in(pid, "tcp", inode, peer, sizeof(peer)) ||
			find_peer_in(pid, "tcp6", inode, peer, sizeof(peer))))
		snprintf(text, length, "socket to %s", peer);
}

/* What a file is, by what the kernel calls it. */
static enum stack_state state_of_file(const char *name)
{
	if (strncmp(name, "/dev/", 5) == 0 && strncmp(name, "/dev/shm/", 9) != 0)
		return STACK_STATE_DEVICE;
	return name[0] == '/' ? STACK_STATE_FILE : STACK_STATE_SOCKET;
}

static void read_call(pid_t pid, const struct thread_now *thread, struct stack_wait *wait)
{
	const struct call_name *call = find_call(thread->call);
	uint64_t argument = thread->arguments[0];

	wait->state = call && call->state ? call->state : STACK_STATE_OTHER;
	if (!call) {
		snprintf(wait->what, sizeof(wait->what), "system call %" PRId64, thread->call);
		return;
	}
	snprintf(wait->what, sizeof(wait->what), "%s", call->name);
	if (call->subject == A_FILE) {
		describe_file(pid, argument, wait->on, sizeof(wait->on));
		if (!call->state && wait->on[0])
			wait->state = state_of_file(wait->on);
	} else if (call->subject == AN_ADDRESS) {
		snprintf(wait->on, sizeof(wait->on), "0x%" PRIx64, argument);
	}
}

void stack_wait_read(pid_t pid, const struct thread_now *thread, struct stack_wait *wait)
{
	wait->what[0] = wait->on[0] = '\0';
	wait->state = STACK_STATE_RUNNING;
	if (thread->on_cpu || (thread->state == 'R' && thread->displaced))
		return;
	if (thread->state == 'R') {
		wait->state = STACK_STATE_RUNNABLE;
		snprintf(wait->what, sizeof(wait->what), "a CPU");
	} else if (thread->state == 'T' || thread->state == 't') {
		wait->state = STACK_STATE_OTHER;
		snprintf(wait->what, sizeof(wait->what), "stopped");
	} else if (thread->call >= 0) {
		read_call(pid, thread, wait);
	} else { /* it blocks in a page fault */
		wait->state = STACK_STATE_FAULT;
		snprintf(wait->what, sizeof(wait->what), "memory");
	}
}

/* A file is told with its number: "read(3) pipe:[8812]"; an address in brackets. */
void stack_wait_describe(pid_t pid, const struct thread_now *thread, char text[STACK_WAIT_LENGTH])
{
	const struct call_name *call = find_call(thread->call);
	enum subject subject = call ? call->subject : NOTHING;
	struct stack_wait wait;

	stack_wait_read(pid, thread, &wait);
	snprintf(text, STACK_WAIT_LENGTH, "%s", wait.what);
	if (!wait.what[0] || thread->state == 'R' || thread->state == 'T' || thread->state == 't')
		return;
	if (thread->call < 0)
		subject = NOTHING;
	if (subject == A_FILE)
		snprintf(text, STACK_WAIT_LENGTH, "%s(%d) %s", wait.what, (int)thread->arguments[0],
			wait.on);
	else if (subject == AN_ADDRESS)
		snprintf(text, STACK_WAIT_LENGTH, "%s(%s)", wait.what, wait.on);
	snprintf(text + strlen(text), STACK_WAIT_LENGTH - strlen(text), "%s%s",
		thread->place[0] ? ", " : "", thread->place);
}
