/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/verbs_probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "probe/ring/host_clock.h"
#include "probe/ring/verbs_abi.h"
#include "probe/sources/verbs_probe_internal.h"

enum {
	WINDOW_NS = 5000000,
	INTERVAL_NS = 1000000000,
	/* A trap with its program, at most: bench/verbs measured 4.0 and 5.6 us on a busy VM. */
	POST_COST_NS = 8000,
	POLL_COST_NS = 12000,
	EXPENSIVE_COST_NS = 40000, /* a first instruction that is single-stepped */
};

#define SHARE_USUAL 0.01

static void write_offsets(struct verbs_bpf *skeleton)
{
	skeleton->rodata->at_post_send = offsetof(struct verbs_abi_context, post_send);
	skeleton->rodata->at_poll = offsetof(struct verbs_abi_context, poll);
	skeleton->rodata->at_number = offsetof(struct verbs_abi_qp, number);
	skeleton->rodata->at_device_name = offsetof(struct verbs_abi_device, name);
	skeleton->rodata->at_peer_number = offsetof(struct verbs_abi_qp_attributes, peer_number);
	skeleton->rodata->at_address = offsetof(struct verbs_abi_qp_attributes, address);
	skeleton->rodata->at_timeout = offsetof(struct verbs_abi_qp_attributes, timeout);
	skeleton->rodata->at_retry_count = offsetof(struct verbs_abi_qp_attributes, retry_count);
	skeleton->rodata->at_next = offsetof(struct verbs_abi_send_request, next);
	skeleton->rodata->at_parts = offsetof(struct verbs_abi_send_request, parts);
	skeleton->rodata->at_part_count = offsetof(struct verbs_abi_send_request, part_count);
	skeleton->rodata->at_flags = offsetof(struct verbs_abi_send_request, flags);
	skeleton->rodata->flag_signaled = VERBS_ABI_SEND_SIGNALED;
}

static int load(struct verbs_probe *probe, bool multi)
{
	struct verbs_bpf *skeleton = verbs_bpf__open();
	int error;

	if (!skeleton)
		return -errno;
	write_offsets(skeleton);
	error = bpf_map__reuse_fd(skeleton->maps.processes, probe->options.processes_fd);
	if (multi) {
		struct bpf_program *const programs[] = {skeleton->progs.on_verbs_made,
			skeleton->progs.on_verbs_modify, skeleton->progs.on_verbs_destroy,
			skeleton->progs.on_verbs_post, skeleton->progs.on_verbs_poll,
			skeleton->progs.on_verbs_polled};

		for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
			bpf_program__set_expected_attach_type(
				programs[i], (enum bpf_attach_type)UPROBE_ATTACH_TYPE_MULTI);
	}
	if (!error)
		error = verbs_bpf__load(skeleton);
	if (!error && multi && !uprobe_link_multi_works(skeleton->progs.on_verbs_post))
		error = -ENOTSUP;
	if (error < 0) {
		verbs_bpf__destroy(skeleton);
		return error;
	}
	probe->skeleton = skeleton;
	probe->multi = multi;
	return 0;
}

static int on_event(void *context, const void *data, size_t length);

int verbs_probe_create(const struct verbs_probe_options *options, struct verbs_probe **result,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct verbs_probe *probe = calloc(1, sizeof(*probe));
	int error = -ENOTSUP;

	if (!probe)
		return -ENOMEM;
	probe->options = *options;
	if (!probe->options.window_ns)
		probe->options.window_ns = WINDOW_NS;
	duty_cycle_init(&probe->duty, options->share > 0 ? options->share : SHARE_USUAL,
		options->interval_ns ? options->interval_ns : INTERVAL_NS);
	if (!options->single_uprobes)
		error = load(probe, true);
	if (error < 0 && error != -EPERM)
		error = load(probe, false);
	if (!error) {
		error = kernel_ring_create(
			probe->skeleton->maps.verbs_events, on_event, probe, &probe->ring);
	}
	if (error) {
		if (why)
			snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
				"cannot load the verbs programs: %s", strerror(-error));
		verbs_probe_destroy(probe);
		return error;
	}
	snprintf(probe->state.name, sizeof(probe->state.name), "bpf.verbs");
	*result = probe;
	return 0;
}

