/* SPDX-License-Identifier: Apache-2.0 */
/* The listener against real nng peers in a process of their own (this program, with "ask ..."). */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "coordinator/listener.h"
#include "coordinator/peers.h"
#include "probe/wire/decode.h"

extern char **environ;

enum {
	CLIENT_COUNT = 40,
	WAIT_MS = 60000,
	RESEND_NEVER_MS = 3600000, /* but at once when the connection breaks */
};

/* What the callback saw; it runs in the listener's thread. */
struct service {
	atomic_int inside;
	atomic_int overlaps;
	atomic_int requests;
	atomic_int disorder;
	atomic_int refuse; /* so many requests get no answer */
	atomic_int delay_ms;
	int64_t last_received;
	atomic_int
		marked; /* requests until the one of MARKED_BYTES, it included; 0: it did not come */
};

static void sleep_ms(int time_ms)
{
	struct timespec time = {time_ms / 1000, time_ms % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

enum {
	STRANGE = 'x', /* a message that begins so is not believed */
	MARKED_BYTES = 5000,
};

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
	if (length == MARKED_BYTES)
		atomic_store(&service->marked, atomic_load(&service->requests));
	sleep_ms(atomic_load(&service->delay_ms));
	if (atomic_load(&service->refuse) > 0) {
		atomic_fetch_sub(&service->refuse, 1);
		result = -ENOMEM;
	}
	reply->number = length;
	reply->probe_id = length ? *(const uint8_t *)bytes : 0;
	reply->accepted = !(length && *(const uint8_t *)bytes == STRANGE);
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

static void ipc_url(char url[64])
{
	static int number; /* each test has a path of its own */

	snprintf(url, 64, "ipc:///tmp/slowrank-listener-%d-%d", (int)getpid(), number++);
}

/* A process with peers, as real jobs have them: nng keeps one state for all of a process. */
struct client {
	pid_t pid;
	int fd;
};

static void client_await(const struct client *client, char expected)
{
	struct pollfd waited = {.fd = client->fd, .events = POLLIN};
	char got = '-';

	if (poll(&waited, 1, WAIT_MS) != 1 || read(client->fd, &got, 1) != 1 || got != expected)
		fail_msg("the client says '%c', not '%c'", got, expected);
}

/* Starts it; with all its peers connected when this returns. */
static struct client client_start(const char *url, int peers, size_t length, int resend_ms)
{
	struct client client;
	char peers_text[16], length_text[24], resend_text[16];
	char *arguments[] = {(char *)"test_listener", (char *)"ask", (char *)url, peers_text,
		length_text, resend_text, NULL};
	posix_spawn_file_actions_t actions;
	int fds[2];

	snprintf(peers_text, sizeof(peers_text), "%d", peers);
	snprintf(length_text, sizeof(length_text), "%zu", length);
	snprintf(resend_text, sizeof(resend_text), "%d", resend_ms);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	assert_int_equal(
		posix_spawn(&client.pid, "/proc/self/exe", &actions, NULL, arguments, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	client.fd = fds[0];
	client_await(&client, 'c');
	return client;
}

/* Each peer sends one request more; it is on its way when this returns. */
static void client_ask(const struct client *client)
{
	assert_int_equal(send(client->fd, "g", 1, MSG_NOSIGNAL), 1);
	client_await(client, 's');
}

/* Each peer has the answer to its own request. */
static void client_check_answers(const struct client *client)
{
	client_await(client, 'a');
}

static void client_end(const struct client *client)
{
	int status;

	close(client->fd);
	assert_int_equal(waitpid(client->pid, &status, 0), client->pid);
	assert_int_equal(status, 0);
}

static int dial(nng_socket *socket, const char *url, int resend_ms)
{
	int error = nng_req0_open(socket);

	nng_socket_set_ms(*socket, NNG_OPT_RECVTIMEO, WAIT_MS);
	nng_socket_set_ms(*socket, NNG_OPT_REQ_RESENDTIME, resend_ms);
	nng_socket_set_ms(*socket, NNG_OPT_RECONNMINT, 20);
	return error ? error : nng_dial(*socket, url, NULL, 0);
}

static int ask(nng_socket socket, int first, size_t length)
{
	nng_msg *message;
	int error = nng_msg_alloc(&message, length);

	if (error)
		return error;
	memset(nng_msg_body(message), first, length);
	return nng_sendmsg(socket, message, 0);
}

static int check_answer(nng_socket socket, int first, size_t length)
{
	struct message_reply reply;
	nng_msg *message;
	int error = nng_recvmsg(socket, &message, 0);

	if (error)
		return error;
	error = wire_decode_reply(nng_msg_body(message), nng_msg_len(message), &reply, NULL);
	nng_msg_free(message);
	if (!error &&
		(reply.number != length || reply.probe_id != (uint64_t)first ||
			reply.received.value <= 0 || reply.reply_sent.value < reply.received.value))
		error = NNG_EPROTO;
	return error;
}

/*
 * The client: one request of each peer for every byte that comes in, until none comes any more.
 * Says 'c' when all are connected, 's' when all have sent, 'a' when all are answered. It ends
 * without closing its sockets, as a probe that is killed.
 */
static int run_client(const char *url, int peers, size_t length, int resend_ms)
{
	nng_socket sockets[CLIENT_COUNT];
	int error = peers > CLIENT_COUNT ? NNG_EINVAL : 0;
	char order;

	for (int i = 0; i < peers && !error; i++)
		error = dial(&sockets[i], url, resend_ms);
	if (!error && write(STDOUT_FILENO, "c", 1) != 1)
		error = NNG_ECLOSED;
	for (size_t round = 0; !error && read(STDIN_FILENO, &order, 1) == 1; round++) {
		for (int i = 0; i < peers && !error; i++)
			error = ask(sockets[i], i + 1, length + (size_t)i + round);
		if (!error && write(STDOUT_FILENO, "s", 1) != 1)
			error = NNG_ECLOSED;
		for (int i = 0; i < peers && !error; i++)
			error = check_answer(sockets[i], i + 1, length + (size_t)i + round);
		if (!error && write(STDOUT_FILENO, "a", 1) != 1)
			error = NNG_ECLOSED;
	}
	if (error)
		fprintf(stderr, "client: %s\n", nng_strerror(error));
	return error ? 1 : 0;
}

static void check_many_clients(const char *url)
{
	struct service service = {.delay_ms = 1};
	struct listener *listener = listen_at(&service, url);
	struct client client =
		client_start(listener_url(listener, 0), CLIENT_COUNT, 1, RESEND_NEVER_MS);
	struct listener_state state;

	/* More requests at once than the listener has room for: the rest wait outside. */
	for (int round = 0; round < 5; round++) {
		client_ask(&client);
		client_check_answers(&client);
	}
	listener_get_state(listener, &state);
	assert_int_equal(state.peers, CLIENT_COUNT);
	assert_int_equal(state.requests, 5 * CLIENT_COUNT);
	assert_int_equal(state.unanswered, 0);
	assert_int_equal(service.overlaps, 0);
	assert_int_equal(service.disorder, 0);
	client_end(&client);
	for (int i = 0; i < WAIT_MS / 10 && state.peers; i++) {
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

/* By a socket of this host's own, and by an address that has told of no rank. */
static struct listener *listen_at_both(struct service *service, char own[64])
{
	const char *urls[] = {own, "tcp://127.0.0.1:0"};
	struct listener_options options = {
		.urls = urls, .url_count = 2, .on_request = serve, .context = service};
	struct listener *listener = NULL;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	ipc_url(own);
	if (listener_create(&options, &listener, why))
		fail_msg("%s", why);
	return listener;
}

/* What outsiders have sent before, however much, is answered later; and in the order of the times that are told. */
static void test_outsiders_wait(void **state)
{
	struct service service = {.delay_ms = 40};
	struct client own, outside;
	struct listener *listener;
	char url[64];

	(void)state;
	listener = listen_at_both(&service, url);
	outside = client_start(listener_url(listener, 1), CLIENT_COUNT, 1, RESEND_NEVER_MS);
	own = client_start(url, 1, MARKED_BYTES, RESEND_NEVER_MS);
	client_ask(&outside);
	client_ask(&own);
	client_check_answers(&own);
	assert_in_range(service.marked, 1, CLIENT_COUNT - 1);
	client_check_answers(&outside);
	assert_int_equal(service.requests, CLIENT_COUNT + 1);
	assert_int_equal(service.disorder, 0);
	client_end(&own);
	client_end(&outside);
	listener_destroy(listener);
}

/* However much the job's own send: two clients of whom one has always sent again before the other is answered. */
static void test_outsiders_have_a_turn(void **state)
{
	enum { ROUNDS = 6 };
	struct service service = {.delay_ms = 3};
	struct client own[2], outside;
	struct listener *listener;
	char url[64];

	(void)state;
	listener = listen_at_both(&service, url);
	outside = client_start(listener_url(listener, 1), 1, MARKED_BYTES, RESEND_NEVER_MS);
	for (int i = 0; i < 2; i++)
		own[i] = client_start(url, CLIENT_COUNT, 1, RESEND_NEVER_MS);
	client_ask(&own[0]);
	client_ask(&outside);
	for (int i = 0; i < ROUNDS; i++) {
		client_ask(&own[(i + 1) % 2]);
		client_check_answers(&own[i % 2]);
	}
	client_check_answers(&own[ROUNDS % 2]);
	client_check_answers(&outside);
	assert_in_range(service.marked, 1, ROUNDS * CLIENT_COUNT);
	assert_int_equal(service.disorder, 0);
	for (int i = 0; i < 2; i++)
		client_end(&own[i]);
	client_end(&outside);
	listener_destroy(listener);
}

/* One request of a peer, and its answer. */
static void check_one(const char *url, size_t length, int resend_ms)
{
	struct client client = client_start(url, 1, length, resend_ms);

	client_ask(&client);
	client_check_answers(&client);
	client_end(&client);
}

static void test_unanswered_request_is_sent_again(void **state)
{
	struct service service = {.refuse = 2};
	struct listener *listener;
	struct listener_state found;
	char url[64];

	(void)state;
	ipc_url(url);
	listener = listen_at(&service, url);
	check_one(url, 1, 200);
	listener_get_state(listener, &found);
	assert_int_equal(found.unanswered, 2);
	assert_true(found.requests >= 3); /* more on a slow machine */
	listener_destroy(listener);
}

static void test_largest_message(void **state)
{
	struct service service = {0};
	struct listener *listener = listen_at(&service, "tcp://127.0.0.1:0");

	(void)state;
	check_one(listener_url(listener, 0), WIRE_MESSAGE_LENGTH_MAX, RESEND_NEVER_MS);
	listener_destroy(listener);
}

/* A stranger's connection, in plain TCP. */
static int connect_to(const char *url, const void *bytes, size_t length)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1)),
		.sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct timeval timeout = {.tv_sec = 10};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), length);
	return fd;
}

/* What it sends, and that the listener then hangs up. */
static void check_hangs_up(const char *url, const void *bytes, size_t length)
{
	int fd = connect_to(url, bytes, length);
	char answer[64];
	ssize_t got;

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
	struct client client = client_start(listener_url(listener, 0), 1, 1, RESEND_NEVER_MS);

	(void)state;
	check_hangs_up(listener_url(listener, 0), too_long, sizeof(too_long));
	check_hangs_up(listener_url(listener, 0), foreign, sizeof(foreign) - 1);
	check_hangs_up(listener_url(listener, 0), no_request_id, sizeof(no_request_id));
	client_ask(&client);
	client_check_answers(&client);
	assert_int_equal(service.requests, 1);
	client_end(&client);
	listener_destroy(listener);
}

/*
 * Half messages of 8 MiB, also behind a whole one that nobody believed: few are kept, none for long, and those who work
 * are answered.
 */
static void test_half_messages(void **state)
{
	enum { STRANGERS = 100, HALF_BYTES = 1 << 20, IDLE_MS = 6000 };
	static uint8_t half[HALF_BYTES] = {
		0, 'S', 'P', 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0x80};
	static const uint8_t refused[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5,
		0x80, 0, 0, 1, STRANGE, 0, 0, 0, 0, 0, 0x80, 0, 0};
	const char *urls[] = {"tcp://127.0.0.1:0"};
	struct service service = {0};
	struct listener_options options = {.urls = urls,
		.url_count = 1,
		.on_request = serve,
		.context = &service,
		.idle_ms = IDLE_MS};
	struct listener *listener = NULL;
	struct listener_state found;
	int fds[STRANGERS];

	(void)state;
	assert_int_equal(listener_create(&options, &listener, NULL), 0);
	for (int i = 0; i < STRANGERS; i++)
		fds[i] = i < STRANGERS / 2
				 ? connect_to(listener_url(listener, 0), refused, sizeof(refused))
				 : connect_to(listener_url(listener, 0), half,
					   i < STRANGERS - 4 ? 100 : sizeof(half));
	check_one(listener_url(listener, 0), 1, RESEND_NEVER_MS);
	for (int waited_ms = 0; waited_ms < IDLE_MS / 2; waited_ms += 50) {
		listener_get_state(listener, &found);
		if (found.peers <= PEERS_STRANGERS_MAX + 1)
			break;
		sleep_ms(50);
	}
	assert_in_range(found.peers, 0, PEERS_STRANGERS_MAX + 1);
	for (int i = 0; i < STRANGERS; i++) {
		uint8_t answer[64];
		ssize_t got;

		do
			got = recv(fds[i], answer, sizeof(answer), 0);
		while (got > 0);
		assert_true(got == 0 || errno == ECONNRESET);
		close(fds[i]);
	}
	check_one(listener_url(listener, 0), 1, RESEND_NEVER_MS);
	listener_get_state(listener, &found);
	/* One by one as they stay, or as one that waits for longest makes room, where others come before it was looked at. */
	assert_true(found.idle_closed + found.over_connections >= STRANGERS);
	listener_destroy(listener);
}

/* Closing while requests wait: they are not lost, the next listener gets them. */
static void test_restart(void **state)
{
	struct service first = {.delay_ms = 50}, second = {0};
	struct listener *listener;
	struct client client;
	char url[64];

	(void)state;
	ipc_url(url);
	listener = listen_at(&first, url);
	client = client_start(url, CLIENT_COUNT, 1, RESEND_NEVER_MS);
	client_ask(&client);
	for (int i = 0; i < WAIT_MS && !atomic_load(&first.requests); i++)
		sleep_ms(1);
	listener_destroy(listener);
	assert_in_range(first.requests, 1, CLIENT_COUNT - 1);
	listener = listen_at(&second, url);
	client_check_answers(&client);
	assert_true(first.requests + second.requests >= CLIENT_COUNT);
	client_end(&client);
	listener_destroy(listener);
}

/* A coordinator that was killed leaves its socket file behind; the next one takes it over. */
static void test_stale_socket_file(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct service service = {0};
	struct listener *listener;
	char url[64];

	(void)state;
	ipc_url(url);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", url + strlen("ipc://"));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	close(fd);
	assert_int_equal(access(address.sun_path, F_OK), 0);
	listener = listen_at(&service, url);
	check_one(url, 1, RESEND_NEVER_MS);
	listener_destroy(listener);
	assert_int_equal(access(address.sun_path, F_OK), -1);
}

/* As probes that are killed as soon as they are connected: others are heard all the same. */
static void test_peers_that_end_at_once(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct service service = {0};
	struct listener *listener;
	struct client before;
	char url[64];

	(void)state;
	ipc_url(url);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", url + strlen("ipc://"));
	listener = listen_at(&service, url);
	before = client_start(url, 1, 100, RESEND_NEVER_MS);
	for (int i = 0; i < 1000; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
			sleep_ms(1);
		close(fd);
	}
	sleep_ms(200);
	listener_look_after(listener);
	check_one(url, 1, RESEND_NEVER_MS);
	client_ask(&before);
	client_check_answers(&before);
	client_end(&before);
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

/* The URL decides, and not where the peer is: both are dialled from this host here. */
static void test_open_beside_proven(void **state)
{
	static const uint8_t key[SEAL_KEY_BYTES] = {1};
	struct service service = {0};
	char url[64], beyond[64];
	const char *urls[] = {url, "tcp://0.0.0.0:0"};
	struct listener_options options = {
		.urls = urls, .url_count = 2, .on_request = serve, .context = &service, .key = key};
	struct listener *listener = NULL;
	struct listener_state found;
	struct message_reply reply;
	nng_socket socket;
	nng_msg *message;

	(void)state;
	ipc_url(url);
	assert_int_equal(listener_create(&options, &listener, NULL), 0);
	check_one(url, 1, RESEND_NEVER_MS);
	assert_int_equal(service.requests, 1);
	snprintf(beyond, sizeof(beyond), "tcp://127.0.0.1%s",
		strrchr(listener_url(listener, 1), ':'));
	assert_int_equal(dial(&socket, beyond, RESEND_NEVER_MS), 0);
	assert_int_equal(ask(socket, 1, 1), 0);
	assert_int_equal(nng_recvmsg(socket, &message, 0), 0);
	assert_int_equal(
		wire_decode_reply(nng_msg_body(message), nng_msg_len(message), &reply, NULL), 0);
	nng_msg_free(message);
	nng_close(socket);
	assert_false(reply.accepted);
	assert_string_equal(reply.why, gate_refusal_text(GATE_UNPROVEN));
	listener_get_state(listener, &found);
	assert_int_equal(found.refused[GATE_UNPROVEN], 1);
	assert_int_equal(service.requests, 1);
	listener_destroy(listener);
}

/* Without a key nobody listens beyond the loopback, unless that is asked for. */
static void test_no_key(void **state)
{
	struct service service = {0};
	const char *urls[] = {"tcp://0.0.0.0:0"};
	struct listener_options options = {.urls = urls,
		.url_count = 1,
		.on_request = serve,
		.context = &service,
		.insecure = true};
	struct listener *listener = NULL;
	char beyond[64];

	(void)state;
	check_refused(urls[0], -EPERM, "--key-file FILE, or --insecure");
	assert_int_equal(listener_create(&options, &listener, NULL), 0);
	snprintf(beyond, sizeof(beyond), "tcp://127.0.0.1%s",
		strrchr(listener_url(listener, 0), ':'));
	check_one(beyond, 1, RESEND_NEVER_MS);
	assert_int_equal(service.requests, 1);
	listener_destroy(listener);
}

/* nng 1.5.2 leaks connections that are closed while they are being made. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
	return "leak:libnng.so\n";
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_clients_over_ipc),
		cmocka_unit_test(test_many_clients_over_tcp),
		cmocka_unit_test(test_outsiders_wait),
		cmocka_unit_test(test_outsiders_have_a_turn),
		cmocka_unit_test(test_bound_port_is_told),
		cmocka_unit_test(test_unanswered_request_is_sent_again),
		cmocka_unit_test(test_largest_message),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_stale_socket_file),
		cmocka_unit_test(test_peers_that_end_at_once),
		cmocka_unit_test(test_bad_urls),
		cmocka_unit_test(test_open_beside_proven),
		cmocka_unit_test(test_no_key),
		cmocka_unit_test(test_half_messages),
		/* Last: if nng hangs when it closes, then for the whole process. */
		cmocka_unit_test(test_restart),
	};

	if (argc == 6 && !strcmp(argv[1], "ask"))
		return run_client(
			argv[2], atoi(argv[3]), strtoul(argv[4], NULL, 10), atoi(argv[5]));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
