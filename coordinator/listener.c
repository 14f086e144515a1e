/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>

#include "coordinator/listener.h"
#include "coordinator/peers.h"
#include "probe/auth/key_file.h"
#include "probe/auth/tls_files.h"
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"

enum {
	/* Requests that wait here at most: of one address outside of the world as many as it may have connections. */
	CONTEXT_COUNT = PEERS_PER_ADDRESS_MAX + 64,
	FIRST_IN_A_ROW = 8,	  /* of the world's, then one of the others that is older */
	REQUEST_HEAD_BYTES = 256, /* what nng's own headers may add */
	CLOSE_TIMEOUT_MS = 1000,
	SWEEP_MS = 1000, /* how often idle peers are looked for, */
	SWEEP_MAX = 256, /* and how many are closed then */
	/* Each takes munged a millisecond, and anybody may ask; the others ask again (uplink.c). */
	CREDENTIALS_PER_SECOND = 200,
	RENEWALS_MAX = 1000, /* of what listens over ipc: each leaves a file descriptor */
};

struct listener;

/* One request at a time: receive, wait in the queue, be answered, receive again. */
struct exchange {
	struct listener *listener;
	nng_ctx context;
	nng_aio *aio;
	bool open;
	bool sending; /* what the aio is doing */
	nng_msg *request;
	bool open_url; /* the request came where nothing needs to be proven */
	struct job_ns received;
	struct peer_standing standing;
};

struct listener {
	int (*on_request)(void *context, const void *bytes, size_t length, struct job_ns received,
		struct message_reply *reply);
	int (*on_question)(void *context, const struct message_question *question,
		struct job_ns received, struct message_answer *answer);
	void *context;
	void (*on_refused)(void *context, enum gate_refusal why, const char *peer);
	struct nng_tls_config *tls; /* the caller's */
	int64_t idle_ns;
	bool insecure;
	bool keyed;
	struct gate *gate;	       /* of the consumer, as are the next three */
	struct credential *credential; /* the caller's */
	struct job_ns second;	       /* in which credentials are counted */
	unsigned credentials_made;
	int proving_ids[LISTENER_URLS_MAX]; /* nng's listeners where a key needs to be proven */
	size_t proving_count, url_count;
	int ipc_ids
		[LISTENER_URLS_MAX]; /* those over ipc; of who looks after them, as is the next */
	unsigned renewals;
	nng_socket socket;
	bool socket_open;
	struct exchange exchanges[CONTEXT_COUNT];
	char urls[LISTENER_URLS_MAX][LISTENER_URL_LENGTH_MAX + 1];

	pthread_t consumer;
	bool consumer_started;
	struct wire_buffer encoded; /* of the consumer */
	pthread_mutex_t mutex;	    /* for all below */
	pthread_cond_t filled;
	struct peers *peers;
	struct job_ns swept,
		full; /* when idle peers were looked for, and all exchanges were taken */
	bool closing;
	bool socket_closed;
	bool released; /* who closes the socket frees it all */
	pthread_cond_t closed;
	struct exchange *queue[CONTEXT_COUNT]; /* a ring: each exchange is in it at most once */
	size_t queue_first, queue_count;
	struct exchange
		*others[CONTEXT_COUNT]; /* of addresses outside of the world, as they came */
	size_t other_count;
	unsigned in_a_row;    /* of the queue, while others waited */
	struct job_ns handed; /* the newest receive time of those that were taken */
	struct listener_state state;
};

static struct job_ns clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (struct job_ns){now.tv_sec * INT64_C(1000000000) + now.tv_nsec};
}

static void receive_next(struct exchange *exchange)
{
	exchange->sending = false;
	nng_ctx_recv(exchange->context, exchange->aio);
}

static void count_unanswered(struct listener *listener)
{
	pthread_mutex_lock(&listener->mutex);
	listener->state.unanswered++;
	pthread_mutex_unlock(&listener->mutex);
}

/*
 * By which URL a request came, not from whom: the addresses of the loopback are free to choose. Looked at
 * only where URLs differ: of a connection that is gone by now, nng does not know it any more.
 */
static bool came_by_open_url(const struct listener *listener, const nng_msg *request)
{
	int id;

	if (listener->proving_count == 0)
		return true;
	id = nng_listener_id(nng_pipe_listener(nng_msg_get_pipe(request)));
	for (size_t i = 0; i < listener->proving_count; i++) {
		if (listener->proving_ids[i] == id)
			return false;
	}
	return id > 0;
}

