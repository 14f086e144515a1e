/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/launcher_command.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/attach/environment_text.h"
#include "probe/attach/host_list.h"

enum { HOSTS_LENGTH_MAX = 65536 }; /* of a list that is looked at */

/* Words between blanks: options by what they take, without their dashes. */
struct grammar {
	const char *values;   /* one more word */
	const char *pairs;    /* two more words */
	const char *switches; /* none */
	const char *refused;  /* there is more than one program, or it is copied */
};

/* srun(1) of Slurm 22.05 to 24.11. */
static const struct grammar srun_grammar = {
	.values =
		" account acctg-freq bb bbf bcast-exclude begin chdir cluster-constraint clusters "
		"comment constraint container container-id core-spec cores-per-socket cpu-bind "
		"cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency distribution "
		"epilog error exclude export export-file extra extra-node-info gid gpu-bind "
		"gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags "
		"het-group hint input job-name jobid licenses mail-type mail-user mcs-label mem "
		"mem-bind mem-per-cpu mem-per-gpu mincpus mpi msg-timeout network nodelist nodes "
		"ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode "
		"output partition power prefer priority profile prolog qos relative reservation "
		"signal slurmd-debug sockets-per-node switches task-epilog task-prolog thread-spec "
		"threads threads-per-core time time-min tmp tres-bind tres-per-task treewidth uid "
		"wait wckey ",
	.pairs = " ",
	.switches =
		" contiguous disable-status exact exclusive get-user-env help hold immediate "
		"kill-on-bad-exit label nice no-allocate no-kill overcommit overlap oversubscribe "
		"preserve-env propagate pty quiet quit-on-interrupt reboot requeue resv-ports "
		"share spread-job test-only unbuffered usage use-min-nodes verbose version whole "
		"x11 ",
	.refused = " bcast compress multi-prog send-libs ",
};
static const char srun_short_values[] = "ABbcCdDeGiJLmMnNopqrStTwWx";
static const char srun_short_switches[] = "EHhklOQsuvVXZ";
static const char srun_short_may_have_values[] = "IK"; /* within the word */

/* mpiexec.hydra of MPICH 4. */
static const struct grammar hydra_grammar = {
	.values = " f hostfile machinefile hosts host wdir n np ppn launcher launcher-exec rmk "
		  "topolib bind-to map-by membind demux iface genvlist envlist prepend-pattern "
		  "outfile-pattern errfile-pattern nameserver order-nodes localhost usize "
		  "gpus-per-proc ",
	.pairs = " genv env ",
	.switches = " genvall genvnone envall envnone enable-x disable-x verbose v info "
		    "print-all-exitcodes profile prepend-rank l disable-auto-cleanup "
		    "disable-hostname-propagation pmi-port skip-launch-node ",
	.refused = " configfile ",
};

/* Of Open MPI only what lists hosts, and what is in the way of finding the program. */
static const char hosts_options[] = " H host hosts ";
static const char file_options[] =
	" hostfile machinefile default-hostfile rankfile rf f "; /* f: of Hydra */
static const char open_mpi_pairs[] = " mca gmca omca gomca prtemca pmixmca ";

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool in_words(const char *words, const char *word, size_t length)
{
	const char *at = words;

	while (length && (at = strstr(at, " "))) {
		if (strncmp(++at, word, length) == 0 && at[length] == ' ')
			return true;
	}
	return false;
}

/* The file behind the name that a shell would start, links resolved. */
static bool find_program(const char *name, const char *path, char found[PATH_MAX])
{
	char candidate[PATH_MAX];

	if (strchr(name, '/'))
		return realpath(name, found) != NULL;
	while (path && *path) {
		size_t length = strcspn(path, ":");

		if (snprintf(candidate, sizeof(candidate), "%.*s/%s", (int)length, path, name) <
				(int)sizeof(candidate) &&
			access(candidate, X_OK) == 0)
			return realpath(candidate, found) != NULL;
		path += length;
		path += *path == ':';
	}
	return false;
}

