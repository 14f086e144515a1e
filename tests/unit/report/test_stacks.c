/* SPDX-License-Identifier: Apache-2.0 */
/* Which looks at stacks are found for whom, and what is written of the largest and the most hostile ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/report/file.h"
#include "coordinator/report/flame_tree.h"
#include "tests/golden/made_stacks.h"

#define SECOND_NS INT64_C(1000000000)

enum { RANKS = 6 };

static struct stack_looks looks;
static struct verdict verdicts[3];
static struct report_rank ranks[RANKS];
static struct report_source source;
static struct report_model model;
static struct made_stacks made;
static char why[STACKS_WHY_LENGTH];

static int set_up(void **state)
{
	(void)state;
	memset(&looks, 0, sizeof(looks));
	memset(verdicts, 0, sizeof(verdicts));
	memset(&source, 0, sizeof(source));
	for (uint32_t r = 0; r < RANKS; r++)
		ranks[r] = (struct report_rank){.totals = {.rank = r, .role = r / 4}};
	/* From second 10 to 20, from 30 on, and one without looks. */
	for (uint32_t i = 0; i < 3; i++)
		verdicts[i] = (struct verdict){.id = i + 1,
			.verdict_class = VERDICT_HOST_SLOW,
			.rank_count = 1,
			.ranks = {2},
			.onset = {(10 + 20 * i) * SECOND_NS}};
	verdicts[0].ended = 1;
	verdicts[0].end.value = 20 * SECOND_NS;
	verdicts[1].ended = 1;
	verdicts[1].end.value = 40 * SECOND_NS;
	model = (struct report_model){.rank_count = RANKS,
		.ranks = ranks,
		.verdict_count = 3,
		.verdicts = verdicts,
		.stacks = &looks};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (size_t i = 0; i < looks.count; i++)
		stack_profile_destroy(looks.kept[i].profile);
	return 0;
}

/* One of so many steps, in a function of this name; "" = it saw nothing. */
static void add_look(uint32_t rank, int64_t at_s, uint32_t steps, const char *function)
{
	uint32_t thread, segment;

	made_stacks_begin(&made, rank, steps);
	thread = made_stacks_thread(&made, STACK_THREAD_CALLER, 100, 100, "python");
	segment = made_stacks_segment(&made, 0, OPERATION_ALL_REDUCE, false);
	if (function[0])
		made_stacks_add(&made, thread, segment, STACK_STATE_RUNNING, 10,
			(struct made_frame[MADE_FRAMES_MAX]){
				{STACK_FRAME_PYTHON, "/a/b.py", 3, function}});
	else
		made.profile.result = STACK_RESULT_NO_RIGHT;
	assert_true(stack_profile_is_valid(&made.profile));
	assert_int_equal(stack_looks_keep(&looks, &made.profile, at_s * SECOND_NS,
				 at_s * SECOND_NS + SECOND_NS / 2),
		0);
}

static char *write_folded(const struct stacks_pair *pair, enum folded_of of)
{
	const struct report_choice choice = {.format = REPORT_FOLDED, .of = of, .stacks = *pair};
	static char text[1 << 16];
	FILE *out = fmemopen(text, sizeof(text), "w");

	assert_non_null(out);
	assert_int_equal(report_write(&model, &choice, out), 0);
	fclose(out);
	return text;
}

static bool find(const char *rank, const char *incident, struct stacks_pair *pair)
{
	struct stacks_wish wish = {.has_rank = rank, .has_incident = incident};

	wish.rank = rank ? (uint32_t)atoi(rank) : 0;
	wish.incident = incident ? (uint32_t)atoi(incident) : 0;
	return stacks_find(&model, &wish, pair, why);
}

static void the_first_incident_with_looks_is_taken(void **state)
{
	struct stacks_pair pair;

	(void)state;
	add_look(2, 31, 5, "of_second");
	add_look(0, 31, 5, "control");
	assert_true(find(NULL, NULL, &pair));
	assert_ptr_equal(pair.verdict, &verdicts[1]);
	add_look(2, 12, 5, "of_first");
	assert_true(find(NULL, NULL, &pair));
	assert_ptr_equal(pair.verdict, &verdicts[0]);
	assert_null(pair.control); /* none within reach of that time */
	assert_non_null(strstr(write_folded(&pair, FOLDED_SUSPECT), "main;of_first (b.py:3) 2000"));
	assert_true(find(NULL, "2", &pair));
	assert_int_equal(pair.control->profile->rank, 0);
	assert_non_null(strstr(write_folded(&pair, FOLDED_CONTROL), "main;control (b.py:3) 2000"));
	assert_string_equal(write_folded(&pair, FOLDED_DIFFERENCE),
		"main;of_second (b.py:3) 0 2000\nmain;control (b.py:3) 2000 0\n");
	/* Of whole steps, though another one is newer. */
	add_look(2, 33, 0, "without_steps");
	assert_true(find("2", "2", &pair));
	assert_int_equal(pair.own->profile->steps, 5);
}

