/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a command line: options, which take a value each or have it in the environment, switches, and what the command is
 * about. No state; any thread.
 */
#ifndef SLOWRANK_COORDINATOR_WORDS_H
#define SLOWRANK_COORDINATOR_WORDS_H

#include <stdbool.h>
#include <stddef.h>

enum { WORDS_BAD = 2 }; /* exit status: a word is wrong, and a line said so */

struct words_option {
	const char *flag;
	const char *variable; /* of the environment, for the value */
	const char **value;   /* kept as it is */
	bool *given;	      /* of a switch, which has nothing else */
};

#define WORDS_IN(list) (sizeof(list) / sizeof((list)[0]))

struct words {
	const char *command, *usage; /* command: as in "slowrank COMMAND" */
	const struct words_option *options;
	size_t option_count;
	char **others; /* found: words that are no options, gathered at the front of argv */
	size_t other_count;
};

/*
 * Takes options from the environment, and over these from the command line (FLAG VALUE or FLAG=VALUE; behind "--" there are
 * none). A value that nobody gave is NULL, a switch stays as it is. Returns -1 to go on, or the exit status: 0 after --help.
 */
int words_take(struct words *words, int argc, char **argv) __attribute__((warn_unused_result));

/* Prints what is wrong, about which word (or NULL), and where to read more. Returns WORDS_BAD. */
int words_complain(const char *command, const char *problem, const char *word);

/* The place of a word in a list; -1: it is not there. */
int words_find(const char *const *words, size_t count, const char *wanted);

/* Of the environment; NULL: not set, or empty. */
const char *words_variable(const char *name);

#endif
