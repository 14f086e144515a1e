/* SPDX-License-Identifier: Apache-2.0 */
/* The tcp sampler against real sockets, also in a network namespace of their own. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/sources/tcp.h"
#include "probe/sources/tcp_tables.h"
#include "tests/unit/sources/child.h"
#include "tests/unit/sources/samples.h"

enum { CONNECTIONS = 64, SEND_BYTES = 100000 };

static int listener = -1, senders[CONNECTIONS], receivers[CONNECTIONS], connection_count;

static int family = AF_INET;

static void connect_one(void)
{
	struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in ipv4 = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr *address =
		family == AF_INET ? (struct sockaddr *)&ipv4 : (struct sockaddr *)&ipv6;
	socklen_t length = family == AF_INET ? sizeof(ipv4) : sizeof(ipv6);

	if (listener < 0) {
		listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(listener, address, length) < 0 || listen(listener, CONNECTIONS) < 0)
			abort();
	}
	getsockname(listener, address, &length);
	senders[connection_count] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(senders[connection_count], address, length) < 0)
		abort();
	receivers[connection_count] = accept(listener, NULL, NULL);
	connection_count++;
}

static void send_some(void)
{
	static char bytes[SEND_BYTES];
	size_t received = 0;

	if (send(senders[0], bytes, sizeof(bytes), 0) != SEND_BYTES)
		abort();
	while (received < SEND_BYTES) {
		ssize_t length = recv(receivers[0], bytes, sizeof(bytes), 0);

		if (length <= 0)
			abort();
		received += (size_t)length;
	}
}

static void loopback_up(void)
{
	struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(request.ifr_name, "lo");
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		abort();
	close(fd);
}

/* Until the receiver, which does not read, has no room for more. */
static void send_unread(void)
{
	static char bytes[SEND_BYTES];

	while (send(senders[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0 ||
		poll(&(struct pollfd){.fd = senders[0], .events = POLLOUT}, 1, 100) > 0)
		;
}

/* 'c': one connection more; 'm': all of them; 's': send; 'u': send what nobody reads; 'x': close all; 'n': own namespace. */
static void serve(char order)
{
	switch (order) {
	case 'c':
		connect_one();
		break;
	case 'm':
		while (connection_count < CONNECTIONS)
			connect_one();
		break;
	case 's':
		send_some();
		break;
	case 'u':
		send_unread();
		break;
	case 'x':
		while (connection_count > 0) {
			connection_count--;
			close(senders[connection_count]);
			close(receivers[connection_count]);
		}
		break;
	case '6':
		family = AF_INET6;
		close(listener);
		listener = -1;
		break;
	case 'n':
		if (unshare(CLONE_NEWNET) == 0)
			loopback_up();
		break;
	}
}

/* A sender has data all the while that its receiver does not read: it is not its link that is busy. */
static void tcp_that_nobody_reads(void **state)
{
	struct child child = child_start(serve);
	struct timespec pause = {.tv_nsec = 300000000};
	struct sampler *sampler;
	int64_t busy_ns;

	(void)state;
	child_do(&child, 'c');
	assert_int_equal(tcp_sampler_create(child.pid, TEST_RANK, NULL, &sampler), 0);
	child_do(&child, 'u');
	busy_ns = sample_of(sampler, METRIC_TCP_BUSY_NS);
	nanosleep(&pause, NULL);
	clock_ahead_ns += INT64_C(1000000000);
	if (sampler_state(sampler)->state == SOURCE_MISSING)
		printf("not measurable here: %s\n", sampler_state(sampler)->why);
	else
		assert_in_range(
			sample_of(sampler, METRIC_TCP_BUSY_NS) - busy_ns, 0, pause.tv_nsec / 10);
	child_end(&child);
	sampler_destroy(sampler);
}

static bool in_own_namespace(pid_t pid)
{
	char path[64], own[64] = "", other[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	return readlink("/proc/self/ns/net", own, sizeof(own) - 1) > 0 &&
	       readlink(path, other, sizeof(other) - 1) > 0 && strcmp(own, other) != 0;
}

/* Of the first one. Where the kernel does not tell of its connections, they end, and the test is skipped. */
static struct sampler *sampler_of(struct child *children, size_t count)
{
	struct sampler *sampler;

	assert_int_equal(tcp_sampler_create(children[0].pid, TEST_RANK, NULL, &sampler), 0);
	if (sampler_state(sampler)->state == SOURCE_MISSING) {
		printf("not measurable here: %s\n", sampler_state(sampler)->why);
		sampler_destroy(sampler);
		for (size_t i = 0; i < count; i++)
			child_end(&children[i]);
		skip();
	}
	return sampler;
}

static void check_sums(struct child *child)
{
	struct sampler *sampler;
	int64_t sent;

	child_do(child, 'c');
	sampler = sampler_of(child, 1);
	/* An idle connection is measured, and has sent nothing. */
	assert_int_equal(sample_of(sampler, METRIC_TCP_BYTES_SENT), 0);
	child_do(child, 's');
	sent = sample_of(sampler, METRIC_TCP_BYTES_SENT);
	assert_in_range(sent, SEND_BYTES, SEND_BYTES + 1000);
	assert_true(sample_of(sampler, METRIC_TCP_BUSY_NS) >= 0);
	assert_true(sample_of(sampler, METRIC_TCP_BYTES_RETRANSMITTED) >= 0);
	/* Closing takes nothing back, and a new connection adds to it. */
	child_do(child, 'x');
	assert_int_equal(sample_of(sampler, METRIC_TCP_BYTES_SENT), sent);
	child_do(child, 'c');
	child_do(child, 's');
	clock_ahead_ns += INT64_C(5000000000); /* new sockets are looked for seldom */
	assert_in_range(
		sample_of(sampler, METRIC_TCP_BYTES_SENT), 2 * SEND_BYTES, 2 * SEND_BYTES + 2000);
	child_do(child, 'm');
	print_cost(sampler, "tcp with 128 sockets");
	child_end(child);
	assert_int_equal(sample_of(sampler, METRIC_TCP_BYTES_SENT), -1);
	sampler_destroy(sampler);
}

static void tcp_in_this_namespace(void **state)
{
	struct child child = child_start(serve);

	(void)state;
	check_sums(&child);
}

/* The kernel tells of both families in one answer. */
static void tcp_of_ipv6(void **state)
{
	struct child child = child_start(serve);

	(void)state;
	if (access("/proc/net/if_inet6", F_OK) < 0) {
		print_message("skipped: no IPv6\n");
		child_end(&child);
		skip();
	}
	child_do(&child, '6');
	check_sums(&child);
}

static void tcp_in_its_own_namespace(void **state)
{
	struct child child = child_start(serve);

	(void)state;
	child_do(&child, 'n');
	if (!in_own_namespace(child.pid)) {
		child_end(&child);
		skip(); /* needs CAP_SYS_ADMIN */
	}
	check_sums(&child);
}

static void set_right_to_enter(bool has)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	data[0].effective = has ? data[0].permitted : data[0].permitted & ~(1u << CAP_SYS_ADMIN);
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void count_socket(void *context, const struct tcp_socket *socket)
{
	(void)socket;
	++*(size_t *)context;
}

/* What was opened while there was the right to can be looked at without it. */
static void tcp_in_a_namespace_opened_before(void **state)
{
	struct child children[2] = {child_start(serve), child_start(serve)};
	struct tcp_tables *tables;
	size_t seen = 0;

	(void)state;
	child_do(&children[0], 'n');
	child_do(&children[1], 'n');
	child_do(&children[0], 'c');
	if (!in_own_namespace(children[0].pid)) {
		child_end(&children[0]);
		child_end(&children[1]);
		skip(); /* needs CAP_SYS_ADMIN */
	}
	sampler_destroy(sampler_of(children, 2));
	assert_int_equal(tcp_tables_create(&tables), 0);
	tcp_tables_open(tables, children[0].pid);
	set_right_to_enter(false);
	for (int64_t look = 1; look < 3; look++) {
		assert_int_equal(tcp_tables_look(tables, children[0].pid, (struct host_ns){look},
					 count_socket, &seen),
			0);
		assert_int_equal(tcp_tables_look(tables, children[1].pid, (struct host_ns){look},
					 count_socket, &seen),
			-EPERM);
	}
	set_right_to_enter(true);
	assert_true(seen > 0);
	tcp_tables_destroy(tables);
	child_end(&children[0]);
	child_end(&children[1]);
}

/* Sockets of another process in the same namespace are not the rank's. */
static void tcp_of_others_do_not_count(void **state)
{
	struct child rank = child_start(serve), other = child_start(serve);
	struct sampler *sampler;

	(void)state;
	child_do(&rank, 'c');
	child_do(&other, 'c');
	assert_int_equal(tcp_sampler_create(rank.pid, TEST_RANK, NULL, &sampler), 0);
	child_do(&other, 's');
	if (sampler_state(sampler)->state != SOURCE_MISSING)
		assert_int_equal(sample_of(sampler, METRIC_TCP_BYTES_SENT), 0);
	sampler_destroy(sampler);
	child_end(&rank);
	child_end(&other);
}

/* Two ranks of one namespace share one answer of the kernel, and each finds its own in it. */
static void tcp_shared_tables(void **state)
{
	struct child children[2] = {child_start(serve), child_start(serve)};
	struct metric_sample samples[2][SAMPLER_SAMPLES_MAX];
	struct sampler *samplers[2];
	struct tcp_tables *tables;
	struct host_ns now;

	(void)state;
	assert_int_equal(tcp_tables_create(&tables), 0);
	for (int i = 0; i < 2; i++) {
		child_do(&children[i], 'c');
		assert_int_equal(
			tcp_sampler_create(children[i].pid, TEST_RANK, tables, &samplers[i]), 0);
	}
	child_do(&children[1], 's');
	now = clock_now();
	if (sampler_state(samplers[0])->state != SOURCE_MISSING) {
		for (int i = 0; i < 2; i++) {
			size_t count =
				sampler_sample(samplers[i], now, samples[i], SAMPLER_SAMPLES_MAX);

			assert_true(count >= 3);
			assert_int_equal(samples[i][1].metric, METRIC_TCP_BYTES_SENT);
		}
		assert_int_equal(samples[0][1].value, 0);
		assert_in_range(samples[1][1].value, SEND_BYTES, SEND_BYTES + 1000);
		/* Sent after the kernel was asked: seen with the next now only. */
		child_do(&children[0], 's');
		(void)sampler_sample(samplers[0], now, samples[0], SAMPLER_SAMPLES_MAX);
		assert_int_equal(samples[0][1].value, 0);
		assert_in_range(sample_of(samplers[0], METRIC_TCP_BYTES_SENT), SEND_BYTES,
			SEND_BYTES + 1000);
	}
	for (int i = 0; i < 2; i++) {
		sampler_destroy(samplers[i]);
		child_end(&children[i]);
	}
	tcp_tables_destroy(tables);
}

/* As an ordinary user, another user's process in another namespace: a reason, not a zero. */
static void without_rights_it_is_not_measurable(void **state)
{
	struct child child = child_start(serve);
	int status;
	pid_t looker;

	(void)state;
	child_do(&child, 'n');
	if (geteuid() != 0 || !in_own_namespace(child.pid)) {
		child_end(&child);
		skip();
	}
	looker = fork();
	if (looker == 0) {
		struct sampler *tcp;

		if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0 ||
			tcp_sampler_create(child.pid, TEST_RANK, NULL, &tcp) < 0)
			_exit(2);
		_exit(!(sampler_state(tcp)->state == SOURCE_MISSING &&
			strstr(sampler_state(tcp)->why, "CAP_") &&
			sample_of(tcp, METRIC_TCP_BYTES_SENT) == -1));
	}
	assert_int_equal(waitpid(looker, &status, 0), looker);
	assert_int_equal(status, 0);
	child_end(&child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tcp_in_this_namespace),
		cmocka_unit_test(tcp_of_ipv6),
		cmocka_unit_test(tcp_in_its_own_namespace),
		cmocka_unit_test(tcp_of_others_do_not_count),
		cmocka_unit_test(tcp_in_a_namespace_opened_before),
		cmocka_unit_test(tcp_shared_tables),
		cmocka_unit_test(tcp_that_nobody_reads),
		cmocka_unit_test(without_rights_it_is_not_measurable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
