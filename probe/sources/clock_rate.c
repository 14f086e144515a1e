/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/clock_rate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/sources/text_file.h"

#define RATE_PATH "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_cur_freq"
/* kHz; more is no rate of a CPU */
#define RATE_MAX 20000000

enum { STAT_LENGTH = 1024, NUMBER_LENGTH = 96 };

bool clock_rate_is_told(void)
{
	char path[96];

	snprintf(path, sizeof(path), RATE_PATH, 0u);
	return access(path, R_OK) == 0;
}

void clock_rate_follow(struct clock_rate *rate, pid_t thread)
{
	if (rate->thread == thread)
		return;
	rate->thread = thread;
	rate->looked = false;
}

bool clock_rate_parse_stat(const char *text, char *state, unsigned *cpu)
{
	const char *at = strrchr(text, ')'); /* the name before it may hold anything */
	char letter;

	if (!at || sscanf(at + 1, " %c", &letter) != 1)
		return false;
	at = strchr(at, letter);
	for (int field = 3; field < 39; field++) {
		at = strchr(at, ' ');
		if (!at)
			return false;
		at++;
	}
	if (sscanf(at, "%u", cpu) != 1)
		return false;
	*state = letter;
	return true;
}

void clock_rate_look(struct clock_rate *rate, pid_t pid)
{
	char text[STAT_LENGTH], number[NUMBER_LENGTH], state;
	int64_t run_ns, kilohertz;
	unsigned cpu;

	if (text_file_read_at(number, sizeof(number), "/proc/%d/task/%d/schedstat", (int)pid,
		    (int)rate->thread) < 0 ||
		sscanf(number, "%" SCNd64, &run_ns) != 1)
		return;
	int64_t ran_ns = rate->looked ? run_ns - rate->run_ns : 0;

	rate->run_ns = run_ns;
	rate->looked = true;
	if (text_file_read_at(
		    text, sizeof(text), "/proc/%d/task/%d/stat", (int)pid, (int)rate->thread) < 0 ||
		!clock_rate_parse_stat(text, &state, &cpu) || state != 'R' || ran_ns <= 0 ||
		text_file_read_at(number, sizeof(number), RATE_PATH, cpu) < 0 ||
		!text_parse_number(number, &kilohertz) || kilohertz <= 0 || kilohertz > RATE_MAX)
		return;
	rate->cycles += (int64_t)((double)kilohertz * (double)ran_ns / 1e6);
	rate->counted_ns += ran_ns;
}
