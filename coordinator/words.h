/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a command line whose options take a value each, or have it in the environment. No state; any thread. */
#ifndef SLOWRANK_COORDINATOR_WORDS_H
#define SLOWRANK_COORDINATOR_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* An option that takes a value, which is kept as it is. */
struct words_option {
	const char *flag, *variable;
	const char **value;
};

#define WORDS_IN(list) (sizeof(list) / sizeof((list)[0]))

/* The place of a word in a list; -1: it is not there. */
int words_find(const char *const *words, size_t count, const char *wanted);

/* Of the environment; NULL: not set, or empty. */
const char *words_variable(const char *name);

/*
 * Takes the option at argv[*index], as FLAG VALUE or FLAG=VALUE. False: it is none of them, or *missing is the one whose
 * value is.
 */
bool words_take_value(const struct words_option *options, size_t count, int argc, char **argv,
	int *index, const char **missing);

#endif
