/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that answers anything when it is asked for its TCP sockets: the input is cut into reads. */
#include <errno.h>
#include <sys/socket.h>

#include "probe/sources/socket_inodes.h"
#include "probe/sources/tcp.h"
#include "tests/fuzz/fuzz.h"

enum { LOOKS = 3, OWN_INODES = 4 };

static struct fuzz_input input;

ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags,
	const struct sockaddr *address, socklen_t address_length);
ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags,
	const struct sockaddr *address, socklen_t address_length)
{
	(void)fd;
	(void)bytes;
	(void)flags;
	(void)address;
	(void)address_length;
	return (ssize_t)length;
}

/* Two bytes of length, then so many of them. */
ssize_t __wrap_recv(int fd, void *out, size_t capacity, int flags);
ssize_t __wrap_recv(int fd, void *out, size_t capacity, int flags)
{
	uint16_t wanted;
	size_t length;

	(void)fd;
	(void)flags;
	if (input.length < sizeof(wanted)) {
		errno = EAGAIN;
		return -1;
	}
	fuzz_take(&input, &wanted, sizeof(wanted));
	length = wanted < input.length ? wanted : input.length;
	length = length < capacity ? length : capacity;
	fuzz_take(&input, out, length);
	return (ssize_t)length;
}

/* The rank's sockets: some of those that an answer is likely to tell of. */
int __wrap_socket_inodes_read(pid_t pid, struct socket_inodes *inodes);
int __wrap_socket_inodes_read(pid_t pid, struct socket_inodes *inodes)
{
	(void)pid;
	inodes->cut = false;
	for (inodes->count = 0; inodes->count < OWN_INODES; inodes->count++)
		inodes->inodes[inodes->count] = (uint32_t)inodes->count + 1;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct metric_sample samples[SAMPLER_SAMPLES_MAX];
	struct sampler *sampler;

	input = (struct fuzz_input){bytes, length};
	fuzz_require(tcp_sampler_create(getpid(), 0, NULL, &sampler) == 0);
	for (int64_t i = 1; i <= LOOKS; i++) {
		struct host_ns now = {i * 1000000000};

		fuzz_require(sampler_sample(sampler, now, samples, SAMPLER_SAMPLES_MAX) <=
			     SAMPLER_SAMPLES_MAX);
	}
	sampler_destroy(sampler);
	return 0;
}
