/* SPDX-License-Identifier: Apache-2.0 */
/* The report command on real records: whole, cut short, damaged, foreign, of a newer version. */
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
#include <unistd.h>

#include <cmocka.h>

#include "coordinator/commands.h"
#include "coordinator/record/writer.h"
#include "probe/wire/encode.h"

enum { FRAMES = 4, TEXT_LENGTH = 64 * 1024, WORDS_MAX = 8 };

static char folder[64], record[128], output[128];

static void write_record(void)
{
	struct wire_buffer buffer = {0};
	struct record_writer *writer;
	struct record_writer_options options = {
		.program = "test", .created = {1000}, .created_unix_ns = 1795242300000000000};
	struct message_rank rank = {.rank = 2, .world_size = 4, .pid = 77, .host = "node-a"};

	assert_int_equal(record_writer_create(record, &options, &writer, NULL), 0);
	for (uint64_t i = 0; i < FRAMES; i++) {
		struct message_batch batch = {.probe_id = 1,
			.number = i,
			.host_id = 9,
			.sent = {(int64_t)(2000 + i * 1000)},
			.job_id = "test-job",
			.final = i == FRAMES - 1,
			.rank_count = i == 0,
			.ranks = &rank};

		assert_int_equal(wire_encode_batch(&batch, &buffer), 0);
		assert_int_equal(record_writer_append(writer, buffer.bytes, buffer.length,
					 (struct job_ns){(int64_t)(2100 + i * 1000)}),
			0);
	}
	assert_int_equal(record_writer_finish(writer), 0);
	wire_buffer_fini(&buffer);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/slowrank-report-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(record, sizeof(record), "%s/record.slr", folder);
	snprintf(output, sizeof(output), "%s/out", folder);
	write_record();
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static void read_file(const char *path, char text[TEXT_LENGTH])
{
	FILE *file = fopen(path, "re");
	size_t length;

	assert_non_null(file);
	length = fread(text, 1, TEXT_LENGTH - 1, file);
	fclose(file);
	text[length] = '\0';
}

/* Runs the command with standard error in a file; returns its status and what it said there. */
static int run(char said[TEXT_LENGTH], size_t count, const char *const *words)
{
	char copies[WORDS_MAX][256], *arguments[WORDS_MAX + 1] = {NULL}, path[128];
	int saved = dup(STDERR_FILENO), fd, status;

	assert_true(count <= WORDS_MAX);
	for (size_t i = 0; i < count; i++) {
		snprintf(copies[i], sizeof(copies[i]), "%s", words[i]);
		arguments[i] = copies[i];
	}
	snprintf(path, sizeof(path), "%s/stderr", folder);
	fflush(stderr);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	dup2(fd, STDERR_FILENO);
	close(fd);
	status = cmd_report((int)count, arguments);
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	read_file(path, said);
	return status;
}

#define RUN(said, ...)                                                                             \
	run(said, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                          \
		(const char *[]){__VA_ARGS__})

static size_t lines_in(const char *text)
{
	size_t lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static char said[TEXT_LENGTH], written[TEXT_LENGTH], again[TEXT_LENGTH];

static void a_whole_record_is_reported(void **state)
{
	struct stat status;

	(void)state;
	assert_int_equal(RUN(said, "report", record, "-o", output), 0);
	assert_string_equal(said, "");
	read_file(output, written);
	assert_non_null(strstr(written, "test-job"));
	assert_non_null(strstr(written, "no step was seen"));
	assert_int_equal(RUN(said, "report", "--format=json", "--output", output, record), 0);
	read_file(output, written);
	assert_non_null(strstr(written, "\"schema\": \"slowrank.report/1\""));
	assert_non_null(strstr(written, "\"host\": \"node-a\""));
	assert_non_null(strstr(written, "\"record_truncated\": false"));
	assert_int_equal(stat(output, &status), 0);
	assert_int_equal(status.st_mode & 0600, 0600);
	assert_null(strstr(written, "\"explain\""));
	/* Again, byte for byte. */
	assert_int_equal(RUN(said, "report", "--format", "json", "-o", output, record), 0);
	read_file(output, again);
	assert_string_equal(written, again);
	assert_int_equal(RUN(said, "report", record, "--explain", "2:5", "-o", output), 0);
	read_file(output, written);
	assert_non_null(strstr(written, "no block of it was judged from that step on"));
	assert_int_equal(
		RUN(said, "report", record, "--explain=all", "--format=json", "-o", output), 0);
	read_file(output, written);
	assert_non_null(strstr(written, "\"explain\": {"));
}

/* What is limited is said; a line that is wrong is named, and nothing is written. */
static void limits_of_alerts_are_told(void **state)
{
	char config[160];
	FILE *out;

	(void)state;
	snprintf(config, sizeof(config), "%s/config", folder);
	out = fopen(config, "we");
	fputs("# ours\nalert-slowdown = 1.10\nalert-after = 30s\n", out);
	fclose(out);
	assert_int_equal(RUN(said, "report", record, "--config", config, "-o", output), 0);
	assert_string_equal(said, "");
	read_file(output, written);
	assert_non_null(strstr(written, "alerts: only from 1.10x on; only of what lasts 30.0 s\n"));
	assert_int_equal(RUN(said, "report", record, "--config", config, "--alert-after=1m",
				 "--format=json", "-o", output),
		0);
	read_file(output, written);
	assert_non_null(strstr(written, "\"alert_limits\": "));
	assert_non_null(strstr(written, "\"after_s\": 60"));
	out = fopen(config, "ae");
	fputs("silent-imbalance = much\n", out);
	fclose(out);
	unlink(output);
	assert_int_equal(RUN(said, "report", record, "--config", config, "-o", output), 2);
	assert_int_equal(lines_in(said), 1);
	assert_non_null(strstr(said, "config:4: 'much' is no value for silent-imbalance"));
	assert_int_equal(access(output, F_OK), -1);
	assert_int_equal(RUN(said, "report", record, "--alert-slowdown", "fast", "-o", output), 2);
	assert_int_equal(lines_in(said), 1);
	assert_int_equal(RUN(said, "report", record, "--alert-slowdown"), 2);
	assert_non_null(strstr(said, "a value is missing after --alert-slowdown"));
}

static void a_cut_record_gives_what_is_there_and_two(void **state)
{
	char cut[160];
	struct stat status;
	FILE *in, *out;

	(void)state;
	snprintf(cut, sizeof(cut), "%s/cut.slr", folder);
	assert_int_equal(stat(record, &status), 0);
	in = fopen(record, "re");
	out = fopen(cut, "we");
	/* Into the last frame: the mark of the end is shorter than a frame. */
	for (off_t i = 0; i < status.st_size - 60; i++)
		fputc(fgetc(in), out);
	fclose(in);
	fclose(out);
	unlink(output);
	assert_int_equal(RUN(said, "report", cut, "--format", "json", "-o", output), 2);
	assert_int_equal(lines_in(said), 1);
	assert_non_null(strstr(said, "cut short"));
	read_file(output, written);
	assert_non_null(strstr(written, "\"host\": \"node-a\""));
	assert_non_null(strstr(written, "\"record_truncated\": true"));
}

static void write_bytes(const char *path, const char *bytes, size_t length)
{
	FILE *out = fopen(path, "we");

	assert_non_null(out);
	assert_int_equal(fwrite(bytes, 1, length, out), length);
	fclose(out);
}

static void what_is_no_record_is_refused(void **state)
{
	char path[160];
	FILE *in;
	size_t length;

	(void)state;
	unlink(output);
	snprintf(path, sizeof(path), "%s/other", folder);
	assert_int_equal(RUN(said, "report", path, "-o", output), 2);
	assert_int_equal(lines_in(said), 1);
	assert_non_null(strstr(said, path)); /* missing */
	write_bytes(path, "#!/bin/sh\necho this is something else, and long enough\n", 50);
	assert_int_equal(RUN(said, "report", path, "-o", output), 2);
	assert_int_equal(lines_in(said), 1);
	assert_non_null(strstr(said, "not a slowrank record"));
	write_bytes(path, "", 0);
	assert_int_equal(RUN(said, "report", path, "-o", output), 2);
	assert_int_equal(lines_in(said), 1);
	/* A newer version: docs/record.md, the version is the number behind the magic. */
	in = fopen(record, "re");
	length = fread(written, 1, TEXT_LENGTH, in);
	fclose(in);
	written[8]++;
	write_bytes(path, written, length);
	assert_int_equal(RUN(said, "report", path, "-o", output), 2);
	assert_int_equal(lines_in(said), 1);
	assert_non_null(strstr(said, "version"));
	assert_non_null(strstr(said, "newer"));
	assert_int_equal(access(output, F_OK), -1); /* nothing was written */
}

static void bad_usage_is_one_line_and_two(void **state)
{
	(void)state;
	assert_int_equal(RUN(said, "report"), 2);
	assert_int_equal(lines_in(said), 1);
	assert_int_equal(RUN(said, "report", "a", "b"), 2);
	assert_int_equal(RUN(said, "report", record, "--format", "pdf"), 2);
	assert_non_null(strstr(said, "pdf"));
	assert_int_equal(RUN(said, "report", record, "--format"), 2);
	assert_non_null(strstr(said, "missing after --format"));
	assert_int_equal(RUN(said, "report", record, "--explain", "two"), 2);
	assert_non_null(strstr(said, "not two"));
	assert_int_equal(RUN(said, "report", record, "--of", "everybody"), 2);
	assert_non_null(strstr(said, "not everybody"));
	assert_int_equal(RUN(said, "report", record, "--rank", "-1"), 2);
	assert_int_equal(RUN(said, "report", record, "--incident", "4294967296"), 2);
	assert_int_equal(lines_in(said), 1);
	/* Nothing is written where there are no stacks. */
	unlink(output);
	assert_int_equal(RUN(said, "report", record, "--format", "flame", "-o", output), 2);
	assert_non_null(strstr(said, "no stacks: no look was made"));
	assert_int_equal(RUN(said, "report", record, "--format=folded", "--incident=1"), 2);
	assert_non_null(strstr(said, "no incident 1"));
	assert_int_equal(lines_in(said), 1);
	assert_int_equal(access(output, F_OK), -1);
	assert_int_equal(RUN(said, "report", record, "--colour"), 2);
	assert_int_equal(lines_in(said), 1);
	assert_int_equal(RUN(said, "report", record, "-o", "/no/such/folder/x"), 2);
	assert_int_equal(lines_in(said), 1);
	assert_non_null(strstr(said, "/no/such/folder/x"));
	assert_int_equal(RUN(said, "report", record, "-o", "/dev/full"), 2);
	assert_int_equal(lines_in(said), 1);
}

/* A link keeps being a link, and what it points to is replaced. */
static void links_are_followed(void **state)
{
	char target[160], link[160];
	struct stat status;

	(void)state;
	snprintf(target, sizeof(target), "%s/target", folder);
	snprintf(link, sizeof(link), "%s/link", folder);
	write_bytes(target, "", 0);
	assert_int_equal(symlink(target, link), 0);
	assert_int_equal(RUN(said, "report", record, "-o", link), 0);
	assert_int_equal(lstat(link, &status), 0);
	assert_true(S_ISLNK(status.st_mode));
	read_file(target, written);
	assert_non_null(strstr(written, "test-job"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_record_is_reported),
		cmocka_unit_test(limits_of_alerts_are_told),
		cmocka_unit_test(a_cut_record_gives_what_is_there_and_two),
		cmocka_unit_test(what_is_no_record_is_refused),
		cmocka_unit_test(bad_usage_is_one_line_and_two),
		cmocka_unit_test(links_are_followed),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
