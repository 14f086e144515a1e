/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/coordinator_options.h"
#include "probe/config/http_address.h"
#include "probe/config/size.h"

enum { PROBLEM_LENGTH = 256 };

enum option_kind {
	OPTION_LISTEN,
	OPTION_RECORD,
	OPTION_ALERTS,
	OPTION_REPORT,
	OPTION_EXIT_WHEN_DONE,
	OPTION_PARENT,
	OPTION_READY_FD,
	OPTION_QUIET,
	OPTION_QUIET_IF_EMPTY,
	OPTION_KEY_FILE,
	OPTION_MUNGE_SOCKET,
	OPTION_INSECURE,
	OPTION_TLS_CERT,
	OPTION_TLS_KEY,
	OPTION_TLS_CA,
	OPTION_JOB,
	OPTION_TERMINAL,
	OPTION_CONFIG,
	OPTION_ALERT_SLOWDOWN,
	OPTION_ALERT_AFTER,
	OPTION_SILENT_IMBALANCE,
	OPTION_CONTINUE,
	OPTION_OVERFLOW,
	OPTION_RECORD_MAX,
	OPTION_HTTP,
	OPTION_NR
};

struct option_row {
	const char *flag;
	const char *variable;
	bool is_switch; /* takes no value on the command line */
	size_t text; /* of a const char * in the options that keeps the value as it is; 0 = none */
};

#define TEXT(member) offsetof(struct coordinator_options, member)

static const struct option_row rows[OPTION_NR] = {
	[OPTION_LISTEN] = {"--listen", "SLOWRANK_LISTEN", false, 0},
	[OPTION_RECORD] = {"--record", "SLOWRANK_RECORD", false, TEXT(record)},
	[OPTION_ALERTS] = {"--alerts", "SLOWRANK_ALERTS", false, TEXT(alerts)},
	[OPTION_REPORT] = {"--report", "SLOWRANK_REPORT", false, TEXT(report)},
	[OPTION_EXIT_WHEN_DONE] = {"--exit-when-done", "SLOWRANK_EXIT_WHEN_DONE", true, 0},
	[OPTION_PARENT] = {"--parent", "SLOWRANK_PARENT", false, 0},
	[OPTION_READY_FD] = {"--ready-fd", "SLOWRANK_READY_FD", false, 0},
	[OPTION_QUIET] = {"--quiet", "SLOWRANK_QUIET", true, 0},
	[OPTION_QUIET_IF_EMPTY] = {"--quiet-if-empty", "SLOWRANK_QUIET_IF_EMPTY", true, 0},
	[OPTION_KEY_FILE] = {"--key-file", "SLOWRANK_KEY_FILE", false, TEXT(key_file)},
	[OPTION_MUNGE_SOCKET] = {"--munge-socket", "SLOWRANK_MUNGE_SOCKET", false,
		TEXT(munge_socket)},
	[OPTION_INSECURE] = {"--insecure", "SLOWRANK_INSECURE", true, 0},
	[OPTION_TLS_CERT] = {"--tls-cert", "SLOWRANK_TLS_CERT", false, TEXT(tls.certificate)},
	[OPTION_TLS_KEY] = {"--tls-key", "SLOWRANK_TLS_KEY", false, TEXT(tls.key)},
	[OPTION_TLS_CA] = {"--tls-ca", "SLOWRANK_TLS_CA", false, TEXT(tls.authority)},
	[OPTION_JOB] = {"--job", "SLOWRANK_JOB", false, TEXT(job)},
	[OPTION_TERMINAL] = {"--terminal", "SLOWRANK_TERMINAL", true, 0},
	[OPTION_CONFIG] = {"--config", "SLOWRANK_CONFIG", false, TEXT(alert_settings.file)},
	[OPTION_ALERT_SLOWDOWN] = {"--alert-slowdown", "SLOWRANK_ALERT_SLOWDOWN", false,
		TEXT(alert_settings.slowdown)},
	[OPTION_ALERT_AFTER] = {"--alert-after", "SLOWRANK_ALERT_AFTER", false,
		TEXT(alert_settings.after)},
	[OPTION_SILENT_IMBALANCE] = {"--silent-imbalance", "SLOWRANK_SILENT_IMBALANCE", false,
		TEXT(alert_settings.imbalance)},
	[OPTION_RECORD_MAX] = {"--record-max", "SLOWRANK_RECORD_MAX", false, TEXT(record_max_text)},
	[OPTION_CONTINUE] = {"--continue", "SLOWRANK_CONTINUE", true, 0},
	[OPTION_OVERFLOW] = {"--overflow", "SLOWRANK_OVERFLOW", false, TEXT(overflow)},
	[OPTION_HTTP] = {"--http", "SLOWRANK_HTTP", false, TEXT(http)},
};

