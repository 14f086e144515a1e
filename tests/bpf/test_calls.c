/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs tell of library calls: arguments, order, nesting, communicators, loss. */
#include "tests/bpf/harness.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/attach/symbols.h"
#include "tests/bpf/told_mpi.h"

static const struct bpf_source_options whole = {.collectives = true, .sched = true, .faults = true};
static const struct bpf_source_options single = {
	.collectives = true, .sched = true, .faults = true, .single_uprobes = true};

struct fixture {
	struct harness harness;
	struct rank rank;
	uint64_t handles[4];
};

static struct fixture start(const struct bpf_source_options *options)
{
	struct fixture fixture;

	harness_start(&fixture.harness, options);
	fixture.rank = rank_start();
	assert_int_equal(bpf_source_track(fixture.harness.source, (uint32_t)fixture.rank.pid), 0);
	for (int i = 0; i < 4; i++)
		fixture.handles[i] = (uint64_t)rank_do(&fixture.rank, "address %d", i);
	return fixture;
}

static void end(struct fixture *fixture)
{
	assert_int_equal(bpf_source_dropped(fixture->harness.source), 0);
	rank_end(&fixture->rank);
	harness_end(&fixture->harness);
}

static const struct event_collective *collective(struct fixture *fixture, size_t number)
{
	const struct event_collective *event =
		harness_find(&fixture->harness, EVENT_COLLECTIVE, fixture->rank.pid, number);

	if (!event)
		fail_msg("there is no collective %zu", number);
	return event;
}

static const struct event_communicator *communicator(struct fixture *fixture, size_t number)
{
	const struct event_communicator *event =
		harness_find(&fixture->harness, EVENT_COMMUNICATOR, fixture->rank.pid, number);

	if (!event)
		fail_msg("there is no communicator event %zu", number);
	return event;
}

static void arguments_and_order(const struct bpf_source_options *options)
{
	struct fixture f = start(options);
	int64_t before = now_ns();

	rank_do(&f.rank, "allreduce 0 1000");
	rank_do(&f.rank, "barrier 1");
	rank_do(&f.rank, "bcast 0 77 3");
	rank_do(&f.rank, "reduce 0 12 2"); /* its communicator is the seventh argument */
	rank_do(&f.rank, "iallreduce 1 5");
	rank_do(&f.rank, "allreduce 0 1001");
	int64_t datatype = rank_do(&f.rank, "datatype");
	int64_t after = now_ns();
	harness_collect(&f.harness);

	const struct {
		const char *symbol;
		uint64_t handle, sequence, count;
		int32_t root;
	} expected[] = {
		{"MPI_Allreduce", f.handles[0], 0, 1000, -1},
		{"MPI_Barrier", f.handles[1], 0, 0, -1},
		{"MPI_Bcast", f.handles[0], 1, 77, 3},
		{"MPI_Reduce", f.handles[0], 2, 12, 2},
		{"MPI_Iallreduce", f.handles[1], 1, 5, -1},
		{"MPI_Allreduce", f.handles[0], 3, 1001, -1},
	};
	uint64_t last = (uint64_t)before;
	for (size_t i = 0; i < 6; i++) {
		const struct event_collective *event = collective(&f, i);

		assert_int_equal(event->row, row_of(expected[i].symbol));
		assert_int_equal(event->handle, expected[i].handle);
		assert_int_equal(event->sequence, expected[i].sequence);
		assert_int_equal(event->count, expected[i].count);
		assert_int_equal(event->root, expected[i].root);
		assert_int_equal(event->flags, 0);
		assert_int_equal(event->header.tid, f.rank.pid);
		if (i != 1)
			assert_int_equal(event->datatype, datatype);
		if (i == 4)
			assert_int_equal(event->departure_ns, event->arrival_ns);
		else
			assert_true(event->departure_ns > event->arrival_ns);
		assert_true(event->arrival_ns >= last && event->departure_ns <= (uint64_t)after);
		last = event->departure_ns;
	}
	assert_int_equal(harness_count(&f.harness, EVENT_COLLECTIVE, 0), 6);
	end(&f);
}

static void calls_through_one_link(void **state)
{
	(void)state;
	arguments_and_order(&whole);
}

static void calls_through_single_uprobes(void **state)
{
	(void)state;
	arguments_and_order(&single);
}

