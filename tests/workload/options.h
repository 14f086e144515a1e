/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of the workload programs: a training loop whose length, collectives, schedule and
 * faults are chosen on the command line. Plain values; strings point into argv.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_OPTIONS_H
#define SLOWRANK_TESTS_WORKLOAD_OPTIONS_H

#include "tests/workload/plan.h"
#include "tests/workload/schedule.h"

struct workload_options {
	struct schedule_options schedule;
	double step_ms;	       /* device work of one step: the rank sleeps */
	double compute_ms;     /* CPU time of one step, on top of step_ms */
	double turn_ms;	       /* of device work, between two pieces of computing */
	double jitter_percent; /* standard deviation of the device work, per segment */
	struct fault_plan plan;
	const char *truth_path;	    /* NULL = no truth log */
	const char *injector_path;  /* socket of fault_injector, or NULL */
	const char *work_directory; /* for the file of major faults */
	bool duplicate;		    /* of the world: its collectives go over that */
	bool profiler;		    /* the program profiles itself */
	uint32_t launches;	    /* more of them a step, which the driver refuses at once */
	bool read_loss;		    /* the host waits for its device before each collective */
	bool all_to_all;	    /* after each collective, one more */
	bool pipeline;		    /* instead of collectives, messages between neighbours */
	bool by_pointer;	    /* all-reduces, as programs do that use dlsym() */
	bool helper;		    /* each rank has one, as those of data loaders */
	const char *marker_library; /* NULL = no markers */
	const char *hold_path;	    /* NULL = do not wait; loop.c */
	int exit_status;	    /* of every rank, at the end */
};

/*
 * Parses argv. Returns 0; 1 when help was asked for and printed; -EINVAL after one line on
 * stderr that says what is wrong.
 */
int workload_options_parse(int argc, char **argv, struct workload_options *options)
	__attribute__((warn_unused_result));

#endif
