/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The uplink against the real listener over ipc: in this process, and in one of its own
 * (this program again, with "serve URL LOG") that is killed and started again.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/supplemental/tls/tls.h>

#include "coordinator/listener.h"
#include "probe/auth/seal.h"
#include "probe/uplink.h"
#include "probe/uplink_connection.h"
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"
#include "tests/unit/wire/random_batch.h"

extern char **environ;

enum { FLUSH_MS = 20000, NUMBERS_MAX = 4096 };

struct service {
	size_t count;
	uint64_t numbers[NUMBERS_MAX]; /* of the batches, in the order they came */
	struct message_batch last;     /* its fields; without its arrays */
	bool refuse;
	bool other_job; /* refuses with DIRECTIVE_OTHER_JOB */
	bool answers;	/* questions, too */
	int delay_ms;
	int log_fd; /* -1, or where each number goes as 8 bytes */
};

static void sleep_ms(int time_ms)
{
	struct timespec time = {time_ms / 1000, time_ms % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

static struct host_ns host_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (struct host_ns){now.tv_sec * INT64_C(1000000000) + now.tv_nsec};
}

static int serve(void *context, const void *bytes, size_t length, struct job_ns received,
	struct message_reply *reply)
{
	struct service *service = context;
	struct message_batch *batch;

	(void)received;
	if (wire_decode_batch(bytes, length, &batch, reply->why))
		return 0;
	if (service->count < NUMBERS_MAX)
		service->numbers[service->count++] = batch->number;
	if (service->log_fd >= 0 && write(service->log_fd, &batch->number, 8) != 8)
		abort();
	service->last = *batch;
	reply->probe_id = batch->probe_id;
	reply->number = batch->number;
	reply->accepted = !service->refuse && !service->other_job;
	if (service->other_job)
		reply->directives[reply->directive_count++] =
			(struct message_directive){.kind = DIRECTIVE_OTHER_JOB};
	if (service->refuse)
		snprintf(reply->why, sizeof(reply->why), "this job is not welcome");
	message_batch_destroy(batch);
	sleep_ms(service->delay_ms);
	return 0;
}

/* Says the rank back, in the third answer to an asker. */
static int serve_question(void *context, const struct message_question *question,
	struct job_ns received, struct message_answer *answer)
{
	struct service *service = context;

	(void)received;
	service->numbers[service->count++] = question->asker_id;
	answer->state = service->count < 3 ? ANSWER_WAIT : ANSWER_REFUSED;
	answer->pid = question->rank;
	snprintf(answer->why, sizeof(answer->why), "no look in this test");
	return 0;
}

static const uint8_t key[SEAL_KEY_BYTES] = {1, 2, 3}, other_key[SEAL_KEY_BYTES] = {1, 2, 4};

/* Where a URL is beyond the loopback, with the key. */
static struct listener *listen_at(struct service *service, const char *url)
{
	const char *urls[] = {url};
	struct listener_options options = {.urls = urls,
		.url_count = 1,
		.on_request = serve,
		.on_question = service->answers ? serve_question : NULL,
		.context = service,
		.key = key};
	struct listener *listener = NULL;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	if (listener_create(&options, &listener, why)) {
		fprintf(stderr, "%s\n", why);
		abort();
	}
	return listener;
}

static void ipc_url(char url[64])
{
	snprintf(url, 64, "ipc:///tmp/slowrank-uplink-%d", (int)getpid());
}

/* Of this test's process. */
static const char *spool_name(void)
{
	static char name[40];

	snprintf(name, sizeof(name), "slowrank-uplink-%d", (int)getpid());
	return name;
}

/* One batch with something in it; sample_count sets its size. */
static int send_batch(struct uplink *uplink, uint64_t number, size_t sample_count)
{
	struct metric_sample samples[200];
	struct message_batch batch = {
		.probe_id = 77, .number = number, .sample_count = sample_count, .samples = samples};

	for (size_t i = 0; i < sample_count; i++)
		samples[i] = (struct metric_sample){.rank = 1,
			.metric = METRIC_PROCESS_CPU_NS,
			.time = host_now(),
			.value = (int64_t)(number << 20)};
	return uplink_send(uplink, &batch, host_now());
}

static struct uplink *connect_with(const char *url, const uint8_t *its_key)
{
	struct uplink_options options = {
		.url = url, .spool_folder = "/tmp", .spool_name = spool_name(), .key = its_key};
	struct uplink *uplink = NULL;

	assert_int_equal(uplink_create(&options, &uplink), 0);
	return uplink;
}

static struct uplink *connect_to(const char *url)
{
	return connect_with(url, NULL);
}

/* Every number from 0 to count - 1 came, in order; doubles only of the newest one. */
static void check_numbers(const uint64_t *numbers, size_t length, uint64_t count)
{
	uint64_t next = 0;

	for (size_t i = 0; i < length; i++) {
		assert_true(numbers[i] == next || (next > 0 && numbers[i] == next - 1));
		if (numbers[i] == next)
			next++;
	}
	assert_int_equal(next, count);
}

static void test_coordinator_starts_later(void **state)
{
	struct service service = {.log_fd = -1};
	struct listener *listener;
	struct uplink_state found;
	struct uplink *uplink;
	char url[64];

	(void)state;
	ipc_url(url);
	uplink = connect_to(url);
	for (uint64_t i = 0; i < 50; i++)
		assert_int_equal(send_batch(uplink, i, 20), 0);
	assert_int_equal(uplink_flush(uplink, 50), -ETIMEDOUT);
	uplink_get_state(uplink, &found);
	assert_false(found.connected);
	assert_int_equal(found.batches_pending, 50);
	listener = listen_at(&service, url);
	assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
	uplink_get_state(uplink, &found);
	assert_true(found.connected);
	assert_int_equal(found.batches_acknowledged, 50);
	assert_int_equal(found.batches_pending, 0);
	assert_int_equal(found.batches_lost, 0);
	assert_true(found.bytes_sent > 0);
	listener_destroy(listener);
	check_numbers(service.numbers, service.count, 50);
	uplink_destroy(uplink);
}

static pid_t start_server(const char *url, const char *log)
{
	char *const arguments[] = {"test_uplink", "serve", (char *)url, (char *)log, NULL};
	pid_t pid;

	assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
	return pid;
}

/* SIGKILL between and during exchanges, a pause, and a new coordinator at the same place. */
static void check_restarts(const char *url, const char *dialled, const uint8_t *its_key)
{
	char log[] = "/tmp/slowrank-uplink-log-XXXXXX";
	static uint64_t numbers[NUMBERS_MAX];
	int log_fd = mkstemp(log);
	struct uplink_state found;
	struct uplink *uplink;
	uint64_t number = 0;
	ssize_t length;

	uplink = connect_with(dialled, its_key);
	for (int life = 0; life < 4; life++) {
		pid_t pid = start_server(url, log);

		for (int i = 0; i < 60; i++) {
			assert_int_equal(send_batch(uplink, number++, 20), 0);
			sleep_ms(3);
		}
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		for (int i = 0; i < 10; i++) /* nobody there */
			assert_int_equal(send_batch(uplink, number++, 20), 0);
	}
	pid_t pid = start_server(url, log);

	assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
	uplink_get_state(uplink, &found);
	assert_int_equal(found.batches_acknowledged, number);
	assert_int_equal(found.batches_lost, 0);
	uplink_destroy(uplink);
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	length = read(log_fd, numbers, sizeof(numbers));
	assert_true(length > 0);
	check_numbers(numbers, (size_t)length / 8, number);
	close(log_fd);
	unlink(log);
}

static void test_coordinator_is_killed_and_restarted(void **state)
{
	char url[64];

	(void)state;
	ipc_url(url);
	check_restarts(url, url, NULL);
	unlink(url + strlen("ipc://"));
}

/* Each coordinator has a nonce of its own; what was proven with the one before is proven again. */
static void test_the_same_with_a_key(void **state)
{
	char url[64], dialled[64];
	int port = 20000 + (int)getpid() % 4000;

	(void)state;
	snprintf(url, sizeof(url), "tcp://0.0.0.0:%d", port);
	snprintf(dialled, sizeof(dialled), "tcp://127.0.0.1:%d", port);
	check_restarts(url, dialled, key);
}

/* Listens where a proof is asked for; *dialled: how a probe gets there. */
static struct listener *listen_beyond(struct service *service, char dialled[64])
{
	struct listener *listener = listen_at(service, "tcp://0.0.0.0:0");

	snprintf(dialled, 64, "tcp://127.0.0.1%s", strrchr(listener_url(listener, 0), ':'));
	return listener;
}

/* A probe with another key, and one with none: nothing of theirs is taken, and both learn it. */
static void test_other_key(void **state)
{
	struct service service = {.log_fd = -1};
	struct listener_state listened;
	struct uplink *stranger, *naked, *probe;
	struct uplink_state found;
	struct listener *listener;
	char url[64];

	(void)state;
	listener = listen_beyond(&service, url);
	stranger = connect_with(url, other_key);
	naked = connect_with(url, NULL);
	probe = connect_with(url, key);
	assert_int_equal(send_batch(stranger, 0, 1), 0);
	assert_int_equal(send_batch(naked, 0, 1), 0);
	assert_int_equal(uplink_flush(naked, FLUSH_MS), 0);
	assert_int_equal(uplink_flush(stranger, 300), -ETIMEDOUT);
	uplink_get_state(stranger, &found);
	assert_false(found.proven);
	assert_true(found.replies_unproven > 0);
	assert_int_equal(found.batches_acknowledged + found.batches_lost, 0);
	uplink_get_state(naked, &found);
	assert_non_null(strstr(found.refused, "SLOWRANK_KEY_FILE"));
	assert_int_equal(service.count, 0);
	assert_int_equal(send_batch(probe, 0, 1), 0);
	assert_int_equal(uplink_flush(probe, FLUSH_MS), 0);
	uplink_get_state(probe, &found);
	assert_true(found.proven);
	assert_int_equal(found.replies_unproven, 0);
	assert_int_equal(service.count, 1);
	listener_get_state(listener, &listened);
	assert_true(listened.refused[GATE_OTHER_KEY] > 0);
	assert_int_equal(listened.refused[GATE_UNPROVEN], 1);
	uplink_destroy(stranger);
	uplink_destroy(naked);
	uplink_destroy(probe);
	listener_destroy(listener);
}

static struct uplink *ask_at(const char *url, const uint8_t *its_key)
{
	const struct uplink_options options = {.url = url, .asks = true, .key = its_key};
	struct uplink *uplink = NULL;

	assert_int_equal(uplink_create(&options, &uplink), 0);
	return uplink;
}

/* One question and its answer, or NULL: *found says why. */
static struct message_answer *answer_of(struct uplink *uplink, struct uplink_state *found)
{
	const struct message_question question = {
		.asker_id = 99, .kind = DIRECTIVE_STACKS, .rank = 1234};
	struct message_answer *answer;

	assert_int_equal(uplink_ask(uplink, &question), 0);
	assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
	uplink_get_state(uplink, found);
	answer = uplink_take_answer(uplink);
	assert_null(uplink_take_answer(uplink));
	return answer;
}

static void check_questions(struct uplink *uplink, struct service *service)
{
	struct message_answer *answer;
	struct uplink_state found;

	for (size_t i = 1; i <= 3; i++) {
		answer = answer_of(uplink, &found);
		assert_non_null(answer);
		assert_int_equal(answer->state, i < 3 ? ANSWER_WAIT : ANSWER_REFUSED);
		assert_int_equal(answer->asker_id, 99);
		assert_int_equal(answer->pid, 1234);
		message_answer_destroy(answer);
		assert_int_equal(found.batches_acknowledged, i);
	}
	assert_int_equal(service->count, 3);
	uplink_destroy(uplink);
}

/* With the key, or through a socket that only this user may open, somebody may ask; others of this host may not. */
static void test_questions(void **state)
{
	struct service service = {.log_fd = -1, .answers = true};
	struct uplink *naked;
	struct message_answer *answer;
	struct listener *listener;
	struct uplink_state found;
	char url[64];

	(void)state;
	listener = listen_beyond(&service, url);
	check_questions(ask_at(url, key), &service);
	naked = ask_at(url, NULL);
	assert_null(answer_of(naked, &found));
	assert_non_null(strstr(found.refused, "SLOWRANK_KEY_FILE"));
	uplink_destroy(naked);
	naked = ask_at(url, other_key);
	assert_int_equal(uplink_ask(naked, &(struct message_question){.rank = 1}), 0);
	assert_int_equal(uplink_flush(naked, 300), -ETIMEDOUT);
	assert_null(uplink_take_answer(naked));
	uplink_destroy(naked);
	assert_int_equal(service.count, 3);
	listener_destroy(listener);

	service = (struct service){.log_fd = -1, .answers = true};
	ipc_url(url);
	listener = listen_at(&service, url);
	check_questions(ask_at(url, NULL), &service);
	listener_destroy(listener);

	service = (struct service){.log_fd = -1, .answers = true};
	listener = listen_at(&service, "tcp://127.0.0.1:0");
	naked = ask_at(listener_url(listener, 0), NULL);
	answer = answer_of(naked, &found);
	assert_non_null(answer);
	assert_int_equal(answer->state, ANSWER_REFUSED);
	assert_non_null(strstr(answer->why, "loopback"));
	message_answer_destroy(answer);
	uplink_destroy(naked);
	listener_destroy(listener);
	assert_int_equal(service.count, 0);
}

/* A coordinator that knows no questions takes one for a batch that it cannot read: its reply says so. */
static void test_question_to_an_older_coordinator(void **state)
{
	struct service service = {.log_fd = -1};
	struct listener *listener;
	struct uplink_state found;
	struct uplink *uplink;
	char url[64];

	(void)state;
	listener = listen_beyond(&service, url);
	uplink = ask_at(url, key);
	assert_null(answer_of(uplink, &found));
	assert_non_null(strstr(found.refused, "type 3, not 1 (batch)"));
	assert_true(found.proven);
	assert_int_equal(service.count, 0);
	uplink_destroy(uplink);
	listener_destroy(listener);
}

/* The next request at a socket of ours, in a man in the middle's hands. */
static nng_msg *next_request(nng_socket socket, struct seal_head *head)
{
	nng_msg *message;

	assert_int_equal(nng_recvmsg(socket, &message, 0), 0);
	assert_int_equal(seal_read(nng_msg_body(message), nng_msg_len(message), head), 0);
	nng_msg_clear(message);
	return message;
}

/* A reply that asks for a deep look, made with a key as an answer to some proof. */
static void answer_with(nng_socket socket, nng_msg *message, enum seal_kind kind,
	const uint8_t *its_key, const uint8_t *proof)
{
	struct message_reply reply = {.probe_id = 77, .accepted = 1, .directive_count = 1};
	struct seal_head head = {.kind = (uint8_t)kind};
	struct wire_buffer encoded = {0};
	uint8_t bytes[SEAL_HEAD_BYTES];
	struct seal *seal;

	reply.directives[0] = (struct message_directive){.kind = DIRECTIVE_DEEP, .steps = 9};
	if (kind == SEAL_REPLY)
		assert_int_equal(wire_encode_reply(&reply, &encoded), 0);
	if (its_key) {
		assert_int_equal(seal_create(its_key, &seal), 0);
		assert_int_equal(
			seal_write(seal, &head, proof, encoded.bytes, encoded.length, bytes), 0);
		nng_msg_append(message, bytes, sizeof(bytes));
		seal_destroy(seal);
	}
	nng_msg_append(message, encoded.bytes, encoded.length);
	assert_int_equal(nng_sendmsg(socket, message, 0), 0);
	wire_buffer_fini(&encoded);
}

/* Answers without the key, and true ones to another request: no directive of theirs is followed. */
static void test_forged_answers(void **state)
{
	struct seal_head hello, first, head;
	struct uplink_state found;
	struct message_reply reply;
	struct uplink *uplink;
	nng_socket socket;
	nng_msg *message;
	char url[64];

	(void)state;
	ipc_url(url);
	assert_int_equal(nng_rep0_open(&socket), 0);
	assert_int_equal(nng_listen(socket, url, NULL, 0), 0);
	uplink = connect_with(url, key);
	assert_int_equal(send_batch(uplink, 0, 1), 0);
	message = next_request(socket, &hello);
	assert_int_equal(hello.kind, SEAL_HELLO);
	answer_with(socket, message, SEAL_WELCOME, other_key, hello.proof);
	message = next_request(socket, &head);
	assert_memory_not_equal(head.nonce, hello.nonce, SEAL_NONCE_BYTES); /* a fresh challenge */
	answer_with(socket, message, SEAL_WELCOME, key, hello.proof); /* of the hello before */
	message = next_request(socket, &head);
	answer_with(socket, message, SEAL_WELCOME, key, head.proof);
	message = next_request(socket, &first);
	assert_int_equal(first.kind, SEAL_BATCH);
	answer_with(socket, message, SEAL_REPLY, NULL, NULL);
	message = next_request(socket, &head);
	assert_memory_equal(head.proof, first.proof, SEAL_PROOF_BYTES); /* the same bytes again */
	answer_with(socket, message, SEAL_REPLY, other_key, head.proof);
	message = next_request(socket, &head);
	answer_with(socket, message, SEAL_REPLY, key, hello.proof);
	message = next_request(socket, &head);
	assert_false(uplink_take_reply(uplink, &reply));
	uplink_get_state(uplink, &found);
	assert_int_equal(found.replies_unproven, 5);
	assert_int_equal(found.batches_acknowledged + found.batches_lost, 0);
	answer_with(socket, message, SEAL_REPLY, key, head.proof);
	assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
	assert_true(uplink_take_reply(uplink, &reply));
	assert_int_equal(reply.directives[0].steps, 9);
	uplink_destroy(uplink);
	nng_close(socket);
}

/* Memory full, then the spool, then losses: the oldest are kept, and all are accounted for. */
static void test_spool_and_overflow(void **state)
{
	struct service service = {.log_fd = -1};
	struct uplink_options options = {.spool_folder = "/tmp",
		.spool_name = spool_name(),
		.spool_bytes_max = 60000,
		.memory_bytes_max = 10000};
	uint64_t taken = 0, refused = 0;
	struct listener *listener;
	struct uplink_state found;
	struct uplink *uplink;
	char url[64];

	(void)state;
	ipc_url(url);
	options.url = url;
	assert_int_equal(uplink_create(&options, &uplink), 0);
	for (uint64_t i = 0; i < 300; i++) {
		int error = send_batch(uplink, taken, 40);

		assert_true(error == 0 || error == -ENOBUFS);
		taken += error == 0;
		refused += error != 0;
		assert_true(refused == 0 || error != 0); /* once full, it stays full */
	}
	uplink_get_state(uplink, &found);
	assert_int_equal(found.batches_lost, refused);
	assert_int_equal(found.batches_pending, taken);
	assert_true(refused > 50);
	assert_true(found.batches_spooled > 50 && found.batches_spooled < taken);
	listener = listen_at(&service, url);
	assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
	assert_int_equal(send_batch(uplink, taken, 40), 0); /* there is room again */
	assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
	uplink_get_state(uplink, &found);
	assert_int_equal(found.batches_acknowledged, taken + 1);
	listener_destroy(listener);
	check_numbers(service.numbers, service.count, taken + 1);
	uplink_destroy(uplink);
}

enum { LEFT_BATCHES = 60 };

/* A probe that is killed while nobody answers; most of its batches are in the spool. */
static int leave_batches(const char *url, const char *name, bool proving)
{
	const struct uplink_options options = {.url = url,
		.key = proving ? key : NULL,
		.spool_folder = "/tmp",
		.spool_name = name,
		.spool_epoch = 5,
		.spool_takes_over = true,
		.memory_bytes_max = 3000};
	struct uplink *uplink;

	if (uplink_create(&options, &uplink))
		return 1;
	for (uint64_t i = 0; i < LEFT_BATCHES; i++)
		(void)send_batch(uplink, i, 40);
	return kill(getpid(), SIGKILL);
}

static void start_and_kill_a_probe(const char *url, bool proving)
{
	char *const arguments[] = {"test_uplink", "leave", (char *)url, (char *)spool_name(),
		proving ? "proving" : "", NULL};
	int status;
	pid_t pid;

	assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

/* Whoever comes after it delivers them first, and goes on under its id; so it does with a key. */
static void check_resumed(const char *url, const char *dialled, const uint8_t *its_key)
{
	struct service service = {.log_fd = -1};
	struct uplink_options options = {.url = dialled,
		.key = its_key,
		.spool_folder = "/tmp",
		.spool_name = spool_name(),
		.spool_epoch = 5,
		.spool_takes_over = true,
		.memory_bytes_max = 3000};
	uint64_t probe_id = 0, number = 0;
	struct listener *listener;
	struct uplink_state found;
	struct uplink *uplink;
	size_t spooled;

	start_and_kill_a_probe(dialled, its_key != NULL);
	listener = listen_at(&service, url);
	assert_int_equal(uplink_create(&options, &uplink), 0);
	assert_true(uplink_resumed(uplink, &probe_id, &number));
	assert_int_equal(probe_id, 77);
	assert_int_equal(number, LEFT_BATCHES);
	for (int i = 0; i < 10; i++)
		assert_int_equal(send_batch(uplink, number++, 20), 0);
	assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
	uplink_get_state(uplink, &found);
	spooled = found.batches_acknowledged - 10;
	assert_true(spooled > 30 && spooled < LEFT_BATCHES);
	assert_int_equal(found.batches_lost, 0);
	uplink_destroy(uplink);
	assert_int_equal(service.count, spooled + 10);
	for (size_t i = 0; i < service.count; i++)
		assert_int_equal(service.numbers[i], LEFT_BATCHES - spooled + i);
	assert_int_equal(uplink_create(&options, &uplink), 0);
	assert_false(uplink_resumed(uplink, &probe_id, &number)); /* nothing is left */
	uplink_destroy(uplink);
	listener_destroy(listener);
}

static void test_killed_probe_is_resumed(void **state)
{
	char url[64], dialled[64];
	int port = 28000 + (int)getpid() % 4000;

	(void)state;
	ipc_url(url);
	check_resumed(url, url, NULL);
	snprintf(url, sizeof(url), "tcp://0.0.0.0:%d", port);
	snprintf(dialled, sizeof(dialled), "tcp://127.0.0.1:%d", port);
	check_resumed(url, dialled, key);
}

/* A slow coordinator: the caller goes on, the order stays, batches pass through the spool. */
static void test_slow_coordinator(void **state)
{
	struct service service = {.log_fd = -1, .delay_ms = 2};
	struct uplink_options options = {
		.spool_folder = "/tmp", .spool_name = spool_name(), .memory_bytes_max = 3000};
	struct listener *listener;
	struct uplink_state found;
	struct uplink *uplink;
	char url[64];

	(void)state;
	ipc_url(url);
	options.url = url;
	listener = listen_at(&service, url);
	assert_int_equal(uplink_create(&options, &uplink), 0);
	for (uint64_t i = 0; i < 400; i++) {
		assert_int_equal(send_batch(uplink, i, 20), 0);
		if (i % 10 == 0)
			sleep_ms(5);
	}
	assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
	uplink_get_state(uplink, &found);
	assert_true(found.batches_spooled > 0);
	listener_destroy(listener);
	check_numbers(service.numbers, service.count, 400);
	uplink_destroy(uplink);
}

/* A coordinator that hangs up in the middle of a message: it takes a few bytes of each. */
static void *hang_up(void *context)
{
	static const uint8_t hello[] = {0, 'S', 'P', 0, 0, 0x31, 0, 0}; /* of nng's REP */
	static char bytes[50000];
	int listener = *(int *)context;

	for (size_t turn = 0;; turn++) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			return NULL;
		if (send(fd, hello, sizeof(hello), MSG_NOSIGNAL) == (ssize_t)sizeof(hello)) {
			for (size_t i = 0; i <= turn % 4; i++)
				(void)!read(fd, bytes, sizeof(bytes));
		}
		close(fd);
	}
}

/*
 * nng 1.5.2 sometimes hangs there. Neither sending nor destroying may, and the batch arrives
 * once there is a coordinator that listens to the end.
 */
static void test_connection_breaks_in_the_middle(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	static struct metric_sample samples[60000];
	struct message_batch batch = {.sample_count = 60000, .samples = samples};
	struct service service = {.log_fd = -1};
	struct listener *listener;
	struct uplink *uplink;
	pthread_t thread;
	char url[64];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	for (size_t i = 0; i < 60000; i++)
		samples[i].value = (int64_t)i << 40;
	ipc_url(url);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", url + strlen("ipc://"));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 50), 0);
	assert_int_equal(pthread_create(&thread, NULL, hang_up, &fd), 0);
	for (int life = 0; life < 10; life++) {
		uplink = connect_to(url);
		batch.number = 0;
		assert_int_equal(uplink_send(uplink, &batch, host_now()), 0);
		sleep_ms(life * 30);
		if (life < 9)
			uplink_destroy(uplink);
	}
	shutdown(fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(fd);
	listener = listen_at(&service, url);
	assert_int_equal(uplink_flush(uplink, 2 * FLUSH_MS), 0);
	uplink_destroy(uplink);
	listener_destroy(listener);
	check_numbers(service.numbers, service.count, 1);
}

static void test_replies_and_stamps(void **state)
{
	struct service service = {.log_fd = -1};
	struct message_reply replies[2], more;
	struct listener *listener;
	struct uplink *uplink;
	struct host_ns before = host_now();
	char url[64];

	(void)state;
	ipc_url(url);
	listener = listen_at(&service, url);
	uplink = connect_to(url);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(send_batch(uplink, i, 1), 0);
		assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
		assert_true(uplink_take_reply(uplink, &replies[i]));
		assert_int_equal(replies[i].number, i);
		assert_int_equal(replies[i].probe_id, 77);
		assert_true(replies[i].accepted);
		assert_false(uplink_take_reply(uplink, &more));
		if (i == 0) {
			assert_int_equal(service.last.previous_sent.value, 0);
			assert_int_equal(service.last.previous_reply_received.value, 0);
		}
	}
	/* The second batch tells of the first exchange: four stamps of one clock here, in order. */
	assert_true(before.value <= service.last.previous_sent.value);
	assert_true(service.last.previous_sent.value <= service.last.previous_received.value);
	assert_int_equal(service.last.previous_received.value, replies[0].received.value);
	assert_int_equal(service.last.previous_reply_sent.value, replies[0].reply_sent.value);
	assert_true(service.last.previous_reply_sent.value <=
		    service.last.previous_reply_received.value);
	assert_true(service.last.previous_reply_received.value <= service.last.sent.value);
	uplink_destroy(uplink);
	listener_destroy(listener);
}

static void test_refusal_is_kept(void **state)
{
	struct service service = {.log_fd = -1, .refuse = true};
	struct listener *listener;
	struct uplink_state found;
	struct uplink *uplink;
	char url[64];

	(void)state;
	ipc_url(url);
	listener = listen_at(&service, url);
	uplink = connect_to(url);
	assert_int_equal(send_batch(uplink, 0, 1), 0);
	assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
	uplink_get_state(uplink, &found);
	assert_string_equal(found.refused, "this job is not welcome");
	assert_int_equal(found.batches_lost, 1);
	assert_int_equal(found.batches_acknowledged, 0);
	uplink_destroy(uplink);
	listener_destroy(listener);
}

/* The coordinator found first is another job's: nothing is lost on the way to the own one. */
static void test_moves_to_its_own_coordinator(void **state)
{
	struct service other = {.log_fd = -1, .other_job = true}, own = {.log_fd = -1};
	struct listener *other_listener, *own_listener;
	struct uplink_options options = {.may_move = true};
	char other_url[64], own_url[70];
	struct uplink_state found = {0};
	struct uplink *uplink = NULL;

	(void)state;
	ipc_url(other_url);
	snprintf(own_url, sizeof(own_url), "%s-own", other_url);
	other_listener = listen_at(&other, other_url);
	options.url = other_url;
	assert_int_equal(uplink_create(&options, &uplink), 0);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(send_batch(uplink, i, 1), 0);
	for (int ms = 0; ms < FLUSH_MS && !found.other_job; ms += 10) {
		sleep_ms(10);
		uplink_get_state(uplink, &found);
	}
	assert_true(found.other_job);
	assert_int_equal(found.batches_lost, 0);
	assert_int_equal(uplink_move(uplink, "tcp://nowhere"), -EINVAL);

	/* To a place where nobody is, and on to where its own one is. */
	assert_int_equal(uplink_move(uplink, own_url), 0);
	sleep_ms(50);
	own_listener = listen_at(&own, own_url);
	assert_int_equal(uplink_move(uplink, own_url), 0);
	assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
	uplink_get_state(uplink, &found);
	assert_int_equal(found.batches_acknowledged, 5);
	assert_false(found.other_job);
	check_numbers(own.numbers, own.count, 5);
	uplink_destroy(uplink);
	listener_destroy(other_listener);
	listener_destroy(own_listener);
}

/* Somebody answers who is no coordinator of this version: said once, and not tried forever. */
static void test_answer_that_cannot_be_read(void **state)
{
	struct uplink_state found;
	struct uplink *uplink;
	nng_socket socket;
	nng_msg *message;
	char url[64];

	(void)state;
	ipc_url(url);
	assert_int_equal(nng_rep0_open(&socket), 0);
	assert_int_equal(nng_listen(socket, url, NULL, 0), 0);
	uplink = connect_to(url);
	assert_int_equal(send_batch(uplink, 0, 1), 0);
	assert_int_equal(nng_recvmsg(socket, &message, 0), 0);
	nng_msg_clear(message);
	nng_msg_append(message, "\x92\x02\x09", 3); /* a reply of wire version 9 */
	assert_int_equal(nng_sendmsg(socket, message, 0), 0);
	assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
	uplink_get_state(uplink, &found);
	assert_non_null(strstr(found.refused, "wire version 9"));
	assert_int_equal(found.batches_lost, 1);
	uplink_destroy(uplink);
	nng_close(socket);
}

static void test_replies_nobody_takes(void **state)
{
	struct service service = {.log_fd = -1};
	struct message_reply reply;
	struct listener *listener;
	struct uplink_state found;
	struct uplink *uplink;
	uint64_t expected = 300 - 256;
	char url[64];

	(void)state;
	ipc_url(url);
	listener = listen_at(&service, url);
	uplink = connect_to(url);
	for (uint64_t i = 0; i < 300; i++)
		assert_int_equal(send_batch(uplink, i, 1), 0);
	assert_int_equal(uplink_flush(uplink, FLUSH_MS), 0);
	uplink_get_state(uplink, &found);
	assert_int_equal(found.replies_dropped, expected);
	while (uplink_take_reply(uplink, &reply))
		assert_int_equal(reply.number, expected++);
	assert_int_equal(expected, 300);
	uplink_destroy(uplink);
	listener_destroy(listener);
}

static void test_batch_that_cannot_be_encoded(void **state)
{
	struct message_rank rank = {.rank = STEP_RANK_UNKNOWN};
	struct message_batch batch = {.rank_count = 1, .ranks = &rank};
	struct uplink_state found;
	struct uplink *uplink;
	char url[64];

	(void)state;
	ipc_url(url);
	uplink = connect_to(url);
	assert_int_equal(uplink_send(uplink, &batch, host_now()), -EINVAL);
	uplink_get_state(uplink, &found);
	assert_int_equal(found.batches_lost, 1);
	assert_int_equal(found.batches_pending, 0);
	assert_int_equal(uplink_flush(uplink, 0), 0);
	uplink_destroy(uplink);
}

/* With batches on their way and nobody there: destroying neither hangs nor leaks. */
static void test_destroy_in_the_middle(void **state)
{
	struct service service = {.log_fd = -1, .delay_ms = 20};
	struct listener *listener;
	struct uplink *uplink;
	char url[64];

	(void)state;
	ipc_url(url);
	uplink = connect_to(url);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(send_batch(uplink, i, 100), 0);
	uplink_destroy(uplink);
	listener = listen_at(&service, url);
	for (int round = 0; round < 10; round++) {
		uplink = connect_to(url);
		for (uint64_t i = 0; i < 10; i++)
			assert_int_equal(send_batch(uplink, i, 100), 0);
		sleep_ms(round * 5);
		uplink_destroy(uplink);
	}
	listener_destroy(listener);
	uplink_destroy(NULL);
}

static void test_bad_urls(void **state)
{
	static const char *const urls[] = {NULL, "", "localhost:5000", "http://localhost",
		"inproc://x", "tcp://localhost:nonsense", "tcp://localhost", "tcp://:5000",
		"tcp://localhost:0", "tcp://localhost:65536", "tcp://localhost:80x", "ipc://",
		"tls+tcp://localhost:80"};
	struct uplink_options options = {0};
	struct uplink *uplink = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		options.url = urls[i];
		assert_int_equal(uplink_create(&options, &uplink), -EINVAL);
		assert_null(uplink);
	}
}

