/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP server for those who may read what the coordinator knows: GET and HEAD, by a table of
 * handlers. It has a thread of its own, in which all handlers are called: what they tell must be copied, or
 * held by a lock that is short. libmicrohttpd is loaded when a server is made, and only then.
 *
 * Who may read: whoever is on this host, under a Host that no web page elsewhere can send (an address, localhost,
 * this host's name, or the one that is listened at: DNS rebinding); and whoever shows the key (Authorization:
 * Bearer). Connections, headers and the time of a request are limited.
 */
#ifndef SLOWRANK_COORDINATOR_HTTP_SERVER_H
#define SLOWRANK_COORDINATOR_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	HTTP_CONNECTIONS_MAX = 256,
	HTTP_ADDRESS_CONNECTIONS_MAX = 192, /* of one address */
	HTTP_CONNECTION_BYTES = 16 * 1024,  /* of a request's head, and what is kept of it */
	HTTP_IDLE_S = 10,		    /* a connection on which nothing goes on */
	HTTP_REQUEST_MS = 60000,	    /* from its first byte to the last one of the answer */
	HTTP_HANDLERS_MAX = 16,
	HTTP_WHY_LENGTH = 400,
	HTTP_ETAG_LENGTH = 40, /* with its 0 */
};

struct http_request {
	const char *path; /* what follows the handler's own, "" where that is all */
	const void *connection;
	const struct http_library *library;
};

/* The value of ?name=value, decoded; valid during the call. NULL: there is none. */
const char *http_request_argument(const struct http_request *request, const char *name);

/* The reader takes bytes that are deflated (RFC 1950). */
bool http_request_takes_deflated(const struct http_request *request);

/* How long the reader itself, and nobody on the way, may keep an answer. */
enum http_keeping {
	HTTP_KEEP_NOTHING = 0,
	HTTP_KEEP_AND_ASK = 1, /* whether it is still what it was, by its etag */
	HTTP_KEEP = 2,	       /* for a day: it never changes */
};

/* Zero-initialised by the server: filled in by the handler. */
struct http_response {
	unsigned status;  /* 0 stands for 200 */
	const char *type; /* a literal, e.g. "text/html; charset=utf-8" */
	bool deflated;	  /* the body is, and the reader takes it */
	enum http_keeping keeping;
	/* What tells it from other answers at the same address, letters and digits; a reader that has it is sent 304 in its place. "": nothing. */
	char etag[HTTP_ETAG_LENGTH];
	/* Either length bytes that stay as they are until release(), */
	const void *body;
	size_t length;
	/*
	 * or next(), called until it returns 0: writes at most room bytes from that position on, returns how
	 * many, or a negative number: the answer is cut short.
	 */
	ssize_t (*next)(void *context, uint64_t position, char *to, size_t room);
	/* Called once, when all was sent or given up; may be NULL. context: this one, not the handler's. */
	void (*release)(void *context);
	void *context;
};

struct http_handler {
	const char
		*path; /* "/metrics"; one that ends in "/", "/" itself excepted, has all below it */
	bool open;     /* it tells nothing of the job: nobody needs to prove anything */
	void (*handle)(
		void *context, const struct http_request *request, struct http_response *response);
	void *context;
};

struct http_options {
	const char *address; /* as http_address_parse() reads it; a port of 0: any */
	const char *token;   /* of DERIVED_KEY_LENGTH, or NULL: nobody has a key */
	bool anybody;	     /* needs no key, wherever he is */
	const struct http_handler *handlers; /* copied; contexts are the caller's */
	size_t handler_count;
	int request_ms; /* 0 = HTTP_REQUEST_MS */
};

struct http_server;

/*
 * Listens and answers from now on. Returns 0; -EINVAL for an address that is none, -EPERM for one that needs a key,
 * -ENOENT without libmicrohttpd, -EADDRINUSE, another negative errno; then why is one line. The caller owns it.
 */
int http_server_create(const struct http_options *options, struct http_server **server,
	char why[HTTP_WHY_LENGTH]) __attribute__((warn_unused_result));

/* No handler is called any more once it returns, and all was released. NULL is fine. */
void http_server_destroy(struct http_server *server);

/* "http://127.0.0.1:9400/", with the port that a port of 0 became. */
const char *http_server_url(const struct http_server *server);

struct http_server_state {
	uint64_t connections;	     /* open now */
	uint64_t requests;	     /* handled by a handler */
	uint64_t no_key, other_host; /* refused */
	uint64_t too_slow;	     /* requests cut at HTTP_REQUEST_MS */
};
/* Any thread. */
void http_server_get_state(const struct http_server *server, struct http_server_state *state);

#endif
