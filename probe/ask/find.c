/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ask/find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/runtime_directory.h"
#include "probe/wire/message.h"

enum { FOUND_MAX = 16, LOCKS_MAX = 4096 };

struct found_job {
	char name[sizeof(((struct job_place *)NULL)->job_id)];
};

/* The jobs of this user on this host, by the locks of their coordinators. */
struct found {
	size_t count, left_count;
	struct found_job jobs[FOUND_MAX];
	struct found_job left; /* the latest that nobody holds: its coordinator was killed */
	size_t lock_count;
	unsigned long locks[LOCKS_MAX]; /* inodes of files that are held */
};

/* Taking a lock to see whether it is held could, for a moment, keep a coordinator from being started. */
static void read_locks(struct found *found)
{
	FILE *locks = fopen("/proc/locks", "re");
	char line[256], kind[16];
	unsigned long inode;

	while (locks && found->lock_count < LOCKS_MAX && fgets(line, sizeof(line), locks)) {
		if (sscanf(line, "%*s %15s %*s %*s %*d %*x:%*x:%lu", kind, &inode) == 2 &&
			strcmp(kind, "FLOCK") == 0)
			found->locks[found->lock_count++] = inode;
	}
	if (locks)
		fclose(locks);
}

static bool is_held(const struct found *found, int directory_fd, const char *name)
{
	struct stat status;

	if (fstatat(directory_fd, name, &status, AT_SYMLINK_NOFOLLOW))
		return false;
	for (size_t i = 0; i < found->lock_count; i++) {
		if (found->locks[i] == status.st_ino)
			return true;
	}
	return false;
}

/* A host that is watched alone adds its name to the job's. */
static bool is_of_job(const char *found, const char *job)
{
	size_t length = strlen(job);

	return strncmp(found, job, length) == 0 && (!found[length] || found[length] == '.');
}

/* job: NULL = any. */
static void find_jobs(int directory_fd, const char *job, struct found *found)
{
	DIR *folder = fdopendir(dup(directory_fd));
	struct dirent *entry;

	read_locks(found);
	while (folder && found->count < FOUND_MAX && (entry = readdir(folder))) {
		size_t length = strlen(entry->d_name);
		struct found_job here = {0};

		if (length < 6 || strcmp(entry->d_name + length - 5, ".lock") != 0 ||
			length - 5 >= sizeof(here.name))
			continue;
		memcpy(here.name, entry->d_name, length - 5);
		if (job && !is_of_job(here.name, job))
			continue;
		if (is_held(found, directory_fd, entry->d_name)) {
			found->jobs[found->count++] = here;
		} else {
			found->left = here;
			found->left_count++;
		}
	}
	if (folder)
		closedir(folder);
	/* A container may not show who holds a lock: a file that is alone is tried. */
	if (!found->count && found->left_count == 1)
		found->jobs[found->count++] = found->left;
}

static void use_ports(struct ask_place *place)
{
	place->attempts = COORDINATOR_PORT_ATTEMPTS;
	coordinator_process_url(&place->job, 0, place->url);
	coordinator_process_where(&place->job, place->attempts, place->url, place->where);
}

/* A coordinator that serves several hosts has no socket, but ports at all of this host's addresses. */
static void use_found(struct ask_place *place, const char *directory, const char *job)
{
	struct stat status;

	snprintf(place->url, sizeof(place->url), "ipc://%s/%s.sock", directory, job);
	snprintf(place->where, sizeof(place->where), "%s", place->url);
	if (stat(place->url + strlen("ipc://"), &status) == 0)
		return;
	snprintf(place->job.job_id, sizeof(place->job.job_id), "%s", job);
	gethostname(place->job.leader_address, sizeof(place->job.leader_address) - 1);
	use_ports(place);
}

static int tell_several(const struct found *found, char why[ASK_WHY_LENGTH])
{
	int used = snprintf(why, ASK_WHY_LENGTH, "several jobs run here; name one with --job:");

	for (size_t i = 0; i < found->count && used < ASK_WHY_LENGTH; i++)
		used += snprintf(why + used, (size_t)(ASK_WHY_LENGTH - used), "%s %s", i ? "," : "",
			found->jobs[i].name);
	return -ENOENT;
}

/* Of this host. Returns 1: there is none. */
static int find_here(
	struct ask_place *place, const struct probe_options *options, char why[ASK_WHY_LENGTH])
{
	char directory[RUNTIME_DIRECTORY_LENGTH], job[STEP_NAME_LENGTH_MAX + 1], unused[256];
	int directory_fd = runtime_directory_open(directory, unused);
	struct found found = {0};

	if (directory_fd < 0)
		return 1;
	if (options->job)
		message_job_id(job, options->job);
	find_jobs(directory_fd, options->job ? job : NULL, &found);
	close(directory_fd);
	if (!found.count)
		return 1;
	if (found.count > 1)
		return tell_several(&found, why);
	use_found(place, directory, found.jobs[0].name);
	return 0;
}

int ask_place_find(
	struct ask_place *place, const struct probe_options *options, char why[ASK_WHY_LENGTH])
{
	int error;

	*place = (struct ask_place){.attempts = 1};
	if (options->coordinator) {
		snprintf(place->url, sizeof(place->url), "%s", options->coordinator);
		snprintf(place->where, sizeof(place->where), "%s", options->coordinator);
		return 0;
	}
	if (!options->leader) {
		error = find_here(place, options, why);
		if (error <= 0)
			return error;
	}
	job_place_find(&place->job, options);
	if (place->job.leader_address[0] && (options->job || !options->leader)) {
		use_ports(place);
		return 0;
	}
	snprintf(why, ASK_WHY_LENGTH, "%s",
		options->leader
			? "--leader needs the job's name, too: --job NAME"
			: "no coordinator of yours is found on this host: name it with "
			  "--coordinator URL, or its job with --job NAME and --leader HOST");
	return -ENOENT;
}
