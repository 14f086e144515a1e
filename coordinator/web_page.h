/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of a job, live. Whoever owns the pipeline publishes copies while somebody reads; packing them is left to the
 * server's thread, so that the analysis never waits for a reader. A copy is of what is new since the one before.
 */
#ifndef SLOWRANK_COORDINATOR_WEB_PAGE_H
#define SLOWRANK_COORDINATOR_WEB_PAGE_H

#include "coordinator/http/server.h"
#include "coordinator/page/page.h"

struct web_page;

/* Returns 0 or -ENOMEM. The caller owns it. */
int web_page_create(struct web_page **page) __attribute__((warn_unused_result));
void web_page_destroy(struct web_page *page); /* NULL is fine; no handler may run any more */

/* By the pipeline's thread. Does nothing while nobody reads. */
void web_page_publish(
	struct web_page *page, const struct report_model *model, const struct trail *trail);

/* For the table of handlers; the context is the page. The first one tells nothing of the job. */
void web_page_handle_shell(
	void *page, const struct http_request *request, struct http_response *response);
/* slowrank.page/1; 204 while there is nothing. */
void web_page_handle_data(
	void *page, const struct http_request *request, struct http_response *response);
/* LAYOUT/NAME: a part (coordinator/page/parts.h). 410: of another layout than /page.json has now. */
void web_page_handle_part(
	void *page, const struct http_request *request, struct http_response *response);

#endif
