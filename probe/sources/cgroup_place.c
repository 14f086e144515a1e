/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/cgroup_place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "probe/attach/target_root.h"
#include "probe/sources/text_file.h"

enum {
	MOUNTINFO_LENGTH_MAX = 256 * 1024,
	LINE_FIELDS =
		5, /* of mountinfo before the optional ones: id, parent, device, root, point */
};

/* One cgroup mount of a mountinfo line. */
struct mount {
	bool unified;
	char root[CGROUP_PATH_LENGTH];
	char point[CGROUP_PATH_LENGTH];
	const char
		*options; /* super options: v1 controllers are among them; ends at the line's end */
	size_t options_length;
};

/* True when word is one of the comma-separated words of list. */
static bool list_has(const char *list, size_t length, const char *word)
{
	size_t word_length = strlen(word);

	for (size_t start = 0; start < length;) {
		size_t end = start;

		while (end < length && list[end] != ',')
			end++;
		if (end - start == word_length && memcmp(list + start, word, word_length) == 0)
			return true;
		start = end + 1;
	}
	return false;
}

bool cgroup_path_of(const char *cgroup_text, const char *controller, char path[CGROUP_PATH_LENGTH])
{
	for (const char *line = cgroup_text; *line;) {
		size_t line_length = strcspn(line, "\n");
		const char *names = memchr(line, ':', line_length);
		const char *start =
			names ? memchr(names + 1, ':', line_length - (size_t)(names + 1 - line))
			      : NULL;

		if (start) {
			size_t names_length = (size_t)(start - names - 1);
			size_t length = line_length - (size_t)(start + 1 - line);
			bool wanted = *controller ? list_has(names + 1, names_length, controller)
						  : names_length == 0;

			if (wanted && length > 0 && length < CGROUP_PATH_LENGTH) {
				memcpy(path, start + 1, length);
				path[length] = '\0';
				return true;
			}
		}
		line += line_length + (line[line_length] == '\n');
	}
	return false;
}

