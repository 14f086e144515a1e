/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks with real commands and a real server: what they are told, what is limited, and that nobody waits for them. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "coordinator/hooks/command.h"
#include "coordinator/hooks/hooks.h"
#include "probe/auth/derived_key.h"

enum { WAIT_MS = 20000, TEXT_BYTES = 64 * 1024 };

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void sleep_ms(int time_ms)
{
	struct timespec time = {time_ms / 1000, time_ms % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

static struct report_rank ranks[3] = {{.host = "node-a", .totals.rank = 2},
	{.host = "-$(reboot) b\n\xff", .totals.rank = 5}, {.host = "node-a", .totals.rank = 9}};
static const struct report_model model = {.job_id = "job\x1b[1m", .ranks = ranks, .rank_count = 3};

static struct verdict made_verdict(uint32_t id)
{
	return (struct verdict){.id = id,
		.verdict_class = VERDICT_HOST_SLOW,
		.cause = CAUSE_CGROUP_THROTTLE,
		.slowdown = 1.2449,
		.rank_count = 3,
		.ranks = {2, 5, 9}};
}

static struct hook_event *made_event(enum verdict_event what, uint32_t id)
{
	struct verdict verdict = made_verdict(id);
	struct hook_event *event = NULL;

	assert_int_equal(hook_event_create(what, &verdict, &model, &event), 0);
	return event;
}

static void test_event(void **state)
{
	static const char *const wanted[] = {"INCIDENT_EVENT=recovered", "INCIDENT_ID=7",
		"INCIDENT_JOB=job?[1m", "INCIDENT_CLASS=host-slow",
		"INCIDENT_CAUSE=cgroup-throttle", "INCIDENT_RANKS=2 5 9",
		"INCIDENT_HOSTS=node-a ___reboot__b__", "INCIDENT_SLOWDOWN=1.24"};
	struct hook_event *event = made_event(VERDICT_EVENT_RECOVERED, 7);

	(void)state;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		assert_string_equal(event->variables[i], wanted[i]);
	assert_non_null(strstr(event->variables[8], "INCIDENT_TEXT=RECOVERED ranks 2, 5, 9"));
	assert_null(event->variables[9]);
	assert_int_equal(
		strncmp(event->json, "{\"event\": \"recovered\", \"verdict\": {\"id\": 7, ", 44),
		0);
	assert_int_equal(strlen(event->json), event->json_length);
	hook_event_release(event);
}

/* Delivers by noting what it got; it holds each back until it is let go. */
struct notes {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool held;
	uint32_t ids[1000];
	enum verdict_event events[1000];
	int64_t times_ms[1000];
	size_t count;
};

static bool note(void *context, struct hook_worker *worker, const struct hook_event *event)
{
	struct notes *notes = context;

	pthread_mutex_lock(&notes->mutex);
	while (notes->held && !hook_worker_is_late(worker)) {
		struct timespec wake;

		clock_gettime(CLOCK_REALTIME, &wake);
		wake.tv_nsec += 10000000;
		wake.tv_sec += wake.tv_nsec / 1000000000;
		wake.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&notes->changed, &notes->mutex, &wake);
	}
	notes->ids[notes->count] = event->incident;
	notes->times_ms[notes->count] = now_ms();
	notes->events[notes->count++] = event->event;
	pthread_mutex_unlock(&notes->mutex);
	return event->incident != 13;
}

static size_t count_of(struct notes *notes)
{
	size_t count;

	pthread_mutex_lock(&notes->mutex);
	count = notes->count;
	pthread_mutex_unlock(&notes->mutex);
	return count;
}

static void wait_for(struct notes *notes, size_t count)
{
	for (int waited = 0; count_of(notes) < count && waited < WAIT_MS; waited += 5)
		sleep_ms(5);
	assert_true(count_of(notes) >= count);
}

static void let_go(struct notes *notes)
{
	pthread_mutex_lock(&notes->mutex);
	notes->held = false;
	pthread_cond_broadcast(&notes->changed);
	pthread_mutex_unlock(&notes->mutex);
}

static void push(struct hook_worker *worker, enum verdict_event what, uint32_t id)
{
	struct hook_event *event = made_event(what, id);

	hook_worker_push(worker, event);
	hook_event_release(event);
}

static struct hook_worker *start(struct notes *notes, bool held, int period_ms)
{
	struct hook_worker *worker = NULL;

	*notes = (struct notes){.mutex = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER,
		.held = held};
	assert_int_equal(hook_worker_create(
				 &(struct hook_worker_options){
					 .deliver = note, .context = notes, .period_ms = period_ms},
				 &worker),
		0);
	return worker;
}

/* Updates of what waits are one; the end of an incident comes after its begin, whatever happens between. */
static void test_order(void **state)
{
	struct hook_worker_state last;
	static struct notes notes;
	struct hook_worker *worker = start(&notes, true, 1);

	(void)state;
	push(worker, VERDICT_EVENT_ALERT, 1);
	for (int waited = 0; waited < WAIT_MS; waited += 5) { /* it is being delivered */
		hook_worker_get_state(worker, &last);
		if (last.waiting == 0)
			break;
		sleep_ms(5);
	}
	push(worker, VERDICT_EVENT_ALERT, 13);
	for (uint32_t i = 0; i < 100; i++)
		push(worker, VERDICT_EVENT_UPDATE, 1 + 12 * (i % 2));
	push(worker, VERDICT_EVENT_RECOVERED, 1);
	hook_worker_get_state(worker, &last);
	assert_int_equal(last.waiting, 4);
	assert_int_equal(last.merged, 98);
	let_go(&notes);
	wait_for(&notes, 5);
	hook_worker_destroy(worker, WAIT_MS, &last);
	assert_int_equal(last.delivered, 3);
	assert_int_equal(last.failed, 2);
	assert_int_equal(last.dropped, 0);
	assert_int_equal(notes.events[0], VERDICT_EVENT_ALERT);
	assert_int_equal(notes.ids[1], 13);
	assert_int_equal(notes.events[4], VERDICT_EVENT_RECOVERED);
	assert_int_equal(notes.ids[4], 1);
}

/* A hook that never returns: nobody waits, what is kept is bounded, and it is given up at the end. */
static void test_bounds(void **state)
{
	struct hook_worker_state last;
	static struct notes notes;
	struct hook_worker *worker = start(&notes, true, 1);
	int64_t began_ms = now_ms();

	(void)state;
	for (uint32_t i = 1; i <= 500; i++) {
		push(worker, VERDICT_EVENT_ALERT, i);
		push(worker, VERDICT_EVENT_UPDATE, i);
	}
	assert_true(now_ms() - began_ms < 5000);
	hook_worker_get_state(worker, &last);
	assert_int_equal(last.waiting, HOOK_QUEUE_MAX);
	began_ms = now_ms();
	hook_worker_destroy(worker, 200, &last);
	assert_in_range(now_ms() - began_ms, 190, 5000);
	assert_int_equal(last.delivered + last.failed + last.dropped + last.merged, 1000);
	assert_int_equal(last.delivered, 1);
}

static void test_rate(void **state)
{
	struct hook_worker_state last;
	static struct notes notes;
	struct hook_worker *worker = start(&notes, false, 100);
	int64_t began_ms = now_ms();

	(void)state;
	for (uint32_t i = 1; i <= HOOK_BURST + 3; i++)
		push(worker, VERDICT_EVENT_ALERT, 100 + i);
	wait_for(&notes, HOOK_BURST + 3);
	assert_true(notes.times_ms[HOOK_BURST + 2] - began_ms >= 290);
	for (uint32_t i = 0; i < 5; i++)
		push(worker, VERDICT_EVENT_ALERT, 200 + i);
	began_ms = now_ms();
	hook_worker_destroy(worker, WAIT_MS, &last); /* at the end, as fast as it goes */
	assert_true(now_ms() - began_ms < 5000);
	assert_int_equal(last.delivered, HOOK_BURST + 8);
}

struct place {
	char folder[64], output[96];
};

static int set_up(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	strcpy(place->folder, "/tmp/slowrank-hooks-XXXXXX");
	assert_non_null(mkdtemp(place->folder));
	snprintf(place->output, sizeof(place->output), "%s/output", place->folder);
	setenv("OUTPUT", place->output, 1);
	signal(SIGPIPE, SIG_IGN);
	*state = place;
	return 0;
}

static int tear_down(void **state)
{
	struct place *place = *state;

	unlink(place->output);
	rmdir(place->folder);
	free(place);
	return 0;
}

static void read_output(const struct place *place, char text[TEXT_BYTES])
{
	FILE *file = fopen(place->output, "r");

	assert_non_null(file);
	text[fread(text, 1, TEXT_BYTES - 1, file)] = '\0';
	fclose(file);
}

/* One event through a command. */
static bool run(struct hook_command *command)
{
	struct hook_event *event = made_event(VERDICT_EVENT_ALERT, 3);
	struct hook_worker_state last;
	static struct notes notes;
	struct hook_worker *worker = start(&notes, false, 1);
	bool arrived = hook_command_deliver(command, worker, event);

	hook_worker_destroy(worker, 0, &last);
	hook_event_release(event);
	return arrived;
}

static void test_command(void **state)
{
	struct hook_command command = {.text = "{ cat; echo; env | grep ^INCIDENT_HOSTS=; ls -l "
					       "/proc/self/fd | grep -c ' [3-9] ->'; "
					       "cut -d' ' -f1,6 /proc/$$/stat; grep SigIgn "
					       "/proc/$$/status; } >\"$OUTPUT\"; "
					       "echo to nobody; echo to nobody >&2"};
	static char text[TEXT_BYTES];
	int open_here = dup(STDERR_FILENO), group = dup(STDERR_FILENO);
	long pid = 0, session = 1;
	char *line;

	assert_true(run(&command));
	read_output(*state, text);
	assert_int_equal(strncmp(text, "{\"event\": \"alert\", \"verdict\": {\"id\": 3, ", 40), 0);
	line = strstr(text, "\nINCIDENT_HOSTS=node-a ___reboot__b__\n");
	assert_non_null(line);
	line = strchr(line + 1, '\n') + 1;
	assert_int_equal(strncmp(line, "1\n", 2), 0); /* ls's own */
	assert_int_equal(sscanf(line + 2, "%ld %ld", &pid, &session), 2);
	assert_int_equal(pid, session);
	line = strstr(line, "SigIgn:\t");
	assert_non_null(line);
	assert_int_equal(strtoull(line + 8, NULL, 16) >> (SIGPIPE - 1) & 1, 0);
	close(open_here);
	close(group);
}

static void test_bad_commands(void **state)
{
	struct hook_command failing = {.text = "exit 3"}, missing = {.text = "/no/such/program"},
			    killed = {.text = "kill -9 $$"},
			    /* With what it started. */
		endless = {.text = "sleep 1000 & echo $! >\"$OUTPUT\"; wait", .limit_ms = 300};
	static char text[TEXT_BYTES];
	int64_t began_ms;

	assert_false(run(&failing));
	assert_true(failing.told);
	assert_false(run(&missing));
	assert_false(run(&killed));
	began_ms = now_ms();
	assert_false(run(&endless));
	assert_in_range(now_ms() - began_ms, 290, 5000);
	read_output(*state, text);
	for (int waited = 0; kill(atoi(text), 0) == 0 && waited < 2000; waited += 10) {
		char path[64], status[512] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/stat", atoi(text));
		file = fopen(path, "r");
		if (file) {
			status[fread(status, 1, sizeof(status) - 1, file)] = '\0';
			fclose(file);
		}
		if (strstr(status, ") Z ")) /* nobody reaps orphans in a container */
			return;
		sleep_ms(10);
	}
	assert_int_equal(kill(atoi(text), 0), -1);
}

/* Answers each request with the next status of the list, the last one for all others. */
struct server {
	int fd;
	uint16_t port;
	const int *statuses;
	size_t count;
	char requests[8][TEXT_BYTES];
	pthread_t thread;
};

static void serve_one(struct server *server, int fd, size_t index)
{
	char *request = server->requests[index % 8], answer[64];
	size_t length = 0, wanted = SIZE_MAX;

	while (length < wanted && length < TEXT_BYTES - 1) {
		ssize_t got = recv(fd, request + length, TEXT_BYTES - 1 - length, 0);
		const char *body, *header;

		if (got <= 0)
			break;
		length += (size_t)got;
		request[length] = '\0';
		body = strstr(request, "\r\n\r\n");
		header = strcasestr(request, "\r\nContent-Length: ");
		if (body && header)
			wanted = (size_t)(body + 4 - request) + strtoul(header + 18, NULL, 10);
	}
	snprintf(answer, sizeof(answer),
		"HTTP/1.1 %d x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		server->statuses[index]);
	(void)!send(fd, answer, strlen(answer), MSG_NOSIGNAL);
}

static void *serve(void *context)
{
	struct server *server = context;
	int fd;

	while (server->statuses[server->count] && (fd = accept(server->fd, NULL, NULL)) >= 0) {
		serve_one(server, fd, server->count++);
		close(fd);
	}
	return NULL;
}

static void server_start(struct server *server, const int *statuses)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);

	memset(server, 0, sizeof(*server));
	server->statuses = statuses;
	server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server->fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(listen(server->fd, 8), 0);
	assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &length), 0);
	server->port = ntohs(address.sin_port);
	assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

