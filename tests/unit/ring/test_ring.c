/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: order, many threads, a full one, a writer that died, a file that lies. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/ring/ring_reader.h"
#include "probe/ring/ring_writer.h"
#include "probe/sources/ring_source.h"

enum { SLOTS = 256, THREADS = 4, PER_THREAD = 20000 };

struct fixture {
	char directory[64];
	char path[128];
	struct ring_writer writer;
	struct ring_reader *reader;
};

static void find_path(struct fixture *fixture)
{
	uint64_t start_time;

	assert_int_equal(ring_start_time(-1, "self", &start_time), 0);
	snprintf(fixture->path, sizeof(fixture->path), "%s/" RING_FILE_PREFIX "%u.%d.%llu",
		fixture->directory, (unsigned)getuid(), (int)getpid(),
		(unsigned long long)start_time);
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	strcpy(fixture->directory, "/tmp/slowrank-test-ring.XXXXXX");
	assert_non_null(mkdtemp(fixture->directory));
	find_path(fixture);
	assert_int_equal(ring_writer_create(fixture->directory, SLOTS, &fixture->writer), 0);
	assert_int_equal(
		ring_reader_open(open(fixture->path, O_RDWR | O_CLOEXEC), &fixture->reader), 0);
	*state = fixture;
	return 0;
}

/* cmocka has a handler of its own for SIGBUS in each test, and in each function before one. */
static void open_again(struct fixture *fixture)
{
	ring_reader_close(fixture->reader);
	fixture->reader = NULL;
	assert_int_equal(
		ring_reader_open(open(fixture->path, O_RDWR | O_CLOEXEC), &fixture->reader), 0);
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	ring_reader_close(fixture->reader);
	ring_writer_destroy(&fixture->writer);
	unlink(fixture->path);
	rmdir(fixture->directory);
	free(fixture);
	return 0;
}

static bool write_number(struct ring_writer *writer, uint32_t thread, uint64_t number)
{
	struct ring_collective collective = {.thread_id = thread, .sequence = number};

	return ring_write(writer, RING_RECORD_COLLECTIVE, &collective, sizeof(collective));
}

static void records_come_in_order(void **state)
{
	struct fixture *fixture = *state;
	struct ring_record record;

	for (uint64_t i = 0; i < 10 * SLOTS; i++) {
		assert_true(write_number(&fixture->writer, 1, i));
		assert_int_equal(ring_reader_next(fixture->reader, 1, false, &record), 0);
		assert_int_equal(record.kind, RING_RECORD_COLLECTIVE);
		assert_int_equal(record.length_bytes, sizeof(struct ring_collective));
		assert_int_equal(record.collective.sequence, i);
	}
	assert_int_equal(ring_reader_next(fixture->reader, 1, false, &record), -EAGAIN);
}

static void a_full_ring_counts(void **state)
{
	struct fixture *fixture = *state;
	struct ring_reader_counts counts;
	struct ring_record record;
	uint64_t sequence = 0;

	for (uint64_t i = 0; i < SLOTS + 10; i++)
		assert_int_equal(write_number(&fixture->writer, 1, i), i < SLOTS);
	while (ring_reader_next(fixture->reader, 1, false, &record) == 0)
		assert_int_equal(record.collective.sequence, sequence++);
	assert_int_equal(sequence, SLOTS);
	ring_reader_counts(fixture->reader, &counts);
	assert_int_equal(counts.dropped_full, 10);
	assert_int_equal(counts.records, SLOTS);
	assert_true(write_number(&fixture->writer, 1, 1000));
}

struct writing {
	struct ring_writer *writer;
	uint32_t thread;
	uint64_t written;
};

static void *write_many(void *argument)
{
	struct writing *writing = argument;

	for (uint64_t i = 1; i <= PER_THREAD; i++)
		writing->written += write_number(writing->writer, writing->thread, i);
	return NULL;
}