static void a_control_is_of_the_same_role_and_healthy(void **state)
{
	struct stacks_pair pair;

	(void)state;
	add_look(2, 12, 5, "own");
	add_look(4, 12, 5, "other_role");
	assert_true(find(NULL, NULL, &pair));
	assert_null(pair.control);
	add_look(1, 13, 5, "named");
	verdicts[2].ranks[0] = 1; /* but later */
	assert_true(find(NULL, NULL, &pair));
	assert_int_equal(pair.control->profile->rank, 1);
	verdicts[2].onset.value = 13 * SECOND_NS;
	assert_true(find(NULL, NULL, &pair));
	assert_null(pair.control);
	add_look(3, 13, 0, "without_steps");
	assert_true(find(NULL, NULL, &pair));
	assert_null(pair.control);
	add_look(0, 14, 5, "good");
	assert_true(find(NULL, NULL, &pair));
	assert_int_equal(pair.control->profile->rank, 0);
	/* A newer look without one is of no help. */
	verdicts[0].end.value = 90 * SECOND_NS;
	add_look(2, 80, 5, "alone");
	assert_true(find("2", "1", &pair));
	assert_int_equal(pair.own->start_ns, 12 * SECOND_NS);
	assert_int_equal(pair.control->profile->rank, 0);
}

static void a_rank_of_no_incident_has_looks_too(void **state)
{
	struct stacks_pair pair;

	(void)state;
	add_look(5, 3, 5, "asked_for");
	assert_false(find(NULL, NULL, &pair));
	assert_true(find("5", NULL, &pair));
	assert_null(pair.verdict);
	assert_int_equal(pair.own->profile->rank, 5);
	assert_false(find("5", "1", &pair));
	assert_string_equal(why, "no stacks of rank 5 in incident 1: no look was made");
}

static void why_there_are_none_is_said(void **state)
{
	struct stacks_pair pair;

	(void)state;
	model.stacks = NULL;
	assert_false(find(NULL, NULL, &pair));
	assert_string_equal(why, "no stacks: no look was made");
	source = (struct report_source){.source = {.name = "host.stacks", .why = "it is\noff"}};
	model.sources = &source;
	model.source_count = 1;
	assert_false(find(NULL, "3", &pair));
	assert_string_equal(
		why, "no stacks in incident 3: no look was made (host.stacks: it is?off)");
	assert_false(find(NULL, "9", &pair));
	assert_string_equal(why, "no incident 9: there are 3");
	model.stacks = &looks;
	add_look(2, 12, 0, "");
	assert_false(find(NULL, "1", &pair));
	assert_string_equal(why, "no stacks in incident 1: the look at rank 2 saw nothing: "
				 "slowrank may not trace the process");
	assert_false(find("2", NULL, &pair));
	assert_non_null(strstr(why, "of rank 2: the look at rank 2 saw nothing"));
}

static void a_hang_is_of_those_that_miss_and_one_that_waits(void **state)
{
	const struct kept_stacks *shown[STACKS_HANG_SHOWN];
	struct stacks_pair pair;

	(void)state;
	verdicts[0].verdict_class = VERDICT_HANG;
	verdicts[0].rank_count = 2;
	verdicts[0].ranks[1] = 3;
	verdicts[0].victim_count = 2;
	verdicts[0].victims[1] = 1;
	add_look(3, 12, 0, "misses");
	add_look(1, 12, 0, "waits");
	assert_true(find(NULL, NULL, &pair));
	assert_int_equal(pair.own->profile->rank, 3);
	assert_int_equal(pair.control->profile->rank, 1);
	assert_int_equal(stacks_of_hang(&model, &verdicts[0], shown), 2);
	assert_string_equal(stacks_part_in(&verdicts[0], &pair, shown[0]), "missing");
	assert_string_equal(stacks_part_in(&verdicts[0], &pair, shown[1]), "waiting");
	assert_null(stacks_part_in(&verdicts[1], &(struct stacks_pair){0}, shown[1]));
	/* Not per step, where there are none; and without time by how often it was seen. */
	assert_non_null(strstr(write_folded(&pair, FOLDED_SUSPECT), "main;misses (b.py:3) 10000"));
	looks.kept[0].profile->sums[0].time_ns = 0;
	assert_string_equal(write_folded(&pair, FOLDED_DIFFERENCE),
		"main;misses (b.py:3) 0 6\nmain;waits (b.py:3) 6 0\n");
}