/* One event to the server's end, or to where nobody listens. Returns whether it arrived, and the retries. */
static bool post(const char *url, const char *secret, int pause_ms, uint64_t *retries)
{
	struct hook_event *event = made_event(VERDICT_EVENT_ALERT, 3);
	struct hook_worker_state last;
	static struct notes notes;
	struct hook_worker *worker = start(&notes, false, 1);
	struct webhook *webhook = NULL;
	char why[WEBHOOK_WHY_LENGTH];
	bool arrived;

	assert_int_equal(webhook_create(
				 &(struct webhook_options){
					 .url = url, .secret = secret, .first_pause_ms = pause_ms},
				 &webhook, why),
		0);
	arrived = webhook_deliver(webhook, worker, event);
	*retries = webhook_retries(webhook);
	webhook_destroy(webhook);
	hook_worker_destroy(worker, 0, &last);
	hook_event_release(event);
	return arrived;
}

static void check_signature(const char *request, const char *secret)
{
	const char *body = strstr(request, "\r\n\r\n"),
		   *stamp = strstr(request, "\r\nX-Slowrank-Timestamp: "),
		   *signature = strstr(request, "\r\nX-Slowrank-Signature: sha256=");
	static char signed_text[TEXT_BYTES];
	char digest[DERIVED_KEY_LENGTH];
	long long seconds;

	assert_non_null(body);
	assert_non_null(stamp);
	assert_non_null(signature);
	seconds = strtoll(stamp + strlen("\r\nX-Slowrank-Timestamp: "), NULL, 10);
	assert_in_range(seconds, time(NULL) - 60, time(NULL));
	snprintf(signed_text, sizeof(signed_text), "%lld.%s", seconds, body + 4);
	assert_int_equal(derived_key_sign(secret, signed_text, strlen(signed_text), digest), 0);
	assert_int_equal(
		strncmp(signature + strlen("\r\nX-Slowrank-Signature: sha256="), digest, 64), 0);
}

