/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the published figures of a record as JSON: trace_figures RECORD. */
#include <stdio.h>
#include <string.h>

#include "coordinator/report/json_writer.h"
#include "tests/traces/trace_record.h"

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

static void write_figures(struct json_writer *writer, const struct trace_figures *figures)
{
	json_object_begin(writer, NULL);
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

int main(int argc, char **argv)
{
	struct trace_figures figures;
	struct json_writer writer;

	if (argc != 2) {
		fprintf(stderr, "usage: %s RECORD\n", argv[0]);
		return 2;
	}
	int error = trace_record_figures(argv[1], &figures);

	if (error < 0) {
		fprintf(stderr, "no figures of %s: %s\n", argv[1], strerror(-error));
		return 1;
	}
	json_writer_init(&writer, stdout, 0);
	write_figures(&writer, &figures);
	putchar('\n');
	trace_figures_fini(&figures);
	return fflush(stdout) == 0 ? 0 : 1;
}