/* An address outside of the world leaves room for those of the world. */
static bool has_room(const struct listener *listener, const struct peer_standing *standing)
{
	size_t same = 0;

	for (size_t i = 0; i < listener->other_count && !standing->first; i++)
		same += listener->others[i]->standing.address == standing->address;
	return same < PEERS_PER_ADDRESS_MAX;
}

/* Takes the request over. False: the peer's address has sent too much. */
static bool enqueue(struct exchange *exchange, nng_msg *request)
{
	struct listener *listener = exchange->listener;
	struct peer_standing *standing = &exchange->standing;
	int id = nng_pipe_id(nng_msg_get_pipe(request));
	bool within;

	exchange->open_url = came_by_open_url(listener, request);
	pthread_mutex_lock(&listener->mutex);
	exchange->received = clock_now(); /* under the lock: the queue is in the order of times */
	within = peers_heard(listener->peers, id > 0 ? (uint32_t)id : 0, nng_msg_len(request),
			 exchange->received, standing) &&
		 has_room(listener, standing);
	listener->state.over_quota += !within;
	if (within)
		exchange->request = request;
	if (within && standing->first)
		listener->queue[(listener->queue_first + listener->queue_count++) % CONTEXT_COUNT] =
			exchange;
	else if (within)
		listener->others[listener->other_count++] = exchange;
	if (listener->queue_count + listener->other_count >=
		CONTEXT_COUNT - 1) /* and one is being answered */
		listener->full = exchange->received;
	pthread_cond_signal(&listener->filled);
	pthread_mutex_unlock(&listener->mutex);
	return within;
}

/* Called by nng when an exchange has received a request or sent its reply. */
static void on_done(void *context)
{
	struct exchange *exchange = context;
	int error = nng_aio_result(exchange->aio);
	nng_msg *message = nng_aio_get_msg(exchange->aio);

	if (error == NNG_ECLOSED || error == NNG_ECANCELED)
		return; /* listener_destroy() frees what is left */
	nng_aio_set_msg(exchange->aio, NULL);
	if (!exchange->sending && !error) {
		if (enqueue(exchange, message))
			return;
		nng_msg_free(message);
	}
	if (exchange->sending && error) {
		nng_msg_free(message);
		count_unanswered(exchange->listener);
	}
	receive_next(exchange);
}

/*
 * Closes peers that have been idle, or in the middle of a message, for too long. While all exchanges are taken,
 * whole messages wait unseen in nng: that time is nobody's fault, but of too many strangers at one address, who come
 * again where they are none. Called with the lock.
 */
static void sweep(struct listener *listener)
{
	struct job_ns now = clock_now();
	bool was_full = now.value - listener->full.value <= listener->idle_ns;
	uint32_t ids[SWEEP_MAX];
	size_t count;

	if (now.value - listener->swept.value < SWEEP_MS * INT64_C(1000000))
		return;
	listener->swept = now;
	count = peers_idle(
		listener->peers, was_full ? INT64_MAX : listener->idle_ns, now, ids, SWEEP_MAX);
	listener->state.idle_closed += count;
	pthread_mutex_unlock(&listener->mutex);
	for (size_t i = 0; i < count; i++)
		nng_pipe_close((nng_pipe){ids[i]});
	pthread_mutex_lock(&listener->mutex);
}

/* Whose address has sent the least of what it may comes first: not behind one that sends all that it can. */
static size_t next_other(const struct listener *listener)
{
	size_t next = 0;

	for (size_t i = 1; i < listener->other_count; i++) {
		if (listener->others[i]->standing.left_bytes >
			listener->others[next]->standing.left_bytes)
			next = i;
	}
	return next;
}

static struct exchange *take_other(struct listener *listener, size_t at)
{
	struct exchange *exchange = listener->others[at];

	listener->other_count--;
	memmove(&listener->others[at], &listener->others[at + 1],
		(listener->other_count - at) * sizeof(*listener->others));
	return exchange;
}

/*
 * Addresses of the world come first, in the order of times: what those outside of it send, with the key or without,
 * takes long to be read. They are not shut out: after so many an older one has its turn. Called with the lock.
 */
static struct exchange *take_next(struct listener *listener)
{
	struct exchange *exchange = listener->queue[listener->queue_first];
	size_t other = next_other(listener);

