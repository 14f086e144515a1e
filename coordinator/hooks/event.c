/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/hooks/event.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/report/decimal.h"
#include "coordinator/report/json.h"
#include "coordinator/report/line.h"
#include "coordinator/report/look.h"
#include "coordinator/report/text.h"

enum { VALUE_LENGTH = 1024, HOSTS_MAX = 16 };

struct held_event {
	struct hook_event event;
	atomic_uint holders;
};

struct hook_event *hook_event_hold(struct hook_event *event)
{
	atomic_fetch_add(&((struct held_event *)(void *)event)->holders, 1);
	return event;
}

void hook_event_release(struct hook_event *event)
{
	struct held_event *held = (struct held_event *)(void *)event;

	if (!held || atomic_fetch_sub(&held->holders, 1) != 1)
		return;
	for (size_t i = 0; i < HOOK_VARIABLES; i++)
		free(event->variables[i]);
	free(event->json);
	free(held);
}

static void add_ranks(struct line *line, const struct verdict *verdict)
{
	for (uint32_t i = 0; i < verdict->rank_count && i < VERDICT_RANKS_MAX; i++)
		line_add(line, "%s%" PRIu32, i ? " " : "", verdict->ranks[i]);
}

/* A name as programs take it: what else it holds is somebody's who means no good. */
static void add_host(struct line *line, const char *host)
{
	for (size_t i = 0; host[i]; i++) {
		unsigned char byte = (unsigned char)host[i];
		bool plain = byte < 0x80 &&
			     (isalnum(byte) || byte == '_' || (i && (byte == '-' || byte == '.')));

		line_add(line, "%c", plain ? byte : '_');
	}
}

static void add_hosts(
	struct line *line, const struct report_model *model, const struct verdict *verdict)
{
	const char *told[HOSTS_MAX];
	size_t count = 0;

	for (uint32_t i = 0; i < verdict->rank_count && i < VERDICT_RANKS_MAX && count < HOSTS_MAX;
		i++) {
		const char *host = look_host(model, verdict->ranks[i]);
		size_t same = 0;

		while (same < count && strcmp(told[same], host) != 0)
			same++;
		if (same < count || !*host)
			continue;
		line_add(line, "%s", count ? " " : "");
		add_host(line, host);
		told[count++] = host;
	}
}

static int set_variable(struct hook_event *event, size_t index, const char *name, const char *value)
{
	return asprintf(&event->variables[index], "INCIDENT_%s=%s", name, value) < 0 ? -ENOMEM : 0;
}

static int set_variables(
	struct hook_event *event, const struct verdict *verdict, const struct report_model *model)
{
	char ranks[VALUE_LENGTH], hosts[VALUE_LENGTH], sentence[REPORT_SENTENCE_LENGTH], id[12],
		slowdown[DECIMAL_LENGTH] = "", job[VALUE_LENGTH];
	struct line line;
	int error = 0;

	line_init(&line, ranks, sizeof(ranks));
	add_ranks(&line, verdict);
	line_init(&line, hosts, sizeof(hosts));
	add_hosts(&line, model, verdict);
	line_init(&line, job, sizeof(job));
	line_add_outside(&line, model->job_id);
	report_alert_line(model, event->event, verdict, sentence);
	snprintf(id, sizeof(id), "%" PRIu32, verdict->id);
	if (verdict->verdict_class != VERDICT_HANG)
		decimal_format(verdict->slowdown, 2, slowdown);

	const char *const values[HOOK_VARIABLES][2] = {
		{"EVENT", verdict_event_name(event->event)},
		{"ID", id},
		{"JOB", job},
		{"CLASS", verdict_class_name(verdict->verdict_class)},
		{"CAUSE",
			look_cause_known(verdict->cause) ? cause_name(verdict->cause) : "unknown"},
		{"RANKS", ranks},
		{"HOSTS", hosts},
		{"SLOWDOWN", slowdown},
		{"TEXT", sentence},
	};
	for (size_t i = 0; i < HOOK_VARIABLES && !error; i++)
		error = set_variable(event, i, values[i][0], values[i][1]);
	return error;
}

static int set_json(
	struct hook_event *event, const struct verdict *verdict, const struct report_model *model)
{
	FILE *memory = open_memstream(&event->json, &event->json_length);
	bool good;

	if (!memory)
		return -ENOMEM;
	report_json_alert(event->event, verdict, model, memory);
	good = !ferror(memory);
	return fclose(memory) == 0 && good ? 0 : -ENOMEM;
}

int hook_event_create(enum verdict_event event, const struct verdict *verdict,
	const struct report_model *model, struct hook_event **result)
{
	struct held_event *held = calloc(1, sizeof(*held));
	int error;

	if (!held)
		return -ENOMEM;
	held->holders = 1;
	held->event.event = event;
	held->event.incident = verdict->id;
	error = set_variables(&held->event, verdict, model);
	if (!error)
		error = set_json(&held->event, verdict, model);
	if (error)
		hook_event_release(&held->event);
	else
		*result = &held->event;
	return error;
}
