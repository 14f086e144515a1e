/* SPDX-License-Identifier: Apache-2.0 */
/* libnvidia-ml.so.1 with one GPU: who computes on it, how busy it is, and how often it was asked. */
#ifndef TESTS_UNIT_SOURCES_STAND_IN_NVML_H
#define TESTS_UNIT_SOURCES_STAND_IN_NVML_H

enum { STAND_IN_OTHERS_MAX = 4 };

struct stand_in_nvml {
	unsigned own; /* process; 0: it does not compute on the GPU */
	unsigned other_count;
	unsigned others[STAND_IN_OTHERS_MAX], used_percent[STAND_IN_OTHERS_MAX];
	unsigned asked_processes, asked_utilization;
	unsigned busy_percent; /* more than 100: not known */
};

extern struct stand_in_nvml stand_in_nvml;

#endif
