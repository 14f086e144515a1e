/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommand as a process (this program again, with "coordinator" as its first word), fed
 * by real nng peers: its life cycle, its exit status, the record it leaves.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "coordinator/commands.h"
#include "coordinator/record/reader.h"
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"
#include "tests/unit/wire/random_batch.h"

extern char **environ;

enum { WAIT_MS = 20000, WORDS_MAX = 16, PEERS = 96 };

/*
 * In place of libc's: a disk that is full while there is the file that FULL names, but for as many writes as that has
 * bytes, and a log of writes and syncs.
 */
static const char FULL[] = "TEST_FULL", LOG[] = "TEST_LOG", OVERFLOW_NAME[] = "overflow";

static bool is_record(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

static void log_call(char call)
{
	int fd = getenv(LOG) ? open(getenv(LOG), O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (fd >= 0)
		dprintf(fd, "%c %lld\n", call, now.tv_sec * 1000LL + now.tv_nsec / 1000000);
	close(fd);
}

static bool is_full(int fd)
{
	char link[64], path[200] = "";
	struct stat status;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (!getenv(FULL) || readlink(link, path, sizeof(path) - 1) < 0 ||
		strstr(path, OVERFLOW_NAME) || stat(getenv(FULL), &status) < 0)
		return false;
	return status.st_size == 0 || truncate(getenv(FULL), status.st_size - 1) < 0;
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
	if (is_record(fd)) {
		if (is_full(fd)) {
			errno = ENOSPC;
			return -1;
		}
		log_call('w');
	}
	return syscall(SYS_writev, fd, pieces, count);
}

int fdatasync(int fd)
{
	if (is_record(fd))
		log_call('s');
	return (int)syscall(SYS_fdatasync, fd);
}

struct place {
	char folder[64];
	char url[100];
	char record[100];
	char report[100];
	char errors[100]; /* its stderr */
};

static void sleep_ms(int time_ms)
{
	struct timespec time = {time_ms / 1000, time_ms % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

static int set_up(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	strcpy(place->folder, "/tmp/slowrank-coordinator-XXXXXX");
	assert_non_null(mkdtemp(place->folder));
	snprintf(place->url, sizeof(place->url), "ipc://%s/socket", place->folder);
	snprintf(place->record, sizeof(place->record), "%s/record.slr", place->folder);
	snprintf(place->report, sizeof(place->report), "%s/report.json", place->folder);
	snprintf(place->errors, sizeof(place->errors), "%s/errors", place->folder);
	*state = place;
	return 0;
}

static int tear_down(void **state)
{
	struct place *place = *state;

	unlink(place->url + strlen("ipc://"));
	unlink(place->record);
	unlink(place->report);
	unlink(place->errors);
	assert_int_equal(rmdir(place->folder), 0);
	free(place);
	return 0;
}

/* Starts it with these words behind "coordinator"; ready_fd: -1, or a pipe's end it inherits. */
static pid_t start(const struct place *place, const char *const *words, int ready_fd)
{
	char *arguments[WORDS_MAX] = {(char *)"test", (char *)"coordinator"};
	posix_spawn_file_actions_t actions;
	size_t count = 2;
	pid_t pid;

	for (; *words; words++)
		arguments[count++] = (char *)*words;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(
		&actions, 2, place->errors, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (ready_fd >= 0)
		posix_spawn_file_actions_adddup2(&actions, ready_fd, 9);
	assert_int_equal(
		posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

/* Starts one that listens at the place, and waits until it does. */
static pid_t start_listening(const struct place *place, const char *first, const char *second)
{
	const char *words[] = {"--listen", place->url, "--record", place->record, "--report",
		place->report, "--ready-fd", "9", first, second, NULL};
	struct pollfd ready;
	int fds[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = start(place, words, fds[1]);
	close(fds[1]);
	ready = (struct pollfd){.fd = fds[0], .events = POLLIN};
	assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

/* The exit status, or -1 when it had to be killed. */
static int wait_for(pid_t pid)
{
	int status;

	for (int waited_ms = 0; waited_ms < WAIT_MS; waited_ms += 5) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		sleep_ms(5);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return -1;
}

static bool runs(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == 0;
}

static void read_text(const char *path, char *text, size_t capacity)
{
	int fd = open(path, O_RDONLY);
	ssize_t length = fd < 0 ? 0 : read(fd, text, capacity - 1);

	text[length < 0 ? 0 : length] = '\0';
	close(fd);
}

static nng_socket dial(const char *url)
{
	nng_socket socket;

	assert_int_equal(nng_req0_open(&socket), 0);
	nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, WAIT_MS);
	assert_int_equal(nng_dial(socket, url, NULL, NNG_FLAG_NONBLOCK), 0);
	return socket;
}

static struct message_reply exchange(nng_socket socket, const void *bytes, size_t length)
{
	struct message_reply reply;
	nng_msg *message;

	assert_int_equal(nng_msg_alloc(&message, 0), 0);
	assert_int_equal(nng_msg_append(message, bytes, length), 0);
	assert_int_equal(nng_sendmsg(socket, message, 0), 0);
	assert_int_equal(nng_recvmsg(socket, &message, 0), 0);
	assert_int_equal(
		wire_decode_reply(nng_msg_body(message), nng_msg_len(message), &reply, NULL), 0);
	nng_msg_free(message);
	return reply;
}

/* One batch of a small job that is healthy; made_ns: as if it was made then; 0: as if long ago. */
static void make_batch(
	uint64_t probe, uint64_t number, bool final, int64_t made_ns, struct wire_buffer *buffer)
{
	struct job_batch job = {.rank_count = 4,
		.steps_per_rank = 5,
		.collectives_per_step = 6,
		.step_ns = 10000000};
	struct message_batch batch;

	job_batch_init(&batch, &job, 5);
	batch.probe_id = probe;
	batch.number = number;
	batch.final = final;
	for (size_t i = 0; i < batch.step_count; i++)
		batch.steps[i].index += number * job.steps_per_rank;
	if (made_ns)
		batch.sent.value = made_ns;
	assert_int_equal(wire_encode_batch(&batch, buffer), 0);
	random_batch_fini(&batch);
}

static struct message_reply send_batch(
	nng_socket socket, uint64_t probe, uint64_t number, bool final, struct wire_buffer *buffer)
{
	make_batch(probe, number, final, 0, buffer);
	return exchange(socket, buffer->bytes, buffer->length);
}

static struct record_reader_state read_record(const char *path, int last)
{
	struct record_reader_state state;
	struct record_reader *reader;
	struct job_ns received;
	const void *bytes;
	size_t length;
	int result;

	assert_int_equal(record_reader_open(path, &reader, NULL), 0);
	while ((result = record_reader_next(reader, &bytes, &length, &received)) == 0) {
		struct message_batch *batch;

		assert_int_equal(wire_decode_batch(bytes, length, &batch, NULL), 0);
		message_batch_destroy(batch);
	}
	assert_int_equal(result, last);
	record_reader_get_state(reader, &state);
	record_reader_close(reader);
	return state;
}

/* Two probes; it ends when both are done. Doubles and rubbish are not recorded. */
static void test_exit_when_done(void **state)
{
	const struct place *place = *state;
	pid_t pid = start_listening(place, "--exit-when-done", NULL);
	nng_socket first = dial(place->url), second = dial(place->url);
	struct wire_buffer buffer = {0};
	struct message_reply reply;
	char text[20000];

	reply = send_batch(first, 1, 0, false, &buffer);
	assert_true(reply.accepted);
	assert_int_equal(reply.probe_id, 1);
	reply = exchange(first, buffer.bytes, buffer.length); /* again: its reply was lost */
	assert_true(reply.accepted);
	reply = exchange(first, "rubbish", 7);
	assert_false(reply.accepted);
	assert_int_not_equal(strlen(reply.why), 0);
	assert_true(send_batch(second, 2, 0, false, &buffer).accepted);
	assert_true(send_batch(first, 1, 1, true, &buffer).accepted);
	sleep_ms(600);
	assert_true(runs(pid)); /* the second has not ended */
	assert_true(send_batch(second, 2, 1, true, &buffer).accepted);
	assert_int_equal(wait_for(pid), 0);
	assert_int_equal(read_record(place->record, -ENODATA).frames, 4);
	read_text(place->report, text, sizeof(text));
	assert_non_null(strstr(text, "slowrank.report/1"));
	read_text(place->errors, text, sizeof(text));
	assert_int_not_equal(strlen(text), 0); /* the report as text */
	nng_close(first);
	nng_close(second);
	wire_buffer_fini(&buffer);
}

static void test_quiet(void **state)
{
	const struct place *place = *state;
	pid_t pid = start_listening(place, "--exit-when-done", "--quiet");
	nng_socket socket = dial(place->url);
	struct wire_buffer buffer = {0};
	char text[1000];

	assert_true(send_batch(socket, 1, 0, true, &buffer).accepted);
	assert_int_equal(wait_for(pid), 0);
	read_text(place->errors, text, sizeof(text));
	assert_string_equal(text, "");
	nng_close(socket);
	wire_buffer_fini(&buffer);
}

static void check_signal(const struct place *place, int signal_number)
{
	pid_t pid = start_listening(place, "--quiet", NULL);
	nng_socket socket = dial(place->url);
	struct wire_buffer buffer = {0};

	assert_true(send_batch(socket, 1, 0, true, &buffer).accepted);
	sleep_ms(500);
	assert_true(runs(pid)); /* without --exit-when-done */
	kill(pid, signal_number);
	sleep_ms(10);
	kill(pid, signal_number); /* as timeout(1) does */
	assert_int_equal(wait_for(pid), 0);
	assert_int_equal(read_record(place->record, -ENODATA).frames, 1);
	assert_int_equal(access(place->report, R_OK), 0);
	nng_close(socket);
	wire_buffer_fini(&buffer);
}

static void test_signals(void **state)
{
	check_signal(*state, SIGTERM);
	check_signal(*state, SIGINT);
}

/* kill -9: every batch that was acknowledged is in the record. */
static void test_killed(void **state)
{
	const struct place *place = *state;
	pid_t pid = start_listening(place, "--quiet", NULL);
	nng_socket socket = dial(place->url);
	struct wire_buffer buffer = {0};
	struct record_reader_state found;

	for (uint64_t i = 0; i < 20; i++)
		assert_true(send_batch(socket, 1, i, false, &buffer).accepted);
	kill(pid, SIGKILL);
	wait_for(pid);
	found = read_record(place->record, -EBADMSG);
	assert_int_equal(found.frames, 20);
	assert_true(found.truncated);
	assert_int_equal(found.damaged, 0);
	nng_close(socket);
	wire_buffer_fini(&buffer);
}

/* Started again after a kill -9: it knows what it had taken, and the record goes on. */
static void test_continues(void **state)
{
	const struct place *place = *state;
	pid_t pid = start_listening(place, "--quiet", NULL);
	nng_socket socket = dial(place->url);
	struct wire_buffer buffer = {0};
	struct record_reader_state found;
	int fd;

	for (uint64_t i = 0; i < 20; i++)
		assert_true(send_batch(socket, 1, i, false, &buffer).accepted);
	kill(pid, SIGKILL);
	wait_for(pid);
	fd = open(place->record, O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, "\xc1\xc1\x52\xf1 cut short", 14), 14);
	close(fd);
	pid = start_listening(place, "--quiet", "--continue");
	assert_true(send_batch(socket, 1, 19, false, &buffer).accepted); /* its reply was lost */
	assert_true(send_batch(socket, 1, 20, false, &buffer).accepted);
	kill(pid, SIGTERM);
	assert_int_equal(wait_for(pid), 0);
	found = read_record(place->record, -ENODATA);
	assert_int_equal(found.frames, 21);
	assert_int_equal(found.frames_missing, 0);
	assert_int_equal(found.damaged, 0);
	nng_close(socket);
	wire_buffer_fini(&buffer);
}

struct full_disk {
	char path[100];
	int64_t freed_ms; /* 0: it is full */
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void *free_disk(void *context)
{
	struct full_disk *disk = context;

	sleep_ms(700);
	__atomic_store_n(&disk->freed_ms, now_ms(), __ATOMIC_SEQ_CST);
	unlink(disk->path);
	return NULL;
}

/* Its disk is full while there is a file of this path. */
static pid_t start_on_disk(const struct place *place, struct full_disk *disk)
{
	pid_t pid;

	snprintf(disk->path, sizeof(disk->path), "%s/full", place->folder);
	setenv(FULL, disk->path, 1);
	pid = start_listening(place, "--quiet", NULL);
	unsetenv(FULL);
	return pid;
}

/* Nothing is acknowledged while the disk is full; it is when there is room again, and nothing is lost. */
static void test_full_disk(void **state)
{
	const struct place *place = *state;
	struct wire_buffer buffer = {0};
	struct full_disk disk = {0};
	char text[1000];
	nng_socket socket;
	pthread_t thread;
	pid_t pid;

	pid = start_on_disk(place, &disk);
	socket = dial(place->url);
	assert_true(send_batch(socket, 1, 0, false, &buffer).accepted);
	close(open(disk.path, O_CREAT, 0600));
	assert_int_equal(pthread_create(&thread, NULL, free_disk, &disk), 0);
	assert_true(send_batch(socket, 1, 1, false, &buffer).accepted);
	assert_true(__atomic_load_n(&disk.freed_ms, __ATOMIC_SEQ_CST) > 0);
	pthread_join(thread, NULL);
	for (uint64_t i = 2; i < 50; i++)
		assert_true(send_batch(socket, 1, i, false, &buffer).accepted);
	kill(pid, SIGTERM);
	assert_int_equal(wait_for(pid), 0);
	assert_int_equal(read_record(place->record, -ENODATA).frames, 50);
	read_text(place->errors, text, sizeof(text));
	assert_non_null(strstr(text, "No space left"));
	assert_null(strchr(strchr(text, '\n') + 1, '\n')); /* one line */
	nng_close(socket);
	wire_buffer_fini(&buffer);
}

/* A record of one probe's batches, all of them in their order. */
static void check_numbers(const char *path, uint64_t count, int last)
{
	struct record_reader *reader;
	struct message_batch *batch;
	struct job_ns received;
	const void *bytes;
	size_t length;

	assert_int_equal(record_reader_open(path, &reader, NULL), 0);
	for (uint64_t i = 0; i < count; i++) {
		assert_int_equal(record_reader_next(reader, &bytes, &length, &received), 0);
		assert_int_equal(wire_decode_batch(bytes, length, &batch, NULL), 0);
		assert_int_equal(batch->number, i);
		message_batch_destroy(batch);
	}
	assert_int_equal(record_reader_next(reader, &bytes, &length, &received), last);
	record_reader_close(reader);
}

/*
 * With another disk to go on at, batches are taken while the record's is full; killed there, and again while it moves
 * them on: none is lost, doubled or out of its place.
 */
static void test_overflow(void **state)
{
	const struct place *place = *state;
	char overflow[100], full[100], text[4000];
	struct wire_buffer buffer = {0};
	uint64_t number = 0;
	nng_socket socket;
	pid_t pid;

	snprintf(overflow, sizeof(overflow), "%s/%s", place->folder, OVERFLOW_NAME);
	snprintf(full, sizeof(full), "%s/full", place->folder);
	setenv(FULL, full, 1);
	setenv("SLOWRANK_QUIET", "1", 1);
	pid = start_listening(place, "--overflow", overflow);
	setenv("SLOWRANK_CONTINUE", "1", 1);
	socket = dial(place->url);
	for (int round = 0; round < 4; round++) {
		for (uint64_t i = 0; i < 10; i++)
			assert_true(send_batch(socket, 1, number++, false, &buffer).accepted);
		close(open(full, O_CREAT, 0600));
		for (uint64_t i = 0; i < 10; i++)
			assert_true(send_batch(socket, 1, number++, false, &buffer).accepted);
		assert_int_equal(access(overflow, F_OK), 0);
		if (round == 1) { /* five have moved on when it is killed */
			assert_int_equal(truncate(full, 5), 0);
			assert_true(send_batch(socket, 1, number++, false, &buffer).accepted);
		}
		if (round < 2) {
			kill(pid, SIGKILL);
			wait_for(pid);
			pid = start_listening(place, "--overflow", overflow);
		}
		assert_true(send_batch(socket, 1, number - 1, false, &buffer).accepted); /* again */
		unlink(full);
		assert_true(send_batch(socket, 1, number++, false, &buffer).accepted);
		assert_int_equal(access(overflow, F_OK), -1);
	}
	read_text(place->errors, text, sizeof(text));
	assert_non_null(strstr(text, "kept elsewhere until it can"));
	assert_null(strstr(text, "misses"));
	/* Ends on a full disk: what did not move on is counted. */
	close(open(full, O_CREAT, 0600));
	assert_true(send_batch(socket, 1, number, false, &buffer).accepted);
	kill(pid, SIGTERM);
	assert_int_equal(wait_for(pid), 0);
	unlink(full);
	check_numbers(place->record, number, -EBADMSG);
	assert_int_equal(access(overflow, F_OK), -1);
	read_text(place->errors, text, sizeof(text));
	assert_non_null(strstr(text, "misses 1 of"));
	unsetenv(FULL);
	unsetenv("SLOWRANK_CONTINUE");
	unsetenv("SLOWRANK_QUIET");
	nng_close(socket);
	wire_buffer_fini(&buffer);
}

/* On a disk that stays full it ends all the same, and what was not acknowledged is its probe's. */
static void test_ends_on_a_full_disk(void **state)
{
	const struct place *place = *state;
	struct wire_buffer buffer = {0};
	struct full_disk disk = {0};
	nng_socket socket;
	nng_msg *message;
	pid_t pid;

	pid = start_on_disk(place, &disk);
	socket = dial(place->url);
	assert_true(send_batch(socket, 1, 0, false, &buffer).accepted);
	close(open(disk.path, O_CREAT, 0600));
	make_batch(1, 1, false, 0, &buffer);
	assert_int_equal(nng_msg_alloc(&message, 0), 0);
	assert_int_equal(nng_msg_append(message, buffer.bytes, buffer.length), 0);
	assert_int_equal(nng_sendmsg(socket, message, 0), 0);
	sleep_ms(300);
	kill(pid, SIGTERM);
	assert_int_equal(wait_for(pid), 0);
	nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, 100);
	assert_int_equal(nng_recvmsg(socket, &message, 0), NNG_ETIMEDOUT);
	assert_int_equal(read_record(place->record, -EBADMSG).frames, 1);
	unlink(disk.path);
	nng_close(socket);
	wire_buffer_fini(&buffer);
}

/* What is acknowledged is on the disk within a second. */
static void test_syncs(void **state)
{
	const struct place *place = *state;
	struct wire_buffer buffer = {0};
	char path[100], text[20000], call;
	int64_t oldest_ms = 0, at_ms, late_ms = 0;
	size_t syncs = 0;
	nng_socket socket;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/log", place->folder);
	setenv(LOG, path, 1);
	pid = start_listening(place, "--quiet", NULL);
	unsetenv(LOG);
	socket = dial(place->url);
	for (uint64_t i = 0; i < 40; i++) {
		assert_true(send_batch(socket, 1, i, false, &buffer).accepted);
		sleep_ms(60);
	}
	sleep_ms(1200); /* nothing comes, nothing is synced */
	kill(pid, SIGTERM);
	assert_int_equal(wait_for(pid), 0);
	read_text(path, text, sizeof(text));
	for (const char *at = text; sscanf(at, "%c %" SCNd64, &call, &at_ms) == 2;
		at = strchr(at, '\n') + 1) {
		if (call == 'w' && !oldest_ms)
			oldest_ms = at_ms;
		if (call == 's' && oldest_ms && at_ms - oldest_ms > late_ms)
			late_ms = at_ms - oldest_ms;
		if (call == 's')
			oldest_ms = 0, syncs++;
	}
	assert_int_equal(oldest_ms, 0); /* the end, too */
	assert_true(late_ms <= 1300);	/* of a machine that does other things */
	assert_in_range(syncs, 5, 9);
	unlink(path);
	nng_close(socket);
	wire_buffer_fini(&buffer);
}

/* The parent is gone: it stays for the probes that are left, and ends after the last of them. */
static void test_parent(void **state)
{
	const struct place *place = *state;
	char *const sleeper[] = {(char *)"sleep", (char *)"1000", NULL};
	struct wire_buffer buffer = {0};
	char parent_text[16];
	nng_socket socket;
	pid_t parent, pid;

	assert_int_equal(posix_spawnp(&parent, "sleep", NULL, NULL, sleeper, environ), 0);
	snprintf(parent_text, sizeof(parent_text), "%d", (int)parent);
	pid = start_listening(place, "--parent", parent_text);
	socket = dial(place->url);
	assert_true(send_batch(socket, 1, 0, false, &buffer).accepted);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	sleep_ms(2600);
	assert_true(runs(pid)); /* a probe is connected */
	assert_true(send_batch(socket, 1, 1, false, &buffer).accepted);
	nng_close(socket);
	assert_int_equal(wait_for(pid), 0);
	assert_int_equal(read_record(place->record, -ENODATA).frames, 2);
	wire_buffer_fini(&buffer);
}

/* A second one at the same place gives up, and leaves the record of the first alone. */
static void test_second_coordinator(void **state)
{
	const struct place *place = *state;
	const char *same_url[] = {"--listen", place->url, "--record", place->record, NULL};
	const char *same_record[] = {
		"--listen", "tcp://127.0.0.1:0", "--record", place->record, NULL};
	pid_t pid = start_listening(place, "--quiet", NULL);
	nng_socket socket = dial(place->url);
	struct wire_buffer buffer = {0};
	char text[1000];

	assert_true(send_batch(socket, 1, 0, false, &buffer).accepted);
	assert_int_equal(wait_for(start(place, same_url, -1)), 2);
	read_text(place->errors, text, sizeof(text));
	assert_non_null(strstr(text, "another coordinator runs there"));
	assert_int_equal(wait_for(start(place, same_record, -1)), 2);
	read_text(place->errors, text, sizeof(text));
	assert_non_null(strstr(text, "another process is recording"));
	kill(pid, SIGTERM);
	assert_int_equal(wait_for(pid), 0);
	assert_int_equal(read_record(place->record, -ENODATA).frames, 1);
	nng_close(socket);
	wire_buffer_fini(&buffer);
}

/* One job after the other with the same record: the coordinator of the first may still be at work on it. */
static void test_record_of_a_job_that_has_just_ended(void **state)
{
	const struct place *place = *state;
	const char *same_record[] = {
		"--listen", "tcp://127.0.0.1:0", "--record", place->record, "--quiet", NULL};
	pid_t first = start_listening(place, "--quiet", NULL), second;

	second = start(place, same_record, -1);
	usleep(300000);
	kill(first, SIGTERM);
	assert_int_equal(wait_for(first), 0);
	usleep(300000);
	assert_true(runs(second));
	kill(second, SIGTERM);
	assert_int_equal(wait_for(second), 0);
	assert_int_equal(read_record(place->record, -ENODATA).frames, 0);
}

static void check_bad_usage(
	const struct place *place, const char *const *words, const char *expected)
{
	char text[1000];
	size_t length;

	unlink(place->errors);
	assert_int_equal(wait_for(start(place, words, -1)), 2);
	read_text(place->errors, text, sizeof(text));
	length = strlen(text);
	if (!strstr(text, expected))
		fail_msg("'%s' does not say '%s'", text, expected);
	assert_true(length > 0 && strchr(text, '\n') == text + length - 1); /* one line */
}

static void test_bad_usage(void **state)
{
	const struct place *place = *state;
	const char *const cases[][6] = {
		{NULL, NULL},
		{"--listen", "ipc:///tmp/x", NULL},
		{"--record", place->record, NULL},
		{"--listen", NULL},
		{"--wrong", NULL},
		{"word", NULL},
		{"--quiet=1", NULL},
		{"--listen", "udp://x", "--record", place->record, NULL},
		{"--listen", place->url, "--record", "/nonexistent/record", NULL},
		{"--listen", place->url, "--record=/dev/null", "--parent", "x", NULL},
		{"--listen", place->url, "--record=/dev/null", "--alerts", "/nonexistent/a", NULL},
		{"--listen", place->url, "--record=/dev/null", "--alert-after", "soon", NULL},
		{"--listen", place->url, "--record=/dev/null", "--config", "/nonexistent/c", NULL},
	};
	static const char *const expected[] = {"say where to listen", "--record FILE",
		"say where to listen", "a value is missing after --listen", "no option '--wrong'",
		"no option 'word'", "no option '--quiet=1'", "use ipc:///path",
		"/nonexistent/record", "'x' is no value for --parent", "/nonexistent/a",
		"'soon' is no value for alert-after", "/nonexistent/c: No such file"};

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		check_bad_usage(place, cases[i], expected[i]);
}

/* Options from the environment; the command line wins. */
static void test_environment(void **state)
{
	const struct place *place = *state;
	const char *words[] = {"--listen", place->url, NULL};
	struct wire_buffer buffer = {0};
	nng_socket socket;
	pid_t pid;

	setenv("SLOWRANK_LISTEN", "udp://wrong", 1);
	setenv("SLOWRANK_RECORD", place->record, 1);
	setenv("SLOWRANK_EXIT_WHEN_DONE", "1", 1);
	setenv("SLOWRANK_QUIET", "1", 1);
	pid = start(place, words, -1);
	unsetenv("SLOWRANK_LISTEN");
	unsetenv("SLOWRANK_RECORD");
	unsetenv("SLOWRANK_EXIT_WHEN_DONE");
	unsetenv("SLOWRANK_QUIET");
	for (int i = 0; i < 1000 && access(place->record, F_OK) != 0; i++)
		sleep_ms(5);
	socket = dial(place->url);
	assert_true(send_batch(socket, 1, 0, true, &buffer).accepted);
	assert_int_equal(wait_for(pid), 0);
	assert_int_equal(read_record(place->record, -ENODATA).frames, 1);
	nng_close(socket);
	wire_buffer_fini(&buffer);
}

/* More peers than the soft limit of files that it is started with: that one is raised. */
static void test_many_peers(void **state)
{
	static const char hello[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0}; /* a REQ socket's */
	const struct place *place = *state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct wire_buffer buffer = {0};
	struct rlimit usual, few;
	int peers[PEERS];
	nng_socket socket_of_probe;
	pid_t pid;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
	assert_true(usual.rlim_max >= 4 * PEERS);
	few = (struct rlimit){PEERS / 2, usual.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	pid = start_listening(place, "--exit-when-done", NULL);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", place->url + strlen("ipc://"));
	for (size_t i = 0; i < PEERS; i++) {
		char answer[sizeof(hello)];

		peers[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(
			connect(peers[i], (struct sockaddr *)&address, sizeof(address)), 0);
		assert_int_equal(write(peers[i], hello, sizeof(hello)), sizeof(hello));
		assert_int_equal(poll(&(struct pollfd){peers[i], POLLIN, 0}, 1, WAIT_MS), 1);
		assert_int_equal(
			recv(peers[i], answer, sizeof(answer), MSG_WAITALL), sizeof(answer));
	}
	socket_of_probe = dial(place->url);
	assert_true(send_batch(socket_of_probe, 1, 0, true, &buffer).accepted);
	assert_int_equal(wait_for(pid), 0);
	for (size_t i = 0; i < PEERS; i++)
		close(peers[i]);
	nng_close(socket_of_probe);
	wire_buffer_fini(&buffer);
}

/* nng 1.5.2 leaks connections that are closed while they are being made. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
	return "leak:libnng.so\n";
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* How often a text has these words. */
static int count_of(const char *text, const char *words)
{
	int count = 0;

	for (const char *at = text; (at = strstr(at, words)); at += strlen(words))
		count++;
	return count;
}

/*
 * A coordinator that gets no CPU for six seconds, while the job goes on: what waited comes in late. It
 * says so once, and once that it has caught up.
 */
static void test_falls_behind(void **state)
{
	enum { BATCHES = 6 };
	const struct place *place = *state;
	pid_t pid = start_listening(place, "--exit-when-done", NULL);
	nng_socket socket = dial(place->url);
	struct wire_buffer buffer = {0};
	int64_t made_ns[BATCHES];
	char text[8192];

	make_batch(7, 0, false, now_ns(), &buffer);
	assert_int_equal(exchange(socket, buffer.bytes, buffer.length).accepted, 1);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	for (int i = 0; i < BATCHES; i++) {
		made_ns[i] = now_ns();
		sleep_ms(1000);
	}
	assert_int_equal(kill(pid, SIGCONT), 0);
	for (uint64_t i = 0; i < BATCHES; i++) {
		make_batch(7, 1 + i, false, made_ns[i], &buffer);
		assert_int_equal(exchange(socket, buffer.bytes, buffer.length).accepted, 1);
	}
	for (uint64_t i = 0; i < 2; i++) {
		make_batch(7, 1 + BATCHES + i, i == 1, now_ns(), &buffer);
		assert_int_equal(exchange(socket, buffer.bytes, buffer.length).accepted, 1);
	}
	assert_int_equal(wait_for(pid), 0);
	read_text(place->errors, text, sizeof(text));
	assert_int_equal(count_of(text, "slowrank: verdicts are late"), 1);
	assert_int_equal(count_of(text, "slowrank: the coordinator has caught up"), 1);
	assert_true(strstr(text, "verdicts are late") < strstr(text, "has caught up"));
	nng_close(socket);
	wire_buffer_fini(&buffer);
}

#define COORDINATOR_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		COORDINATOR_TEST(test_exit_when_done),
		COORDINATOR_TEST(test_quiet),
		COORDINATOR_TEST(test_signals),
		COORDINATOR_TEST(test_killed),
		COORDINATOR_TEST(test_continues),
		COORDINATOR_TEST(test_full_disk),
		COORDINATOR_TEST(test_overflow),
		COORDINATOR_TEST(test_ends_on_a_full_disk),
		COORDINATOR_TEST(test_syncs),
		COORDINATOR_TEST(test_parent),
		COORDINATOR_TEST(test_second_coordinator),
		COORDINATOR_TEST(test_record_of_a_job_that_has_just_ended),
		COORDINATOR_TEST(test_bad_usage),
		COORDINATOR_TEST(test_environment),
		COORDINATOR_TEST(test_many_peers),
		COORDINATOR_TEST(test_falls_behind),
	};

	if (argc > 1 && strcmp(argv[1], "coordinator") == 0)
		return cmd_coordinator(argc - 1, argv + 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
