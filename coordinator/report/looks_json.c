/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/looks_json.h"

#include "coordinator/report/look.h"

enum { DECIMALS_MS = 4, DECIMALS_COUNT = 2, KERNELS_TOLD = 16 };

static void write_kernels(
	struct json_writer *writer, const struct kernel_profile *look, double steps)
{
	json_array_begin(writer, "kernels");
	for (size_t i = 0; i < look_at_most(look->sum_count, KERNELS_TOLD); i++) {
		const struct kernel_sum *sum = &look->sums[i];

		json_object_begin(writer, NULL);
		json_string(writer, "name", sum->name);
		json_decimal(writer, "calls", (double)sum->count / steps, DECIMALS_COUNT);
		json_decimal(
			writer, "ms", look_ms_per_step(sum->time_ns, look->steps), DECIMALS_MS);
		json_object_end(writer);
	}
	json_array_end(writer);
}

static uint64_t quantile_us(const struct kernel_profile *look, double quantile)
{
	return (uint64_t)kernel_launch_quantile_us(look->launches, quantile);
}

/* From launch to the device's start: bucket b counts [2^b, 2^(b+1)) us, the first all below. */
static void write_launches(struct json_writer *writer, const struct kernel_profile *look)
{
	json_object_begin(writer, "launch_us");
	json_unsigned(writer, "median", quantile_us(look, 0.5));
	json_unsigned(writer, "p99", quantile_us(look, 0.99));
	json_array_begin(writer, "histogram");
	for (size_t b = 0; b < KERNEL_LAUNCH_BUCKET_NR; b++)
		json_unsigned(writer, NULL, look->launches[b]);
	json_array_end(writer);
	json_object_end(writer);
}

void report_json_look(struct json_writer *writer, const struct kernel_profile *look)
{
	const struct {
		const char *key;
		int64_t ns;
	} times[] = {{"kernel_ms", look->kernel_ns}, {"busy_ms", look->busy_ns},
		{"idle_ms", look->idle_ns}, {"copy_ms", look->copy_ns},
		{"synchronise_ms", look->synchronise_ns}};
	double steps = look->steps ? look->steps : 1;

	json_object_begin(writer, "look");
	json_unsigned(writer, "steps", look->steps);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		json_decimal(writer, times[i].key, look_ms_per_step(times[i].ns, look->steps),
			DECIMALS_MS);
	json_decimal(writer, "kernel_calls", (double)look->kernel_count / steps, DECIMALS_COUNT);
	json_decimal(writer, "copies", (double)look->copy_count / steps, DECIMALS_COUNT);
	json_unsigned(writer, "copy_bytes", look->copy_bytes / (look->steps ? look->steps : 1));
	json_unsigned(writer, "invalid", look->invalid);
	json_unsigned(writer, "dropped", look->dropped);
	write_kernels(writer, look, steps);
	write_launches(writer, look);
	json_object_end(writer);
}
