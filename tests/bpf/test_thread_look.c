/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank is that does not move: in which call since when, or in none, and why not. */
#include "tests/bpf/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "bpf/thread_shared.h"
#include "probe/sources/thread_look.h"

static const struct bpf_source_options whole = {.collectives = true, .sched = true, .faults = true};

static void nap_ms(unsigned ms)
{
	usleep(ms * 1000);
}

static void open_call(void **state)
{
	struct harness harness;
	struct thread_look look;

	(void)state;
	harness_start(&harness, &whole);
	struct rank rank = rank_start();
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	int64_t handle = rank_do(&rank, "address 0");
	rank_do(&rank, "barrier 0");
	rank_do(&rank, "behave 0 600 0 0");
	int64_t before = now_ns();
	rank_order(&rank, "barrier 0");
	nap_ms(200);
	assert_int_equal(thread_look(harness.source, rank.pid, &look), 0);
	assert_true(look.open);
	assert_int_equal(look.call.row, row_of("MPI_Barrier"));
	assert_int_equal(look.call.sequence, 1);
	assert_int_equal(look.call.handle, handle);
	assert_in_range(look.call.arrival_ns, before, before + 150000000);
	assert_int_equal(look.state, 'S');
	assert_int_equal(look.reason, REASON_ASLEEP);
	rank_answer(&rank);
	/* It has left: waiting for an order is in no call. */
	nap_ms(50);
	assert_int_equal(thread_look(harness.source, rank.pid, &look), 0);
	assert_false(look.open);
	assert_int_equal(look.reason, REASON_ASLEEP);
	assert_in_range(look.entered_ns, before, before + 150000000); /* the barrier */
	rank_end(&rank);
	harness_end(&harness);
}

static void stopped(void **state)
{
	struct harness harness;
	struct thread_look look;

	(void)state;
	harness_start(&harness, &whole);
	struct rank rank = rank_start();
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	rank_do(&rank, "barrier 0");
	assert_int_equal(kill(rank.pid, SIGSTOP), 0);
	nap_ms(50);
	assert_int_equal(thread_look(harness.source, rank.pid, &look), 0);
	assert_int_equal(look.state, 'T');
	assert_false(look.open);
	/* Without the kernel side this is all there is. */
	assert_int_equal(thread_look(NULL, rank.pid, &look), 0);
	assert_int_equal(look.state, 'T');
	assert_int_equal(kill(rank.pid, SIGCONT), 0);
	rank_end(&rank);
	assert_int_equal(thread_look(harness.source, rank.pid, &look), -ESRCH);
	harness_end(&harness);
}

/* What a process reads and writes is told without the kernel side. */
static void read_and_written(void **state)
{
	static char bytes[1 << 20];
	struct thread_look before, after;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	/* What reached a disk so far, unasked, is no more than what was asked for from here on. */
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	assert_int_equal(thread_look(NULL, getpid(), &before), 0);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	assert_int_equal(thread_look(NULL, getpid(), &after), 0);
	assert_in_range(after.io_bytes - before.io_bytes, sizeof(bytes), sizeof(bytes) + 65536);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_call),
		cmocka_unit_test(read_and_written),
		cmocka_unit_test(stopped),
	};
	int skipped = harness_check();

	return skipped ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
