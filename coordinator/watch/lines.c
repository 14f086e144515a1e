/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/watch/lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "coordinator/report/line.h"

enum { WORDS_LENGTH = 512, TIME_LENGTH = 32 };

static const double slower_least = 1.005; /* what is not 1.00 with two decimals */

const char *watch_job_words(const struct watch_job *job, char *text, size_t capacity)
{
	struct line line;

	line_init(&line, text, capacity);
	if (*job->id)
		line_add(&line, "%s: ", job->id);
	line_add(&line, "%" PRIu32, job->rank_count);
	if (job->world_size > job->rank_count)
		line_add(&line, " of %" PRIu32, job->world_size);
	line_add(&line, " rank%s on %" PRIu32 " node%s, ", job->rank_count == 1 ? "" : "s",
		job->node_count, job->node_count == 1 ? "" : "s");
	if (!job->steps) {
		line_add(&line, "no step seen");
		return text;
	}
	line_add(&line, "step %" PRIu64 ", ", job->steps);
	line_add_ms(&line, job->step_ms);
	line_add(&line, " ms a step");
	if (job->slowdown >= slower_least) {
		line_add(&line, ", ");
		line_add_decimal(&line, job->slowdown, 2);
		line_add(&line, "x slower because of late ranks");
	}
	return text;
}

static const char *time_words(int64_t unix_ns, char text[TIME_LENGTH])
{
	time_t seconds = (time_t)(unix_ns / 1000000000);
	struct tm when;

	if (!unix_ns || !gmtime_r(&seconds, &when) ||
		!strftime(text, TIME_LENGTH, "%Y-%m-%dT%H:%M:%SZ", &when))
		return "-";
	return text;
}

/* What an incident is, without numbers that change with each step. */
static bool is_same(const struct watch_known *known, const struct watch_incident *now)
{
	return known->ended == (now->ended != 0) && known->unmeasured == (now->unmeasured != 0) &&
	       known->verdict_class == now->verdict_class && known->cause == now->cause &&
	       known->rank_count == now->rank_count &&
	       !memcmp(known->ranks, now->ranks, now->rank_count * sizeof(now->ranks[0]));
}

static void write_event(
	const struct watch_incident *incident, const char *event, const char *when, FILE *out)
{
	bool advice = !incident->ended && *incident->advice;

	fprintf(out, "%s incident %" PRIu32 " %s%s: %s%s%s\n", when, incident->id, event,
		incident->alerted ? "" : " (no alert)", incident->sentence,
		advice ? "; what to do: " : "", advice ? incident->advice : "");
}

static void take_incident(struct watch_lines *lines, const struct watch_incident *now,
	bool job_ended, const char *when, FILE *out)
{
	struct watch_known *known = &lines->known[now->id % WATCH_KNOWN_MAX];
	bool is_new = known->id < now->id;

	if (known->id > now->id) /* so many came since that its place is another's */
		return;
	if (is_new)
		write_event(now, "begins", when, out);
	if (now->ended && (is_new || !known->ended))
		write_event(now, "ended", when, out);
	else if (!is_new && !is_same(known, now))
		write_event(now, "changes", when, out);
	if (job_ended && !now->ended)
		write_event(now,
			now->unmeasured ? "was not measured any more as the job ends"
					: "goes on as the job ends",
			when, out);
	known->id = now->id;
	known->ended = now->ended != 0;
	known->unmeasured = now->unmeasured != 0;
	known->verdict_class = now->verdict_class;
	known->cause = now->cause;
	known->rank_count = now->rank_count;
	memcpy(known->ranks, now->ranks, now->rank_count * sizeof(now->ranks[0]));
}

static int by_id(const void *one, const void *other)
{
	const struct watch_incident *a = *(const struct watch_incident *const *)one,
				    *b = *(const struct watch_incident *const *)other;

	return (a->id > b->id) - (a->id < b->id);
}

static void write_job(const struct watch_view *view, bool ended, const char *when, FILE *out)
{
	char words[WORDS_LENGTH];
	size_t open = 0;

	for (size_t i = 0; i < view->incident_count; i++)
		open += !view->incidents[i].ended;
	fprintf(out, "%s %s; %zu open incident%s of %zu%s\n", when,
		watch_job_words(&view->job, words, sizeof(words)), open, open == 1 ? "" : "s",
		view->incident_total, ended ? "; ended" : "");
}

void watch_lines_write(
	struct watch_lines *lines, const struct watch_view *view, bool ended, FILE *out)
{
	const struct watch_incident *order[WATCH_INCIDENTS_MAX];
	char text[TIME_LENGTH];
	const char *when = time_words(view->job.newest_unix_ns, text);

	for (size_t i = 0; i < view->incident_count; i++)
		order[i] = &view->incidents[i];
	qsort(order, view->incident_count, sizeof(order[0]), by_id);
	for (size_t i = 0; i < view->incident_count; i++)
		take_incident(lines, order[i], ended, when, out);
	if (ended || view->job.newest_unix_ns - lines->told_unix_ns >= lines->every_ns) {
		write_job(view, ended, when, out);
		lines->told_unix_ns = view->job.newest_unix_ns;
	}
}
