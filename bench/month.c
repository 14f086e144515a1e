/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_month RECORD REPORT RANKS DAYS STEP_MS LIMIT_MIB: a long job, simulated, through a coordinator's work with
 * a record that has a limit: its batches are written, judged and thinned as they are live, as fast as that goes. Every
 * fifth of the job one rank is slow for a while. Writes what a report says live to REPORT, and prints one JSON object:
 * what came, what the record took at most (with the file that it is thinned to), memory at a half of the job and
 * at its end. bench/month.py compares with the report of the record.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench/simulator/feed.h"
#include "coordinator/record_keeper.h"
#include "coordinator/report/file.h"
#include "probe/wire/encode.h"

enum { FAULTS = 5, BATCHES_A_LOOK = 64 };

struct month {
	const char *path;
	char beside[4096];
	struct record_keeper keeper;
	struct wire_buffer buffer;
	uint64_t batches, bytes, most_bytes;
	double half_s; /* of the job */
	struct job_ns begin;
	uint64_t half_kib;
	double append_s, keep_s, push_s; /* of CPU time */
};

static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint64_t resident_kib(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	uint64_t pages = 0;

	if (!file || fscanf(file, "%*u %" SCNu64, &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static uint64_t bytes_at(const char *path)
{
	struct stat status;

	return stat(path, &status) ? 0 : (uint64_t)status.st_size;
}

static void look(struct month *month, struct job_ns received)
{
	uint64_t beside = bytes_at(month->beside), bytes = bytes_at(month->path) + beside;

	month->most_bytes = bytes > month->most_bytes ? bytes : month->most_bytes;
	if (!month->begin.value)
		month->begin = received;
	if (!month->half_kib &&
		(double)(received.value - month->begin.value) / 1e9 >= month->half_s)
		month->half_kib = resident_kib();
}

/* As a coordinator takes a batch. */
static int take(void *context, struct message_batch *batch,
	void (*release)(struct message_batch *batch), struct job_ns received)
{
	struct month *month = context;
	struct message_reply reply;
	double start;
	int error = wire_encode_batch(batch, &month->buffer);

	release(batch);
	if (error)
		return error;
	start = cpu_s();
	error = record_writer_append(
		month->keeper.record, month->buffer.bytes, month->buffer.length, received);
	month->append_s += cpu_s() - start;
	if (error)
		return error;
	start = cpu_s();
	error = pipeline_push(month->keeper.pipeline, month->buffer.bytes, month->buffer.length,
		received, &reply);
	month->push_s += cpu_s() - start;
	if (error)
		return error;
	start = cpu_s();
	error = record_keeper_keep(&month->keeper, received);
	month->keep_s += cpu_s() - start;
	month->bytes += month->buffer.length;
	if (month->batches++ % BATCHES_A_LOOK == 0)
		look(month, received);
	return error;
}

static void on_verdict(void *context, enum verdict_event event, const struct verdict *verdict)
{
	struct month *month = context;

	(void)event;
	(void)record_keeper_tell(&month->keeper, verdict);
}

/* Returns 0 or a negative errno. */
static int run(struct month *month, const struct sim_options *options, uint64_t limit)
{
	const struct pipeline_options pipeline_options = {
		.on_verdict = on_verdict, .context = month};
	struct record_writer_options writing = {
		.program = "bench_month", .created = sim_job_time(0), .bytes_max = limit};
	const struct sim_feed_options feed = {.seed = 1, .batch_steps = 1};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct simulator *simulator = NULL;
	int error = pipeline_create(&pipeline_options, &month->keeper.pipeline);

	record_keeper_options(&month->keeper, &writing);
	if (!error)
		error = record_writer_create(month->path, &writing, &month->keeper.record, why);
	if (!error)
		error = record_writer_settle(month->keeper.record);
	if (!error)
		error = simulator_create(options, &simulator);
	if (!error)
		error = sim_feed(simulator, &feed, take, NULL, month);
	simulator_destroy(simulator);
	if (!error)
		error = pipeline_finish(month->keeper.pipeline);
	if (error)
		fprintf(stderr, "bench_month: %s\n", why[0] ? why : strerror(-error));
	return error;
}

static void print(const struct month *month, uint32_t steps, uint32_t ranks, uint64_t limit)
{
	double batches = (double)month->batches;

	printf("{\"ranks\": %" PRIu32 ", \"steps\": %" PRIu32 ", \"batches\": %" PRIu64
	       ", \"bytes_received\": %" PRIu64 ", \"limit\": %" PRIu64 ", \"bytes_most\": %" PRIu64
	       ", \"bytes_end\": %" PRIu64 ", \"resident_kib_half\": %" PRIu64
	       ", \"resident_kib_end\": %" PRIu64 ", \"append_us_per_batch\": %.2f"
	       ", \"keep_us_per_batch\": %.2f, \"judge_us_per_batch\": %.2f}\n",
		ranks, steps, month->batches, month->bytes, limit, month->most_bytes,
		bytes_at(month->path), month->half_kib, resident_kib(),
		1e6 * month->append_s / batches, 1e6 * month->keep_s / batches,
		1e6 * month->push_s / batches);
}

int main(int argc, char **argv)
{
	static struct month month;
	struct sim_options options;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	uint32_t ranks;
	uint64_t limit;
	double days;
	int error;

	if (argc != 7) {
		fprintf(stderr, "usage: bench_month RECORD REPORT RANKS DAYS STEP_MS LIMIT_MIB\n");
		return 2;
	}
	ranks = (uint32_t)strtoul(argv[3], NULL, 10);
	days = strtod(argv[4], NULL);
	limit = strtoull(argv[6], NULL, 10) << 20;
	sim_options_default(&options, ranks, 1);
	options.program.step_ns = strtod(argv[5], NULL) * 1e6;
	options.steps = (uint32_t)(days * 86400e9 / options.program.step_ns);
	options.fault_count = FAULTS;
	for (uint32_t f = 0; f < FAULTS; f++)
		options.faults[f] = (struct sim_fault){
			.kind = f % 2 ? SIM_FAULT_THROTTLE : SIM_FAULT_CONTENTION,
			.rank = (7 * f + 3) % ranks,
			.first = options.steps / FAULTS * f + options.steps / FAULTS / 2,
			.last = options.steps / FAULTS * f + options.steps / FAULTS / 2 +
				options.steps / FAULTS / 8,
			.size = 0.5};
	month.path = argv[1];
	snprintf(month.beside, sizeof(month.beside), "%s.thinned", argv[1]);
	month.half_s = days * 43200;
	error = run(&month, &options, limit);
	if (!error) {
		record_keeper_finish(&month.keeper, (struct job_ns){0});
		error = record_writer_finish(month.keeper.record);
		print(&month, options.steps, ranks, limit);
		if (report_file_write(record_keeper_report(&month.keeper), argv[2],
			    &(struct report_choice){.format = REPORT_JSON}, why) < 0) {
			fprintf(stderr, "bench_month: %s\n", why);
			error = -1;
		}
	}
	record_keeper_fini(&month.keeper);
	pipeline_destroy(month.keeper.pipeline);
	wire_buffer_fini(&month.buffer);
	return error != 0;
}