static void names_take_no_line_apart(void **state)
{
	struct stacks_pair pair;
	char *text;

	(void)state;
	add_look(2, 12, 5, "a;b\nc 12");
	looks.kept[0].profile->nodes[0].file = 0; /* so that the name is the end */
	assert_true(find(NULL, NULL, &pair));
	text = write_folded(&pair, FOLDED_SUSPECT);
	assert_string_equal(text, "main;a:b?c_12 2000\n");
}

/* Of the same function, with native frames and without; what it waits on, and the kernel's frames, come behind that. */
static void stacks_of_one_place_are_one(void **state)
{
	const struct made_frame python = {STACK_FRAME_PYTHON, "/a/b.py", 3, "work"};
	const struct made_frame start = {STACK_FRAME_NATIVE, "/lib/libc.so.6", 0, ""};
	const struct made_frame main_frame = {STACK_FRAME_NATIVE, "", 0, "__libc_start_main"};
	uint32_t thread, segment;
	struct stacks_pair pair;

	(void)state;
	made_stacks_begin(&made, 2, 5);
	thread = made_stacks_thread(&made, STACK_THREAD_CALLER, 100, 100, "python");
	segment = made_stacks_segment(&made, 0, OPERATION_ALL_REDUCE, false);
	made_stacks_add(&made, thread, segment, STACK_STATE_RUNNING, 10,
		(struct made_frame[MADE_FRAMES_MAX]){main_frame, start, python});
	made_stacks_add(&made, thread, segment, STACK_STATE_RUNNABLE, 5,
		(struct made_frame[MADE_FRAMES_MAX]){python});
	made_stacks_add(&made, thread, segment, STACK_STATE_FILE, 5,
		(struct made_frame[MADE_FRAMES_MAX]){main_frame, start, python, start,
			{STACK_FRAME_WAIT, "/x", 0, "read"}, {STACK_FRAME_KERNEL, "", 0, "io"}});
	made_stacks_add(&made, thread, segment, STACK_STATE_RUNNING, 5,
		(struct made_frame[MADE_FRAMES_MAX]){start});
	assert_int_equal(
		stack_looks_keep(&looks, &made.profile, 12 * SECOND_NS, 12 * SECOND_NS + 100000000),
		0);
	assert_true(find(NULL, NULL, &pair));
	assert_string_equal(write_folded(&pair, FOLDED_SUSPECT),
		"main;work (b.py:3) 3000\n"
		"main;work (b.py:3);? (libc.so.6);[waiting: read];io_[k];[on /x] 1000\n"
		"main;? 1000\n");
}

/* As many of everything as a profile may have, each name as long as it may be and full of '<'. */
static struct stack_profile *make_largest(void)
{
	const struct stack_profile sizes = {.rank = 2,
		.steps = 1,
		.start = {0},
		.stop = {SECOND_NS},
		.node_count = STACK_PROFILE_NODES_MAX,
		.sum_count = STACK_PROFILE_SUMS_MAX,
		.thread_count = STACK_PROFILE_THREADS_MAX,
		.segment_count = STACK_PROFILE_SEGMENTS_MAX,
		.text_length = STACK_PROFILE_TEXT_MAX};
	struct stack_profile *profile = stack_profile_create(&sizes);
	uint32_t last = 0;

