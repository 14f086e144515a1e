/* SPDX-License-Identifier: Apache-2.0 */
/* The listener against real nng peers, over ipc and tcp. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "coordinator/listener.h"
#include "probe/wire/decode.h"

enum { CLIENT_COUNT = 40, TIMEOUT_MS = 10000 };

/* What the callback saw; it runs in the listener's thread. */
struct service {
	atomic_int inside;
	atomic_int overlaps;
	atomic_int requests;
	atomic_int disorder;
	atomic_int refuse; /* so many requests get no answer */
	atomic_int delay_ms;
	int64_t last_received;
};

static void sleep_ms(int time_ms)
{
	struct timespec time = {time_ms / 1000, time_ms % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

/* Says back the length and the first byte. */
static int serve(void *context, const void *bytes, size_t length, struct job_ns received,
	struct message_reply *reply)
{
	struct service *service = context;
	int result = 0;

	if (atomic_fetch_add(&service->inside, 1))
		atomic_fetch_add(&service->overlaps, 1);
	if (received.value < service->last_received)
		atomic_fetch_add(&service->disorder, 1);
	service->last_received = received.value;
	atomic_fetch_add(&service->requests, 1);
	sleep_ms(atomic_load(&service->delay_ms));
	if (atomic_load(&service->refuse) > 0) {
		atomic_fetch_sub(&service->refuse, 1);
		result = -ENOMEM;
	}
	reply->number = length;
	reply->probe_id = length ? *(const uint8_t *)bytes : 0;
	reply->accepted = 1;
	atomic_fetch_sub(&service->inside, 1);
	return result;
}

static struct listener *listen_at(struct service *service, const char *url)
{
	const char *urls[] = {url};
	struct listener_options options = {
		.urls = urls, .url_count = 1, .on_request = serve, .context = service};
	struct listener *listener = NULL;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	if (listener_create(&options, &listener, why))
		fail_msg("%s", why);
	return listener;
}

static nng_socket dial(const char *url)
{
	nng_socket socket;

	assert_int_equal(nng_req0_open(&socket), 0);
	nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, TIMEOUT_MS);
	nng_socket_set_ms(socket, NNG_OPT_REQ_RESENDTIME, 200);
	nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, 20);
	assert_int_equal(nng_dial(socket, url, NULL, 0), 0);
	return socket;
}

static void ask(nng_socket socket, const void *bytes, size_t length)
{
	nng_msg *message;

	assert_int_equal(nng_msg_alloc(&message, 0), 0);
	assert_int_equal(nng_msg_append(message, bytes, length), 0);
	assert_int_equal(nng_sendmsg(socket, message, 0), 0);
}

static void check_answer(nng_socket socket, uint8_t first, size_t length)
{
	struct message_reply reply;
	nng_msg *message;

	assert_int_equal(nng_recvmsg(socket, &message, 0), 0);
	assert_int_equal(
		wire_decode_reply(nng_msg_body(message), nng_msg_len(message), &reply, NULL), 0);
	nng_msg_free(message);
	assert_int_equal(reply.number, length);
	assert_int_equal(reply.probe_id, first);
	assert_true(reply.reply_sent.value >= reply.received.value);
	assert_true(reply.received.value > 0);
}

static void ipc_url(char url[64])
{
	snprintf(url, 64, "ipc:///tmp/slowrank-listener-%d", (int)getpid());
}

