/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the coordinator shows over HTTP. Whoever owns the pipeline publishes what it came to; the server's thread
 * reads the newest copy. Neither waits for the other for longer than a pointer takes.
 */
#ifndef SLOWRANK_COORDINATOR_WEB_H
#define SLOWRANK_COORDINATOR_WEB_H

#include "coordinator/hooks/hooks.h"
#include "coordinator/http/server.h"
#include "coordinator/listener.h"
#include "coordinator/page/trail.h"
#include "coordinator/report/model.h"

struct web;

struct web_options {
	const char *address; /* as http_options has them */
	const char *token;
	bool anybody;
	const struct listener *listener; /* whose counts are shown */
	struct hooks *hooks; /* the same, or NULL: there are none; they outlive the web */
};

/* Returns as http_server_create(). The caller owns it. */
int web_create(const struct web_options *options, struct web **web, char why[HTTP_WHY_LENGTH])
	__attribute__((warn_unused_result));
void web_destroy(struct web *web); /* NULL is fine */

const char *web_url(const struct web *web);

/* Before the listener ends: nothing of it is read any more. */
void web_watch_no_listener(struct web *web);

/* By the thread of the pipeline, as are the next three. Verdicts have changed: what comes next is due. */
void web_expect(struct web *web);
/* A step was judged: for the histogram of steps. */
void web_take_step(struct web *web, const struct judged_step *step);
/* Verdicts come late (coordinator/backlog.h). */
void web_late(struct web *web, bool late);

/*
 * To be asked after each batch: what was published is old. Once a second, and seldom enough to take a hundredth of the
 * time at most; at once after web_expect().
 */
bool web_is_due(const struct web *web, int64_t now_ns);
/* began_ns: when the model was asked for, by the clock of now_ns. newest: when the newest batch came. trail: the job's course. */
void web_publish(struct web *web, const struct report_model *model, const struct trail *trail,
	struct job_ns newest, int64_t began_ns);

#endif