static bool has_sibling(const char *program, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%.*s%s", (int)(base_name(program) - program), program,
		       name) < (int)sizeof(path) &&
	       access(path, X_OK) == 0;
}

static enum launcher_kind find_kind(const char *word, const char *path)
{
	const char *name = base_name(word);
	char program[PATH_MAX];

	if (strcmp(name, "srun") == 0)
		return LAUNCHER_SRUN;
	if (strncmp(name, "mpirun", 6) != 0 && strncmp(name, "mpiexec", 7) != 0 &&
		strcmp(name, "orterun") != 0 && strcmp(name, "prterun") != 0)
		return LAUNCHER_OTHER;
	if (!find_program(word, path, program))
		return LAUNCHER_OTHER;
	name = base_name(program);
	if (strcmp(name, "orterun") == 0 || strcmp(name, "prterun") == 0)
		return LAUNCHER_OPEN_MPI;
	if (strcmp(name, "mpiexec.hydra") == 0)
		return LAUNCHER_HYDRA;
	if (has_sibling(program, "orterun") || has_sibling(program, "prterun"))
		return LAUNCHER_OPEN_MPI;
	return has_sibling(program, "mpiexec.hydra") ? LAUNCHER_HYDRA : LAUNCHER_OTHER;
}

/* By its name alone: a name server may be slow, and the job does not wait for it. */
static bool is_this_host(const char *name)
{
	char host[HOST_NAME_MAX + 1] = "";
	size_t length;

	gethostname(host, sizeof(host) - 1);
	length = strcspn(host, ".");
	return strncmp(name, "127.", 4) == 0 || strcmp(name, "localhost") == 0 ||
	       strcmp(name, "::1") == 0 || strcmp(name, host) == 0 ||
	       (strncmp(name, host, length) == 0 && (!name[length] || name[length] == '.'));
}

static void take_host(struct launcher_command *command, const char *name)
{
	command->several_hosts |= !is_this_host(name);
	if (command->first_host[0])
		return;
	if (strncmp(name, "127.", 4) == 0 || strcmp(name, "localhost") == 0) /* as others see it */
		gethostname(command->first_host, sizeof(command->first_host) - 1);
	else
		snprintf(command->first_host, sizeof(command->first_host), "%s", name);
}

/* "a:2,b" and "+n0", which is no name. */
static void take_list(struct launcher_command *command, const char *list)
{
	char name[sizeof(command->first_host)];

	while (*list) {
		size_t length = strcspn(list, ", \n");

		snprintf(name, sizeof(name), "%.*s", (int)length, list);
		name[strcspn(name, ":")] = '\0';
		if (name[0] && name[0] != '+')
			take_host(command, name);
		list += length;
		list += *list != '\0';
	}
}

/* One host a line, and what else there is of it; "rank 0=HOST slot=1" in a rankfile. */
static void take_file(struct launcher_command *command, const char *path)
{
	char line[1024], name[128];
	FILE *file = fopen(path, "re");
	long taken = 0;

	while (file && taken < HOSTS_LENGTH_MAX && fgets(line, sizeof(line), file)) {
		const char *host = strncmp(line, "rank ", 5) == 0 ? strchr(line, '=') : NULL;

		taken += (long)strlen(line);
		host = host ? host + 1 : line + strspn(line, " \t");
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(host, " \t\r\n:#="), host);
		if (name[0])
			take_host(command, name);
	}
	if (file)
		fclose(file);
}

/* What a batch system gave to the job, where the command line lists no hosts. */
static void take_allocation(
	struct launcher_command *command, const char *environment, size_t length)
{
	const char *nodes = environment_text_find(environment, length, "SLURM_JOB_NODELIST");
	const char *count = environment_text_find(environment, length, "SLURM_JOB_NUM_NODES");
	const char *hosts = environment_text_find(environment, length, "LSB_HOSTS");
	const char *pbs = environment_text_find(environment, length, "PBS_NODEFILE");
	const char *engine = environment_text_find(environment, length, "PE_HOSTFILE");
	char first[sizeof(command->first_host)];

