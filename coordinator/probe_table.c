/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/probe_table.h"

#include <string.h>

#include "analysis/base/evidence_source.h"

void probe_table_init(struct probe_table *table)
{
	memset(table, 0, sizeof(*table));
	table->map.item_bytes = sizeof(struct probe_entry);
}

void probe_table_fini(struct probe_table *table)
{
	probe_map_fini(&table->map);
	memset(table, 0, sizeof(*table));
}

int probe_table_get(struct probe_table *table, uint64_t probe_id, struct probe_entry **probe)
{
	void *item;
	int error = probe_map_get(&table->map, probe_id, &item);

	if (error == 0)
		*probe = item;
	return error;
}

const struct probe_entry *probe_table_find(const struct probe_table *table, uint64_t probe_id)
{
	return probe_map_find(&table->map, probe_id);
}

void probe_table_hear(struct probe_table *table, uint64_t probe_id, struct job_ns received)
{
	struct probe_entry *probe = probe_map_find(&table->map, probe_id);

	if (probe)
		probe->last_received = received;
}

void probe_table_replace(struct probe_table *table, uint64_t probe_id)
{
	struct probe_entry *probe = probe_map_find(&table->map, probe_id);

	if (probe && !probe->final) {
		probe->final = true;
		table->final_count++;
	}
}

bool probe_entry_has(const struct probe_entry *probe, uint64_t number)
{
	uint64_t age = probe->next_number - 1 - number;

	return number < probe->next_number && (age >= PROBE_WINDOW || probe->window >> age & 1);
}

void probe_entry_take(struct probe_entry *probe, uint64_t number)
{
	if (number >= probe->next_number) {
		uint64_t moved = number - probe->next_number + 1;

		if (moved > 1)
			probe->gap_number = number;
		probe->window = moved >= PROBE_WINDOW ? 1 : probe->window << moved | 1;
		probe->next_number = number + 1;
		return;
	}
	probe->window |= UINT64_C(1) << (probe->next_number - 1 - number);
}

static size_t source_index(struct probe_table *table, const char *name)
{
	size_t i;

	for (i = 0; i < table->source_count; i++) {
		if (strcmp(table->sources[i].name, name) == 0)
			return i;
	}
	if (i < WIRE_SOURCES_MAX) {
		memcpy(table->sources[i].name, name, strlen(name) + 1);
		table->source_count++;
	}
	return i;
}

const char *const probe_table_evidence[EVIDENCE_SOURCE_NR] = {"bpf.sched", "bpf.throttle",
	"bpf.faults", "bpf.collector", "bpf.device_wait", "device.kernels", "steal", "cycles",
	"host.stacks"};

static uint32_t evidence_bit(const char *name)
{
	for (unsigned i = 0; i < EVIDENCE_SOURCE_NR; i++) {
		if (strcmp(probe_table_evidence[i], name) == 0)
			return 1u << i;
	}
	return 0;
}

static void update_source(
	struct probe_table *table, struct probe_entry *probe, const struct message_source *source)
{
	size_t index = source_index(table, source->name);
	uint8_t state = source->state <= SOURCE_MISSING ? source->state : SOURCE_MISSING;
	uint32_t bit = evidence_bit(source->name);
	struct known_source *known;

	if (index == WIRE_SOURCES_MAX)
		return; /* more names than a probe may have: none of ours */
	known = &table->sources[index];
	probe->states[index] = (uint8_t)(state + 1);
	if (state == SOURCE_ON || state == SOURCE_DEGRADED)
		probe->evidence_mask |= bit;
	else
		probe->evidence_mask &= ~bit;
	if (!known->why[state][0] || probe->key.probe_id <= known->why_probe[state]) {
		memcpy(known->why[state], source->why, sizeof(source->why));
		known->why_probe[state] = probe->key.probe_id;
	}
}

void probe_table_update(
	struct probe_table *table, struct probe_entry *probe, const struct message_batch *batch)
{
	bool is_latest = batch->number + 1 >= probe->next_number;

