/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/config/http_address.h"
#include "probe/config/size.h"

extern char **environ;

struct source_name {
	const char *name;
	unsigned source;
};

static const struct source_name source_names[] = {
	{"collectives", PROBE_SOURCE_COLLECTIVES},
	{"sched", PROBE_SOURCE_SCHED},
	{"faults", PROBE_SOURCE_FAULTS},
	{"cgroup", PROBE_SOURCE_CGROUP},
	{"psi", PROBE_SOURCE_PSI},
	{"procfs", PROBE_SOURCE_PROCFS},
	{"tcp", PROBE_SOURCE_TCP},
	{"nic", 0}, /* of earlier versions: nothing read what it sampled */
	{"device", PROBE_SOURCE_DEVICE},
	{"nvml", PROBE_SOURCE_NVML},
	{"rdma", PROBE_SOURCE_RDMA},
	{"launches", PROBE_SOURCE_LAUNCHES},
	{"steal", PROBE_SOURCE_STEAL},
	{"cycles", PROBE_SOURCE_CYCLES},
	{"stacks", PROBE_SOURCE_STACKS},
	{"all", PROBE_SOURCE_ALL},
	{"none", 0},
};

/* Variables that other subcommands read; known, so not reported as misspelt. */
static const char *const other_variables[] = {"SLOWRANK_RING_DIRECTORY",
	"SLOWRANK_NCCL_PROFILER_PLUGIN", "SLOWRANK_QUIET_IF_EMPTY", "SLOWRANK_TERMINAL",
	"SLOWRANK_LISTEN", "SLOWRANK_EXIT_WHEN_DONE", "SLOWRANK_PARENT", "SLOWRANK_READY_FD",
	"SLOWRANK_CONTINUE", "SLOWRANK_FORMAT", "SLOWRANK_OUTPUT", "SLOWRANK_FROM", "SLOWRANK_JSON",
	"SLOWRANK_OVERFLOW"};

static const char common_help[] =
	"  --coordinator URL   tcp://host:port or ipc:///path; default: found from the launcher,\n"
	"                      or started beside the first probe of the job\n"
	"  --job NAME          the job's name, the same in all its parts, where no launcher names "
	"it\n"
	"  --leader HOST       the host of rank 0, where the launcher does not tell it: there is "
	"the\n"
	"                      coordinator\n"
	"  --record FILE       the record of the run (default: slowrank-JOB.slr "
	"here)\n" RECORD_MAX_HELP
	"  --report FILE       also write the report as JSON when the job ends\n"
	"  --alerts FILE       append each alert as one JSON line\n" ALERT_SETTINGS_HELP
	"  --http PORT         serve metrics to readers on the coordinator's host; ADDRESS:PORT:\n"
	"                      to all with the key that 'slowrank key http' prints\n"
	"  --on-incident COMMAND  for the shell, at begin, change and end of an incident: JSON on\n"
	"                      standard input, INCIDENT_EVENT, INCIDENT_HOSTS, ... as variables\n"
	"  --webhook URL       the same JSON is posted there, signed with the key that\n"
	"                      'slowrank key webhook' prints\n"
	"  --sources all|none|LIST\n"
	"                      what to look at: collectives,sched,faults,cgroup,psi,procfs,tcp,\n"
	"                      device,launches,rdma,nvml,steal,cycles,stacks (default: all)\n"
	"  --key-file FILE     the key that a coordinator on another node asks for (default:\n"
	"                      MUNGE where it runs, and ~/.config/slowrank/key, made when it is\n"
	"                      missing)\n"
	"  --munge-socket FILE  munged's socket, where it is not the usual one\n"
	"  --insecure          no key: believe whoever reaches the coordinator, or is there\n"
	"  --tls-cert FILE     with --tls-key and --tls-ca, in PEM: for --coordinator "
	"tls+tcp://...\n"
	"  --spool-max SIZE    what each probe keeps in /tmp while the coordinator is away, beside "
	"an\n"
	"                      eighth of that in memory (default: 64M)\n"
	"  --pause-file FILE   while FILE exists, sources rest (to measure their cost)\n"
	"  --quiet             no alerts and no report on stderr\n"
	"  --help              this text\n\n"
	"Each option has an environment variable: SLOWRANK_RECORD for --record, and so on.\n";