/* It fails twice first. */
static void test_webhook(void **state)
{
	static const int statuses[] = {500, 429, 204, 0};
	static const char secret[DERIVED_KEY_LENGTH] =
		"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
	static struct server server;
	int64_t began_ms = now_ms();
	uint64_t retries;
	char url[64];

	(void)state;
	server_start(&server, statuses);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/hook?x=1", server.port);
	assert_true(post(url, secret, 100, &retries));
	assert_int_equal(retries, 2);
	assert_true(now_ms() - began_ms >= 300); /* 100 and 200 */
	pthread_join(server.thread, NULL);
	close(server.fd);
	for (size_t i = 0; i < 3; i++) {
		const char *request = server.requests[i];

		assert_int_equal(strncmp(request, "POST /hook?x=1 HTTP/1.1\r\n", 25), 0);
		assert_non_null(strstr(request, "\r\nContent-Type: application/json\r\n"));
		assert_non_null(strstr(
			request, "\r\n\r\n{\"event\": \"alert\", \"verdict\": {\"id\": 3, "));
		check_signature(request, secret);
	}
}

static void test_webhook_refused(void **state)
{
	static const int statuses[] = {403, 0};
	static struct server server;
	uint64_t retries;
	char url[64];

	(void)state;
	server_start(&server, statuses);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", server.port);
	assert_false(post(url, NULL, 1, &retries));
	assert_int_equal(retries, 0);
	pthread_join(server.thread, NULL);
	assert_null(strstr(server.requests[0], "X-Slowrank-Signature"));
	close(server.fd);
	assert_false(post(url, NULL, 1, &retries)); /* nobody listens */
	assert_int_equal(retries, WEBHOOK_TRIES - 1);
}

