/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device ran during a deep look, summed by kernel, and how two ranks' sums differ. Pure; any
 * thread.
 */
#ifndef SLOWRANK_ANALYSIS_KERNEL_PROFILE_H
#define SLOWRANK_ANALYSIS_KERNEL_PROFILE_H

#include "analysis/base/verdict.h"

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

/* What came of a look. */
enum look_result {
	LOOK_DONE = 0,
	LOOK_OTHER_PROFILER = 1, /* another profiler holds the interface */
	LOOK_NO_LIBRARY = 2,	 /* the profiling library is not there */
	LOOK_FAILED = 3,	 /* it said no, or never answered */
	LOOK_NO_STEPS = 4,	 /* no whole step lay within the look */
	LOOK_NO_KERNELS = 5,	 /* no kernel ran in its steps */
	LOOK_UNREACHABLE = 6,	 /* the process does not have our library, or it ended */
	LOOK_ENOUGH = 7,	 /* it was looked at so often that it is left alone */
	LOOK_MANY_LAUNCHES =
		8, /* it launches so much that the interface would slow it down for good */
	LOOK_NOT_COUNTED = 9, /* what it launches could not be counted before the look */
	LOOK_RESULT_NR
};
/*
 * For people, into text: "another profiler (PyTorch's, nsys) holds CUPTI", ...; "" for LOOK_DONE.
 * launches_a_second: of LOOK_MANY_LAUNCHES. Returns text.
 */
enum { LOOK_TEXT_LENGTH = 96 };
const char *look_result_tell(
	enum look_result result, uint32_t launches_a_second, char text[LOOK_TEXT_LENGTH]);

/* One rank's deep look: all that began within whole steps, from start to stop. */
struct kernel_profile {
	uint32_t rank;
	uint8_t result; /* enum look_result; other than LOOK_DONE: only times, and launches_a_second */
	uint32_t request; /* the directive it answers; 0: the probe looked by itself */
	uint32_t steps;	  /* from start to stop */
	struct host_ns start, stop;
	uint64_t kernel_count;
	int64_t kernel_ns; /* summed over kernels, collectives left out */
	int64_t busy_ns;   /* some kernel or copy was running, collectives left out */
	int64_t idle_ns;   /* nothing was running, collectives neither */
	int64_t copy_ns;   /* of copies, summed */
	uint64_t copy_count, copy_bytes;
	int64_t synchronise_ns;			    /* the host waited for the device, summed */
	uint32_t launches_a_second;		    /* why there was none: LOOK_MANY_LAUNCHES */
	uint64_t invalid;			    /* records with impossible times, left out */
	uint64_t dropped;			    /* records lost: the sums are too small */
	uint64_t launches[KERNEL_LAUNCH_BUCKET_NR]; /* launch to device start */
	size_t sum_count;
	struct kernel_sum sums[KERNEL_PROFILE_KERNELS_MAX]; /* by time, longest first */
};

/*
 * A name to read: of a mangled C++ name the innermost function, without arguments and templates;
 * others as they are, cut. simplified has KERNEL_NAME_LENGTH bytes.
 */
void kernel_name_simplify(const char *name, char *simplified);

/* By its simplified name: collectives of NCCL and RCCL, ncclKernel..., ncclDevKernel... */
bool kernel_name_is_collective(const char *name);

/* The bucket of a time from launch to start; and a quantile (0..1) of the histogram, in us (the
 * upper end of its bucket); 0 when it is empty. */
size_t kernel_launch_bucket(int64_t latency_ns);
double kernel_launch_quantile_us(const uint64_t launches[KERNEL_LAUNCH_BUCKET_NR], double quantile);

/* How a suspect's device time differs from its control's. */
struct kernel_difference {
	/*
	 * CAUSE_LONGER_KERNELS, CAUSE_MORE_KERNELS, CAUSE_MORE_COPIES, CAUSE_LAUNCH_GAPS (the device
	 * idles), or CAUSE_UNKNOWN: nothing that matters differs, or it cannot be told.
	 */
	enum cause cause;
	double own_ms, control_ms; /* per step, of what the cause speaks of; kernels when unknown */
	double longer_share;	   /* of the excess of kernels, by the same ones taking longer */
	char detail[VERDICT_DETAIL_LENGTH]; /* the largest excesses; why, when it cannot be told */
};

/*
 * Compares two looks that were done, per step. The excess of a kernel that both ran splits into
 * longer (time each, times the other's count) and more. Looks that lost records are not compared.
 * other_name: what the texts call the second one, e.g. "control".
 */
void kernel_profile_compare(const struct kernel_profile *suspect,
	const struct kernel_profile *other, const char *other_name,
	struct kernel_difference *difference);

#endif
