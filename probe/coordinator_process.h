/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the job's coordinator, or starts one as a child process. A process of its own rather
 * than a thread: a fault in it cannot take the probe down, and nng's server threads stay apart.
 * The first probe of a job on a host wins a file lock that the coordinator then holds.
 */
#ifndef SLOWRANK_PROBE_COORDINATOR_PROCESS_H
#define SLOWRANK_PROBE_COORDINATOR_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

#include "probe/options.h"

enum {
	COORDINATOR_URL_LENGTH = 256,
	/* Where a port is taken, the next of the sequence; the steps are such that two jobs with one
	 * port in common do not follow each other. */
	COORDINATOR_PORT_ATTEMPTS = 4,
};

/* A coordinator that this probe started. */
struct coordinator_child {
	bool is_ours; /* it was started here */
	pid_t pid;    /* 0 = none, or it was seen to end */
	bool quiet_if_empty;
	unsigned restarts; /* since it last ran for a while */
	int64_t started_ms;
	char lock_path[160];
	char overflow_path[160]; /* where its record goes on while that disk is full */
	char listen_url[COORDINATOR_URL_LENGTH];
	char socket_path[COORDINATOR_URL_LENGTH]; /* of ipc, else "" */
};

/* What is known of the job before its first rank is seen. */
struct job_place {
	char job_id[64];    /* the launcher's name of the job, else made from host, pid and time */
	bool is_slurm_task; /* what is left of a step when its tasks have ended is killed */
	bool may_outlive; /* started by a launcher, as one rank, that lets the probe finish after it */
	bool several_hosts;   /* the launcher says that other hosts take part */
	bool first_here;      /* of several probes that start on this host, the one that tells */
	uint32_t probes_here; /* of the job that start on this host, as far as it is said */
	char leader_address[128]; /* the host of rank 0, as all probes reach it, or "" */
	char alone[24]; /* the name of a host that is watched alone, in its files' names; else "" */
};

/* Reads the launcher's environment of this process, and the command that it is to start. */
void job_place_find(struct job_place *place, const struct probe_options *options);

/* One host of a job on several is watched alone: with a coordinator of its own, under names of its own. */
void job_place_stay_alone(struct job_place *place);

/* The record where no option names one; as long as a job's and a host's name. */
void job_place_record(const struct job_place *place, char record[128]);

/*
 * The URL of the job's coordinator over tcp. Ports may be taken: there is a sequence of them, and
 * attempt counts through it, again and again.
 */
void coordinator_process_url(
	const struct job_place *place, unsigned attempt, char url[COORDINATOR_URL_LENGTH]);

/* The URL, or what to open for all of them where it is one of several, for people. */
void coordinator_process_where(
	const struct job_place *place, unsigned attempts, const char *url, char where[256]);

/*
 * Chooses the URL and starts the coordinator where that falls to this probe. *attempts: how many URLs
 * there are to look for it at, 1 = this one. quiet_if_empty: it prints no report when it saw no step
 * (why was told already). Returns 0; -EINVAL when several hosts take part and no address of one is
 * known; another negative errno when it cannot be started. On failure *why says it in one line.
 */
int coordinator_process_ensure(const struct probe_options *options, const struct job_place *place,
	bool quiet_if_empty, char url[COORDINATOR_URL_LENGTH], unsigned *attempts,
	struct coordinator_child *child, char why[256]) __attribute__((warn_unused_result));

/*
 * Looks after a coordinator started here: one that was killed is started again, and goes on with its
 * record. options and place are those of coordinator_process_ensure(). True when it has ended and is not
 * started again. Says on stderr what became of it, once. Does not wait.
 */
bool coordinator_process_ended(struct coordinator_child *child, const struct probe_options *options,
	const struct job_place *place);

/*
 * Waits for a coordinator started here to write its files and end, at most timeout_ms, and looks after it
 * meanwhile; removes its lock and socket.
 */
void coordinator_process_wait(struct coordinator_child *child, const struct probe_options *options,
	const struct job_place *place, int timeout_ms);

/* Leaves it to end by itself once no probe is connected; removes its lock and socket. */
void coordinator_process_leave(struct coordinator_child *child);

#endif
