/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/commands.h"
#include "coordinator/words.h"
#include "probe/auth/derived_key.h"
#include "probe/auth/key_file.h"

static const char help[] =
	"usage: slowrank key http|webhook [--key-file FILE]\n\n"
	"Prints what others need of the job's key, from which the key itself cannot be found:\n\n"
	"  http       what readers beyond the coordinator's host show (--http): Authorization:\n"
	"             Bearer KEY\n"
	"  webhook    what webhooks are signed with (--webhook)\n\n"
	"  --key-file FILE    the key (SLOWRANK_KEY_FILE; default: ~/.config/slowrank/key, made "
	"when it\n"
	"                     is missing)\n"
	"  --help             this text\n\n"
	"Exit status: 0; 2 for bad usage and a key that cannot be read.\n";

static int fail(const char *why)
{
	fprintf(stderr, "slowrank key: %s\n", why);
	return WORDS_BAD;
}

int cmd_key(int argc, char **argv)
{
	static const char *const uses[] = {DERIVED_KEY_HTTP, DERIVED_KEY_WEBHOOK};
	const char *path;
	const struct words_option list[] = {{"--key-file", "SLOWRANK_KEY_FILE", &path, NULL}};
	struct words words = {
		.command = "key", .usage = help, .options = list, .option_count = WORDS_IN(list)};
	int status = words_take(&words, argc, argv);
	char text[DERIVED_KEY_LENGTH], why[KEY_FILE_WHY_LENGTH];
	struct key_file key;

	if (status >= 0)
		return status;
	if (words.other_count != 1 || words_find(uses, WORDS_IN(uses), words.others[0]) < 0)
		return words_complain("key", "say which key: http or webhook", NULL);
	if (key_file_load(path, &key, why))
		return fail(why);
	if (derived_key(key.key, words.others[0], text))
		return fail("no memory");
	puts(text);
	return fflush(stdout) ? fail("cannot write the key") : 0;
}