	if (!listener->queue_count ||
		(listener->in_a_row >= FIRST_IN_A_ROW &&
			listener->others[other]->received.value <= exchange->received.value)) {
		exchange = take_other(listener, other);
		listener->in_a_row = 0;
	} else {
		listener->queue_first = (listener->queue_first + 1) % CONTEXT_COUNT;
		listener->queue_count--;
		listener->in_a_row = listener->other_count ? listener->in_a_row + 1 : 0;
	}
	/* One that others went before came when it is taken, as far as clocks are concerned. */
	if (exchange->received.value < listener->handed.value)
		exchange->received = listener->handed;
	listener->handed = exchange->received;
	return exchange;
}

/* Waits for a request. NULL: the listener closes. */
static struct exchange *take(struct listener *listener)
{
	struct exchange *exchange = NULL;

	pthread_mutex_lock(&listener->mutex);
	sweep(listener);
	while (!listener->queue_count && !listener->other_count && !listener->closing) {
		int64_t wake_ns = clock_now().value + SWEEP_MS * INT64_C(1000000);
		struct timespec wake = {wake_ns / 1000000000, wake_ns % 1000000000};

		if (pthread_cond_clockwait(
			    &listener->filled, &listener->mutex, CLOCK_MONOTONIC, &wake))
			sweep(listener);
	}
	if (!listener->closing) {
		exchange = take_next(listener);
		listener->state.requests++;
		listener->state.bytes += nng_msg_len(exchange->request);
	}
	pthread_mutex_unlock(&listener->mutex);
	return exchange;
}

/* The head, where there is one, and then the bytes. NULL: no memory. */
static nng_msg *make_message(const uint8_t *head, const void *bytes, size_t length)
{
	nng_msg *message;

	if (nng_msg_alloc(&message, 0))
		return NULL;
	if ((head && nng_msg_append(message, head, SEAL_HEAD_BYTES)) ||
		(length && nng_msg_append(message, bytes, length))) {
		nng_msg_free(message);
		return NULL;
	}
	return message;
}

/* All 0 where it has none: a socket of this host's. */
static struct peer_address address_of(nng_pipe pipe)
{
	struct peer_address address = {.bytes = {[10] = 0xff, [11] = 0xff}};
	nng_sockaddr found;

	if (nng_pipe_get_addr(pipe, NNG_OPT_REMADDR, &found))
		return (struct peer_address){0};
	if (found.s_family == NNG_AF_INET)
		memcpy(address.bytes + 12, &found.s_in.sa_addr, sizeof(found.s_in.sa_addr));
	else if (found.s_family == NNG_AF_INET6)
		memcpy(address.bytes, found.s_in6.sa_addr, sizeof(address.bytes));
	else
		return (struct peer_address){0};
	return address;
}

static void name_peer(const nng_msg *request, char name[INET6_ADDRSTRLEN])
{
	nng_sockaddr address;

	snprintf(name, INET6_ADDRSTRLEN, "this host");
	if (nng_pipe_get_addr(nng_msg_get_pipe(request), NNG_OPT_REMADDR, &address))
		return;
	if (address.s_family == NNG_AF_INET)
		inet_ntop(AF_INET, &address.s_in.sa_addr, name, INET6_ADDRSTRLEN);
	else if (address.s_family == NNG_AF_INET6)
		inet_ntop(AF_INET6, address.s_in6.sa_addr, name, INET6_ADDRSTRLEN);
}

/* Counts a stranger, and answers in a way that every version understands. */
static void refuse(struct listener *listener, const nng_msg *request, enum gate_refusal why,
	struct message_reply *reply)
{
	char peer[INET6_ADDRSTRLEN];

	pthread_mutex_lock(&listener->mutex);
	listener->state.refused[why]++;
	pthread_mutex_unlock(&listener->mutex);
	name_peer(request, peer);
	if (listener->on_refused)
		listener->on_refused(listener->context, why, peer);
	snprintf(reply->why, sizeof(reply->why), "%s", gate_refusal_text(why));
}

static void believe(struct listener *listener, const nng_msg *request, bool of_world)
{
	int id = nng_pipe_id(nng_msg_get_pipe(request));

	pthread_mutex_lock(&listener->mutex);
	if (id > 0)
		peers_believe(listener->peers, (uint32_t)id, of_world);
	pthread_mutex_unlock(&listener->mutex);
}

