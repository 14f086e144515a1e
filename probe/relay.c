/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/relay.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/terminal_text.h"

enum {
	TICK_MS = 20,	      /* how often a write that waits looks at the time */
	LATE_MS = 200,	      /* the gate's process needs this to open it by itself */
	HOLD_LOOK_MS = 450,   /* the coordinator, when it is alone, looks around every 200 ms */
	STATUS_MS = 50,	      /* from a probe's last message to its end */
	MESSAGE_LENGTH = 256, /* of a line of our own */
	SAID_LENGTH = 4096,   /* at once */
};

struct relay {
	const struct relay_options *options;
	struct terminal_text text;
	int messages;	     /* -1: nobody writes any more */
	int target, probe;   /* -1: it has ended, or cannot be watched */
	int status;	     /* of the probe */
	int64_t late_ms;     /* when a probe that is not ready is told to be late; 0: settled */
	int64_t deadline_ms; /* 0: the command runs */
	int64_t held_ns;     /* of the coordinator's CPU time, when it was last looked at */
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool has_ended(int fd, int timeout_ms)
{
	struct pollfd waited = {.fd = fd, .events = POLLIN};

	return poll(&waited, 1, timeout_ms) > 0;
}

static void look_at_target(struct relay *relay)
{
	if (relay->target < 0 || !has_ended(relay->target, 0))
		return;
	close(relay->target);
	relay->target = -1;
	relay->deadline_ms = now_ms() + RELAY_LIMIT_MS;
}

static bool time_is_up(struct relay *relay)
{
	int64_t now = now_ms(), later = now + HOLD_LOOK_MS;

	if (!relay->deadline_ms || now < relay->deadline_ms)
		return false;
	if (!end_hold_goes_on(relay->options->hold, &relay->held_ns, later))
		return true;
	relay->deadline_ms = later;
	return false;
}

static void on_tick(int number)
{
	(void)number;
}

static void set_tick(int period_ms)
{
	struct timeval period = {.tv_usec = period_ms * 1000};

	setitimer(ITIMER_REAL, &(struct itimerval){period, period}, NULL);
}

/* Waits for its reader as long as the command runs. What waits behind it is in the pipe, whose
 * writers do not wait. */
static void say(struct relay *relay, const char *said, size_t said_length)
{
	char clean[SAID_LENGTH + TERMINAL_TEXT_HELD_MAX], *text = clean;
	size_t length = terminal_text_clean(&relay->text, said, said_length, clean);

	set_tick(TICK_MS);
	while (length > 0) {
		ssize_t written = write(STDERR_FILENO, text, length);

		if (written > 0) {
			text += written;
			length -= (size_t)written;
			continue;
		}
		if (written < 0 && errno == EAGAIN) /* of the job, which made it so */
			(void)!poll(NULL, 0, TICK_MS);
		else if (written < 0 && errno != EINTR)
			break;
		look_at_target(relay);
		if (time_is_up(relay))
			break;
	}
	set_tick(0);
}

static void copy(struct relay *relay)
{
	char bytes[SAID_LENGTH];
	ssize_t length = read(relay->messages, bytes, sizeof(bytes));

	if (length > 0) {
		say(relay, bytes, (size_t)length);
	} else if (length == 0 || errno != EINTR) {
		close(relay->messages);
		relay->messages = -1;
	}
}

static void tell_end_of_probe(struct relay *relay)
{
	char line[MESSAGE_LENGTH];
	siginfo_t info = {0};

	close(relay->probe);
	relay->probe = -1;
	if (waitid(P_PID, (id_t)relay->options->probe, &info, WEXITED) < 0)
		return;
	relay->status = info.si_code == CLD_EXITED ? info.si_status : 0;
	if (!relay->options->gate && !relay->deadline_ms)
		relay->deadline_ms = now_ms() + RELAY_LIMIT_MS;
	/* One that ended by itself said why. */
	if (info.si_code == CLD_EXITED || (relay->deadline_ms && relay->options->gate))
		return;
	snprintf(line, sizeof(line),
		"slowrank: the probe ended early (signal %d); the job goes on, and from here it is "
		"not watched\n",
		info.si_status);
	say(relay, line, strlen(line));
}

static bool probe_is_late(const struct relay *relay)
{
	return relay->options->gate && start_gate_probe_is_late(relay->options->gate);
}

static void tell_late(struct relay *relay)
{
	static const char line[] =
		"slowrank: the probe was not ready in time; the job has started, and is not "
		"watched until it is\n";

	relay->late_ms = 0;
	if (probe_is_late(relay) && relay->probe >= 0)
		say(relay, line, strlen(line));
}

/* What is at work goes on without us. A probe that was never ready has nothing to finish. */
static void end_in_time(struct relay *relay)
{
	const char *line = relay->options->unfinished;

	if (relay->probe >= 0 && probe_is_late(relay))
		kill(relay->options->probe, SIGKILL);
	else if (line)
		say(relay, line, strlen(line));
}

static int until_next_ms(const struct relay *relay)
{
	int64_t next_ms = relay->deadline_ms ? relay->deadline_ms : relay->late_ms;
	int64_t wait_ms = next_ms - now_ms();

	if (!next_ms)
		return -1;
	return wait_ms < 0 ? 0 : (int)wait_ms;
}

static void turn(struct relay *relay)
{
	struct pollfd waited[] = {
		{.fd = relay->messages, .events = POLLIN},
		{.fd = relay->target, .events = POLLIN},
		{.fd = relay->probe, .events = POLLIN},
	};

	(void)!poll(waited, 3, until_next_ms(relay));
	look_at_target(relay);
	if (relay->messages >= 0 && waited[0].revents)
		copy(relay);
	if (relay->probe >= 0 && waited[2].revents)
		tell_end_of_probe(relay);
	if (relay->late_ms && now_ms() >= relay->late_ms)
		tell_late(relay);
}

int relay_run(const struct relay_options *options)
{
	struct relay relay = {.options = options,
		.messages = options->messages,
		.target = options->target,
		.probe = (int)syscall(SYS_pidfd_open, options->probe, 0),
		.late_ms = now_ms() + START_LIMIT_MS + LATE_MS};
	struct sigaction tick = {.sa_handler = on_tick}; /* without SA_RESTART */
	sigset_t alarm_only;

	sigaction(SIGALRM, &tick, NULL);
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
	signal(SIGPIPE, SIG_IGN);
	while (relay.messages >= 0 || (relay.probe >= 0 && !relay.deadline_ms)) {
		turn(&relay);
		if (time_is_up(&relay)) {
			end_in_time(&relay);
			break;
		}
	}
	if (relay.probe >= 0 && relay.messages < 0 && has_ended(relay.probe, STATUS_MS))
		tell_end_of_probe(&relay);
	return relay.status;
}
