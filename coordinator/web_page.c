/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/web_page.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include "coordinator/page/packed.h"

enum { READ_LATELY_S = 10, RUN_LENGTH = 20 };

/* Text as it is sent, and deflated; it goes with its last reader. */
struct sent {
	atomic_uint readers;
	size_t length, packed_length;
	char *text;
	unsigned char *packed;
	char etag[HTTP_ETAG_LENGTH];
};

/* What was published: first as news for who has the trail of an earlier publication. */
struct published {
	struct page_data data;
	struct trail *trail; /* or NULL: the course of the job is not known */
	uint64_t version;
};

/* What the server's thread has of a trail: the rest is news. */
struct had {
	char layout[PARTS_LAYOUT_LENGTH]; /* "": nothing */
	size_t column_count;
};

struct web_page {
	struct sent *shell;
	char run[RUN_LENGTH];
	atomic_long last_read_s;
	uint64_t version;	  /* of the pipeline's thread */
	pthread_mutex_t mutex;	  /* for the next two */
	struct published *newest; /* NULL: taken already */
	struct had had;
	pthread_mutex_t
		serving; /* while a handler runs, for the next two; the pipeline's thread only tries */
	struct published *current; /* whose parts are served */
	struct sent *sent;	   /* and its head */
};

static struct timespec clock_now(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now;
}

static long now_s(void)
{
	return clock_now(CLOCK_MONOTONIC).tv_sec;
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

	if (!sent || atomic_fetch_sub(&sent->readers, 1) != 1)
		return;
	free(sent->packed);
	free(sent->text);
	free(sent);
}

/* Takes the text, also on failure. NULL: no memory. */
static struct sent *sent_create(char *text, size_t length, const char *etag)
{
	struct sent *sent = calloc(1, sizeof(*sent));

	if (!sent || packed_make(text, length, &sent->packed, &sent->packed_length)) {
		free(sent);
		free(text);
		return NULL;
	}
	atomic_init(&sent->readers, 1);
	sent->text = text;
	sent->length = length;
	snprintf(sent->etag, sizeof(sent->etag), "%s", etag);
	return sent;
}

static void send_text(
	struct sent *sent, const struct http_request *request, struct http_response *response)
{
	response->deflated = http_request_takes_deflated(request);
	response->body = response->deflated ? (const void *)sent->packed : sent->text;
	response->length = response->deflated ? sent->packed_length : sent->length;
	response->keeping = HTTP_KEEP_AND_ASK;
	memcpy(response->etag, sent->etag, sizeof(response->etag));
	response->release = sent_release;
	response->context = sent;
	atomic_fetch_add(&sent->readers, 1);
}

static struct sent *make_shell(void)
{
	char *text = NULL, etag[HTTP_ETAG_LENGTH];
	size_t length = 0;
	FILE *memory = open_memstream(&text, &length);
	int error = memory ? page_write_shell(memory) : -ENOMEM;

	if (memory && fclose(memory) != 0)
		error = -ENOMEM;
	if (error) {
		free(text);
		return NULL;
	}
	snprintf(
		etag, sizeof(etag), "%lx", crc32(0, (const unsigned char *)text, (unsigned)length));
	return sent_create(text, length, etag);
}

int web_page_create(struct web_page **result)
{
	struct web_page *page = calloc(1, sizeof(*page));
	struct timespec begun = clock_now(CLOCK_REALTIME);

	if (page)
		page->shell = make_shell();
	if (!page || !page->shell) {
		free(page);
		return -ENOMEM;
	}
	/* Another coordinator at the same address has other parts by the same names. */
	snprintf(page->run, sizeof(page->run), "%llx",
		(unsigned long long)begun.tv_sec * 1000000 +
			(unsigned long long)begun.tv_nsec / 1000);
	pthread_mutex_init(&page->mutex, NULL);
	pthread_mutex_init(&page->serving, NULL);
	atomic_init(&page->last_read_s, now_s() - READ_LATELY_S);
	*result = page;
	return 0;
}

void web_page_destroy(struct web_page *page)
{
	if (!page)
		return;
	published_destroy(page->newest);
	published_destroy(page->current);
	sent_release(page->sent);
	sent_release(page->shell);
	pthread_mutex_destroy(&page->serving);
	pthread_mutex_destroy(&page->mutex);
	free(page);
}

static void replace_newest(struct web_page *page, struct published *published)
{
	struct published *before;

	pthread_mutex_lock(&page->mutex);
	before = page->newest;
	page->newest = published;
	pthread_mutex_unlock(&page->mutex);
	published_destroy(before);
}

/* Nobody reads: what was kept for readers goes. */
static void forget(struct web_page *page)
{
	if (pthread_mutex_trylock(&page->serving))
		return;
	published_destroy(page->current);
	page->current = NULL;
	sent_release(page->sent);
	page->sent = NULL;
	pthread_mutex_lock(&page->mutex);
	page->had = (struct had){0};
	pthread_mutex_unlock(&page->mutex);
	replace_newest(page, NULL);
	pthread_mutex_unlock(&page->serving);
}

