/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/http/server.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "coordinator/http/library.h"
#include "probe/auth/derived_key.h"
#include "probe/config/http_address.h"

enum {
	BACKLOG = 64,
	SWEEP_MS = 1000, /* how often slow requests are looked for */
	BLOCK_BYTES = 16 * 1024,
	URL_LENGTH = HTTP_HOST_LENGTH + 32,
};

/* One that is open; fd -1: none. */
struct connection {
	int fd;
	int64_t since_ms; /* of its request, or of its idleness */
	bool cut;
};

/* The thread owns daemon, connections and what handlers give; the atomics are for everybody. */
struct http_server {
	struct http_library library;
	struct http_handler handlers[HTTP_HANDLERS_MAX];
	size_t handler_count;
	bool keyed, anybody;
	char token[DERIVED_KEY_LENGTH];
	char name[HTTP_HOST_LENGTH], host[HTTP_HOST_LENGTH]; /* as --http has it, and this host's */
	char url[URL_LENGTH];
	struct MHD_Daemon *daemon;
	int wake_fd; /* an eventfd: it is time to end */
	pthread_t thread;
	bool started;
	struct connection connections[HTTP_CONNECTIONS_MAX];
	int64_t swept_ms, request_ms;
	atomic_uint_least64_t open, requests, no_key, other_host, too_slow;
};

/* An answer on its way. */
struct answer {
	struct http_response response;
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

const char *http_request_argument(const struct http_request *request, const char *name)
{
	return request->library->MHD_lookup_connection_value(
		(struct MHD_Connection *)request->connection, MHD_GET_ARGUMENT_KIND, name);
}

static const char *header(
	const struct http_library *library, const void *connection, const char *name)
{
	return library->MHD_lookup_connection_value(
		(struct MHD_Connection *)connection, MHD_HEADER_KIND, name);
}

/* The word is one of a list. */
static bool lists(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (; list && *list; list += strcspn(list, ","), list += *list == ',') {
		list += strspn(list, " \t");
		if (strncasecmp(list, word, length) == 0 && strcspn(list, ",; \t") == length)
			return true;
	}
	return false;
}

bool http_request_takes_deflated(const struct http_request *request)
{
	return lists(header(request->library, request->connection, MHD_HTTP_HEADER_ACCEPT_ENCODING),
		"deflate");
}

static ssize_t answer_read(void *context, uint64_t position, char *to, size_t room)
{
	const struct http_response *response = &((struct answer *)context)->response;
	ssize_t count;

	if (!response->next) {
		if (position >= response->length)
			return MHD_CONTENT_READER_END_OF_STREAM;
		if (room > response->length - position)
			room = (size_t)(response->length - position);
		memcpy(to, (const char *)response->body + position, room);
		return (ssize_t)room;
	}
	count = response->next(response->context, position, to, room);
	if (count < 0)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	return count ? count : MHD_CONTENT_READER_END_OF_STREAM;
}

static void answer_release(void *context)
{
	struct answer *answer = context;

	if (answer->response.release)
		answer->response.release(answer->response.context);
	free(answer);
}

/* What a reader may keep, it keeps apart by key and by how it was packed. */
static void add_keeping(const struct http_library *library, struct MHD_Response *made,
	const struct http_response *response)
{
	static const char *const keeping[] = {[HTTP_KEEP_NOTHING] = "no-store",
		[HTTP_KEEP_AND_ASK] = "private, no-cache",
		[HTTP_KEEP] = "private, max-age=86400, immutable"};
	char quoted[HTTP_ETAG_LENGTH + 2];

	library->MHD_add_response_header(
		made, MHD_HTTP_HEADER_CACHE_CONTROL, keeping[response->keeping]);
	if (response->deflated)
		library->MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_ENCODING, "deflate");
	if (response->keeping != HTTP_KEEP_NOTHING)
		library->MHD_add_response_header(
			made, MHD_HTTP_HEADER_VARY, "Accept-Encoding, Authorization");
	if (response->etag[0]) {
		snprintf(quoted, sizeof(quoted), "\"%s\"", response->etag);
		library->MHD_add_response_header(made, MHD_HTTP_HEADER_ETAG, quoted);
	}
}

