/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/sampler.h"

#include <stdarg.h>
#include <stdio.h>

/* Nothing counts so much between two looks, and sums of steps fit in 63 bits. */
#define GROWTH_MAX (INT64_MAX / 1024)

void sampler_init(struct sampler *sampler, const struct sampler_operations *operations,
	const char *name, pid_t pid, uint32_t rank)
{
	sampler->operations = operations;
	sampler->pid = pid;
	sampler->rank = rank;
	snprintf(sampler->state.name, sizeof(sampler->state.name), "%s", name);
	sampler_set_state(sampler, SOURCE_ON, "%s", "");
}

void sampler_set_state(struct sampler *sampler, enum source_state state, const char *why, ...)
{
	va_list arguments;

	sampler->state.state = (uint8_t)state;
	va_start(arguments, why);
	vsnprintf(sampler->state.why, sizeof(sampler->state.why), why, arguments);
	va_end(arguments);
}

void sample_list_add(struct sample_list *list, enum metric metric, int64_t value)
{
	if (list->count == list->capacity)
		return;
	list->out[list->count++] = (struct metric_sample){
		.rank = list->rank, .metric = (uint16_t)metric, .time = list->now, .value = value};
}

int64_t growing_counter_step(struct growing_counter *counter, int64_t value)
{
	bool grew = counter->has_last && value > counter->last && counter->last >= 0 &&
		    value - counter->last <= GROWTH_MAX;
	int64_t step = grew ? value - counter->last : 0;

	counter->last = value;
	counter->has_last = true;
	return step;
}
