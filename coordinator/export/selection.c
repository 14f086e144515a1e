/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/export/selection.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t second_ns = INT64_C(1000000000);

/* A number at *text, which goes on behind it. */
static bool take_number(const char **text, uint64_t most, uint64_t *number)
{
	char *end;
	unsigned long long value;

	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	value = strtoull(*text, &end, 10);
	if (errno || value > most)
		return false;
	*text = end;
	*number = value;
	return true;
}

/* What is behind the seconds: ".25", of which more than nine digits are left out. */
static int64_t take_fraction(const char **text)
{
	int64_t digit_ns = second_ns / 10, sum_ns = 0;

	if (**text != '.')
		return 0;
	while (isdigit((unsigned char)*++*text)) {
		sum_ns += (**text - '0') * digit_ns;
		digit_ns /= 10;
	}
	return sum_ns;
}

static bool parse_time(const char *text, int64_t *unix_ns)
{
	static const char *const formats[] = {
		"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"};
	const char *end = NULL;
	struct tm when;
	time_t seconds;

	for (size_t f = 0; f < sizeof(formats) / sizeof(formats[0]) && !end; f++) {
		memset(&when, 0, sizeof(when));
		end = strptime(text, formats[f], &when);
	}
	if (!end || when.tm_year > 300) /* what 64 bits of ns cannot hold */
		return false;
	int64_t fraction_ns = take_fraction(&end);

	if (*end && strcmp(end, "Z") != 0 && strcmp(end, " UTC") != 0)
		return false;
	seconds = timegm(&when);
	if (seconds < 0 || seconds > INT64_MAX / second_ns - 1)
		return false;
	*unix_ns = (int64_t)seconds * second_ns + fraction_ns;
	return true;
}

bool export_bound_parse(const char *text, struct export_bound *bound)
{
	struct export_bound parsed = {.set = true};
	const char *end = text;

	if (!take_number(&end, UINT64_MAX, &parsed.step) || *end) {
		parsed.is_time = true;
		if (!parse_time(text, &parsed.unix_ns))
			return false;
	}
	*bound = parsed;
	return true;
}

bool export_ranks_parse(const char *text, struct export_selection *selection)
{
	size_t count = 0;

	for (;; text++) {
		uint64_t first, last;

		if (count == EXPORT_RANGES_MAX ||
			!take_number(&text, STEP_RANK_COUNT_MAX - 1, &first))
			return false;
		last = first;
		if (*text == '-' && (text++, !take_number(&text, STEP_RANK_COUNT_MAX - 1, &last)))
			return false;
		if (last < first)
			return false;
		selection->ranges[count].first = (uint32_t)first;
		selection->ranges[count++].last = (uint32_t)last;
		if (*text != ',')
			break;
	}
	selection->range_count = count;
	return *text == '\0';
}

bool export_selects_rank(const struct export_selection *selection, uint32_t rank)
{
	bool found = selection->range_count == 0;

	for (size_t i = 0; i < selection->range_count && !found; i++)
		found = rank >= selection->ranges[i].first && rank <= selection->ranges[i].last;
	return found;
}

bool export_selects_span(const struct export_selection *selection, uint64_t first_step,
	uint64_t last_step, int64_t start_ns, int64_t end_ns)
{
	const struct export_bound *from = &selection->from, *until = &selection->until;

	if (from->set && (from->is_time ? end_ns < from->unix_ns : last_step < from->step))
		return false;
	return !until->set ||
	       (until->is_time ? start_ns <= until->unix_ns : first_step <= until->step);
}

bool export_selects_step(const struct export_selection *selection, const struct export_step *step)
{
	return export_selects_span(
		selection, step->number, step->number, step->start_ns, step->end_ns);
}

bool export_selects_all(const struct export_selection *selection)
{
	return !selection->from.set && !selection->until.set && selection->range_count == 0;
}
