/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/watch/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { ROWS = 24, COLUMNS = 80, SEQUENCE_MS = 30 };

static struct {
	bool entered, has_keys;
	struct termios before;
	volatile sig_atomic_t signal, changed, stopped;
} terminal;

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void on_end(int signal)
{
	terminal.signal = signal;
}

static void on_change(int signal)
{
	(void)signal;
	terminal.changed = 1;
}

static void on_stop(int signal)
{
	(void)signal;
	terminal.stopped = 1;
}

static void write_text(const char *text)
{
	size_t length = strlen(text);

	while (length) {
		ssize_t written = write(STDOUT_FILENO, text, length);

		if (written < 0 && errno != EINTR)
			return; /* nobody reads it any more: the next drawing says so */
		text += written > 0 ? written : 0;
		length -= written > 0 ? (size_t)written : 0;
	}
}

/* The other screen, without a cursor, and lines that are cut at its edge. */
static void take_screen(void)
{
	struct termios raw = terminal.before;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	if (terminal.has_keys)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	write_text("\033[?1049h\033[?25l\033[?7l\033[2J");
	terminal.changed = 1;
}

static void give_screen(void)
{
	write_text("\033[0m\033[?7h\033[?25h\033[?1049l");
	if (terminal.has_keys)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal.before);
}

int terminal_enter(void)
{
	struct sigaction end = {.sa_handler = on_end}, change = {.sa_handler = on_change},
			 stop = {.sa_handler = on_stop};

	terminal.has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &terminal.before) == 0;
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		if (sigaction(ending[i], &end, NULL) < 0)
			return -errno;
	}
	if (sigaction(SIGWINCH, &change, NULL) < 0 || sigaction(SIGTSTP, &stop, NULL) < 0)
		return -errno;
	terminal.entered = true;
	take_screen();
	return 0;
}

void terminal_leave(void)
{
	if (terminal.entered)
		give_screen();
	terminal.entered = false;
}

void terminal_get_size(size_t *rows, size_t *columns)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col)
		size = (struct winsize){.ws_row = ROWS, .ws_col = COLUMNS};
	*rows = size.ws_row;
	*columns = size.ws_col;
}

int terminal_signal(void)
{
	return terminal.signal;
}

void terminal_end_by(int number)
{
	signal(number, SIG_DFL);
	raise(number);
	_exit(128 + number);
}

bool terminal_take_change(void)
{
	bool changed = terminal.changed;

	terminal.changed = 0;
	return changed;
}

bool terminal_is_wanted(void)
{
	struct pollfd keys = {.fd = terminal.has_keys ? STDIN_FILENO : -1, .events = POLLIN};

	return terminal.signal || terminal.stopped || terminal.changed ||
	       (poll(&keys, 1, 0) > 0 && keys.revents & POLLIN);
}

/* Ctrl-Z: the shell gets its screen, and gives it back. */
static void stop_here(void)
{
	terminal.stopped = 0;
	give_screen();
	raise(SIGSTOP);
	take_screen();
}

static bool is_key_there(int timeout_ms)
{
	struct pollfd keys = {.fd = terminal.has_keys ? STDIN_FILENO : -1, .events = POLLIN};

	return poll(&keys, 1, timeout_ms) > 0;
}

int terminal_key(int timeout_ms)
{
	unsigned char key, rest[16];

	if (terminal.stopped)
		stop_here();
	if (terminal.signal || terminal.changed || !is_key_there(timeout_ms))
		return 0;
	if (read(STDIN_FILENO, &key, 1) != 1) {
		terminal.has_keys = false; /* it has ended */
		return 0;
	}
	if (key == '\033' && is_key_there(SEQUENCE_MS))
		return read(STDIN_FILENO, rest, sizeof(rest)) < 0 ? '\033' : 0;
	return key;
}