/* Takes what the response holds, also on failure. */
static enum MHD_Result send_response(const struct http_server *server,
	struct MHD_Connection *connection, const struct http_response *response)
{
	static const char *const headers[][2] = {
		{"Content-Security-Policy",
			"default-src 'self' 'unsafe-inline' data:; frame-ancestors 'none'"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{"Referrer-Policy", "no-referrer"},
		{"X-Content-Type-Options", "nosniff"},
	};
	const struct http_library *library = &server->library;
	unsigned status = response->status ? response->status : MHD_HTTP_OK;
	struct answer *answer = malloc(sizeof(*answer));
	struct MHD_Response *made;
	enum MHD_Result result;

	if (!answer) {
		if (response->release)
			response->release(response->context);
		return MHD_NO;
	}
	answer->response = *response;
	made = library->MHD_create_response_from_callback(
		response->next ? MHD_SIZE_UNKNOWN : response->length, BLOCK_BYTES, answer_read,
		answer, answer_release);
	if (!made) {
		answer_release(answer);
		return MHD_NO;
	}
	library->MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_TYPE,
		response->type ? response->type : "text/plain; charset=utf-8");
	add_keeping(library, made, response);
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		library->MHD_add_response_header(made, headers[i][0], headers[i][1]);
	if (status == MHD_HTTP_UNAUTHORIZED)
		library->MHD_add_response_header(made, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		library->MHD_add_response_header(made, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = library->MHD_queue_response(connection, status, made);
	library->MHD_destroy_response(made);
	return result;
}

static enum MHD_Result send_text(const struct http_server *server,
	struct MHD_Connection *connection, unsigned status, const char *text)
{
	return send_response(server, connection,
		&(struct http_response){.status = status, .body = text, .length = strlen(text)});
}

static bool shows_key(const struct http_server *server, struct MHD_Connection *connection)
{
	static const char scheme[] = "Bearer ";
	const char *given = header(&server->library, connection, MHD_HTTP_HEADER_AUTHORIZATION);

	return server->keyed && given && strncasecmp(given, scheme, strlen(scheme)) == 0 &&
	       derived_key_is(server->token, given + strlen(scheme));
}

static bool is_of_this_host(const struct http_server *server, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = server->library.MHD_get_connection_info(
		connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

	return info && http_address_is_loopback(info->client_addr);
}

/* Returns 0, or the status of a refusal; *why is what the reader is told. */
static unsigned refuse(
	struct http_server *server, struct MHD_Connection *connection, const char **why)
{
	const char *asked;

	if (shows_key(server, connection))
		return 0;
	if (!server->anybody && !is_of_this_host(server, connection)) {
		atomic_fetch_add(&server->no_key, 1);
		*why = "Beyond the coordinator's own host, show the key that `slowrank key http` "
		       "prints: Authorization: Bearer KEY\n";
		return MHD_HTTP_UNAUTHORIZED;
	}
	asked = header(&server->library, connection, MHD_HTTP_HEADER_HOST);
	if (!http_host_is_here(asked, server->name) && !http_host_is_here(asked, server->host)) {
		atomic_fetch_add(&server->other_host, 1);
		*why = "Ask by the coordinator's address, by localhost, by its host's name, or by "
		       "the one that --http was given: another name may be a web page's that means "
		       "no good\n";
		return MHD_HTTP_MISDIRECTED_REQUEST;
	}
	return 0;
}

/* The rest of the path behind the handler's own, or NULL. */
static const char *match(const struct http_handler *handler, const char *path)
{
	size_t length = strlen(handler->path);

	if (length > 1 && handler->path[length - 1] == '/')
		return strncmp(path, handler->path, length) == 0 ? path + length : NULL;
	return strcmp(path, handler->path) == 0 ? path + length : NULL;
}

/* The reader has it already: then it is released, and what is left says so. */
static void leave_out_known(const struct http_server *server, struct MHD_Connection *connection,
	struct http_response *response)
{
	char quoted[HTTP_ETAG_LENGTH + 2];

	snprintf(quoted, sizeof(quoted), "\"%s\"", response->etag);
	if (!response->etag[0] ||
		!lists(header(&server->library, connection, MHD_HTTP_HEADER_IF_NONE_MATCH), quoted))
		return;
	if (response->release)
		response->release(response->context);
	response->status = MHD_HTTP_NOT_MODIFIED;
	response->body = "";
	response->length = 0;
	response->next = NULL;
	response->release = NULL;
}

static enum MHD_Result handle(
	struct http_server *server, struct MHD_Connection *connection, const char *path)
{
	struct http_request request = {.connection = connection, .library = &server->library};
	const struct http_handler *handler = NULL;
	struct http_response response = {0};
	const char *why;
	unsigned status;

	for (size_t i = 0; i < server->handler_count && !request.path; i++) {
		handler = &server->handlers[i];
		request.path = match(handler, path);
	}
	/* Who may not read is not told what there is. */
	status = request.path && handler->open ? 0 : refuse(server, connection, &why);
	if (status)
		return send_text(server, connection, status, why);
	if (!request.path)
		return send_text(server, connection, MHD_HTTP_NOT_FOUND, "There is no such page\n");
	atomic_fetch_add(&server->requests, 1);
	handler->handle(handler->context, &request, &response);
	leave_out_known(server, connection, &response);
	return send_response(server, connection, &response);
}

/* Called for a request when its head has come (*state NULL), and again when all of it has. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
	const char *path, const char *method, const char *version, const char *body,
	size_t *body_length, void **state)
{
	struct http_server *server = context;

	(void)version;
	(void)body;
	(void)body_length;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return send_text(
			server, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET and HEAD\n");
	/* An answer that is given before the body has come closes the connection. */
	if (header(&server->library, connection, MHD_HTTP_HEADER_CONTENT_LENGTH) ||
		header(&server->library, connection, MHD_HTTP_HEADER_TRANSFER_ENCODING))
		return send_text(
			server, connection, MHD_HTTP_BAD_REQUEST, "Requests have no body here\n");
	if (!*state) {
		*state = server;
		return MHD_YES;
	}
	return handle(server, connection, path);
}

static struct connection *find_connection(struct http_server *server, int fd)
{
	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
		if (server->connections[i].fd == fd)
			return &server->connections[i];
	}
	return NULL;
}

static void on_connection(void *context, struct MHD_Connection *handle, void **slot,
	enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *info;
	struct http_server *server = context;
	struct connection *connection = *slot;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (connection)
			connection->fd = -1;
		atomic_fetch_sub(&server->open, 1);
		return;
	}
	atomic_fetch_add(&server->open, 1);
	info = server->library.MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD);
	connection = find_connection(server, -1);
	assert(info && connection); /* MHD has the same limit */
	*connection = (struct connection){.fd = info->connect_fd, .since_ms = now_ms()};
	*slot = connection;
}

