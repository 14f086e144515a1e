/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes every model of models.c as text and as JSON and compares with the files beside it.
 * usage: golden_reports FOLDER            compares; says where the first difference is
 *        golden_reports --update FOLDER   writes the files anew: look at the diff before a commit
 */
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/report/json.h"
#include "coordinator/report/sheets.h"
#include "coordinator/report/text.h"
#include "tests/golden/models.h"

static char *render(const struct report_model *model, bool json, size_t *length)
{
	char *bytes = NULL;
	FILE *out = open_memstream(&bytes, length);
	int error;

	if (!out)
		abort();
	error = json ? report_json_write(model, out) : report_text_write(model, NULL, out);
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

int main(int argc, char **argv)
{
	bool updating = argc == 3 && strcmp(argv[1], "--update") == 0, good = true;
	static struct golden_model golden;
	char path[1024];

	if (argc != 2 + updating) {
		fprintf(stderr, "usage: %s [--update] FOLDER\n", argv[0]);
		return 2;
	}
	/* A user's locale and time zone must change nothing. */
	setlocale(LC_ALL, "");
	setenv("TZ", "Asia/Kolkata", 1);
	for (size_t i = 0; i < golden_case_count; i++) {
		for (int json = 0; json < 2; json++) {
			size_t length = 0;
			char *bytes;

			golden_cases[i].make(&golden);
			bytes = render(&golden.model, json, &length);
			report_sheets_destroy(golden.sheets);
			snprintf(path, sizeof(path), "%s/%s.%s", argv[argc - 1],
				golden_cases[i].name, json ? "json" : "txt");
			good &= updating ? update(path, bytes, length)
					 : compare(path, bytes, length);
			free(bytes);
		}
	}
	return good ? 0 : 1;
}
