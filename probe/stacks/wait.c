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

enum { PATH_LENGTH = 200, LINE_LENGTH = 256, SOCKETS_MAX = 65536, PEER_LENGTH = 80 };

enum subject { NOTHING = 0, A_FILE = 1, AN_ADDRESS = 2 };

/* What a thread may wait in; of all others the number is told. */
static const struct call_name {
	int number;
	const char *name;
	enum subject subject; /* its first argument */
} call_names[] = {
	{SYS_read, "read", A_FILE},
	{SYS_write, "write", A_FILE},
	{SYS_readv, "readv", A_FILE},
	{SYS_writev, "writev", A_FILE},
	{SYS_pread64, "pread64", A_FILE},
	{SYS_pwrite64, "pwrite64", A_FILE},
	{SYS_preadv, "preadv", A_FILE},
	{SYS_pwritev, "pwritev", A_FILE},
	{SYS_fsync, "fsync", A_FILE},
	{SYS_fdatasync, "fdatasync", A_FILE},
	{SYS_sync_file_range, "sync_file_range", A_FILE},
	{SYS_ftruncate, "ftruncate", A_FILE},
	{SYS_fallocate, "fallocate", A_FILE},
	{SYS_flock, "flock", A_FILE},
	{SYS_fcntl, "fcntl", A_FILE},
	{SYS_ioctl, "ioctl", A_FILE},
	{SYS_fstat, "fstat", A_FILE},
	{SYS_newfstatat, "newfstatat", NOTHING},
	{SYS_statx, "statx", NOTHING},
	{SYS_getdents64, "getdents64", A_FILE},
	{SYS_openat, "openat", NOTHING},
	{SYS_close, "close", A_FILE},
	{SYS_sendfile, "sendfile", A_FILE},
	{SYS_splice, "splice", A_FILE},
	{SYS_copy_file_range, "copy_file_range", A_FILE},
	{SYS_accept, "accept", A_FILE},
	{SYS_accept4, "accept4", A_FILE},
	{SYS_connect, "connect", A_FILE},
	{SYS_recvfrom, "recvfrom", A_FILE},
	{SYS_recvmsg, "recvmsg", A_FILE},
	{SYS_recvmmsg, "recvmmsg", A_FILE},
	{SYS_sendto, "sendto", A_FILE},
	{SYS_sendmsg, "sendmsg", A_FILE},
	{SYS_sendmmsg, "sendmmsg", A_FILE},
	{SYS_epoll_pwait, "epoll_pwait", A_FILE},
#ifdef SYS_epoll_wait
	{SYS_epoll_wait, "epoll_wait", A_FILE},
#endif
#ifdef SYS_poll
	{SYS_poll, "poll", NOTHING},
#endif
#ifdef SYS_select
	{SYS_select, "select", NOTHING},
#endif
	{SYS_ppoll, "ppoll", NOTHING},
	{SYS_pselect6, "pselect6", NOTHING},
	{SYS_futex, "futex", AN_ADDRESS},
	{SYS_nanosleep, "nanosleep", NOTHING},
	{SYS_clock_nanosleep, "clock_nanosleep", NOTHING},
	{SYS_wait4, "wait4", NOTHING},
	{SYS_waitid, "waitid", NOTHING},
	{SYS_rt_sigtimedwait, "rt_sigtimedwait", NOTHING},
	{SYS_rt_sigsuspend, "rt_sigsuspend", NOTHING},
	{SYS_io_getevents, "io_getevents", NOTHING},
	{SYS_io_uring_enter, "io_uring_enter", A_FILE},
	{SYS_msync, "msync", AN_ADDRESS},
	{SYS_mmap, "mmap", NOTHING},
	{SYS_munmap, "munmap", AN_ADDRESS},
	{SYS_mprotect, "mprotect", AN_ADDRESS},
	{SYS_madvise, "madvise", AN_ADDRESS},
	{SYS_brk, "brk", AN_ADDRESS},
	{SYS_sched_yield, "sched_yield", NOTHING},
	{SYS_exit, "exit", NOTHING},
	{SYS_exit_group, "exit_group", NOTHING},
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

static void describe_call(pid_t pid, const struct thread_now *thread, char *text, size_t length)
{
	const struct call_name *call = find_call(thread->call);
	uint64_t argument = thread->arguments[0];
	char path[PATH_LENGTH];

	if (!call) {
		snprintf(text, length, "system call %" PRId64, thread->call);
		return;
	}
	switch (call->subject) {
	case A_FILE:
		describe_file(pid, argument, path, sizeof(path));
		snprintf(text, length, "%s(%d) %s", call->name, (int)argument, path);
		break;
	case AN_ADDRESS:
		snprintf(text, length, "%s(0x%" PRIx64 ")", call->name, argument);
		break;
	case NOTHING:
		snprintf(text, length, "%s", call->name);
		break;
	}
}

void stack_wait_describe(pid_t pid, const struct thread_now *thread, char text[STACK_WAIT_LENGTH])
{
	char what[STACK_WAIT_LENGTH - THREAD_PLACE_LENGTH - 8];

	text[0] = '\0';
	if (thread->on_cpu)
		return;
	if (thread->state == 'R') {
		if (!thread->displaced)
			snprintf(text, STACK_WAIT_LENGTH, "a CPU");
		return;
	}
	if (thread->state == 'T' || thread->state == 't') {
		snprintf(text, STACK_WAIT_LENGTH, "stopped");
		return;
	}
	if (thread->call >= 0)
		describe_call(pid, thread, what, sizeof(what));
	else
		snprintf(what, sizeof(what), "memory"); /* it blocks in a page fault */
	snprintf(text, STACK_WAIT_LENGTH, "%s%s%s", what, thread->place[0] ? ", " : "",
		thread->place);
}
