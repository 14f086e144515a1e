/* SPDX-License-Identifier: Apache-2.0 */
/* Any command line of a launcher, with any environment, list of hosts and host file. */
#include "probe/attach/environment_text.h"
#include "probe/attach/host_list.h"
#include "probe/attach/launcher_command.h"
#include "probe/attach/launcher_environment.h"
#include "probe/attach/torchrun_command.h"
#include "tests/fuzz/foreign.h"
#include "tests/fuzz/fuzz.h"

enum { NAME_LENGTH = 16 };

static void list_hosts(const char *list)
{
	char name[NAME_LENGTH];

	host_list_first(list, name, sizeof(name));
	fuzz_require(memchr(name, 0, sizeof(name)));
	for (unsigned long i = 0; i < 3; i++) {
		host_list_open_mpi(list, i, name, sizeof(name));
		fuzz_require(memchr(name, 0, sizeof(name)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char *words[FOREIGN_WORDS_MAX + 1], *text, *environment = NULL;
	struct launcher_environment told;
	struct launcher_command command;
	struct torchrun_command torchrun;
	size_t environment_length = 0, count;

	foreign_begin(bytes, length);
	count = foreign_words("argv", words, &text);
	if (environment_text_read(FOREIGN_PID, &environment, &environment_length) < 0)
		environment = NULL;
	launcher_environment_parse(environment, environment_length, &told);
	if (count > 0) {
		launcher_command_parse(words, environment, environment_length, &command);
		fuzz_require(command.program < count);
		(void)torchrun_command_parse(words, environment, environment_length, &torchrun);
		list_hosts(words[count - 1]);
	}
	free(environment);
	free(text);
	foreign_end();
	return 0;
}
