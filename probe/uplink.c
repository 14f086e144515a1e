/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "probe/spool.h"
#include "probe/uplink.h"
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"

enum {
	SPOOL_BYTES_DEFAULT = 64 * 1024 * 1024,
	MEMORY_BYTES_DEFAULT = 8 * 1024 * 1024,
	IPC_PATH_BYTES = 108, /* sun_path of unix(7), with the NUL */
	REPLIES_MAX = 256,
	REPLY_BYTES_MAX = 64 * 1024,
	RECONNECT_MIN_MS = 50,
	RECONNECT_MAX_MS = 1000,
	/* nng sends again at once when a connection breaks; this is for a coordinator that hangs. */
	RESEND_MS = 10000,
	RETRY_MS = 200, /* after an error that nng does not repair itself */
};

struct queued_batch {
	struct queued_batch *next;
	size_t length;
	uint8_t bytes[];
};

/*
 * Exactly one exchange runs at a time, as a chain of nng callbacks: send, receive, next batch.
 * busy is true while the chain runs; only the chain touches the aios and current. Everything
 * else is guarded by mutex, which is never held while an operation of nng is started.
 */
struct uplink {
	nng_socket socket;
	nng_aio *send_aio;
	nng_aio *receive_aio;
	nng_aio *retry_aio;
	pthread_mutex_t mutex;
	pthread_cond_t idle; /* nothing is pending */
	bool busy;
	bool closing;
	uint64_t pipe_count;

	uint8_t *current; /* the batch on its way */
	size_t current_length;
	struct host_ns current_sent; /* when it was first handed to nng; 0 = not yet */
	struct queued_batch *first;
	struct queued_batch **last;
	size_t queued_count;
	size_t queued_bytes;
	size_t memory_bytes_max;
	struct spool *spool; /* NULL: memory only. While it holds any, new batches go there */

	struct host_ns previous_sent, previous_reply_received;
	struct job_ns previous_received, previous_reply_sent;
	struct message_reply replies[REPLIES_MAX];
	size_t reply_first, reply_count;
	struct uplink_state state;
	struct wire_buffer encoded; /* of the caller's thread */
};

static struct host_ns clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (struct host_ns){now.tv_sec * INT64_C(1000000000) + now.tv_nsec};
}

static size_t pending(const struct uplink *uplink)
{
	return (uplink->current ? 1 : 0) + uplink->queued_count +
	       (uplink->spool ? spool_count(uplink->spool) : 0);
}

/* Makes the oldest batch the current one. Returns false when there is none. Mutex held. */
static bool take_next(struct uplink *uplink)
{
	struct queued_batch *batch = uplink->first;
	size_t spooled;
	void *bytes;

	if (batch) {
		bytes = malloc(batch->length);
		if (!bytes)
			return false; /* the next uplink_send() tries again */
		memcpy(bytes, batch->bytes, batch->length);
		uplink->current_length = batch->length;
		uplink->first = batch->next;
		if (!uplink->first)
			uplink->last = &uplink->first;
		uplink->queued_count--;
		uplink->queued_bytes -= batch->length;
		free(batch);
	} else {
		spooled = uplink->spool ? spool_count(uplink->spool) : 0;
		if (!spooled)
			return false;
		if (spool_pop(uplink->spool, &bytes, &uplink->current_length)) {
			if (!spool_count(uplink->spool)) /* it could not be read */
				uplink->state.batches_lost += spooled;
			return false;
		}
	}
	uplink->current = bytes;
	uplink->current_sent.value = 0;
	return true;
}

static void drop_current(struct uplink *uplink)
{
	free(uplink->current);
	uplink->current = NULL;
	uplink->current_length = 0;
}