static void check_many_clients(const char *url)
{
	struct service service = {.delay_ms = 1};
	struct listener *listener = listen_at(&service, url);
	nng_socket sockets[CLIENT_COUNT];
	struct listener_state state;

	for (int i = 0; i < CLIENT_COUNT; i++)
		sockets[i] = dial(listener_url(listener, 0));
	for (int round = 0; round < 5; round++) {
		uint8_t bytes[1000];

		/* More requests at once than the listener has room for: the rest wait outside. */
		for (int i = 0; i < CLIENT_COUNT; i++) {
			memset(bytes, i, sizeof(bytes));
			ask(sockets[i], bytes, (size_t)(1 + i + round));
		}
		for (int i = 0; i < CLIENT_COUNT; i++)
			check_answer(sockets[i], (uint8_t)i, (size_t)(1 + i + round));
	}
	listener_get_state(listener, &state);
	assert_int_equal(state.peers, CLIENT_COUNT);
	assert_true(state.requests >= 5 * CLIENT_COUNT);
	assert_int_equal(state.unanswered, 0);
	assert_int_equal(service.overlaps, 0);
	assert_int_equal(service.disorder, 0);
	for (int i = 0; i < CLIENT_COUNT; i++)
		nng_close(sockets[i]);
	for (int i = 0; i < 500 && state.peers; i++) {
		sleep_ms(10);
		listener_get_state(listener, &state);
	}
	assert_int_equal(state.peers, 0);
	listener_destroy(listener);
}

static void test_many_clients_over_ipc(void **state)
{
	char url[64];

	(void)state;
	ipc_url(url);
	check_many_clients(url);
}

static void test_many_clients_over_tcp(void **state)
{
	(void)state;
	check_many_clients("tcp://127.0.0.1:0");
}

static void test_bound_port_is_told(void **state)
{
	struct service service = {0};
	struct listener *listener = listen_at(&service, "tcp://127.0.0.1:0");

	(void)state;
	assert_int_equal(strncmp(listener_url(listener, 0), "tcp://127.0.0.1:", 16), 0);
	assert_true(atoi(listener_url(listener, 0) + 16) > 0);
	listener_destroy(listener);
}

static void test_unanswered_request_is_sent_again(void **state)
{
	struct service service = {.refuse = 2};
	struct listener *listener;
	struct listener_state found;
	nng_socket socket;
	char url[64];

	(void)state;
	ipc_url(url);
	listener = listen_at(&service, url);
	socket = dial(url);
	ask(socket, "x", 1);
	check_answer(socket, 'x', 1);
	listener_get_state(listener, &found);
	assert_int_equal(found.unanswered, 2);
	assert_int_equal(found.requests, 3);
	nng_close(socket);
	listener_destroy(listener);
}

static void test_largest_message(void **state)
{
	struct service service = {0};
	struct listener *listener = listen_at(&service, "tcp://127.0.0.1:0");
	nng_socket socket = dial(listener_url(listener, 0));
	uint8_t *bytes = calloc(1, WIRE_MESSAGE_LENGTH_MAX);

	(void)state;
	ask(socket, bytes, WIRE_MESSAGE_LENGTH_MAX);
	check_answer(socket, 0, WIRE_MESSAGE_LENGTH_MAX);
	nng_close(socket);
	free(bytes);
	listener_destroy(listener);
}

/* A stranger's connection, in plain TCP: what it sends, and that the listener then hangs up. */
static void check_hangs_up(const char *url, const void *bytes, size_t length)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1)),
		.sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct timeval timeout = {.tv_sec = 10};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char answer[64];
	ssize_t got;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), length);
	do
		got = recv(fd, answer, sizeof(answer), 0);
	while (got > 0);
	assert_true(got == 0 || errno == ECONNRESET);
	close(fd);
}

/* Neither hurts the others: a length of 2^40 bytes, a foreign protocol, a short request. */
static void test_strangers(void **state)
{
	static const uint8_t too_long[] = {
		0, 'S', 'P', 0, 0, 0x30, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 'x'};
	static const uint8_t no_request_id[] = {
		0, 'S', 'P', 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'x'};
	static const char foreign[] = "GET / HTTP/1.0\r\n\r\n";
	struct service service = {0};
	struct listener *listener = listen_at(&service, "tcp://127.0.0.1:0");
	nng_socket socket = dial(listener_url(listener, 0));

	(void)state;
	check_hangs_up(listener_url(listener, 0), too_long, sizeof(too_long));
	check_hangs_up(listener_url(listener, 0), foreign, sizeof(foreign) - 1);
	check_hangs_up(listener_url(listener, 0), no_request_id, sizeof(no_request_id));
	ask(socket, "y", 1);
	check_answer(socket, 'y', 1);
	assert_int_equal(service.requests, 1);
	nng_close(socket);
	listener_destroy(listener);
}

