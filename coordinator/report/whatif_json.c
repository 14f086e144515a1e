/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/whatif_json.h"

#include <stdio.h>

enum { DECIMALS = 6 };

static void write_numbered(
	struct json_writer *writer, const char *key, const double *values, uint32_t count)
{
	char number[16];

	json_object_begin(writer, key);
	for (uint32_t i = 0; i < count; i++) {
		snprintf(number, sizeof(number), "%u", i);
		json_decimal(writer, number, values[i], DECIMALS);
	}
	json_object_end(writer);
}

void report_json_whatif(struct json_writer *writer, const struct trace_figures *figures)
{
	json_object_begin(writer, "whatif");
	json_decimal(writer, "S", figures->slowdown, DECIMALS);
	json_decimal(writer, "launch_slowdown", figures->launch_slowdown, DECIMALS);
	json_decimal(writer, "step_s_mean_actual", figures->step_ns_actual * 1e-9, DECIMALS);
	json_decimal(writer, "step_s_mean_without_launch_delay", figures->step_ns * 1e-9, DECIMALS);
	json_decimal(writer, "step_s_mean_ideal", figures->step_ns_ideal * 1e-9, DECIMALS);
	write_numbered(writer, "by_dp_rank", figures->by_replica, figures->replica_count);
	write_numbered(writer, "by_stage", figures->by_stage, figures->stage_count);
	json_object_begin(writer, "by_optype");
	for (unsigned i = 0; i < TRACE_FIGURE_NR; i++) {
		if (figures->has_kind[i])
			json_decimal(writer, trace_figure_name(i), figures->by_kind[i], DECIMALS);
	}
	json_object_end(writer);
	json_decimal(writer, "M_S", figures->last_stage_share, DECIMALS);
	json_decimal(writer, "M_W", figures->worst_ranks_share, DECIMALS);
	json_decimal(writer, "forward_backward_correlation", figures->forward_backward_correlation,
		DECIMALS);
	json_unsigned(writer, "steps", figures->steps);
	json_unsigned(writer, "steps_left_out", figures->steps_left_out);
	json_object_end(writer);
}
