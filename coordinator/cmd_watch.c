/* SPDX-License-Identifier: Apache-2.0 */
/* slowrank watch: a job in the terminal, while it runs or from its record. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "coordinator/commands.h"
#include "coordinator/report/text.h"
#include "coordinator/watch/lines.h"
#include "coordinator/watch/screen.h"
#include "coordinator/watch/terminal.h"
#include "coordinator/watch_source.h"
#include "coordinator/words.h"

enum {
	STATUS_OK = 0,
	STATUS_BAD = 2, /* bad usage, nothing to watch, or input that is not (all) readable */
	EVERY_S = 10,
	DRAW_MS = 100, /* between two drawings */
	KEY_ENTER = '\n',
	KEY_RETURN = '\r',
	KEY_ESCAPE = '\033',
	KEY_DELETE = 0x7f,
	KEY_BACKSPACE = '\b',
	OUT_BYTES = 64 * 1024,
};

struct watch_options {
	const char *place, *key_file;
	struct watch_wish wish;
	bool lines;
	unsigned every_s;
};

/* All that is seen of a job. */
struct watched {
	const struct watch_options *options;
	struct watch_source *source;
	struct watch_wish wish;
	bool wish_changed, has_view, by_node, quits;
	char asked; /* 'r' or 'h': what is typed now; 0: nothing is */
	char typed[WATCH_WORDS_LENGTH];
	struct watch_view view;
	struct watch_lines lines;
	struct screen screens[2]; /* what is shown, and what is to be */
	bool shown;		  /* which of them is */
	FILE *out;		  /* the terminal */
};

static const char usage[] =
	"usage: slowrank watch [JOB] [OPTION...]\n\n"
	"Shows a job in the terminal: incidents with what to do on top, and below how late each "
	"rank\n"
	"is by itself, how long it waits, and what its steps are made of. JOB is the address of "
	"its\n"
	"coordinator ([ADDRESS:]PORT of --http, or a URL), or a record, also one that is still "
	"being\n"
	"written. Default: SLOWRANK_HTTP, else http://127.0.0.1:9400. Into a pipe it writes lines: "
	"one\n"
	"when an incident begins, changes or ends, and one about the job now and then.\n\n"
	"  --ranks LIST         of these ranks: 0-7,12\n"
	"  --host PATTERN       of ranks on these hosts, e.g. 'node-1*'\n"
	"  --named              of ranks that open incidents name\n"
	"  --lines              lines, in a terminal too\n"
	"  --every SECONDS      from one line about the job to the next, in the job's time "
	"(default: 10)\n"
	"  --key-file FILE      the job's key, for a coordinator of another host "
	"(SLOWRANK_KEY_FILE;\n"
	"                       default: ~/.config/slowrank/key)\n"
	"  --help               this text\n\n"
	"Keys:\n\n"
	"  q                    quit\n"
	"  r                    type ranks, as of --ranks; Enter takes them, Escape does not\n"
	"  h                    type a host, as of --host\n"
	"  o                    only what open incidents name, as --named\n"
	"  n                    nodes, or ranks again\n"
	"  a                    all of it\n\n"
	"--ranks, --host and --every have an environment variable each: SLOWRANK_RANKS, and so "
	"on.\n"
	"Exit status: 0, when the job has ended or q was pressed; 2 for bad usage, where there is "
	"nothing\n"
	"to watch, and for a record that is damaged or cut short.\n";

static int complain(const char *problem, const char *word)
{
	return words_complain("watch", problem, word);
}

/* Returns -1 to go on, or the exit status. */
static int take_values(
	struct watch_options *options, const char *ranks, const char *host, const char *every)
{
	char *end;
	unsigned long seconds = EVERY_S;

	if (!watch_wish_set(&options->wish, ranks, NULL))
		return complain("ranks are numbers and ranges as 0-7,12, not", ranks);
	if (!watch_wish_set(&options->wish, NULL, host))
		return complain("a host's name is not as long as", host);
	if (every) {
		errno = 0;
		seconds = strtoul(every, &end, 10);
		if (!isdigit((unsigned char)*every) || *end || errno || !seconds ||
			seconds > 1000000)
			return complain("a number of seconds is 1 and more, not", every);
	}
	options->every_s = (unsigned)seconds;
	return -1;
}