/* The encoded message, behind a head where the request had one. NULL: no memory. */
static nng_msg *make_encoded(struct listener *listener, const struct gate_request *request)
{
	const struct wire_buffer *encoded = &listener->encoded;
	uint8_t head[SEAL_HEAD_BYTES];

	if (!request->sealed)
		return make_message(NULL, encoded->bytes, encoded->length);
	if (gate_close_reply(listener->gate, request, encoded->bytes, encoded->length, head))
		return NULL;
	return make_message(head, encoded->bytes, encoded->length);
}

static bool came_by_ipc(const nng_msg *request)
{
	nng_sockaddr address;

	return !nng_pipe_get_addr(nng_msg_get_pipe(request), NNG_OPT_LOCADDR, &address) &&
	       address.s_family == NNG_AF_IPC;
}

/*
 * What a rank does is told only to who has the key, or may open the socket: others of this host reach its loopback.
 * Returns the answer, or NULL when there is none.
 */
static nng_msg *answer_question(struct listener *listener, const struct exchange *exchange,
	const struct gate_request *request, const struct message_question *question)
{
	struct message_answer answer = {.asker_id = question->asker_id, .state = ANSWER_REFUSED};

	if (!request->sealed && !listener->insecure && !came_by_ipc(exchange->request))
		snprintf(answer.why, sizeof(answer.why),
			"every user of its host could ask at an address of the loopback: start "
			"the coordinator with --listen ipc:///PATH as well, and ask there");
	else if (listener->on_question(listener->context, question, exchange->received, &answer))
		return NULL;
	if (request->sealed)
		believe(listener, exchange->request, false);
	if (wire_encode_answer(&answer, &listener->encoded))
		return NULL;
	return make_encoded(listener, request);
}

/* Returns the reply, or NULL when there is none. */
static nng_msg *answer(struct listener *listener, struct exchange *exchange)
{
	struct message_question question;
	struct message_reply reply = {0};
	struct gate_request request;
	int result = gate_take(listener->gate, exchange->open_url, nng_msg_body(exchange->request),
		nng_msg_len(exchange->request), &request);
	int taken = 0;

	if (result < 0)
		return NULL;
	if (result == GATE_ANSWER)
		return make_message(request.answer, request.credential, strlen(request.credential));
	if (result == GATE_BATCH && listener->on_question &&
		!wire_decode_question(request.batch, request.length, &question, NULL))
		return answer_question(listener, exchange, &request, &question);
	if (result == GATE_REFUSED)
		refuse(listener, exchange->request, request.why, &reply);
	else
		taken = listener->on_request(listener->context, request.batch, request.length,
			exchange->received, &reply);
	if (taken < 0)
		return NULL;
	if (reply.accepted)
		believe(listener, exchange->request, taken > 0);
	reply.received = exchange->received;
	reply.reply_sent = clock_now();
	if (wire_encode_reply(&reply, &listener->encoded))
		return NULL;
	if (result == GATE_REFUSED) /* nobody believes a refusal's proof */
		request.sealed = false;
	return make_encoded(listener, &request);
}

static void *consume(void *context)
{
	struct listener *listener = context;
	struct exchange *exchange;

	while ((exchange = take(listener))) {
		nng_msg *reply = answer(listener, exchange);

		nng_msg_free(exchange->request);
		exchange->request = NULL;
		if (!reply) {
			count_unanswered(listener);
			receive_next(exchange); /* gives the unanswered request up */
			continue;
		}
		exchange->sending = true;
		nng_aio_set_msg(exchange->aio, reply);
		nng_ctx_send(exchange->context, exchange->aio);
	}
	return NULL;
}

static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *context)
{
	struct peer_address address = {0};
	struct listener *listener = context;
	uint32_t instead = 0;

	if (event == NNG_PIPE_EV_ADD_PRE)
		address = address_of(pipe);
	pthread_mutex_lock(&listener->mutex);
	if (event == NNG_PIPE_EV_ADD_PRE)
		instead = peers_add(listener->peers, pipe.id, &address, clock_now());
	else
		peers_remove(listener->peers, pipe.id);
	listener->state.over_connections += instead != 0;
	pthread_mutex_unlock(&listener->mutex);
	if (instead)
		nng_pipe_close((nng_pipe){instead});
}

