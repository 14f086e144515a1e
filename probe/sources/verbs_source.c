/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/verbs_source.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/attach/target_root.h"
#include "probe/ring/verbs_table.h"
#include "probe/sources/text_file.h"

enum { PROCESSES_MAX = 256, PATH_LENGTH = 512 };

_Static_assert((int)WIRE_QUEUE_PAIR_STATUS_NR == (int)VERBS_STATUS_NR, "one list of statuses");
_Static_assert((int)WIRE_QUEUE_PAIR_BUCKET_NR == (int)VERBS_LATENCY_BUCKETS, "one histogram");
_Static_assert((int)QUEUE_PAIR_HAS_PEER == (int)VERBS_HAS_PEER, "the same flag");
_Static_assert((int)QUEUE_PAIR_PEER_GLOBAL == (int)VERBS_PEER_GLOBAL, "the same flag");
_Static_assert((int)QUEUE_PAIR_POSTS_UNSEEN == (int)VERBS_POSTS_UNSEEN, "the same flag");

/* What was told last, to tell only what changed. */
struct told {
	uint32_t generation, state;
	uint64_t sum;
	bool has_address;
	uint16_t lid;
	uint8_t gid[WIRE_GID_BYTES];
};

struct process {
	pid_t pid;
	uid_t owner; /* whose its table must be */
	uint32_t rank;
	bool ended; /* its table is read a last time */
	char path[PATH_LENGTH];
	size_t next;	   /* where the next read goes on */
	struct told *told; /* VERBS_QUEUE_PAIRS_MAX; NULL: no file was found yet */
	int fd;		   /* of the file */
	uint64_t unseen;   /* as of the last read */
};

struct verbs_source {
	char directory[PATH_LENGTH / 2];
	struct message_source state;
	uint64_t bad_files;
	struct verbs_table *copy; /* of the table that is being read */
	size_t process_count;
	struct process processes[PROCESSES_MAX];
};

int verbs_source_create(const char *directory, struct verbs_source **result)
{
	struct verbs_source *source = calloc(1, sizeof(*source));

	if (!source)
		return -ENOMEM;
	source->copy = malloc(sizeof(*source->copy));
	if (!source->copy) {
		free(source);
		return -ENOMEM;
	}
	if (!directory)
		directory = getenv("SLOWRANK_RING_DIRECTORY");
	if (!directory || directory[0] != '/')
		directory = VERBS_TABLE_DIRECTORY;
	snprintf(source->directory, sizeof(source->directory), "%s", directory);
	snprintf(source->state.name, sizeof(source->state.name), "verbs");
	*result = source;
	return 0;
}

static void close_table(struct process *process)
{
	if (process->told)
		close(process->fd);
	free(process->told);
	process->told = NULL;
}

void verbs_source_destroy(struct verbs_source *source)
{
	if (!source)
		return;
	for (size_t i = 0; i < source->process_count; i++)
		close_table(&source->processes[i]);
	free(source->copy);
	free(source);
}

int verbs_source_follow(struct verbs_source *source, pid_t pid, uint32_t rank)
{
	struct target_owner owner;
	int error;

	for (size_t i = 0; i < source->process_count; i++) {
		if (source->processes[i].pid == pid) {
			source->processes[i].rank = rank;
			return 0;
		}
	}
	if (source->process_count == PROCESSES_MAX)
		return -ENOSPC;
	error = target_owner_read(pid, &owner);
	if (error < 0)
		return error;
	source->processes[source->process_count++] =
		(struct process){.pid = pid, .owner = owner.user, .rank = rank};
	return 0;
}

bool verbs_source_counts(const struct verbs_source *source, pid_t pid)
{
	for (size_t i = 0; i < source->process_count; i++) {
		if (source->processes[i].pid == pid)
			return source->processes[i].path[0] != '\0';
	}
	return false;
}

/*
 * The process can write anything into its file, or cut it, which would make a mapping deadly: it is
 * read into a copy of ours, and only that is looked at.
 */
static int read_table(int fd, pid_t pid, struct verbs_table *copy)
{
	if (pread(fd, copy, sizeof(*copy), 0) != (ssize_t)sizeof(*copy) ||
		copy->magic != VERBS_TABLE_MAGIC || copy->version != VERBS_TABLE_VERSION ||
		copy->length_bytes != sizeof(*copy) || copy->pid != (uint32_t)pid)
		return -EBADMSG;
	return 0;
}

/* Names end in .UID.PID.START. Returns the pid, or 0. */
static pid_t pid_of_name(const char *name)
{
	unsigned uid, pid;
	unsigned long long start;
	int end = 0;

	if (strncmp(name, VERBS_TABLE_PREFIX, strlen(VERBS_TABLE_PREFIX)) != 0 ||
		sscanf(name + strlen(VERBS_TABLE_PREFIX), "%u.%u.%llu%n", &uid, &pid, &start,
			&end) != 3 ||
		name[strlen(VERBS_TABLE_PREFIX) + (size_t)end] != '\0')
		return 0;
	return (pid_t)pid;
}

