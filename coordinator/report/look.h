/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small questions to a report model, shared by its writers. Pure; any thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_LOOK_H
#define SLOWRANK_COORDINATOR_REPORT_LOOK_H

#include "coordinator/report/model.h"

static inline size_t look_at_most(size_t count, size_t limit)
{
	return count < limit ? count : limit;
}

/* Time of the epoch; cut at the ends of int64_t. */
int64_t look_unix_ns(struct job_ns time, int64_t unix_offset_ns);

/* True for a cause this program has a name for, other than "unknown". */
static inline bool look_cause_known(uint8_t cause)
{
	return cause != CAUSE_UNKNOWN && cause < CAUSE_NR;
}

/* A sum over steps as ms per step; 0 without steps (the writers show the step count beside it). */
double look_ms_per_step(int64_t sum_ns, uint64_t steps);

/* The rank's row, or NULL when no probe reported it. */
const struct report_rank *look_rank(const struct report_model *model, uint32_t rank);

/* A verdict names the rank. */
bool look_is_named(const struct report_model *model, uint32_t rank);

/* Its host's name, or "" when unknown. */
const char *look_host(const struct report_model *model, uint32_t rank);

/* The host shared by all these ranks, or NULL: several hosts, or unknown. */
const char *look_common_host(const struct report_model *model, const uint32_t *ranks, size_t count);

/* True when the ranks are on exactly two hosts with names, which hosts[] gets. */
bool look_two_hosts(const struct report_model *model, const uint32_t *ranks, size_t count,
	const char *hosts[2]);

/* What goes on before what has ended, hangs before all else, then the larger slow-down: the order of incidents for people. */
bool look_is_worse(const struct verdict *one, const struct verdict *other);

/* Why the verdict was not alerted of; ALERT_HOLD_NONE: it was. */
static inline enum alert_hold look_hold(
	const struct report_model *model, const struct verdict *verdict)
{
	return model->alerts ? alert_gate_hold(model->alerts, verdict->id) : ALERT_HOLD_NONE;
}

/* What alerts were limited to, or NULL: to nothing. */
const struct alert_limits *look_alert_limits(const struct report_model *model);

/* The evidence of the verdict's own cause; the first one otherwise; NULL when there is none. */
const struct verdict_evidence *look_main_evidence(const struct verdict *verdict);

#endif