/* The next request on the connection has its own time. */
static void on_completed(void *context, struct MHD_Connection *handle, void **state,
	enum MHD_RequestTerminationCode how)
{
	struct http_server *server = context;
	const union MHD_ConnectionInfo *info =
		server->library.MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct connection *connection = info ? find_connection(server, info->connect_fd) : NULL;

	(void)state;
	(void)how;
	if (connection)
		connection->since_ms = now_ms();
}

/* Who sends or takes a byte now and then is not idle, and would keep its connection for good. */
static void cut_slow(struct http_server *server)
{
	int64_t now = now_ms();

	if (now - server->swept_ms < SWEEP_MS)
		return;
	server->swept_ms = now;
	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
		struct connection *connection = &server->connections[i];

		if (connection->fd < 0 || connection->cut ||
			now - connection->since_ms < server->request_ms)
			continue;
		shutdown(connection->fd, SHUT_RDWR); /* MHD sees it closed */
		connection->cut = true;
		atomic_fetch_add(&server->too_slow, 1);
	}
}

static void *serve(void *context)
{
	struct http_server *server = context;
	const struct http_library *library = &server->library;
	const union MHD_DaemonInfo *info =
		library->MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	struct pollfd waited[] = {
		{.fd = server->wake_fd, .events = POLLIN},
		{.fd = info->epoll_fd, .events = POLLIN},
	};

	while (!waited[0].revents) {
		unsigned MHD_LONG_LONG wait_ms = SWEEP_MS;

		if (library->MHD_get_timeout(server->daemon, &wait_ms) != MHD_YES ||
			wait_ms > SWEEP_MS)
			wait_ms = SWEEP_MS;
		if (poll(waited, 2, (int)wait_ms) < 0 && errno != EINTR)
			break;
		library->MHD_run(server->daemon);
		cut_slow(server);
	}
	return NULL;
}

static int explain(char why[HTTP_WHY_LENGTH], int error, const char *address, const char *what)
{
	snprintf(why, HTTP_WHY_LENGTH, "cannot serve HTTP at '%.250s': %s", address, what);
	return error;
}