/* Hands the current batch, or the next one, to nng. Called by the chain, or by who starts it. */
static void advance(struct uplink *uplink)
{
	nng_msg *message = NULL;
	bool out_of_memory = false;

	pthread_mutex_lock(&uplink->mutex);
	if (uplink->closing || (!uplink->current && !take_next(uplink))) {
		uplink->busy = false;
		pthread_cond_broadcast(&uplink->idle);
		pthread_mutex_unlock(&uplink->mutex);
		return;
	}
	if (nng_msg_alloc(&message, 0) ||
		nng_msg_append(message, uplink->current, uplink->current_length)) {
		nng_msg_free(message);
		out_of_memory = true;
	} else {
		if (!uplink->current_sent.value)
			uplink->current_sent = clock_now();
		uplink->state.bytes_sent += uplink->current_length;
	}
	pthread_mutex_unlock(&uplink->mutex);

	if (out_of_memory) {
		nng_sleep_aio(RETRY_MS, uplink->retry_aio);
		return;
	}
	nng_aio_set_msg(uplink->send_aio, message);
	nng_send_aio(uplink->socket, uplink->send_aio);
}

static void on_sent(void *context)
{
	struct uplink *uplink = context;
	int error = nng_aio_result(uplink->send_aio);

	if (error) {
		nng_msg_free(nng_aio_get_msg(uplink->send_aio));
		nng_aio_set_msg(uplink->send_aio, NULL);
		nng_sleep_aio(RETRY_MS, uplink->retry_aio);
		return;
	}
	nng_aio_set_msg(uplink->send_aio, NULL); /* nng owns it now */
	nng_recv_aio(uplink->socket, uplink->receive_aio);
}

static void on_retry(void *context)
{
	advance(context);
}

static void keep_reply(struct uplink *uplink, const struct message_reply *reply)
{
	if (uplink->reply_count == REPLIES_MAX) {
		uplink->reply_first = (uplink->reply_first + 1) % REPLIES_MAX;
		uplink->reply_count--;
		uplink->state.replies_dropped++;
	}
	uplink->replies[(uplink->reply_first + uplink->reply_count++) % REPLIES_MAX] = *reply;
}

/* The exchange is complete: with an answer that can be read, or with one that never will be. */
static void complete(struct uplink *uplink, const struct message_reply *reply, const char *refused)
{
	pthread_mutex_lock(&uplink->mutex);
	if (reply) {
		uplink->previous_sent = uplink->current_sent;
		uplink->previous_reply_received = clock_now();
		uplink->previous_received = reply->received;
		uplink->previous_reply_sent = reply->reply_sent;
		keep_reply(uplink, reply);
	}
	if (refused) {
		snprintf(uplink->state.refused, sizeof(uplink->state.refused), "%s", refused);
		uplink->state.batches_lost++;
	} else {
		uplink->state.batches_acknowledged++;
	}
	drop_current(uplink);
	pthread_mutex_unlock(&uplink->mutex);
}

static void on_received(void *context)
{
	struct uplink *uplink = context;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct message_reply reply;
	nng_msg *message;
	int error = nng_aio_result(uplink->receive_aio);

	if (error) {
		nng_sleep_aio(RETRY_MS, uplink->retry_aio);
		return;
	}
	message = nng_aio_get_msg(uplink->receive_aio);
	nng_aio_set_msg(uplink->receive_aio, NULL);
	error = wire_decode_reply(nng_msg_body(message), nng_msg_len(message), &reply, why);
	nng_msg_free(message);
	if (error)
		complete(uplink, NULL, why);
	else
		complete(uplink, &reply,
			reply.accepted ? NULL
			: reply.why[0] ? reply.why
				       : "the coordinator refused it without a reason");
	advance(uplink);
}

static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *context)
{
	struct uplink *uplink = context;

	(void)pipe;
	pthread_mutex_lock(&uplink->mutex);
	if (event == NNG_PIPE_EV_ADD_POST)
		uplink->pipe_count++;
	else if (event == NNG_PIPE_EV_REM_POST && uplink->pipe_count)
		uplink->pipe_count--;
	pthread_mutex_unlock(&uplink->mutex);
}

static int from_nng(int error)
{
	switch (error) {
	case 0:
		return 0;
	case NNG_ENOMEM:
		return -ENOMEM;
	default:
		return -EINVAL;
	}
}

