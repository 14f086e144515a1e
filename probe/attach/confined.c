/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/confined.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/attach/process_stat.h"

enum { LOOK_MS = 50 };

#if defined(__x86_64__)
#define CONFINED_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define CONFINED_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#if defined(CONFINED_ARCHITECTURE) && CONFINED_IS_WHOLE
#define ALLOW(number)                                                                              \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                                       \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define LOAD(field)                                                                                \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))

/* Memory, and files to be read; beyond these, the end. */
static void allow_little(void)
{
	static struct sock_filter filter[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CONFINED_ARCHITECTURE, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
		ALLOW(SYS_read),
		ALLOW(SYS_pread64),
		ALLOW(SYS_write),
		ALLOW(SYS_close),
		ALLOW(SYS_lseek),
		ALLOW(SYS_fstat),
		ALLOW(SYS_newfstatat),
		ALLOW(SYS_mmap),
		ALLOW(SYS_munmap),
		ALLOW(SYS_mremap),
		ALLOW(SYS_mprotect),
		ALLOW(SYS_madvise),
		ALLOW(SYS_brk),
		ALLOW(SYS_futex),
		ALLOW(SYS_getrandom),
		ALLOW(SYS_sysinfo), /* qsort() */
		ALLOW(SYS_rt_sigreturn),
		ALLOW(SYS_exit_group),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 4), /* libelf asks */
		LOAD(args[1]),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_GETFD, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		LOAD(args[2]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_ACCMODE | O_CREAT | O_TRUNC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {
		.len = (unsigned short)(sizeof(filter) / sizeof(filter[0])), .filter = filter};

	/* Without it (a kernel that has none) the limits still hold. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		(void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
#else
static void allow_little(void)
{
}
#endif

/* What this process has of memory is not the work's. */
static void limit_memory(unsigned mib)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (file) {
		if (fscanf(file, "%*s %*s %*s %*s %*s %lu", &pages) != 1)
			pages = 0;
		fclose(file);
	}
	rlim_t bytes = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)mib << 20);

	(void)setrlimit(RLIMIT_DATA, &(struct rlimit){bytes, bytes});
}

void confined_limit(unsigned mib, unsigned cpu_s)
{
	const struct rlimit none = {0, 0}, seconds = {cpu_s, cpu_s};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)setrlimit(RLIMIT_CPU, &seconds);
	limit_memory(mib);
}

_Noreturn static void be_confined(int (*work)(void *state), void *state, size_t bytes, int fd)
{
	const char *at = state;
	ssize_t put = 1;
	int result;

	confined_limit(CONFINED_MIB, CONFINED_MS / 1000);
	allow_little();
	result = work(state);
	if (write(fd, &result, sizeof(result)) != (ssize_t)sizeof(result))
		_exit(1);
	for (size_t done = 0; done < bytes && put > 0; done += (size_t)put)
		put = write(fd, at + done, bytes - done);
	_exit(0);
}

/* Whether a process runs, or would if it had a CPU. */
static bool is_ready(pid_t pid)
{
	struct process_stat stat;

	return process_stat_read(pid, &stat) == 0 && stat.state == 'R';
}

/* All of it, or less when its writer has ended or blocked for too long; what it may run, the kernel limits. */
static size_t read_in_time(int fd, char *bytes, size_t length, pid_t writer)
{
	int blocked_ms = 0;
	size_t done = 0;

	while (done < length && blocked_ms < CONFINED_MS) {
		struct pollfd waited = {.fd = fd, .events = POLLIN};
		int ready = poll(&waited, 1, LOOK_MS);
		ssize_t got;

		if (ready == 0 && !is_ready(writer))
			blocked_ms += LOOK_MS;
		if (ready == 0 || (ready < 0 && errno == EINTR))
			continue;
		got = ready > 0 ? read(fd, bytes + done, length - done) : 0;
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

int confined_call(int (*work)(void *state), void *state, size_t bytes)
{
	size_t length = sizeof(int) + bytes;
	char *answer = malloc(length);
	int ends[2], result = -ENOMEM;
	pid_t child;

	if (!answer)
		return -ENOMEM;
	if (pipe2(ends, O_CLOEXEC) < 0)
		goto free_answer;
	child = fork();
	if (child == 0)
		be_confined(work, state, bytes, ends[1]);
	close(ends[1]);
	if (child > 0) {
		result = -ENOEXEC;
		if (read_in_time(ends[0], answer, length, child) == length) {
			memcpy(&result, answer, sizeof(result));
			memcpy(state, answer + sizeof(result), bytes);
		}
		kill(child, SIGKILL);
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(ends[0]);
free_answer:
	free(answer);
	return result;
}