static const char run_help[] =
	"usage: slowrank run [OPTION...] -- COMMAND [ARG...]\n\n"
	"Starts COMMAND and watches every rank below it. The exit status is COMMAND's.\n\n"
	"  slowrank run -- mpirun -n 4 ./app     one probe for all ranks of this host\n"
	"  mpirun -n 4 slowrank run -- ./app     one probe per rank\n"
	"  slowrank run -- mpirun --hostfile HOSTS ./app     the same, written otherwise; also "
	"srun\n\n"
	"  --deep off|auto|on  timing of single kernels of GPUs for some steps: never, of a "
	"suspect\n"
	"                      rank and a healthy one (default), or also once early of each rank\n"
	"  --verbs auto|off    counting of RDMA requests within the job, by a library that is\n"
	"                      preloaded where the host has an RDMA device (default); off: by\n"
	"                      uprobes only\n";

static const char attach_help[] =
	"usage: slowrank attach --pid PID... [OPTION...]\n\n"
	"Watches a job that already runs: the given processes and all below them,\n"
	"until they end or Ctrl-C. The job goes on undisturbed.\n\n"
	"  --pid PID...        processes, e.g. that of mpirun or of each rank\n"
	"  --deep              loads libslowrank_inject.so into the running ranks, for device "
	"times;\n"
	"                      asks first on a terminal\n"
	"  --yes               with --deep: does not ask\n";

static bool take_sources(struct probe_options *options, const char *list)
{
	unsigned sources = 0;

	while (*list) {
		size_t length = strcspn(list, ",");
		size_t i;

		for (i = 0; i < sizeof(source_names) / sizeof(source_names[0]); i++) {
			if (strlen(source_names[i].name) == length &&
				strncmp(list, source_names[i].name, length) == 0)
				break;
		}
		if (i == sizeof(source_names) / sizeof(source_names[0])) {
			fprintf(stderr,
				"slowrank: no source '%.*s'; use some of collectives,sched,faults,"
				"cgroup,psi,procfs,tcp,device,launches,rdma,nvml,steal,"
				"cycles, or all, or none\n",
				(int)length, list);
			return false;
		}
		sources |= source_names[i].source;
		list += length;
		list += *list == ',';
	}
	options->sources = sources;
	return true;
}

static bool take_deep(struct probe_options *options, const char *word)
{
	static const char *const words[] = {"auto", "off", "on"};

	for (int i = 0; i < 3; i++) {
		if (strcmp(word, words[i]) == 0) {
			options->deep = (enum probe_deep)i;
			return true;
		}
	}
	fprintf(stderr, "slowrank: --deep is off, auto or on, not '%s'\n", word);
	return false;
}

/* The coordinator reads it again. */
static bool take_record_max(struct probe_options *options, const char *size)
{
	uint64_t bytes;

	options->record_max = size;
	if (record_max_parse(size, &bytes) == 0)
		return true;
	fprintf(stderr,
		"slowrank: --record-max is a size from 1M on, e.g. 2G, or 0 for no limit, not "
		"'%s'\n",
		size);
	return false;
}

static bool take_http(struct probe_options *options, const char *text)
{
	struct http_address address;

	options->http = text;
	if (http_address_parse(text, &address) == 0)
		return true;
	fprintf(stderr, "slowrank: --http is PORT, ADDRESS:PORT or NAME:PORT, not '%s'\n", text);
	return false;
}

static bool take_webhook(struct probe_options *options, const char *text)
{
	options->webhook = text;
	if (!http_url_is_one(text))
		fprintf(stderr, "slowrank: --webhook is a URL of http:// or https://\n");
	return http_url_is_one(text);
}

static bool take_verbs(struct probe_options *options, const char *word)
{
	if (strcmp(word, "auto") != 0 && strcmp(word, "off") != 0) {
		fprintf(stderr, "slowrank: --verbs is auto or off, not '%s'\n", word);
		return false;
	}
	options->verbs = strcmp(word, "off") == 0 ? PROBE_VERBS_OFF : PROBE_VERBS_AUTO;
	return true;
}

