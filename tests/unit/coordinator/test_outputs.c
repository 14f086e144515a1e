/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records, alerts, reports and imports leave what they did not make as it is, and follow no link
 * that others can change.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "coordinator/alert_sink.h"
#include "coordinator/commands.h"
#include "coordinator/listener.h"
#include "coordinator/record/writer.h"
#include "coordinator/report/file.h"

enum { OTHER_USER = 65534, PATH_LENGTH = 96 };

static const char foreign[] = "root:x:0:0:root:/root:/bin/bash\n";
static char folder[] = "/tmp/slowrank-outputs-XXXXXX", why[WIRE_DETAIL_LENGTH_MAX + 1];

static const char *in_folder(const char *name)
{
	static char paths[4][PATH_LENGTH];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, PATH_LENGTH, "%s/%s", folder, name);
	return path;
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void assert_holds(const char *path, const char *text)
{
	char found[4096];
	FILE *file = fopen(path, "re");

	assert_non_null(file);
	found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(found, text);
}

/* Each writes once to path. 0, or negative with a line in why. */
static int write_record(const char *path)
{
	struct record_writer *writer;
	int error = record_writer_create(path, &(struct record_writer_options){0}, &writer, why);

	return error ? error : record_writer_finish(writer);
}

static int write_whole_record(const char *path)
{
	struct record_writer *writer;
	struct record_writer_options options = {.whole = true};
	int error = record_writer_create(path, &options, &writer, why);

	return error ? error : record_writer_finish(writer);
}

static int write_alert(const char *path)
{
	struct alert_sink_options options = {.json_path = path};
	struct verdict verdict = {.id = 1};
	struct report_model model = {0};
	struct alert_sink *sink;
	int error = alert_sink_create(&options, &sink, why);

	if (error)
		return error;
	alert_sink_verdict(sink, VERDICT_EVENT_ALERT, &verdict, &model);
	error = alert_sink_errors(sink) ? -EIO : 0;
	alert_sink_destroy(sink);
	return error;
}

static int write_report(const char *path, bool json)
{
	struct report_model model = {.job_id = "job"};
	const struct report_choice choice = {.format = json ? REPORT_JSON : REPORT_TEXT};
	int error = report_file_check(path, why);

	return error ? error : report_file_write(&model, path, &choice, why);
}

static int write_json(const char *path)
{
	return write_report(path, true);
}

static int write_text(const char *path)
{
	return write_report(path, false);
}

typedef int (*write_function)(const char *path);
static const write_function writers[] = {
	write_record, write_whole_record, write_alert, write_json, write_text};
enum { WRITERS = sizeof(writers) / sizeof(writers[0]) };

static int entries(void)
{
	char command[PATH_LENGTH + 32], text[16] = "";
	FILE *pipe;

	snprintf(command, sizeof(command), "ls -A %s | wc -l", folder);
	pipe = popen(command, "re");
	assert_non_null(pipe);
	assert_non_null(fgets(text, sizeof(text), pipe));
	pclose(pipe);
	return atoi(text);
}

static void each_makes_its_file_and_takes_it_over_again(void **state)
{
	(void)state;
	for (size_t i = 0; i < WRITERS; i++) {
		const char *path = in_folder("own");

		for (int again = 0; again < 3; again++)
			assert_int_equal(writers[i](path), 0);
		put(path, ""); /* as mktemp(1) makes it */
		assert_int_equal(writers[i](path), 0);
		assert_int_equal(entries(), 1);
		unlink(path);
	}
}

static void a_report_takes_the_place_of_one_of_the_other_format(void **state)
{
	const char *path = in_folder("report");

	(void)state;
	assert_int_equal(write_json(path), 0);
	assert_int_equal(write_text(path), 0);
	assert_int_equal(write_json(path), 0);
	unlink(path);
}

static void the_files_of_others_stay_as_they_are(void **state)
{
	(void)state;
	for (size_t i = 0; i < WRITERS; i++) {
		const char *path = in_folder("foreign");

		put(path, foreign);
		assert_int_equal(writers[i](path), -EEXIST);
		assert_non_null(strstr(why, path));
		assert_null(strchr(why, '\n'));
		assert_holds(path, foreign);
		for (size_t j = 0; j < WRITERS; j++) { /* also what another writer made */
			bool reports = i >= WRITERS - 2 && j >= WRITERS - 2;
			bool records = i < 2 && j < 2;

			unlink(path);
			assert_int_equal(writers[j](path), 0);
			assert_int_equal(
				writers[i](path), i == j || reports || records ? 0 : -EEXIST);
		}
		unlink(path);
		assert_int_equal(entries(), 0);
	}
}