/* Returns -1 to go on, or the exit status. */
static int parse(struct watch_options *options, int argc, char **argv)
{
	const char *ranks, *host, *every;
	const struct words_option list[] = {
		{"--ranks", "SLOWRANK_RANKS", &ranks, NULL},
		{"--host", "SLOWRANK_HOST", &host, NULL},
		{"--every", "SLOWRANK_EVERY", &every, NULL},
		{"--key-file", "SLOWRANK_KEY_FILE", &options->key_file, NULL},
		{"--named", NULL, NULL, &options->wish.named},
		{"--lines", NULL, NULL, &options->lines},
	};
	struct words words = {.command = "watch",
		.usage = usage,
		.options = list,
		.option_count = WORDS_IN(list)};
	int status = words_take(&words, argc, argv);

	if (status >= 0)
		return status;
	if (words.other_count > 1)
		return complain("one job at a time, not also", words.others[1]);
	options->place = words.other_count ? words.others[0] : NULL;
	return take_values(options, ranks, host, every);
}

/* Until the job ends. Returns the exit status. */
static int write_lines(struct watched *watched)
{
	char why[WATCH_SOURCE_WHY_LENGTH];
	int news = WATCH_NOTHING;

	watched->lines.every_ns = watched->options->every_s * INT64_C(1000000000);
	while (news != WATCH_ENDED) {
		news = watch_source_next(
			watched->source, &watched->wish, false, &watched->view, why);
		if (news < 0) {
			fprintf(stderr, "slowrank watch: %s\n", why);
			return STATUS_BAD;
		}
		if (news != WATCH_NOTHING)
			watch_lines_write(
				&watched->lines, &watched->view, news == WATCH_ENDED, stdout);
		if (fflush(stdout) || ferror(stdout))
			return STATUS_BAD; /* nobody reads it any more */
		if (news == WATCH_NOTHING)
			usleep((useconds_t)watch_source_wait_ms(watched->source) * 1000);
	}
	return watch_source_is_whole(watched->source) ? STATUS_OK : STATUS_BAD;
}

/* Returns 0 or why the terminal could not be written to. */
static int draw(struct watched *watched)
{
	char prompt[WATCH_WORDS_LENGTH + 32];
	const struct screen_state state = {
		.source = watch_source_name(watched->source),
		.note = watched->has_view ? watch_source_note(watched->source)
					  : "waiting for a step",
		.prompt = watched->asked ? prompt : NULL,
		.by_node = watched->by_node,
	};
	struct screen *shown = &watched->screens[watched->shown],
		      *now = &watched->screens[!watched->shown];
	size_t rows, columns;
	bool colour = report_text_colour_wanted(true), all = terminal_take_change();

	snprintf(prompt, sizeof(prompt), "%s: %s", watched->asked == 'h' ? "host" : "ranks",
		watched->typed);
	terminal_get_size(&rows, &columns);
	screen_draw(now, rows, columns, watched->has_view ? &watched->view : NULL, &watched->wish,
		&state);
	watched->shown = !watched->shown;
	errno = 0;
	return screen_update(all ? NULL : shown, now, colour, watched->out);
}

/* What is typed behind a prompt. */
static void take_typed(struct watched *watched, int key)
{
	size_t length = strlen(watched->typed);
	bool hosts = watched->asked == 'h';

	if (key == KEY_ESCAPE) {
		watched->asked = 0;
	} else if (key == KEY_ENTER || key == KEY_RETURN) {
		if (watch_wish_set(&watched->wish, hosts ? NULL : watched->typed,
			    hosts ? watched->typed : NULL)) {
			watched->asked = 0; /* else it is typed better */
			watched->wish_changed = true;
		}
	} else if ((key == KEY_DELETE || key == KEY_BACKSPACE) && length) {
		watched->typed[length - 1] = '\0';
	} else if (isprint(key) && length + 1 < sizeof(watched->typed)) {
		watched->typed[length] = (char)key;
		watched->typed[length + 1] = '\0';
	}
}

