/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/tls/tls.h>

#include "probe/auth/tls_files.h"
#include "probe/uplink_connection.h"
#include "probe/wire/message.h"

enum {
	IPC_PATH_BYTES = 108, /* sun_path of unix(7), with the NUL */
	REPLY_BYTES_MAX = 64 * 1024,
	ANSWER_BYTES_MAX = WIRE_ANSWER_LENGTH_MAX + REPLY_BYTES_MAX,
	RECONNECT_MIN_MS = 50,
	RECONNECT_MAX_MS = 1000,
	ASK_POLL_MS = 10,
};

struct uplink_connection {
	nng_socket socket;
	pthread_mutex_t mutex; /* for all below */
	pthread_cond_t changed;
	uint64_t pipe_count;
	bool was_up;
	bool closed;
	bool released;
};

/* nng looks names and ports up in the background, where nobody would learn that they are wrong. */
bool uplink_connection_url_usable(const char *url)
{
	const char *colon;
	char *end;
	long port;

	if (!url)
		return false;
	if (!strncmp(url, "ipc://", 6))
		return url[6] && strlen(url + 6) < IPC_PATH_BYTES;
	if (tls_files_url(url))
		url += strlen("tls+");
	if (strncmp(url, "tcp://", 6))
		return false;
	colon = strrchr(url + 6, ':');
	if (!colon || colon == url + 6 || colon[1] < '0' || colon[1] > '9')
		return false;
	port = strtol(colon + 1, &end, 10);
	return !*end && port > 0 && port <= UINT16_MAX;
}

static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *context)
{
	struct uplink_connection *connection = context;

	(void)pipe;
	pthread_mutex_lock(&connection->mutex);
	if (event == NNG_PIPE_EV_ADD_POST) {
		connection->pipe_count++;
		connection->was_up = true;
	} else if (event == NNG_PIPE_EV_REM_POST && connection->pipe_count) {
		connection->pipe_count--;
	}
	pthread_mutex_unlock(&connection->mutex);
}

static int open_socket(struct uplink_connection *connection, const char *url,
	struct nng_tls_config *tls, bool asks)
{
	nng_socket socket;
	nng_dialer dialer;
	int error = nng_req0_open(&socket);

	if (error)
		return -ENOMEM;
	connection->socket = socket;
	error = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, RECONNECT_MIN_MS);
	if (!error)
		error = nng_socket_set_ms(socket, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS);
	if (!error)
		error = nng_socket_set_size(
			socket, NNG_OPT_RECVMAXSZ, asks ? ANSWER_BYTES_MAX : REPLY_BYTES_MAX);
	if (!error)
		error = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_POST, on_pipe, connection);
	if (!error)
		error = nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, on_pipe, connection);
	if (!error)
		error = nng_dialer_create(&dialer, socket, url);
	if (!error && tls)
		error = nng_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, tls);
	if (!error)
		error = nng_dialer_start(dialer, NNG_FLAG_NONBLOCK);
	if (!error)
		return 0;
	nng_close(socket); /* it never had a connection: this does not hang */
	return error == NNG_ENOMEM ? -ENOMEM : -EINVAL;
}

static void free_connection(struct uplink_connection *connection)
{
	pthread_cond_destroy(&connection->changed);
	pthread_mutex_destroy(&connection->mutex);
	free(connection);
}

int uplink_connection_open(const char *url, struct nng_tls_config *tls, bool asks,
	struct uplink_connection **connection)
{
	struct uplink_connection *made;
	pthread_condattr_t monotonic;
	int error;