static int errno_of(int nng_error)
{
	switch (nng_error) {
	case 0:
		return 0;
	case NNG_ENOMEM:
		return -ENOMEM;
	case NNG_EADDRINUSE:
		return -EADDRINUSE;
	case NNG_EPERM:
		return -EACCES;
	case NNG_ENOENT:
		return -ENOENT;
	default:
		return nng_error & NNG_ESYSERR ? -(nng_error & ~(int)NNG_ESYSERR) : -EINVAL;
	}
}

static int open_socket(struct listener *listener)
{
	int error = nng_rep0_open(&listener->socket);

	if (error)
		return errno_of(error);
	listener->socket_open = true;
	error = nng_socket_set_size(
		listener->socket, NNG_OPT_RECVMAXSZ, WIRE_MESSAGE_LENGTH_MAX + REQUEST_HEAD_BYTES);
	if (!error)
		error = nng_pipe_notify(listener->socket, NNG_PIPE_EV_ADD_PRE, on_pipe, listener);
	if (!error)
		error = nng_pipe_notify(listener->socket, NNG_PIPE_EV_REM_POST, on_pipe, listener);
	return errno_of(error);
}

/* Keeps the URL for listener_url(), with the port that the system chose for a port of 0. */
static void keep_url(struct listener *listener, size_t index, const char *url, nng_listener bound)
{
	char *kept = listener->urls[index];
	int port = 0;
	char *colon;

	snprintf(kept, sizeof(listener->urls[index]), "%s", url);
	colon = strrchr(kept, ':');
	if (!strncmp(url, "ipc://", 6) || !colon || strcmp(colon, ":0") ||
		nng_listener_get_int(bound, NNG_OPT_TCP_BOUND_PORT, &port))
		return;
	snprintf(colon, sizeof(listener->urls[index]) - (size_t)(colon - kept), ":%d", port);
}

/* nng removes what is at the path of a socket and does not answer: that must be a socket. */
static bool is_taken_by_a_file(const char *url)
{
	struct stat status;

	return !strncmp(url, "ipc://", 6) && lstat(url + 6, &status) == 0 &&
	       !S_ISSOCK(status.st_mode);
}

static int check_url(const struct listener *listener, const char *url, char *why)
{
	const size_t why_length = WIRE_DETAIL_LENGTH_MAX + 1;

	if (strncmp(url, "ipc://", 6) && strncmp(url, "tcp://", 6) &&
		!(tls_files_url(url) && listener->tls)) {
		snprintf(why, why_length,
			"cannot listen at '%.150s': use ipc:///path or tcp://address:port", url);
		return -EINVAL;
	}
	if (strlen(url) > LISTENER_URL_LENGTH_MAX - 5) { /* room for a port */
		snprintf(why, why_length, "cannot listen at '%.150s...': too long", url);
		return -EINVAL;
	}
	if (is_taken_by_a_file(url)) {
		snprintf(why, why_length,
			"cannot listen at '%.150s': a file is there that is no socket", url);
		return -EEXIST;
	}
	if (key_file_needed(url) && !listener->keyed && !listener->insecure) {
		snprintf(why, why_length,
			"cannot listen at '%.100s' without a key: --key-file FILE, or --insecure "
			"to "
			"believe everybody who reaches it",
			url);
		return -EPERM;
	}
	return 0;
}

static int listen_at(struct listener *listener, size_t index, const char *url, char *why)
{
	const size_t why_length = WIRE_DETAIL_LENGTH_MAX + 1;
	nng_listener bound;
	int error = check_url(listener, url, why);

	if (error)
		return error;
	error = nng_listener_create(&bound, listener->socket, url);
	if (!error) {
		if (key_file_needed(url) && !listener->insecure)
			listener->proving_ids[listener->proving_count++] = nng_listener_id(bound);
		if (!strncmp(url, "ipc://", 6))
			listener->ipc_ids[index] = nng_listener_id(bound);
		if (tls_files_url(url))
			error = nng_listener_set_ptr(bound, NNG_OPT_TLS_CONFIG, listener->tls);
		if (!error)
			error = nng_listener_start(bound, 0);
		if (error)
			nng_listener_close(bound);
	}
	if (error) {
		snprintf(why, why_length, "cannot listen at '%.150s': %s%s", url,
			nng_strerror(error),
			error == NNG_EADDRINUSE	  ? "; another coordinator runs there"
			: error == NNG_EADDRINVAL ? "; this host has no such address or port"
			: error == NNG_ENOENT	  ? "; there is no such folder"
						  : "");
		return errno_of(error);
	}
	keep_url(listener, index, url, bound);
	return 0;
}

