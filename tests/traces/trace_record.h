/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a record that `slowrank import` made of a trace. One thread. */
#ifndef SLOWRANK_TESTS_TRACES_TRACE_RECORD_H
#define SLOWRANK_TESTS_TRACES_TRACE_RECORD_H

#include "tests/traces/trace_figures.h"

/*
 * A rank's stage is its lowest chunk, its replica its index among those it shares gradients with.
 * Returns 0; -EINVAL when the record holds no trace, or one that does not follow the rules; another
 * negative errno when it cannot be read. figures as trace_figures_init() has them.
 */
int trace_record_figures(const char *path, struct trace_figures *figures)
	__attribute__((warn_unused_result));

#endif