static void a_file_with_a_second_name_is_not_taken_over(void **state)
{
	(void)state;
	for (size_t i = 0; i < WRITERS; i++) {
		char backup[PATH_LENGTH];
		const char *path = in_folder("own");

		snprintf(backup, sizeof(backup), "%s", in_folder("backup"));
		assert_int_equal(writers[i](path), 0);
		assert_int_equal(link(path, backup), 0);
		assert_int_equal(writers[i](path), -EEXIST);
		unlink(path);
		unlink(backup);
	}
}

static void own_links_lead_to_the_file(void **state)
{
	(void)state;
	for (size_t i = 0; i < WRITERS; i++) {
		struct stat status;
		char link_path[PATH_LENGTH], target[PATH_LENGTH];

		snprintf(link_path, sizeof(link_path), "%s", in_folder("link"));
		snprintf(target, sizeof(target), "%s", in_folder("target"));
		assert_int_equal(symlink("target", link_path), 0);
		assert_int_equal(writers[i](link_path), 0);
		assert_int_equal(writers[i](link_path), 0);
		assert_int_equal(lstat(link_path, &status), 0);
		assert_true(S_ISLNK(status.st_mode));
		assert_int_equal(lstat(target, &status), 0);
		assert_true(S_ISREG(status.st_mode) && status.st_size > 0);
		unlink(link_path);
		unlink(target);
	}
}

/* Root writes into an ordinary user's folder, where that user made a link in place of the file. */
static void links_of_others_are_not_followed_by_root(void **state)
{
	char home[PATH_LENGTH], victim[PATH_LENGTH], path[2 * PATH_LENGTH];

	(void)state;
	if (geteuid() != 0)
		skip();
	snprintf(home, sizeof(home), "%s", in_folder("home"));
	snprintf(victim, sizeof(victim), "%s", in_folder("victim"));
	for (size_t i = 0; i < WRITERS; i++) {
		assert_int_equal(mkdir(home, 0755), 0);
		assert_int_equal(chown(home, OTHER_USER, OTHER_USER), 0);
		for (int by_other = 0; by_other < 2;
			by_other++) { /* who can rename it, can move root's */
			assert_int_equal(writers[i](victim), 0); /* one that would be taken over */
			snprintf(path, sizeof(path), "%s/out", home);
			assert_int_equal(symlink(victim, path), 0);
			if (by_other)
				assert_int_equal(lchown(path, OTHER_USER, OTHER_USER), 0);
			assert_int_equal(writers[i](path), -ELOOP);
			assert_non_null(strstr(why, "link"));
			unlink(victim); /* and one that would be made */
			assert_int_equal(writers[i](path), -ELOOP);
			assert_int_equal(access(victim, F_OK), -1);
			unlink(path);
		}
		snprintf(path, sizeof(path), "%s/up", home); /* a folder on the way */
		assert_int_equal(symlink(folder, path), 0);
		snprintf(path, sizeof(path), "%s/up/victim", home);
		assert_int_equal(writers[i](path), -ELOOP);
		assert_int_equal(access(victim, F_OK), -1);
		snprintf(path, sizeof(path), "%s/up", home);
		unlink(path);
		snprintf(path, sizeof(path), "%s/out",
			home); /* without a link it is a folder as any */
		assert_int_equal(writers[i](path), 0);
		unlink(path);
		assert_int_equal(rmdir(home), 0);
	}
}

static void devices_stay(void **state)
{
	const char *path = in_folder("null");
	struct stat status;

	(void)state;
	if (mknod(path, S_IFCHR | 0666, makedev(1, 3)) < 0)
		skip();
	for (size_t i = 0; i < WRITERS; i++) {
		assert_int_equal(writers[i](path), 0);
		assert_int_equal(stat(path, &status), 0);
		assert_true(S_ISCHR(status.st_mode));
		assert_int_equal(entries(), 1);
	}
	unlink(path);
}

static void folders_and_block_devices_are_refused(void **state)
{
	const char *path = in_folder("block");

	(void)state;
	for (size_t i = 0; i < WRITERS; i++) {
		assert_int_equal(writers[i](folder), -EISDIR);
		assert_int_equal(writers[i]("/nonexistent/file"), -ENOENT);
		assert_int_equal(writers[i](""), -ENOENT);
	}
	if (mknod(path, S_IFBLK | 0600, makedev(1, 0)) == 0) {
		for (size_t i = 0; i < WRITERS; i++)
			assert_int_equal(writers[i](path), -ENOTSUP);
		unlink(path);
	}
}

static void a_pipe_that_nobody_reads_is_not_waited_for(void **state)
{
	const char *path = in_folder("pipe");

	(void)state;
	assert_int_equal(mkfifo(path, 0600), 0);
	for (size_t i = 0; i < WRITERS; i++) {
		int reader;

		assert_int_equal(writers[i](path), -ENXIO);
		reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		assert_int_equal(writers[i](path), 0);
		close(reader);
	}
	unlink(path);
}

