/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/looks_text.h"

#include <inttypes.h>

#include "coordinator/report/line.h"
#include "coordinator/report/look.h"

enum { LOOKS_SHOWN = 12, TEXT_LENGTH = 512 };

bool looks_text_wanted(const struct report_model *model)
{
	for (uint32_t i = 0; i < model->rank_count; i++) {
		if (model->ranks[i].look)
			return true;
	}
	return false;
}

static void write_look(const struct report_rank *rank, bool named, FILE *out)
{
	const struct kernel_profile *look = rank->look;
	char text[TEXT_LENGTH];
	struct line line;

	line_init(&line, text, sizeof(text));
	line_add(&line, "%c rank %" PRIu32 ": kernels ", named ? '*' : ' ', look->rank);
	line_add_ms(&line, look_ms_per_step(look->kernel_ns, look->steps));
	line_add(&line, " ms in ");
	line_add_decimal(&line, (double)look->kernel_count / (look->steps ? look->steps : 1), 0);
	line_add(&line, " calls, copies ");
	line_add_ms(&line, look_ms_per_step(look->copy_ns, look->steps));
	line_add(&line, " ms, idle ");
	line_add_ms(&line, look_ms_per_step(look->idle_ns, look->steps));
	line_add(&line, " ms");
	if (kernel_launch_quantile_us(look->launches, 0.5) > 0) {
		line_add(&line, "; launch to start below ");
		line_add_decimal(&line, kernel_launch_quantile_us(look->launches, 0.5), 0);
		line_add(&line, " us (half of them), ");
		line_add_decimal(&line, kernel_launch_quantile_us(look->launches, 0.99), 0);
		line_add(&line, " us (99 %%)");
	}
	line_add(&line, "; %" PRIu32 " steps", look->steps);
	if (look->dropped)
		line_add(&line, ", %" PRIu64 " records lost", look->dropped);
	fprintf(out, "%s\n", text);
}

void looks_text_write(const struct report_model *model, FILE *out)
{
	size_t shown = 0, count = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < model->rank_count; i++) {
			const struct report_rank *rank = &model->ranks[i];
			bool named;

			if (!rank->look)
				continue;
			named = look_is_named(model, rank->totals.rank);
			if (named != (pass == 0))
				continue;
			count++;
			if (shown == LOOKS_SHOWN)
				continue;
			write_look(rank, named, out);
			shown++;
		}
	}
	if (count > shown)
		fprintf(out, "  … %zu more (the JSON report has all)\n", count - shown);
}
