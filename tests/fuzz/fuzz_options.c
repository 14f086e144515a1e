/* SPDX-License-Identifier: Apache-2.0 */
/* Any words as slowrank's own, with any variables and any file of settings. */
#include "coordinator/coordinator_options.h"
#include "probe/options.h"
#include "tests/fuzz/foreign.h"
#include "tests/fuzz/fuzz.h"

extern char **environ;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static struct probe_options options;
	static struct coordinator_options coordinator;
	char *words[FOREIGN_WORDS_MAX + 1], *variables[FOREIGN_WORDS_MAX + 1], *text, *more;
	char **own = environ, problem[256] = "";
	struct alert_limits limits = {0};
	int count;

	foreign_begin(bytes, length);
	count = (int)foreign_words("argv", words, &text);
	(void)foreign_words("environ", variables, &more);
	environ = variables;
	if (count > 0) {
		enum options_result result = probe_options_parse_run(&options, count, words);

		fuzz_require(result != OPTIONS_OK || options.command);
		if (result == OPTIONS_OK)
			(void)!alert_limits_load(&options.alert_settings, &limits, stderr, problem);
		result = probe_options_parse_attach(&options, count, words);
		fuzz_require(result != OPTIONS_OK || options.pid_count > 0);
		for (int i = probe_options_begin_ask(&options) ? 1 : count; i < count; i++)
			(void)probe_options_take_ask(&options, "stacks", count, words, &i);
		if (coordinator_options_parse(&coordinator, count, words, stdout, problem) < 0)
			fuzz_require(problem[0] != '\0');
	}
	environ = own;
	free(text);
	free(more);
	foreign_end();
	return 0;
}
