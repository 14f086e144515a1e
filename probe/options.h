/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of `run` and `attach`: command line first, then SLOWRANK_... environment variables,
 * then defaults. Parsed once, then read-only. Strings point into argv or the environment.
 */
#ifndef SLOWRANK_PROBE_OPTIONS_H
#define SLOWRANK_PROBE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/auth/tls_files.h"
#include "probe/config/alert_limits.h"

enum probe_source {
	PROBE_SOURCE_COLLECTIVES = 1 << 0,
	PROBE_SOURCE_SCHED = 1 << 1,
	PROBE_SOURCE_FAULTS = 1 << 2,
	PROBE_SOURCE_CGROUP = 1 << 3,
	PROBE_SOURCE_PSI = 1 << 4,
	PROBE_SOURCE_PROCFS = 1 << 5,
	PROBE_SOURCE_TCP = 1 << 6,
	PROBE_SOURCE_DEVICE = 1 << 8,	 /* the in-process library: device times of collectives */
	PROBE_SOURCE_RDMA = 1 << 9,	 /* counters of RDMA devices, queue pairs */
	PROBE_SOURCE_NVML = 1 << 10,	 /* clocks, errors, neighbours of NVIDIA GPUs */
	PROBE_SOURCE_LAUNCHES = 1 << 11, /* of work for devices, in short windows */
	PROBE_SOURCE_STEAL = 1 << 12,	 /* CPU time that a hypervisor gave to others */
	PROBE_SOURCE_CYCLES = 1 << 13,	 /* clock and instructions of the ranks' CPUs */
	PROBE_SOURCE_STACKS = 1 << 14,	 /* of ranks that the coordinator wants looked at */
	PROBE_SOURCE_ALL = (1 << 15) - 1,
};

/* Timing of every kernel of a suspect, for some steps. */
enum probe_deep {
	PROBE_DEEP_AUTO = 0, /* when the coordinator asks for it; attach: never */
	PROBE_DEEP_OFF = 1,
	PROBE_DEEP_ON = 2, /* attach: put the library into the running ranks */
};

/* Whether the processes of a job that is started count their verbs themselves. */
enum probe_verbs {
	PROBE_VERBS_AUTO = 0, /* where the host has an RDMA device */
	PROBE_VERBS_OFF = 1,  /* uprobe windows only */
};

enum { PROBE_ATTACH_PIDS_MAX = 4096 };

struct probe_options {
	const char *coordinator; /* URL, or NULL: find or start one */
	const char *job;	 /* its name, or NULL: found from the launcher */
	const char *leader;	 /* the host of rank 0, or NULL: found from the launcher */
	const char *record;	 /* path, or NULL: slowrank-JOB.slr here */
	const char *record_max;	 /* a size that can be parsed, or NULL */
	const char *report;	 /* JSON report to write at the end, or NULL */
	const char *alerts;	 /* JSON lines, or NULL */
	const char *http;	 /* where readers are served, or NULL */
	struct alert_settings alert_settings;
	const char *key_file;	  /* or NULL: the user's, and MUNGE */
	const char *munge_socket; /* or NULL: where libmunge has it */
	const char *pause_file;	  /* while it exists, sources rest (for bench/overhead), or NULL */
	size_t spool_max; /* bytes of batches that wait for the coordinator at most; 0: the default */
	unsigned sources; /* enum probe_source */
	enum probe_deep deep;
	enum probe_verbs verbs;
	bool yes; /* attach --deep: do not ask */
	struct tls_files tls;
	bool insecure;	/* no key beyond this host */
	bool quiet;	/* no alerts and no report on stderr */
	bool terminal;	/* stderr is one, which the probe does not see */
	char **command; /* run: argv of the job, NULL-terminated */
	char **words;	/* run: slowrank's own, word_count of them */
	size_t word_count;
	size_t pid_count; /* attach */
	pid_t pids[PROBE_ATTACH_PIDS_MAX];
};

/* Results of the parsers below. */
enum options_result {
	OPTIONS_OK = 0,
	OPTIONS_HELP = 1, /* help was printed: exit 0 */
	OPTIONS_BAD = 2,  /* one line was printed to stderr: exit 2 */
};

enum options_result probe_options_parse_run(struct probe_options *options, int argc, char **argv);
enum options_result probe_options_parse_attach(
	struct probe_options *options, int argc, char **argv);

#endif
