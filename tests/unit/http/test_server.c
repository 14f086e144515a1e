/* SPDX-License-Identifier: Apache-2.0 */
/* The server with real sockets: what it answers, to whom, and what it bears. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "coordinator/http/client.h"
#include "coordinator/http/server.h"
#include "probe/auth/derived_key.h"

enum { WAIT_MS = 20000, ANSWER_BYTES = 64 * 1024, LONG_BYTES = 100 * 1000 * 1000 };

static const char token[DERIVED_KEY_LENGTH] =
	"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static atomic_int released;

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void sleep_ms(int time_ms)
{
	struct timespec time = {time_ms / 1000, time_ms % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

static void handle_secret(
	void *context, const struct http_request *request, struct http_response *response)
{
	(void)request;
	response->body = context;
	response->length = strlen(context);
}

/* What it was asked. */
static void handle_echo(
	void *context, const struct http_request *request, struct http_response *response)
{
	const char *rank = http_request_argument(request, "rank");
	char text[200];

	(void)context;
	snprintf(text, sizeof(text), "[%s] [%s]", request->path, rank ? rank : "none");
	response->context = strdup(text);
	response->body = response->context;
	response->length = strlen(text);
	response->release = free;
	response->status = 202;
	response->type = "text/x-echo";
}

static ssize_t next_long(void *context, uint64_t position, char *to, size_t room)
{
	(void)context;
	if (position >= LONG_BYTES)
		return 0;
	if (room > LONG_BYTES - position)
		room = (size_t)(LONG_BYTES - position);
	memset(to, 'x', room);
	return (ssize_t)room;
}

static void count_release(void *context)
{
	(void)context;
	atomic_fetch_add(&released, 1);
}

static void handle_long(
	void *context, const struct http_request *request, struct http_response *response)
{
	(void)context;
	(void)request;
	response->next = next_long;
	response->release = count_release;
}

/* The same page as it is and deflated, which may be kept. */
static void handle_kept(
	void *context, const struct http_request *request, struct http_response *response)
{
	(void)context;
	response->deflated = http_request_takes_deflated(request);
	response->body = response->deflated ? "small" : "a page";
	response->length = strlen(response->body);
	response->release = count_release;
	response->keeping = strcmp(request->path, "ask") == 0 ? HTTP_KEEP_AND_ASK : HTTP_KEEP;
	snprintf(response->etag, sizeof(response->etag), "v7");
}

static const struct http_handler handlers[] = {
	{.path = "/", .open = true, .handle = handle_secret, .context = (void *)"shell"},
	{.path = "/secret", .handle = handle_secret, .context = (void *)"secret"},
	{.path = "/echo/", .handle = handle_echo},
	{.path = "/long", .handle = handle_long},
	{.path = "/kept/", .handle = handle_kept},
};

static struct http_server *serve(struct http_options options)
{
	char why[HTTP_WHY_LENGTH];
	struct http_server *server = NULL;

	options.handlers = handlers;
	options.handler_count = sizeof(handlers) / sizeof(handlers[0]);
	if (http_server_create(&options, &server, why))
		fail_msg("%s", why);
	return server;
}

static struct http_server *serve_here(void)
{
	return serve((struct http_options){.address = "0", .token = token});
}

static uint16_t port_of(const struct http_server *server)
{
	return (uint16_t)atoi(strrchr(http_server_url(server), ':') + 1);
}