static void nested_calls_count_once(void **state)
{
	struct fixture f = start(&whole);

	(void)state;
	rank_do(&f.rank, "behave 0 0 0 %d", TOLD_NESTED_BARRIER);
	rank_do(&f.rank, "behave 1 0 0 %d", TOLD_NESTED_BARRIER);
	rank_do(&f.rank, "allreduce 0 1");
	rank_do(&f.rank, "recv 1");
	rank_do(&f.rank, "behave 0 0 0 0");
	rank_do(&f.rank, "barrier 0");
	harness_collect(&f.harness);
	assert_int_equal(collective(&f, 0)->row, row_of("MPI_Allreduce"));
	assert_int_equal(collective(&f, 1)->row, row_of("MPI_Barrier"));
	assert_int_equal(collective(&f, 1)->sequence, 1); /* the nested ones had none */
	assert_int_equal(harness_count(&f.harness, EVENT_COLLECTIVE, 0), 2);
	end(&f);
}

static void time_inside_is_not_own_time(void **state)
{
	struct fixture f = start(&whole);

	(void)state;
	rank_do(&f.rank, "barrier 0");
	rank_do(&f.rank, "behave 1 60");
	rank_do(&f.rank, "recv 1"); /* communication, and asleep only inside it */
	rank_do(&f.rank, "sleep 30");
	rank_do(&f.rank, "behave 0 50");
	rank_do(&f.rank, "barrier 0");
	harness_collect(&f.harness);
	const struct event_collective *event = collective(&f, 1);
	int64_t segment = (int64_t)(event->arrival_ns - collective(&f, 0)->departure_ns);
	assert_in_range(event->before.comm_call_ns, 60000000, segment - 30000000);
	/* Waiting for orders is sleep too, but the 60 ms are not in it. */
	assert_in_range(
		event->before.asleep_ns, 29000000, segment - (int64_t)event->before.comm_call_ns);
	assert_in_range(event->inside.asleep_ns, 49000000, event->departure_ns - event->arrival_ns);
	assert_int_equal(event->inside.comm_call_ns, 0);
	assert_true(event->departure_ns - event->arrival_ns >= 50000000);
	end(&f);
}

static void other_threads_are_told_apart(void **state)
{
	struct fixture f = start(&whole);

	(void)state;
	rank_do(&f.rank, "barrier 0");
	rank_do(&f.rank, "helper"); /* a thread that spins 30 ms, sleeps 100 ms */
	rank_do(&f.rank, "barrier 0");
	harness_collect(&f.harness);
	const struct event_collective *first = collective(&f, 0), *second = collective(&f, 1);
	assert_in_range(second->others.asleep_ns - first->others.asleep_ns, 99000000,
		second->arrival_ns - first->departure_ns - 30000000);
	end(&f);
}

static void communicators(void **state)
{
	struct fixture f = start(&whole);

	(void)state;
	rank_do(&f.rank, "behave 0");
	rank_do(&f.rank, "behave 1");
	assert_int_equal(rank_do(&f.rank, "split 0 7 3 1"), f.handles[1]);
	assert_int_equal(rank_do(&f.rank, "split 0 -32766 0 2"), 0); /* MPI_UNDEFINED */
	rank_do(&f.rank, "allreduce 1 1");
	rank_do(&f.rank, "allreduce 1 1");
	rank_do(&f.rank, "split 1 0 0 3");
	rank_do(&f.rank, "free 1");
	rank_do(&f.rank, "split 0 8 0 1"); /* again at the same address */
	rank_do(&f.rank, "allreduce 1 1");
	rank_do(&f.rank, "split 1 0 0 3");
	assert_int_equal(rank_do(&f.rank, "rank 1"), 41);
	assert_int_equal(rank_do(&f.rank, "size 1"), 46);
	harness_collect(&f.harness);

	const struct {
		uint64_t parent, handle, sequence;
		int32_t color, key;
	} expected[] = {
		{f.handles[0], f.handles[1], 0, 7, 3}, {f.handles[0], 0, 1, -32766, 0},
		{f.handles[1], f.handles[3], 0, 0, 0}, {0, f.handles[1], 0, 0, 0}, /* freed */
		{f.handles[0], f.handles[1], 2, 8, 0},
		{f.handles[1], f.handles[3], 0, 0, 0}, /* counts from 0 again */
	};
	for (size_t i = 0; i < 6; i++) {
		const struct event_communicator *event = communicator(&f, i);

		assert_int_equal(event->handle, expected[i].handle);
		assert_int_equal(event->destroyed, i == 3);
		assert_int_equal(event->row, row_of(i == 3 ? "MPI_Comm_free" : "MPI_Comm_split"));
		if (i == 3)
			continue;
		assert_int_equal(event->parent, expected[i].parent);
		assert_int_equal(event->sequence, expected[i].sequence);
		assert_int_equal(event->color, expected[i].color);
		assert_int_equal(event->key, expected[i].key);
		assert_int_equal(event->rank, -1);
	}
	assert_int_equal(collective(&f, 0)->sequence, 0);
	assert_int_equal(collective(&f, 1)->sequence, 1);
	assert_int_equal(collective(&f, 2)->sequence, 0);
	const struct event_rank *rank = harness_find(&f.harness, EVENT_RANK, f.rank.pid, 0);
	const struct event_rank *size = harness_find(&f.harness, EVENT_RANK, f.rank.pid, 1);
	assert_true(rank && size);
	assert_int_equal(rank->handle, f.handles[1]);
	assert_int_equal(rank->value, 41);
	assert_int_equal(rank->is_size, 0);
	assert_int_equal(size->value, 46);
	assert_int_equal(size->is_size, 1);
	end(&f);
}