static void many_threads_lose_nothing_unseen(void **state)
{
	struct fixture *fixture = *state;
	struct writing writings[THREADS];
	pthread_t threads[THREADS];
	uint64_t last[THREADS] = {0}, read_count[THREADS] = {0}, written = 0, total = 0;
	struct ring_reader_counts counts;
	struct ring_record record;

	for (uint32_t i = 0; i < THREADS; i++) {
		writings[i] = (struct writing){.writer = &fixture->writer, .thread = i};
		assert_int_equal(pthread_create(&threads[i], NULL, write_many, &writings[i]), 0);
	}
	for (;;) {
		ring_reader_counts(fixture->reader, &counts);
		if (ring_reader_next(fixture->reader, 1, false, &record) == 0) {
			uint32_t thread = record.collective.thread_id;

			assert_in_range(thread, 0, THREADS - 1);
			assert_true(record.collective.sequence > last[thread]);
			last[thread] = record.collective.sequence;
			read_count[thread]++;
			total++;
		} else if (total + counts.dropped_full == (uint64_t)THREADS * PER_THREAD) {
			break;
		}
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(read_count[i], writings[i].written);
		written += writings[i].written;
	}
	ring_reader_counts(fixture->reader, &counts);
	assert_int_equal(counts.records, written);
	assert_int_equal(counts.damaged, 0);
	assert_int_equal(counts.abandoned, 0);
}

/* A writer that claimed its slot and was killed: the head moved, the slot was not published. */
static void a_killed_writer_does_not_block(void **state)
{
	struct fixture *fixture = *state;
	struct ring_reader_counts counts;
	struct ring_record record;
	pid_t child = fork();
	int status;

	if (child == 0) {
		__atomic_fetch_add(&fixture->writer.header->head, 1, __ATOMIC_RELAXED);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(write_number(&fixture->writer, 1, 7));
	assert_int_equal(ring_reader_next(fixture->reader, 1000, false, &record), -EAGAIN);
	assert_int_equal(ring_reader_next(fixture->reader, RING_STALL_NS, false, &record), -EAGAIN);
	assert_int_equal(
		ring_reader_next(fixture->reader, 1000 + RING_STALL_NS, false, &record), 0);
	assert_int_equal(record.collective.sequence, 7);
	ring_reader_counts(fixture->reader, &counts);
	assert_int_equal(counts.abandoned, 1);
	__atomic_fetch_add(&fixture->writer.header->head, 1, __ATOMIC_RELAXED);
	assert_true(write_number(&fixture->writer, 1, 8));
	assert_int_equal(ring_reader_next(fixture->reader, 1, true, &record), 0);
	assert_int_equal(record.collective.sequence, 8);
}

static void damage_is_counted(void **state)
{
	struct fixture *fixture = *state;
	struct ring_reader_counts counts;
	struct ring_record record;

	assert_true(write_number(&fixture->writer, 1, 1));
	assert_true(write_number(&fixture->writer, 1, 2));
	fixture->writer.slots[0].collective.sequence = 99;
	assert_int_equal(ring_reader_next(fixture->reader, 1, false, &record), 0);
	assert_int_equal(record.collective.sequence, 2);
	fixture->writer.header->head += UINT64_C(1) << 40;
	assert_int_equal(ring_reader_next(fixture->reader, 1, false, &record), -EAGAIN);
	assert_true(write_number(&fixture->writer, 1, 3));
	assert_int_equal(ring_reader_next(fixture->reader, 1, false, &record), 0);
	assert_int_equal(record.collective.sequence, 3);
	ring_reader_counts(fixture->reader, &counts);
	assert_int_equal(counts.damaged, 1);
	assert_int_equal(counts.resynchronised, 1);
}

static void one_reader_only(void **state)
{
	struct fixture *fixture = *state;
	struct ring_reader *other;

	assert_int_equal(ring_reader_open(open(fixture->path, O_RDWR | O_CLOEXEC), &other), -EBUSY);
	ring_reader_close(fixture->reader);
	fixture->reader = NULL;
	assert_true(write_number(&fixture->writer, 1, 5));
	assert_int_equal(
		ring_reader_open(open(fixture->path, O_RDWR | O_CLOEXEC), &fixture->reader), 0);
	struct ring_record record;

	assert_int_equal(ring_reader_next(fixture->reader, 1, false, &record), 0);
	assert_int_equal(record.collective.sequence, 5);
}

static void a_header_that_lies_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct ring_header *header = fixture->writer.header;
	uint32_t bad_counts[] = {0, 1, SLOTS - 1, 2 * SLOTS, RING_SLOT_COUNT_MAX * 2U, UINT32_MAX};
	struct ring_reader *reader;

	ring_reader_close(fixture->reader);
	fixture->reader = NULL;
	for (size_t i = 0; i < sizeof(bad_counts) / sizeof(bad_counts[0]); i++) {
		header->slot_count = bad_counts[i];
		assert_int_equal(ring_reader_open(open(fixture->path, O_RDWR | O_CLOEXEC), &reader),
			-EBADMSG);
	}
	header->slot_count = SLOTS;
	header->magic = 0;
	assert_int_equal(
		ring_reader_open(open(fixture->path, O_RDWR | O_CLOEXEC), &reader), -EAGAIN);
	header->magic = RING_MAGIC + 1;
	assert_int_equal(
		ring_reader_open(open(fixture->path, O_RDWR | O_CLOEXEC), &reader), -EBADMSG);
}

