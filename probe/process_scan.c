/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/process_scan.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "probe/attach/process_stat.h"
#include "probe/process_tree.h"

enum { PROCESSES_MAX = 65536 };

#define SETTLED_NS INT64_C(10000000000)
#define SETTLED_INTERVAL_NS INT64_C(1900000000)

struct seen {
	pid_t pid, parent;
};

struct process_scan {
	struct host_ns changed; /* when processes came or went */
	struct host_ns looked;	/* for new ones */
	bool root_added;	/* since then */
	size_t known_count;
	pid_t *known; /* ours, ascending */
	size_t seen_count, seen_capacity, before_count, before_capacity;
	struct seen *seen;   /* all of the host, ascending by pid */
	struct seen *before; /* the same of the look before: a parent is read once */
};

struct process_scan *process_scan_create(void)
{
	struct process_scan *scan = calloc(1, sizeof(*scan));

	if (!scan)
		return NULL;
	scan->known = calloc(PROCESSES_MAX, sizeof(*scan->known));
	if (!scan->known) {
		free(scan);
		return NULL;
	}
	return scan;
}

void process_scan_destroy(struct process_scan *scan)
{
	if (!scan)
		return;
	free(scan->known);
	free(scan->seen);
	free(scan->before);
	free(scan);
}

/* The index of pid, or where it belongs. */
static size_t known_at(const struct process_scan *scan, pid_t pid)
{
	size_t low = 0, high = scan->known_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (scan->known[middle] < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_known(const struct process_scan *scan, pid_t pid)
{
	size_t at = known_at(scan, pid);

	return at < scan->known_count && scan->known[at] == pid;
}

static bool add_known(struct process_scan *scan, pid_t pid)
{
	size_t at = known_at(scan, pid);

	if (scan->known_count == PROCESSES_MAX || is_known(scan, pid))
		return false;
	memmove(&scan->known[at + 1], &scan->known[at],
		(scan->known_count - at) * sizeof(*scan->known));
	scan->known[at] = pid;
	scan->known_count++;
	return true;
}

void process_scan_add_root(struct process_scan *scan, pid_t pid)
{
	scan->root_added |= add_known(scan, pid);
}

/*
 * Looks follow each other faster than process numbers come round again. Who gets another parent has lost its
 * own, and is ours if that one was.
 */
static pid_t known_parent_of(const struct process_scan *scan, pid_t pid, size_t *at)
{
	struct process_stat stat;

	while (*at < scan->before_count && scan->before[*at].pid < pid)
		++*at;
	if (*at < scan->before_count && scan->before[*at].pid == pid && scan->before[*at].parent)
		return scan->before[*at].parent;
	(void)process_stat_read(pid, &stat);
	return stat.parent; /* 0: gone */
}

static void read_all(struct process_scan *scan)
{
	DIR *directory = opendir("/proc");
	struct seen *seen = scan->before;
	size_t capacity = scan->before_capacity, at = 0;
	struct dirent *entry;

	scan->before = scan->seen;
	scan->before_count = scan->seen_count;
	scan->before_capacity = scan->seen_capacity;
	scan->seen = seen;
	scan->seen_capacity = capacity;
	scan->seen_count = 0;
	while (directory && (entry = readdir(directory))) {
		pid_t pid =
			isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;

		if (pid <= 0)
			continue;
		if (scan->seen_count == scan->seen_capacity) {
			capacity = scan->seen_capacity ? scan->seen_capacity * 2 : 1024;
			struct seen *grown = realloc(scan->seen, capacity * sizeof(*grown));

			if (!grown)
				break;
			scan->seen = grown;
			scan->seen_capacity = capacity;
		}
		scan->seen[scan->seen_count++] =
			(struct seen){.pid = pid, .parent = known_parent_of(scan, pid, &at)};
	}
	if (directory)
		closedir(directory);
}

static int compare_seen(const void *left, const void *right)
{
	const struct seen *a = left, *b = right;

	return (a->pid > b->pid) - (a->pid < b->pid);
}

static bool find_new(
	struct process_scan *scan, const struct process_scan_callbacks *callbacks, void *context)
{
	bool more = true, any = false;

	read_all(scan);
	qsort(scan->seen, scan->seen_count, sizeof(*scan->seen), compare_seen);
	while (more) { /* children of children, as deep as they are */
		more = false;
		for (size_t i = 0; i < scan->seen_count; i++) {
			struct seen *seen = &scan->seen[i];

			if (!is_known(scan, seen->parent) || is_known(scan, seen->pid) ||
				process_has_ended(seen->pid) || !add_known(scan, seen->pid))
				continue;
			callbacks->found(context, seen->pid);
			more = any = true;
		}
	}
	return any;
}

static bool drop_ended(
	struct process_scan *scan, const struct process_scan_callbacks *callbacks, void *context)
{
	size_t count = scan->known_count, kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (!process_has_ended(scan->known[i]))
			scan->known[kept++] = scan->known[i];
		else
			callbacks->ended(context, scan->known[i]);
	}
	scan->known_count = kept;
	return kept < count;
}

void process_scan_look(struct process_scan *scan, struct host_ns now,
	const struct process_scan_callbacks *callbacks, void *context)
{
	bool changed = drop_ended(scan, callbacks, context) || scan->root_added;

	scan->root_added = false;
	if (changed || now.value - scan->changed.value < SETTLED_NS ||
		now.value - scan->looked.value >= SETTLED_INTERVAL_NS) {
		scan->looked = now;
		changed |= find_new(scan, callbacks, context);
	}
	if (changed)
		scan->changed = now;
}
