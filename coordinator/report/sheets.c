/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/sheets.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/report/sheets_internal.h"

/* A number that ends at end, or at the text's end. */
static bool parse_number(
	const char *text, char end, uint64_t most, uint64_t *number, const char **rest)
{
	uint64_t value = 0;

	*rest = text;
	for (; **rest >= '0' && **rest <= '9'; ++*rest) {
		value = value * 10 + (uint64_t)(**rest - '0');
		if (value > most)
			return false;
	}
	*number = value;
	return *rest != text && (**rest == end || **rest == '\0');
}

bool report_sheets_parse(const char *text, struct sheets_wish *wish)
{
	static const char transfers[] = "transfers";
	struct sheets_wish found = {.rank = GATE_OF_TRANSFERS};
	uint64_t rank;

	if (strcmp(text, "all") == 0) {
		found.all = true;
		*wish = found;
		return true;
	}
	if (strncmp(text, transfers, strlen(transfers)) == 0) {
		text += strlen(transfers);
	} else {
		if (!parse_number(text, ':', STEP_RANK_COUNT_MAX - 1, &rank, &text))
			return false;
		found.rank = (uint32_t)rank;
	}
	found.at_step = *text == ':';
	if (found.at_step && !parse_number(text + 1, '\0', INT64_MAX / 16, &found.step, &text))
		return false;
	if (*text)
		return false;
	*wish = found;
	return true;
}

struct report_sheets *report_sheets_create(const struct sheets_wish *wish)
{
	struct report_sheets *sheets = calloc(1, sizeof(*sheets));

	if (!sheets)
		return NULL;
	sheets->wish = *wish;
	sheets->kept = calloc(wish->all ? SHEETS_MAX : 1, sizeof(struct kept_sheet *));
	if (sheets->kept)
		return sheets;
	free(sheets);
	return NULL;
}

void report_sheets_destroy(struct report_sheets *sheets)
{
	if (!sheets)
		return;
	for (size_t i = 0; i < sheets->kept_count; i++)
		free(sheets->kept[i]);
	free(sheets->kept);
	free(sheets->subjects);
	free(sheets);
}

/* Where a rank's subject is; transfers come first. */
static size_t place_of(const struct report_sheets *sheets, uint32_t rank)
{
	if (!sheets->wish.all)
		return 0;
	return rank == GATE_OF_TRANSFERS ? 0 : (size_t)rank + 1;
}

static struct sheet_subject *get_subject(struct report_sheets *sheets, size_t place)
{
	if (place >= sheets->subject_capacity) {
		size_t capacity = sheets->subject_capacity ? sheets->subject_capacity : 16;

		while (capacity <= place)
			capacity *= 2;
		struct sheet_subject *grown = realloc(sheets->subjects, capacity * sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + sheets->subject_capacity, 0,
			(capacity - sheets->subject_capacity) * sizeof(*grown));
		sheets->subjects = grown;
		sheets->subject_capacity = capacity;
	}
	if (place >= sheets->subject_end)
		sheets->subject_end = place + 1;
	return &sheets->subjects[place];
}

/* How far it came: gates, and how near it came to the next; then those that a verdict names. */
static double progress_of(const struct gate_sheet *sheet)
{
	enum gate reach = gate_sheet_reach(sheet);

	if (reach == GATE_NR)
		return GATE_NR + 1;
	return sheet->verdict ? GATE_NR : (double)reach + gate_sheet_nearness(sheet);
}

/* Of equals the latest, for it has seen the most; of alerts the first. */
static bool is_wanted(const struct report_sheets *sheets, const struct gate_sheet *sheet,
	const struct kept_sheet *kept, double progress)
{
	if (sheets->wish.at_step && !kept)
		return sheet->last_step >= sheets->wish.step;
	if (sheets->wish.at_step)
		return sheet->last_step == kept->sheet.last_step && progress > kept->progress;
	return !kept || progress > kept->progress ||
	       (progress >= kept->progress && progress < GATE_NR);
}

static void find_least(struct report_sheets *sheets)
{
	sheets->least = 0;
	for (size_t i = 1; i < sheets->kept_count; i++) {
		if (sheets->kept[i]->progress < sheets->kept[sheets->least]->progress)
			sheets->least = i;
	}
}

