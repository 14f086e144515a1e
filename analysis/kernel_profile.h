/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device ran during a deep look, summed by kernel, and how two ranks' sums differ. Pure; any
 * thread.
 */
#ifndef SLOWRANK_ANALYSIS_KERNEL_PROFILE_H
#define SLOWRANK_ANALYSIS_KERNEL_PROFILE_H

#include "analysis/verdict.h"

enum {
	KERNEL_NAME_LENGTH = 64,	 /* simplified, with the NUL */
	KERNEL_PROFILE_KERNELS_MAX = 64, /* the largest; the rest is summed */
	KERNEL_LAUNCH_BUCKET_NR =
		20, /* launch to start: bucket b holds [2^b, 2^(b+1)) us, the first all below */
};

struct kernel_sum {
	char name[KERNEL_NAME_LENGTH];
	uint64_t count;
	int64_t time_ns;
};

/* One rank's deep look. */
struct kernel_profile {
	uint32_t rank;
	struct host_ns start, stop; /* of what was seen */
	uint64_t kernel_count;
	int64_t kernel_ns; /* summed over kernels, collectives left out */
	int64_t busy_ns;   /* some kernel or copy was running, collectives left out */
	int64_t copy_ns;   /* of copies, summed */
	uint64_t copy_bytes;
	uint64_t invalid;			    /* records with impossible times, dropped */
	uint64_t launches[KERNEL_LAUNCH_BUCKET_NR]; /* launch to device start */
	size_t sum_count;
	struct kernel_sum sums[KERNEL_PROFILE_KERNELS_MAX]; /* by time, longest first */
};

/*
 * A name to read: of a mangled C++ name the innermost function, without arguments and templates;
 * others as they are, cut. simplified has KERNEL_NAME_LENGTH bytes.
 */
void kernel_name_simplify(const char *name, char *simplified);

/* Collectives of NCCL and RCCL: ncclKernel..., ncclDevKernel... */
bool kernel_name_is_collective(const char *name);

/* How a suspect's kernels differ from its control's, per time of the look. */
struct kernel_difference {
	enum cause
		cause; /* CAUSE_LONGER_KERNELS, CAUSE_MORE_KERNELS, or CAUSE_UNKNOWN: they do not */
	double own_ms, control_ms;	    /* kernel time per step */
	double longer_share;		    /* of the excess, by the same kernels taking longer */
	char detail[VERDICT_DETAIL_LENGTH]; /* the kernels with the largest excess */
};

/*
 * steps: training steps within each look; counts and times are compared per step. The excess of a
 * kernel that both ran splits into longer (time each, times the control's count) and more.
 */
void kernel_profile_compare(const struct kernel_profile *suspect, double suspect_steps,
	const struct kernel_profile *control, double control_steps,
	struct kernel_difference *difference);

#endif
