/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/host_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Within brackets only the first number counts; there may be several pairs: "r[0-1]n[0-3]". */
void host_list_first(const char *list, char *name, size_t capacity)
{
	bool in_brackets = false, taken = false;
	size_t length = 0;

	for (; *list && (in_brackets || *list != ','); list++) {
		if (*list == '[') {
			in_brackets = true;
			taken = false;
		} else if (*list == ']') {
			in_brackets = false;
		} else if (in_brackets && (*list == ',' || *list == '-')) {
			taken = true;
		} else if ((!in_brackets || !taken) && length + 1 < capacity) {
			name[length++] = *list;
		}
	}
	name[length] = '\0';
}

/* Of "2:1-3,7]...": the number that has *index before it. Else *index is less by all of them. */
static bool take_number(
	const char *numbers, unsigned long *index, unsigned long *number, int *digits)
{
	char *at;

	*digits = (int)(strtoul(numbers, &at, 10) % 20);
	while (*at == ':' || *at == ',') {
		unsigned long first = strtoul(at + 1, &at, 10);
		unsigned long last = *at == '-' ? strtoul(at + 1, &at, 10) : first;

		if (last >= first && *index <= last - first) {
			*number = first + *index;
			return true;
		}
		*index -= last >= first ? last - first + 1 : 0;
	}
	return false;
}

void host_list_open_mpi(const char *list, unsigned long index, char *name, size_t capacity)
{
	name[0] = '\0';
	while (*list && *list != '@') {
		int before = (int)strcspn(list, "[,@"), digits = 0;
		const char *numbers = list[before] == '[' ? list + before + 1 : NULL;
		const char *after = numbers ? numbers + strcspn(numbers, "]") : list + before;
		unsigned long number = 0;

		after += *after == ']';
		int rest = (int)strcspn(after, ",@");
		if (numbers && take_number(numbers, &index, &number, &digits)) {
			snprintf(name, capacity, "%.*s%0*lu%.*s", before, list, digits, number,
				rest, after);
			return;
		}
		if (!numbers && index-- == 0) {
			snprintf(name, capacity, "%.*s", before, list);
			return;
		}
		list = after + rest + (after[rest] == ',');
	}
}