static int connect_to(const char *address, uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(inet_pton(AF_INET, address, &to.sin_addr), 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void send_text(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* All that comes until the other side closes; false: it does not. */
static bool receive(int fd, char answer[ANSWER_BYTES])
{
	int64_t end_ms = now_ms() + WAIT_MS;
	size_t length = 0;

	while (now_ms() < end_ms) {
		struct pollfd waited = {.fd = fd, .events = POLLIN};
		ssize_t got;

		if (poll(&waited, 1, 100) <= 0)
			continue;
		got = recv(fd, answer + length, ANSWER_BYTES - 1 - length, 0);
		if (got <= 0) {
			answer[length] = '\0';
			return true;
		}
		length += (size_t)got;
		if (length == ANSWER_BYTES - 1)
			return false;
	}
	return false;
}

/* The status of one request, and what came; head: its lines behind the first. */
static int ask_at(const char *address, const struct http_server *server, const char *first,
	const char *head, char answer[ANSWER_BYTES])
{
	int fd = connect_to(address, port_of(server)), status;
	char request[1000];

	snprintf(request, sizeof(request), "%s HTTP/1.1\r\n%sConnection: close\r\n\r\n", first,
		head);
	send_text(fd, request);
	assert_true(receive(fd, answer));
	close(fd);
	assert_int_equal(sscanf(answer, "HTTP/1.1 %d", &status), 1);
	return status;
}

static int ask(const struct http_server *server, const char *first, const char *head,
	char answer[ANSWER_BYTES])
{
	return ask_at("127.0.0.1", server, first, head, answer);
}

static const char *body_of(const char *answer)
{
	const char *body = strstr(answer, "\r\n\r\n");

	assert_non_null(body);
	return body + 4;
}

static void test_answers(void **state)
{
	struct http_server *server = serve_here();
	static char answer[ANSWER_BYTES];

	(void)state;
	assert_int_equal(ask(server, "GET /secret", "Host: localhost\r\n", answer), 200);
	assert_string_equal(body_of(answer), "secret");
	assert_non_null(strstr(answer, "\r\nContent-Length: 6\r\n"));
	assert_non_null(strstr(answer, "\r\nX-Content-Type-Options: nosniff\r\n"));
	assert_int_equal(ask(server, "HEAD /secret", "Host: localhost\r\n", answer), 200);
	assert_string_equal(body_of(answer), "");
	assert_non_null(strstr(answer, "\r\nContent-Length: 6\r\n"));
	assert_int_equal(
		ask(server, "GET /echo/a/b?rank=7%20&x=1", "Host: 127.0.0.1\r\n", answer), 202);
	assert_string_equal(body_of(answer), "[a/b] [7 ]");
	assert_non_null(strstr(answer, "\r\nContent-Type: text/x-echo\r\n"));
	assert_int_equal(ask(server, "GET /echo/", "Host: [::1]:80\r\n", answer), 202);
	assert_string_equal(body_of(answer), "[] [none]");
	for (size_t i = 0; i < 4; i++) {
		static const char *const missing[] = {
			"GET /echo", "GET /secret/", "GET /../secret", "GET http://a/secret"};

		assert_int_equal(ask(server, missing[i], "Host: localhost\r\n", answer), 404);
	}
	http_server_destroy(server);
}

/* Only the reader itself keeps it; who has it is told so, and is sent nothing. */
static void test_keeping(void **state)
{
	static const char *const same[] = {"\"v7\"", "W/\"v1\", \"v7\"", "\"a\",\"v7\" , \"b\""},
				 *const others[] = {"\"v8\"", "v7", "\"v77\"", "", "\"\""};
	struct http_server *server = serve_here();
	static char answer[ANSWER_BYTES];
	char head[200];
	int before = atomic_load(&released), count = 0;

	(void)state;
	assert_int_equal(ask(server, "GET /secret", "Host: localhost\r\n", answer), 200);
	assert_non_null(strstr(answer, "\r\nCache-Control: no-store\r\n"));
	assert_null(strstr(answer, "ETag"));
	assert_int_equal(ask(server, "GET /kept/", "Host: localhost\r\n", answer), 200);
	assert_non_null(strstr(answer, "\r\nCache-Control: private, max-age=86400, immutable\r\n"));
	assert_int_equal(ask(server, "GET /kept/ask", "Host: localhost\r\n", answer), 200);
	assert_non_null(strstr(answer, "\r\nCache-Control: private, no-cache\r\n"));
	assert_non_null(strstr(answer, "\r\nVary: Accept-Encoding, Authorization\r\n"));
	assert_non_null(strstr(answer, "\r\nETag: \"v7\"\r\n"));
	assert_string_equal(body_of(answer), "a page");
	assert_null(strstr(answer, "Content-Encoding"));
	assert_int_equal(
		ask(server, "GET /kept/ask",
			"Host: localhost\r\nAccept-Encoding: gzip, deflate, br\r\n", answer),
		200);
	assert_non_null(strstr(answer, "\r\nContent-Encoding: deflate\r\n"));
	assert_string_equal(body_of(answer), "small");
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++, count++) {
		snprintf(head, sizeof(head), "Host: localhost\r\nIf-None-Match: %s\r\n", same[i]);
		assert_int_equal(ask(server, "GET /kept/ask", head, answer), 304);
		assert_string_equal(body_of(answer), "");
		assert_non_null(strstr(answer, "\r\nETag: \"v7\"\r\n"));
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++, count++) {
		snprintf(head, sizeof(head), "Host: localhost\r\nIf-None-Match: %s\r\n", others[i]);
		assert_int_equal(ask(server, "GET /kept/ask", head, answer), 200);
	}
	http_server_destroy(server);
	assert_int_equal(atomic_load(&released) - before, count + 3);
}

static void test_only_reads(void **state)
{
	struct http_server *server = serve_here();
	static char answer[ANSWER_BYTES];

	(void)state;
	assert_int_equal(
		ask(server, "POST /secret", "Host: localhost\r\nContent-Length: 0\r\n", answer),
		405);
	assert_non_null(strstr(answer, "\r\nAllow: GET, HEAD\r\n"));
	assert_int_equal(ask(server, "DELETE /secret", "Host: localhost\r\n", answer), 405);
	assert_int_equal(ask(server, "OPTIONS *", "Host: localhost\r\n", answer), 405);
	assert_int_equal(ask(server, "GET /secret",
				 "Host: localhost\r\nContent-Length: 1000000000\r\n", answer),
		400);
	assert_null(strstr(answer, "secret"));
	http_server_destroy(server);
}

/* A page elsewhere has its name point here, and its script asks: the Host says by which name. */
static void test_rebinding(void **state)
{
	static const char *const others[] = {"Host: evil.example\r\n",
		"Host: evil.example:9400\r\n", "Host: 127.0.0.1.evil.example\r\n",
		"Host: localhost.evil.example\r\n", "Host: \r\n", "Host: [127.0.0.1\r\n",
		"Host: evil.example\r\nAuthorization: Bearer 00\r\n"};
	struct http_server *server = serve_here();
	struct http_server_state counts;
	static char answer[ANSWER_BYTES];
	char with_key[200], own[100] = "";
	int fd;

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_equal(ask(server, "GET /secret", others[i], answer), 421);
		assert_null(strstr(answer, "\r\n\r\nsecret"));
		assert_int_equal(ask(server, "GET /no-such-page", others[i], answer), 421);
		assert_int_equal(ask(server, "GET /", others[i], answer), 200); /* says nothing */
	}
	http_server_get_state(server, &counts);
	assert_int_equal(counts.other_host, 14);
	assert_int_equal(gethostname(own, sizeof(own) - 1), 0);
	snprintf(with_key, sizeof(with_key), "Host: %s:%u\r\n", own, port_of(server));
	assert_int_equal(ask(server, "GET /secret", with_key, answer), 200);
	fd = connect_to("127.0.0.1", port_of(server));
	send_text(fd, "GET /secret HTTP/1.0\r\n\r\n"); /* no Host at all */
	assert_true(receive(fd, answer));
	assert_non_null(strstr(answer, " 421 "));
	close(fd);
	/* Who has the key is no stranger's page, whatever the name. */
	snprintf(with_key, sizeof(with_key), "Host: node7\r\nauthorization: bearer %s\r\n", token);
	assert_int_equal(ask(server, "GET /secret", with_key, answer), 200);
	http_server_destroy(server);
}

/* An address of this host's own beyond the loopback, or "". */
static void own_address(char text[INET_ADDRSTRLEN])
{
	struct ifaddrs *all = NULL;

	*text = '\0';
	assert_int_equal(getifaddrs(&all), 0);
	for (struct ifaddrs *one = all; one && !*text; one = one->ifa_next) {
		const struct sockaddr_in *four = (const void *)one->ifa_addr;

		if (four && four->sin_family == AF_INET &&
			ntohl(four->sin_addr.s_addr) >> 24 != 127)
			inet_ntop(AF_INET, &four->sin_addr, text, INET_ADDRSTRLEN);
	}
	freeifaddrs(all);
}

static void test_key(void **state)
{
	struct http_server *server =
		serve((struct http_options){.address = "0.0.0.0:0", .token = token});
	static char answer[ANSWER_BYTES];
	char address[INET_ADDRSTRLEN], head[300];

	(void)state;
	own_address(address);
	if (!*address) {
		http_server_destroy(server);
		skip();
	}
	assert_int_equal(ask_at(address, server, "GET /secret", "Host: 10.0.0.1\r\n", answer), 401);
	assert_non_null(strstr(answer, "\r\nWWW-Authenticate: Bearer\r\n"));
	assert_int_equal(
		ask_at(address, server, "GET /nothing", "Host: 10.0.0.1\r\n", answer), 401);
	assert_int_equal(ask_at(address, server, "GET /", "Host: node7\r\n", answer), 200);
	for (size_t i = 0; i < 5; i++) {
		snprintf(head, sizeof(head), "Host: node7\r\nAuthorization: %s%.*s%s\r\n",
			i == 4 ? "Basic " : "Bearer ", i == 0 ? 63 : 64, token, i == 1 ? "0" : "");
		if (i == 2) /* the last digit */
			*(strrchr(head, '\r') - 1) = '0';
		assert_int_equal(
			ask_at(address, server, "GET /secret", head, answer), i == 3 ? 200 : 401);
	}
	assert_int_equal(ask(server, "GET /secret", "Host: localhost\r\n", answer), 200);
	http_server_destroy(server);
	server = serve((struct http_options){.address = "0.0.0.0:0", .anybody = true});
	assert_int_equal(ask_at(address, server, "GET /secret", "Host: 10.0.0.1\r\n", answer), 200);
	assert_int_equal(ask_at(address, server, "GET /secret", "Host: evil\r\n", answer), 421);
	http_server_destroy(server);
}

static bool give_up(void *context)
{
	return *(const bool *)context;
}

static struct http_client *client_of(
	const char *address, const struct http_server *server, bool *gives_up)
{
	char url[64], why[HTTP_CLIENT_WHY_LENGTH];
	struct http_client *client = NULL;

	snprintf(url, sizeof(url), "http://%s:%u/", address, port_of(server));
	if (http_client_create(
		    &(struct http_client_options){
			    .url = url, .give_up = give_up, .context = gives_up},
		    &client, why))
		fail_msg("%s", why);
	return client;
}

/* What reads from other programs' servers: what is there, the key where it is asked for, and reasons. */
static void test_client(void **state)
{
	struct http_server *server =
		serve((struct http_options){.address = "0.0.0.0:0", .token = token});
	char address[INET_ADDRSTRLEN], why[HTTP_CLIENT_WHY_LENGTH], *body;
	struct http_client *client;
	bool gives_up = false;
	long status;
	size_t length;

	(void)state;
	assert_int_equal(
		http_client_create(&(struct http_client_options){.url = "ftp://a"}, &client, why),
		-EINVAL);
	client = client_of("127.0.0.1", server, &gives_up);
	for (int i = 0; i < 2; i++) { /* on one connection */
		assert_int_equal(
			http_client_get(client, "/secret", &status, &body, &length, why), 0);
		assert_int_equal(status, 200);
		assert_string_equal(body, "secret");
		assert_int_equal(length, strlen(body));
	}
	assert_int_equal(http_client_get(client, "/nothing", &status, &body, &length, why), 0);
	assert_int_equal(status, 404);
	gives_up = true;
	assert_int_equal(http_client_get(client, "/secret", &status, &body, &length, why), -EINTR);
	gives_up = false;
	http_client_destroy(client);
	own_address(address);
	if (*address) {
		client = client_of(address, server, &gives_up);
		assert_int_equal(
			http_client_get(client, "/secret", &status, &body, &length, why), 0);
		assert_int_equal(status, 401);
		http_client_set_token(client, token);
		assert_int_equal(
			http_client_get(client, "/secret", &status, &body, &length, why), 0);
		assert_int_equal(status, 200);
		http_client_destroy(client);
	}
	client = client_of("127.0.0.1", server, &gives_up);
	http_server_destroy(server);
	assert_int_equal(
		http_client_get(client, "/secret", &status, &body, &length, why), -ECONNREFUSED);
	assert_true(strlen(why) > 5);
	http_client_destroy(client);
}

static void test_no_key_no_port(void **state)
{
	static const struct {
		const char *address;
		int error;
	} tries[] = {{"0.0.0.0:0", -EPERM}, {"[::]:0", -EPERM}, {"nonsense", -EINVAL},
		{"127.0.0.1:99999", -EINVAL}};
	struct http_server *server = serve_here(), *other = NULL;
	char why[HTTP_WHY_LENGTH], taken[40];

	(void)state;
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		const struct http_options options = {.address = tries[i].address};

		assert_int_equal(http_server_create(&options, &other, why), tries[i].error);
		assert_non_null(strstr(why, tries[i].address));
	}
	snprintf(taken, sizeof(taken), "%d", port_of(server));
	assert_int_equal(http_server_create(&(struct http_options){.address = taken}, &other, why),
		-EADDRINUSE);
	assert_null(other);
	http_server_destroy(server);
}