/* A number of bytes, or of K, M or G. */
static bool take_spool_max(struct probe_options *options, const char *word)
{
	const double kib = 1024, least = 64 * kib, most = 64 * kib * kib * kib;
	char unit = '\0', rest;
	double bytes = 0;
	int found = sscanf(word, "%lf%c%c", &bytes, &unit, &rest);

	bytes *= unit == 'K' ? kib : unit == 'M' ? kib * kib : unit == 'G' ? kib * kib * kib : 1;
	if (found < 1 || found > 2 || !strchr("KMG", unit) || !(bytes >= least && bytes <= most)) {
		fprintf(stderr,
			"slowrank: --spool-max is a size from 64K to 64G, such as 256M, not "
			"'%s'\n",
			word);
		return false;
	}
	options->spool_max = (size_t)bytes;
	return true;
}

/* The options that take a value, with their environment variables. */
struct value_option {
	const char *flag;
	const char *variable;
	const char *only; /* the command that has it; NULL: both */
	/* NULL: the value is kept as it is. False after saying what is wrong with it. */
	bool (*take)(struct probe_options *options, const char *value);
	size_t offset; /* of a const char * in struct probe_options */
};

static const struct value_option value_options[] = {
	{"--coordinator", "SLOWRANK_COORDINATOR", NULL, NULL,
		offsetof(struct probe_options, coordinator)},
	{"--job", "SLOWRANK_JOB", NULL, NULL, offsetof(struct probe_options, job)},
	{"--leader", "SLOWRANK_LEADER", NULL, NULL, offsetof(struct probe_options, leader)},
	{"--record", "SLOWRANK_RECORD", NULL, NULL, offsetof(struct probe_options, record)},
	{"--record-max", "SLOWRANK_RECORD_MAX", NULL, take_record_max, 0},
	{"--report", "SLOWRANK_REPORT", NULL, NULL, offsetof(struct probe_options, report)},
	{"--alerts", "SLOWRANK_ALERTS", NULL, NULL, offsetof(struct probe_options, alerts)},
	{"--http", "SLOWRANK_HTTP", NULL, take_http, 0},
	{"--on-incident", "SLOWRANK_ON_INCIDENT", NULL, NULL,
		offsetof(struct probe_options, on_incident)},
	{"--webhook", "SLOWRANK_WEBHOOK", NULL, take_webhook, 0},
	{"--config", "SLOWRANK_CONFIG", NULL, NULL,
		offsetof(struct probe_options, alert_settings.file)},
	{"--alert-slowdown", "SLOWRANK_ALERT_SLOWDOWN", NULL, NULL,
		offsetof(struct probe_options, alert_settings.slowdown)},
	{"--alert-after", "SLOWRANK_ALERT_AFTER", NULL, NULL,
		offsetof(struct probe_options, alert_settings.after)},
	{"--silent-imbalance", "SLOWRANK_SILENT_IMBALANCE", NULL, NULL,
		offsetof(struct probe_options, alert_settings.imbalance)},
	{"--key-file", "SLOWRANK_KEY_FILE", NULL, NULL, offsetof(struct probe_options, key_file)},
	{"--munge-socket", "SLOWRANK_MUNGE_SOCKET", NULL, NULL,
		offsetof(struct probe_options, munge_socket)},
	{"--tls-cert", "SLOWRANK_TLS_CERT", NULL, NULL,
		offsetof(struct probe_options, tls.certificate)},
	{"--tls-key", "SLOWRANK_TLS_KEY", NULL, NULL, offsetof(struct probe_options, tls.key)},
	{"--tls-ca", "SLOWRANK_TLS_CA", NULL, NULL, offsetof(struct probe_options, tls.authority)},
	{"--pause-file", "SLOWRANK_PAUSE_FILE", NULL, NULL,
		offsetof(struct probe_options, pause_file)},
	{"--spool-max", "SLOWRANK_SPOOL_MAX", NULL, take_spool_max, 0},
	{"--sources", "SLOWRANK_SOURCES", NULL, take_sources, 0},
	{"--deep", "SLOWRANK_DEEP", NULL, take_deep, 0},
	{"--verbs", "SLOWRANK_VERBS", "run", take_verbs, 0},
};

/* The options without one. */
struct switch_option {
	const char *flag;
	const char *variable; /* not empty and not 0: on */
	const char *only;     /* as above */
	size_t offset;	      /* of a bool in struct probe_options */
};

static const struct switch_option switch_options[] = {
	{"--quiet", "SLOWRANK_QUIET", NULL, offsetof(struct probe_options, quiet)},
	{"--insecure", "SLOWRANK_INSECURE", NULL, offsetof(struct probe_options, insecure)},
	{"--yes", "SLOWRANK_YES", "attach", offsetof(struct probe_options, yes)},
};

