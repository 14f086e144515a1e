/* SPDX-License-Identifier: Apache-2.0 */
/* Where `slowrank watch` sees a job: a coordinator that serves it (--http), or a record, also one that is still being written. One thread. */
#ifndef SLOWRANK_COORDINATOR_WATCH_SOURCE_H
#define SLOWRANK_COORDINATOR_WATCH_SOURCE_H

#include "coordinator/watch/view.h"

enum { WATCH_SOURCE_NAME_LENGTH = 512, WATCH_SOURCE_WHY_LENGTH = 1024 };

struct watch_source;

struct watch_source_options {
	const char *
		place; /* a URL, [ADDRESS:]PORT, or a record; NULL: SLOWRANK_HTTP, else the usual address of this host */
	const char *key_file; /* NULL: the usual one */
	bool silent;	      /* lines about a damaged record are not printed */
	bool (*is_wanted)(
		void); /* asked now and then: true has watch_source_next() return soon; may be NULL */
};

/* Returns 0 or a negative errno; then why is one line, or "" where one was printed. The caller owns it. */
int watch_source_open(const struct watch_source_options *options, struct watch_source **source,
	char why[WATCH_SOURCE_WHY_LENGTH]) __attribute__((warn_unused_result));
void watch_source_close(struct watch_source *source); /* NULL is fine */

enum watch_news {
	WATCH_NOTHING = 0,
	WATCH_VIEW = 1, /* the view has changed */
	WATCH_ENDED =
		2, /* the view is the last one: the record has ended, or the coordinator does not answer for 5 s */
};

/*
 * Looks for news; wish_changed: of which other ranks the view is to be. Returns an enum watch_news or a negative errno: the
 * source is of no use; then why is one line.
 */
int watch_source_next(struct watch_source *source, const struct watch_wish *wish, bool wish_changed,
	struct watch_view *view, char why[WATCH_SOURCE_WHY_LENGTH])
	__attribute__((warn_unused_result));

/* So long may be waited until it is asked again. */
int watch_source_wait_ms(const struct watch_source *source);
const char *watch_source_name(const struct watch_source *source);
/* What is to be said of the newest view: "ended", or why there is nothing newer; "": it is live. */
const char *watch_source_note(const struct watch_source *source);
/* Nothing of it was cut short, damaged or refused. */
bool watch_source_is_whole(const struct watch_source *source);

#endif
