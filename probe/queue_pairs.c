/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/queue_pairs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "probe/attach/loader_cache.h"
#include "probe/sources/verbs_probe.h"
#include "probe/sources/verbs_source.h"

enum {
	RANKS_MAX = 4096,
	PAIRS_MAX = 4096, /* per look; the rest comes with the next one */
	WINDOW_INTERVAL_S = 5,
};

struct queue_pairs {
	struct verbs_source *tables;
	struct verbs_probe *probe; /* NULL: see why */
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	size_t count;
	bool taken;
	struct message_queue_pair *pairs, *told; /* PAIRS_MAX each; told: by the probe, last time */
	size_t told_count;
	struct job_rank *ranks; /* RANKS_MAX, scratch */
};

static bool has_rdma_device(void)
{
	DIR *directory = opendir("/sys/class/infiniband");
	struct dirent *entry;
	bool found = false;

	while (directory && (entry = readdir(directory)))
		found |= entry->d_name[0] != '.';
	if (directory)
		closedir(directory);
	return found;
}

static void on_library(void *context, const char *path)
{
	struct verbs_probe *probe = context;
	struct library_file file = {0};
	const char *slash = strrchr(path, '/');
	struct stat status;

	if (strcmp(slash ? slash + 1 : path, "libibverbs.so.1") != 0 ||
		strlen(path) >= sizeof(file.path) || stat(path, &status) < 0)
		return;
	snprintf(file.path, sizeof(file.path), "%s", path);
	snprintf(file.name, sizeof(file.name), "%s", path);
	file.device = status.st_dev;
	file.inode = status.st_ino;
	(void)!verbs_probe_attach_library(probe, &file); /* kept by the probe for its state */
}

/* Before the job opens a device: only then its provider is learnt. */
static void open_probe(struct queue_pairs *queue_pairs, const struct bpf_source *bpf)
{
	struct verbs_probe_options options = {
		.interval_ns = WINDOW_INTERVAL_S * INT64_C(1000000000)};

	if (!bpf) {
		snprintf(queue_pairs->why, sizeof(queue_pairs->why), "BPF programs are not loaded");
		return;
	}
	options.processes_fd = bpf_source_processes_fd(bpf);
	if (verbs_probe_create(&options, &queue_pairs->probe, queue_pairs->why) < 0) {
		queue_pairs->probe = NULL;
		return;
	}
	loader_cache_visit("/etc/ld.so.cache", on_library, queue_pairs->probe);
}

int queue_pairs_create(const struct bpf_source *bpf, struct queue_pairs **result)
{
	struct queue_pairs *queue_pairs = calloc(1, sizeof(*queue_pairs));

	if (!queue_pairs)
		return -ENOMEM;
	if (!has_rdma_device()) {
		*result = queue_pairs;
		return 0;
	}
	queue_pairs->pairs = calloc(PAIRS_MAX, sizeof(*queue_pairs->pairs));
	queue_pairs->told = calloc(PAIRS_MAX, sizeof(*queue_pairs->told));
	queue_pairs->ranks = calloc(RANKS_MAX, sizeof(*queue_pairs->ranks));
	if (!queue_pairs->pairs || !queue_pairs->told || !queue_pairs->ranks ||
		verbs_source_create(NULL, &queue_pairs->tables) < 0) {
		queue_pairs_destroy(queue_pairs);
		return -ENOMEM;
	}
	open_probe(queue_pairs, bpf);
	*result = queue_pairs;
	return 0;
}

void queue_pairs_destroy(struct queue_pairs *queue_pairs)
{
	if (!queue_pairs)
		return;
	verbs_probe_destroy(queue_pairs->probe);
	verbs_source_destroy(queue_pairs->tables);
	free(queue_pairs->pairs);
	free(queue_pairs->told);
	free(queue_pairs->ranks);
	free(queue_pairs);
}

/* Libraries of containers and packages are not in the loader's cache. */
static void follow(struct queue_pairs *queue_pairs, const struct job_rank *rank)
{
	struct library_file file;

	if (verbs_source_follow(queue_pairs->tables, rank->pid, rank->rank) < 0 ||
		!queue_pairs->probe || verbs_source_counts(queue_pairs->tables, rank->pid))
		return;
	if (verbs_probe_follow(queue_pairs->probe, rank->pid, rank->rank) == 1 &&
		verbs_library_find(rank->pid, &file) == 0)
		(void)!verbs_probe_attach_library(queue_pairs->probe, &file);
}

/* The probe tells all it has: only what changed goes on. */
static void add_probed(struct queue_pairs *queue_pairs, struct host_ns now)
{
	static struct message_queue_pair seen[PAIRS_MAX];
	size_t count = verbs_probe_read(queue_pairs->probe, now, seen, PAIRS_MAX);

	for (size_t i = 0; i < count && queue_pairs->count < PAIRS_MAX; i++) {
		struct message_queue_pair before = {0};

		for (size_t j = 0; j < queue_pairs->told_count; j++) {
			if (queue_pairs->told[j].rank == seen[i].rank &&
				queue_pairs->told[j].number == seen[i].number)
				before = queue_pairs->told[j];
		}
		before.time = seen[i].time;
		if (memcmp(&before, &seen[i], sizeof(before)) != 0)
			queue_pairs->pairs[queue_pairs->count++] = seen[i];
	}
	memcpy(queue_pairs->told, seen, count * sizeof(*seen));
	queue_pairs->told_count = count;
}

void queue_pairs_look(struct queue_pairs *queue_pairs, const struct job *job, struct host_ns now)
{
	bool uncounted = false;
	size_t count;

	if (!queue_pairs->tables)
		return;
	if (queue_pairs->taken)
		queue_pairs->count = 0;
	queue_pairs->taken = false;
	count = job_ranks(job, queue_pairs->ranks, RANKS_MAX);
	for (size_t i = 0; i < count; i++) {
		follow(queue_pairs, &queue_pairs->ranks[i]);
		uncounted |= !queue_pairs->ranks[i].exited &&
			     !verbs_source_counts(queue_pairs->tables, queue_pairs->ranks[i].pid);
	}
	queue_pairs->count += verbs_source_read(queue_pairs->tables, now,
		queue_pairs->pairs + queue_pairs->count, PAIRS_MAX - queue_pairs->count);
	/* Before ranks are known, contexts tell their places already; windows come later. */
	if (queue_pairs->probe && (uncounted || count == 0)) {
		(void)verbs_probe_tick(queue_pairs->probe, now);
		add_probed(queue_pairs, now);
	}
}

size_t queue_pairs_take(struct queue_pairs *queue_pairs, struct message_queue_pair **out)
{
	*out = queue_pairs->pairs;
	if (queue_pairs->taken)
		return 0;
	queue_pairs->taken = true;
	return queue_pairs->count;
}

size_t queue_pairs_states(
	struct queue_pairs *queue_pairs, struct message_source *out, size_t capacity)
{
	if (!queue_pairs->tables || capacity < 2)
		return 0;
	out[0] = *verbs_source_state(queue_pairs->tables);
	if (queue_pairs->probe) {
		out[1] = *verbs_probe_state(queue_pairs->probe);
	} else {
		out[1] = (struct message_source){.name = "bpf.verbs", .state = SOURCE_MISSING};
		snprintf(out[1].why, sizeof(out[1].why), "%s", queue_pairs->why);
	}
	return 2;
}
