/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of work for devices, counted in windows of a few steps (bpf/launches.bpf.h). A job may launch
 * 70,000 times a second, and each trap costs it half a microsecond: so the functions are hooked only
 * while a window is open, and what the traps cost decides when the next one may be (duty_cycle.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "probe/attach/collective_table.h"
#include "probe/attach/verbs_attach.h"
#include "probe/ring/host_clock.h"
#include "probe/sources/bpf_source_internal.h"

enum {
	WINDOW_STEPS = 6, /* of which the first and the last are seen in part */
	LEAST_STEPS = 3,  /* however much the traps cost */
	CALIBRATION_CALLS = 512,
	CALIBRATION_ROUNDS = 4,
	/* Without a measurement: what a trap with its program cost at most on the machines seen. */
	HIT_COST_USUAL_NS = 1000,
};

static const int64_t window_min_ns = 300000000, window_max_ns = 20000000000;
static const int64_t window_usual_ns = 1000000000;   /* while steps are not known */
static const int64_t window_of_rates_ns = 200000000; /* at least, in whole steps */
static const int64_t interval_ns = 1000000000;
static const int64_t cheap_enough_ns = 20000000000; /* a window pays for this much time at most */
/*
 * Attaching and detaching patch a few places of each process, each under its lock of mappings. What
 * that costs a process cannot be seen from here; some microseconds a place, and this is a bound.
 */
static const int64_t switch_cost_ns = 100000;
/* Of each process's time. */
#define LAUNCHES_SHARE 0.003

/* A function that begins like most do. Nothing else calls it, so a trap there hits nobody else. */
void slowrank_launch_trial(void) __attribute__((visibility("hidden")));
#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	".type slowrank_launch_trial, @function\n"
	"slowrank_launch_trial:\n"
	"	push %rbp\n"
	"	pop %rbp\n"
	"	ret\n"
	".size slowrank_launch_trial, . - slowrank_launch_trial\n"
	".popsection\n");
#else
__attribute__((noinline)) void slowrank_launch_trial(void)
{
	__asm__ volatile("" : : : "memory");
}
#endif

static void open_in_kernel(struct bpf_source *source, uint32_t number)
{
	__atomic_store_n(&source->skeleton->bss->launch_window, number, __ATOMIC_RELEASE);
}