static void detach_place(struct verbs_hooked_place *place)
{
	uprobe_link_detach(&place->at_call);
	uprobe_link_detach(&place->at_return);
}

void verbs_probe_destroy(struct verbs_probe *probe)
{
	if (!probe)
		return;
	for (size_t i = 0; i < probe->place_count; i++) {
		detach_place(&probe->places[i]);
		close(probe->places[i].fd);
	}
	for (size_t i = 0; i < probe->library_count; i++) {
		struct verbs_hooked_library *library = &probe->libraries[i];

		uprobe_link_detach(&library->makers);
		uprobe_link_detach(&library->objects);
		uprobe_link_detach(&library->modify);
		uprobe_link_detach(&library->destroy);
	}
	kernel_ring_destroy(probe->ring);
	verbs_bpf__destroy(probe->skeleton);
	free(probe);
}

/* Attaches one program to those of the offsets that are there. */
static int hook(struct verbs_probe *probe, struct uprobe_link *link,
	const struct bpf_program *program, bool at_return, const char *path,
	const uint64_t *offsets, size_t count, uint64_t cookie)
{
	struct uprobe_place places[4];
	size_t used = 0;

	for (size_t i = 0; i < count && used < 4; i++) {
		if (offsets[i])
			places[used++] =
				(struct uprobe_place){.file_offset = offsets[i], .cookie = cookie};
	}
	return uprobe_link_attach(link, program, probe->multi, at_return, path, places, used);
}

static int hook_library(struct verbs_probe *probe, struct verbs_hooked_library *hooked,
	const char *path, const struct verbs_library *library)
{
	const struct verbs_bpf *skeleton = probe->skeleton;
	int error;

	error = hook(probe, &hooked->makers, skeleton->progs.on_verbs_made, true, path,
		(uint64_t[]){library->open_device, library->import_device}, 2,
		VERBS_COOKIE_CONTEXT);
	if (!error)
		error = hook(probe, &hooked->objects, skeleton->progs.on_verbs_made, true, path,
			(uint64_t[]){library->create_cq, library->create_qp}, 2,
			VERBS_COOKIE_OBJECT);
	if (!error)
		error = hook(probe, &hooked->modify, skeleton->progs.on_verbs_modify, false, path,
			&library->modify_qp, 1, 0);
	if (!error)
		error = hook(probe, &hooked->destroy, skeleton->progs.on_verbs_destroy, false, path,
			&library->destroy_qp, 1, 0);
	return error;
}

int verbs_probe_attach_library(struct verbs_probe *probe, const struct library_file *file)
{
	struct verbs_hooked_library *hooked;
	char link[LIBRARY_LINK_LENGTH];
	struct verbs_library library;
	int error, fd;

	for (size_t i = 0; i < probe->library_count; i++) {
		if (probe->libraries[i].device == file->device &&
			probe->libraries[i].inode == file->inode)
			return 0;
	}
	if (probe->library_count == VERBS_PROBE_LIBRARIES_MAX)
		return -ENOSPC;
	fd = library_open(file, link);
	if (fd < 0)
		return fd;
	error = verbs_library_read(link, &library);
	if (!error) {
		hooked = &probe->libraries[probe->library_count++];
		*hooked =
			(struct verbs_hooked_library){.device = file->device, .inode = file->inode};
		error = hook_library(probe, hooked, link, &library);
		probe->error = error;
	}
	close(fd);
	return error;
}

static int attach_place(struct verbs_probe *probe, struct verbs_hooked_place *hooked)
{
	struct uprobe_place place = {.file_offset = hooked->place.offset};
	struct verbs_bpf *skeleton = probe->skeleton;
	int error = 0;

	/* The return first: an entry without it would leave its call open. */
	if (hooked->is_poll)
		error = uprobe_link_attach(&hooked->at_return, skeleton->progs.on_verbs_polled,
			probe->multi, true, hooked->path, &place, 1);
	if (!error)
		error = uprobe_link_attach(&hooked->at_call,
			hooked->is_poll ? skeleton->progs.on_verbs_poll
					: skeleton->progs.on_verbs_post,
			probe->multi, false, hooked->path, &place, 1);
	if (error)
		detach_place(hooked);
	return error;
}