static void a_cut_file_is_noticed(void **state)
{
	struct fixture *fixture = *state;
	struct ring_record record;

	open_again(fixture);
	assert_int_equal(truncate(fixture->path, RING_HEADER_BYTES), 0);
	assert_int_equal(ring_reader_next(fixture->reader, 1, false, &record), -EIO);
}

/* Wherever it is looked at next: no file at all, a header alone, the slot that is read. */
static void a_ring_that_is_cut_ends_no_reader(void **state)
{
	struct fixture *fixture = *state;
	const off_t lengths[] = {0, 1, RING_HEADER_BYTES, RING_HEADER_BYTES + RING_RECORD_BYTES};
	struct ring_reader_counts counts;
	struct ring_record record;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		ring_writer_destroy(&fixture->writer);
		unlink(fixture->path);
		assert_int_equal(
			ring_writer_create(fixture->directory, SLOTS, &fixture->writer), 0);
		open_again(fixture);
		for (uint64_t j = 0; j < SLOTS; j++)
			assert_true(write_number(&fixture->writer, 1, j));
		assert_int_equal(ring_reader_next(fixture->reader, 1, false, &record), 0);
		assert_int_equal(truncate(fixture->path, lengths[i]), 0);
		for (unsigned j = 0;
			j < SLOTS && ring_reader_next(fixture->reader, 1, false, &record) == 0; j++)
			;
		assert_int_equal(ring_reader_next(fixture->reader, 1, false, &record), -EIO);
		ring_reader_counts(fixture->reader, &counts);
		ring_reader_request(fixture->reader, RING_DEEP_KERNELS, 1);
		ring_reader_pause(fixture->reader, true);
	}
}

/* The writer's user cuts and mends its file all the time, while root reads. */
static void cut_and_mend(const struct fixture *fixture)
{
	const off_t whole = RING_HEADER_BYTES + SLOTS * (off_t)RING_RECORD_BYTES;
	uint8_t bytes[RING_HEADER_BYTES + SLOTS * RING_RECORD_BYTES];
	int fd = open(fixture->path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || pread(fd, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes) ||
		setgid(65534) || setuid(65534))
		_exit(2);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* now: a change of the user takes it back */
	for (;;) {
		if (ftruncate(fd, 0) || ftruncate(fd, whole) ||
			pwrite(fd, bytes, sizeof(bytes), 0) < 0)
			_exit(3);
	}
}

static void a_stranger_that_cuts_its_ring_harms_nobody(void **state)
{
	struct fixture *fixture = *state;
	const time_t latest = time(NULL) + 60; /* the stranger may be slow to start */
	struct ring_record record;
	unsigned cut = 0;
	pid_t child;

	for (uint64_t j = 0; j < SLOTS; j++)
		assert_true(write_number(&fixture->writer, 1, j));
	ring_reader_close(fixture->reader);
	fixture->reader = NULL;
	child = fork();
	if (child == 0)
		cut_and_mend(fixture);
	for (unsigned i = 0; i < 20000 || (cut < 10 && time(NULL) < latest); i++) {
		struct ring_reader *reader;
		int result;

		if (ring_reader_open(open(fixture->path, O_RDWR | O_CLOEXEC), &reader))
			continue;
		do
			result = ring_reader_next(reader, 1, true, &record);
		while (result == 0);
		cut += result == -EIO;
		ring_reader_close(reader);
	}
	assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_true(cut >= 10);
}

