/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the table of causes in docs/operations.md; scripts/causes_table.sh compares or writes it. */
#include <stdio.h>

#include "analysis/explain/causes.h"

int main(void)
{
	printf("| cause | class | means | do |\n| --- | --- | --- | --- |\n");
	for (size_t i = 0; i < CAUSE_ROWS; i++) {
		const struct cause_rule *rule = cause_rule((enum cause)cause_order[i]);

		printf("| `%s` | `%s` | %s | %s |\n", rule->name,
			verdict_class_name(rule->verdict_class), rule->meaning, rule->advice);
	}
	return 0;
}