	for (size_t i = 0; i < batch->source_count && is_latest; i++)
		update_source(table, probe, &batch->sources[i]);
	if (batch->rank_count && !probe->announced) {
		probe->announced = true;
		table->announced_count++;
	}
	if (batch->final && !probe->final) {
		probe->final = true;
		table->final_count++;
	}
	if (!is_latest)
		return; /* its counters are older too */
	if (!probe->first_sent.value) {
		probe->first_sent = batch->sent;
		probe->first_cpu_ns = batch->counters.cpu_ns;
	}
	probe->last_sent = batch->sent;
	probe->counters = batch->counters;
}

static void add_counters(struct message_counters *sum, const struct message_counters *counters)
{
	sum->events += counters->events;
	sum->dropped += counters->dropped;
	sum->steps_incomplete += counters->steps_incomplete;
	sum->batches_spooled += counters->batches_spooled;
	sum->batches_lost += counters->batches_lost;
	sum->cpu_ns += counters->cpu_ns;
	if (counters->resident_bytes > sum->resident_bytes)
		sum->resident_bytes = counters->resident_bytes;
}

/* on, degraded, off, missing: from best to worst. */
static unsigned badness(uint8_t state)
{
	static const unsigned order[] = {
		[SOURCE_ON] = 0, [SOURCE_DEGRADED] = 1, [SOURCE_OFF] = 2, [SOURCE_MISSING] = 3};

	return order[state];
}

static void add_states(struct probe_table *table, const struct probe_entry *probe)
{
	for (size_t s = 0; s < table->source_count; s++) {
		struct report_source *report = &table->report[s];
		uint8_t state;

		if (!probe->states[s])
			continue;
		state = (uint8_t)(probe->states[s] - 1);
		if (report->probe_count++ == 0 || badness(state) > badness(report->source.state))
			report->source.state = state;
		report->on_count += state == SOURCE_ON || state == SOURCE_DEGRADED;
	}
}

void probe_table_report(struct probe_table *table, struct report_model *model)
{
	memset(&model->counters, 0, sizeof(model->counters));
	memset(table->report, 0, sizeof(table->report));
	model->probe_cpu_percent = 0;
	model->last_heard.value = 0;
	for (size_t i = 0; i < table->map.capacity; i++) {
		const struct probe_entry *probe = probe_map_at(&table->map, i);

		if (!probe || (table->announced_count && !probe->announced))
			continue;
		if (probe->last_taken.value > model->last_heard.value)
			model->last_heard = probe->last_taken;
		add_counters(&model->counters, &probe->counters);
		add_states(table, probe);
		int64_t elapsed_ns = probe->last_sent.value - probe->first_sent.value;
		if (elapsed_ns > 0 && probe->counters.cpu_ns > probe->first_cpu_ns) {
			double percent = 100.0 *
					 (double)(probe->counters.cpu_ns - probe->first_cpu_ns) /
					 (double)elapsed_ns;

			if (percent > model->probe_cpu_percent)
				model->probe_cpu_percent = percent;
		}
	}
	model->source_count = 0;
	for (size_t s = 0; s < table->source_count; s++) {
		struct message_source *source = &table->report[s].source;

		if (!table->report[s].probe_count)
			continue;
		memcpy(source->name, table->sources[s].name, sizeof(source->name));
		memcpy(source->why, table->sources[s].why[source->state], sizeof(source->why));
		table->report[model->source_count++] = table->report[s];
	}
	model->sources = table->report;
}

const char *probe_table_why(const struct probe_table *table, const char *source)
{
	for (size_t s = 0; s < table->source_count; s++) {
		if (strcmp(table->sources[s].name, source) == 0)
			return table->sources[s].why[SOURCE_MISSING][0]
				       ? table->sources[s].why[SOURCE_MISSING]
				       : table->sources[s].why[SOURCE_OFF];
	}
	return "";
}