static void standard_output_is_what_it_was_opened_as(void **state)
{
	const char *path = in_folder("stdout");
	int saved = dup(STDOUT_FILENO), fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct stat before, after;

	(void)state;
	fflush(stdout);
	dup2(fd, STDOUT_FILENO);
	assert_int_equal(fstat(fd, &before), 0);
	assert_int_equal(write_json("/dev/stdout"), 0);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	assert_int_equal(fstat(fd, &after), 0);
	assert_true(after.st_size > 0);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	close(fd);
	unlink(path);
}

static int import(const char *csv, const char *record)
{
	char *arguments[] = {"import", "--from", "whatif", (char *)csv, "-o", (char *)record, NULL};

	return cmd_import(6, arguments);
}

/* A trace that turns out bad after the record was begun: one rank in two places. */
static void a_failed_import_leaves_what_was_there(void **state)
{
	static const char head[] =
		"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,gmc,mb_id\n";
	char good[PATH_LENGTH], bad[PATH_LENGTH], text[1024], before[4096], after[4096];
	const char *record = in_folder("record");
	struct stat status;
	ssize_t length;
	int fd;

	(void)state;
	snprintf(good, sizeof(good), "%s", in_folder("good.csv"));
	snprintf(bad, sizeof(bad), "%s", in_folder("bad.csv"));
	snprintf(text, sizeof(text), "%s0,0,0,1,forward-compute,0,1,0,0,0,0\n", head);
	put(good, text);
	snprintf(text, sizeof(text),
		"%s0,0,0,1,forward-compute,0,1,0,0,0,0\n1,0,0,1,forward-compute,0,1,0,0,0,0\n",
		head);
	put(bad, text);
	assert_int_equal(import(bad, record), 2);
	assert_int_equal(access(record, F_OK), -1);
	assert_int_equal(import(good, record), 0);
	fd = open(record, O_RDONLY | O_CLOEXEC);
	length = read(fd, before, sizeof(before));
	assert_true(length > 0);
	assert_int_equal(import(bad, record), 2);
	assert_int_equal(pread(fd, after, sizeof(after), 0), length);
	assert_memory_equal(before, after, (size_t)length);
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_nlink, 1);
	close(fd);
	assert_int_equal(entries(), 3);
	unlink(record);
	if (mknod(record, S_IFCHR | 0666, makedev(1, 3)) == 0) {
		assert_int_equal(import(bad, record), 2);
		assert_int_equal(access(record, F_OK), 0);
	}
	unlink(record);
	unlink(good);
	unlink(bad);
}

/* What is left of a run is not replaced by an import either, nor a record that is being written. */
static void an_import_does_not_replace_a_live_record(void **state)
{
	const char *record = in_folder("record");
	struct record_writer *writer;

	(void)state;
	assert_int_equal(
		record_writer_create(record, &(struct record_writer_options){0}, &writer, why), 0);
	assert_int_equal(record_writer_append(writer, "x", 1, (struct job_ns){1}), 0);
	assert_int_equal(write_whole_record(record), -EEXIST);
	record_writer_destroy(writer);
	assert_int_equal(write_whole_record(record), -EEXIST);
	unlink(record);
}

static int ignore_request(void *context, const void *bytes, size_t length, struct job_ns received,
	struct message_reply *reply)
{
	(void)context, (void)bytes, (void)length, (void)received, (void)reply;
	return -1;
}

static void a_socket_does_not_take_the_place_of_a_file(void **state)
{
	const char *path = in_folder("socket");
	char url[PATH_LENGTH + 8];
	const char *const urls[] = {url};
	struct listener_options options = {
		.urls = urls, .url_count = 1, .on_request = ignore_request};
	struct listener *listener;

	(void)state;
	snprintf(url, sizeof(url), "ipc://%s", path);
	put(path, foreign);
	assert_true(listener_create(&options, &listener, why) < 0);
	assert_non_null(strstr(why, path));
	assert_holds(path, foreign);
	unlink(path);
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_makes_its_file_and_takes_it_over_again),
		cmocka_unit_test(a_report_takes_the_place_of_one_of_the_other_format),
		cmocka_unit_test(the_files_of_others_stay_as_they_are),
		cmocka_unit_test(a_file_with_a_second_name_is_not_taken_over),
		cmocka_unit_test(own_links_lead_to_the_file),
		cmocka_unit_test(links_of_others_are_not_followed_by_root),
		cmocka_unit_test(devices_stay),
		cmocka_unit_test(folders_and_block_devices_are_refused),
		cmocka_unit_test(a_pipe_that_nobody_reads_is_not_waited_for),
		cmocka_unit_test(standard_output_is_what_it_was_opened_as),
		cmocka_unit_test(a_failed_import_leaves_what_was_there),
		cmocka_unit_test(an_import_does_not_replace_a_live_record),
		cmocka_unit_test(a_socket_does_not_take_the_place_of_a_file),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
