/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/web.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "coordinator/metrics/job_metrics.h"
#include "coordinator/report/look.h"
#include "coordinator/web_page.h"
#include "coordinator/web_watch.h"

enum {
	PERIOD_MS = 1000,
	COST_TIMES = 100, /* of what one publication took, until the next */
};

/* Text that is not changed any more, and goes with its last reader. */
struct page {
	atomic_uint readers;
	size_t length;
	char *text;
};

struct web {
	struct http_server *server;
	struct hooks *hooks; /* NULL: there are none */
	struct web_page *job_page;
	struct web_watch *watch;
	struct job_metrics *metrics; /* of the pipeline's thread, as are the next two */
	bool expected;
	int64_t next_ns;
	double started_s;
	atomic_bool late;
	pthread_mutex_t mutex; /* for the next two, and for server until it is there */
	struct page *page;     /* the newest metrics of the job, or NULL */
	const struct listener *listener;
};

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void page_release(void *context)
{
	struct page *page = context;

	if (!page || atomic_fetch_sub(&page->readers, 1) != 1)
		return;
	free(page->text);
	free(page);
}

/* Takes the text, also on failure. NULL: no memory. */
static struct page *page_create(char *text, size_t length)
{
	struct page *page = malloc(sizeof(*page));

	if (!page) {
		free(text);
		return NULL;
	}
	*page = (struct page){.readers = 1, .length = length, .text = text};
	return page;
}

static void write_listener(const struct listener_state *state, struct metrics_text *text)
{
	static const char *const reasons[GATE_REFUSAL_NR] = {
		[GATE_UNPROVEN] = "unproven",
		[GATE_OTHER_KEY] = "other_key",
		[GATE_REPLAYED] = "replayed",
		[GATE_KEYLESS] = "keyless",
		[GATE_MALFORMED] = "malformed",
	};

	metrics_single(text, "slowrank_listener_connections", METRICS_GAUGE,
		"Probes that are connected.", (double)state->peers);
	metrics_single(text, "slowrank_listener_received_bytes_total", METRICS_COUNTER,
		"Bytes of batches that came.", (double)state->bytes);
	metrics_single(text, "slowrank_listener_unanswered_total", METRICS_COUNTER,
		"Batches that could not be answered; their probes send them again.",
		(double)state->unanswered);
	metrics_family(
		text, "slowrank_listener_refused_total", METRICS_COUNTER, "Messages of strangers.");
	for (int why = 0; why < GATE_REFUSAL_NR; why++)
		metrics_sample(text, &(struct metrics_label){"reason", reasons[why]}, 1,
			(double)state->refused[why]);
	metrics_single(text, "slowrank_listener_over_quota_total", METRICS_COUNTER,
		"Messages dropped, since their address sent too much.", (double)state->over_quota);
	metrics_single(text, "slowrank_listener_closed_total", METRICS_COUNTER,
		"Connections closed, since they were idle or too many.",
		(double)(state->over_connections + state->idle_closed));
}

static void write_server(const struct http_server *server, struct metrics_text *text)
{
	struct http_server_state state;

	http_server_get_state(server, &state);
	metrics_single(text, "slowrank_http_connections", METRICS_GAUGE,
		"Readers that are connected.", (double)state.connections);
	metrics_single(text, "slowrank_http_requests_total", METRICS_COUNTER,
		"Requests that were answered.", (double)state.requests);
	metrics_family(text, "slowrank_http_refused_total", METRICS_COUNTER,
		"Requests that were refused: no key, another Host.");
	metrics_sample(text, &(struct metrics_label){"reason", "key"}, 1, (double)state.no_key);
	metrics_sample(
		text, &(struct metrics_label){"reason", "host"}, 1, (double)state.other_host);
	metrics_single(text, "slowrank_http_cut_total", METRICS_COUNTER,
		"Requests that took too long, and were cut.", (double)state.too_slow);
}