/* Returns the descriptor, or a negative errno. */
static int listen_at(const struct addrinfo *found)
{
	int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int yes = 1;
	int error;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
		bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

static void keep_url(struct http_server *server, const struct http_address *address, int fd)
{
	bool is_ipv6 = strchr(address->host, ':') != NULL;
	struct sockaddr_storage bound;
	socklen_t length = sizeof(bound);
	char port[HTTP_PORT_LENGTH] = "0";

	if (getsockname(fd, (struct sockaddr *)&bound, &length) == 0)
		(void)getnameinfo((struct sockaddr *)&bound, length, NULL, 0, port, sizeof(port),
			NI_NUMERICSERV);
	snprintf(server->name, sizeof(server->name), "%s", address->host);
	if (gethostname(server->host, sizeof(server->host) - 1))
		server->host[0] = '\0';
	snprintf(server->url, sizeof(server->url), "http://%s%s%s:%s/", is_ipv6 ? "[" : "",
		address->host, is_ipv6 ? "]" : "", port);
}

/* Returns the descriptor, or a negative errno with one line in why. */
static int open_listener(
	struct http_server *server, const struct http_options *options, char why[HTTP_WHY_LENGTH])
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct http_address address;
	struct addrinfo *found;
	int fd, error;

	if (http_address_parse(options->address, &address))
		return explain(why, -EINVAL, options->address,
			"it is PORT, ADDRESS:PORT or NAME:PORT, such as 9400 or 0.0.0.0:9400");
	error = getaddrinfo(address.host, address.port, &hints, &found);
	if (error)
		return explain(why, -EINVAL, options->address, gai_strerror(error));
	if (!http_address_is_loopback(found->ai_addr) && !server->keyed && !server->anybody)
		fd = explain(why, -EPERM, options->address,
			"beyond this host it needs a key: --key-file FILE, or --insecure to let "
			"everybody read");
	else
		fd = listen_at(found);
	if (fd < 0 && fd != -EPERM)
		explain(why, fd, options->address, strerror(-fd));
	freeaddrinfo(found);
	if (fd >= 0)
		keep_url(server, &address, fd);
	return fd;
}

static int start_daemon(struct http_server *server, int fd)
{
	server->daemon = server->library.MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request,
		server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)HTTP_CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
		(unsigned)HTTP_ADDRESS_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)HTTP_CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_S,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_NOTIFY_COMPLETED,
		on_completed, server, MHD_OPTION_END);
	if (!server->daemon) {
		close(fd);
		return -ENOMEM;
	}
	if (pthread_create(&server->thread, NULL, serve, server))
		return -EAGAIN;
	server->started = true;
	return 0;
}

int http_server_create(
	const struct http_options *options, struct http_server **result, char why[HTTP_WHY_LENGTH])
{
	struct http_server *server = calloc(1, sizeof(*server));
	int fd = -1, error;

	assert(options->handler_count <= HTTP_HANDLERS_MAX);
	if (!server)
		return explain(why, -ENOMEM, options->address, "no memory");
	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
		server->connections[i].fd = -1;
	for (size_t i = 0; i < options->handler_count; i++)
		server->handlers[i] = options->handlers[i];
	server->handler_count = options->handler_count;
	server->anybody = options->anybody;
	server->request_ms = options->request_ms ? options->request_ms : HTTP_REQUEST_MS;
	server->keyed = options->token != NULL;
	if (server->keyed)
		memcpy(server->token, options->token, sizeof(server->token));
	server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->wake_fd < 0)
		error = explain(why, -EMFILE, options->address, strerror(EMFILE));
	else if (http_library_load(&server->library))
		error = explain(why, -ENOENT, options->address,
			"libmicrohttpd.so.12 is missing (Debian: libmicrohttpd12)");
	else
		error = fd = open_listener(server, options, why);
	if (error >= 0) {
		error = start_daemon(server, fd);
		if (error)
			explain(why, error, options->address, strerror(-error));
	}
	if (error) {
		http_server_destroy(server);
		return error;
	}
	*result = server;
	return 0;
}

void http_server_destroy(struct http_server *server)
{
	if (!server)
		return;
	if (server->started) {
		(void)!write(server->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
		pthread_join(server->thread, NULL);
	}
	if (server->daemon)
		server->library.MHD_stop_daemon(server->daemon);
	if (server->wake_fd >= 0)
		close(server->wake_fd);
	free(server);
}

const char *http_server_url(const struct http_server *server)
{
	return server->url;
}

void http_server_get_state(const struct http_server *server, struct http_server_state *state)
{
	*state = (struct http_server_state){
		.connections = atomic_load(&server->open),
		.requests = atomic_load(&server->requests),
		.no_key = atomic_load(&server->no_key),
		.other_host = atomic_load(&server->other_host),
		.too_slow = atomic_load(&server->too_slow),
	};
}
