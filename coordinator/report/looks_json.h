/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's deep look as JSON: the key "look" of an object that is open. One thread. */
#ifndef SLOWRANK_COORDINATOR_REPORT_LOOKS_JSON_H
#define SLOWRANK_COORDINATOR_REPORT_LOOKS_JSON_H

#include "analysis/explain/kernel_profile.h"
#include "coordinator/report/json_writer.h"

void report_json_look(struct json_writer *writer, const struct kernel_profile *look);

#endif
