/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recent evidence of one rank: samples of counters and long off-CPU intervals. It is kept by the
 * host's clock and asked for by the job's: how the two lie is learnt from the steps, so that nothing
 * hangs on how much was known when a sample came in. Bounded rings, which take memory as they fill: the oldest make room. Asked for a time,
 * it uses nothing later. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_BASE_EVIDENCE_H
#define SLOWRANK_ANALYSIS_BASE_EVIDENCE_H

#include "analysis/base/sample_rings.h"
#include "analysis/base/step.h"
#include "analysis/policy.h"

enum { EVIDENCE_INTERVALS = 256 }; /* per rank */

struct evidence_interval {
	int64_t start_ns, end_ns; /* the host's clock */
	uint32_t other_pid;
	uint8_t reason;
	char other_name[STEP_TASK_NAME_LENGTH];
};

/* Zero-initialised is empty. */
struct evidence {
	struct sample_rings samples;
	struct evidence_interval *intervals;
	uint32_t interval_count, interval_capacity, interval_next; /* a ring too */
	int64_t host_to_job_ns; /* job time - host time; set by the owner */
};
void evidence_fini(struct evidence *evidence);

/* Return 0 or -ENOMEM; a metric that is not known is left out. */
int evidence_add_sample(struct evidence *evidence, unsigned metric, int64_t time_ns, int64_t value)
	__attribute__((warn_unused_result));
int evidence_add_interval(struct evidence *evidence, const struct evidence_interval *interval)
	__attribute__((warn_unused_result));

/* The latest value not after a time. False when there is none. evidence may be NULL. */
bool evidence_value(
	const struct evidence *evidence, unsigned metric, int64_t time_ns, int64_t *value);

/*
 * Of a gauge that tells of all the time since the sample before: the first value after until_ns, where most of that time
 * lies between two times. False when it does not, or there is none yet.
 */
bool evidence_value_over(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, int64_t *value);

/*
 * How fast a counter grew between two times, per ns, by the samples nearest to them: the last
 * one not after until_ns, and the last one not after from_ns or else the first one after it.
 * False when fewer than two samples lie there.
 */
bool evidence_rate(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, double *rate);

/* The same between the two samples around a time, the later one taken then or until another time. False when there are not two. */
bool evidence_rate_at(const struct evidence *evidence, unsigned metric, int64_t time_ns,
	int64_t until_ns, double *rate);

/*
 * The same since from_ns, which lies between two samples: what the counter grew by from the first of them is
 * taken to have gone on as before, until then; where nothing is known of before, as evidence_rate(). At either time, the
 * first sample after it counts if it is there within within_ns. False also where less than EVIDENCE_SINCE_NS is known.
 */
bool evidence_rate_since(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, int64_t within_ns, double *rate);

/*
 * How fast it grew before a time: over EVIDENCE_BEFORE_NS, or between two samples where they are rarer. False
 * when there are not two.
 */
bool evidence_rate_before(const struct evidence *evidence, unsigned metric, int64_t until_ns,
	int64_t within_ns, double *rate);

/*
 * When it began to grow by now instead of by usual (per ns), both known, if that was once between the samples
 * nearest to two times. False when there are not two, or now is not more.
 */
bool evidence_began(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, double usual, double now, int64_t *began_ns);

/*
 * The time of the last sample before a metric rose above what it was at a time, by the first sample after another time. False: it
 * did not, or is not known.
 */
bool evidence_rose(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, int64_t *before_ns);

struct evidence_span {
	int64_t start_ns, end_ns;
};
/* How fast a counter grows within some times and outside of them, and the standard error of the difference. */
struct evidence_split {
	double inside, outside, error;
};
/*
 * By least squares: what it grew by from one sample to one EVIDENCE_RATE_NS and more later, against how much of that time lies
 * within spans (ascending, apart from each other); from the first span's begin on, until a time. False of fewer
 * than EVIDENCE_SPLIT_MIN, or where these shares differ by less than EVIDENCE_SPLIT_SHARE (standard deviation).
 */
bool evidence_split_rate(const struct evidence *evidence, unsigned metric,
	const struct evidence_span *spans, size_t count, int64_t until_ns,
	struct evidence_split *split);

/* How much rates over a stretch of time differ from one to the next. */
struct evidence_noise {
	double mean, squares; /* squares: summed, of what rates differ from their mean by */
	double count, time_ns;
};
/*
 * The rates from one sample to one least_ns and more later, between two times. False of fewer than two.
 */
bool evidence_noise(const struct evidence *evidence, unsigned metric, int64_t from_ns,
	int64_t until_ns, int64_t least_ns, struct evidence_noise *noise);

/*
 * Mean and standard deviation of such rates, with EVIDENCE_RATE_NS. False of fewer than EVIDENCE_RATES_MIN.
 */
bool evidence_usual_rate(const struct evidence *evidence, unsigned metric, int64_t until_ns,
	double *mean, double *deviation);

/* From a time to the latest sample not after another one; 0 where there is none. */
int64_t evidence_known_ns(
	const struct evidence *evidence, unsigned metric, int64_t from_ns, int64_t until_ns);

/* What one counter grew by for each that another one grew by, between two times as evidence_rate(). False: the other did not grow. */
bool evidence_ratio(const struct evidence *evidence, unsigned part, unsigned whole, int64_t from_ns,
	int64_t until_ns, double *ratio);

/*
 * The same from one sample to one EVIDENCE_RATE_NS and more later, within spans, the latest first: the median, and the spread as the median
 * absolute deviation times 1.4826 (a standard deviation, of normal noise). whole: METRIC_UNKNOWN is time, in ns.
 * Returns how many rates that is of; 0 of fewer than EVIDENCE_RATES_MIN.
 */
size_t evidence_usual_ratio(const struct evidence *evidence, unsigned part, unsigned whole,
	const struct evidence_span *within, size_t span_count, double *median, double *spread);

/* The same of how much faster one counter grew than another, which is a part of it. */
size_t evidence_usual_rest(const struct evidence *evidence, unsigned all, unsigned part,
	const struct evidence_span *within, size_t span_count, double *median, double *spread);

/* Who took the CPU most, by the long intervals between two times. */
struct evidence_rival {
	char name[STEP_TASK_NAME_LENGTH];
	uint32_t pid;
	double share; /* of what all processes (or all own threads) took */
};

/* How long it was preempted, by the long intervals between two times, and what ran instead. */
struct evidence_preempted {
	int64_t all_ns;
	int64_t own_threads_ns; /* other threads of the process */
	int64_t ranks_ns; /* other ranks of the job, and threads of slowrank, by their names */
};

/* pids: of the job's ranks, ascending; own_pid may be one of them, 0 = unknown. evidence: NULL = none. */
void evidence_preempted(const struct evidence *evidence, int64_t from_ns, int64_t until_ns,
	uint32_t own_pid, const uint32_t *pids, size_t pid_count, struct evidence_preempted *by);

/* How long it was stopped between two times, and who held it last. */
struct evidence_stopped {
	int64_t time_ns, known_ns; /* of so much that is still known */
	uint32_t pid;		   /* 0: nobody; a signal stopped it */
	char name[STEP_TASK_NAME_LENGTH];
};
void evidence_stopped(const struct evidence *evidence, int64_t from_ns, int64_t until_ns,
	struct evidence_stopped *stopped);

/* The worst of other processes; where there are none, of own_pid's own threads. False: nobody. */
bool evidence_worst_rival(const struct evidence *evidence, int64_t from_ns, int64_t until_ns,
	uint32_t own_pid, struct evidence_rival *rival);

#endif
