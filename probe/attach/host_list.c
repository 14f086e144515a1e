/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/host_list.h"

#include <stdbool.h>
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
