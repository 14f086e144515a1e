/* SPDX-License-Identifier: Apache-2.0 */
/* A child process that does what it is told, one letter at a time, and answers each. */
#ifndef TESTS_UNIT_SOURCES_CHILD_H
#define TESTS_UNIT_SOURCES_CHILD_H

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
	pid_t pid;
	int fd;
};

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
