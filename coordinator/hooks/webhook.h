/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posts events to a URL as JSON. libcurl is loaded when a webhook is made, and only then. A post that fails is tried
 * again, later each time; one that the other side refuses (4xx) is not. Where there is a secret, it is signed:
 *
 *   X-Slowrank-Timestamp: SECONDS             of the epoch
 *   X-Slowrank-Signature: sha256=HEX          HMAC-SHA256 of "SECONDS.BODY", with the secret's text as the key
 *
 * For one thread.
 */
#ifndef SLOWRANK_COORDINATOR_HOOKS_WEBHOOK_H
#define SLOWRANK_COORDINATOR_HOOKS_WEBHOOK_H

#include "coordinator/hooks/worker.h"

enum {
	WEBHOOK_TRIES = 10,
	WEBHOOK_FIRST_PAUSE_MS = 1000, /* twice as long after each try, */
	WEBHOOK_PAUSE_MAX_MS = 60000,  /* at most so long */
	WEBHOOK_CONNECT_MS = 5000,
	WEBHOOK_POST_MS = 15000,
	WEBHOOK_WHY_LENGTH = 200,
};

struct webhook;

struct webhook_options {
	const char *url;    /* http:// or https://; it outlives the webhook */
	const char *secret; /* of DERIVED_KEY_LENGTH, copied; NULL: not signed */
	int first_pause_ms; /* 0 = WEBHOOK_FIRST_PAUSE_MS */
};

/* Returns 0; -EINVAL for another URL, -ENOENT without libcurl, -ENOMEM; then why is one line. The caller owns it. */
int webhook_create(const struct webhook_options *options, struct webhook **webhook,
	char why[WEBHOOK_WHY_LENGTH]) __attribute__((warn_unused_result));
void webhook_destroy(struct webhook *webhook); /* NULL is fine */

/* As hook_worker_options.deliver; context: a struct webhook. Says once on stderr why one did not arrive. */
bool webhook_deliver(void *context, struct hook_worker *worker, const struct hook_event *event);

/* Tries beyond the first ones. Any thread. */
uint64_t webhook_retries(const struct webhook *webhook);

#endif
