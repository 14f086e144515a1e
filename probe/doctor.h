/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `slowrank doctor` finds: a list of checks, each fine, degraded (what is lost) or missing
 * (what to do). The doctor_... functions look at one part of the host each and add their lines.
 * One thread.
 */
#ifndef SLOWRANK_PROBE_DOCTOR_H
#define SLOWRANK_PROBE_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum doctor_state {
	DOCTOR_FINE = 1,
	DOCTOR_DEGRADED = 2, /* works, but something is lost */
	DOCTOR_MISSING = 3,  /* does not work, or is not there */
};

enum {
	DOCTOR_LINES_MAX = 96,
	DOCTOR_NAME_LENGTH = 32,
	DOCTOR_TEXT_LENGTH = 320,
};

struct doctor_line {
	enum doctor_state state;
	char name[DOCTOR_NAME_LENGTH];
	char found[DOCTOR_TEXT_LENGTH];	 /* what is there, or what is lost */
	char advice[DOCTOR_TEXT_LENGTH]; /* what to do; "" when there is nothing */
};

struct doctor {
	size_t line_count;
	size_t line_dropped; /* lines that did not fit */
	struct doctor_line lines[DOCTOR_LINES_MAX];
	bool sees_collectives; /* the programs load, attach, and deliver */
};

/* Adds a line; found is a format. Returns it, to add advice to; never NULL. */
struct doctor_line *doctor_add(struct doctor *doctor, enum doctor_state state, const char *name,
	const char *found, ...) __attribute__((format(printf, 4, 5)));
void doctor_advise(struct doctor_line *line, const char *advice, ...)
	__attribute__((format(printf, 2, 3)));

void doctor_check_kernel(struct doctor *doctor);    /* release, BTF, lockdown, sysctls */
void doctor_check_rights(struct doctor *doctor);    /* capabilities */
void doctor_check_hooks(struct doctor *doctor);	    /* BPF programs: load, attach, deliver */
void doctor_check_libraries(struct doctor *doctor); /* MPI, NCCL, RCCL and their functions */
void doctor_check_host(struct doctor *doctor);	    /* cgroups, PSI, /proc, TCP, NIC */
void doctor_check_devices(struct doctor *doctor);   /* GPU, RDMA */
void doctor_check_rdma(struct doctor *doctor);	    /* of which */

void doctor_print_text(const struct doctor *doctor, FILE *out);
void doctor_print_json(const struct doctor *doctor, FILE *out); /* slowrank.doctor/1 */

#endif
