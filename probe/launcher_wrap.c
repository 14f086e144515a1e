/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/launcher_wrap.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/attach/environment_text.h"
#include "probe/attach/launcher_command.h"

extern char **environ;

static const char leader_variable[] = "SLOWRANK_LEADER";

/*
 * Open MPI's daemons start each rank through these words. They are handed on between quotation marks on
 * the command line of a remote shell, which must find nothing in them to expand; and blanks divide them,
 * so that tabs stand in the script. The script behind the variable is not looked at on its way: what
 * begins with OMPI_ reaches the ranks as it is. An empty IFS (without the sign "=", which Open MPI 5 would
 * cut it at) and -f keep it whole.
 */
static const char *const agent_variables[] = {
	"OMPI_MCA_orte_fork_agent",	 /* Open MPI 4 */
	"PRTE_MCA_odls_base_exec_agent", /* Open MPI 5: PRRTE */
};
static const char agent[] =
	"/bin/sh -c set\t-f;read\tIFS</dev/null;eval\teval\t'$'OMPI_SLOWRANK_SCRIPT";
static const char script_variable[] = "OMPI_SLOWRANK_SCRIPT";

/* As a word of sh. */
static void put_quoted(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else
			fputc(*text, out);
	}
	fputc('\'', out);
}

/* Launchers do not hand on all of the environment. */
static void put_variables(FILE *out, const struct probe_options *options, const char *leader)
{
	for (char **entry = environ; *entry; entry++) {
		size_t length = strcspn(*entry, "=");

		if (strncmp(*entry, "SLOWRANK_", 9) != 0 || !(*entry)[length])
			continue;
		fprintf(out, "export %.*s=", (int)length, *entry);
		put_quoted(out, *entry + length + 1);
		fputs("; ", out);
	}
	if (leader[0] && !options->leader) {
		fprintf(out, "export %s=", leader_variable);
		put_quoted(out, leader);
		fputs("; ", out);
	}
}

/*
 * For sh, with the program as $0 and its arguments behind: slowrank, where it runs, else the program
 * alone, which the first rank of the host tells. The caller frees it; NULL: no memory, or no program.
 */
static char *make_script(const struct probe_options *options, const char *leader)
{
	char program[PATH_MAX], *script = NULL;
	size_t size;
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	FILE *out = length > 0 ? open_memstream(&script, &size) : NULL;

	if (!out)
		return NULL;
	program[length] = '\0';
	fputs("if ", out);
	put_quoted(out, program);
	fputs(" --version >/dev/null 2>&1; then ", out);
	put_variables(out, options, leader);
	fputs("exec ", out);
	put_quoted(out, program);
	fputs(" run", out);
	for (size_t i = 0; i < options->word_count; i++) {
		fputc(' ', out);
		put_quoted(out, options->words[i]);
	}
	fputs(" -- \"$0\" \"$@\"; fi; test \"${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-"
	      "${SLURM_LOCALID:-0}}}\" != 0 || echo \"slowrank: $(hostname): ",
		out);
	for (const char *c = program; *c; c++) {
		if (strchr("\"$`\\", *c))
			fputc('\\', out);
		fputc(*c, out);
	}
	fputs(" is not there or does not run; the ranks of this host are not watched\" >&2; "
	      "exec \"$0\" \"$@\"",
		out);
	if (fclose(out) != 0) {
		free(script);
		return NULL;
	}
	return script;
}

/* srun takes a program from the current folder, too; sh does not. NULL: no memory. */
static char *find_program(const char *name)
{
	struct stat status;
	char *path = NULL;
	char folder[PATH_MAX];

	if (strchr(name, '/') || stat(name, &status) < 0 || !S_ISREG(status.st_mode) ||
		access(name, X_OK) < 0)
		return strdup(name);
	if (!getcwd(folder, sizeof(folder)) || asprintf(&path, "%s/%s", folder, name) < 0)
		return NULL;
	return path;
}

/* The launcher's words, then sh with the script, then the program's. Lives as long as the process. */
static bool insert(struct probe_options *options, size_t program, char *script, bool srun)
{
	size_t count = 0, length = 0;
	char **words;

	while (options->command[count])
		count++;
	words = calloc(count + 4, sizeof(*words));
	if (!words)
		return false;
	while (length < program) {
		words[length] = options->command[length];
		length++;
	}
	words[length++] = "/bin/sh";
	words[length++] = "-c";
	words[length++] = script;
	words[length++] =
		srun ? find_program(options->command[program]) : options->command[program];
	for (size_t i = program + 1; i < count; i++)
		words[length++] = options->command[i];
	if (!words[program + 3]) {
		free(words);
		return false;
	}
	options->command = words;
	return true;
}

/* Those in which the agent's words are safe between quotation marks. */
static bool shell_is_known(void)
{
	static const char *const known[] = {
		"sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh", "busybox"};
	const struct passwd *user = getpwuid(geteuid());
	const char *slash = user ? strrchr(user->pw_shell, '/') : NULL;

	for (size_t i = 0; slash && i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(slash + 1, known[i]) == 0)
			return true;
	}
	return false;
}

enum { AGENT_COUNT = sizeof(agent_variables) / sizeof(agent_variables[0]) };

static bool has_agent(char *const words[])
{
	for (; *words; words++) {
		if (strstr(*words, "fork_agent") || strstr(*words, "exec_agent"))
			return true;
	}
	for (size_t i = 0; i < AGENT_COUNT; i++) {
		if (getenv(agent_variables[i]))
			return true;
	}
	return false;
}

static bool set_agent(const char *script)
{
	if (setenv(script_variable, script, 1) != 0)
		return false;
	for (size_t i = 0; i < AGENT_COUNT; i++) {
		if (setenv(agent_variables[i], agent, 1) != 0)
			return false;
	}
	return true;
}

static bool wrap(struct probe_options *options, const struct launcher_command *command,
	char *script, const char **why)
{
	if (command->kind == LAUNCHER_OPEN_MPI) {
		if (has_agent(options->command))
			*why = "Open MPI has another agent that starts its ranks";
		else if (!shell_is_known())
			*why = "the user's login shell is no sh, bash, dash, ksh or zsh";
		else
			return set_agent(script);
		return false;
	}
	if (!command->program)
		*why = "where the program begins is not clear";
	return command->program &&
	       insert(options, command->program, script, command->kind == LAUNCHER_SRUN);
}

bool launcher_wrap(struct probe_options *options)
{
	const char *why = "there is no memory";
	struct launcher_command command;
	char *text, *script;
	size_t length;
	bool wrapped;

	if (environment_text_read(getpid(), &text, &length) != 0)
		return false;
	launcher_command_parse(options->command, text, length, &command);
	free(text);
	if (command.kind == LAUNCHER_OTHER ||
		(command.kind != LAUNCHER_SRUN && !command.several_hosts))
		return false;
	script = make_script(options, command.first_host);
	wrapped = script && wrap(options, &command, script, &why);
	if (!wrapped)
		fprintf(stderr,
			"slowrank: ranks on other hosts are not seen from here (%s): write '%s "
			"[OPTION...] slowrank run -- COMMAND'\n",
			why, options->command[0]);
	return wrapped;
}