static const char help[] =
	"usage: slowrank coordinator --listen URL --record FILE [OPTION...]\n\n"
	"Collects what the probes of one job see, says who is slow while the job runs, and keeps\n"
	"the record. 'slowrank run' starts one by itself; start your own to choose its place.\n\n"
	"  --listen URL       ipc:///path or tcp://address:port; may be given several times\n"
	"  --record FILE      everything that came in, for 'slowrank report FILE'\n" RECORD_MAX_HELP
	"  --continue         go on with FILE where its coordinator was killed (default: it "
	"becomes\n"
	"                     FILE.1, and FILE begins anew)\n"
	"  --overflow FILE    on another disk: there it keeps up to 64 MiB, and alerts go on, "
	"while\n"
	"                     that of the record is full\n"
	"  --job NAME         the job it serves; others are refused (default: the first that "
	"comes)\n"
	"  --alerts FILE      append each alert as one JSON line\n"
	"  --report FILE      write the report as JSON at the end\n" ALERT_SETTINGS_HELP
	"  --http PORT        serve metrics to readers on this host; ADDRESS:PORT: to all who have "
	"the\n"
	"                     key that 'slowrank key http' prints\n"
	"  --key-file FILE    the key that probes beyond this host prove (default:\n"
	"                     MUNGE where it runs, and ~/.config/slowrank/key, made when it is "
	"missing)\n"
	"  --munge-socket FILE  munged's socket, where it is not the usual one\n"
	"  --insecure         no key: believe everybody who reaches the port\n"
	"  --tls-cert FILE    with --tls-key and --tls-ca, in PEM: for --listen tls+tcp://..., "
	"where\n"
	"                     both sides show a certificate of that authority\n"
	"  --exit-when-done   end when every probe has said that its part of the job is over\n"
	"  --parent PID       end when this process is gone and no probe is connected any more\n"
	"  --ready-fd N       write 1 to this file descriptor once probes can connect, 0 where "
	"the\n"
	"                     address is taken\n"
	"  --quiet            no alerts and no report on stderr\n"
	"  --quiet-if-empty   no report on stderr when no step was seen\n"
	"  --terminal         stderr is passed on to a terminal\n"
	"  --help             this text\n\n"
	"Each option has an environment variable: SLOWRANK_LISTEN for --listen, and so on.\n"
	"SIGTERM or Ctrl-C: analyse what is there, write record and report, and end;\n"
	"again, a second later: end at once. Exit status: 0; 2 when it cannot start.\n";

static int parse_number(const char *text, int minimum, int *number)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < minimum || value > INT32_MAX)
		return -EINVAL;
	*number = (int)value;
	return 0;
}

static bool is_true(const char *text)
{
	return strcmp(text, "0") != 0;
}

