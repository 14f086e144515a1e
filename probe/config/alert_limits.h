/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operator does not want to be alerted of: three numbers, from options and from a file of
 * "name = value" lines ('#' begins a comment). What is detected does not depend on them. Read once, then
 * read-only; any thread.
 */
#ifndef SLOWRANK_PROBE_CONFIG_ALERT_LIMITS_H
#define SLOWRANK_PROBE_CONFIG_ALERT_LIMITS_H

#include <stdint.h>
#include <stdio.h>

enum {
	ALERT_LIMITS_PROBLEM_LENGTH = 256, /* with the NUL */
	ALERT_LIMITS_LINES_MAX = 1000,	   /* of a file */
};

/* 0: no limit. */
struct alert_limits {
	double slowdown;  /* the least that alerts, e.g. 1.10; hangs always do */
	int64_t after_ns; /* how long it must have lasted */
	double imbalance; /* workload imbalance that slows down by so much, or less, is known */
};

/* As the user gave them: from the command line or the environment. NULL = not given. */
struct alert_settings {
	const char *file;
	const char *slowdown, *after, *imbalance;
};

/* Options and variables of these settings, for the tables of each command. */
#define ALERT_SETTINGS_HELP                                                                        \
	"  --alert-slowdown X  no alert of what slows the job down by less, e.g. 1.10\n"           \
	"  --alert-after TIME  no alert of what has not lasted so long, e.g. 30s, 5m\n"            \
	"  --silent-imbalance X  no alert of workload imbalance that slows the job down by so\n"   \
	"                      much or less, e.g. 1.2\n"                                           \
	"  --config FILE       these three as lines, 'alert-after = 30s' (default:\n"              \
	"                      /etc/slowrank.conf, then ~/.config/slowrank/config)\n"

/*
 * Sets what settings->file and the others say; what they do not name stays as it is. Returns 0, or -EINVAL
 * or the file's error, with one line in problem; *limits is then as it was.
 */
int alert_limits_given(const struct alert_settings *settings, struct alert_limits *limits,
	char problem[ALERT_LIMITS_PROBLEM_LENGTH]) __attribute__((warn_unused_result));

/*
 * Sets what a file says that nobody named, if it is there. A bad line is told on out and passed over: a
 * watched job does not hang on it.
 */
void alert_limits_found(const char *path, struct alert_limits *limits, FILE *out);

/*
 * All of it: the files that are looked for, unless one is named, then what is given. *limits is filled anew.
 * As alert_limits_given().
 */
int alert_limits_load(const struct alert_settings *settings, struct alert_limits *limits, FILE *out,
	char problem[ALERT_LIMITS_PROBLEM_LENGTH]) __attribute__((warn_unused_result));

#endif
