/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int words_find(const char *const *words, size_t count, const char *wanted)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(words[i], wanted) == 0)
			return (int)i;
	}
	return -1;
}

const char *words_variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

int words_complain(const char *command, const char *problem, const char *word)
{
	fprintf(stderr, "slowrank %s: %s%s%s; see 'slowrank %s --help'\n", command, problem,
		word ? " " : "", word ? word : "", command);
	return WORDS_BAD;
}

/* The value of the option at argv[*index] when it is flag or flag=VALUE; NULL otherwise, or
 * when the value is missing (*missing). */
static const char *option_value(
	const char *flag, int argc, char **argv, int *index, const char **missing)
{
	size_t length = strlen(flag);

	if (strncmp(argv[*index], flag, length) != 0)
		return NULL;
	if (argv[*index][length] == '=' && argv[*index][length + 1])
		return argv[*index] + length + 1;
	if (argv[*index][length] == '\0' && *index + 1 < argc && *argv[*index + 1])
		return argv[++*index];
	if (argv[*index][length] == '\0' || argv[*index][length] == '=')
		*missing = flag;
	return NULL;
}

/* Takes the option at argv[*index]. False: it is none of them, or *missing is the one whose value is. */
static bool take_option(
	const struct words *words, int argc, char **argv, int *index, const char **missing)
{
	for (size_t k = 0; k < words->option_count && !*missing; k++) {
		const struct words_option *option = &words->options[k];
		const char *value = NULL;

		if (!option->given)
			value = option_value(option->flag, argc, argv, index, missing);
		else if (strcmp(argv[*index], option->flag) == 0)
			return *option->given = true;
		if (value) {
			*option->value = value;
			return true;
		}
	}
	return false;
}

int words_take(struct words *words, int argc, char **argv)
{
	bool only_others = false;

	for (size_t k = 0; k < words->option_count; k++) {
		if (words->options[k].value)
			*words->options[k].value = words_variable(words->options[k].variable);
	}
	words->others = argv;
	words->other_count = 0;
	for (int i = 1; i < argc; i++) {
		const char *missing = NULL;

		if (only_others || argv[i][0] != '-' || !argv[i][1]) {
			words->others[words->other_count++] = argv[i];
		} else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			fputs(words->usage, stdout);
			return 0;
		} else if (strcmp(argv[i], "--") == 0) {
			only_others = true;
		} else if (!take_option(words, argc, argv, &i, &missing)) {
			return words_complain(words->command,
				missing ? "a value is missing after" : "no option",
				missing ? missing : argv[i]);
		}
	}
	return -1;
}
