/* SPDX-License-Identifier: Apache-2.0 */
/* Who is counted, and how often: culprits, once a job, and nobody for what is the program's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/nodes/nodes.h"

enum { RANKS = 4 };

/* Two ranks on each of two nodes, and verdicts that name some. */
struct job {
	struct report_rank ranks[RANKS];
	struct verdict verdicts[4];
	struct report_model model;
};

static void set_up(struct job *job, const char *first, const char *second)
{
	memset(job, 0, sizeof(*job));
	for (uint32_t r = 0; r < RANKS; r++) {
		job->ranks[r].totals.rank = r;
		job->ranks[r].host = r < 2 ? first : second;
	}
	job->model = (struct report_model){.job_id = "job",
		.rank_count = RANKS,
		.node_count = 2,
		.ranks = job->ranks,
		.verdicts = job->verdicts};
}

static void name(struct job *job, enum verdict_class class, enum cause cause, uint32_t rank)
{
	struct verdict *verdict = &job->verdicts[job->model.verdict_count++];

	*verdict = (struct verdict){.id = (uint32_t)job->model.verdict_count,
		.verdict_class = (uint8_t) class,
		.cause = (uint8_t)cause,
		.rank_count = 1,
		.ranks = {rank},
		.victim_count = 1,
		.victims = {3 - rank},
		.slowdown = 1.5};
}

static const struct node *find(const struct nodes *nodes, const char *name_)
{
	for (size_t i = 0; i < nodes->count; i++) {
		if (strcmp(nodes->list[i].name, name_) == 0)
			return &nodes->list[i];
	}
	return NULL;
}

static void culprits_once_a_job(void **state)
{
	struct nodes nodes = {0};
	struct job job;

	(void)state;
	set_up(&job, "a", "b");
	name(&job, VERDICT_HOST_SLOW, CAUSE_CPU_CONTENTION, 2);
	name(&job, VERDICT_HOST_SLOW, CAUSE_CPU_CONTENTION, 3); /* the same node again */
	assert_int_equal(nodes_add(&nodes, "1.slr", &job.model, true), 0);
	set_up(&job, "b", "c");
	name(&job, VERDICT_COMM_SLOW, CAUSE_UNKNOWN, 0);
	name(&job, VERDICT_WORKLOAD_IMBALANCE, CAUSE_UNKNOWN, 2); /* nobody's node */
	assert_int_equal(nodes_add(&nodes, "2.slr", &job.model, false), 0);
	set_up(&job, "a", "");
	assert_int_equal(nodes_add(&nodes, "3.slr", &job.model, true), 0);
	assert_int_equal(nodes_add_unreadable(&nodes, "4.slr", "no record"), 0);
	nodes_sort(&nodes);
	assert_int_equal(nodes.count, 3);
	assert_string_equal(nodes.list[0].name, "b");
	assert_int_equal(nodes.list[0].jobs, 2);
	assert_int_equal(nodes.list[0].jobs_named, 2);
	assert_int_equal(nodes.list[0].named_count, 2);
	assert_int_equal(nodes.list[0].named[0].jobs, 1);
	assert_int_equal(find(&nodes, "a")->jobs, 2);
	assert_int_equal(find(&nodes, "a")->jobs_named, 0); /* a victim */
	assert_int_equal(find(&nodes, "c")->jobs_named, 0);
	assert_int_equal(find(&nodes, "c")->named_count, 1);
	assert_int_equal(nodes.record_count, 4);
	assert_int_equal(nodes.records[0].incident_count, 2);
	assert_int_equal(nodes.records[1].first_incident, 2);
	assert_true(nodes.records[2].readable && !nodes.records[3].readable);
	nodes_fini(&nodes);
}

static void many_nodes_are_found_again(void **state)
{
	struct nodes nodes = {0};
	char first[STEP_NAME_LENGTH_MAX + 1], second[STEP_NAME_LENGTH_MAX + 1];
	struct job job;

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 500; i++) {
			snprintf(first, sizeof(first), "node-%d", i);
			snprintf(second, sizeof(second), "node-%d", i + 500);
			set_up(&job, first, second);
			assert_int_equal(nodes_add(&nodes, "x.slr", &job.model, true), 0);
		}
	}
	assert_int_equal(nodes.count, 1000);
	for (size_t i = 0; i < nodes.count; i++)
		assert_int_equal(nodes.list[i].jobs, 2);
	nodes_fini(&nodes);
}

/* As much as there are causes. */
static void a_node_that_had_everything(void **state)
{
	struct nodes nodes = {0};
	struct job job;

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (int cause = 0; cause < CAUSE_NR; cause++) {
			set_up(&job, "a", "b");
			name(&job, VERDICT_HOST_SLOW, (enum cause)cause, 1);
			assert_int_equal(nodes_add(&nodes, "x.slr", &job.model, true), 0);
		}
	}
	nodes_sort(&nodes);
	assert_int_equal(find(&nodes, "a")->jobs_named, 2 * CAUSE_NR);
	assert_int_equal(find(&nodes, "a")->named_count, CAUSE_NR);
	for (size_t i = 0; i < CAUSE_NR; i++)
		assert_int_equal(find(&nodes, "a")->named[i].jobs, 2);
	nodes_fini(&nodes);
}

static void names_of_jobs_are_text(void **state)
{
	struct nodes nodes = {0};
	char *written = NULL;
	struct job job;
	size_t length;
	FILE *out;

	(void)state;
	set_up(&job, "evil\033[2J\"\xff", "b\nNo node was named");
	name(&job, VERDICT_HANG, CAUSE_UNKNOWN, 0);
	assert_int_equal(nodes_add(&nodes, "1.slr", &job.model, true), 0);
	nodes_sort(&nodes);
	out = open_memstream(&written, &length);
	assert_int_equal(nodes_write_text(&nodes, "fol\033der", out), 0);
	fclose(out);
	assert_null(strchr(written, '\033'));
	assert_non_null(strstr(written, "Nodes that one job named"));
	assert_null(strstr(written, "Nodes that several jobs named"));
	assert_null(strstr(written, "\nNo node was named"));
	free(written);
	out = open_memstream(&written, &length);
	assert_int_equal(nodes_write_json(&nodes, "folder", out), 0);
	fclose(out);
	assert_null(strchr(written, '\033'));
	assert_non_null(strstr(written, "evil\\u001b[2J\\\"\xEF\xBF\xBD"));
	free(written);
	nodes_fini(&nodes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(culprits_once_a_job),
		cmocka_unit_test(many_nodes_are_found_again),
		cmocka_unit_test(a_node_that_had_everything),
		cmocka_unit_test(names_of_jobs_are_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
