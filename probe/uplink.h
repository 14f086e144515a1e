/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivers batches to the coordinator over nng REQ, one at a time and in order, and never makes
 * its caller wait: while the coordinator is away, encoded batches go to a bounded spool file
 * and are delivered later. At least once; the coordinator removes doubles. The functions are
 * for one thread; nng's own threads stay behind them.
 */
#ifndef SLOWRANK_PROBE_UPLINK_H
#define SLOWRANK_PROBE_UPLINK_H

#include "probe/wire/message.h"

struct uplink;
struct nng_tls_config;

struct uplink_options {
	const char *url; /* ipc:///path, tcp://host:port, tls+tcp://host:port */
	/*
	 * A file is made in this folder when needed, under this name (spool.h). NULL: memory only.
	 */
	const char *spool_folder, *spool_name;
	uint64_t spool_epoch;  /* batches of another one are of no use */
	bool spool_takes_over; /* what a killed process left there is delivered first */
	size_t spool_bytes_max; /* 0 = 64 MiB; the oldest batches are kept, new ones are lost and counted */
	/*
	 * What both sides prove: this key (SEAL_KEY_BYTES, copied), or one that the coordinator gives through
	 * MUNGE (held by the caller, the uplink's until it is destroyed), which is asked for first. Both NULL:
	 * nothing is proven.
	 */
	const uint8_t *key;
	struct credential *credential;
	/* For tls+tcp://, held by the caller for as long as the uplink lives; else NULL. */
	struct nng_tls_config *tls;
	bool may_move; /* a coordinator of another job is not an answer: see uplink_move() */
	bool asks;     /* it sends questions, not batches: uplink_ask() */
	size_t memory_bytes_max; /* encoded batches kept in memory before the spool; 0 = 8 MiB */
};

/* Returns 0; -EINVAL for a URL that nng does not take; -ENOMEM. Connects in the background. */
int uplink_create(const struct uplink_options *options, struct uplink **uplink)
	__attribute__((warn_unused_result));
void uplink_destroy(struct uplink *uplink); /* NULL is fine; what is not delivered is lost */

/*
 * Whether batches of a probe before are delivered first. Then whoever goes on in its place has its id, and counts
 * its batches from next_number.
 */
bool uplink_resumed(const struct uplink *uplink, uint64_t *probe_id, uint64_t *next_number);

/*
 * Takes a batch (encoded inside; the caller keeps its own and numbers it). Sets batch->sent to
 * now and the previous_* stamps itself. Every resend has the same bytes. Returns 0; -ENOBUFS
 * when there is no room left; an error of wire_encode_batch(). After an error, the batch is
 * lost and counted.
 */
int uplink_send(struct uplink *uplink, struct message_batch *batch, struct host_ns now);

/*
 * Takes a question, as uplink_send() a batch; it counts as one. What came for the latest one is the caller's to take
 * and to destroy; NULL: nothing, or a refusal (state.refused).
 */
int uplink_ask(struct uplink *uplink, const struct message_question *question);
struct message_answer *uplink_take_answer(struct uplink *uplink);

/*
 * Looks for the coordinator at another URL, with all that is not delivered yet; on this host nothing is
 * proven there. Returns 0; -EINVAL
 * for a URL that nng does not take; -ENOMEM.
 */
int uplink_move(struct uplink *uplink, const char *url) __attribute__((warn_unused_result));

/* The next reply that came in, if any. At most 256 wait; then the oldest goes. */
bool uplink_take_reply(struct uplink *uplink, struct message_reply *reply);

/* Waits until all is acknowledged, at most timeout_ms. Returns 0 or -ETIMEDOUT. */
int uplink_flush(struct uplink *uplink, int timeout_ms) __attribute__((warn_unused_result));

struct uplink_state {
	bool connected;
	bool other_job; /* with may_move: the coordinator there serves another job */
	uint64_t batches_acknowledged;
	uint64_t batches_pending;
	uint64_t batches_spooled;  /* went through the spool so far */
	uint64_t batches_lost;	   /* no room, not encodable, or refused by the coordinator */
	uint64_t spool_bytes_max;  /* as asked for, or the default */
	uint64_t bytes_sent;	   /* handed to nng, resends by this code included */
	uint64_t replies_dropped;  /* nobody took them */
	uint64_t replies_unproven; /* not made with our key for what was sent: not believed */
	bool proven;		   /* the coordinator has our key; true where nothing is proven */
	char refused[WIRE_DETAIL_LENGTH_MAX + 1]; /* why the coordinator refused a batch, or "" */
};
void uplink_get_state(const struct uplink *uplink, struct uplink_state *state);

#endif
