/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/words.h"

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

bool words_take_value(const struct words_option *options, size_t count, int argc, char **argv,
	int *index, const char **missing)
{
	for (size_t k = 0; k < count && !*missing; k++) {
		const char *value = option_value(options[k].flag, argc, argv, index, missing);

		if (value) {
			*options[k].value = value;
			return true;
		}
	}
	return false;
}