static int open_socket(struct uplink *uplink, const char *url)
{
	nng_dialer dialer;
	int error = nng_req0_open(&uplink->socket);

	if (error)
		return -ENOMEM;
	error = nng_socket_set_ms(uplink->socket, NNG_OPT_REQ_RESENDTIME, RESEND_MS);
	if (!error)
		error = nng_socket_set_ms(uplink->socket, NNG_OPT_RECONNMINT, RECONNECT_MIN_MS);
	if (!error)
		error = nng_socket_set_ms(uplink->socket, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS);
	if (!error)
		error = nng_socket_set_size(uplink->socket, NNG_OPT_RECVMAXSZ, REPLY_BYTES_MAX);
	if (!error)
		error = nng_pipe_notify(uplink->socket, NNG_PIPE_EV_ADD_POST, on_pipe, uplink);
	if (!error)
		error = nng_pipe_notify(uplink->socket, NNG_PIPE_EV_REM_POST, on_pipe, uplink);
	if (!error)
		error = nng_dialer_create(&dialer, uplink->socket, url);
	if (!error)
		error = nng_dialer_start(dialer, NNG_FLAG_NONBLOCK);
	if (error)
		nng_close(uplink->socket);
	return from_nng(error);
}

static void init_locks(struct uplink *uplink)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&uplink->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&uplink->idle, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

static void free_uplink(struct uplink *uplink)
{
	struct queued_batch *batch = uplink->first;

	while (batch) {
		struct queued_batch *next = batch->next;

		free(batch);
		batch = next;
	}
	nng_aio_free(uplink->send_aio);
	nng_aio_free(uplink->receive_aio);
	nng_aio_free(uplink->retry_aio);
	spool_destroy(uplink->spool);
	drop_current(uplink);
	wire_buffer_fini(&uplink->encoded);
	pthread_cond_destroy(&uplink->idle);
	pthread_mutex_destroy(&uplink->mutex);
	free(uplink);
}

/* nng looks names and ports up in the background, where nobody would learn that they are wrong. */
static bool url_usable(const char *url)
{
	const char *colon;
	char *end;
	long port;

	if (!url)
		return false;
	if (!strncmp(url, "ipc://", 6))
		return url[6] && strlen(url + 6) < IPC_PATH_BYTES;
	if (strncmp(url, "tcp://", 6))
		return false;
	colon = strrchr(url + 6, ':');
	if (!colon || colon == url + 6 || colon[1] < '0' || colon[1] > '9')
		return false;
	port = strtol(colon + 1, &end, 10);
	return !*end && port > 0 && port <= UINT16_MAX;
}

int uplink_create(const struct uplink_options *options, struct uplink **uplink)
{
	struct uplink *made;
	int error = 0;

	if (!url_usable(options->url))
		return -EINVAL;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	init_locks(made);
	made->last = &made->first;
	made->memory_bytes_max =
		options->memory_bytes_max ? options->memory_bytes_max : MEMORY_BYTES_DEFAULT;
	if (options->spool_path)
		error = spool_create(options->spool_path,
			options->spool_bytes_max ? options->spool_bytes_max : SPOOL_BYTES_DEFAULT,
			&made->spool);
	if (!error && (nng_aio_alloc(&made->send_aio, on_sent, made) ||
			      nng_aio_alloc(&made->receive_aio, on_received, made) ||
			      nng_aio_alloc(&made->retry_aio, on_retry, made)))
		error = -ENOMEM;
	if (!error)
		error = open_socket(made, options->url);
	if (error) {
		free_uplink(made);
		return error;
	}
	*uplink = made;
	return 0;
}

void uplink_destroy(struct uplink *uplink)
{
	if (!uplink)
		return;
	pthread_mutex_lock(&uplink->mutex);
	uplink->closing = true;
	pthread_mutex_unlock(&uplink->mutex);
	nng_close(uplink->socket);
	/* Each waits for its callback; afterwards no callback starts anything that runs. */
	nng_aio_stop(uplink->send_aio);
	nng_aio_stop(uplink->receive_aio);
	nng_aio_stop(uplink->retry_aio);
	if (nng_aio_get_msg(uplink->send_aio)) /* never taken by nng */
		nng_msg_free(nng_aio_get_msg(uplink->send_aio));
	free_uplink(uplink);
}