/* A place for a subject that has none: a new one, or that of who came less far. NULL: none. */
static struct kept_sheet *find_place(
	struct report_sheets *sheets, struct sheet_subject *subject, double progress)
{
	size_t most = sheets->wish.all ? SHEETS_MAX : 1;
	struct kept_sheet *kept;

	if (sheets->kept_count < most) {
		kept = malloc(sizeof(*kept));
		sheets->no_memory |= !kept;
		if (!kept)
			return NULL;
		sheets->kept[sheets->kept_count++] = kept;
		subject->kept = (uint32_t)sheets->kept_count;
		return kept;
	}
	kept = sheets->kept[sheets->least];
	if (progress <= kept->progress)
		return NULL;
	sheets->subjects[place_of(sheets, kept->sheet.rank)].kept = 0;
	subject->kept = (uint32_t)sheets->least + 1;
	return kept;
}

static void push_signal(struct sheet_subject *subject, float level)
{
	if (subject->recent_count == SHEET_BEFORE)
		memmove(subject->recent, subject->recent + 1,
			--subject->recent_count * sizeof(subject->recent[0]));
	subject->recent[subject->recent_count++] = level;
}

static void keep(struct kept_sheet *kept, const struct sheet_subject *subject,
	const struct gate_sheet *sheet, double progress)
{
	kept->sheet = *sheet;
	kept->progress = progress;
	kept->signal_count = subject->recent_count;
	kept->at = subject->recent_count - 1;
	memcpy(kept->signal, subject->recent, subject->recent_count * sizeof(kept->signal[0]));
}

void report_sheets_take(
	void *context, const struct gate_sheet *sheet, const struct explanation *why)
{
	struct report_sheets *sheets = context;
	struct sheet_subject *subject;
	struct kept_sheet *kept;
	double progress = progress_of(sheet);
	bool fresh;

	if (!sheets->wish.all && sheet->rank != sheets->wish.rank)
		return;
	subject = get_subject(sheets, place_of(sheets, sheet->rank));
	sheets->no_memory |= !subject;
	if (!subject)
		return;
	sheets->seen += subject->recent_count == 0;
	/* Of one block there may be two sheets. */
	fresh = subject->recent_count == 0 || sheet->last_step != subject->last_step;
	subject->last_step = sheet->last_step;
	if (fresh)
		push_signal(subject, (float)sheet->level);
	kept = subject->kept ? sheets->kept[subject->kept - 1] : NULL;
	if (!is_wanted(sheets, sheet, kept, progress)) {
		if (kept && fresh && kept->signal_count < SHEET_SIGNAL)
			kept->signal[kept->signal_count++] = (float)sheet->level;
		return;
	}
	if (!kept)
		kept = find_place(sheets, subject, progress);
	if (!kept)
		return;
	keep(kept, subject, sheet, progress);
	kept->explained = why != NULL;
	if (why)
		kept->why = *why;
	if (sheets->kept_count == SHEETS_MAX)
		find_least(sheets);
}

const struct kept_sheet *report_sheets_next(const struct report_sheets *sheets, size_t *next)
{
	while (*next < sheets->subject_end) {
		size_t place = ++*next % sheets->subject_end; /* transfers last */
		uint32_t kept = sheets->subjects[place].kept;

		if (kept)
			return sheets->kept[kept - 1];
	}
	return NULL;
}

static const struct kept_sheet *find(const struct report_sheets *sheets, uint32_t rank)
{
	const struct kept_sheet *kept;

	for (size_t next = 0; (kept = report_sheets_next(sheets, &next));) {
		if (kept->sheet.rank == rank)
			return kept;
	}
	return NULL;
}

const struct gate_sheet *report_sheets_of(const struct report_sheets *sheets, uint32_t rank)
{
	const struct kept_sheet *kept = find(sheets, rank);

	return kept ? &kept->sheet : NULL;
}

const struct explanation *report_sheets_why(const struct report_sheets *sheets, uint32_t rank)
{
	const struct kept_sheet *kept = find(sheets, rank);

	return kept && kept->explained ? &kept->why : NULL;
}
