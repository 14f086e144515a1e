/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One nng REQ socket of the uplink, with its dialer, and a way to be rid of it that never waits
 * for nng. In nng 1.5.2, when a connection is closed between two parts of a message, the process's
 * one thread that removes connections waits forever (like nng#1636): no socket of the process then
 * connects for a second time, nor closes. Any thread.
 */
#ifndef SLOWRANK_PROBE_UPLINK_CONNECTION_H
#define SLOWRANK_PROBE_UPLINK_CONNECTION_H

#include <stdbool.h>

#include <nng/nng.h>

struct uplink_connection;
struct nng_tls_config;

/* True for ipc:///PATH, tcp://HOST:PORT and tls+tcp://HOST:PORT; whether anybody is there is not known. */
bool uplink_connection_url_usable(const char *url);

/*
 * Connects in the background; tls is for tls+tcp:// and NULL else; nng holds it. asks: what comes may be as long as
 * an answer, else as a reply. Returns 0; -EINVAL for a URL that cannot be used; -ENOMEM.
 */
int uplink_connection_open(const char *url, struct nng_tls_config *tls, bool asks,
	struct uplink_connection **connection) __attribute__((warn_unused_result));

enum { UPLINK_TLS_WHY_LENGTH = 192 };

/*
 * Why nobody is reached at tls+tcp://: connects once more, aside, in a thread, for timeout_ms at most. tls
 * outlives the question. Returns 0 or a negative errno; the caller owns the question until it takes the answer.
 */
struct uplink_tls_question;
int uplink_tls_ask(const char *url, struct nng_tls_config *tls, int timeout_ms,
	struct uplink_tls_question **question) __attribute__((warn_unused_result));
bool uplink_tls_answered(const struct uplink_tls_question *question);
/* One line in words, or "" where TLS is not what fails. Waits for it, and ends the question. */
void uplink_tls_take(struct uplink_tls_question *question, char why[UPLINK_TLS_WHY_LENGTH]);

nng_socket uplink_connection_socket(const struct uplink_connection *connection);
bool uplink_connection_up(struct uplink_connection *connection);
/* Ever: one that never was goes on dialling by itself, whatever hangs. */
bool uplink_connection_was_up(struct uplink_connection *connection);

/* Begins to close the socket, in a thread of its own. Returns 0 or a negative errno: still open. */
int uplink_connection_start_close(struct uplink_connection *connection)
	__attribute__((warn_unused_result));

/* True when the socket is closed; waits for it at most timeout_ms. */
bool uplink_connection_closed(struct uplink_connection *connection, int timeout_ms);

/* Gives it up. Memory is freed now, or when the socket is closed, or never if nng hangs. */
void uplink_connection_release(struct uplink_connection *connection);

#endif