/* Closing while requests wait: they are not lost, the next listener gets them. */
static void test_restart(void **state)
{
	struct service first = {.delay_ms = 50}, second = {0};
	nng_socket sockets[CLIENT_COUNT];
	struct listener *listener;
	char url[64];

	(void)state;
	ipc_url(url);
	listener = listen_at(&first, url);
	for (int i = 0; i < CLIENT_COUNT; i++) {
		sockets[i] = dial(url);
		ask(sockets[i], "z", 1);
	}
	sleep_ms(75);
	listener_destroy(listener);
	assert_true(first.requests < CLIENT_COUNT);
	listener = listen_at(&second, url);
	for (int i = 0; i < CLIENT_COUNT; i++) {
		check_answer(sockets[i], 'z', 1);
		nng_close(sockets[i]);
	}
	assert_true(first.requests + second.requests >= CLIENT_COUNT);
	listener_destroy(listener);
}

/* A coordinator that was killed leaves its socket file behind; the next one takes it over. */
static void test_stale_socket_file(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct service service = {0};
	struct listener *listener;
	nng_socket socket;
	char url[64];

	(void)state;
	ipc_url(url);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", url + strlen("ipc://"));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	close(fd);
	assert_int_equal(access(address.sun_path, F_OK), 0);
	listener = listen_at(&service, url);
	socket = dial(url);
	ask(socket, "x", 1);
	check_answer(socket, 'x', 1);
	nng_close(socket);
	listener_destroy(listener);
	assert_int_equal(access(address.sun_path, F_OK), -1);
}

static void check_refused(const char *url, int error, const char *expected)
{
	struct service service = {0};
	const char *urls[] = {url};
	struct listener_options options = {
		.urls = urls, .url_count = 1, .on_request = serve, .context = &service};
	struct listener *listener = NULL;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	assert_int_equal(listener_create(&options, &listener, why), error);
	assert_null(listener);
	if (!strstr(why, expected))
		fail_msg("'%s' does not say '%s'", why, expected);
	assert_null(strchr(why, '\n'));
}

static void test_bad_urls(void **state)
{
	struct service service = {0};
	struct listener *listener;
	char url[64];

	(void)state;
	check_refused("inproc://x", -EINVAL, "use ipc:///path or tcp://address:port");
	check_refused("http://127.0.0.1:80", -EINVAL, "use ipc:///path");
	check_refused("", -EINVAL, "use ipc:///path");
	check_refused("tcp://127.0.0.1:notaport", -EINVAL, "tcp://127.0.0.1:notaport");
	check_refused("ipc:///nonexistent/folder/socket", -ENOENT, "/nonexistent/folder/socket");
	ipc_url(url);
	listener = listen_at(&service, url);
	check_refused(url, -EADDRINUSE, "another coordinator runs there");
	listener_destroy(listener);
	listener = listen_at(&service, "tcp://127.0.0.1:0");
	check_refused(listener_url(listener, 0), -EADDRINUSE, "another coordinator runs there");
	listener_destroy(listener);
}

/* nng 1.5.2 leaks connections that are closed while they are being made. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
	return "leak:libnng.so\n";
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_clients_over_ipc),
		cmocka_unit_test(test_many_clients_over_tcp),
		cmocka_unit_test(test_bound_port_is_told),
		cmocka_unit_test(test_unanswered_request_is_sent_again),
		cmocka_unit_test(test_largest_message),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_stale_socket_file),
		cmocka_unit_test(test_bad_urls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