/* Queues the encoded bytes in memory or on disk. Mutex held. */
static int enqueue(struct uplink *uplink)
{
	size_t length = uplink->encoded.length;
	bool spooling = uplink->spool && spool_count(uplink->spool) > 0;
	struct queued_batch *batch;

	if (!spooling && uplink->queued_bytes + length <= uplink->memory_bytes_max) {
		batch = malloc(sizeof(*batch) + length);
		if (batch) {
			batch->next = NULL;
			batch->length = length;
			memcpy(batch->bytes, uplink->encoded.bytes, length);
			*uplink->last = batch;
			uplink->last = &batch->next;
			uplink->queued_count++;
			uplink->queued_bytes += length;
			return 0;
		}
	}
	if (!uplink->spool || spool_push(uplink->spool, uplink->encoded.bytes, length))
		return -ENOBUFS;
	uplink->state.batches_spooled++;
	return 0;
}

static void start_chain(struct uplink *uplink)
{
	bool start;

	pthread_mutex_lock(&uplink->mutex);
	start = !uplink->busy && pending(uplink);
	if (start)
		uplink->busy = true;
	pthread_mutex_unlock(&uplink->mutex);
	if (start)
		advance(uplink);
}

int uplink_send(struct uplink *uplink, struct message_batch *batch, struct host_ns now)
{
	int error;

	pthread_mutex_lock(&uplink->mutex);
	batch->sent = now;
	batch->previous_sent = uplink->previous_sent;
	batch->previous_reply_received = uplink->previous_reply_received;
	batch->previous_received = uplink->previous_received;
	batch->previous_reply_sent = uplink->previous_reply_sent;
	pthread_mutex_unlock(&uplink->mutex);

	error = wire_encode_batch(batch, &uplink->encoded);
	pthread_mutex_lock(&uplink->mutex);
	if (!error)
		error = enqueue(uplink);
	if (error)
		uplink->state.batches_lost++;
	pthread_mutex_unlock(&uplink->mutex);
	start_chain(uplink);
	return error;
}

bool uplink_take_reply(struct uplink *uplink, struct message_reply *reply)
{
	bool taken = false;

	pthread_mutex_lock(&uplink->mutex);
	if (uplink->reply_count) {
		*reply = uplink->replies[uplink->reply_first];
		uplink->reply_first = (uplink->reply_first + 1) % REPLIES_MAX;
		uplink->reply_count--;
		taken = true;
	}
	pthread_mutex_unlock(&uplink->mutex);
	return taken;
}

int uplink_flush(struct uplink *uplink, int timeout_ms)
{
	struct timespec deadline;
	int error = 0;

	start_chain(uplink); /* it stops when it finds no memory for the next batch */
	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += timeout_ms / 1000;
	deadline.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (deadline.tv_nsec >= 1000000000L) {
		deadline.tv_sec++;
		deadline.tv_nsec -= 1000000000L;
	}
	pthread_mutex_lock(&uplink->mutex);
	while (pending(uplink) && !error)
		error = pthread_cond_timedwait(&uplink->idle, &uplink->mutex, &deadline);
	error = pending(uplink) ? -ETIMEDOUT : 0;
	pthread_mutex_unlock(&uplink->mutex);
	return error;
}

void uplink_get_state(const struct uplink *uplink, struct uplink_state *state)
{
	struct uplink *unlocked = (struct uplink *)uplink; /* the mutex is not part of its value */

	pthread_mutex_lock(&unlocked->mutex);
	*state = uplink->state;
	state->connected = uplink->pipe_count > 0;
	state->batches_pending = pending(uplink);
	pthread_mutex_unlock(&unlocked->mutex);
}