/* CPU time of this thread that one call takes: the least of a few rounds. */
static int64_t call_ns(void)
{
	int64_t least_ns = INT64_MAX;

	for (int round = 0; round < CALIBRATION_ROUNDS; round++) {
		struct timespec start, end;

		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
		for (int i = 0; i < CALIBRATION_CALLS; i++)
			slowrank_launch_trial();
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
		int64_t length_ns =
			(end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec;
		if (length_ns / CALIBRATION_CALLS < least_ns)
			least_ns = length_ns / CALIBRATION_CALLS;
	}
	return least_ns;
}

/* The real program is attached to a function of ours, which is called with and without it. */
static int64_t time_trial(struct bpf_source *source, const struct verbs_place *found, int *error)
{
	struct uprobe_place place = {.file_offset = found->offset};
	struct uprobe_link link = {0};
	int64_t free_ns = call_ns(), hooked_ns;

	while (place.cookie + 1 < collective_row_count &&
		collective_rows[place.cookie].kind != ROW_LAUNCH)
		place.cookie++;
	*error = uprobe_link_attach(&link, source->skeleton->progs.on_launch, source->multi, false,
		found->file.path, &place, 1);
	if (*error)
		return 0;
	open_in_kernel(source, UINT32_MAX);
	hooked_ns = call_ns() - free_ns;
	open_in_kernel(source, 0);
	uprobe_link_detach(&link);
	return hooked_ns;
}

int bpf_source_measure_launch(struct bpf_source *source, int64_t *hit_ns)
{
	struct rank_process_state fresh = {.incarnation = source->next_incarnation};
	int map = bpf_map__fd(source->skeleton->maps.processes);
	uint32_t own = (uint32_t)getpid();
	struct verbs_place found;
	int64_t cost_ns;
	bool followed;
	int error;

	if (!source->windows.allowed)
		return -ENOTSUP;
	error = verbs_place_find((pid_t)own, (uintptr_t)slowrank_launch_trial, &found);
	if (error)
		return error;
	/* For its sake we are a followed process for a moment, where our number is known. */
	followed = !source->own_pid_namespace &&
		   bpf_map_update_elem(map, &own, &fresh, BPF_NOEXIST) == 0;
	cost_ns = time_trial(source, &found, &error);
	if (followed)
		bpf_map_delete_elem(map, &own);
	if (error)
		return error;
	if (cost_ns <= 0)
		return -ENODATA;
	*hit_ns = followed ? cost_ns : cost_ns * 5 / 4; /* the counting was not in it */
	return 0;
}

static bool has_places(const struct bpf_source *source)
{
	for (size_t i = 0; i < source->file_count; i++) {
		if (source->files[i].in_use && source->files[i].launch_count)
			return true;
	}
	return false;
}

/*
 * Launches so far in the window that is open, or has just ended, of the process with the most. wish, if not
 * NULL, is told of each.
 */
static uint64_t most_launches(
	const struct bpf_source *source, const struct bpf_launch_wish *wish, struct host_ns now)
{
	const struct host_ns from = {source->windows.counted_from_ns};
	int map = bpf_map__fd(source->skeleton->maps.processes);
	struct rank_process_state state;
	uint32_t pid, *last = NULL;
	uint64_t most = 0;

	for (size_t n = 0; n < RANK_PROCESSES_MAX && bpf_map_get_next_key(map, last, &pid) == 0;
		n++) {
		last = &pid;
		if (bpf_map_lookup_elem(map, &pid, &state) < 0 ||
			state.launches.window != source->windows.number)
			continue;
		if (state.launches.launches > most)
			most = state.launches.launches;
		if (wish && wish->on_count)
			wish->on_count(wish->context, (pid_t)state.launcher_pid,
				state.launches.launches, from, now);
	}
	return most;
}

static int64_t window_length_ns(const struct bpf_launch_wish *wish)
{
	int64_t step_ns = wish->step_ns;
	int64_t length_ns = step_ns ? WINDOW_STEPS * step_ns : window_usual_ns;

	if (!wish->steps && step_ns)
		return step_ns < window_max_ns
			       ? (window_of_rates_ns + step_ns - 1) / step_ns * step_ns
			       : window_max_ns;
	return length_ns < window_min_ns   ? window_min_ns
	       : length_ns > window_max_ns ? window_max_ns
					   : length_ns;
}

static void detach(struct bpf_source *source)
{
	for (size_t i = 0; i < source->file_count; i++)
		uprobe_link_detach(&source->files[i].at_launch);
}

/*
 * Which streams wait for a collective is seen all the time from then on: a few calls for each, and the
 * stay of every one of them hangs on it. Where devices tell their times nothing does.
 */
static int attach(struct bpf_source *source, struct attached_file *file, bool steps)
{
	int error = 0;

	if (steps && file->at_stream_wait.fd_count == 0)
		error = uprobe_link_attach(&file->at_stream_wait,
			source->skeleton->progs.on_stream_wait, source->multi, false, file->path,
			file->stream_waits, file->stream_wait_count);
	if (!error)
		error = uprobe_link_attach(&file->at_launch, source->skeleton->progs.on_launch,
			source->multi, false, file->path, file->launches, file->launch_count);
	return error;
}

static void open_window(
	struct bpf_source *source, struct host_ns now, const struct bpf_launch_wish *wish)
{
	int64_t began_ns = host_clock_now_ns();
	struct launch_windows *windows = &source->windows;
	int error = 0;

	if (!windows->calibrated) {
		windows->calibrated = true;
		windows->hit_cost_ns = HIT_COST_USUAL_NS;
		(void)!bpf_source_measure_launch(source, &windows->hit_cost_ns);
		duty_cycle_init(&windows->duty, LAUNCHES_SHARE, interval_ns);
	}
	windows->opened_ns = now.value;
	for (size_t i = 0; i < source->file_count && !error; i++) {
		struct attached_file *file = &source->files[i];

		if (file->in_use)
			error = attach(source, file, wish->steps);
	}
	windows->error = error;
	windows->open = !error;
	if (error) {
		detach(source);
		duty_cycle_close(&windows->duty, now, 0, 0, 0); /* tried again later */
		return;
	}
	windows->counted_from_ns = now.value + host_clock_now_ns() - began_ns;
	windows->until_ns = windows->counted_from_ns + window_length_ns(wish);
	windows->number = windows->number % INT32_MAX + 1;
	open_in_kernel(source, windows->number);
}

void bpf_launches_close(
	struct bpf_source *source, struct host_ns now, const struct bpf_launch_wish *wish)
{
	struct launch_windows *windows = &source->windows;
	uint64_t hits;

	if (!windows->open)
		return;
	windows->open = false;
	open_in_kernel(source, 0);
	detach(source);
	hits = most_launches(source, wish, now);
	duty_cycle_close(&windows->duty, (struct host_ns){windows->opened_ns},
		now.value - windows->opened_ns, hits,
		switch_cost_ns + (int64_t)hits * windows->hit_cost_ns);
}

void bpf_source_launches_tick(
	struct bpf_source *source, struct host_ns now, const struct bpf_launch_wish *wish)
{
	struct launch_windows *windows = &source->windows;
	bool wanted = wish->steps || wish->rates;

	windows->needed |= wanted;
	if (!windows->allowed || source->paused)
		return;
	if (!windows->open) {
		if (wanted && has_places(source) &&
			(duty_cycle_is_due(&windows->duty, now) ||
				(wish->steps && wish->suspected &&
					duty_cycle_may_hurry(&windows->duty, 1, now))))
			open_window(source, now, wish);
		return;
	}
	int64_t cost_max_ns = (int64_t)(LAUNCHES_SHARE * (double)cheap_enough_ns);
	bool dear = now.value - windows->opened_ns >= LEAST_STEPS * wish->step_ns &&
		    (int64_t)most_launches(source, NULL, now) * windows->hit_cost_ns >= cost_max_ns;

	if (!wanted || dear || now.value >= windows->until_ns)
		bpf_launches_close(source, now, wish);
}

void bpf_source_launch_cost(const struct bpf_source *source, struct bpf_launch_cost *cost)
{
	const struct duty_cycle *duty = &source->windows.duty;

	*cost = (struct bpf_launch_cost){.windows = duty->windows,
		.hits = duty->hits,
		.open_ns = duty->open_ns,
		.cost_ns = duty->cost_ns,
		.hit_cost_ns = source->windows.hit_cost_ns};
}

size_t bpf_launches_state(const struct bpf_source *source, struct message_source *out)
{
	const struct launch_windows *windows = &source->windows;
	enum source_state state = SOURCE_ON;
	const char *why = "";
	bool has_driver = false;

	for (size_t i = 0; i < source->file_count; i++) {
		const struct attached_file *file = &source->files[i];

		has_driver |= file->in_use && file->has_launches;
		if (file->in_use && file->why_launches[0])
			why = file->why_launches;
	}
	if (!has_driver)
		return 0;
	if (!windows->allowed) {
		state = SOURCE_OFF;
		why = "not asked for";
	} else if (*why) {
		state = SOURCE_MISSING;
	} else if (windows->error) {
		state = SOURCE_MISSING;
		why = strerror(-windows->error);
	} else if (!windows->needed) {
		state = SOURCE_OFF;
		why = "not needed where devices tell their times";
	}
	snprintf(out->name, sizeof(out->name), "bpf.launches");
	out->state = (uint8_t)state;
	snprintf(out->why, sizeof(out->why), "%s", why);
	return 1;
}