static void write_events(
	const char *hook, const struct hook_worker_state *state, struct metrics_text *text)
{
	const struct {
		const char *result;
		uint64_t count;
	} rows[] = {{"delivered", state->delivered}, {"failed", state->failed},
		{"dropped", state->dropped}, {"merged", state->merged}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		metrics_sample(text,
			(struct metrics_label[]){{"hook", hook}, {"result", rows[i].result}}, 2,
			(double)rows[i].count);
}

static void write_hooks(struct hooks *hooks, struct metrics_text *text)
{
	struct hooks_state state;

	hooks_get_state(hooks, &state);
	metrics_family(text, "slowrank_hook_events_total", METRICS_COUNTER,
		"What came of events that hooks were told of; merged: a newer update took the "
		"place of one that waited.");
	if (state.has_command)
		write_events("command", &state.command, text);
	if (state.has_webhook)
		write_events("webhook", &state.webhook, text);
	metrics_family(text, "slowrank_hook_waiting_events", METRICS_GAUGE,
		"Events that wait for a hook.");
	if (state.has_command)
		metrics_sample(text, &(struct metrics_label){"hook", "command"}, 1,
			(double)state.command.waiting);
	if (state.has_webhook)
		metrics_sample(text, &(struct metrics_label){"hook", "webhook"}, 1,
			(double)state.webhook.waiting);
	metrics_single(text, "slowrank_hook_retries_total", METRICS_COUNTER,
		"Posts of webhooks that were tried again.", (double)state.webhook_retries);
}

/* By the names that all programs have for these. */
static void write_process(const struct web *web, struct metrics_text *text)
{
	struct rusage usage;
	unsigned long pages[2] = {0};
	FILE *statm = fopen("/proc/self/statm", "re");

	if (statm) {
		if (fscanf(statm, "%lu %lu", &pages[0], &pages[1]) != 2)
			pages[1] = 0;
		fclose(statm);
	}
	getrusage(RUSAGE_SELF, &usage);
	metrics_single(text, "process_cpu_seconds_total", METRICS_COUNTER,
		"CPU time of the coordinator.",
		(double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
	metrics_single(text, "process_resident_memory_bytes", METRICS_GAUGE,
		"Memory of the coordinator.", (double)pages[1] * (double)sysconf(_SC_PAGESIZE));
	metrics_single(text, "process_start_time_seconds", METRICS_GAUGE,
		"When the coordinator started.", web->started_s);
}

/* The job's, as they were published, and the coordinator's own, as they are. */
static char *make_metrics(struct web *web, size_t *length)
{
	char *bytes = NULL;
	struct metrics_text text = {.out = open_memstream(&bytes, length)};
	struct listener_state state = {0};
	struct page *page;
	bool failed;

	if (!text.out)
		return NULL;
	pthread_mutex_lock(&web->mutex);
	page = web->page;
	if (page)
		atomic_fetch_add(&page->readers, 1);
	if (web->listener)
		listener_get_state(web->listener, &state);
	pthread_mutex_unlock(&web->mutex);
	if (page)
		fwrite(page->text, 1, page->length, text.out);
	page_release(page);
	metrics_single(&text, "slowrank_verdicts_late", METRICS_GAUGE,
		"1 while the coordinator is behind the job.", atomic_load(&web->late));
	write_listener(&state, &text);
	write_server(web->server, &text);
	if (web->hooks)
		write_hooks(web->hooks, &text);
	write_process(web, &text);
	failed = ferror(text.out);
	if (fclose(text.out) || failed) {
		free(bytes);
		return NULL;
	}
	return bytes;
}

static void handle_metrics(
	void *context, const struct http_request *request, struct http_response *response)
{
	char *bytes = make_metrics(context, &response->length);

	(void)request;
	if (!bytes) {
		*response = (struct http_response){.status = 503};
		return;
	}
	response->type = METRICS_TYPE;
	response->body = response->context = bytes;
	response->release = free;
}

/* Says that the server runs, and nothing of the job. */
static void handle_health(
	void *context, const struct http_request *request, struct http_response *response)
{
	static const char text[] = "ok\n";

	(void)context;
	(void)request;
	response->body = text;
	response->length = sizeof(text) - 1;
}

int web_create(const struct web_options *options, struct web **result, char why[HTTP_WHY_LENGTH])
{
	struct web *web = calloc(1, sizeof(*web));
	struct web_page *page = NULL;
	struct web_watch *watch = NULL;
	int error = web_page_create(&page) || web_watch_create(&watch);
	const struct http_handler handlers[] = {
		{.path = "/", .open = true, .handle = web_page_handle_shell, .context = page},
		{.path = "/page.json", .handle = web_page_handle_data, .context = page},
		{.path = "/watch.tsv", .handle = web_watch_handle, .context = watch},
		{.path = "/page/", .handle = web_page_handle_part, .context = page},
		{.path = "/healthz", .open = true, .handle = handle_health},
		{.path = "/metrics", .handle = handle_metrics, .context = web},
	};
	const struct http_options http_options = {
		.address = options->address,
		.token = options->token,
		.anybody = options->anybody,
		.handlers = handlers,
		.handler_count = sizeof(handlers) / sizeof(handlers[0]),
	};

	if (!web || error || job_metrics_create(&web->metrics)) {
		web_watch_destroy(watch);
		web_page_destroy(page);
		free(web);
		snprintf(why, HTTP_WHY_LENGTH, "no memory");
		return -ENOMEM;
	}
	web->job_page = page;
	web->watch = watch;
	pthread_mutex_init(&web->mutex, NULL);
	web->listener = options->listener;
	web->hooks = options->hooks;
	web->started_s = (double)clock_ns(CLOCK_REALTIME) / 1e9;
	pthread_mutex_lock(&web->mutex); /* a handler may be called before it returns */
	error = http_server_create(&http_options, &web->server, why);
	pthread_mutex_unlock(&web->mutex);
	if (error) {
		web_destroy(web);
		return error;
	}
	*result = web;
	return 0;
}

void web_destroy(struct web *web)
{
	if (!web)
		return;
	http_server_destroy(web->server);
	web_watch_destroy(web->watch);
	web_page_destroy(web->job_page);
	page_release(web->page);
	job_metrics_destroy(web->metrics);
	pthread_mutex_destroy(&web->mutex);
	free(web);
}

const char *web_url(const struct web *web)
{
	return http_server_url(web->server);
}

void web_watch_no_listener(struct web *web)
{
	pthread_mutex_lock(&web->mutex);
	web->listener = NULL;
	pthread_mutex_unlock(&web->mutex);
}

void web_expect(struct web *web)
{
	web->expected = true;
}

void web_take_step(struct web *web, const struct judged_step *step)
{
	job_metrics_take_step(web->metrics, &step->grid->step);
}

void web_late(struct web *web, bool late)
{
	atomic_store(&web->late, late);
}

bool web_is_due(const struct web *web, int64_t now_ns)
{
	return web->expected || now_ns >= web->next_ns;
}

void web_publish(struct web *web, const struct report_model *model, const struct trail *trail,
	struct job_ns newest, int64_t began_ns)
{
	int64_t now_ns;
	char *bytes = NULL;
	size_t length = 0;
	struct metrics_text text = {.out = open_memstream(&bytes, &length)};
	struct page *page = NULL, *before;

	if (text.out) {
		job_metrics_take(web->metrics, model);
		job_metrics_write(web->metrics, model, &text);
		metrics_single(&text, "slowrank_last_batch_timestamp_seconds", METRICS_GAUGE,
			"When the newest batch came.",
			(double)look_unix_ns(newest, model->unix_offset_ns) / 1e9);
		if (fclose(text.out) == 0)
			page = page_create(bytes, length);
		else
			free(bytes);
	}
	if (page) {
		pthread_mutex_lock(&web->mutex);
		before = web->page;
		web->page = page;
		pthread_mutex_unlock(&web->mutex);
		page_release(before);
	}
	web_page_publish(web->job_page, model, trail);
	web_watch_publish(web->watch, model, newest);
	now_ns = clock_ns(CLOCK_MONOTONIC);
	web->expected = false;
	web->next_ns = now_ns + PERIOD_MS * INT64_C(1000000);
	if (web->next_ns < now_ns + COST_TIMES * (now_ns - began_ns))
		web->next_ns = now_ns + COST_TIMES * (now_ns - began_ns);
}