static void take_place(struct verbs_probe *probe, pid_t pid, uint64_t address, bool is_poll)
{
	struct verbs_hooked_place *hooked;
	struct verbs_place place;

	if (!address)
		return;
	if (verbs_place_find(pid, address, &place) < 0) {
		probe->unplaced++;
		return;
	}
	for (size_t i = 0; i < probe->place_count; i++) {
		const struct verbs_place *known = &probe->places[i].place;

		if (known->file.device == place.file.device &&
			known->file.inode == place.file.inode && known->offset == place.offset)
			return;
	}
	if (probe->place_count == VERBS_PROBE_PLACES_MAX) {
		probe->unplaced++;
		return;
	}
	hooked = &probe->places[probe->place_count];
	*hooked = (struct verbs_hooked_place){.place = place, .is_poll = is_poll};
	hooked->fd = library_open(&place.file, hooked->path);
	if (hooked->fd < 0) {
		probe->unplaced++;
		return;
	}
	probe->place_count++;
	if (probe->options.always)
		probe->error = attach_place(probe, hooked);
}

static struct verbs_probe_context *context_of(
	struct verbs_probe *probe, uint64_t context, uint32_t pid)
{
	for (size_t i = 0; i < probe->context_count; i++) {
		if (probe->contexts[i].context == context && probe->contexts[i].pid == pid)
			return &probe->contexts[i];
	}
	return NULL;
}

static void take_context(struct verbs_probe *probe, const struct verbs_event *event)
{
	struct verbs_probe_context *known = context_of(probe, event->context, event->pid);

	take_place(probe, (pid_t)event->pid, event->post_send, false);
	take_place(probe, (pid_t)event->pid, event->poll, true);
	if (!known && probe->context_count < VERBS_PROBE_CONTEXTS_MAX)
		known = &probe->contexts[probe->context_count++];
	else if (!known) /* one has to go; only its device's name is lost */
		known = &probe->contexts[event->pid % VERBS_PROBE_CONTEXTS_MAX];
	*known = (struct verbs_probe_context){.context = event->context, .pid = event->pid};
	memcpy(known->device, event->device, sizeof(event->device) - 1);
}

static struct verbs_peer *peer_of(
	struct verbs_probe *probe, uint64_t context, uint32_t pid, uint32_t number, bool add)
{
	struct verbs_peer *reusable = NULL;

	for (size_t i = 0; i < probe->peer_count; i++) {
		struct verbs_peer *peer = &probe->peers[i];

		if (peer->context == context && peer->pid == pid && peer->number == number)
			return peer;
		if (peer->destroyed)
			reusable = peer;
	}
	if (!add)
		return NULL;
	if (probe->peer_count < VERBS_PROBE_PEERS_MAX)
		reusable = &probe->peers[probe->peer_count++];
	if (reusable)
		*reusable = (struct verbs_peer){.context = context, .pid = pid, .number = number};
	return reusable;
}

/* A queue pair gets its address, its number and its timers in different calls. */
static void take_peer(struct verbs_probe *probe, const struct verbs_event *event)
{
	struct verbs_peer *peer = peer_of(probe, event->context, event->pid, event->number, true);

	if (!peer)
		return;
	peer->destroyed = event->kind == VERBS_EVENT_DESTROYED;
	if (peer->destroyed)
		return;
	if (event->has_address) {
		uint32_t number = peer->event.peer_number;

		peer->event = *event;
		if (!event->peer_number)
			peer->event.peer_number = number;
	} else if (event->peer_number) {
		peer->event.peer_number = event->peer_number;
	}
	if (event->timeout)
		peer->event.timeout = event->timeout;
	if (event->retry_count)
		peer->event.retry_count = event->retry_count;
}

