/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/torchrun_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/attach/environment_text.h"

enum option {
	OPTION_NNODES,
	OPTION_BACKEND,
	OPTION_ENDPOINT,
	OPTION_ID,
	OPTION_ADDRESS,
	OPTION_PORT,
	OPTION_NR
};

/* Defaults as of torch.distributed.run; c10d's port is that of its rendezvous backend. */
static const struct {
	const char *name, *variable, *otherwise;
} options[OPTION_NR] = {
	[OPTION_NNODES] = {"nnodes", "PET_NNODES", "1:1"},
	[OPTION_BACKEND] = {"rdzv-backend", "PET_RDZV_BACKEND", "static"},
	[OPTION_ENDPOINT] = {"rdzv-endpoint", "PET_RDZV_ENDPOINT", ""},
	[OPTION_ID] = {"rdzv-id", "PET_RDZV_ID", "none"},
	[OPTION_ADDRESS] = {"master-addr", "PET_MASTER_ADDR", "127.0.0.1"},
	[OPTION_PORT] = {"master-port", "PET_MASTER_PORT", "29500"},
};
static const char c10d_port[] = "29400";

/* Options that take no value, after the dashes. */
static const char *const switches[] = {"standalone", "no-python", "run-path", "m", "module"};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The words behind torchrun; NULL when that is not what is called. */
static char *const *find_torchrun(char *const argv[])
{
	for (; argv[0]; argv++) {
		const char *name = base_name(argv[0]);

		if (strcmp(name, "torchrun") == 0)
			return argv + 1;
		if (strncmp(name, "python", 6) == 0 && argv[1] && strcmp(argv[1], "-m") == 0 &&
			argv[2] &&
			(strcmp(argv[2], "torch.distributed.run") == 0 ||
				strcmp(argv[2], "torch.distributed.launch") == 0))
			return argv + 3;
	}
	return NULL;
}

/* "rdzv_id" is "rdzv-id". */
static bool is_option(const char *word, size_t length, const char *name)
{
	if (strlen(name) != length)
		return false;
	for (size_t i = 0; i < length; i++) {
		if ((word[i] == '_' ? '-' : word[i]) != name[i])
			return false;
	}
	return true;
}

/* Takes torchrun's own options; those behind the program's name are the program's. */
static bool take_words(char *const *words, const char *values[OPTION_NR])
{
	bool standalone = false;

	for (; *words && **words == '-'; words++) {
		const char *name = *words + strspn(*words, "-");
		size_t length = strcspn(name, "=");
		const char *value = name[length] ? name + length + 1 : NULL;
		bool is_switch = false;

		for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
			is_switch |= is_option(name, length, switches[i]);
		if (is_switch) {
			standalone |= is_option(name, length, "standalone");
			continue;
		}
		if (!value && !(value = *++words))
			break;
		for (size_t i = 0; i < OPTION_NR; i++) {
			if (is_option(name, length, options[i].name))
				values[i] = value;
		}
	}
	return standalone;
}

/* "4" or "2:4": the most nodes there may be. */
static long most_nodes(const char *text)
{
	const char *colon = strchr(text, ':');

	return strtol(colon ? colon + 1 : text, NULL, 10);
}

/* Splits HOST[:PORT], [IPV6][:PORT]. Returns where the port stands, or NULL. */
static const char *split_endpoint(const char *endpoint, char *address, size_t capacity)
{
	bool bracketed = endpoint[0] == '[';
	const char *from = endpoint + bracketed;
	size_t length = strcspn(from, bracketed ? "]" : ":");
	const char *colon = strchr(from + length, ':');

	snprintf(address, capacity, "%.*s", (int)length, from);
	return colon ? colon + 1 : NULL;
}

bool torchrun_command_parse(char *const argv[], const char *environment, size_t length,
	struct torchrun_command *command)
{
	const char *values[OPTION_NR], *port;
	char *const *words = find_torchrun(argv);

	*command = (struct torchrun_command){0};
	if (!words)
		return false;
	for (size_t i = 0; i < OPTION_NR; i++) {
		values[i] = environment_text_find(environment, length, options[i].variable);
		if (!values[i])
			values[i] = options[i].otherwise;
	}
	if (take_words(words, values))
		return true;
	command->several_hosts = most_nodes(values[OPTION_NNODES]) > 1;
	if (values[OPTION_ENDPOINT][0]) {
		bool is_c10d = strcmp(values[OPTION_BACKEND], "c10d") == 0;

		port = split_endpoint(
			values[OPTION_ENDPOINT], command->address, sizeof(command->address));
		if (!port)
			port = is_c10d ? c10d_port : values[OPTION_PORT];
		if (!is_c10d && strcmp(values[OPTION_BACKEND], "static") != 0)
			command->address[0] = '\0'; /* etcd runs anywhere */
	} else {
		port = values[OPTION_PORT];
		snprintf(command->address, sizeof(command->address), "%s", values[OPTION_ADDRESS]);
	}
	snprintf(command->job_id, sizeof(command->job_id), "torchrun.%.40s.%.10s",
		values[OPTION_ID], port);
	return true;
}