/* FNV-1a over ints, as the kernel side does it. */
static uint64_t digest(const int32_t *numbers, size_t count)
{
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ (uint32_t)numbers[i]) * 1099511628211u;
	return hash;
}

/* Which lists and groups are passed; who counts as a creation of the parent. */
static void groups_and_grids(void **state)
{
	static const struct {
		const char *symbol;
		uint64_t group, handle, call;
		uint64_t sequence; /* creations of the parent, by all of its members */
	} expected[] = {
		{"MPI_Comm_group", 0, 0x700, 0, 0},
		{"MPI_Group_incl", 0x700, 0x701, 1, 0},
		{"MPI_Group_range_excl", 0x701, 0x702, 2, 0},
		{"MPI_Group_union", 0x700, 0x701, 3, 0},
		{"MPI_Comm_create_group", 0x701, 0, 4, 0},
		{"MPI_Comm_create", 0x701, 0, 5, 0},
		{"MPI_Group_free", 0, 0x701, 6, 0},
		{"MPI_Cart_create", 1, 0, 0, 1},
		{"MPI_Cart_sub", 0, 0, 0, 2},
	};
	static const int32_t ranges[] = {0, 2, 1, 5, 7, 2};
	struct fixture f = start(&whole);
	int32_t ranks[100];

	(void)state;
	for (int32_t i = 0; i < 100; i++)
		ranks[i] = 3 * i + 1;
	rank_do(&f.rank, "behave 0");
	rank_do(&f.rank, "groups 0 100");
	rank_do(&f.rank, "groups 0 %d", EVENT_LIST_MAX + 1);
	harness_collect(&f.harness);
	for (size_t i = 0; i < 9; i++) {
		const struct event_communicator *event = communicator(&f, i);
		bool makes_communicator = expected[i].handle == 0;

		assert_int_equal(event->row, row_of(expected[i].symbol));
		assert_int_equal(
			event->handle, makes_communicator ? f.handles[1] : expected[i].handle);
		assert_int_equal(event->group_call, expected[i].call);
		assert_int_equal(event->sequence, expected[i].sequence);
		assert_int_equal(event->destroyed, i == 6);
		if (i != 0 && i != 6)
			assert_int_equal(event->group, expected[i].group);
	}
	assert_int_equal(communicator(&f, 1)->list.count, 100);
	assert_int_equal(communicator(&f, 1)->list.digest, digest(ranks, 100));
	assert_int_equal(communicator(&f, 2)->list.count, 2);
	assert_int_equal(communicator(&f, 2)->list.digest, digest(ranges, 6));
	assert_int_equal(communicator(&f, 3)->other_group, 0x702);
	assert_int_equal(communicator(&f, 4)->key, 17);
	const struct event_list *lengths = &communicator(&f, 7)->list;
	const struct event_list *keep = &communicator(&f, 8)->list;
	assert_int_equal(communicator(&f, 7)->color, 1);
	assert_int_equal(lengths->count, 3);
	assert_in_range(lengths->number_count, 3, EVENT_LIST_NUMBERS);
	assert_memory_equal(lengths->numbers, ((int32_t[]){2, 3, 4}), 12);
	assert_in_range(keep->number_count, 3, EVENT_LIST_NUMBERS);
	assert_memory_equal(keep->numbers, ((int32_t[]){1, 0, 1}), 12);
	/* A list that is too long has no digest; what follows is numbered on. */
	assert_int_equal(communicator(&f, 10)->list.digest, 0);
	assert_int_equal(communicator(&f, 10)->group_call, 8);
	assert_int_equal(communicator(&f, 14)->sequence, 3);
	end(&f);
}

