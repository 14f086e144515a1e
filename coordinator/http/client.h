/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what an HTTP server of a coordinator serves (coordinator/http/server.h). libcurl is loaded when a client is made. One thread. */
#ifndef SLOWRANK_COORDINATOR_HTTP_CLIENT_H
#define SLOWRANK_COORDINATOR_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

enum {
	HTTP_CLIENT_CONNECT_MS = 3000,
	HTTP_CLIENT_GET_MS = 10000,
	HTTP_CLIENT_BYTES_MAX = 4 << 20, /* of an answer */
	HTTP_CLIENT_URL_LENGTH = 2048,
	HTTP_CLIENT_WHY_LENGTH = 256,
};

struct http_client;

struct http_client_options {
	const char
		*url; /* http:// or https://, what all paths follow; a "/" at its end is left out */
	/* Asked all the time while an answer is waited for: true gives it up. NULL: nobody does. */
	bool (*give_up)(void *context);
	void *context;
};

/* Returns 0; -EINVAL for what is no URL, -ENOENT without libcurl, -ENOMEM; then why is one line. The caller owns it. */
int http_client_create(const struct http_client_options *options, struct http_client **client,
	char why[HTTP_CLIENT_WHY_LENGTH]) __attribute__((warn_unused_result));
void http_client_destroy(struct http_client *client); /* NULL is fine */

/* What is shown from now on where the server asks for it (401): as `slowrank key http` prints it. */
void http_client_set_token(struct http_client *client, const char *token);

/*
 * GET: path begins with "/" and is encoded. Returns 0, and *status; *body is the client's, ends with a NUL, and is valid
 * until the next call. -ECONNREFUSED: nobody answers there; -EINTR: given up; -EMSGSIZE, -ENOMEM, -EIO; then why is one line.
 */
int http_client_get(struct http_client *client, const char *path, long *status, char **body,
	size_t *length, char why[HTTP_CLIENT_WHY_LENGTH]) __attribute__((warn_unused_result));

#endif