/* Both at once, from the coordinator's side; what comes last arrives, too. */
static void test_hooks(void **state)
{
	static const int statuses[] = {200, 200, 0};
	static struct server server;
	struct verdict verdict = made_verdict(4);
	struct hooks_options options = {
		.command = "echo \"$INCIDENT_EVENT $INCIDENT_RANKS\" >>\"$OUTPUT\""};
	char why[WEBHOOK_WHY_LENGTH], url[64];
	static char text[TEXT_BYTES];
	struct hooks_state counts;
	struct hooks *hooks = NULL;

	server_start(&server, statuses);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", server.port);
	options.webhook.url = url;
	assert_int_equal(hooks_create(&options, &hooks, why), 0);
	hooks_tell(hooks, VERDICT_EVENT_ALERT, &verdict, &model);
	hooks_tell(hooks, VERDICT_EVENT_RECOVERED, &verdict, &model);
	hooks_get_state(hooks, &counts);
	assert_true(counts.has_command && counts.has_webhook);
	hooks_destroy(hooks);
	pthread_join(server.thread, NULL);
	close(server.fd);
	read_output(*state, text);
	assert_string_equal(text, "alert 2 5 9\nrecovered 2 5 9\n");
	assert_non_null(strstr(server.requests[1], "{\"event\": \"recovered\""));
	options.webhook.url = "file:///etc/passwd";
	assert_int_equal(hooks_create(&options, &hooks, why), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_event),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_rate),
		cmocka_unit_test_setup_teardown(test_command, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bad_commands, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_webhook, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_webhook_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_hooks, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
