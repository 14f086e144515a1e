/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what slowrank's verbs sources see, one JSON object a line: for the VM test.
 *   verbs_dump tables              queue pairs in all tables of counting processes
 *   verbs_dump ports               sums of the devices' counters
 *   verbs_dump always COMMAND...   runs the command and counts it by uprobes
 *   verbs_dump windows COMMAND...  the same in short windows; then what they cost
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/ring/verbs_table.h"
#include "probe/sources/bpf_source.h"
#include "probe/sources/rdma.h"
#include "probe/sources/verbs_probe.h"
#include "probe/sources/verbs_source.h"

enum { CAPACITY = 4096, TICK_NS = 2000000 };

static const char libibverbs[] = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";

static struct message_queue_pair pairs[CAPACITY];

static void print_pairs(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct message_queue_pair *pair = &pairs[i];
		unsigned long long errors = 0;

		for (size_t s = 1; s < WIRE_QUEUE_PAIR_STATUS_NR; s++)
			errors += pair->statuses[s];
		printf("{\"pid\": %u, \"device\": \"%s\", \"number\": %u, \"peer\": %u, "
		       "\"flags\": %u, \"posted_requests\": %llu, \"posted_bytes\": %llu, "
		       "\"completed_requests\": %llu, \"completed_bytes\": %llu, "
		       "\"received_requests\": %llu, \"received_bytes\": %llu, \"success\": %llu, "
		       "\"errors\": %llu, \"latency_count\": %llu, \"latency_mean_us\": %.1f, "
		       "\"latency_max_us\": %.1f, \"gid\": %u, \"peer_gid\": %u}\n",
			pair->rank, pair->device, pair->number, pair->peer_number, pair->flags,
			(unsigned long long)pair->posted_requests,
			(unsigned long long)pair->posted_bytes,
			(unsigned long long)pair->completed_requests,
			(unsigned long long)pair->completed_bytes,
			(unsigned long long)pair->received_requests,
			(unsigned long long)pair->received_bytes,
			(unsigned long long)pair->statuses[0], errors,
			(unsigned long long)pair->latency_count,
			pair->latency_count
				? (double)pair->latency_sum_ns / (double)pair->latency_count / 1e3
				: 0.0,
			(double)pair->latency_max_ns / 1e3, pair->own_gid[15], pair->peer_gid[15]);
	}
}

/* Each process is its own rank here: the table's pid. */
static int print_tables(void)
{
	struct verbs_source *source;
	DIR *directory = opendir(VERBS_TABLE_DIRECTORY);
	struct dirent *entry;
	unsigned uid, pid;

	if (!directory || verbs_source_create(NULL, &source) < 0)
		return 1;
	while ((entry = readdir(directory))) {
		if (sscanf(entry->d_name, VERBS_TABLE_PREFIX "%u.%u.", &uid, &pid) == 2 &&
			verbs_source_follow(source, (pid_t)pid, pid) < 0)
			return 1;
	}
	closedir(directory);
	print_pairs(verbs_source_read(source, (struct host_ns){0}, pairs, CAPACITY));
	verbs_source_destroy(source);
	return 0;
}

static int print_ports(void)
{
	struct rdma_totals totals;

	if (rdma_read_totals("/sys/class/infiniband", NULL, &totals) < 0)
		return 1;
	printf("{\"ports\": %zu, \"retransmits\": %lld, \"has_retransmits\": %d}\n",
		totals.port_count, (long long)totals.value[RDMA_RETRANSMITS],
		totals.has[RDMA_RETRANSMITS]);
	return 0;
}

static struct host_ns clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (struct host_ns){(int64_t)now.tv_sec * 1000000000 + now.tv_nsec};
}

/* Starts the command when it is followed. */
static pid_t start(struct bpf_source *source, char **command)
{
	int gate[2];
	char byte = 'x';
	pid_t child;

	if (pipe(gate) < 0)
		return -1;
	child = fork();
	if (child == 0) {
		if (read(gate[0], &byte, 1) == 1)
			execvp(command[0], command);
		_exit(127);
	}
	if (child > 0 &&
		(bpf_source_track(source, (uint32_t)child) < 0 || write(gate[1], &byte, 1) != 1))
		return -1;
	return child;
}

static void on_record(void *context, const struct event_header *event)
{
	(void)context;
	(void)event;
}

static int watch(bool always, char **command)
{
	struct library_file file = {.name = "libibverbs.so.1"};
	struct bpf_source_options source_options = {0};
	struct verbs_probe_options options = {.always = always};
	struct timespec tick = {.tv_nsec = TICK_NS};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct verbs_probe_cost cost;
	struct bpf_source *source;
	struct verbs_probe *probe;
	struct verbs_place places[8];
	struct stat status;
	int exit_status = 0;
	pid_t child;

	if (stat(libibverbs, &status) < 0 || bpf_source_create(&source_options, &source, why) < 0) {
		fprintf(stderr, "verbs_dump: %s\n", why);
		return 1;
	}
	snprintf(file.path, sizeof(file.path), "%s", libibverbs);
	file.device = status.st_dev;
	file.inode = status.st_ino;
	options.processes_fd = bpf_source_processes_fd(source);
	if (verbs_probe_create(&options, &probe, why) < 0) {
		fprintf(stderr, "verbs_dump: %s\n", why);
		return 1;
	}
	int error = verbs_probe_attach_library(probe, &file);

	if (error < 0) {
		fprintf(stderr, "verbs_dump: cannot attach: %s\n", strerror(-error));
		return 1;
	}
	child = start(source, command);
	if (child < 0 || verbs_probe_follow(probe, child, (uint32_t)child) < 0)
		return 1;
	while (waitpid(child, &exit_status, WNOHANG) == 0) {
		(void)verbs_probe_tick(probe, clock_now());
		(void)bpf_source_poll(source, on_record, NULL);
		nanosleep(&tick, NULL);
	}
	(void)verbs_probe_tick(probe, clock_now());
	print_pairs(verbs_probe_read(probe, clock_now(), pairs, CAPACITY));
	for (size_t i = 0, n = verbs_probe_places(probe, places, 8); i < n; i++)
		printf("{\"provider\": \"%s\", \"offset\": %llu, \"cheap\": %d}\n",
			places[i].file.name, (unsigned long long)places[i].offset,
			places[i].cost == OPCODE_CHEAP);
	verbs_probe_costs(probe, &cost);
	printf("{\"windows\": %llu, \"hits\": %llu, \"open_ms\": %.1f, \"cost_ms\": %.1f}\n",
		(unsigned long long)cost.windows, (unsigned long long)cost.hits,
		(double)cost.open_ns / 1e6, (double)cost.estimate_ns / 1e6);
	verbs_probe_destroy(probe);
	bpf_source_destroy(source);
	return WIFEXITED(exit_status) ? WEXITSTATUS(exit_status) : 1;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "tables") == 0)
		return print_tables();
	if (argc == 2 && strcmp(argv[1], "ports") == 0)
		return print_ports();
	if (argc > 2 && strcmp(argv[1], "always") == 0)
		return watch(true, argv + 2);
	if (argc > 2 && strcmp(argv[1], "windows") == 0)
		return watch(false, argv + 2);
	fprintf(stderr, "usage: verbs_dump tables|ports|always COMMAND...|windows COMMAND...\n");
	return 2;
}