/* The news of a trail for who has some of it: its columns from the last one that he has, which may have changed; rows, where they have. */
static int take_news(struct published *published, const struct trail *trail,
	const struct report_model *model, const struct had *had)
{
	struct parts *parts = &published->data.parts;
	bool same = strcmp(had->layout, parts->layout) == 0 && had->column_count;
	int error = same ? 0 : parts_take_rows(parts, model);

	if (error)
		return error;
	published->trail = trail_news(trail, same ? had->column_count - 1 : 0, parts->shown);
	if (!published->trail)
		return -ENOMEM;
	parts->trail = published->trail;
	for (size_t i = 0; i < TRACKS_MAX; i++)
		parts->shown[i] = true;
	return 0;
}

void web_page_publish(
	struct web_page *page, const struct report_model *model, const struct trail *trail)
{
	struct published *published;
	struct had had;
	int error;

	if (now_s() - atomic_load(&page->last_read_s) >= READ_LATELY_S) {
		forget(page);
		return;
	}
	published = calloc(1, sizeof(*published));
	if (!published)
		return;
	pthread_mutex_lock(&page->mutex);
	had = page->had;
	pthread_mutex_unlock(&page->mutex);
	published->version = ++page->version;
	error = page_data_begin(&published->data, model, trail, published->version, page->run);
	if (error == 0 && trail)
		error = take_news(published, trail, model, &had);
	if (error)
		published_destroy(published);
	else
		replace_newest(page, published);
}

void web_page_handle_shell(
	void *context, const struct http_request *request, struct http_response *response)
{
	struct web_page *page = context;

	send_text(page->shell, request, response);
	response->type = "text/html; charset=utf-8";
}

static struct sent *make_head(const struct web_page *page, const struct published *published)
{
	char *text = NULL, etag[HTTP_ETAG_LENGTH];
	size_t length = 0;
	FILE *memory = open_memstream(&text, &length);
	int error = memory ? page_data_write(&published->data, false, memory) : -ENOMEM;

	if (memory && (ferror(memory) || fclose(memory) != 0))
		error = -ENOMEM;
	if (error) {
		free(text);
		return NULL;
	}
	snprintf(etag, sizeof(etag), "%s-%" PRIu64, page->run, published->version);
	return sent_create(text, length, etag);
}

/* Gives a publication what those before it brought, which are gone then. */
static void complete(struct web_page *page, struct published *newest)
{
	struct published *before = page->current;
	struct parts *parts = &newest->data.parts;
	struct trail *copy = before ? before->trail : NULL;

	if (newest->trail && before && !parts->rows.json) {
		parts->rows = before->data.parts.rows;
		before->data.parts.rows = (struct parts_rows){0};
	}
	if (before)
		before->trail = NULL;
	if (newest->trail)
		trail_complete(newest->trail, copy);
	else
		trail_destroy(copy);
	published_destroy(before);
	page->current = newest;
}

/* Whoever reads first after a publication makes its head for all. */
static void take_newest(struct web_page *page)
{
	struct published *newest;
	struct sent *sent;

	pthread_mutex_lock(&page->mutex);
	newest = page->newest;
	page->newest = NULL;
	if (newest) {
		page->had = (struct had){0};
		if (newest->trail) {
			memcpy(page->had.layout, newest->data.parts.layout,
				sizeof(page->had.layout));
			page->had.column_count = newest->trail->column_count;
		}
	}
	pthread_mutex_unlock(&page->mutex);
	if (!newest)
		return;
	complete(page, newest);
	sent = make_head(page, newest);
	if (sent) {
		sent_release(page->sent);
		page->sent = sent;
	}
}

void web_page_handle_data(
	void *context, const struct http_request *request, struct http_response *response)
{
	struct web_page *page = context;

	atomic_store(&page->last_read_s, now_s());
	pthread_mutex_lock(&page->serving);
	take_newest(page);
	if (page->sent) {
		send_text(page->sent, request, response);
		response->type = "application/json";
	} else {
		*response = (struct http_response){.status = 204};
	}
	pthread_mutex_unlock(&page->serving);
}

static void refuse(struct http_response *response, unsigned status, const char *why)
{
	*response = (struct http_response){.status = status, .body = why, .length = strlen(why)};
}

static void send_part(
	const struct published *published, const char *name, struct http_response *response)
{
	struct part part;
	int error = parts_make(&published->data.parts, name, &part);

	if (error == -EINVAL)
		refuse(response, 400, "There is no such part: docs/page.md has their names\n");
	else if (error == -ENOENT)
		refuse(response, 404, "There is no such row, column, rank or step\n");
	else if (error)
		refuse(response, 503, "No memory\n");
	else
		*response = (struct http_response){.type = "application/octet-stream",
			.keeping = part.finished ? HTTP_KEEP : HTTP_KEEP_NOTHING,
			.body = part.bytes,
			.length = part.length,
			.release = free,
			.context = part.bytes};
}

void web_page_handle_part(
	void *context, const struct http_request *request, struct http_response *response)
{
	struct web_page *page = context;
	const char *name = strchr(request->path, '/');
	size_t length = name ? (size_t)(name - request->path) : 0;
	const char *layout;

	atomic_store(&page->last_read_s, now_s());
	pthread_mutex_lock(&page->serving);
	layout = page->current && page->current->trail ? page->current->data.parts.layout : "";
	if (!length)
		refuse(response, 400, "Parts are asked for by their layout and their name\n");
	else if (strlen(layout) != length || strncmp(layout, request->path, length) != 0)
		refuse(response, 410, "The layout is gone: /page.json has the one that is now\n");
	else
		send_part(page->current, name + 1, response);
	pthread_mutex_unlock(&page->serving);
}
