/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/report/json.h"
#include "coordinator/report/text.h"

/* Where a report goes: the file to write, and for a plain one the place it is renamed to. */
struct target {
	char *path; /* links resolved; owned */
	char temporary[PATH_MAX];
	bool in_place; /* a device or pipe cannot be replaced by a new file */
	int fd;
};

static int target_open(const char *path, struct target *target)
{
	struct stat status;
	int length, error = 0;

	target->path = realpath(path, NULL);
	if (!target->path && !(target->path = strdup(path)))
		return -ENOMEM;
	target->in_place = stat(target->path, &status) == 0 && !S_ISREG(status.st_mode);
	length = snprintf(target->temporary, sizeof(target->temporary), "%s.XXXXXX", target->path);
	if (length < 0 || (size_t)length >= sizeof(target->temporary)) {
		error = -ENAMETOOLONG;
		goto fail;
	}
	target->fd = target->in_place ? open(target->path, O_WRONLY | O_CLOEXEC)
				      : mkostemp(target->temporary, O_CLOEXEC);
	if (target->fd >= 0)
		return 0;
	error = -errno;
fail:
	free(target->path);
	return error;
}

static mode_t mode_for_new_files(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

int report_file_write(const struct report_model *model, const char *path, bool json)
{
	struct target target;
	int error = target_open(path, &target);
	FILE *out;

	if (error < 0)
		return error;
	out = fdopen(target.fd, "w");
	if (!out) {
		error = -errno;
		close(target.fd);
		goto out;
	}
	error = json ? report_json_write(model, out)
		     : report_text_write(model, &(struct report_text_options){0}, out);
	if (error == 0 && !target.in_place && fchmod(target.fd, mode_for_new_files()) < 0)
		error = -errno;
	if (fclose(out) != 0 && error == 0)
		error = -errno;
	if (!target.in_place && error == 0 && rename(target.temporary, target.path) < 0)
		error = -errno;
out:
	if (!target.in_place && error < 0)
		unlink(target.temporary);
	free(target.path);
	return error;
}

int report_file_check(const char *path)
{
	struct target target;
	struct stat status;
	int error;

	/* To open a pipe would wait for its reader. */
	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
		return access(path, W_OK) < 0 ? -errno : 0;
	error = target_open(path, &target);
	if (error < 0)
		return error;
	close(target.fd);
	unlink(target.temporary);
	free(target.path);
	return 0;
}
