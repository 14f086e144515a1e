/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the table of causes in docs/operations.md, with --rules that in docs/analysis.md; scripts/causes_table.sh
 * compares or writes them.
 */
#include <stdio.h>
#include <string.h>

#include "analysis/explain/causes.h"
#include "coordinator/probe_table.h"

static void print_sources(uint32_t sources)
{
	for (unsigned i = 0; i < EVIDENCE_SOURCE_NR; i++) {
		if (sources & 1u << i)
			printf("`%s`", probe_table_evidence[i]);
	}
}

static void print_rule(const struct cause_rule *rule)
{
	static const char *const subjects[] = {"rank", "link", "job"};
	static const char *const turns[PRECEDENCE_NR] = {
		"1, or 2 where it is not certain", "2", "3", "4"};
	static const char *const proofs[] = {
		"yes", "if it lasts", "no: only where", "but not what for"};

	printf("| `%s` | `%s` | %s | ", rule->name, verdict_class_name(rule->verdict_class),
		subjects[rule->subject]);
	if (rule->subject == SUBJECT_RANK) {
		printf("%s | ", turns[rule->precedence]);
		if (rule->share_certain < rule->share_min)
			printf("%g (certain: %g)", rule->share_min, rule->share_certain);
		else
			printf("%g", rule->share_min);
		printf(" | %s | ", proofs[rule->proof]);
	} else {
		printf(" | | yes | ");
	}
	print_sources(rule->sources);
	printf(" |\n");
}

int main(int argument_count, char **arguments)
{
	bool rules = argument_count > 1 && strcmp(arguments[1], "--rules") == 0;

	printf(rules ? "| cause | class | of a | asked | explains at least | says why | not "
		       "measurable without |\n"
		       "| --- | --- | --- | --- | --- | --- | --- |\n"
		     : "| cause | class | means | do |\n| --- | --- | --- | --- |\n");
	for (size_t i = 0; i < CAUSE_ROWS; i++) {
		const struct cause_rule *rule = cause_rule((enum cause)cause_order[i]);

		if (rules)
			print_rule(rule);
		else
			printf("| [`%s`](causes/%s.md) | `%s` | %s | %s |\n", rule->name,
				rule->name, verdict_class_name(rule->verdict_class), rule->meaning,
				rule->advice);
	}
	return 0;
}
