/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes every model of models.c as text and as JSON, and those with stacks as folded ones, and compares with the files
 * beside it.
 * usage: golden_reports FOLDER            compares; says where the first difference is
 *        golden_reports --update FOLDER   writes the files anew: look at the diff before a commit
 *        golden_reports --pages FOLDER    writes pages for a browser, for test_flame.py and tests/page
 */
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/page/page.h"
#include "coordinator/report/file.h"
#include "tests/golden/models.h"

struct form {
	const char *suffix;
	struct report_choice choice;
};

static const struct form forms[] = {
	{"txt", {.format = REPORT_TEXT}},
	{"json", {.format = REPORT_JSON}},
	{"suspect.folded", {.format = REPORT_FOLDED, .of = FOLDED_SUSPECT}},
	{"control.folded", {.format = REPORT_FOLDED, .of = FOLDED_CONTROL}},
	{"difference.folded", {.format = REPORT_FOLDED, .of = FOLDED_DIFFERENCE}},
};
static const struct form pages[] = {
	{"html", {.format = REPORT_FLAME}},
	{"page.html", {.format = REPORT_PAGE, .write_page = page_write}},
};

static char *render(
	const struct report_model *model, const struct report_choice *choice, size_t *length)
{
	char *bytes = NULL;
	FILE *out = open_memstream(&bytes, length);
	int error;

	if (!out)
		abort();
	error = report_write(model, choice, out);
	if (fclose(out) != 0 || error != 0)
		abort();
	return bytes;
}

static char *read_file(const char *path, size_t *length)
{
	FILE *file = fopen(path, "re");
	char *bytes;

	if (!file)
		return NULL;
	bytes = malloc(1 << 20);
	*length = bytes ? fread(bytes, 1, 1 << 20, file) : 0;
	fclose(file);
	return bytes;
}

static bool compare(const char *path, const char *bytes, size_t length)
{
	size_t expected_length = 0, same = 0, line = 1;
	char *expected = read_file(path, &expected_length);

	if (!expected) {
		fprintf(stderr, "%s: missing; run with --update\n", path);
		return false;
	}
	while (same < length && same < expected_length && bytes[same] == expected[same])
		line += bytes[same++] == '\n';
	if (same == length && same == expected_length) {
		free(expected);
		return true;
	}
	while (same > 0 && bytes[same - 1] != '\n')
		same--;
	fprintf(stderr, "%s:%zu differs\n  expected: %.*s\n  written:  %.*s\n", path, line,
		(int)strcspn(expected + same, "\n"), expected + same,
		(int)strcspn(bytes + same, "\n"), bytes + same);
	free(expected);
	return false;
}

static bool update(const char *path, const char *bytes, size_t length)
{
	FILE *file = fopen(path, "we");
	bool good = file && fwrite(bytes, 1, length, file) == length;

	return file && fclose(file) == 0 && good;
}

enum task { TASK_COMPARE, TASK_UPDATE };

/* One form of one model. */
static bool try_form(
	const struct golden_case *one, const struct form *form, enum task task, const char *folder)
{
	static struct golden_model golden;
	struct report_choice choice = form->choice;
	char why[STACKS_WHY_LENGTH], path[1024], *bytes;
	size_t length = 0;
	bool good = true;

	one->make(&golden);
	if ((choice.format != REPORT_FOLDED && choice.format != REPORT_FLAME) ||
		stacks_find(&golden.model, &(struct stacks_wish){0}, &choice.stacks, why)) {
		bytes = render(&golden.model, &choice, &length);
		snprintf(path, sizeof(path), "%s/%s.%s", folder, one->name, form->suffix);
		good = task == TASK_UPDATE ? update(path, bytes, length)
					   : compare(path, bytes, length);
		free(bytes);
	}
	golden_model_fini(&golden);
	return good;
}

int main(int argc, char **argv)
{
	bool updating = argc == 3 && strcmp(argv[1], "--update") == 0, good = true;
	bool browser = argc == 3 && strcmp(argv[1], "--pages") == 0;

	if (argc != 2 + (updating || browser)) {
		fprintf(stderr, "usage: %s [--update | --pages] FOLDER\n", argv[0]);
		return 2;
	}
	/* A user's locale and time zone must change nothing. */
	setlocale(LC_ALL, "");
	setenv("TZ", "Asia/Kolkata", 1);
	for (size_t i = 0; i < golden_case_count; i++) {
		for (size_t k = 0; browser && k < sizeof(pages) / sizeof(pages[0]); k++)
			good &= try_form(&golden_cases[i], &pages[k], TASK_UPDATE, argv[argc - 1]);
		for (size_t k = 0; !browser && k < sizeof(forms) / sizeof(forms[0]); k++)
			good &= try_form(&golden_cases[i], &forms[k],
				updating ? TASK_UPDATE : TASK_COMPARE, argv[argc - 1]);
	}
	return good ? 0 : 1;
}
