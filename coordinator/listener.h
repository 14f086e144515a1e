/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes requests from any number of probes over nng REP and answers them. Requests are handed
 * on one at a time, from one thread of the listener's own, in the order of their receive times;
 * those of addresses outside of the job's world (peers.h) behind the others, with a later time.
 * When that thread is busy, some requests wait here and the others at their senders: nothing
 * is dropped, but what is beyond a quota.
 */
#ifndef SLOWRANK_COORDINATOR_LISTENER_H
#define SLOWRANK_COORDINATOR_LISTENER_H

#include "coordinator/gate.h"
#include "probe/wire/message.h"

struct listener;

struct listener_options {
	const char *const *urls; /* url_count of them: ipc:///path, tcp://address:port */
	size_t url_count;	 /* 1..LISTENER_URLS_MAX */
	/*
	 * Takes one request, called from the listener's thread. bytes are valid during the call.
	 * Fills reply, all but reply_sent. Returns 1 where it is of a probe with a rank of the job's world, whose
	 * address may send more (coordinator/peers.h), else 0; after a negative errno no reply is sent, and the probe
	 * sends the request again later.
	 */
	int (*on_request)(void *context, const void *bytes, size_t length, struct job_ns received,
		struct message_reply *reply);
	/*
	 * Answers a question, called likewise; answer comes as a refusal without a reason, and borrows its looks until the
	 * next call. Returns 0; after a negative errno no answer is sent. NULL: questions are refused.
	 */
	int (*on_question)(void *context, const struct message_question *question,
		struct job_ns received, struct message_answer *answer);
	void *context;
	/*
	 * Beyond ipc and the loopback, probes prove this key (SEAL_KEY_BYTES). NULL: no URL may be there,
	 * unless insecure is set: then everybody who reaches one is believed.
	 */
	const uint8_t *key;
	/* Or one that probes of this user get through MUNGE; held by the caller. NULL: no MUNGE here. */
	struct credential *credential;
	bool insecure;
	int idle_ms; /* after which a connection that brings nothing is closed; 0 = PEERS_IDLE_MS */
	struct nng_tls_config *tls; /* for tls+tcp://, held by the caller; else NULL */
	/* Called for each request of a stranger, from the listener's thread; may be NULL. */
	void (*on_refused)(void *context, enum gate_refusal why, const char *peer);
};

enum {
	LISTENER_URLS_MAX = 8,
	LISTENER_URL_LENGTH_MAX = 255, /* without the NUL */
};

/*
 * Listens, and takes requests from now on. Returns 0; -EINVAL for a URL that cannot be used,
 * -EADDRINUSE, another negative errno. On failure why (when not NULL) holds one line that names
 * the URL. The caller owns the listener.
 */
int listener_create(const struct listener_options *options, struct listener **listener,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));

/*
 * To be called once a second, by one thread. nng 1.5.2 hears nobody any more over ipc when a peer is killed in the
 * middle of its first words (docs/wire.md, Transport): then listens anew at the same place. Who is connected stays so.
 */
void listener_look_after(struct listener *listener);

/* Stops. Requests that were not answered stay with their probes. NULL is fine. */
void listener_destroy(struct listener *listener);

/* The URL that probes can use for urls[index]: with the port that a port of 0 became. */
const char *listener_url(const struct listener *listener, size_t index);

struct listener_state {
	uint64_t peers;	     /* probes connected now */
	uint64_t requests;   /* handed on so far, questions included */
	uint64_t bytes;	     /* in them */
	uint64_t unanswered; /* on_request() failed, or the reply could not be made or sent */
	uint64_t refused[GATE_REFUSAL_NR]; /* of strangers: not handed on */
	/* See peers.h: requests that were dropped, connections that were closed for others, or were idle. */
	uint64_t over_quota, over_connections, idle_closed;
};
void listener_get_state(const struct listener *listener, struct listener_state *state);

#endif
