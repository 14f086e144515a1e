/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/watch_source.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "coordinator/http/client.h"
#include "coordinator/replay.h"
#include "coordinator/report/line.h"
#include "coordinator/words.h"
#include "probe/auth/derived_key.h"
#include "probe/auth/key_file.h"
#include "probe/config/http_address.h"

#define USUAL_PORT "9400"

enum {
	WAIT_MS = 500,	 /* from a question to the next */
	FOLLOW_MS = 250, /* the same of a record's end */
	PAUSE_MS =
		100, /* so long a record is read before somebody is asked whether he wants something else */
	VIEW_MS = 1000, /* of the record's time, from a view to the next */
	GONE_MS = 5000,
	PATH_LENGTH = 6 * WATCH_WORDS_LENGTH + 64, /* two words, each byte as three */
};

struct watch_source {
	struct watch_source_options options;
	char name[WATCH_SOURCE_NAME_LENGTH], note[WATCH_SOURCE_WHY_LENGTH];
	bool ended;
	/* A coordinator. */
	struct http_client *client;
	bool reached, shows_key;
	uint64_t version;
	int64_t lost_since_ns; /* 0: it answers */
	/* A record. */
	struct replay *replay;
	ino_t inode;
	struct watch_lately lately;
	struct watch_table *table;
	bool any_frame, due, at_end;
	struct job_ns seen;  /* the newest frame's */
	struct job_ns shown; /* that of the newest table */
	int64_t pause_ns;    /* when to ask who reads */
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

__attribute__((format(printf, 3, 4))) static int fail(
	int error, char why[WATCH_SOURCE_WHY_LENGTH], const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(why, WATCH_SOURCE_WHY_LENGTH, format, values);
	va_end(values);
	return error;
}

/* After each frame: when it is time for a view, or for other things. */
static int on_frame(void *context, const struct record_frame *frame)
{
	struct watch_source *source = context;

	if (!source->any_frame)
		source->shown = frame->stamp;
	source->any_frame = true;
	source->seen = frame->stamp;
	source->due = frame->stamp.value - source->shown.value >= VIEW_MS * INT64_C(1000000);
	return source->due || now_ns() >= source->pause_ns ? -EINTR : 0;
}

static int open_record(struct watch_source *source)
{
	const struct replay_options options = {.command = "slowrank watch",
		.path = source->name,
		.silent = source->options.silent,
		.on_frame = on_frame,
		.context = source};
	struct stat status;
	int error;

	source->inode = stat(source->name, &status) == 0 ? status.st_ino : 0;
	error = replay_open(&options, &source->replay);
	if (!error)
		replay_follow(source->replay, true);
	return error;
}

static bool is_other_file(const struct watch_source *source)
{
	struct stat status;

	return stat(source->name, &status) == 0 && status.st_ino != source->inode;
}

/* A thinned record takes the place of the one that is read: from its begin, then, and views go on where they were. */
static int open_again(struct watch_source *source)
{
	replay_close(source->replay);
	source->replay = NULL;
	source->at_end = false;
	watch_lately_fini(&source->lately);
	return open_record(source);
}

/* http://ADDRESS:PORT of what --http was given. */
static bool url_of_address(const char *text, char *url, size_t length)
{
	struct http_address address;
	bool six;

	if (http_address_parse(text, &address))
		return false;
	if (strcmp(address.host, "0.0.0.0") == 0 || strcmp(address.host, "::") == 0)
		snprintf(address.host, sizeof(address.host), "127.0.0.1");
	six = strchr(address.host, ':');
	snprintf(url, length, "http://%s%s%s:%s", six ? "[" : "", address.host, six ? "]" : "",
		address.port);
	return true;
}

static bool give_up(void *context)
{
	const struct watch_source *source = context;

	return source->options.is_wanted && source->options.is_wanted();
}

static int open_client(struct watch_source *source, const char *url, char *why)
{
	const struct http_client_options options = {
		.url = url, .give_up = give_up, .context = source};
	char reason[HTTP_CLIENT_WHY_LENGTH];
	int error = http_client_create(&options, &source->client, reason);

	return error ? fail(error, why, "%s: %s", url, reason) : 0;
}

/* What is named, or would be the usual place. */
static int open_place(struct watch_source *source, char *why)
{
	const char *place = source->options.place, *usual = words_variable("SLOWRANK_HTTP");
	int error;

	if (place && !http_url_is_one(place) && access(place, F_OK) == 0) {
		if (snprintf(source->name, sizeof(source->name), "%s", place) >=
			(int)sizeof(source->name))
			return fail(-ENAMETOOLONG, why, "the record's name is too long");
		error = open_record(source);
		why[0] = '\0';
		return error;
	}
	if (place && http_url_is_one(place))
		snprintf(source->name, sizeof(source->name), "%s", place);
	else if (!url_of_address(place	 ? place
				 : usual ? usual
					 : USUAL_PORT,
			 source->name, sizeof(source->name)))
		return fail(-ENOENT, why, "%s is neither a record nor the address of a coordinator",
			place ? place : usual);
	return open_client(source, source->name, why);
}

int watch_source_open(const struct watch_source_options *options, struct watch_source **result,
	char why[WATCH_SOURCE_WHY_LENGTH])
{
	struct watch_source *source = calloc(1, sizeof(*source));
	int error;

	if (!source)
		return fail(-ENOMEM, why, "no memory");
	source->options = *options;
	error = open_place(source, why);
	if (error) {
		watch_source_close(source);
		return error;
	}
	*result = source;
	return 0;
}

void watch_source_close(struct watch_source *source)
{
	if (!source)
		return;
	http_client_destroy(source->client);
	replay_close(source->replay);
	watch_lately_fini(&source->lately);
	watch_table_destroy(source->table);
	free(source);
}

/* The record so far as a table. Returns 0 or a negative errno. */
static int make_table(struct watch_source *source)
{
	struct watch_table *table;
	struct report_model model;
	int error = replay_report(source->replay, &model);

	if (!error)
		error = watch_table_create(
			&model, source->ended ? NULL : &source->lately, source->seen, &table);
	if (error)
		return error;
	watch_table_destroy(source->table);
	source->table = table;
	source->version++;
	source->shown = source->seen;
	source->due = false;
	return 0;
}

/* Reads on. Returns -EINTR: there is more; -EINPROGRESS: not yet; 0: that was all; another negative errno. */
static int read_record(struct watch_source *source)
{
	bool written = !source->at_end || record_reader_is_written(source->name);
	int result;

	source->pause_ns = now_ns() + PAUSE_MS * INT64_C(1000000);
	result = replay_run(source->replay);
	if (result == -EINPROGRESS && is_other_file(source)) {
		result = open_again(source);
		return result ? result : -EINTR;
	}
	if (result == -EINPROGRESS && !written) {
		replay_follow(source->replay, false);
		result = replay_run(source->replay);
	}
	source->at_end = result == -EINPROGRESS;
	return result;
}

/* What was read is in no table yet. */
static bool is_unseen(const struct watch_source *source)
{
	return source->any_frame && (!source->table || source->seen.value != source->shown.value);
}

static int next_of_record(struct watch_source *source, const struct watch_wish *wish,
	bool wish_changed, struct watch_view *view)
{
	int result = source->ended ? 0 : read_record(source);
	bool ends = result == 0 && !source->ended;

	if (result < 0 && result != -EINTR && result != -EINPROGRESS)
		return result;
	if (ends) {
		source->ended = true;
		snprintf(source->note, sizeof(source->note), "%s",
			replay_is_whole(source->replay)
				? "ended"
				: "ended, not all of the record can be read");
	}
	if (ends || source->due || (source->at_end && is_unseen(source))) {
		result = make_table(source);
		if (result)
			return result;
		wish_changed = true;
	}
	if (!source->table || !wish_changed)
		return WATCH_NOTHING;
	result = watch_view_take(view, source->table, wish, source->version);
	return result ? result : source->ended ? WATCH_ENDED : WATCH_VIEW;
}

static void add_encoded(char *path, size_t capacity, const char *name, const char *value)
{
	struct line line;

	line_init(&line, path + strlen(path), capacity - strlen(path));
	if (*value)
		line_add(&line, "&%s=", name);
	for (; *value; value++) {
		if (isalnum((unsigned char)*value) || strchr("-_.~,", *value))
			line_add(&line, "%c", *value);
		else
			line_add(&line, "%%%02X", (unsigned)(unsigned char)*value);
	}
}

/* Beyond this host a coordinator asks for the key's own for readers. */
static int show_key(struct watch_source *source, char *why)
{
	char text[DERIVED_KEY_LENGTH], reason[KEY_FILE_WHY_LENGTH];
	struct key_file key;

	if (source->shows_key)
		return fail(-EPERM, why, "%s refuses the key: name the job's with --key-file",
			source->name);
	if (key_file_load(source->options.key_file, &key, reason))
		return fail(-EPERM, why, "%s asks for a key: %s", source->name, reason);
	if (derived_key(key.key, DERIVED_KEY_HTTP, text))
		return fail(-ENOMEM, why, "no memory");
	http_client_set_token(source->client, text);
	source->shows_key = true;
	return 0;
}

/* Nobody answers: at first that is all, later it may be over. */
static int lose(struct watch_source *source, const char *reason, char *why)
{
	int64_t now = now_ns();

	if (!source->reached)
		return fail(-ENOTCONN, why,
			"nobody answers at %s (%s): start the job with --http 9400, or name its "
			"address, or a record",
			source->name, reason);
	if (!source->lost_since_ns)
		source->lost_since_ns = now;
	source->ended = now - source->lost_since_ns >= GONE_MS * INT64_C(1000000);
	snprintf(source->note, sizeof(source->note), "%s",
		source->ended ? "the coordinator does not answer: the job has ended?"
			      : "no answer");
	return source->ended ? WATCH_ENDED : WATCH_NOTHING;
}

static int take_answer(
	struct watch_source *source, long status, struct watch_view *view, char *body, char *why)
{
	switch (status) {
	case 200:
		if (watch_view_read(view, body))
			return fail(-EPROTO, why, "%s: no slowrank answers there", source->name);
		source->version = view->version;
		return WATCH_VIEW;
	case 204:
		return WATCH_NOTHING;
	case 404:
		return fail(-EPROTO, why,
			"%s: it is an older slowrank, or none: open it in a browser", source->name);
	case 421:
		return fail(-EPERM, why,
			"%s: it does not answer to this name: take an address, or the host's name",
			source->name);
	default:
		return fail(-EPROTO, why, "%s answers with status %ld", source->name, status);
	}
}

static int next_of_coordinator(struct watch_source *source, const struct watch_wish *wish,
	bool wish_changed, struct watch_view *view, char *why)
{
	char path[PATH_LENGTH], reason[HTTP_CLIENT_WHY_LENGTH], *body;
	uint64_t after = wish_changed ? 0 : source->version;
	long status = 0;
	size_t length;
	int error;

	snprintf(path, sizeof(path), "/watch.tsv?after=%" PRIu64 "%s", after,
		wish->named ? "&named=1" : "");
	add_encoded(path, sizeof(path), "ranks", wish->ranks_text);
	add_encoded(path, sizeof(path), "host", wish->host);
	error = http_client_get(source->client, path, &status, &body, &length, reason);
	if (!error && status == 401) {
		error = show_key(source, why);
		if (error)
			return error;
		error = http_client_get(source->client, path, &status, &body, &length, reason);
		if (!error && status == 401)
			return show_key(source, why);
	}
	if (error == -EINTR)
		return WATCH_NOTHING;
	if (error)
		return lose(source, reason, why);
	source->reached = true;
	source->ended = false;
	source->lost_since_ns = 0;
	source->note[0] = '\0';
	return take_answer(source, status, view, body, why);
}

int watch_source_next(struct watch_source *source, const struct watch_wish *wish, bool wish_changed,
	struct watch_view *view, char why[WATCH_SOURCE_WHY_LENGTH])
{
	int result;

	if (source->client)
		return next_of_coordinator(source, wish, wish_changed, view, why);
	result = next_of_record(source, wish, wish_changed, view);
	return result < 0 ? fail(result, why, "%s: %s", source->name, strerror(-result)) : result;
}

int watch_source_wait_ms(const struct watch_source *source)
{
	if (source->client || source->ended)
		return WAIT_MS;
	return source->at_end ? FOLLOW_MS : 0;
}

const char *watch_source_name(const struct watch_source *source)
{
	return source->name;
}

const char *watch_source_note(const struct watch_source *source)
{
	return source->note;
}

bool watch_source_is_whole(const struct watch_source *source)
{
	return !source->replay || replay_is_whole(source->replay);
}
