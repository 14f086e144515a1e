/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job for terminals that watch it (slowrank watch), live. Whoever owns the pipeline publishes copies while somebody reads;
 * choosing what a reader wants of them is left to the server's thread.
 */
#ifndef SLOWRANK_COORDINATOR_WEB_WATCH_H
#define SLOWRANK_COORDINATOR_WEB_WATCH_H

#include "coordinator/http/server.h"
#include "coordinator/report/model.h"

struct web_watch;

/* Returns 0 or -ENOMEM. The caller owns it. */
int web_watch_create(struct web_watch **watch) __attribute__((warn_unused_result));
void web_watch_destroy(struct web_watch *watch); /* NULL is fine; no handler may run any more */

/* By the pipeline's thread. Does nothing while nobody reads. newest: when the newest batch came. */
void web_watch_publish(
	struct web_watch *watch, const struct report_model *model, struct job_ns newest);

/*
 * For the table of handlers; the context is the watch. slowrank.watch/1; ?ranks=, ?host=, ?named=1: of these alone;
 * ?after=VERSION: 204 while there is nothing newer.
 */
void web_watch_handle(
	void *watch, const struct http_request *request, struct http_response *response);

#endif
