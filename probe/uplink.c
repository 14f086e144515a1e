/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <nng/nng.h>

#include "probe/auth/credential.h"
#include "probe/auth/key_file.h"
#include "probe/auth/seal.h"
#include "probe/auth/tls_files.h"
#include "probe/ring/host_clock.h"
#include "probe/spool.h"
#include "probe/uplink.h"
#include "probe/uplink_connection.h"
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"

enum {
	SPOOL_BYTES_DEFAULT = 64 * 1024 * 1024,
	MEMORY_BYTES_DEFAULT = 8 * 1024 * 1024,
	REPLIES_MAX = 256,
	/*
	 * nng sends again by itself when a connection breaks, but see uplink_connection.h: so a
	 * request without an answer for this long gets a new connection.
	 */
	ANSWER_TIMEOUT_MS = 10000,
	CLOSE_TIMEOUT_MS = 1000,
	OLD_MAX = 8,	/* old connections being closed at a time */
	RETRY_MS = 200, /* after an error that nng does not repair itself */
	UNPROVEN_RETRY_MS =
		1000, /* after an answer without our key's proof, where none was proven yet */
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
	char *url;
	struct nng_tls_config *tls; /* the caller's */
	struct uplink_connection *connection;
	struct uplink_connection *old[OLD_MAX]; /* being closed */
	nng_aio *send_aio;
	nng_aio *receive_aio;
	nng_aio *retry_aio;
	pthread_mutex_t mutex;
	pthread_cond_t idle; /* nothing is pending */
	bool busy;
	bool closing;
	bool may_move;
	bool asks;
	struct message_answer *answer; /* nobody took it yet */
	bool moved;		       /* the URL has changed since the connection was made */

	uint8_t *current; /* the batch on its way */
	size_t current_length;
	bool current_spooled; /* it is the spool's oldest, until it is acknowledged */
	/* Of the chain. Where there is none of the three, nothing is proven; nor at an open URL. */
	struct seal *file_seal;
	struct seal *session_seal; /* with what the coordinator gave; before the file's */
	struct credential *credential;
	bool denied; /* the coordinator there gives nothing that we can read */
	bool open_url;
	bool nonce_known; /* of the coordinator, from its answer to a hello */
	uint8_t nonce[SEAL_NONCE_BYTES];
	uint64_t next_number;
	struct seal_head asked;	       /* the head of the request on its way */
	uint8_t head[SEAL_HEAD_BYTES]; /* the same, as sent */
	bool current_sealed;	       /* head is the current batch's: each resend has its bytes */
	struct host_ns current_sent;   /* when it was first handed to nng; 0 = not yet */
	struct queued_batch *first;
	struct queued_batch **last;
	size_t queued_count;
	size_t queued_bytes;
	size_t memory_bytes_max;
	struct spool *spool; /* NULL: memory only. While it holds any, new batches go there */
	bool resumed;	     /* it held some at the start */
	uint64_t resumed_id, resumed_number;

	struct host_ns previous_sent, previous_reply_received;
	struct job_ns previous_received, previous_reply_sent;
	struct message_reply replies[REPLIES_MAX];
	size_t reply_first, reply_count;
	struct uplink_state state;
	struct wire_buffer encoded; /* of the caller's thread */
};

static struct host_ns clock_now(void)
{
	return (struct host_ns){host_clock_now_ns()};
}

static size_t pending(const struct uplink *uplink)
{
	return (uplink->current && !uplink->current_spooled ? 1 : 0) + uplink->queued_count +
	       (uplink->spool ? spool_count(uplink->spool) : 0);
}

/* The oldest batch of those in memory. Mutex held. */
static int take_queued(struct uplink *uplink)
{
	struct queued_batch *batch = uplink->first;
	uint8_t *bytes = malloc(batch->length);

	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, batch->bytes, batch->length);
	uplink->current = bytes;
	uplink->current_length = batch->length;
	uplink->first = batch->next;
	if (!uplink->first)
		uplink->last = &uplink->first;
	uplink->queued_count--;
	uplink->queued_bytes -= batch->length;
	free(batch);
	return 0;
}