static bool is_stat(nng_stat *stat, const char *name)
{
	return strcmp(nng_stat_name(stat), name) == 0;
}

/* By nng's own count of such ends, which it has no name for. */
static bool is_deaf(nng_stat *all, int id)
{
	for (nng_stat *of = nng_stat_child(all); of; of = nng_stat_next(of)) {
		bool is_ours = false, is_faulty = false;

		if (!is_stat(of, "listener"))
			continue;
		for (nng_stat *stat = nng_stat_child(of); stat; stat = nng_stat_next(stat)) {
			is_ours |= is_stat(stat, "id") && (int)nng_stat_value(stat) == id;
			is_faulty |= is_stat(stat, "other") && nng_stat_value(stat) > 0;
		}
		if (is_ours && is_faulty)
			return true;
	}
	return false;
}

/* The old one is left to itself, with the connections that it has; nobody reaches it by its name any more. */
static void listen_anew(struct listener *listener, size_t index)
{
	const char *url = listener->urls[index];
	nng_listener bound;

	(void)unlink(url + strlen("ipc://"));
	if (nng_listener_create(&bound, listener->socket, url))
		return;
	if (nng_listener_start(bound, 0)) {
		nng_listener_close(bound);
		return;
	}
	listener->ipc_ids[index] = nng_listener_id(bound);
	listener->renewals++;
}

void listener_look_after(struct listener *listener)
{
	nng_stat *all;

	if (listener->renewals == RENEWALS_MAX || nng_stats_get(&all))
		return;
	for (size_t i = 0; i < listener->url_count; i++) {
		if (listener->ipc_ids[i] && is_deaf(all, listener->ipc_ids[i]))
			listen_anew(listener, i);
	}
	nng_stats_free(all);
}

static int open_exchanges(struct listener *listener)
{
	for (size_t i = 0; i < CONTEXT_COUNT; i++) {
		struct exchange *exchange = &listener->exchanges[i];

		exchange->listener = listener;
		if (nng_aio_alloc(&exchange->aio, on_done, exchange))
			return -ENOMEM;
		if (nng_ctx_open(&exchange->context, listener->socket))
			return -ENOMEM;
		exchange->open = true;
	}
	return 0;
}

static int make_credential(
	void *context, const struct seal_grant *grant, char text[CREDENTIAL_LENGTH_MAX])
{
	struct listener *listener = context;
	struct job_ns now = clock_now();

	if (now.value - listener->second.value >= INT64_C(1000000000)) {
		listener->second = now;
		listener->credentials_made = 0;
	}
	if (listener->credentials_made == CREDENTIALS_PER_SECOND)
		return -EAGAIN;
	listener->credentials_made++;
	return credential_make(listener->credential, grant, sizeof(*grant), text);
}

static int start(struct listener *listener, const struct listener_options *options, char *why)
{
	uint8_t nonce[SEAL_NONCE_BYTES], session_key[SEAL_KEY_BYTES];
	int error = 0;

	if (getrandom(nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce) ||
		getrandom(session_key, sizeof(session_key), 0) != (ssize_t)sizeof(session_key))
		error = -EIO;
	if (!error)
		error = gate_create(options->key, nonce, &listener->gate);
	if (!error && options->credential)
		error = gate_share(listener->gate, session_key, make_credential, listener);
	explicit_bzero(session_key, sizeof(session_key));
	if (!error)
		error = open_socket(listener);
	if (!error)
		error = open_exchanges(listener);
	for (size_t i = 0; i < options->url_count && !error; i++)
		error = listen_at(listener, i, options->urls[i], why);
	if (error)
		return error;
	error = -pthread_create(&listener->consumer, NULL, consume, listener);
	if (error)
		return error;
	listener->consumer_started = true;
	for (size_t i = 0; i < CONTEXT_COUNT; i++)
		receive_next(&listener->exchanges[i]);
	return 0;
}