/* Attribute callbacks of libraries free and make communicators inside other calls. */
static void communicators_made_inside_other_calls(void **state)
{
	struct fixture f = start(&whole);

	(void)state;
	rank_do(&f.rank, "behave 0 0 0 %d", TOLD_NESTED_SPLIT);
	rank_do(&f.rank, "made 0 2");
	rank_do(&f.rank, "allreduce 0 1"); /* splits 0 inside: colour 9, key 8 */
	rank_do(&f.rank, "allreduce 2 1");
	rank_do(&f.rank, "behave 0 0 0 %d", TOLD_NESTED_FREE);
	rank_do(&f.rank, "made 0 2");
	rank_do(&f.rank, "recv 0"); /* frees it inside */
	rank_do(&f.rank, "allreduce 2 1");
	rank_do(&f.rank, "allreduce 0 1");
	harness_collect(&f.harness);
	assert_int_equal(harness_count(&f.harness, EVENT_COMMUNICATOR, 0), 2);
	const struct event_communicator *made = communicator(&f, 0), *freed = communicator(&f, 1);
	assert_int_equal(made->parent, f.handles[0]);
	assert_int_equal(made->handle, f.handles[2]);
	assert_int_equal(made->sequence, 0);
	assert_int_equal(made->color, 9);
	assert_int_equal(made->key, 8);
	assert_int_equal(made->row, row_of("MPI_Comm_split"));
	assert_int_equal(freed->destroyed, 1);
	assert_int_equal(freed->handle, f.handles[2]);
	/* The outer calls kept their own arguments. */
	assert_int_equal(harness_count(&f.harness, EVENT_COLLECTIVE, 0), 4);
	assert_int_equal(collective(&f, 0)->row, row_of("MPI_Allreduce"));
	assert_int_equal(collective(&f, 0)->handle, f.handles[0]);
	assert_int_equal(collective(&f, 0)->count, 1);
	assert_int_equal(collective(&f, 1)->handle, f.handles[2]);
	assert_int_equal(collective(&f, 1)->sequence, 0);
	assert_int_equal(collective(&f, 2)->sequence, 0); /* freed in between */
	assert_int_equal(collective(&f, 3)->sequence, 1);
	end(&f);
}

static void a_full_ring_drops_and_counts(void **state)
{
	static const size_t sizes[] = {4096, 65536};
	enum { CALLS = 2000 };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct bpf_source_options options = {.collectives = true, .ring_bytes = sizes[i]};
		struct fixture f = start(&options);

		rank_do(&f.rank, "burst %d", CALLS);
		harness_collect(&f.harness);
		size_t delivered = harness_count(&f.harness, EVENT_COLLECTIVE, 0);
		assert_in_range(delivered, sizes[i] / 400, sizes[i] / 280);
		assert_int_equal(bpf_source_dropped(f.harness.source), CALLS - delivered);
		/* With room again, the numbers go on: a gap tells of the loss. */
		rank_do(&f.rank, "burst 1");
		harness_collect(&f.harness);
		assert_int_equal(collective(&f, delivered)->sequence, CALLS);
		assert_int_equal(bpf_source_dropped(f.harness.source), CALLS - delivered);
		rank_end(&f.rank);
		harness_end(&f.harness);
	}
}

