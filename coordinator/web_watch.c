/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/web_watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "coordinator/watch/view.h"

enum { READ_LATELY_S = 10 };

struct web_watch {
	atomic_long last_read_s;
	struct watch_lately lately; /* of the pipeline's thread */
	pthread_mutex_t mutex;	    /* for the next one */
	struct watch_table *newest; /* NULL: taken already */
	struct watch_table *table;  /* of the server's thread, as are the next two */
	uint64_t version;
	struct watch_view view;
};

static long now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

int web_watch_create(struct web_watch **result)
{
	struct web_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return -ENOMEM;
	pthread_mutex_init(&watch->mutex, NULL);
	atomic_init(&watch->last_read_s, now_s() - READ_LATELY_S);
	*result = watch;
	return 0;
}

void web_watch_destroy(struct web_watch *watch)
{
	if (!watch)
		return;
	watch_table_destroy(watch->newest);
	watch_table_destroy(watch->table);
	watch_lately_fini(&watch->lately);
	pthread_mutex_destroy(&watch->mutex);
	free(watch);
}

void web_watch_publish(
	struct web_watch *watch, const struct report_model *model, struct job_ns newest)
{
	struct watch_table *table, *before;

	if (now_s() - atomic_load(&watch->last_read_s) >= READ_LATELY_S) {
		watch_lately_fini(&watch->lately);
		return;
	}
	if (watch_table_create(model, &watch->lately, newest, &table))
		return;
	pthread_mutex_lock(&watch->mutex);
	before = watch->newest;
	watch->newest = table;
	pthread_mutex_unlock(&watch->mutex);
	watch_table_destroy(before);
}

static void take_newest(struct web_watch *watch)
{
	struct watch_table *newest;

	pthread_mutex_lock(&watch->mutex);
	newest = watch->newest;
	watch->newest = NULL;
	pthread_mutex_unlock(&watch->mutex);
	if (!newest)
		return;
	watch_table_destroy(watch->table);
	watch->table = newest;
	watch->version++;
}

static char *write_view(struct web_watch *watch, const struct watch_wish *wish, size_t *length)
{
	char *text = NULL;
	FILE *memory = watch_view_take(&watch->view, watch->table, wish, watch->version) == 0
			       ? open_memstream(&text, length)
			       : NULL;
	bool failed;

	if (!memory)
		return NULL;
	watch_view_write(&watch->view, memory);
	failed = ferror(memory);
	if (fclose(memory) || failed) {
		free(text);
		return NULL;
	}
	return text;
}

void web_watch_handle(
	void *context, const struct http_request *request, struct http_response *response)
{
	struct web_watch *watch = context;
	const char *after = http_request_argument(request, "after"),
		   *named = http_request_argument(request, "named");
	struct watch_wish wish = {.named = named && *named == '1'};
	char *text;

	atomic_store(&watch->last_read_s, now_s());
	take_newest(watch);
	if (!watch_wish_set(&wish, http_request_argument(request, "ranks"),
		    http_request_argument(request, "host"))) {
		*response = (struct http_response){.status = 400};
		return;
	}
	if (!watch->table || (after && strtoull(after, NULL, 10) == watch->version)) {
		*response = (struct http_response){.status = 204};
		return;
	}
	text = write_view(watch, &wish, &response->length);
	if (!text) {
		*response = (struct http_response){.status = 503};
		return;
	}
	response->type = "text/tab-separated-values; charset=utf-8";
	response->body = response->context = text;
	response->release = free;
}
