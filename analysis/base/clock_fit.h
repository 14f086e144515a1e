/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of one host against the clock of the job: offset, drift, and how wrong they may be.
 * Fed with two kinds of bounds on (job time - host time); see docs/clocks.md. A plain value
 * without memory of its own; one thread.
 */
#ifndef SLOWRANK_ANALYSIS_BASE_CLOCK_FIT_H
#define SLOWRANK_ANALYSIS_BASE_CLOCK_FIT_H

#include "analysis/base/step.h"
#include "analysis/policy.h"

/* All bounds of about a second, intersected. */
struct clock_bucket {
	int64_t time_ns;	 /* host time of its first bound */
	int64_t low_ns, high_ns; /* the offset at time_ns lies between these */
	int64_t best_ns,
		best_width_ns; /* what the tightest bounds' ends say, and how tight they are */
};

struct clock_fit {
	bool fixed;		 /* it is the reference: nothing moves it */
	bool has_low, has_high;	 /* outer bounds */
	int64_t low_ns, high_ns; /* from the stamps of requests and replies */
	int64_t low_time_ns, high_time_ns;
	uint64_t bound_count;
	bool open_valid;
	unsigned open_count;
	struct clock_bucket open;
	unsigned bucket_count, bucket_next;
	struct clock_bucket buckets[CLOCK_FIT_BUCKETS];
	/* The line: offset(t) = offset_ns + drift * (t - time_ns). */
	int64_t time_ns;
	int64_t offset_ns;
	double drift;
	int64_t error_ns; /* half of what the bounds leave open, plus the scatter around the line */
};

/* No error is known yet: larger than any real one (an hour). */
#define CLOCK_ERROR_UNKNOWN_NS INT64_C(3600000000000)

void clock_fit_init(struct clock_fit *fit);

/* Makes it the reference: offset and error stay as given. */
void clock_fit_fix(struct clock_fit *fit, int64_t offset_ns, int64_t error_ns);

/* One request, sent at host time sent, received at job time received: an upper bound. */
void clock_fit_request(struct clock_fit *fit, struct host_ns sent, struct job_ns received);
/* One reply, the other way: a lower bound. */
void clock_fit_reply(
	struct clock_fit *fit, struct job_ns reply_sent, struct host_ns reply_received);

/*
 * Near host time `time` the offset lies in [low_ns, high_ns]: from shared instances, where every
 * departure is after every arrival, in true time. together_ns: the offset at which all leave together.
 * Where one host always comes last, only the bound on its side is tight, and the middle of both would
 * be off by half of what the others wait. The bounds still hold, and the error is theirs.
 */
void clock_fit_meet(struct clock_fit *fit, struct host_ns time, int64_t low_ns, int64_t high_ns,
	int64_t together_ns);

/* The line alone, for who turns many times. */
struct clock_line {
	int64_t time_ns, offset_ns;
	double drift;
};

static inline struct clock_line clock_fit_line(const struct clock_fit *fit)
{
	return (struct clock_line){fit->time_ns, fit->offset_ns, fit->drift};
}

/* Called for every part: in line. */
static inline struct job_ns clock_line_to_job(const struct clock_line *line, struct host_ns time)
{
	double moved = line->drift * (double)(time.value - line->time_ns);

	return (struct job_ns){time.value + line->offset_ns + (int64_t)moved};
}

static inline struct job_ns clock_fit_to_job(const struct clock_fit *fit, struct host_ns time)
{
	const struct clock_line line = clock_fit_line(fit);

	return clock_line_to_job(&line, time);
}
int64_t clock_fit_error_ns(const struct clock_fit *fit);

#endif
