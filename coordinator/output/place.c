/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/output/place.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static const long proc_magic = 0x9fa0; /* PROC_SUPER_MAGIC, linux/magic.h */
enum { LINKS_MAX = 40 };	       /* as the kernel's path_resolution(7) */

/* A path on its way: what is still to be walked, from the folder that was reached. */
struct walk {
	int folder;
	unsigned links;
	char rest[PATH_MAX];
};

static bool is_in_proc(int folder)
{
	struct statfs status;

	return fstatfs(folder, &status) == 0 && (long)status.f_type == proc_magic;
}

/* Only the owner of a link chooses where it leads, and whoever can write to its folder, which link it is. */
static bool may_follow(int folder, const struct stat *link)
{
	struct stat status;

	if (geteuid() != 0) /* nothing is reached that the caller could not write to anyhow */
		return true;
	return link->st_uid == 0 && fstat(folder, &status) == 0 && status.st_uid == 0 &&
	       (!(status.st_mode & (S_IWGRP | S_IWOTH)) || status.st_mode & S_ISVTX);
}

static int enter(struct walk *walk, const char *name)
{
	int folder = openat(walk->folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (folder < 0)
		return -errno;
	if (walk->folder != AT_FDCWD)
		close(walk->folder);
	walk->folder = folder;
	return 0;
}

/* Puts text in front of what is still to be walked; from the root where it begins there. */
static int prepend(struct walk *walk, const char *text)
{
	size_t length = strlen(text), rest_length = strlen(walk->rest);
	bool slash = rest_length > 0;

	if (length + slash + rest_length >= sizeof(walk->rest))
		return -ENAMETOOLONG;
	memmove(walk->rest + length + slash, walk->rest, rest_length + 1);
	memcpy(walk->rest, text, length);
	if (slash)
		walk->rest[length] = '/';
	return walk->rest[0] == '/' ? enter(walk, "/") : 0;
}

static int follow(struct walk *walk, const char *name, const struct stat *link)
{
	char target[PATH_MAX];
	ssize_t length;

	if (++walk->links > LINKS_MAX || !may_follow(walk->folder, link))
		return -ELOOP;
	length = readlinkat(walk->folder, name, target, sizeof(target));
	if (length < 0)
		return -errno;
	if ((size_t)length >= sizeof(target))
		return -ENAMETOOLONG;
	target[length] = '\0';
	return prepend(walk, target);
}

/* Takes the next name off what is still to be walked. Returns 0, or -ENAMETOOLONG. */
static int next_name(struct walk *walk, char name[NAME_MAX + 1])
{
	const char *from = walk->rest + strspn(walk->rest, "/");
	size_t length = strcspn(from, "/");

	if (length > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, from, length);
	name[length] = '\0';
	memmove(walk->rest, from + length, strlen(from + length) + 1);
	return 0;
}

/* Walks until one name is left, which is no link that is to be followed. */
static int walk_on(struct walk *walk, char name[NAME_MAX + 1])
{
	for (;;) {
		int error = next_name(walk, name);
		bool last = walk->rest[0] == '\0';
		struct stat status;

		if (error)
			return error;
		if (last && (!name[0] || !strcmp(name, ".") || !strcmp(name, "..")))
			return -EISDIR;
		if (fstatat(walk->folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0) {
			if (last && errno == ENOENT)
				return 0;
			return -errno;
		}
		if (S_ISLNK(status.st_mode) && !(last && is_in_proc(walk->folder)))
			error = follow(walk, name, &status);
		else if (last)
			return 0;
		else
			error = enter(walk, name);
		if (error)
			return error;
	}
}

int output_place_open(const char *path, struct output_place *place)
{
	struct walk walk = {.folder = AT_FDCWD};
	char name[NAME_MAX + 1];
	int error = path[0] ? enter(&walk, ".") : -ENOENT;

	if (!error)
		error = prepend(&walk, path);
	if (!error)
		error = walk_on(&walk, name);
	if (error) {
		if (walk.folder != AT_FDCWD)
			close(walk.folder);
		return error;
	}
	place->folder = walk.folder;
	memcpy(place->name, name, sizeof(place->name));
	place->is_descriptor = is_in_proc(walk.folder);
	return 0;
}

void output_place_close(struct output_place *place)
{
	close(place->folder);
}