static void pause_and_resume(const struct bpf_source_options *options)
{
	struct fixture f = start(options);

	rank_do(&f.rank, "burst 3");
	rank_do(&f.rank, "behave 1 200");
	rank_order(&f.rank, "recv 1"); /* still open when the pause begins */
	usleep(60000);
	harness_collect(&f.harness);
	assert_int_equal(harness_count(&f.harness, EVENT_COLLECTIVE, 0), 3);
	assert_int_equal(bpf_source_pause(f.harness.source, true), 0);
	rank_answer(&f.rank);
	harness_clear(&f.harness);
	rank_do(&f.rank, "burst 10");
	rank_do(&f.rank, "sleep 150");
	harness_collect(&f.harness);
	assert_int_equal(f.harness.count, 0);
	int64_t resumed = now_ns();
	assert_int_equal(bpf_source_pause(f.harness.source, false), 0);
	rank_do(&f.rank, "burst 2");
	rank_do(&f.rank, "sleep 20");
	rank_do(&f.rank, "burst 1");
	harness_collect(&f.harness);
	assert_int_equal(harness_count(&f.harness, EVENT_COLLECTIVE, 0), 3);
	/* Nothing from before the resume is charged after it. */
	int64_t since = now_ns() - resumed;
	for (size_t i = 0; i < 3; i++) {
		const struct event_activity *before = &collective(&f, i)->before;

		assert_true((int64_t)(before->asleep_ns + before->preempted_ns +
				      before->comm_call_ns) <= since);
	}
	assert_in_range(collective(&f, 2)->before.asleep_ns, 20000000, since);
	end(&f);
}

static void pause_and_resume_one_link(void **state)
{
	(void)state;
	pause_and_resume(&whole);
}

static void pause_and_resume_single_uprobes(void **state)
{
	(void)state;
	pause_and_resume(&single);
}

/* Detaching waits for every processor once per link, and once per single uprobe. */
static void detach_is_quick(void **state)
{
	char *launcher[] = {"mpirun", NULL};
	struct library_file files[64];
	size_t count = 0, skipped;
	struct fixture f = start(&whole);

	(void)state;
	assert_int_equal(library_find_for_command(launcher, files, 64, &count), 0);
	for (size_t i = 0; i < count; i++) {
		if (symbols_has_rows(files[i].path))
			assert_true(bpf_source_attach_library(
					    f.harness.source, &files[i], false, &skipped) > 0);
	}
	rank_do(&f.rank, "burst 1");
	int64_t before = now_ns();
	harness_end(&f.harness);
	int64_t length = now_ns() - before;
	print_message("detaching took %lld ms\n", (long long)(length / 1000000));
	assert_true(length < 2000000000);
	rank_end(&f.rank);
}

/* A program that only imports MPI functions has none to attach to. */
static void imports_are_no_rows(void **state)
{
	(void)state;
	assert_true(symbols_has_rows(TOLD_MPI));
	assert_false(symbols_has_rows(TOLD_RANK));
}

static void states(void **state)
{
	struct message_source out[BPF_SOURCE_STATES_MAX];
	struct harness harness;

	(void)state;
	harness_start(&harness, &whole);
	assert_int_equal(bpf_source_states(harness.source, out, BPF_SOURCE_STATES_MAX), 4);
	for (size_t i = 0; i < 4; i++) {
		if (out[i].state != SOURCE_ON)
			fail_msg("%s: %s", out[i].name, out[i].why);
	}
	harness_end(&harness);
	harness_start(&harness, &(struct bpf_source_options){0});
	assert_int_equal(bpf_source_states(harness.source, out, BPF_SOURCE_STATES_MAX), 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(out[i].state, SOURCE_OFF);
	harness_end(&harness);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_through_one_link),
		cmocka_unit_test(calls_through_single_uprobes),
		cmocka_unit_test(nested_calls_count_once),
		cmocka_unit_test(time_inside_is_not_own_time),
		cmocka_unit_test(other_threads_are_told_apart),
		cmocka_unit_test(communicators),
		cmocka_unit_test(groups_and_grids),
		cmocka_unit_test(communicators_made_inside_other_calls),
		cmocka_unit_test(a_full_ring_drops_and_counts),
		cmocka_unit_test(pause_and_resume_one_link),
		cmocka_unit_test(pause_and_resume_single_uprobes),
		cmocka_unit_test(detach_is_quick),
		cmocka_unit_test(imports_are_no_rows),
		cmocka_unit_test(states),
	};
	int skipped = harness_check();

	return skipped ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