static void take_key(struct watched *watched, int key)
{
	if (watched->asked) {
		take_typed(watched, key);
		return;
	}
	switch (key) {
	case 'q':
		watched->quits = true;
		break;
	case 'r':
	case 'h':
		watched->asked = (char)key;
		watched->typed[0] = '\0';
		break;
	case 'o':
		watched->wish.named = !watched->wish.named;
		watched->wish_changed = true;
		break;
	case 'n':
		watched->by_node = !watched->by_node;
		break;
	case 'a':
		watched->wish = (struct watch_wish){0};
		watched->wish_changed = true;
		break;
	default:
		break;
	}
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Until q, or a signal. Returns 0 or a negative errno; then why is one line. */
static int show(struct watched *watched, char *why)
{
	int64_t drawn_ms = 0;
	bool pressed = true;
	int news, key, error;

	while (!watched->quits && !terminal_signal()) {
		news = watch_source_next(watched->source, &watched->wish, watched->wish_changed,
			&watched->view, why);
		if (news < 0)
			return news;
		watched->wish_changed &= news == WATCH_NOTHING;
		watched->has_view |= news != WATCH_NOTHING;
		if (pressed || now_ms() - drawn_ms >= DRAW_MS) {
			error = draw(watched);
			if (error) {
				snprintf(why, WATCH_SOURCE_WHY_LENGTH,
					"cannot write to the terminal: %s", strerror(-error));
				return error;
			}
			drawn_ms = now_ms();
		}
		key = terminal_key(watch_source_wait_ms(watched->source));
		for (pressed = key; key; key = terminal_key(0))
			take_key(watched, key);
	}
	return 0;
}

/* Returns the exit status. */
static int show_screen(struct watched *watched)
{
	char why[WATCH_SOURCE_WHY_LENGTH];
	int error = 0;

	watched->out = fdopen(dup(STDOUT_FILENO), "we");
	if (!watched->out || setvbuf(watched->out, NULL, _IOFBF, OUT_BYTES))
		error = -errno;
	if (!error)
		error = terminal_enter();
	if (error) {
		fprintf(stderr, "slowrank watch: cannot use the terminal: %s\n", strerror(-error));
		return STATUS_BAD;
	}
	error = show(watched, why);
	terminal_leave();
	fclose(watched->out);
	if (terminal_signal())
		terminal_end_by(terminal_signal());
	if (error)
		fprintf(stderr, "slowrank watch: %s\n", why);
	return error || !watch_source_is_whole(watched->source) ? STATUS_BAD : STATUS_OK;
}

int cmd_watch(int argc, char **argv)
{
	const char *terminal = getenv("TERM");
	struct watch_options options = {0};
	struct watched *watched;
	char why[WATCH_SOURCE_WHY_LENGTH];
	int status = parse(&options, argc, argv);

	if (status >= 0)
		return status;
	options.lines |=
		!isatty(STDOUT_FILENO) || !terminal || !*terminal || strcmp(terminal, "dumb") == 0;
	watched = calloc(1, sizeof(*watched));
	if (!watched) {
		fprintf(stderr, "slowrank watch: out of memory\n");
		return STATUS_BAD;
	}
	watched->options = &options;
	watched->wish = options.wish;
	const struct watch_source_options source_options = {.place = options.place,
		.key_file = options.key_file,
		.silent = !options.lines,
		.is_wanted = options.lines ? NULL : terminal_is_wanted};

	status = STATUS_BAD;
	if (watch_source_open(&source_options, &watched->source, why)) {
		if (*why)
			fprintf(stderr, "slowrank watch: %s\n", why);
	} else {
		status = options.lines ? write_lines(watched) : show_screen(watched);
		watch_source_close(watched->source);
	}
	free(watched);
	return status;
}