static void test_huge_header(void **state)
{
	struct http_server *server = serve_here();
	static char answer[ANSWER_BYTES];
	char line[1024];
	int fd = connect_to("127.0.0.1", port_of(server)), sent;

	(void)state;
	memset(line, 'a', sizeof(line));
	memcpy(line, "X: ", 3);
	memcpy(line + sizeof(line) - 2, "\r\n", 2);
	send_text(fd, "GET /secret HTTP/1.1\r\nHost: localhost\r\n");
	for (sent = 0; sent < 100000; sent++) {
		if (send(fd, line, sizeof(line), MSG_NOSIGNAL) < 0)
			break;
	}
	assert_true(sent < 100000); /* it hung up before 100 MB */
	close(fd);
	assert_int_equal(ask(server, "GET /secret", "Host: localhost\r\n", answer), 200);
	http_server_destroy(server);
}

/* 100 who read a long answer byte by byte, or do not: others are served at once, and nothing of theirs is kept. */
static void test_slow_readers(void **state)
{
	struct http_server *server = serve_here();
	static char answer[ANSWER_BYTES];
	struct http_server_state counts;
	int fds[100], small = 1024;
	int64_t began_ms;

	(void)state;
	atomic_store(&released, 0);
	for (size_t i = 0; i < 100; i++) {
		fds[i] = connect_to("127.0.0.1", port_of(server));
		setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
		send_text(fds[i], "GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
		assert_int_equal(recv(fds[i], answer, 10, 0), 10);
	}
	began_ms = now_ms();
	assert_int_equal(ask(server, "GET /secret", "Host: localhost\r\n", answer), 200);
	assert_true(now_ms() - began_ms < 2000);
	http_server_get_state(server, &counts);
	assert_true(counts.connections >= 100);
	for (size_t i = 0; i < 50; i++)
		close(fds[i]);
	for (int waited = 0; atomic_load(&released) < 50 && waited < WAIT_MS; waited += 10)
		sleep_ms(10);
	assert_int_equal(atomic_load(&released), 50);
	http_server_destroy(server); /* does not wait for the others */
	assert_int_equal(atomic_load(&released), 100);
	for (size_t i = 50; i < 100; i++)
		close(fds[i]);
}

/* One address does not have all connections, and all of them are not more than there are. */
static void test_connections(void **state)
{
	struct http_server *server = serve_here();
	static char answer[ANSWER_BYTES];
	static int fds[HTTP_CONNECTIONS_MAX + 100];
	struct http_server_state counts;

	(void)state;
	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX + 100; i++)
		fds[i] = connect_to("127.0.0.1", port_of(server));
	for (int waited = 0; waited < WAIT_MS; waited += 10) {
		http_server_get_state(server, &counts);
		if (counts.connections == HTTP_ADDRESS_CONNECTIONS_MAX)
			break;
		sleep_ms(10);
	}
	assert_int_equal(counts.connections, HTTP_ADDRESS_CONNECTIONS_MAX);
	/* From 127.0.0.2 there is room. */
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in from = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)},
			   to = {.sin_family = AF_INET,
				   .sin_port = htons(port_of(server)),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	send_text(fd, "GET /secret HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
	assert_true(receive(fd, answer));
	assert_string_equal(body_of(answer), "secret");
	close(fd);
	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX + 100; i++)
		close(fds[i]);
	http_server_destroy(server);
}

/* Who sends a byte now and then is never idle. */
static void test_drip(void **state)
{
	struct http_server *server =
		serve((struct http_options){.address = "0", .request_ms = 500});
	int fd = connect_to("127.0.0.1", port_of(server));
	int64_t began_ms = now_ms();
	struct http_server_state counts;

	(void)state;
	send_text(fd, "GET /secret HTTP/1.1\r\nX: ");
	while (send(fd, "x", 1, MSG_NOSIGNAL) == 1 && now_ms() - began_ms < WAIT_MS)
		sleep_ms(50);
	assert_in_range(now_ms() - began_ms, 450, 6000);
	http_server_get_state(server, &counts);
	assert_int_equal(counts.too_slow, 1);
	close(fd);
	http_server_destroy(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_keeping),
		cmocka_unit_test(test_only_reads),
		cmocka_unit_test(test_rebinding),
		cmocka_unit_test(test_key),
		cmocka_unit_test(test_client),
		cmocka_unit_test(test_no_key_no_port),
		cmocka_unit_test(test_huge_header),
		cmocka_unit_test(test_slow_readers),
		cmocka_unit_test(test_connections),
		cmocka_unit_test(test_drip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
