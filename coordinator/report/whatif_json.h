/* SPDX-License-Identifier: Apache-2.0 */
/* The what-if figures of an imported trace as JSON. Pure output; any thread. */
#ifndef SLOWRANK_COORDINATOR_REPORT_WHATIF_JSON_H
#define SLOWRANK_COORDINATOR_REPORT_WHATIF_JSON_H

#include "analysis/trace.h"
#include "coordinator/report/json_writer.h"

/* Writes the member "whatif" into the object that is open. */
void report_json_whatif(struct json_writer *writer, const struct trace_figures *figures);

#endif