static int take_spooled(struct uplink *uplink)
{
	size_t spooled = uplink->spool ? spool_count(uplink->spool) : 0;
	void *bytes;
	int error = spooled ? spool_peek(uplink->spool, &bytes, &uplink->current_length) : -ENODATA;

	if (error == -EIO) { /* all of it is gone */
		uplink->state.batches_lost += spooled;
		return -ENODATA;
	}
	if (error)
		return error;
	uplink->current = bytes;
	uplink->current_spooled = true;
	return 0;
}

/* Makes the oldest batch the current one. Returns 0; -ENODATA: there is none; -ENOMEM. Mutex held. */
static int take_next(struct uplink *uplink)
{
	int error = uplink->first ? take_queued(uplink) : take_spooled(uplink);

	if (error)
		return error;
	uplink->current_sent.value = 0;
	uplink->current_sealed = false;
	return 0;
}

static void drop_current(struct uplink *uplink)
{
	if (uplink->current_spooled)
		spool_drop(uplink->spool);
	uplink->current_spooled = false;
	free(uplink->current);
	uplink->current = NULL;
	uplink->current_length = 0;
}

/*
 * Puts a fresh connection in place of one that has not answered for too long. The old one closes
 * by itself, at most OLD_MAX at a time: then this one is kept. When nng closes nothing any more,
 * only a connection that broke is worth one of these.
 */
static void replace_connection(struct uplink *uplink)
{
	struct uplink_connection *fresh = NULL, **slot = NULL;
	bool hangs = false, moved;
	char *url;

	for (size_t i = 0; i < OLD_MAX; i++) {
		if (uplink->old[i] && uplink_connection_closed(uplink->old[i], 0)) {
			uplink_connection_release(uplink->old[i]);
			uplink->old[i] = NULL;
		}
		if (!uplink->old[i])
			slot = &uplink->old[i];
		else
			hangs = true;
	}
	pthread_mutex_lock(&uplink->mutex);
	url = strdup(uplink->url);
	moved = uplink->moved;
	uplink->moved = false;
	pthread_mutex_unlock(&uplink->mutex);
	if (hangs && !moved && !uplink_connection_was_up(uplink->connection))
		slot = NULL;
	if (!slot || !url ||
		uplink_connection_open(
			url, tls_files_url(url) ? uplink->tls : NULL, uplink->asks, &fresh)) {
		free(url);
		return;
	}
	free(url);
	if (uplink_connection_start_close(uplink->connection)) {
		(void)!uplink_connection_start_close(fresh); /* no thread to be had: keep the old */
		uplink_connection_release(fresh);
		return;
	}
	*slot = uplink->connection;
	pthread_mutex_lock(&uplink->mutex);
	uplink->connection = fresh;
	pthread_mutex_unlock(&uplink->mutex);
}

/* After an error of nng: sends the current batch once more, a little later. Of the chain. */
static void try_again(struct uplink *uplink, int error)
{
	if (error == NNG_ETIMEDOUT)
		replace_connection(uplink);
	nng_sleep_aio(RETRY_MS, uplink->retry_aio);
}

static bool is_proving(const struct uplink *uplink)
{
	return (uplink->file_seal || uplink->credential) && !uplink->open_url;
}

static struct seal *seal_of(const struct uplink *uplink)
{
	return uplink->session_seal ? uplink->session_seal : uplink->file_seal;
}

static void forget_session(struct uplink *uplink)
{
	seal_destroy(uplink->session_seal);
	uplink->session_seal = NULL;
	uplink->denied = uplink->nonce_known = uplink->current_sealed = false;
}

/*
 * Puts the proof in front of the current batch, once; or, as long as the coordinator's nonce is not known, a
 * hello in its place, and before that the question for a key. Returns 0 or a negative errno. Mutex held.
 */