	if (nodes) {
		host_list_first(nodes, first, sizeof(first));
		take_host(command, first);
		command->several_hosts |= count && strtol(count, NULL, 10) > 1;
	} else if (hosts) {
		take_list(command, hosts);
	} else if (pbs || engine) {
		take_file(command, pbs ? pbs : engine);
	}
}

static void take_hosts_option(
	struct launcher_command *command, const char *name, size_t length, const char *value)
{
	if (value && in_words(hosts_options, name, length))
		take_list(command, value);
	else if (value && in_words(file_options, name, length))
		take_file(command, value);
}

/* Open MPI has too many options to know: a word is the program's where no option can have it. */
static void look_for_hosts(char *const argv[], struct launcher_command *command)
{
	for (size_t i = 1; argv[i]; i++) {
		const char *name = argv[i] + strspn(argv[i], "-"), *before = argv[i - 1];

		if (argv[i][0] == '-')
			take_hosts_option(command, name, strlen(name), argv[i + 1]);
		else if (before[0] != '-' &&
			 !(i > 2 && argv[i - 2][0] == '-' &&
				 in_words(open_mpi_pairs, argv[i - 2] + strspn(argv[i - 2], "-"),
					 strlen(argv[i - 2] + strspn(argv[i - 2], "-")))))
			break;
	}
}

/* How many words an option of srun's is, "-N2" or "-lN 2"; 0: not known. */
static size_t srun_short_words(const char *letters)
{
	for (; *letters; letters++) {
		if (strchr(srun_short_values, *letters))
			return letters[1] ? 1 : 2;
		if (strchr(srun_short_may_have_values, *letters))
			return 1;
		if (!strchr(srun_short_switches, *letters))
			return 0;
	}
	return 1;
}

static size_t option_words(const struct grammar *grammar, const char *name, size_t length)
{
	if (in_words(grammar->refused, name, length))
		return 0;
	if (name[length] == '=')
		return grammar == &srun_grammar;
	if (in_words(grammar->switches, name, length))
		return 1;
	if (in_words(grammar->values, name, length))
		return 2;
	return in_words(grammar->pairs, name, length) ? 3 : 0;
}

static size_t find_words(
	char *const argv[], const struct grammar *grammar, struct launcher_command *command)
{
	size_t i = 1, words;

	for (; argv[i] && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i += words) {
		const char *name = argv[i] + strspn(argv[i], "-");
		size_t length = strcspn(name, "=");

		if (grammar == &srun_grammar && argv[i][1] != '-') {
			words = srun_short_words(argv[i] + 1);
		} else {
			words = option_words(grammar, name, length);
			take_hosts_option(command, name, length, words == 2 ? argv[i + 1] : NULL);
		}
		for (size_t k = 1; words && k < words; k++)
			words = argv[i + k] ? words : 0;
		if (!words)
			return 0;
	}
	if (argv[i] && strcmp(argv[i], "--") == 0)
		i++;
	for (size_t k = i; argv[k]; k++) {
		if (strcmp(argv[k], ":") == 0)
			return 0;
	}
	return argv[i] ? i : 0;
}

void launcher_command_parse(char *const argv[], const char *environment, size_t length,
	struct launcher_command *command)
{
	*command = (struct launcher_command){0};
	command->kind = find_kind(argv[0], environment_text_find(environment, length, "PATH"));
	switch (command->kind) {
	case LAUNCHER_SRUN:
		command->program = find_words(argv, &srun_grammar, command);
		return;
	case LAUNCHER_HYDRA:
		command->program = find_words(argv, &hydra_grammar, command);
		break;
	case LAUNCHER_OPEN_MPI:
		look_for_hosts(argv, command);
		break;
	case LAUNCHER_OTHER:
		return;
	}
	if (!command->first_host[0])
		take_allocation(command, environment, length);
}
