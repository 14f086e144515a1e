/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/commands.h"
#include "probe/auth/derived_key.h"
#include "probe/auth/key_file.h"

enum { EXIT_BAD_USAGE = 2 };

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
	return EXIT_BAD_USAGE;
}

static bool is_flag(const char *word, const char *flag)
{
	return strncmp(word, flag, strlen(flag)) == 0 &&
	       (word[strlen(flag)] == '=' || !word[strlen(flag)]);
}

int cmd_key(int argc, char **argv)
{
	const char *use = NULL, *path = getenv("SLOWRANK_KEY_FILE");
	char text[DERIVED_KEY_LENGTH], why[KEY_FILE_WHY_LENGTH];
	struct key_file key;

	for (int i = 1; i < argc; i++) {
		const char *value = strchr(argv[i], '=');

		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			fputs(help, stdout);
			return 0;
		}
		if (is_flag(argv[i], "--key-file")) {
			path = value ? value + 1 : i + 1 < argc ? argv[++i] : "";
			if (!*path)
				return fail("a value is missing after --key-file");
		} else if (!use && (strcmp(argv[i], DERIVED_KEY_HTTP) == 0 ||
					   strcmp(argv[i], DERIVED_KEY_WEBHOOK) == 0)) {
			use = argv[i];
		} else {
			return fail("say which key: http or webhook; see 'slowrank key --help'");
		}
	}
	if (!use)
		return fail("say which key: http or webhook; see 'slowrank key --help'");
	if (key_file_load(path && *path ? path : NULL, &key, why))
		return fail(why);
	if (derived_key(key.key, use, text))
		return fail("no memory");
	puts(text);
	return fflush(stdout) ? fail("cannot write the key") : 0;
}