/*
 * nng 1.5.2 leaks: connections that are closed while they are being made, and its copy of a
 * request when the connection breaks just then.
 */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
	return "leak:libnng.so\n";
}

static int run_server(const char *url, const char *log)
{
	struct service service = {.log_fd = open(log, O_WRONLY | O_APPEND)};
	struct listener *listener = listen_at(&service, url);
	sigset_t signals;
	int received;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigwait(&signals, &received);
	listener_destroy(listener);
	return 0;
}

/* Somebody takes the connection and says nothing: whoever asks why goes on meanwhile. */
static void test_tls_question_does_not_wait(void **state)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char url[64], why[UPLINK_TLS_WHY_LENGTH] = "?";
	struct uplink_tls_question *question;
	struct nng_tls_config *tls;
	int64_t begin_ns;

	(void)state;
	assert_int_equal(bind(silent, (struct sockaddr *)&address, length), 0);
	assert_int_equal(listen(silent, 4), 0);
	assert_int_equal(getsockname(silent, (struct sockaddr *)&address, &length), 0);
	snprintf(url, sizeof(url), "tls+tcp://127.0.0.1:%d", ntohs(address.sin_port));
	assert_int_equal(nng_tls_config_alloc(&tls, NNG_TLS_MODE_CLIENT), 0);
	begin_ns = host_now().value;
	assert_int_equal(uplink_tls_ask(url, tls, 3000, &question), 0);
	assert_false(uplink_tls_answered(question));
	assert_true(host_now().value - begin_ns < INT64_C(500000000));
	uplink_tls_take(question, why);
	assert_string_equal(why, "");
	assert_true(host_now().value - begin_ns > INT64_C(900000000)); /* it did ask */
	nng_tls_config_free(tls);
	close(silent);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_coordinator_starts_later),
		cmocka_unit_test(test_coordinator_is_killed_and_restarted),
		cmocka_unit_test(test_the_same_with_a_key),
		cmocka_unit_test(test_other_key),
		cmocka_unit_test(test_questions),
		cmocka_unit_test(test_question_to_an_older_coordinator),
		cmocka_unit_test(test_forged_answers),
		cmocka_unit_test(test_killed_probe_is_resumed),
		cmocka_unit_test(test_spool_and_overflow),
		cmocka_unit_test(test_slow_coordinator),
		cmocka_unit_test(test_replies_and_stamps),
		cmocka_unit_test(test_refusal_is_kept),
		cmocka_unit_test(test_moves_to_its_own_coordinator),
		cmocka_unit_test(test_answer_that_cannot_be_read),
		cmocka_unit_test(test_replies_nobody_takes),
		cmocka_unit_test(test_batch_that_cannot_be_encoded),
		cmocka_unit_test(test_destroy_in_the_middle),
		cmocka_unit_test(test_bad_urls),
		cmocka_unit_test(test_tls_question_does_not_wait),
		/* Last: if nng hangs, then for the whole process. */
		cmocka_unit_test(test_connection_breaks_in_the_middle),
	};
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	if (argc == 5 && strcmp(argv[1], "leave") == 0)
		return leave_batches(argv[2], argv[3], argv[4][0]);
	if (argc == 4 && strcmp(argv[1], "serve") == 0) {
		sigprocmask(SIG_BLOCK, &signals, NULL);
		return run_server(argv[2], argv[3]);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