static int seal_current(struct uplink *uplink, bool *hello)
{
	struct seal_head *head = &uplink->asked;
	bool ask = uplink->credential && !uplink->session_seal && !uplink->denied;
	int error;

	*hello = is_proving(uplink) && !uplink->nonce_known;
	if (!is_proving(uplink) || uplink->current_sealed)
		return 0;
	*head = (struct seal_head){.kind = ask	    ? SEAL_ASK
					   : *hello ? SEAL_HELLO
						    : SEAL_BATCH,
		.key = uplink->session_seal ? SEAL_KEY_SESSION : SEAL_KEY_FILE};
	error = wire_sender_id(uplink->current, uplink->current_length, &head->probe_id);
	if (error)
		return error;
	if (*hello) {
		if (getrandom(head->nonce, SEAL_NONCE_BYTES, 0) != SEAL_NONCE_BYTES)
			return -EIO;
		if (ask)
			seal_write_open(head, uplink->head);
		else if (!seal_of(uplink))
			return -ENOKEY;
		else
			return seal_write(seal_of(uplink), head, NULL, NULL, 0, uplink->head);
		return 0;
	}
	memcpy(head->nonce, uplink->nonce, SEAL_NONCE_BYTES);
	head->number = uplink->next_number + 1;
	error = seal_write(
		seal_of(uplink), head, NULL, uplink->current, uplink->current_length, uplink->head);
	if (error)
		return error;
	uplink->next_number++;
	uplink->current_sealed = true;
	return 0;
}

/* What goes to nng next, or NULL: no memory. Mutex held. */
static nng_msg *make_request(struct uplink *uplink)
{
	nng_msg *message = NULL;
	bool hello;

	if (seal_current(uplink, &hello) || nng_msg_alloc(&message, 0))
		return NULL;
	if ((is_proving(uplink) && nng_msg_append(message, uplink->head, SEAL_HEAD_BYTES)) ||
		(!hello && nng_msg_append(message, uplink->current, uplink->current_length))) {
		nng_msg_free(message);
		return NULL;
	}
	if (!hello && !uplink->current_sent.value)
		uplink->current_sent = clock_now();
	uplink->state.bytes_sent += nng_msg_len(message);
	return message;
}

/* Hands the current batch, or the next one, to nng. Called by the chain, or by who starts it. */
static void advance(struct uplink *uplink)
{
	nng_msg *message;
	bool moved;
	int error;

	pthread_mutex_lock(&uplink->mutex);
	moved = uplink->moved && !uplink->closing;
	pthread_mutex_unlock(&uplink->mutex);
	if (moved)
		replace_connection(uplink);
	pthread_mutex_lock(&uplink->mutex);
	error = uplink->current ? 0 : take_next(uplink);
	if (uplink->closing || error == -ENODATA) {
		uplink->busy = false;
		pthread_cond_broadcast(&uplink->idle);
		pthread_mutex_unlock(&uplink->mutex);
		return;
	}
	message = error ? NULL : make_request(uplink);
	pthread_mutex_unlock(&uplink->mutex);

	if (!message) {
		nng_sleep_aio(RETRY_MS, uplink->retry_aio);
		return;
	}
	nng_aio_set_msg(uplink->send_aio, message);
	nng_send_aio(uplink_connection_socket(uplink->connection), uplink->send_aio);
}