	if (!uplink_connection_url_usable(url) || tls_files_url(url) != (tls != NULL))
		return -EINVAL;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	pthread_mutex_init(&made->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&made->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	error = open_socket(made, url, tls, asks);
	if (error) {
		free_connection(made);
		return error;
	}
	*connection = made;
	return 0;
}

static void sleep_ms(int time_ms)
{
	struct timespec time = {time_ms / 1000, time_ms % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

struct uplink_tls_question {
	struct nng_tls_config *tls;
	nng_aio *aio;
	bool done; /* what the aio was for */
	int left_ms;
	pthread_t thread;
	bool answered;
	char why[UPLINK_TLS_WHY_LENGTH];
	char url[];
};

static void on_done(void *context)
{
	struct uplink_tls_question *question = context;

	__atomic_store_n(&question->done, true, __ATOMIC_RELEASE);
}

/*
 * Waits for an operation on a stream. nng 1.5.2 has no time limit for a handshake that the other side does not
 * answer: what ends it is to close the stream.
 */
static int wait_for(struct uplink_tls_question *question, nng_stream *stream)
{
	for (; !__atomic_load_n(&question->done, __ATOMIC_ACQUIRE) && question->left_ms > 0;
		question->left_ms -= ASK_POLL_MS)
		sleep_ms(ASK_POLL_MS);
	if (!__atomic_load_n(&question->done, __ATOMIC_ACQUIRE))
		nng_stream_close(stream);
	nng_aio_wait(question->aio);
	question->done = false;
	return nng_aio_result(question->aio);
}

/* Certificates are looked at with the first bytes: those that begin a connection of nng's REQ. */
static int shake_hands(struct uplink_tls_question *question, nng_stream *stream)
{
	static const uint8_t greeting[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
	uint8_t bytes[sizeof(greeting)];
	nng_iov iov;
	int error;

	memcpy(bytes, greeting, sizeof(bytes));
	iov = (nng_iov){.iov_buf = bytes, .iov_len = sizeof(bytes)};
	error = nng_aio_set_iov(question->aio, 1, &iov);
	if (error)
		return error;
	nng_stream_send(stream, question->aio);
	error = wait_for(question, stream);
	if (!error)
		error = nng_aio_set_iov(question->aio, 1, &iov);
	if (error)
		return error;
	nng_stream_recv(stream, question->aio);
	return wait_for(question, stream);
}

/* Returns nng's error of the handshake; 0 where there was none, as nobody is there or the way is closed. */
static int dial(struct uplink_tls_question *question, nng_stream_dialer *dialer)
{
	nng_stream *stream;
	int result;

	if (nng_stream_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, question->tls))
		return 0;
	nng_aio_set_timeout(question->aio, question->left_ms / 3);
	nng_stream_dialer_dial(dialer, question->aio);
	nng_aio_wait(question->aio);
	question->done = false;
	if (nng_aio_result(question->aio))
		return 0;
	stream = nng_aio_get_output(question->aio, 0);
	nng_aio_set_timeout(question->aio, NNG_DURATION_INFINITE);
	question->left_ms -= question->left_ms / 3;
	result = shake_hands(question, stream);
	nng_stream_free(stream);
	return result;
}

static void *ask_tls(void *context)
{
	struct uplink_tls_question *question = context;
	nng_stream_dialer *dialer = NULL;
	int result = 0;

	if (!nng_aio_alloc(&question->aio, on_done, question)) {
		if (!nng_stream_dialer_alloc(&dialer, question->url)) {
			result = dial(question, dialer);
			nng_stream_dialer_free(dialer);
		}
		nng_aio_free(question->aio);
	}
	/* nng tells no difference between a peer that is refused and one that refuses. */
	if (result == NNG_EPEERAUTH || result == NNG_ECRYPTO)
		snprintf(question->why, sizeof(question->why),
			"TLS fails there (%s): one of the two certificates has expired, or is not "
			"signed by the authority that the other side names in --tls-ca",
			nng_strerror(result));
	__atomic_store_n(&question->answered, true, __ATOMIC_RELEASE);
	return NULL;
}

int uplink_tls_ask(const char *url, struct nng_tls_config *tls, int timeout_ms,
	struct uplink_tls_question **question)
{
	size_t url_bytes = strlen(url) + 1;
	struct uplink_tls_question *asked = calloc(1, sizeof(*asked) + url_bytes);
	int error;

	if (!asked)
		return -ENOMEM;
	asked->tls = tls;
	asked->left_ms = timeout_ms;
	memcpy(asked->url, url, url_bytes);
	error = pthread_create(&asked->thread, NULL, ask_tls, asked);
	if (error) {
		free(asked);
		return -error;
	}
	*question = asked;
	return 0;
}

bool uplink_tls_answered(const struct uplink_tls_question *question)
{
	return __atomic_load_n(&question->answered, __ATOMIC_ACQUIRE);
}

void uplink_tls_take(struct uplink_tls_question *question, char why[UPLINK_TLS_WHY_LENGTH])
{
	pthread_join(question->thread, NULL);
	memcpy(why, question->why, UPLINK_TLS_WHY_LENGTH);
	free(question);
}

nng_socket uplink_connection_socket(const struct uplink_connection *connection)
{
	return connection->socket;
}

bool uplink_connection_up(struct uplink_connection *connection)
{
	bool up;

	pthread_mutex_lock(&connection->mutex);
	up = connection->pipe_count > 0;
	pthread_mutex_unlock(&connection->mutex);
	return up;
}

bool uplink_connection_was_up(struct uplink_connection *connection)
{
	bool was_up;

	pthread_mutex_lock(&connection->mutex);
	was_up = connection->was_up;
	pthread_mutex_unlock(&connection->mutex);
	return was_up;
}

static void *close_socket(void *context)
{
	struct uplink_connection *connection = context;
	bool released;

	nng_close(connection->socket);
	pthread_mutex_lock(&connection->mutex);
	connection->closed = true;
	released = connection->released;
	pthread_cond_broadcast(&connection->changed);
	pthread_mutex_unlock(&connection->mutex);
	if (released)
		free_connection(connection);
	return NULL;
}

int uplink_connection_start_close(struct uplink_connection *connection)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, close_socket, connection);

	if (error)
		return -error;
	pthread_detach(thread);
	return 0;
}

bool uplink_connection_closed(struct uplink_connection *connection, int timeout_ms)
{
	struct timespec deadline;
	bool closed;
	int error = 0;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += timeout_ms / 1000;
	deadline.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (deadline.tv_nsec >= 1000000000L) {
		deadline.tv_sec++;
		deadline.tv_nsec -= 1000000000L;
	}
	pthread_mutex_lock(&connection->mutex);
	while (!connection->closed && !error)
		error = pthread_cond_timedwait(&connection->changed, &connection->mutex, &deadline);
	closed = connection->closed;
	pthread_mutex_unlock(&connection->mutex);
	return closed;
}

void uplink_connection_release(struct uplink_connection *connection)
{
	bool closed;

	pthread_mutex_lock(&connection->mutex);
	closed = connection->closed;
	connection->released = true;
	pthread_mutex_unlock(&connection->mutex);
	if (closed)
		free_connection(connection);
}
