/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/explain/stack_frames.h"

#include <string.h>

static const struct frame_rule {
	const char *file, *function;
	uint8_t stack_class, kind;
} rules[] = {
#define PYTHON_FRAME(id, where, name)                                                              \
	{.file = (where),                                                                          \
		.function = (name),                                                                \
		.stack_class = STACK_CLASS_##id,                                                   \
		.kind = STACK_FRAME_PYTHON},
#define NATIVE_FRAME(id, name)                                                                     \
	{.file = "",                                                                               \
		.function = (name),                                                                \
		.stack_class = STACK_CLASS_##id,                                                   \
		.kind = STACK_FRAME_NATIVE},
#include "analysis/explain/stack_frames.def"
#undef PYTHON_FRAME
#undef NATIVE_FRAME
};

static bool function_fits(const char *pattern, const char *function)
{
	size_t length = strlen(pattern);

	if (length && pattern[length - 1] == '*')
		return strncmp(function, pattern, length - 1) == 0;
	return length == 0 || strcmp(function, pattern) == 0;
}

/* A whole name in a path: it begins there, or behind a '/'. */
static bool begins_name(const char *file, const char *at)
{
	return at == file || at[-1] == '/';
}

/* Where a folder, its name with '/' at the end, begins in a path; NULL: nowhere. */
static const char *find_folder(const char *file, const char *folder)
{
	size_t length = strlen(folder);

	for (const char *at = file; (at = strchr(at, folder[0])); at++) {
		if (begins_name(file, at) && strncmp(at, folder, length) == 0)
			return at;
	}
	return NULL;
}

/* Behind the folder that packages of Python, or its own modules, are in; NULL: it is in none. */
static const char *in_packages(const char *file)
{
	static const char *const folders[] = {"site-packages/", "dist-packages/"};
	const char *at, *end;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		at = find_folder(file, folders[i]);
		if (at)
			return at + strlen(folders[i]);
	}
	for (at = file; (at = strstr(at, "/python3")); at = end) { /* .../lib/python3.11/ */
		end = at + strlen("/python3");
		end += *end == '.';
		while (*end >= '0' && *end <= '9')
			end++;
		end += *end == 't'; /* of the interpreter without a lock */
		if (*end == '/')
			return end + 1;
	}
	return NULL;
}

static bool file_fits(const char *pattern, const char *file)
{
	size_t length = strlen(pattern), file_length = strlen(file);
	const char *packaged;

	if (length == 0)
		return true;
	if (pattern[length - 1] == '/') {
		packaged = in_packages(file);
		return packaged && strncmp(packaged, pattern, length) == 0;
	}
	return file_length >= length && strcmp(file + file_length - length, pattern) == 0 &&
	       begins_name(file, file + file_length - length);
}

enum stack_class stack_class_of(
	uint8_t kind, const char *function, const char *file, uint8_t parent_kind)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		const struct frame_rule *rule = &rules[i];

		if (rule->kind != kind || !function_fits(rule->function, function) ||
			!file_fits(rule->file, file))
			continue;
		/* The interpreter waits for no thread's work by itself: it wants a lock. */
		if (rule->stack_class == STACK_CLASS_THREAD && kind == STACK_FRAME_NATIVE &&
			parent_kind == STACK_FRAME_PYTHON)
			return STACK_CLASS_LOCK;
		return (enum stack_class)rule->stack_class;
	}
	return STACK_CLASS_NONE;
}

bool stack_frame_is_program(uint8_t kind, const char *function, const char *file)
{
	if (kind == STACK_FRAME_PYTHON)
		return file[0] && file[0] != '<' && !in_packages(file);
	return kind == STACK_FRAME_NATIVE && function[0] && file[0] && !strstr(file, ".so");
}

const char *stack_file_short(const char *file)
{
	const char *packaged = in_packages(file), *slash = strrchr(file, '/');

	return packaged ? packaged : slash ? slash + 1 : file;
}
