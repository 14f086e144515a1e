/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/config/alert_limits.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { LINE_LENGTH = 256, PATH_SHOWN = 90 };

/* A decimal number that begins text; what follows it is at *end. */
static bool take_number(const char *text, double *number, const char **end)
{
	char *stop;

	/* No sign, no "inf", no "0x10". */
	if (!isdigit((unsigned char)text[0]) || strncasecmp(text, "0x", 2) == 0)
		return false;
	*number = strtod(text, &stop);
	*end = stop;
	return true;
}

/* How many times as long a step takes. */
static bool take_slowdown(const char *text, double *slowdown)
{
	const char *end;
	double number;

	if (!take_number(text, &number, &end) || number < 1 || number > 1000)
		return false;
	if (strcmp(end, "") != 0 && strcmp(end, "x") != 0)
		return false;
	*slowdown = number;
	return true;
}

static bool take_time(const char *text, int64_t *time_ns)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = {{"s", 1}, {"", 1}, {"ms", 1e-3}, {"m", 60}, {"h", 3600}};
	const char *end;
	double number;

	if (!take_number(text, &number, &end))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].name) != 0)
			continue;
		if (number * units[i].seconds > 30 * 86400.0)
			return false;
		*time_ns = (int64_t)(number * units[i].seconds * 1e9);
		return true;
	}
	return false;
}

/* False with what is wrong in problem. */
static bool set(struct alert_limits *limits, const char *name, const char *value,
	char problem[ALERT_LIMITS_PROBLEM_LENGTH])
{
	const char *wanted = "a factor from 1 to 1000, such as 1.10";
	bool good;

	if (strcmp(name, "alert-slowdown") == 0) {
		good = take_slowdown(value, &limits->slowdown);
	} else if (strcmp(name, "silent-imbalance") == 0) {
		good = take_slowdown(value, &limits->imbalance);
	} else if (strcmp(name, "alert-after") == 0) {
		good = take_time(value, &limits->after_ns);
		wanted = "a time up to 30 days, such as 30s, 5m or 1h";
	} else {
		snprintf(problem, ALERT_LIMITS_PROBLEM_LENGTH,
			"nothing is named '%.60s'; there are alert-slowdown, alert-after and "
			"silent-imbalance",
			name);
		return false;
	}
	if (!good)
		snprintf(problem, ALERT_LIMITS_PROBLEM_LENGTH,
			"'%.60s' is no value for %s, which is %s", value, name, wanted);
	return good;
}

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

/* One line of a file; it is cut up. */
static bool take_line(
	struct alert_limits *limits, char *line, char problem[ALERT_LIMITS_PROBLEM_LENGTH])
{
	char *value;

	line[strcspn(line, "#\n")] = '\0';
	line = trim(line);
	if (!*line)
		return true;
	value = strchr(line, '=');
	if (!value) {
		snprintf(problem, ALERT_LIMITS_PROBLEM_LENGTH,
			"'%.60s' is no line of the form name = value", line);
		return false;
	}
	*value++ = '\0';
	return set(limits, trim(line), trim(value), problem);
}

/* Of a line that is longer, the rest is a comment, or makes no value better. */
static bool next_line(FILE *file, char line[LINE_LENGTH])
{
	int rest = '\n';

	if (!fgets(line, LINE_LENGTH, file))
		return false;
	if (!strchr(line, '\n'))
		while ((rest = getc(file)) != EOF && rest != '\n')
			;
	return true;
}

/* out: bad lines are told there and passed over; NULL: the first one is an error. */
static int read_file(const char *path, struct alert_limits *limits, FILE *out,
	char problem[ALERT_LIMITS_PROBLEM_LENGTH])
{
	char line[LINE_LENGTH], what[ALERT_LIMITS_PROBLEM_LENGTH];
	FILE *file = fopen(path, "re");
	size_t skip =
		strlen(path) > PATH_SHOWN ? strlen(path) - PATH_SHOWN : 0; /* its end tells more */
	int error = 0;

	if (!file) {
		error = -errno;
		snprintf(problem, ALERT_LIMITS_PROBLEM_LENGTH, "%s: %s", path + skip,
			strerror(-error));
		return error;
	}
	for (int number = 1; number <= ALERT_LIMITS_LINES_MAX && next_line(file, line); number++) {
		if (take_line(limits, line, what))
			continue;
		if (out) {
			fprintf(out, "slowrank: %s:%d: %s; the line is ignored\n", path, number,
				what);
			continue;
		}
		snprintf(problem, ALERT_LIMITS_PROBLEM_LENGTH, "%s:%d: %.150s", path + skip, number,
			what);
		error = -EINVAL;
		break;
	}
	fclose(file);
	return error;
}

int alert_limits_given(const struct alert_settings *settings, struct alert_limits *limits,
	char problem[ALERT_LIMITS_PROBLEM_LENGTH])
{
	const struct {
		const char *name, *value;
	} values[] = {{"alert-slowdown", settings->slowdown}, {"alert-after", settings->after},
		{"silent-imbalance", settings->imbalance}};
	struct alert_limits found = *limits;
	int error = settings->file ? read_file(settings->file, &found, NULL, problem) : 0;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]) && !error; i++) {
		if (values[i].value && !set(&found, values[i].name, values[i].value, problem))
			error = -EINVAL;
	}
	if (!error)
		*limits = found;
	return error;
}

void alert_limits_found(const char *path, struct alert_limits *limits, FILE *out)
{
	char problem[ALERT_LIMITS_PROBLEM_LENGTH];
	int error = read_file(path, limits, out, problem);

	if (error && error != -ENOENT && error != -ENOTDIR)
		fprintf(out, "slowrank: %s; the file is ignored\n", problem);
}

int alert_limits_load(const struct alert_settings *settings, struct alert_limits *limits, FILE *out,
	char problem[ALERT_LIMITS_PROBLEM_LENGTH])
{
	/* The home that the system knows for the user: HOME may be somebody else's, under sudo. */
	const struct passwd *user = getpwuid(geteuid());
	char path[PATH_MAX];

	*limits = (struct alert_limits){0};
	if (!settings->file) {
		alert_limits_found("/etc/slowrank.conf", limits, out);
		if (user && snprintf(path, sizeof(path), "%s/.config/slowrank/config",
				    user->pw_dir) < (int)sizeof(path))
			alert_limits_found(path, limits, out);
	}
	return alert_limits_given(settings, limits, problem);
}