	assert_non_null(profile);
	memset(profile->text + 1, '<', profile->text_length - 2);
	for (uint32_t at = 256; at < profile->text_length; at += 256)
		profile->text[at] = '\0';
	for (uint32_t i = 0; i < profile->node_count; i++) {
		last = i % 511 * 256;
		profile->nodes[i] = (struct stack_node){
			i % STACK_PROFILE_DEPTH_MAX ? i - 1 : STACK_NODE_NONE, last ? last + 1 : 1,
			last ? last + 1 : 1, INT32_MAX, STACK_FRAME_WAIT};
	}
	for (uint32_t i = 0; i < profile->thread_count; i++) {
		profile->threads[i] = (struct stack_thread_info){
			.pid = (int32_t)i + 1, .tid = (int32_t)i + 1, .role = STACK_THREAD_WORKER};
		memset(profile->threads[i].name, '<', STACK_THREAD_NAME_LENGTH - 1);
	}
	for (uint32_t i = 0; i < profile->segment_count; i++)
		profile->segments[i] =
			(struct stack_segment){UINT64_MAX, UINT32_MAX - i, OPERATION_ALL_REDUCE, 1};
	for (uint32_t i = 0; i < profile->sum_count; i++)
		profile->sums[i] = (struct stack_sum){.node = profile->node_count - 1 - i,
			.thread = i % STACK_PROFILE_THREADS_MAX,
			.segment = i % STACK_PROFILE_SEGMENTS_MAX,
			.state = UINT8_MAX,
			.looks = UINT32_MAX,
			.time_ns = (INT64_C(1) << 61) - 1};
	assert_true(stack_profile_is_valid(profile));
	return profile;
}

static void the_largest_page_is_bounded(void **state)
{
	struct stack_profile *profile = make_largest();
	struct report_choice choice = {.format = REPORT_FLAME};
	char *page = NULL, *data;
	size_t length;
	FILE *out;

	(void)state;
	assert_int_equal(stack_looks_keep(&looks, profile, 12 * SECOND_NS, 13 * SECOND_NS), 0);
	profile->rank = 0;
	assert_int_equal(stack_looks_keep(&looks, profile, 12 * SECOND_NS, 13 * SECOND_NS), 0);
	stack_profile_destroy(profile);
	assert_true(find(NULL, NULL, &choice.stacks));
	assert_non_null(choice.stacks.control);
	out = open_memstream(&page, &length);
	assert_non_null(out);
	assert_int_equal(report_write(&model, &choice, out), 0);
	fclose(out);
	assert_true(length < 8u << 20);
	data = strstr(page, "id=\"data\">{");
	assert_non_null(data);
	assert_ptr_equal(strchr(data + 10, '<'), strstr(data, "</script>\n<script>"));
	free(page);
}

/* Looks that somebody asked for are shown where there are no others, and of whom; they are of no incident. */
static void those_asked_for_come_last(void **state)
{
	struct stack_looks asked = {0};
	struct stacks_pair pair;

	(void)state;
	add_look(3, 12, 0, "early");
	add_look(3, 14, 0, "");
	add_look(1, 13, 0, "other");
	asked = looks;
	memset(&looks, 0, sizeof(looks));
	model.asked_stacks = &asked;
	assert_true(stacks_find(&model, &(struct stacks_wish){0}, &pair, why));
	assert_ptr_equal(pair.own, &asked.kept[2]);
	assert_null(pair.verdict);
	assert_null(pair.control);
	assert_true(stacks_find(
		&model, &(struct stacks_wish){.has_rank = true, .rank = 3}, &pair, why));
	assert_ptr_equal(pair.own, &asked.kept[0]);
	assert_non_null(strstr(write_folded(&pair, FOLDED_SUSPECT), "early"));
	assert_false(stacks_find(
		&model, &(struct stacks_wish){.has_rank = true, .rank = 4}, &pair, why));
	assert_false(stacks_find(
		&model, &(struct stacks_wish){.has_incident = true, .incident = 1}, &pair, why));
	add_look(2, 15, 10, "own");
	assert_true(stacks_find(&model, &(struct stacks_wish){0}, &pair, why));
	assert_ptr_equal(pair.own, &looks.kept[0]);
	for (size_t i = 0; i < asked.count; i++)
		stack_profile_destroy(asked.kept[i].profile);
}

int main(void)
{
#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(the_first_incident_with_looks_is_taken),
		CASE(a_control_is_of_the_same_role_and_healthy),
		CASE(a_rank_of_no_incident_has_looks_too),
		CASE(why_there_are_none_is_said),
		CASE(a_hang_is_of_those_that_miss_and_one_that_waits),
		CASE(names_take_no_line_apart),
		CASE(stacks_of_one_place_are_one),
		CASE(the_largest_page_is_bounded),
		CASE(those_asked_for_come_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
