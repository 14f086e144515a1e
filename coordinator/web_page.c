/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/web_page.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { READ_LATELY_S = 10 };

/* What is published, until it is packed. */
struct published {
	struct page_data data;
	struct trail *trail;
	uint64_t version;
};

/* What is sent, and goes with its last reader. Of the server's thread. */
struct sent {
	unsigned readers;
	size_t length;
	char *text;
};

struct web_page {
	char *shell;
	size_t shell_length;
	atomic_long last_read_s;
	uint64_t version;	  /* of the pipeline's thread */
	pthread_mutex_t mutex;	  /* for the next one */
	struct published *newest; /* NULL: packed already */
	struct sent *sent;	  /* of the server's thread, as is the next one */
	uint64_t sent_version;
};

static long now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void published_destroy(struct published *published)
{
	if (!published)
		return;
	page_data_fini(&published->data);
	trail_destroy(published->trail);
	free(published);
}

static void sent_release(void *context)
{
	struct sent *sent = context;

	if (!sent || --sent->readers)
		return;
	free(sent->text);
	free(sent);
}

int web_page_create(struct web_page **result)
{
	struct web_page *page = calloc(1, sizeof(*page));
	FILE *memory = page ? open_memstream(&page->shell, &page->shell_length) : NULL;
	int error = memory ? page_write_shell(memory) : -ENOMEM;

	if (memory && fclose(memory) != 0)
		error = -ENOMEM;
	if (error) {
		if (page)
			free(page->shell);
		free(page);
		return -ENOMEM;
	}
	pthread_mutex_init(&page->mutex, NULL);
	atomic_init(&page->last_read_s, now_s() - READ_LATELY_S);
	*result = page;
	return 0;
}

void web_page_destroy(struct web_page *page)
{
	if (!page)
		return;
	published_destroy(page->newest);
	sent_release(page->sent);
	pthread_mutex_destroy(&page->mutex);
	free(page->shell);
	free(page);
}

void web_page_publish(
	struct web_page *page, const struct report_model *model, const struct trail *trail)
{
	struct published *published, *before;

	if (now_s() - atomic_load(&page->last_read_s) >= READ_LATELY_S)
		return;
	published = calloc(1, sizeof(*published));
	if (!published)
		return;
	published->version = ++page->version;
	published->trail = trail ? trail_copy(trail) : NULL;
	if (page_data_begin(&published->data, model, published->trail, published->version)) {
		published_destroy(published);
		return;
	}
	pthread_mutex_lock(&page->mutex);
	before = page->newest;
	page->newest = published;
	pthread_mutex_unlock(&page->mutex);
	published_destroy(before);
}

void web_page_handle_shell(
	void *context, const struct http_request *request, struct http_response *response)
{
	struct web_page *page = context;

	(void)request;
	response->type = "text/html; charset=utf-8";
	response->body = page->shell;
	response->length = page->shell_length;
}

static struct sent *pack(const struct published *published)
{
	struct sent *sent = calloc(1, sizeof(*sent));
	FILE *memory = sent ? open_memstream(&sent->text, &sent->length) : NULL;
	int error = memory ? page_data_write(&published->data, memory) : -ENOMEM;

	if (memory && (ferror(memory) || fclose(memory) != 0))
		error = -ENOMEM;
	if (sent)
		sent->readers = 1;
	if (error == 0)
		return sent;
	sent_release(sent);
	return NULL;
}

/* Whoever reads first after a publication packs it for all. */
static void take_newest(struct web_page *page)
{
	struct published *newest;
	struct sent *sent;

	pthread_mutex_lock(&page->mutex);
	newest = page->newest;
	page->newest = NULL;
	pthread_mutex_unlock(&page->mutex);
	if (!newest)
		return;
	sent = pack(newest);
	if (sent) {
		sent_release(page->sent);
		page->sent = sent;
		page->sent_version = newest->version;
	}
	published_destroy(newest);
}

void web_page_handle_data(
	void *context, const struct http_request *request, struct http_response *response)
{
	struct web_page *page = context;
	const char *after = http_request_argument(request, "after");

	atomic_store(&page->last_read_s, now_s());
	take_newest(page);
	if (!page->sent || (after && strtoull(after, NULL, 10) == page->sent_version)) {
		*response = (struct http_response){.status = 204};
		return;
	}
	page->sent->readers++;
	response->type = "application/json";
	response->body = page->sent->text;
	response->length = page->sent->length;
	response->release = sent_release;
	response->context = page->sent;
}