int listener_create(const struct listener_options *options, struct listener **listener,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	char unused_why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct listener *made;
	int error;

	if (!why)
		why = unused_why;
	why[0] = '\0';
	if (!options->url_count || options->url_count > LISTENER_URLS_MAX) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "give 1 to %d URLs to listen at",
			LISTENER_URLS_MAX);
		return -EINVAL;
	}
	made = calloc(1, sizeof(*made));
	if (!made) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "no memory");
		return -ENOMEM;
	}
	if (peers_create(&made->peers)) {
		free(made);
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "no memory");
		return -ENOMEM;
	}
	made->idle_ns = INT64_C(1000000) * (options->idle_ms ? options->idle_ms : PEERS_IDLE_MS);
	made->on_request = options->on_request;
	made->on_question = options->on_question;
	made->context = options->context;
	made->on_refused = options->on_refused;
	made->tls = options->tls;
	made->insecure = options->insecure;
	made->credential = options->credential;
	made->keyed = options->key != NULL || options->credential != NULL;
	made->url_count = options->url_count;
	pthread_mutex_init(&made->mutex, NULL);
	pthread_cond_init(&made->filled, NULL);
	pthread_cond_init(&made->closed, NULL);
	error = start(made, options, why);
	if (error) {
		if (!why[0])
			snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "cannot listen: %s",
				strerror(-error));
		listener_destroy(made);
		return error;
	}
	*listener = made;
	return 0;
}

static void free_listener(struct listener *listener)
{
	pthread_cond_destroy(&listener->closed);
	pthread_cond_destroy(&listener->filled);
	pthread_mutex_destroy(&listener->mutex);
	peers_destroy(listener->peers);
	free(listener);
}

static void *close_socket(void *context)
{
	struct listener *listener = context;
	bool released;

	nng_close(listener->socket);
	pthread_mutex_lock(&listener->mutex);
	listener->socket_closed = true;
	released = listener->released;
	pthread_cond_signal(&listener->closed);
	pthread_mutex_unlock(&listener->mutex);
	if (released)
		free_listener(listener);
	return NULL;
}

/*
 * Closes the socket, but waits only so long: in nng 1.5.2 the thread that removes connections
 * waits forever for one that is closed between two parts of a message (docs/wire.md, Transport).
 * Returns false then: the listener is freed when nng is done with it, if ever.
 */
static bool close_in_time(struct listener *listener)
{
	struct timespec deadline;
	pthread_t thread;
	bool closed;
	int error = 0;

	if (pthread_create(&thread, NULL, close_socket, listener))
		return false;
	pthread_detach(thread);
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += CLOSE_TIMEOUT_MS / 1000;
	pthread_mutex_lock(&listener->mutex);
	while (!listener->socket_closed && !error)
		error = pthread_cond_timedwait(&listener->closed, &listener->mutex, &deadline);
	closed = listener->socket_closed;
	listener->released = !closed;
	pthread_mutex_unlock(&listener->mutex);
	return closed;
}

static void free_exchange(struct exchange *exchange)
{
	if (!exchange->aio)
		return;
	if (exchange->request)
		nng_msg_free(exchange->request);
	if (nng_aio_get_msg(exchange->aio))
		nng_msg_free(nng_aio_get_msg(exchange->aio));
	nng_aio_free(exchange->aio);
}

void listener_destroy(struct listener *listener)
{
	if (!listener)
		return;
	pthread_mutex_lock(&listener->mutex);
	listener->closing = true;
	pthread_cond_signal(&listener->filled);
	pthread_mutex_unlock(&listener->mutex);
	if (listener->consumer_started)
		pthread_join(listener->consumer, NULL);
	for (size_t i = 0; i < CONTEXT_COUNT; i++) {
		if (listener->exchanges[i].aio)
			nng_aio_stop(listener->exchanges[i].aio); /* waits for its callback */
		if (listener->exchanges[i].open)
			nng_ctx_close(listener->exchanges[i].context);
	}
	for (size_t i = 0; i < CONTEXT_COUNT; i++)
		free_exchange(&listener->exchanges[i]);
	wire_buffer_fini(&listener->encoded);
	gate_destroy(listener->gate);
	listener->gate = NULL;
	if (!listener->socket_open || close_in_time(listener))
		free_listener(listener);
}

const char *listener_url(const struct listener *listener, size_t index)
{
	return index < LISTENER_URLS_MAX ? listener->urls[index] : "";
}

void listener_get_state(const struct listener *listener, struct listener_state *state)
{
	struct listener *unlocked = (struct listener *)listener; /* the mutex is no value */

	pthread_mutex_lock(&unlocked->mutex);
	*state = listener->state;
	state->peers = peers_count(listener->peers);
	pthread_mutex_unlock(&unlocked->mutex);
}
