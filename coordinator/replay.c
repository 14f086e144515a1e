/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/history/history.h"

struct replay {
	struct replay_options options;
	struct record_reader *reader;
	struct pipeline *pipeline; /* of the batches behind the newest gap; NULL: nobody's */
	struct history history;
	struct report_model nothing;
	bool incomplete; /* the record is cut short or damaged: a line was printed */
	bool refused;	 /* frames could not be decoded: a line was printed */
	bool stopped;	 /* on_frame did, and knows why */
	bool begun;	 /* some frames were taken, perhaps: replay_run() goes on */
};

int replay_open(const struct replay_options *options, struct replay **result)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "out of memory";
	struct replay *replay = calloc(1, sizeof(*replay));
	int error = replay ? record_reader_open(options->path, &replay->reader, why) : -ENOMEM;

	if (error < 0) {
		fprintf(stderr, "%s: %s\n", options->command, why);
		free(replay);
		return error;
	}
	replay->options = *options;
	*result = replay;
	return 0;
}

void replay_close(struct replay *replay)
{
	if (!replay)
		return;
	pipeline_destroy(replay->pipeline);
	history_fini(&replay->history);
	record_reader_close(replay->reader);
	free(replay);
}

/* A line, unless nobody wants any. */
__attribute__((format(printf, 2, 3))) static void say(
	const struct replay *replay, const char *format, ...)
{
	va_list values;

	if (replay->options.silent)
		return;
	fprintf(stderr, "%s: ", replay->options.command);
	va_start(values, format);
	vfprintf(stderr, format, values);
	va_end(values);
	fputc('\n', stderr);
}

/* error: what the reader ended with. */
static void explain_end(struct replay *replay, int error)
{
	const char *path = replay->options.path;
	struct record_reader_state state;

	record_reader_get_state(replay->reader, &state);
	replay->incomplete = true;
	if (error == -EBADMSG)
		say(replay,
			"%s is cut short (or still being written): this is what "
			"its %" PRIu64 " whole frames say",
			path, state.frames);
	else if (error != -ENODATA)
		say(replay,
			"%s cannot be read any further (%s): this is what its "
			"first %" PRIu64 " frames say",
			path, strerror(-error), state.frames);
	else if (state.damaged || state.frames_missing)
		say(replay,
			"%s is damaged in %" PRIu64 " place%s (%" PRIu64
			" frame%s missing): this is what the rest says",
			path, state.damaged, state.damaged == 1 ? "" : "s", state.frames_missing,
			state.frames_missing == 1 ? " is" : "s are");
	else if (state.frames_lost)
		say(replay,
			"%" PRIu64 " frames could not be written to %s when it was "
			"recorded (disk full?): this is what the rest says",
			state.frames_lost, path);
	else
		replay->incomplete = false;
}

/* One that knows nothing yet. Returns 0 or a negative errno. */
static int renew_pipeline(struct replay *replay)
{
	const struct replay_options *options = &replay->options;

	pipeline_destroy(replay->pipeline);
	replay->pipeline = NULL;
	if (pipeline_create(&(struct pipeline_options){0}, &replay->pipeline) < 0)
		return -ENOMEM;
	if (options->on_pipeline)
		options->on_pipeline(options->context, replay->pipeline);
	return 0;
}

static const struct report_model *report_now(void *context)
{
	struct replay *replay = context;

	return replay->pipeline ? pipeline_report(replay->pipeline) : &replay->nothing;
}

static void tell_refused(struct replay *replay, const char *why)
{
	if (!replay->refused)
		say(replay,
			"a frame of %s cannot be used (%s): this is what the "
			"others say",
			replay->options.path, why);
	replay->refused = true;
}

/* What the coordinator saved, and gaps. */
static int take_history(struct replay *replay, const struct record_frame *frame)
{
	int result = history_take(&replay->history, frame, report_now, replay);

	if (result != -EBADMSG)
		return result;
	tell_refused(replay, "what its coordinator saved is of no known kind");
	return 0;
}

static int push_batch(struct replay *replay, const struct record_frame *frame)
{
	struct message_reply reply = {0};
	int result =
		pipeline_push(replay->pipeline, frame->bytes, frame->length, frame->stamp, &reply);

	if (result == PIPELINE_REFUSED)
		tell_refused(replay, reply.why);
	return result < 0 ? result : 0;
}

static int tell_frame(struct replay *replay, const struct record_frame *frame)
{
	int error = replay->options.on_frame
			    ? replay->options.on_frame(replay->options.context, frame)
			    : 0;

	replay->stopped |= error != 0;
	return error;
}

static int take_frame(struct replay *replay, const struct record_frame *frame)
{
	int error = take_history(replay, frame);

	if (error == HISTORY_GAP)
		error = renew_pipeline(replay);
	else if (error == 0 && frame->kind == RECORD_BATCH)
		error = push_batch(replay, frame);
	return error ? error : tell_frame(replay, frame);
}

static int fail(const struct replay *replay, int error)
{
	if (!replay->stopped)
		say(replay, "%s: %s", replay->options.path, strerror(-error));
	return error;
}

int replay_run(struct replay *replay)
{
	struct record_frame frame;
	int error = replay->begun ? 0 : renew_pipeline(replay), end = 0;

	replay->begun = true;
	replay->stopped = false;
	while (!error && !(end = record_reader_frame(replay->reader, &frame)))
		error = take_frame(replay, &frame);
	if (!error && end == -EINPROGRESS)
		return end;
	if (!error) {
		explain_end(replay, end);
		error = pipeline_finish(replay->pipeline);
	}
	if (!error)
		error = history_end(&replay->history, report_now(replay));
	return error ? fail(replay, error) : 0;
}

void replay_follow(struct replay *replay, bool follows)
{
	record_reader_follow(replay->reader, follows);
}

int replay_saved(struct replay *replay)
{
	struct record_frame frame;
	int error = 0, end = 0;

	while (!error && !(end = record_reader_frame(replay->reader, &frame))) {
		error = history_take(&replay->history, &frame, report_now, replay);
		if (error == HISTORY_GAP)
			error = 0;
		if (!error)
			error = tell_frame(replay, &frame);
	}
	if (error == -EBADMSG)
		return -ENODATA; /* the replay says what is wrong */
	if (error)
		return fail(replay, error);
	if (end != -ENODATA || !replay->history.thinned || !replay->history.complete)
		return -ENODATA;
	explain_end(replay, end);
	return history_end(&replay->history, report_now(replay));
}

int replay_report(struct replay *replay, struct report_model *model)
{
	*model = *report_now(replay);
	if (history_report(&replay->history, model))
		return fail(replay, -ENOMEM);
	model->record_truncated = replay->incomplete;
	return 0;
}

uint64_t replay_steps_before(const struct replay *replay)
{
	return history_steps_before(&replay->history);
}

bool replay_is_whole(const struct replay *replay)
{
	return !replay->incomplete && !replay->refused;
}

void replay_get_state(const struct replay *replay, struct record_reader_state *state)
{
	record_reader_get_state(replay->reader, state);
}
