/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libslowrank_verbs.so: the verbs wrappers as a library of their own, for LD_PRELOAD. Besides
 * changing the symbol table (verbs_wrap.h) it exports the functions by name, under libibverbs'
 * versions, because programs linked with -z now look them up before any constructor runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "probe/inject/verbs_wrap.h"
#include "probe/ring/container_starter.h"

#define EXPORT __attribute__((visibility("default")))

void *ibv_open_device(void *device);
void *ibv_import_device(int fd);
int ibv_close_device(struct verbs_abi_context *context);
void *ibv_create_cq(struct verbs_abi_context *context, int entry_count, void *cq_context,
	void *channel, int vector);
void *ibv_create_qp(void *pd, void *options);
int ibv_modify_qp(void *qp, void *attributes, int mask);
int ibv_destroy_qp(void *qp);
int ibv_destroy_cq(void *cq);

enum { COMMAND_BYTES_MAX = 4096 };

/* One word of the command line or more tells that this program starts others in another root. */
static bool starts_container(void)
{
	char text[COMMAND_BYTES_MAX + 1];
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, COMMAND_BYTES_MAX);
	bool found = false;

	if (fd >= 0)
		close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';
	for (char *word = text; !found && word < text + length; word += strlen(word) + 1)
		found = is_container_starter(word);
	return found;
}

/* Takes entries of this library out of a list as ld.so(8) reads it; true when some are left. */
static bool take_out(char *list)
{
	static const char library[] = "libslowrank_verbs.so";
	char *to = list;

	for (char *from = list; *from;) {
		size_t length = strcspn(from, " :"), skip = strspn(from + length, " :");
		size_t name = sizeof(library) - 1;
		bool ours = length > name && from[length - name - 1] == '/' &&
			    memcmp(from + length - name, library, name) == 0;

		if (!ours)
			memmove(to, from, length + skip);
		to += ours ? 0 : length + skip;
		from += length + skip;
	}
	while (to > list && strchr(" :", to[-1]))
		to--;
	*to = '\0';
	return to > list;
}

/*
 * What a container's starter hands on is what the user preloads. In place, where it was before the program
 * began: nothing is allocated, and programs that read their environment from the stack (Go) see it, too.
 */
static void leave_environment(void)
{
	static const char variable[] = "LD_PRELOAD=";
	char **at = environ;

	while (at && *at && strncmp(*at, variable, sizeof(variable) - 1) != 0)
		at++;
	if (!at || !*at || take_out(*at + sizeof(variable) - 1))
		return;
	for (; *at; at++)
		at[0] = at[1];
}

__attribute__((constructor)) static void begin(void)
{
	int kept = errno;

	if (starts_container())
		leave_environment();
	errno = kept;
}

__attribute__((constructor)) static void start(void)
{
	/* What is not taken over is not counted, and that is all. */
	(void)!verbs_wrap_start_where_used(false);
}

EXPORT void *ibv_open_device(void *device)
{
	start(); /* another library's constructor may come before ours */
	return verbs_wrap_open_device(device);
}

EXPORT void *ibv_import_device(int fd)
{
	start();
	return verbs_wrap_import_device(fd);
}

EXPORT int ibv_close_device(struct verbs_abi_context *context)
{
	return verbs_wrap_close_device(context);
}

EXPORT void *ibv_create_cq(struct verbs_abi_context *context, int entry_count, void *cq_context,
	void *channel, int vector)
{
	return verbs_wrap_create_cq(context, entry_count, cq_context, channel, vector);
}

EXPORT void *ibv_create_qp(void *pd, void *options)
{
	return verbs_wrap_create_qp(pd, options);
}

EXPORT int ibv_modify_qp(void *qp, void *attributes, int mask)
{
	return verbs_wrap_modify_qp(qp, attributes, mask);
}

EXPORT int ibv_destroy_qp(void *qp)
{
	return verbs_wrap_destroy_qp(qp);
}

EXPORT int ibv_destroy_cq(void *cq)
{
	return verbs_wrap_destroy_cq(cq);
}
