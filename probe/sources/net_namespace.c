/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/net_namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct request {
	int namespace_fd; /* -1: stay here */
	int family, type, protocol;
	int result; /* a socket or a negative errno */
};

static void make_socket(struct request *request)
{
	int fd = socket(request->family, request->type | SOCK_CLOEXEC, request->protocol);

	request->result = fd < 0 ? -errno : fd;
}

static void *helper(void *context)
{
	struct request *request = context;

	/* setns() moves the calling thread alone, which ends here. */
	if (setns(request->namespace_fd, CLONE_NEWNET) < 0)
		request->result = -errno;
	else
		make_socket(request);
	return NULL;
}

int net_namespace_id(pid_t pid, uint64_t *id)
{
	struct stat status;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	if (stat(path, &status) < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	*id = status.st_ino;
	return 0;
}

int net_namespace_socket(pid_t pid, int family, int type, int protocol, int *fd)
{
	struct request request = {
		.namespace_fd = -1, .family = family, .type = type, .protocol = protocol};
	uint64_t own, other;
	char path[64];
	pthread_t thread;
	int error = net_namespace_id(pid, &other);

	if (error == 0)
		error = net_namespace_id(getpid(), &own);
	if (error < 0)
		return error;
	if (own == other) {
		make_socket(&request);
	} else {
		snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
		request.namespace_fd = open(path, O_RDONLY | O_CLOEXEC);
		if (request.namespace_fd < 0)
			return errno == ENOENT ? -ESRCH : -errno;
		error = pthread_create(&thread, NULL, helper, &request);
		if (error == 0)
			pthread_join(thread, NULL);
		close(request.namespace_fd);
		if (error != 0)
			return -error;
	}
	if (request.result < 0)
		return request.result;
	*fd = request.result;
	return 0;
}
