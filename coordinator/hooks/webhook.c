/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/hooks/webhook.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/base/version.h"
#include "coordinator/http/curl.h"
#include "probe/auth/derived_key.h"
#include "probe/config/http_address.h"

enum { HEADER_LENGTH = 128 };

struct webhook {
	struct curl_library library;
	const char *url;
	char secret[DERIVED_KEY_LENGTH]; /* "": not signed */
	int first_pause_ms;
	CURL *handle;
	bool told;
	atomic_uint_least64_t retries;
};

/* What came of a try. */
enum outcome {
	ARRIVED,
	REFUSED, /* for good */
	FAILED,	 /* perhaps not the next time */
};

static size_t ignore_answer(char *bytes, size_t size, size_t count, void *context)
{
	(void)bytes;
	(void)context;
	return size * count;
}

static int on_progress(
	void *context, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
	(void)down_total;
	(void)down;
	(void)up_total;
	(void)up;
	return hook_worker_is_late(context); /* not 0: give it up */
}

static int set_up(struct webhook *webhook)
{
	const struct curl_library *library = &webhook->library;

	webhook->handle = library->curl_easy_init();
	if (!webhook->handle ||
		library->curl_easy_setopt(webhook->handle, CURLOPT_URL, webhook->url) ||
		library->curl_easy_setopt(webhook->handle, CURLOPT_PROTOCOLS,
			(long)(CURLPROTO_HTTP | CURLPROTO_HTTPS)) ||
		library->curl_easy_setopt(webhook->handle, CURLOPT_FOLLOWLOCATION, 0L) ||
		library->curl_easy_setopt(webhook->handle, CURLOPT_NOSIGNAL, 1L) ||
		library->curl_easy_setopt(
			webhook->handle, CURLOPT_CONNECTTIMEOUT_MS, (long)WEBHOOK_CONNECT_MS) ||
		library->curl_easy_setopt(
			webhook->handle, CURLOPT_TIMEOUT_MS, (long)WEBHOOK_POST_MS) ||
		library->curl_easy_setopt(
			webhook->handle, CURLOPT_USERAGENT, "slowrank/" SLOWRANK_VERSION) ||
		library->curl_easy_setopt(webhook->handle, CURLOPT_WRITEFUNCTION, ignore_answer) ||
		library->curl_easy_setopt(webhook->handle, CURLOPT_XFERINFOFUNCTION, on_progress) ||
		library->curl_easy_setopt(webhook->handle, CURLOPT_NOPROGRESS, 0L))
		return -ENOMEM;
	return 0;
}

int webhook_create(const struct webhook_options *options, struct webhook **result,
	char why[WEBHOOK_WHY_LENGTH])
{
	struct webhook *webhook;
	int error = 0;

	if (!http_url_is_one(options->url)) {
		snprintf(why, WEBHOOK_WHY_LENGTH, "--webhook is a URL of http:// or https://");
		return -EINVAL;
	}
	webhook = calloc(1, sizeof(*webhook));
	if (!webhook)
		error = -ENOMEM;
	if (!error)
		error = curl_library_load(&webhook->library);
	if (!error) {
		webhook->url = options->url;
		webhook->first_pause_ms =
			options->first_pause_ms ? options->first_pause_ms : WEBHOOK_FIRST_PAUSE_MS;
		if (options->secret)
			memcpy(webhook->secret, options->secret, sizeof(webhook->secret));
		error = webhook->library.curl_global_init(CURL_GLOBAL_DEFAULT) ? -ENOMEM
									       : set_up(webhook);
	}
	if (error) {
		snprintf(why, WEBHOOK_WHY_LENGTH, "no webhooks: %s",
			error == -ENOENT ? CURL_LIBRARY_MISSING : "no memory");
		webhook_destroy(webhook);
		return error;
	}
	*result = webhook;
	return 0;
}

void webhook_destroy(struct webhook *webhook)
{
	if (!webhook)
		return;
	if (webhook->handle)
		webhook->library.curl_easy_cleanup(webhook->handle);
	free(webhook);
}

uint64_t webhook_retries(const struct webhook *webhook)
{
	return atomic_load(&webhook->retries);
}