/* A name says nothing: anybody may make files in the folder. Returns a descriptor or a negative errno. */
static int open_owned(const char *path, uid_t owner)
{
	int found = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	struct stat status;

	if (found < 0)
		return -errno;
	if (fstat(found, &status) || status.st_uid != owner) {
		close(found);
		return -EPERM;
	}
	return target_file_open(found, O_RDONLY);
}

static void open_table(struct verbs_source *source, struct process *process, const char *name)
{
	char path[PATH_LENGTH];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", source->directory, name) >= (int)sizeof(path) ||
		strcmp(path, process->path) == 0)
		return; /* the same one as before */
	fd = open_owned(path, process->owner);
	if (fd == -EPERM) /* another user's: no word on this process */
		return;
	close_table(process);
	snprintf(process->path, sizeof(process->path), "%s", path);
	process->next = 0;
	process->fd = fd;
	if (fd >= 0)
		process->told = calloc(VERBS_QUEUE_PAIRS_MAX, sizeof(*process->told));
	if (!process->told) {
		source->bad_files++;
		if (fd >= 0)
			close(fd);
	}
}

static void look_for_files(struct verbs_source *source)
{
	DIR *directory = opendir(source->directory);
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		pid_t pid = pid_of_name(entry->d_name);

		for (size_t i = 0; pid && i < source->process_count; i++) {
			if (source->processes[i].pid == pid && !source->processes[i].ended)
				open_table(source, &source->processes[i], entry->d_name);
		}
	}
	if (directory)
		closedir(directory);
}

/* The own address of a queue pair, as sysfs has it: its port's lid, and the gid it uses. */
static void find_address(
	const struct verbs_table *table, const struct verbs_queue_pair *pair, struct told *told)
{
	char name[VERBS_DEVICE_NAME_LENGTH + 1] = "", text[64];
	long lid;

	if (pair->device < VERBS_DEVICES_MAX)
		memcpy(name, table->devices[pair->device], VERBS_DEVICE_NAME_LENGTH);
	if (!name[0] || strchr(name, '/') || name[0] == '.')
		return;
	if (text_file_read_at(text, sizeof(text), "/sys/class/infiniband/%s/ports/%u/lid", name,
		    pair->port) == 0) {
		lid = strtol(text, NULL, 0);
		told->lid = lid > 0 && lid <= UINT16_MAX ? (uint16_t)lid : 0;
		told->has_address = told->lid != 0;
	}
	if (text_file_read_at(text, sizeof(text), "/sys/class/infiniband/%s/ports/%u/gids/%u", name,
		    pair->port, pair->gid_index) == 0) {
		text[strcspn(text, "\n")] = '\0';
		if (inet_pton(AF_INET6, text, told->gid) == 1)
			told->has_address = true;
	}
}

static void copy_counts(const struct verbs_queue_pair *pair, struct message_queue_pair *out)
{
	out->posted_requests = pair->posted_requests + pair->contended_requests;
	out->posted_bytes = pair->posted_bytes + pair->contended_bytes;
	out->read_bytes = pair->read_bytes + pair->contended_read_bytes;
	out->post_errors = pair->post_errors;
	out->completed_requests = pair->completed_requests;
	out->completed_bytes = pair->completed_bytes;
	out->received_requests = pair->received_requests + pair->contended_received_requests;
	out->received_bytes = pair->received_bytes + pair->contended_received_bytes;
	out->latency_count = pair->latency_count;
	out->latency_sum_ns = pair->latency_sum_ns;
	out->latency_max_ns = pair->latency_max_ns;
	out->latency_unmeasured = pair->latency_unmeasured;
	for (size_t i = 0; i < VERBS_STATUS_NR; i++)
		out->statuses[i] = pair->statuses[i] + pair->contended_statuses[i];
	for (size_t i = 0; i < VERBS_LATENCY_BUCKETS; i++)
		out->latency[i] = pair->latency[i];
}

static void describe(const struct process *process, const struct verbs_table *table,
	const struct verbs_queue_pair *pair, const struct told *told,
	struct message_queue_pair *out)
{
	out->rank = process->rank;
	out->number = pair->number;
	out->peer_number = pair->peer_number;
	out->flags =
		(uint16_t)(pair->flags & (VERBS_HAS_PEER | VERBS_PEER_GLOBAL | VERBS_POSTS_UNSEEN |
						 VERBS_EXTENDED_POSTS | VERBS_EXTENDED_POLL));
	out->peer_lid = pair->peer_lid;
	out->port = pair->port;
	out->type = (uint8_t)pair->type;
	out->retry_count = pair->retry_count;
	out->timeout = pair->timeout;
	memcpy(out->peer_gid, pair->peer_gid, sizeof(out->peer_gid));
	if (told->has_address) {
		out->flags |= QUEUE_PAIR_OWN_ADDRESS;
		out->own_lid = told->lid;
		memcpy(out->own_gid, told->gid, sizeof(out->own_gid));
	}
	if (pair->device < VERBS_DEVICES_MAX)
		snprintf(out->device, sizeof(out->device), "%.*s", VERBS_DEVICE_NAME_LENGTH - 1,
			table->devices[pair->device]);
}

