/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/http/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/version.h"
#include "coordinator/http/curl.h"
#include "probe/auth/derived_key.h"
#include "probe/config/http_address.h"

struct http_client {
	struct curl_library library;
	struct http_client_options options;
	char url[HTTP_CLIENT_URL_LENGTH];
	size_t url_length;
	CURL *handle;
	struct curl_slist *headers; /* the key, where it is shown */
	char *body;
	size_t length, capacity;
};

static size_t take(char *bytes, size_t size, size_t count, void *context)
{
	struct http_client *client = context;
	size_t length = size * count, need = client->length + length + 1;

	if (need > HTTP_CLIENT_BYTES_MAX)
		return 0; /* less than it was given: the transfer ends */
	if (need > client->capacity) {
		size_t capacity =
			2 * need < HTTP_CLIENT_BYTES_MAX ? 2 * need : HTTP_CLIENT_BYTES_MAX;
		char *body = realloc(client->body, capacity);

		if (!body)
			return 0;
		client->body = body;
		client->capacity = capacity;
	}
	memcpy(client->body + client->length, bytes, length);
	client->length += length;
	client->body[client->length] = '\0';
	return length;
}

static int on_progress(
	void *context, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
	const struct http_client *client = context;

	(void)down_total;
	(void)down;
	(void)up_total;
	(void)up;
	return client->options.give_up && client->options.give_up(client->options.context);
}

static int set_up(struct http_client *client)
{
	const struct curl_library *library = &client->library;

	client->handle = library->curl_easy_init();
	if (!client->handle ||
		library->curl_easy_setopt(client->handle, CURLOPT_PROTOCOLS,
			(long)(CURLPROTO_HTTP | CURLPROTO_HTTPS)) ||
		library->curl_easy_setopt(client->handle, CURLOPT_FOLLOWLOCATION, 0L) ||
		library->curl_easy_setopt(client->handle, CURLOPT_NOSIGNAL, 1L) ||
		library->curl_easy_setopt(
			client->handle, CURLOPT_CONNECTTIMEOUT_MS, (long)HTTP_CLIENT_CONNECT_MS) ||
		library->curl_easy_setopt(
			client->handle, CURLOPT_TIMEOUT_MS, (long)HTTP_CLIENT_GET_MS) ||
		library->curl_easy_setopt(
			client->handle, CURLOPT_USERAGENT, "slowrank/" SLOWRANK_VERSION) ||
		library->curl_easy_setopt(client->handle, CURLOPT_WRITEFUNCTION, take) ||
		library->curl_easy_setopt(client->handle, CURLOPT_WRITEDATA, client) ||
		library->curl_easy_setopt(client->handle, CURLOPT_XFERINFOFUNCTION, on_progress) ||
		library->curl_easy_setopt(client->handle, CURLOPT_XFERINFODATA, client) ||
		library->curl_easy_setopt(client->handle, CURLOPT_NOPROGRESS, 0L))
		return -ENOMEM;
	return 0;
}

int http_client_create(const struct http_client_options *options, struct http_client **result,
	char why[HTTP_CLIENT_WHY_LENGTH])
{
	struct http_client *client;
	size_t length = strlen(options->url);
	int error = 0;

	if (!http_url_is_one(options->url) || length >= HTTP_CLIENT_URL_LENGTH) {
		snprintf(why, HTTP_CLIENT_WHY_LENGTH, "not a URL of http:// or https://");
		return -EINVAL;
	}
	client = calloc(1, sizeof(*client));
	if (!client)
		error = -ENOMEM;
	if (!error)
		error = curl_library_load(&client->library);
	if (!error) {
		client->options = *options;
		client->url_length = length - (options->url[length - 1] == '/');
		client->body = calloc(1, 1);
		client->capacity = 1;
		memcpy(client->url, options->url, client->url_length);
		error = !client->body || client->library.curl_global_init(CURL_GLOBAL_DEFAULT)
				? -ENOMEM
				: set_up(client);
	}
	if (error) {
		snprintf(why, HTTP_CLIENT_WHY_LENGTH, "%s",
			error == -ENOENT ? CURL_LIBRARY_MISSING : "no memory");
		http_client_destroy(client);
		return error;
	}
	*result = client;
	return 0;
}

void http_client_destroy(struct http_client *client)
{
	if (!client)
		return;
	if (client->handle)
		client->library.curl_easy_cleanup(client->handle);
	if (client->headers)
		client->library.curl_slist_free_all(client->headers);
	free(client->body);
	free(client);
}

void http_client_set_token(struct http_client *client, const char *token)
{
	char header[DERIVED_KEY_LENGTH + 32];

	snprintf(header, sizeof(header), "Authorization: Bearer %s", token);
	if (client->headers)
		client->library.curl_slist_free_all(client->headers);
	client->headers = client->library.curl_slist_append(NULL, header);
}

static int explain(const struct http_client *client, CURLcode code, char *why)
{
	bool full = code == CURLE_WRITE_ERROR;

	snprintf(why, HTTP_CLIENT_WHY_LENGTH, "%s",
		full ? "the answer is too long" : client->library.curl_easy_strerror(code));
	switch (code) {
	case CURLE_COULDNT_CONNECT:
		return -ECONNREFUSED;
	case CURLE_ABORTED_BY_CALLBACK:
		return -EINTR;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	default:
		return full ? -EMSGSIZE : -EIO;
	}
}

int http_client_get(struct http_client *client, const char *path, long *status, char **body,
	size_t *length, char why[HTTP_CLIENT_WHY_LENGTH])
{
	const struct curl_library *library = &client->library;
	CURLcode code;

	snprintf(client->url + client->url_length, HTTP_CLIENT_URL_LENGTH - client->url_length,
		"%s", path);
	client->length = 0;
	client->body[0] = '\0';
	if (library->curl_easy_setopt(client->handle, CURLOPT_URL, client->url) ||
		library->curl_easy_setopt(client->handle, CURLOPT_HTTPHEADER, client->headers))
		code = CURLE_OUT_OF_MEMORY;
	else
		code = library->curl_easy_perform(client->handle);
	if (code)
		return explain(client, code, why);
	library->curl_easy_getinfo(client->handle, CURLINFO_RESPONSE_CODE, status);
	*body = client->body;
	*length = client->length;
	return 0;
}