enum {
	VALUE_OPTION_COUNT = sizeof(value_options) / sizeof(value_options[0]),
	SWITCH_OPTION_COUNT = sizeof(switch_options) / sizeof(switch_options[0]),
};

static bool take_value(
	struct probe_options *options, const struct value_option *option, const char *value)
{
	if (option->take)
		return option->take(options, value);
	*(const char **)(void *)((char *)options + option->offset) = value;
	return true;
}

static void switch_on(struct probe_options *options, const struct switch_option *option)
{
	*(bool *)((char *)options + option->offset) = true;
}

static bool is_name(const char *entry, const char *name)
{
	size_t length = strcspn(entry, "=");

	return strlen(name) == length && strncmp(entry, name, length) == 0;
}

/* Of commands that ask a coordinator: where it is, and what is proven to it. */
static bool is_to_ask(const char *word)
{
	static const char *const flags[] = {"--coordinator", "--job", "--leader", "--key-file",
		"--munge-socket", "--insecure", "--tls-cert", "--tls-key", "--tls-ca"};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (is_name(word, flags[i]))
			return true;
	}
	return false;
}

static bool variable_known(const char *entry)
{
	for (size_t i = 0; i < VALUE_OPTION_COUNT; i++) {
		if (is_name(entry, value_options[i].variable))
			return true;
	}
	for (size_t i = 0; i < SWITCH_OPTION_COUNT; i++) {
		if (is_name(entry, switch_options[i].variable))
			return true;
	}
	for (size_t i = 0; i < sizeof(other_variables) / sizeof(other_variables[0]); i++) {
		if (is_name(entry, other_variables[i]))
			return true;
	}
	return false;
}

/* A variable that is empty counts as not set. to_ask: only what is_to_ask(). */
static bool read_environment(struct probe_options *options, bool to_ask)
{
	const char *text;

	for (char **entry = environ; entry && *entry; entry++) {
		if (strncmp(*entry, "SLOWRANK_", 9) == 0 && !variable_known(*entry))
			fprintf(stderr,
				"slowrank: the variable %.*s is not one of slowrank's; ignored\n",
				(int)strcspn(*entry, "="), *entry);
	}
	for (size_t i = 0; i < SWITCH_OPTION_COUNT; i++) {
		text = getenv(switch_options[i].variable);
		if (to_ask && !is_to_ask(switch_options[i].flag))
			continue;
		if (text && *text && strcmp(text, "0") != 0)
			switch_on(options, &switch_options[i]);
	}
	for (size_t i = 0; i < VALUE_OPTION_COUNT; i++) {
		text = getenv(value_options[i].variable);
		if (to_ask && !is_to_ask(value_options[i].flag))
			continue;
		if (text && *text && !take_value(options, &value_options[i], text))
			return false;
	}
	return true;
}

static enum options_result bad(const char *command, const char *problem, const char *word)
{
	fprintf(stderr, "slowrank %s: %s%s%s; see 'slowrank %s --help'\n", command, problem,
		word ? " " : "", word ? word : "", command);
	return OPTIONS_BAD;
}

/* The coordinator reads them again; what it would refuse is told before anything starts. */
static enum options_result check_alert_settings(
	const struct probe_options *options, const char *command)
{
	char problem[ALERT_LIMITS_PROBLEM_LENGTH];

	if (alert_limits_given(&options->alert_settings, &(struct alert_limits){0}, problem))
		return bad(command, problem, NULL);
	return OPTIONS_OK;
}

/* False after saying that the command does not have the option. */
static bool has_option(const char *command, const char *flag, const char *only)
{
	if (!only || strcmp(only, command) == 0)
		return true;
	fprintf(stderr, "slowrank %s: %s is an option of '%s' only; see 'slowrank %s --help'\n",
		command, flag, only, command);
	return false;
}

/*
 * Takes the option at argv[*index], and its value (either "--flag value" or "--flag=value").
 * Returns OPTIONS_OK when it was one of the common options, OPTIONS_BAD after saying why not.
 */
static enum options_result take_common(
	struct probe_options *options, const char *command, int argc, char **argv, int *index)
{
	const char *word = argv[*index], *value = strchr(word, '=');

