/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/start_gate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

enum start_state {
	START_HELD = 0, /* what fresh memory holds */
	START_READY = 1,
	START_EARLY = 2,  /* the probe was not ready; */
	START_JOINED = 3, /* it is now */
};

int start_gate_create(struct start_gate *gate)
{
	int fds[2];
	void *page = mmap(NULL, sizeof(*gate->state), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -errno;
	if (pipe2(fds, O_CLOEXEC) < 0) {
		int error = -errno;

		munmap(page, sizeof(*gate->state));
		return error;
	}
	*gate = (struct start_gate){.state = page, .waiting_fd = fds[0], .opening_fd = fds[1]};
	return 0;
}

/* Exactly one of the two processes succeeds. */
static bool decide(struct start_gate *gate, enum start_state state)
{
	int held = START_HELD;

	return atomic_compare_exchange_strong(gate->state, &held, state);
}

void start_gate_wait(struct start_gate *gate)
{
	struct pollfd waiter = {.fd = gate->waiting_fd, .events = POLLIN};

	close(gate->opening_fd);
	(void)!poll(&waiter, 1, START_LIMIT_MS);
	(void)decide(gate, START_EARLY);
	close(gate->waiting_fd);
}

bool start_gate_open(struct start_gate *gate)
{
	bool in_time = decide(gate, START_READY);

	if (!in_time)
		atomic_store(gate->state, START_JOINED);
	close(gate->opening_fd);
	return in_time;
}

void start_gate_leave(struct start_gate *gate)
{
	close(gate->waiting_fd);
	close(gate->opening_fd);
}

bool start_gate_probe_is_late(const struct start_gate *gate)
{
	return atomic_load(gate->state) == START_EARLY;
}