static int on_event(void *context, const void *data, size_t length)
{
	const struct verbs_event *event = data;
	struct verbs_probe *probe = context;

	if (length < sizeof(*event))
		return 0;
	if (event->kind == VERBS_EVENT_CONTEXT)
		take_context(probe, event);
	else if (event->kind == VERBS_EVENT_PEER || event->kind == VERBS_EVENT_DESTROYED)
		take_peer(probe, event);
	return 0;
}

static uint64_t read_counter(const __u64 *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/*
 * What traps cost, at most: a poll what lay between two of one thread, when that is more than the
 * constant; so a thread that only polls is charged all of its time.
 */
static uint64_t estimate(const struct verbs_probe *probe, uint64_t posts, uint64_t polls)
{
	uint64_t post_cost = POST_COST_NS, poll_cost = POLL_COST_NS;
	uint64_t measured = read_counter(&probe->skeleton->bss->shortest_interval_ns);

	for (size_t i = 0; i < probe->place_count; i++) {
		if (probe->places[i].place.cost != OPCODE_EXPENSIVE)
			continue;
		if (probe->places[i].is_poll)
			poll_cost = EXPENSIVE_COST_NS;
		else
			post_cost = EXPENSIVE_COST_NS;
	}
	if (measured > poll_cost)
		poll_cost = measured;
	return posts * post_cost + polls * poll_cost;
}

/*
 * Attaches, waits, detaches. A thread loses at most the time that something is attached, and at
 * most what all traps together cost: the smaller of the two bounds when the next window may be.
 */
static int open_window(struct verbs_probe *probe)
{
	uint64_t hits = read_counter(&probe->skeleton->bss->hits);
	uint64_t polls = read_counter(&probe->skeleton->bss->poll_hits);
	int64_t start = host_clock_now_ns();
	struct timespec length = {.tv_nsec = probe->options.window_ns % 1000000000,
		.tv_sec = probe->options.window_ns / 1000000000};
	int error = 0;

	for (size_t i = 0; i < probe->place_count && !error; i++)
		error = attach_place(probe, &probe->places[i]);
	if (!error)
		nanosleep(&length, NULL);
	for (size_t i = 0; i < probe->place_count; i++)
		detach_place(&probe->places[i]);
	hits = read_counter(&probe->skeleton->bss->hits) - hits;
	polls = read_counter(&probe->skeleton->bss->poll_hits) - polls;
	duty_cycle_close(&probe->duty, (struct host_ns){start}, host_clock_now_ns() - start, hits,
		(int64_t)estimate(probe, hits - polls, polls));
	probe->error = error;
	return error;
}

int verbs_probe_tick(struct verbs_probe *probe, struct host_ns now)
{
	int result = kernel_ring_read(probe->ring), error = 0;

	if (!probe->options.always && probe->place_count && duty_cycle_is_due(&probe->duty, now))
		error = open_window(probe);
	return error ? error : result;
}

static struct verbs_probe_rank *rank_of(struct verbs_probe *probe, pid_t pid)
{
	for (size_t i = 0; i < probe->rank_count; i++) {
		if (probe->ranks[i].pid == pid)
			return &probe->ranks[i];
	}
	return NULL;
}

int verbs_probe_follow(struct verbs_probe *probe, pid_t pid, uint32_t rank)
{
	struct verbs_probe_rank *known = rank_of(probe, pid);

	if (known) {
		known->rank = rank;
		return 0;
	}
	if (probe->rank_count == VERBS_PROBE_RANKS_MAX)
		return -ENOSPC;
	probe->ranks[probe->rank_count++] = (struct verbs_probe_rank){pid, rank};
	return 1;
}

static void fill_counts(const struct verbs_count *count, struct message_queue_pair *out)
{
	out->posted_requests = count->posted_requests;
	out->posted_bytes = count->posted_bytes;
	out->received_requests = count->received_requests;
	out->received_bytes = count->received_bytes;
	/* Requests without a completion of their own are not told apart here. */
	out->completed_requests = count->completed_sends;
	out->latency_count = count->latency_count;
	out->latency_sum_ns = count->latency_sum_ns;
	out->latency_max_ns = count->latency_max_ns;
	out->latency_unmeasured = count->latency_unmeasured;
	memcpy(out->statuses, count->statuses, sizeof(out->statuses));
	memcpy(out->latency, count->latency, sizeof(out->latency));
}

static void fill_identity(struct verbs_probe *probe, const struct verbs_count_key *key,
	uint32_t pid, struct message_queue_pair *out)
{
	const struct verbs_peer *peer = peer_of(probe, key->context, pid, key->number, false);
	const struct verbs_probe_context *context = context_of(probe, key->context, pid);

	out->number = key->number;
	if (context)
		snprintf(out->device, sizeof(out->device), "%s", context->device);
	if (!peer)
		return;
	out->peer_number = peer->event.peer_number;
	out->timeout = peer->event.timeout;
	out->retry_count = peer->event.retry_count;
	if (!peer->event.has_address)
		return;
	out->flags |= QUEUE_PAIR_HAS_PEER | (peer->event.is_global ? QUEUE_PAIR_PEER_GLOBAL : 0);
	out->peer_lid = peer->event.peer_lid;
	out->port = peer->event.port;
	memcpy(out->peer_gid, peer->event.peer_gid, sizeof(out->peer_gid));
	if (peer->destroyed)
		out->flags |= QUEUE_PAIR_DESTROYED;
}

size_t verbs_probe_read(struct verbs_probe *probe, struct host_ns now,
	struct message_queue_pair *out, size_t capacity)
{
	int map = bpf_map__fd(probe->skeleton->maps.counts);
	struct verbs_count_key key, *last = NULL;
	struct verbs_count count;
	size_t used = 0;

	for (size_t n = 0; n < VERBS_SHARED_QUEUE_PAIRS_MAX && used < capacity; n++) {
		if (bpf_map_get_next_key(map, last, &key) < 0)
			break;
		last = &key;
		if (bpf_map_lookup_elem(map, &key, &count) < 0)
			continue;
		const struct verbs_probe_rank *rank = rank_of(probe, (pid_t)count.visible_pid);

		if (!rank)
			continue;
		out[used] = (struct message_queue_pair){.rank = rank->rank,
			.time = now,
			.flags = probe->options.always ? 0 : QUEUE_PAIR_SAMPLED};
		fill_identity(probe, &key, count.visible_pid, &out[used]);
		fill_counts(&count, &out[used++]);
	}
	return used;
}

size_t verbs_probe_places(const struct verbs_probe *probe, struct verbs_place *out, size_t capacity)
{
	size_t count = 0;

	for (; count < probe->place_count && count < capacity; count++)
		out[count] = probe->places[count].place;
	return count;
}

void verbs_probe_costs(const struct verbs_probe *probe, struct verbs_probe_cost *cost)
{
	*cost = (struct verbs_probe_cost){.windows = probe->duty.windows,
		.hits = probe->duty.hits,
		.open_ns = (uint64_t)probe->duty.open_ns,
		.estimate_ns = (uint64_t)probe->duty.cost_ns};
}

const struct message_source *verbs_probe_state(struct verbs_probe *probe)
{
	enum source_state state = SOURCE_ON;
	const char *why = "";

	if (probe->error) {
		state = SOURCE_MISSING;
		why = "cannot attach to libibverbs or its provider";
	} else if (probe->place_count == 0) {
		state = SOURCE_MISSING;
		why = probe->library_count ? "no process of the job has opened an RDMA device "
					     "since slowrank came"
					   : "no process of the job uses libibverbs";
	} else if (probe->unplaced || read_counter(&probe->skeleton->bss->dropped)) {
		state = SOURCE_DEGRADED;
		why = "functions of a provider were not found, or counts did not fit";
	} else if (!probe->options.always) {
		state = SOURCE_DEGRADED;
		why = "looked at in short windows: counts are a part of what happened";
	}
	probe->state.state = (uint8_t)state;
	snprintf(probe->state.why, sizeof(probe->state.why), "%s", why);
	return &probe->state;
}
