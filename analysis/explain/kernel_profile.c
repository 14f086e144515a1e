/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/explain/kernel_profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/policy.h"

enum { TOLD_MAX = 3 };

const char *look_result_tell(
	enum look_result result, uint32_t launches_a_second, char text[LOOK_TEXT_LENGTH])
{
	static const char *const texts[LOOK_RESULT_NR] = {
		[LOOK_DONE] = "",
		[LOOK_OTHER_PROFILER] = "another profiler (PyTorch's, nsys, ...) holds CUPTI",
		[LOOK_NO_LIBRARY] = "no libcupti in the process, nor beside its libcudart",
		[LOOK_FAILED] = "CUPTI did not start",
		[LOOK_NO_STEPS] = "no whole step lay within the look",
		[LOOK_NO_KERNELS] = "no kernel was seen in the look",
		[LOOK_UNREACHABLE] = "the process has no slowrank library in it, or has ended",
		[LOOK_ENOUGH] = "it was looked at often enough",
		[LOOK_NOT_COUNTED] = "launches are not counted here (needs BPF): run --deep on "
				     "asks for looks all the same",
	};

	if (result == LOOK_MANY_LAUNCHES)
		snprintf(text, LOOK_TEXT_LENGTH,
			"%" PRIu32 " launches a second: CUPTI would slow them down",
			launches_a_second);
	else
		snprintf(text, LOOK_TEXT_LENGTH, "%s",
			(unsigned)result < LOOK_RESULT_NR ? texts[result] : "it failed");
	return text;
}

size_t kernel_launch_bucket(int64_t latency_ns)
{
	size_t bucket = 0;

	while (bucket + 1 < KERNEL_LAUNCH_BUCKET_NR && latency_ns >= INT64_C(2000) << bucket)
		bucket++;
	return bucket;
}

