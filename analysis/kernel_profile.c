/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/kernel_profile.h"

#include <stdio.h>
#include <string.h>

/* Kernels that differ by less are noise. */
static const double excess_share_min = 0.03;
static const double longer_share_min = 0.5;

enum { TOLD_MAX = 3 };

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * In an Itanium-mangled nested name (_ZN <length><identifier>... [I<arguments>E] E) the last
 * identifier before the first template arguments, or before the end, is the function's.
 */
static const char *innermost(const char *name, size_t *length)
{
	const char *at = name + 2, *found = NULL;

	if (strncmp(name, "_Z", 2) != 0)
		return NULL;
	at += *at == 'N';
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

static void describe(const struct excess_of_kernel *top, size_t count, char *detail)
{
	size_t used = 0;

	detail[0] = '\0';
	for (size_t i = 0; i < count && used + 8 < VERDICT_DETAIL_LENGTH; i++) {
		int written = snprintf(detail + used, VERDICT_DETAIL_LENGTH - used,
			"%s%.40s %.2f ms a step (%.0f calls), control %.2f (%.0f)", i ? "; " : "",
			top[i].sum->name, top[i].own_ns / 1e6, top[i].own_count,
			top[i].control_ns / 1e6, top[i].control_count);

		used += written > 0 ? (size_t)written : 0;
	}
}

void kernel_profile_compare(const struct kernel_profile *suspect, double suspect_steps,
	const struct kernel_profile *control, double control_steps,
	struct kernel_difference *difference)
{
	struct excess_of_kernel top[TOLD_MAX + 1];
	double longer = 0, more = 0, own_ns, control_ns;
	size_t top_count = 0;

	*difference = (struct kernel_difference){.cause = CAUSE_UNKNOWN};
	if (suspect_steps <= 0 || control_steps <= 0)
		return;
	own_ns = (double)suspect->kernel_ns / suspect_steps;
	control_ns = (double)control->kernel_ns / control_steps;
	for (size_t i = 0; i < suspect->sum_count; i++) {
		const struct kernel_sum *own = &suspect->sums[i];
		const struct kernel_sum *other = find(control, own->name);
		struct excess_of_kernel one = {
			.sum = own,
			.own_ns = (double)own->time_ns / suspect_steps,
			.own_count = (double)own->count / suspect_steps,
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
	difference->own_ms = own_ns / 1e6;
	difference->control_ms = control_ns / 1e6;
	if (control_ns <= 0 || own_ns - control_ns < excess_share_min * control_ns)
		return;
	longer = longer > 0 ? longer : 0;
	more = more > 0 ? more : 0;
	if (longer + more <= 0)
		return;
	difference->longer_share = longer / (longer + more);
	difference->cause = difference->longer_share >= longer_share_min ? CAUSE_LONGER_KERNELS
									 : CAUSE_MORE_KERNELS;
	describe(top, top_count, difference->detail);
}
