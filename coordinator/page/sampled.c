/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/page/sampled.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define MS_A_SECOND 1e3F /* of ns a ns */
#define A_SECOND 1e9F	 /* of something a ns */
#define MB_A_SECOND 1e3F /* of bytes a ns */

const struct sampled_kind sampled_kinds[SAMPLED_NR] = {
	{"waits for a CPU in the run queue", "ms/s", METRIC_LAUNCHERS_QUEUED_NS, 0, false,
		MS_A_SECOND},
	{"throttled by its cgroup", "ms/s", METRIC_CGROUP_THROTTLED_NS, 0, false, MS_A_SECOND},
	{"CPU time stolen by other guests", "ms/s", METRIC_CPU_STOLEN_NS, 0, false, MS_A_SECOND},
	{"time on CPUs", "ms/s", METRIC_PROCESS_CPU_NS, 0, false, MS_A_SECOND},
	{"stalled for memory", "ms/s", METRIC_PSI_MEMORY_SOME_NS, 0, false, MS_A_SECOND},
	{"pages reclaimed", "/s", METRIC_MEMORY_RECLAIM_PAGES, 0, false, A_SECOND},
	{"major faults", "/s", METRIC_PROCESS_MAJOR_FAULTS, 0, false, A_SECOND},
	{"minor faults", "/s", METRIC_PROCESS_MINOR_FAULTS, 0, false, A_SECOND},
	{"CPU clock", "GHz", METRIC_CPU_CYCLES, METRIC_CPU_COUNTED_NS, false, 1},
	{"instructions a cycle", "", METRIC_CPU_INSTRUCTIONS, METRIC_CPU_CYCLES, false, 1},
	{"CPU slowed down for heat", "/s", METRIC_CPU_THROTTLES, 0, false, A_SECOND},
	{"GPU clock", "MHz", METRIC_GPU_CLOCK_MHZ, 0, true, 1},
	{"GPU busy", "ms/s", METRIC_GPU_BUSY_NS, 0, false, MS_A_SECOND},
	{"other processes on its GPU", "", METRIC_GPU_OTHER_PROCESSES, 0, true, 1},
	{"sent over TCP", "MB/s", METRIC_TCP_BYTES_SENT, 0, false, MB_A_SECOND},
	{"sent again over TCP", "MB/s", METRIC_TCP_BYTES_RETRANSMITTED, 0, false, MB_A_SECOND},
	{"RDMA packets sent", "/s", METRIC_RDMA_PACKETS_SENT, 0, false, A_SECOND},
	{"RDMA packets sent again", "/s", METRIC_RDMA_RETRANSMITS, 0, false, A_SECOND},
	{"RDMA congestion", "/s", METRIC_RDMA_CONGESTION, 0, false, A_SECOND},
	{"RDMA packets out of order", "/s", METRIC_RDMA_OUT_OF_ORDER, 0, false, A_SECOND},
};

static float take(const struct evidence *evidence, const struct sampled_kind *kind, int64_t from_ns,
	int64_t until_ns)
{
	double rate;
	int64_t value;

	if (kind->level)
		return evidence_value(evidence, kind->metric, until_ns, &value)
			       ? (float)value * kind->scale
			       : NAN;
	if (kind->per ? evidence_ratio(evidence, kind->metric, kind->per, from_ns, until_ns, &rate)
		      : evidence_rate(evidence, kind->metric, from_ns, until_ns, &rate))
		return (float)rate * kind->scale;
	return NAN;
}

void sampled_take(const struct evidence *evidence, int64_t from_ns, int64_t until_ns,
	float values[SAMPLED_NR])
{
	for (size_t i = 0; i < SAMPLED_NR; i++)
		values[i] = take(evidence, &sampled_kinds[i], from_ns, until_ns);
}

static int compare(const void *one, const void *other)
{
	float a = *(const float *)one, b = *(const float *)other;

	return (a > b) - (a < b);
}

void sampled_median(
	float values[SAMPLED_CONTROLS_MAX][SAMPLED_NR], size_t count, float median[SAMPLED_NR])
{
	assert(count <= SAMPLED_CONTROLS_MAX);
	for (size_t kind = 0; kind < SAMPLED_NR; kind++) {
		float known[SAMPLED_CONTROLS_MAX];
		size_t known_count = 0;

		for (size_t i = 0; i < count; i++) {
			if (!isnan(values[i][kind]))
				known[known_count++] = values[i][kind];
		}
		qsort(known, known_count, sizeof(known[0]), compare);
		median[kind] = known_count ? known[(known_count - 1) / 2] : NAN;
	}
}