/* False when the entry has gone to another queue pair while it was read. */
static bool is_whole(const struct process *process, size_t index, uint32_t generation)
{
	uint32_t now;
	size_t place = offsetof(struct verbs_table, queue_pairs) +
		       index * sizeof(struct verbs_queue_pair) +
		       offsetof(struct verbs_queue_pair, generation);

	return pread(process->fd, &now, sizeof(now), (off_t)place) == (ssize_t)sizeof(now) &&
	       now == generation;
}

/* Returns true when *out was filled. */
static bool read_entry(struct process *process, const struct verbs_table *table, size_t index,
	struct message_queue_pair *out)
{
	const struct verbs_queue_pair *pair = &table->queue_pairs[index];
	struct told *told = &process->told[index];
	uint32_t state = pair->state, generation = pair->generation;
	uint64_t sum;

	if (state != VERBS_QUEUE_PAIR_LIVE && state != VERBS_QUEUE_PAIR_DESTROYED)
		return false;
	*out = (struct message_queue_pair){0};
	copy_counts(pair, out);
	if (told->generation != generation)
		*told = (struct told){.generation = generation};
	if (!told->has_address && (pair->flags & VERBS_HAS_PEER))
		find_address(table, pair, told);
	describe(process, table, pair, told, out);
	if (state == VERBS_QUEUE_PAIR_DESTROYED)
		out->flags |= QUEUE_PAIR_DESTROYED;
	sum = out->posted_requests + out->post_errors + out->completed_requests + out->flags;
	for (size_t i = 0; i < VERBS_STATUS_NR; i++)
		sum += out->statuses[i];
	if (told->state == state && told->sum == sum)
		return false;
	if (!is_whole(process, index, generation))
		return false;
	told->state = state;
	told->sum = sum;
	return true;
}

static bool has_ended(pid_t pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH;
}

static void update_state(struct verbs_source *source)
{
	size_t table_count = 0;
	uint64_t unseen = 0;

	for (size_t i = 0; i < source->process_count; i++) {
		table_count += source->processes[i].path[0] != '\0';
		unseen += source->processes[i].unseen;
	}
	source->state.state = (uint8_t)(table_count == 0	      ? SOURCE_MISSING
					: unseen || source->bad_files ? SOURCE_DEGRADED
								      : SOURCE_ON);
	snprintf(source->state.why, sizeof(source->state.why), "%s",
		table_count == 0    ? "no process of the job counts its verbs (see docs/rdma.md)"
		: unseen	    ? "more devices or queue pairs than are counted"
		: source->bad_files ? "a table of counts could not be read"
				    : "");
}

/* The changed entries of one process, from where the last read ended. Returns how many. */
static size_t read_process(struct verbs_source *source, struct process *process, struct host_ns now,
	struct message_queue_pair *out, size_t capacity)
{
	bool ended = has_ended(process->pid); /* looked at before its last counts */
	const struct verbs_table *table = source->copy;
	size_t count = 0;

	if (read_table(process->fd, process->pid, source->copy) < 0) {
		source->bad_files++;
		process->ended = true;
		close_table(process);
		return 0;
	}
	process->unseen = table->contexts_unseen + table->queue_pairs_unseen;
	for (; process->next < VERBS_QUEUE_PAIRS_MAX && count < capacity; process->next++) {
		if (read_entry(process, table, process->next, &out[count]))
			out[count++].time = now;
	}
	if (process->next < VERBS_QUEUE_PAIRS_MAX)
		return count; /* no room: goes on from here */
	process->next = 0;
	if (ended) {
		process->ended = true;
		unlink(process->path);
		close_table(process);
	}
	return count;
}

size_t verbs_source_read(struct verbs_source *source, struct host_ns now,
	struct message_queue_pair *out, size_t capacity)
{
	size_t count = 0;

	look_for_files(source);
	for (size_t i = 0; i < source->process_count && count < capacity; i++) {
		struct process *process = &source->processes[i];

		if (process->told)
			count += read_process(source, process, now, out + count, capacity - count);
		else if (!process->ended)
			process->ended = has_ended(process->pid);
	}
	return count;
}

const struct message_source *verbs_source_state(struct verbs_source *source)
{
	update_state(source);
	return &source->state;
}