/* Takes one value, from the command line or the environment. name: how the user knows it. */
static int set_option(struct coordinator_options *options, enum option_kind kind, const char *value,
	const char *name, char *problem)
{
	int error = 0;

	switch (kind) {
	case OPTION_LISTEN:
		if (options->url_count == LISTENER_URLS_MAX) {
			snprintf(problem, PROBLEM_LENGTH, "more than %d times --listen",
				LISTENER_URLS_MAX);
			return -E2BIG;
		}
		options->urls[options->url_count++] = value;
		break;
	case OPTION_EXIT_WHEN_DONE:
		options->exit_when_done = is_true(value);
		break;
	case OPTION_CONTINUE:
		options->continues = is_true(value);
		break;
	case OPTION_PARENT:
		error = parse_number(value, 1, &options->parent);
		break;
	case OPTION_READY_FD:
		error = parse_number(value, 0, &options->ready_fd);
		break;
	case OPTION_QUIET:
		options->quiet = is_true(value);
		break;
	case OPTION_QUIET_IF_EMPTY:
		options->quiet_if_empty = is_true(value);
		break;
	case OPTION_INSECURE:
		options->insecure = is_true(value);
		break;
	case OPTION_TERMINAL:
		options->terminal = is_true(value);
		break;
	default:
		assert(rows[kind].text);
		*(const char **)(void *)((char *)options + rows[kind].text) = value;
		break;
	}
	if (error)
		snprintf(problem, PROBLEM_LENGTH, "'%.100s' is no value for %s", value, name);
	return error;
}

static int read_environment(struct coordinator_options *options, char *problem)
{
	int error = 0;

	for (int kind = 0; kind < OPTION_NR && !error; kind++) {
		const char *value = getenv(rows[kind].variable);

		if (value && *value)
			error = set_option(options, (enum option_kind)kind, value,
				rows[kind].variable, problem);
	}
	return error;
}

/* The row of "--flag" or "--flag=value", or OPTION_NR. */
static enum option_kind find_row(const char *word, size_t length)
{
	int kind = 0;

	while (kind < OPTION_NR &&
		(strlen(rows[kind].flag) != length || strncmp(word, rows[kind].flag, length) != 0))
		kind++;
	return (enum option_kind)kind;
}

static int take_word(struct coordinator_options *options, int argc, char **argv, int *index,
	bool *listen_given, char *problem)
{
	const char *word = argv[*index];
	size_t length = strcspn(word, "=");
	const char *value = word[length] ? word + length + 1 : NULL;
	enum option_kind kind = find_row(word, length);

	if (kind == OPTION_NR || (value && rows[kind].is_switch)) {
		snprintf(problem, PROBLEM_LENGTH, "no option '%.100s'", word);
		return -EINVAL;
	}
	if (rows[kind].is_switch)
		value = "1";
	else if (!value && *index + 1 < argc)
		value = argv[++*index];
	if (!value || !*value) {
		snprintf(problem, PROBLEM_LENGTH, "a value is missing after %s", rows[kind].flag);
		return -EINVAL;
	}
	if (kind == OPTION_LISTEN && !*listen_given) {
		*listen_given = true;
		options->url_count = 0; /* the command line replaces the environment */
	}
	return set_option(options, kind, value, rows[kind].flag, problem);
}

int coordinator_options_parse(
	struct coordinator_options *options, int argc, char **argv, FILE *out, char problem[256])
{
	struct http_address address;
	bool listen_given = false;
	int error;

	*options = (struct coordinator_options){.ready_fd = -1};
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			fputs(help, out);
			return 1;
		}
	}
	error = read_environment(options, problem);
	for (int i = 1; i < argc && !error; i++)
		error = take_word(options, argc, argv, &i, &listen_given, problem);
	if (error)
		return -EINVAL;
	if (!options->url_count) {
		snprintf(problem, PROBLEM_LENGTH,
			"say where to listen: --listen ipc:///path or --listen tcp://address:port");
		return -EINVAL;
	}
	if (!options->record) {
		snprintf(problem, PROBLEM_LENGTH, "say where to keep the record: --record FILE");
		return -EINVAL;
	}
	if (options->http && http_address_parse(options->http, &address)) {
		snprintf(problem, PROBLEM_LENGTH,
			"--http is PORT, ADDRESS:PORT or NAME:PORT, not '%.100s'", options->http);
		return -EINVAL;
	}
	if (options->record_max_text &&
		record_max_parse(options->record_max_text, &options->record_max)) {
		snprintf(problem, PROBLEM_LENGTH,
			"--record-max is a size from 1M on, e.g. 2G, or 0 for no limit, not "
			"'%.100s'",
			options->record_max_text);
		return -EINVAL;
	}
	return alert_limits_given(&options->alert_settings, &(struct alert_limits){0}, problem)
		       ? -EINVAL
		       : 0;
}