static void on_sent(void *context)
{
	struct uplink *uplink = context;
	int error = nng_aio_result(uplink->send_aio);

	if (error) {
		nng_msg_free(nng_aio_get_msg(uplink->send_aio));
		nng_aio_set_msg(uplink->send_aio, NULL);
		try_again(uplink, error);
		return;
	}
	nng_aio_set_msg(uplink->send_aio, NULL); /* nng owns it now */
	nng_recv_aio(uplink_connection_socket(uplink->connection), uplink->receive_aio);
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

/* Reads what the coordinator gave for this very question. Of the chain; munged is asked without the mutex. */
static struct seal *read_grant(struct uplink *uplink, nng_msg *message)
{
	const char *bytes = nng_msg_body(message);
	size_t length = nng_msg_len(message);
	char text[CREDENTIAL_LENGTH_MAX];
	struct seal *seal = NULL;
	struct seal_grant grant;
	struct seal_head head;

	if (seal_read(bytes, length, &head) || head.kind != SEAL_GRANT ||
		length - SEAL_HEAD_BYTES >= sizeof(text))
		return NULL;
	memcpy(text, bytes + SEAL_HEAD_BYTES, length - SEAL_HEAD_BYTES);
	text[length - SEAL_HEAD_BYTES] = '\0';
	if (credential_read(uplink->credential, text, &grant, sizeof(grant)))
		return NULL;
	if (memcmp(grant.magic, SEAL_GRANT_MAGIC, sizeof(grant.magic)) != 0 ||
		memcmp(grant.challenge, uplink->asked.nonce, SEAL_NONCE_BYTES) != 0 ||
		seal_create(grant.key, &seal))
		seal = NULL;
	explicit_bzero(&grant, sizeof(grant));
	return seal;
}

/* Whoever answered does not have our key. Mutex held. */
static void note_unproven(struct uplink *uplink)
{
	uplink->state.replies_unproven++;
	if (uplink->may_move && !uplink->state.proven) /* perhaps another user's */
		uplink->state.other_job = !uplink->moved;
}

/* The answer to a question for a key; the chain goes on after retry_ms. */
static void take_grant(struct uplink *uplink, nng_msg *message, int *retry_ms)
{
	struct seal *seal = read_grant(uplink, message);

	pthread_mutex_lock(&uplink->mutex);
	if (uplink->moved) {
		seal_destroy(seal);
	} else if (seal) {
		seal_destroy(uplink->session_seal);
		uplink->session_seal = seal;
	} else {
		uplink->denied = true;
		if (!uplink->file_seal) {
			note_unproven(uplink);
			*retry_ms = UNPROVEN_RETRY_MS;
		}
	}
	pthread_mutex_unlock(&uplink->mutex);
}

/*
 * Looks at what came before anybody believes it. Takes the proof off a reply to the current batch and
 * returns true; false when there is nothing to complete: the chain goes on after retry_ms.
 */
static bool take_proof(struct uplink *uplink, nng_msg *message, int *retry_ms)
{
	struct seal_head head;
	bool proven, is_reply = true;

	*retry_ms = 0;
	pthread_mutex_lock(&uplink->mutex);
	if (uplink->moved || !is_proving(uplink)) {
		is_reply = !uplink->moved; /* else it is from where nobody is asked any more */
		pthread_mutex_unlock(&uplink->mutex);
		return is_reply;
	}
	if (uplink->asked.kind == SEAL_ASK) {
		pthread_mutex_unlock(&uplink->mutex);
		take_grant(uplink, message, retry_ms);
		return false;
	}
	proven = seal_read(nng_msg_body(message), nng_msg_len(message), &head) == 0 &&
		 seal_proven(seal_of(uplink), &head, uplink->asked.proof, nng_msg_body(message),
			 nng_msg_len(message));
	if (proven && uplink->asked.kind == SEAL_HELLO && head.kind == SEAL_WELCOME) {
		memcpy(uplink->nonce, head.nonce, SEAL_NONCE_BYTES);
		uplink->nonce_known = uplink->state.proven = true;
		is_reply = false;
	} else if (proven && uplink->asked.kind == SEAL_BATCH && head.kind == SEAL_RENEW) {
		uplink->nonce_known = uplink->current_sealed = false;
		is_reply = false;
	} else if (!proven || uplink->asked.kind != SEAL_BATCH || head.kind != SEAL_REPLY) {
		*retry_ms = uplink->state.proven ? RETRY_MS : UNPROVEN_RETRY_MS;
		note_unproven(uplink);
		if (uplink->session_seal) /* a coordinator that was started again has another one */
			forget_session(uplink);
		is_reply = false;
	}
	pthread_mutex_unlock(&uplink->mutex);
	return is_reply && !nng_msg_trim(message, SEAL_HEAD_BYTES);
}

/* The coordinator there is another job's, and this one's may be elsewhere: the batch is kept. */
static bool is_elsewhere(struct uplink *uplink, const struct message_reply *reply)
{
	bool elsewhere = false;

	for (size_t i = 0; i < reply->directive_count; i++)
		elsewhere |= reply->directives[i].kind == DIRECTIVE_OTHER_JOB;
	if (!elsewhere || reply->accepted || !uplink->may_move)
		return false;
	pthread_mutex_lock(&uplink->mutex);
	uplink->state.other_job = !uplink->moved;
	pthread_mutex_unlock(&uplink->mutex);
	return true;
}

/* Who cannot answer a question, or does not, sends a reply, which says why. */
static void take_answer(struct uplink *uplink, nng_msg *message)
{
	struct message_answer *answer = NULL;
	struct message_reply reply = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	if (wire_decode_answer(nng_msg_body(message), nng_msg_len(message), &answer, why) &&
		!wire_decode_reply(nng_msg_body(message), nng_msg_len(message), &reply, NULL) &&
		reply.why[0])
		snprintf(why, sizeof(why), "%s", reply.why);
	pthread_mutex_lock(&uplink->mutex);
	message_answer_destroy(uplink->answer);
	uplink->answer = answer;
	pthread_mutex_unlock(&uplink->mutex);
	complete(uplink, NULL, answer ? NULL : why);
}

static void on_received(void *context)
{
	struct uplink *uplink = context;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct message_reply reply;
	nng_msg *message;
	int retry_ms, error = nng_aio_result(uplink->receive_aio);

	if (error) {
		try_again(uplink, error);
		return;
	}
	message = nng_aio_get_msg(uplink->receive_aio);
	nng_aio_set_msg(uplink->receive_aio, NULL);
	if (!take_proof(uplink, message, &retry_ms)) {
		nng_msg_free(message);
		nng_sleep_aio(retry_ms, uplink->retry_aio);
		return;
	}
	if (uplink->asks) {
		take_answer(uplink, message);
		nng_msg_free(message);
		advance(uplink);
		return;
	}
	error = wire_decode_reply(nng_msg_body(message), nng_msg_len(message), &reply, why);
	nng_msg_free(message);
	if (!error && is_elsewhere(uplink, &reply)) {
		nng_sleep_aio(RETRY_MS, uplink->retry_aio);
		return;
	}
	if (error)
		complete(uplink, NULL, why);
	else
		complete(uplink, &reply,
			reply.accepted ? NULL
			: reply.why[0] ? reply.why
				       : "the coordinator refused it without a reason");
	advance(uplink);
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
	free(uplink->current);
	message_answer_destroy(uplink->answer);
	spool_destroy(uplink->spool);
	seal_destroy(uplink->file_seal);
	seal_destroy(uplink->session_seal);
	free(uplink->url);
	wire_buffer_fini(&uplink->encoded);
	pthread_cond_destroy(&uplink->idle);
	pthread_mutex_destroy(&uplink->mutex);
	free(uplink);
}

/* Finds out who went before, from the newest batch that it left. */
static void look_at_resumed(struct uplink *uplink)
{
	struct message_batch *batch;
	size_t length;
	void *bytes;

	if (spool_peek_newest(uplink->spool, &bytes, &length))
		return;
	if (wire_decode_batch(bytes, length, &batch, NULL) == 0) {
		uplink->resumed = true;
		uplink->resumed_id = batch->probe_id;
		uplink->resumed_number = batch->number + 1;
		message_batch_destroy(batch);
	}
	free(bytes);
}

static int open_spool(struct uplink *uplink, const struct uplink_options *options)
{
	const struct spool_options spool_options = {
		.folder = options->spool_folder,
		.name = options->spool_name,
		.epoch = options->spool_epoch,
		.takes_over = options->spool_takes_over,
		.bytes_max = uplink->state.spool_bytes_max,
	};
	int error = spool_create(&spool_options, &uplink->spool);

	if (!error)
		look_at_resumed(uplink);
	return error;
}

int uplink_create(const struct uplink_options *options, struct uplink **uplink)
{
	struct uplink *made;
	int error = 0;

	if (!options->url)
		return -EINVAL;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	init_locks(made);
	made->last = &made->first;
	made->tls = options->tls;
	made->may_move = options->may_move;
	made->asks = options->asks;
	made->url = strdup(options->url);
	if (!made->url)
		error = -ENOMEM;
	made->memory_bytes_max =
		options->memory_bytes_max ? options->memory_bytes_max : MEMORY_BYTES_DEFAULT;
	made->state.spool_bytes_max =
		options->spool_bytes_max ? options->spool_bytes_max : SPOOL_BYTES_DEFAULT;
	made->credential = options->credential;
	if (!error && options->key)
		error = seal_create(options->key, &made->file_seal);
	made->state.proven = !is_proving(made);
	/* Above those of a probe before, whose batches are proven anew. */
	made->next_number = (uint64_t)clock_now().value;
	if (!error && options->spool_folder)
		error = open_spool(made, options);
	if (!error && (nng_aio_alloc(&made->send_aio, on_sent, made) ||
			      nng_aio_alloc(&made->receive_aio, on_received, made) ||
			      nng_aio_alloc(&made->retry_aio, on_retry, made)))
		error = -ENOMEM;
	if (!error) {
		nng_aio_set_timeout(made->send_aio, ANSWER_TIMEOUT_MS);
		nng_aio_set_timeout(made->receive_aio, ANSWER_TIMEOUT_MS);
		error = uplink_connection_open(made->url, made->tls, made->asks, &made->connection);
	}
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
	/* Each waits for its callback; afterwards no callback starts anything that runs. */
	nng_aio_stop(uplink->send_aio);
	nng_aio_stop(uplink->receive_aio);
	nng_aio_stop(uplink->retry_aio);
	if (nng_aio_get_msg(uplink->send_aio)) /* never taken by nng */
		nng_msg_free(nng_aio_get_msg(uplink->send_aio));
	nng_aio_set_msg(uplink->send_aio, NULL);
	if (!uplink_connection_start_close(uplink->connection))
		uplink_connection_closed(uplink->connection, CLOSE_TIMEOUT_MS);
	uplink_connection_release(uplink->connection);
	for (size_t i = 0; i < OLD_MAX; i++) {
		if (uplink->old[i])
			uplink_connection_release(uplink->old[i]);
	}
	free_uplink(uplink);
}

bool uplink_resumed(const struct uplink *uplink, uint64_t *probe_id, uint64_t *next_number)
{
	if (uplink->resumed) {
		*probe_id = uplink->resumed_id;
		*next_number = uplink->resumed_number;
	}
	return uplink->resumed;
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

/* What was encoded, where it was: error is 0. Returns the same, or why it is lost. */
static int send_encoded(struct uplink *uplink, int error)
{
	pthread_mutex_lock(&uplink->mutex);
	if (!error)
		error = enqueue(uplink);
	if (error)
		uplink->state.batches_lost++;
	pthread_mutex_unlock(&uplink->mutex);
	start_chain(uplink);
	return error;
}

int uplink_send(struct uplink *uplink, struct message_batch *batch, struct host_ns now)
{
	pthread_mutex_lock(&uplink->mutex);
	batch->sent = now;
	batch->previous_sent = uplink->previous_sent;
	batch->previous_reply_received = uplink->previous_reply_received;
	batch->previous_received = uplink->previous_received;
	batch->previous_reply_sent = uplink->previous_reply_sent;
	pthread_mutex_unlock(&uplink->mutex);

	return send_encoded(uplink, wire_encode_batch(batch, &uplink->encoded));
}

int uplink_ask(struct uplink *uplink, const struct message_question *question)
{
	return send_encoded(uplink, wire_encode_question(question, &uplink->encoded));
}

struct message_answer *uplink_take_answer(struct uplink *uplink)
{
	struct message_answer *answer;

	pthread_mutex_lock(&uplink->mutex);
	answer = uplink->answer;
	uplink->answer = NULL;
	pthread_mutex_unlock(&uplink->mutex);
	return answer;
}

int uplink_move(struct uplink *uplink, const char *url)
{
	char *copy;

	if (!uplink_connection_url_usable(url))
		return -EINVAL;
	copy = strdup(url);
	if (!copy)
		return -ENOMEM;
	pthread_mutex_lock(&uplink->mutex);
	free(uplink->url);
	uplink->url = copy;
	uplink->moved = true;
	uplink->state.other_job = false;
	forget_session(uplink);
	uplink->open_url = !key_file_needed(url);
	uplink->state.proven = !is_proving(uplink);
	pthread_mutex_unlock(&uplink->mutex);
	/* What waits at the old one is handed to the new one when the chain goes on. */
	nng_aio_abort(uplink->send_aio, NNG_ECANCELED);
	nng_aio_abort(uplink->receive_aio, NNG_ECANCELED);
	return 0;
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
	state->connected = uplink_connection_up(uplink->connection);
	state->batches_pending = pending(uplink);
	pthread_mutex_unlock(&unlocked->mutex);
}