static struct curl_slist *add_header(const struct webhook *webhook, struct curl_slist *headers,
	const char *name, const char *value)
{
	char text[HEADER_LENGTH];
	struct curl_slist *longer;

	snprintf(text, sizeof(text), "%s: %s", name, value);
	longer = webhook->library.curl_slist_append(headers, text);
	return longer ? longer : headers; /* the other side misses it */
}

static struct curl_slist *add_signature(
	const struct webhook *webhook, struct curl_slist *headers, const struct hook_event *event)
{
	char time_text[24], digest[DERIVED_KEY_LENGTH], value[DERIVED_KEY_LENGTH + 8];
	char *signed_text = NULL;
	int length;

	snprintf(time_text, sizeof(time_text), "%lld", (long long)time(NULL));
	length = asprintf(&signed_text, "%s.%s", time_text, event->json);
	if (length >= 0 &&
		derived_key_sign(webhook->secret, signed_text, (size_t)length, digest) == 0) {
		snprintf(value, sizeof(value), "sha256=%s", digest);
		headers = add_header(webhook, headers, "X-Slowrank-Timestamp", time_text);
		headers = add_header(webhook, headers, "X-Slowrank-Signature", value);
	}
	if (length >= 0)
		free(signed_text);
	return headers;
}

/* Requests that time out or come too fast may be repeated; what else a server says of the request, it says again. */
static enum outcome outcome_of(long status)
{
	if (status >= 200 && status < 300)
		return ARRIVED;
	return status < 500 && status != 408 && status != 425 && status != 429 ? REFUSED : FAILED;
}

/* *why is one line where it did not arrive. */
static enum outcome post(struct webhook *webhook, struct hook_worker *worker,
	const struct hook_event *event, char why[WEBHOOK_WHY_LENGTH])
{
	const struct curl_library *library = &webhook->library;
	struct curl_slist *headers = add_header(webhook, NULL, "Content-Type", "application/json");
	long status = 0;
	CURLcode code;

	if (*webhook->secret)
		headers = add_signature(webhook, headers, event);
	library->curl_easy_setopt(webhook->handle, CURLOPT_HTTPHEADER, headers);
	library->curl_easy_setopt(webhook->handle, CURLOPT_POSTFIELDSIZE, (long)event->json_length);
	library->curl_easy_setopt(webhook->handle, CURLOPT_POSTFIELDS, event->json);
	library->curl_easy_setopt(webhook->handle, CURLOPT_XFERINFODATA, worker);
	code = library->curl_easy_perform(webhook->handle);
	library->curl_easy_getinfo(webhook->handle, CURLINFO_RESPONSE_CODE, &status);
	library->curl_easy_setopt(webhook->handle, CURLOPT_HTTPHEADER, NULL);
	library->curl_slist_free_all(headers);
	if (code) {
		snprintf(why, WEBHOOK_WHY_LENGTH, "%s", library->curl_easy_strerror(code));
		return FAILED;
	}
	snprintf(why, WEBHOOK_WHY_LENGTH, "the server answers with status %ld", status);
	return outcome_of(status);
}

bool webhook_deliver(void *context, struct hook_worker *worker, const struct hook_event *event)
{
	struct webhook *webhook = context;
	char why[WEBHOOK_WHY_LENGTH];
	int pause_ms = webhook->first_pause_ms;
	enum outcome outcome = post(webhook, worker, event, why);

	for (int tries = 1; outcome == FAILED && tries < WEBHOOK_TRIES; tries++) {
		if (!hook_worker_sleep(worker, pause_ms))
			break;
		pause_ms =
			2 * pause_ms < WEBHOOK_PAUSE_MAX_MS ? 2 * pause_ms : WEBHOOK_PAUSE_MAX_MS;
		atomic_fetch_add(&webhook->retries, 1);
		outcome = post(webhook, worker, event, why);
	}
	/* Not the URL: it may hold a secret. */
	if (outcome != ARRIVED && !webhook->told)
		fprintf(stderr,
			"slowrank: a webhook did not arrive: %s (told once; metrics count them)\n",
			why);
	webhook->told |= outcome != ARRIVED;
	return outcome == ARRIVED;
}
