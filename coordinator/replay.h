/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record through the pipeline once more, as a command does it: what is wrong with the record is said on standard
 * error, one line each, and the rest counts all the same. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPLAY_H
#define SLOWRANK_COORDINATOR_REPLAY_H

#include "coordinator/pipeline.h"
#include "coordinator/record/reader.h"

struct replay;

/* What points somewhere is the caller's, and outlives the replay; functions may be NULL. */
struct replay_options {
	const char *command; /* "slowrank report": what messages begin with */
	const char *path;
	bool silent; /* no lines: they were printed by another replay of the record */
	/*
	 * Each pipeline before its first frame: there is one for each stretch of batches, and of a record that was
	 * thinned, several.
	 */
	void (*on_pipeline)(void *context, struct pipeline *pipeline);
	/* After each frame. A negative errno ends replay_run() with it, which may be called again; no line is printed. */
	int (*on_frame)(void *context, const struct record_frame *frame);
	void *context;
};

/* Returns 0 or a negative errno, and then a line was printed. The caller owns it. */
int replay_open(const struct replay_options *options, struct replay **replay)
	__attribute__((warn_unused_result));
void replay_close(struct replay *replay); /* NULL is fine */

/*
 * All frames; once. Returns 0 or a negative errno: there is nothing to report, and a line was printed. Of a record that is
 * followed (record_reader_follow()) -EINPROGRESS: these are all that it has so far, call it again.
 */
int replay_run(struct replay *replay) __attribute__((warn_unused_result));

/*
 * Instead of replay_run(): takes what the coordinator saved at the record's end (docs/record.md), which is of all that
 * was; no batch is decoded, and nobody is called but on_frame. Returns 0; -ENODATA where the end does not hold it, so
 * that a replay of its own must tell; another negative errno, and then a line was printed.
 */
int replay_saved(struct replay *replay) __attribute__((warn_unused_result));

void replay_follow(struct replay *replay, bool follows);

/* What came of it, so far; valid until replay_close(), or the next frame. Returns 0 or -ENOMEM, and then a line was printed. */
int replay_report(struct replay *replay, struct report_model *model)
	__attribute__((warn_unused_result));

/* As history_steps_before(), so far. */
uint64_t replay_steps_before(const struct replay *replay);

/* Nothing was cut short, damaged or refused: no line was printed. */
bool replay_is_whole(const struct replay *replay);

void replay_get_state(const struct replay *replay, struct record_reader_state *state);

#endif