static void files_are_private_and_new(void **state)
{
	struct fixture *fixture = *state;
	struct ring_writer second = {0};
	struct stat status;

	assert_int_equal(stat(fixture->path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	assert_int_equal(ring_writer_create(fixture->directory, SLOTS, &second), -EEXIST);
	assert_int_equal(ring_writer_create("/nonexistent", SLOTS, &second), -ENOENT);
	assert_int_equal(ring_writer_create(fixture->directory, 100, &second), -EINVAL);
	assert_null(second.header);
}

/* A child's part: tells whether it is as it should be, and stays. */
_Noreturn static void stay(int told, bool ready)
{
	const char byte = (char)ready;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* now: a change of the user takes it back */
	(void)!write(told, &byte, 1);
	for (;;)
		pause();
}

/* Its parent's: it is ready. */
static void expect_ready(const int told[2])
{
	char byte = 0;

	close(told[1]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	close(told[0]);
	assert_int_equal(byte, 1);
}

/* A process in a root of its own, with a ring there and one outside. */
static pid_t begin_inside(const struct fixture *fixture, const char *root)
{
	struct ring_writer writer = {0};
	char own[128], rings[128];
	int told[2];
	pid_t child;

	snprintf(own, sizeof(own), "%s/own", root);
	snprintf(rings, sizeof(rings), "%s/rings", root);
	assert_int_equal(mkdir(root, 0755), 0);
	assert_int_equal(mkdir(own, 0755), 0);
	assert_int_equal(symlink(fixture->directory, rings), 0);
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		stay(told[1], ring_writer_create(fixture->directory, SLOTS, &writer) == 0 &&
				      ring_writer_create(own, SLOTS, &writer) == 0 &&
				      chroot(root) == 0);
	}
	expect_ready(told);
	return child;
}

static uint32_t rings_in(const char *directory, pid_t pid)
{
	const struct ring_source_callbacks none = {NULL};
	struct ring_source_state state;
	struct ring_source *source;

	assert_int_equal(ring_source_create(directory, &none, NULL, &source), 0);
	assert_int_equal(ring_source_add_process(source, pid), 0);
	ring_source_get_state(source, &state);
	ring_source_destroy(source);
	return state.ring_count;
}

static void a_link_does_not_lead_out_of_the_root(void **state)
{
	const struct fixture *fixture = *state;
	char root[96], command[128];
	pid_t child;

	if (geteuid() != 0) {
		print_message("skipped: not root\n");
		skip();
	}
	snprintf(root, sizeof(root), "%s/root", fixture->directory);
	child = begin_inside(fixture, root);
	assert_int_equal(rings_in("/own", child), 1);
	assert_int_equal(rings_in("/rings", child), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	snprintf(command, sizeof(command), "rm -rf '%s'/*", fixture->directory);
	assert_int_equal(system(command), 0);
}

/* Whether effective capabilities are those alone that a probe keeps, or all that there are. */
static void set_rights(bool few)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	data[0].effective =
		few ? 1u << CAP_DAC_READ_SEARCH | 1u << CAP_SYS_PTRACE : data[0].permitted;
	data[1].effective = few ? 0 : data[1].permitted;
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

/* A process of another user with a ring, whose descriptor is of another file where it lies. */
static pid_t begin_as_other(const char *directory, bool lies)
{
	struct ring_writer writer = {0};
	int told[2];
	pid_t child;

	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		stay(told[1], setgid(65534) == 0 && setuid(65534) == 0 &&
				      ring_writer_create(directory, SLOTS, &writer) == 0 &&
				      (!lies || dup2(told[1], writer.descriptor) >= 0));
	}
	expect_ready(told);
	return child;
}

static void another_users_ring_needs_no_right_to_write_files(void **state)
{
	const struct fixture *fixture = *state;

	if (geteuid() != 0) {
		print_message("skipped: not root\n");
		skip();
	}
	assert_int_equal(chmod(fixture->directory, 01777), 0);
	for (int lies = 0; lies < 2; lies++) {
		pid_t child = begin_as_other(fixture->directory, lies);

		set_rights(true);
		assert_int_equal(rings_in(fixture->directory, child), !lies);
		set_rights(false);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

static unsigned folders_read;

/* The C library's, counted. */
DIR *fdopendir(int fd)
{
	DIR *(*real)(int);
	void *symbol = dlsym(RTLD_NEXT, "fdopendir");

	folders_read++;
	memcpy(&real, &symbol, sizeof(real));
	return real(fd);
}

/* A process that makes its ring when it is told to. */
static pid_t begin_later(const char *directory, const int go[2], const int told[2])
{
	struct ring_writer writer = {0};
	pid_t child = fork();
	char byte;

	if (child)
		return child;
	close(go[1]);
	if (read(go[0], &byte, 1) == 1)
		stay(told[1], ring_writer_create(directory, SLOTS, &writer) == 0);
	_exit(1);
}

/* Polls twice, as a turn of the probe does. */
static uint32_t rings_after_a_turn(struct ring_source *source, int64_t now_ns)
{
	struct ring_source_state state;

	folders_read = 0;
	(void)ring_source_poll(source, (struct host_ns){now_ns}, SIZE_MAX);
	(void)ring_source_poll(source, (struct host_ns){now_ns + 1000}, SIZE_MAX);
	ring_source_get_state(source, &state);
	return state.ring_count;
}

enum { RINGLESS = 8 };

/* As /dev/shm is beside data loaders: processes that never have a ring, and files that come and go. */
static void a_folder_is_read_once_for_all(void **state)
{
	const struct ring_source_callbacks none = {NULL};
	const struct fixture *fixture = *state;
	struct ring_source *source;
	pid_t children[RINGLESS];
	char other[128];
	int go[2], told[2];

	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	assert_int_equal(ring_source_create(fixture->directory, &none, NULL, &source), 0);
	for (size_t i = 0; i < RINGLESS; i++) {
		children[i] = begin_later(fixture->directory, go, told);
		assert_int_equal(ring_source_add_process(source, children[i]), 0);
	}
	snprintf(other, sizeof(other), "%s/other", fixture->directory);
	close(open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(rings_after_a_turn(source, 100000000), 0);
	assert_int_equal(folders_read, 1);
	assert_int_equal(write(go[1], "x", 1), 1);
	expect_ready(told);
	assert_int_equal(rings_after_a_turn(source, 150000000), 1);
	assert_int_equal(folders_read, 1);
	for (size_t i = 0; i < RINGLESS; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	close(go[0]);
	close(go[1]);
	unlink(other);
	ring_source_destroy(source);
}

/* A container's /dev/shm has 64 MiB, which the job's ranks share. */
static void a_small_file_system_gets_a_small_ring(void **state)
{
	enum { DONE, OTHER, CANNOT };
	struct fixture *fixture = *state;
	struct ring_writer writer;
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
			mount("tmpfs", fixture->directory, "tmpfs", 0, "size=64m"))
			_exit(CANNOT);
		status = ring_writer_create(fixture->directory, RING_SLOT_COUNT_DEFAULT, &writer);
		_exit(status || writer.slot_count != 2048 ? OTHER : DONE);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
		skip();
	assert_int_equal(status, DONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(records_come_in_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_full_ring_counts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			many_threads_lose_nothing_unseen, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_killed_writer_does_not_block, set_up, tear_down),
		cmocka_unit_test_setup_teardown(damage_is_counted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_reader_only, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_header_that_lies_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_cut_file_is_noticed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_ring_that_is_cut_ends_no_reader, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_stranger_that_cuts_its_ring_harms_nobody, set_up, tear_down),
		cmocka_unit_test_setup_teardown(files_are_private_and_new, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_link_does_not_lead_out_of_the_root, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			another_users_ring_needs_no_right_to_write_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_folder_is_read_once_for_all, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_small_file_system_gets_a_small_ring, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
