/* SPDX-License-Identifier: Apache-2.0 */
/* A child process that does what it is told, one letter at a time, and answers each. */
#ifndef TESTS_UNIT_SOURCES_CHILD_H
#define TESTS_UNIT_SOURCES_CHILD_H

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/sources/samples.h"

struct child {
	pid_t pid;
	int fd;
};

/* What children are told to do: to use so much wall time, */
static inline void spin(int64_t length_ns)
{
	int64_t end = clock_now().value + length_ns;

	while (clock_now().value < end)
		;
}

/* to touch so many bytes of fresh, small pages. */
static inline void touch_pages(size_t length)
{
	char *memory =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	madvise(memory, length, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < length; i += 4096)
		memory[i] = 1;
	munmap(memory, length);
}

/* In the child, serve(order) is called for each letter. */
static inline struct child child_start(void (*serve)(char order))
{
	struct child child;
	int pair[2];
	char order;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	child.pid = fork();
	if (child.pid < 0)
		abort();
	if (child.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		while (read(pair[1], &order, 1) == 1) {
			serve(order);
			if (write(pair[1], &order, 1) != 1)
				break;
		}
		_exit(0);
	}
	close(pair[1]);
	child.fd = pair[0];
	return child;
}

/* Returns when the child is done with it. */
static inline void child_do(const struct child *child, char order)
{
	if (write(child->fd, &order, 1) != 1 || read(child->fd, &order, 1) != 1)
		abort();
}

static inline void child_end(struct child *child)
{
	close(child->fd);
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
}

#endif
