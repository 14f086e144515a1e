/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/fault_means.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

int injector_request(const char *socket_path, const char *command)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = 10};
	char answer[256] = "";
	ssize_t length;
	int result = 0;
	int fd;

	if (strlen(socket_path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, socket_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) ||
		send(fd, command, strlen(command), MSG_NOSIGNAL) < 0 || shutdown(fd, SHUT_WR)) {
		result = -errno;
		goto close_socket;
	}
	length = recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL);
	if (length < 0)
		result = -errno;
	else if (strcmp(answer, "ok\n") != 0)
		result = -EIO;

close_socket:
	close(fd);
	if (result)
		fprintf(stderr, "workload: the injector at %s on \"%s\": %s %s\n", socket_path,
			command, strerror(-result), answer);
	return result;
}