/* mountinfo writes blanks, tabs, line ends and backslashes as three octal digits (proc(5)). */
static bool copy_unescaped(char out[CGROUP_PATH_LENGTH], const char *text, size_t length)
{
	size_t used = 0;

	for (size_t i = 0; i < length; i++) {
		char byte = text[i];

		if (byte == '\\' && i + 3 < length && text[i + 1] >= '0' && text[i + 1] <= '3') {
			byte = (char)((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
				      (text[i + 3] - '0'));
			i += 3;
		}
		if (used + 1 >= CGROUP_PATH_LENGTH)
			return false;
		out[used++] = byte;
	}
	out[used] = '\0';
	return true;
}

static bool parse_mount(const char *line, size_t length, struct mount *mount)
{
	const char *fields[LINE_FIELDS], *separator, *type, *end = line + length;
	size_t lengths[LINE_FIELDS];
	const char *at = line;

	for (int i = 0; i < LINE_FIELDS; i++) {
		const char *blank = memchr(at, ' ', (size_t)(end - at));

		if (!blank)
			return false;
		fields[i] = at;
		lengths[i] = (size_t)(blank - at);
		at = blank + 1;
	}
	separator = memmem(at, (size_t)(end - at), " - ", 3);
	if (!separator)
		return false;
	type = separator + 3;
	if ((size_t)(end - type) > 8 && memcmp(type, "cgroup2 ", 8) == 0)
		mount->unified = true;
	else if ((size_t)(end - type) > 7 && memcmp(type, "cgroup ", 7) == 0)
		mount->unified = false;
	else
		return false;
	mount->options = memrchr(type, ' ', (size_t)(end - type)) + 1;
	mount->options_length = (size_t)(end - mount->options);
	return copy_unescaped(mount->root, fields[3], lengths[3]) &&
	       copy_unescaped(mount->point, fields[4], lengths[4]);
}

/* The part of path below root; NULL when path is not below it, or leaves it by "..". */
static const char *below(const char *path, const char *root)
{
	size_t length = strlen(root);
	const char *rest;

	if (strcmp(root, "/") == 0)
		length = 0;
	if (strncmp(path, root, length) != 0 || (path[length] && path[length] != '/'))
		return NULL;
	rest = path + length;
	if (strcmp(rest, "/") == 0)
		rest = "";
	for (const char *dots = strstr(rest, "/.."); dots; dots = strstr(dots + 1, "/..")) {
		if (dots[3] == '\0' || dots[3] == '/')
			return NULL;
	}
	return rest;
}

bool cgroup_place_from_texts(const char *mountinfo_text, const char *prefix, const char *controller,
	const char *path, struct cgroup_place *place)
{
	for (const char *line = mountinfo_text; *line;) {
		size_t length = strcspn(line, "\n");
		struct mount mount;
		const char *rest;
		int written;

		if (parse_mount(line, length, &mount) &&
			(*controller ? !mount.unified && list_has(mount.options,
								 mount.options_length, controller)
				     : mount.unified) &&
			(rest = below(path, mount.root))) {
			written = snprintf(place->directory, sizeof(place->directory), "%s%s%s",
				prefix, mount.point, rest);
			if (written > 0 && written < CGROUP_PATH_LENGTH &&
				access(place->directory, F_OK) == 0) {
				place->top_length = strlen(prefix) + strlen(mount.point);
				place->unified = mount.unified;
				place->found = true;
				return true;
			}
		}
		line += length + (line[length] == '\n');
	}
	return false;
}

static bool find_in_views(pid_t pid, char *mountinfo, const char *controller, const char *path,
	struct cgroup_place *place)
{
	char prefix[64];

	if (text_file_read("/proc/self/mountinfo", mountinfo, MOUNTINFO_LENGTH_MAX) == 0 &&
		cgroup_place_from_texts(mountinfo, "", controller, path, place))
		return true;
	snprintf(prefix, sizeof(prefix), "/proc/%d/root", (int)pid);
	return text_file_read_at(mountinfo, MOUNTINFO_LENGTH_MAX, "/proc/%d/mountinfo", (int)pid) ==
		       0 &&
	       cgroup_place_from_texts(mountinfo, prefix, controller, path, place);
}

bool cgroup_place_find(
	pid_t pid, const char *cgroup_text, const char *controller, struct cgroup_place *place)
{
	struct cgroup_place found = {0};
	char path[CGROUP_PATH_LENGTH];
	char *mountinfo = malloc(MOUNTINFO_LENGTH_MAX);

	if (!mountinfo)
		return false;
	if (*controller && cgroup_path_of(cgroup_text, controller, path))
		(void)find_in_views(pid, mountinfo, controller, path, &found);
	else if (cgroup_path_of(cgroup_text, "", path))
		(void)find_in_views(pid, mountinfo, "", path, &found);
	free(mountinfo);
	if (found.found)
		*place = found;
	return found.found;
}

int cgroup_open(const struct cgroup_place *place, size_t length, const char *name)
{
	char path[CGROUP_PATH_LENGTH + 64];
	struct statfs status;
	int found;

	snprintf(path, sizeof(path), "%.*s/%s", (int)length, place->directory, name);
	found = open(path, O_PATH | O_CLOEXEC);
	if (found < 0)
		return -errno;
	if (fstatfs(found, &status) < 0 ||
		(status.f_type != CGROUP_SUPER_MAGIC && status.f_type != CGROUP2_SUPER_MAGIC)) {
		close(found);
		return -EINVAL;
	}
	return target_file_open(found, O_RDONLY);
}

bool cgroup_top_is_root(const struct cgroup_place *place)
{
	char path[CGROUP_PATH_LENGTH + 32];

	/* v1: only the root group has release_agent. v2: every group but the root has cgroup.type. */
	snprintf(path, sizeof(path), "%.*s/%s", (int)place->top_length, place->directory,
		place->unified ? "cgroup.type" : "release_agent");
	return place->unified ? access(path, F_OK) != 0 : access(path, F_OK) == 0;
}