	for (size_t i = 0; i < SWITCH_OPTION_COUNT; i++) {
		if (strcmp(word, switch_options[i].flag) != 0)
			continue;
		if (!has_option(command, word, switch_options[i].only))
			return OPTIONS_BAD;
		switch_on(options, &switch_options[i]);
		return OPTIONS_OK;
	}
	for (size_t i = 0; i < VALUE_OPTION_COUNT; i++) {
		if (!is_name(word, value_options[i].flag))
			continue;
		if (!has_option(command, value_options[i].flag, value_options[i].only))
			return OPTIONS_BAD;
		if (value)
			value++;
		else if (*index + 1 < argc)
			value = argv[++*index];
		if (!value || !*value)
			return bad(command, "a value is missing after", value_options[i].flag);
		return take_value(options, &value_options[i], value) ? OPTIONS_OK : OPTIONS_BAD;
	}
	return bad(command, "no option", word);
}

enum options_result probe_options_parse_run(struct probe_options *options, int argc, char **argv)
{
	*options = (struct probe_options){.sources = PROBE_SOURCE_ALL};
	if (!read_environment(options, false))
		return OPTIONS_BAD;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			printf("%s%s", run_help, common_help);
			return OPTIONS_HELP;
		}
		if (strcmp(argv[i], "--") == 0) {
			options->command = argv + i + 1;
			break;
		}
		if (argv[i][0] != '-') {
			options->command = argv + i;
			break;
		}
		enum options_result result = take_common(options, "run", argc, argv, &i);
		if (result != OPTIONS_OK)
			return result;
	}
	if (options->command) {
		options->words = argv + 1;
		options->word_count = (size_t)(options->command - options->words);
		if (options->word_count && strcmp(options->command[-1], "--") == 0)
			options->word_count--;
	}
	if (!options->command || !options->command[0])
		return bad("run", "no command to run: put it after --", NULL);
	return check_alert_settings(options, "run");
}

static bool add_pid(struct probe_options *options, const char *word)
{
	char *end;

	while (*word) {
		errno = 0;
		long pid = strtol(word, &end, 10);
		if (errno || end == word || pid <= 0 || pid > INT32_MAX || (*end && *end != ','))
			return false;
		if (options->pid_count == PROBE_ATTACH_PIDS_MAX)
			return false;
		options->pids[options->pid_count++] = (pid_t)pid;
		word = *end ? end + 1 : end;
	}
	return true;
}

/* --pid A B, --pid A,B or --pid=A,B, at argv[*index]. */
static enum options_result take_pids(
	struct probe_options *options, int argc, char **argv, int *index)
{
	const char *value = strchr(argv[*index], '=');
	size_t before = options->pid_count;

	if (value && !add_pid(options, value + 1))
		return bad("attach", "not a process id:", value + 1);
	while (!value && *index + 1 < argc && argv[*index + 1][0] != '-') {
		if (!add_pid(options, argv[++*index]))
			return bad("attach", "not a process id:", argv[*index]);
	}
	return options->pid_count > before ? OPTIONS_OK
					   : bad("attach", "a value is missing after --pid", NULL);
}

enum options_result probe_options_parse_attach(struct probe_options *options, int argc, char **argv)
{
	*options = (struct probe_options){.sources = PROBE_SOURCE_ALL};
	if (!read_environment(options, false))
		return OPTIONS_BAD;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			printf("%s%s", attach_help, common_help);
			return OPTIONS_HELP;
		}
		if (strcmp(argv[i], "--deep") == 0) { /* no value: asked for in one word */
			options->deep = PROBE_DEEP_ON;
			continue;
		}
		if (is_name(argv[i], "--pid")) {
			enum options_result result = take_pids(options, argc, argv, &i);

			if (result != OPTIONS_OK)
				return result;
			continue;
		}
		enum options_result result = take_common(options, "attach", argc, argv, &i);
		if (result != OPTIONS_OK)
			return result;
	}
	if (options->pid_count == 0)
		return bad("attach", "name the processes with --pid", NULL);
	return check_alert_settings(options, "attach");
}

bool probe_options_begin_ask(struct probe_options *options)
{
	*options = (struct probe_options){.sources = 0};
	return read_environment(options, true);
}

enum options_result probe_options_take_ask(
	struct probe_options *options, const char *command, int argc, char **argv, int *index)
{
	return is_to_ask(argv[*index]) ? take_common(options, command, argc, argv, index)
				       : bad(command, "no option", argv[*index]);
}