double kernel_launch_quantile_us(const uint64_t launches[KERNEL_LAUNCH_BUCKET_NR], double quantile)
{
	double total = 0, reached = 0;

	for (size_t b = 0; b < KERNEL_LAUNCH_BUCKET_NR; b++)
		total += (double)launches[b];
	for (size_t b = 0; b < KERNEL_LAUNCH_BUCKET_NR && total > 0; b++) {
		reached += (double)launches[b];
		if (reached >= quantile * total)
			return (double)(UINT64_C(2) << b);
	}
	return 0;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * In an Itanium-mangled nested name (_ZN <length><identifier>... [I<arguments>E] E) the last
 * identifier before the first template arguments, or before the end, is the function's; in one that
 * is not nested the first is, and those behind it are types of parameters.
 */
static const char *innermost(const char *name, size_t *length)
{
	const char *at = name + 2, *found = NULL;
	bool nested;

	if (strncmp(name, "_Z", 2) != 0)
		return NULL;
	nested = *at == 'N';
	at += nested;
	at += *at == 'L';
	while (is_digit(*at)) {
		size_t size = 0;

		while (is_digit(*at) && size < 4096)
			size = size * 10 + (size_t)(*at++ - '0');
		if (strnlen(at, size) < size)
			return NULL;
		if (strncmp(at, "_GLOBAL__N_", 11) != 0) {
			found = at;
			*length = size;
		}
		at += size;
		at += *at == 'L';
		if (!nested)
			break;
	}
	return found;
}

void kernel_name_simplify(const char *name, char *simplified)
{
	size_t length;
	const char *from = innermost(name, &length);

	if (!from) {
		from = name;
		length = strcspn(name, "<( ");
		if (length == 0 || strncmp(name, "void ", 5) == 0) { /* demangled already */
			from = strncmp(name, "void ", 5) == 0 ? name + 5 : name;
			length = strcspn(from, "<(");
			for (size_t i = length; i-- > 0;) {
				if (from[i] == ':') {
					from += i + 1;
					length -= i + 1;
					break;
				}
			}
		}
	}
	if (length > KERNEL_NAME_LENGTH - 1)
		length = KERNEL_NAME_LENGTH - 1;
	memcpy(simplified, from, length);
	simplified[length] = '\0';
}

bool kernel_name_is_collective(const char *name)
{
	return strncmp(name, "ncclKernel", 10) == 0 || strncmp(name, "ncclDevKernel", 13) == 0 ||
	       strncmp(name, "ncclSymDevKernel", 16) == 0;
}

static const struct kernel_sum *find(const struct kernel_profile *profile, const char *name)
{
	for (size_t i = 0; i < profile->sum_count; i++) {
		if (strcmp(profile->sums[i].name, name) == 0)
			return &profile->sums[i];
	}
	return NULL;
}

struct excess_of_kernel {
	const struct kernel_sum *sum;
	double own_ns, control_ns; /* per step */
	double own_count, control_count;
};

/* Keeps the largest few, in order. */
static void keep(struct excess_of_kernel *top, size_t *count, const struct excess_of_kernel *one)
{
	size_t at = *count;

	while (at > 0 &&
		top[at - 1].own_ns - top[at - 1].control_ns < one->own_ns - one->control_ns)
		at--;
	if (at == TOLD_MAX)
		return;
	size_t last = *count < TOLD_MAX ? *count : TOLD_MAX - 1;
	memmove(&top[at + 1], &top[at], (last - at) * sizeof(*top));
	top[at] = *one;
	*count = last + 1;
}

static void describe(
	const struct excess_of_kernel *top, size_t count, const char *other_name, char *detail)
{
	size_t used = 0;

	detail[0] = '\0';
	for (size_t i = 0; i < count && used + 8 < VERDICT_DETAIL_LENGTH; i++) {
		int written = snprintf(detail + used, VERDICT_DETAIL_LENGTH - used,
			"%s%.40s %.2f ms a step (%.0f calls), %s %.2f (%.0f)", i ? "; " : "",
			top[i].sum->name, top[i].own_ns / 1e6, top[i].own_count, other_name,
			top[i].control_ns / 1e6, top[i].control_count);

		used += written > 0 ? (size_t)written : 0;
	}
}

/* Kernels of both, one by one: what is longer, what is more, and which weigh most. */
static void compare_kernels(const struct kernel_profile *suspect,
	const struct kernel_profile *control, const char *other_name,
	struct kernel_difference *difference)
{
	double own_steps = suspect->steps, control_steps = control->steps, longer = 0, more = 0;
	struct excess_of_kernel top[TOLD_MAX + 1];
	size_t top_count = 0;

	for (size_t i = 0; i < suspect->sum_count; i++) {
		const struct kernel_sum *own = &suspect->sums[i];
		const struct kernel_sum *other = find(control, own->name);
		struct excess_of_kernel one = {
			.sum = own,
			.own_ns = (double)own->time_ns / own_steps,
			.own_count = (double)own->count / own_steps,
			.control_ns = other ? (double)other->time_ns / control_steps : 0,
			.control_count = other ? (double)other->count / control_steps : 0,
		};
		double usual_each = one.control_count > 0 ? one.control_ns / one.control_count : 0;
		double each = one.own_count > 0 ? one.own_ns / one.own_count : 0;

		/* Times each: what the control's number of calls would take at this rank's pace. */
		longer += (each - usual_each) *
			  (one.control_count < one.own_count ? one.control_count : one.own_count);
		more += (one.own_count - one.control_count) * (usual_each > 0 ? usual_each : each);
		keep(top, &top_count, &one);
	}
	longer = longer > 0 ? longer : 0;
	more = more > 0 ? more : 0;
	if (longer + more <= 0)
		return;
	difference->longer_share = longer / (longer + more);
	difference->cause = difference->longer_share >= LONGER_SHARE_MIN ? CAUSE_LONGER_KERNELS
									 : CAUSE_MORE_KERNELS;
	describe(top, top_count, other_name, difference->detail);
}

static double ms_per_step(const struct kernel_profile *profile, int64_t ns)
{
	return (double)ns / 1e6 / (double)profile->steps;
}

static void put_times(const struct kernel_profile *suspect, int64_t own_ns,
	const struct kernel_profile *control, int64_t control_ns,
	struct kernel_difference *difference)
{
	difference->own_ms = ms_per_step(suspect, own_ns);
	difference->control_ms = ms_per_step(control, control_ns);
}

static void tell_copies(const struct kernel_profile *suspect, const struct kernel_profile *control,
	const char *other_name, struct kernel_difference *difference)
{
	put_times(suspect, suspect->copy_ns, control, control->copy_ns, difference);
	difference->cause = CAUSE_MORE_COPIES;
	snprintf(difference->detail, sizeof(difference->detail),
		"%.0f copies of %.1f MB a step, %s %.0f of %.1f MB",
		(double)suspect->copy_count / suspect->steps,
		(double)suspect->copy_bytes / 1e6 / suspect->steps, other_name,
		(double)control->copy_count / control->steps,
		(double)control->copy_bytes / 1e6 / control->steps);
}

static void tell_gaps(const struct kernel_profile *suspect, const struct kernel_profile *control,
	const char *other_name, struct kernel_difference *difference)
{
	put_times(suspect, suspect->idle_ns, control, control->idle_ns, difference);
	difference->cause = CAUSE_LAUNCH_GAPS;
	snprintf(difference->detail, sizeof(difference->detail),
		"its device idles between kernels, which take %.2f ms a step, %s %.2f",
		ms_per_step(suspect, suspect->kernel_ns), other_name,
		ms_per_step(control, control->kernel_ns));
}

static bool is_whole(const struct kernel_profile *profile)
{
	return (double)profile->dropped <=
	       LOOK_LOST_MAX * (double)(profile->kernel_count + profile->copy_count);
}

void kernel_profile_compare(const struct kernel_profile *suspect,
	const struct kernel_profile *control, const char *other_name,
	struct kernel_difference *difference)
{
	double least_ms, kernels, copies, gaps;

	*difference = (struct kernel_difference){.cause = CAUSE_UNKNOWN};
	if (suspect->steps == 0 || control->steps == 0)
		return;
	put_times(suspect, suspect->kernel_ns, control, control->kernel_ns, difference);
	if (!is_whole(suspect) || !is_whole(control)) {
		snprintf(difference->detail, sizeof(difference->detail),
			"a look lost records: %llu, %s %llu", (unsigned long long)suspect->dropped,
			other_name, (unsigned long long)control->dropped);
		return;
	}
	least_ms =
		LOOK_EXCESS_MIN * ms_per_step(control, control->stop.value - control->start.value);
	kernels = difference->own_ms - difference->control_ms;
	copies = ms_per_step(suspect, suspect->copy_ns) - ms_per_step(control, control->copy_ns);
	gaps = ms_per_step(suspect, suspect->idle_ns) - ms_per_step(control, control->idle_ns);
	if (kernels > least_ms && kernels >= copies && kernels >= gaps)
		compare_kernels(suspect, control, other_name, difference);
	else if (copies > least_ms && copies >= gaps)
		tell_copies(suspect, control, other_name, difference);
	else if (gaps > least_ms)
		tell_gaps(suspect, control, other_name, difference);
}
