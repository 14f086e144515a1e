/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of `slowrank coordinator`: the command line first, then SLOWRANK_... variables, then
 * defaults. Parsed once, then read-only. Strings point into argv or the environment.
 */
#ifndef SLOWRANK_COORDINATOR_COORDINATOR_OPTIONS_H
#define SLOWRANK_COORDINATOR_COORDINATOR_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "coordinator/listener.h"
#include "probe/auth/tls_files.h"
#include "probe/config/alert_limits.h"

struct coordinator_options {
	const char *urls[LISTENER_URLS_MAX]; /* to listen at */
	size_t url_count;
	const char *record;
	const char *overflow;	     /* where the record goes on while its disk is full, or NULL */
	const char *record_max_text; /* as given, or NULL: record_max is a default */
	uint64_t record_max;	     /* bytes; 0 = no limit */
	const char *job;      /* the name of the job it serves, or NULL: that of the first batch */
	const char *alerts;   /* JSON lines, or NULL */
	const char *report;   /* JSON report, or NULL */
	const char *http;     /* where readers are served, or NULL */
	const char *key_file; /* or NULL: the user's, and MUNGE */
	const char *munge_socket; /* or NULL: where libmunge has it */
	bool insecure;
	struct alert_settings alert_settings;
	struct tls_files tls;
	bool exit_when_done;
	bool continues; /* with the record of one that was killed */
	bool quiet;
	bool quiet_if_empty; /* no report when no step was seen */
	bool terminal;	     /* somebody passes stderr on to one */
	int parent;	     /* process id; 0 = none */
	int ready_fd;	     /* -1 = none */
};

/*
 * Returns 0; 1 when --help was asked for: the text is on out; -EINVAL: problem holds one line
 * that says what is wrong and what to do.
 */
int coordinator_options_parse(struct coordinator_options *options, int argc, char **argv, FILE *out,
	char problem[256]) __attribute__((warn_unused_result));

#endif
