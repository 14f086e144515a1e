// SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only)
/*
 * Verbs by uprobes: which functions a context calls, told when it is opened or makes something;
 * and, while the probe has them attached, what is posted and what completes. An object of its own:
 * it is attached in short windows and must not weigh on the rest. The map of followed processes
 * is that of ranks.bpf.c.
 */
#include "kernel_compat.bpf.h"
#include "pid_namespace.bpf.h"

#include "bpf/ranks_shared.h"
#include "bpf/verbs_shared.h"

char LICENSE[] SEC("license") = "GPL";

/* Offsets in the ABI, in bytes. Set before loading. */
const volatile __u32 at_post_send, at_poll, at_number, at_device_name;
const volatile __u32 at_peer_number, at_address, at_timeout, at_retry_count;
const volatile __u32 at_next, at_parts, at_part_count, at_flags, flag_signaled;

__u64 dropped; /* events or counters that did not fit */
__u64 hits;    /* calls that trapped at post_send or poll, of all processes */
__u64 poll_hits;
/* Between two polls of one thread, the shortest seen: what a trap costs, and hardly more. */
__u64 shortest_interval_ns;
__u32 own_namespace_level; /* of slowrank; 0 = the initial one */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RANK_PROCESSES_MAX);
	__type(key, __u32);
	__type(value, struct rank_process_state);
} processes SEC(".maps"); /* reused */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} verbs_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, VERBS_SHARED_QUEUE_PAIRS_MAX);
	__type(key, struct verbs_count_key);
	__type(value, struct verbs_count);
} counts SEC(".maps");

/* When a signaled request was posted; 0: two with the same id are on their way. */
struct request_key {
	struct verbs_count_key queue_pair;
	__u64 id;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct request_key);
	__type(value, __u64);
} requests SEC(".maps");

struct open_poll {
	__u64 context, entries, last_ns;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct open_poll);
} polls SEC(".maps");

/* struct ibv_send_wr, ibv_sge, ibv_wc: the parts that are read at once. */
struct part {
	__u64 address;
	__u32 length, key;
};
struct completion {
	__u64 id;
	__u32 status, opcode, vendor_error, length, immediate, number, source, flags;
	__u64 rest;
};

static __always_inline bool is_followed(void)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&processes, &pid) != NULL;
}

static __always_inline __u64 read_pointer(__u64 address)
{
	__u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)address);
	return value;
}

static __always_inline __u32 read_number32(__u64 address)
{
	__u32 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)address);
	return value;
}

static __always_inline struct verbs_event *start_event(__u32 kind, __u64 context)
{
	struct verbs_event *event = bpf_ringbuf_reserve(&verbs_events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&dropped, 1);
		return NULL;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->kind = kind;
	event->pid = visible_pid(bpf_get_current_task_btf());
	event->context = context;
	return event;
}

SEC("uretprobe")
int on_verbs_made(struct pt_regs *ctx)
{
	__u64 object = PT_REGS_RC(ctx), context = object, device;
	struct verbs_event *event;

	namespace_level = own_namespace_level;
	if (!object || !is_followed())
		return 0;
	if (bpf_get_attach_cookie(ctx) == VERBS_COOKIE_OBJECT)
		context = read_pointer(object);
	event = start_event(VERBS_EVENT_CONTEXT, context);
	if (!event)
		return 0;
	event->post_send = read_pointer(context + at_post_send);
	event->poll = read_pointer(context + at_poll);
	device = read_pointer(context);
	bpf_probe_read_user_str(
		event->device, sizeof(event->device), (void *)(device + at_device_name));
	bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("uprobe")
int on_verbs_modify(struct pt_regs *ctx)
{
	__u64 qp = PT_REGS_PARM1(ctx), attributes = PT_REGS_PARM2(ctx);
	__u32 mask = (__u32)PT_REGS_PARM3(ctx);
	struct verbs_event *event;
	__u8 address[32] = {};

	namespace_level = own_namespace_level;
	if (!(mask & ((1 << 7) | (1 << 20) | (1 << 9) | (1 << 10))) || !is_followed())
		return 0;
	event = start_event(VERBS_EVENT_PEER, read_pointer(qp));
	if (!event)
		return 0;
	event->number = read_number32(qp + at_number);
	if (mask & (1 << 20))
		event->peer_number = read_number32(attributes + at_peer_number);
	if (mask & (1 << 9))
		bpf_probe_read_user(&event->timeout, 1, (void *)(attributes + at_timeout));
	if (mask & (1 << 10))
		bpf_probe_read_user(&event->retry_count, 1, (void *)(attributes + at_retry_count));
	if (mask & (1 << 7)) {
		bpf_probe_read_user(address, sizeof(address), (void *)(attributes + at_address));
		__builtin_memcpy(event->peer_gid, address, 16);
		event->gid_index = address[20];
		event->peer_lid = *(__u16 *)(address + 24);
		event->is_global = address[29];
		event->port = address[30];
		event->has_address = 1;
	}
	bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("uprobe")
int on_verbs_destroy(struct pt_regs *ctx)
{
	__u64 qp = PT_REGS_PARM1(ctx);
	struct verbs_event *event;

	namespace_level = own_namespace_level;
	if (!is_followed())
		return 0;
	event = start_event(VERBS_EVENT_DESTROYED, read_pointer(qp));
	if (!event)
		return 0;
	event->number = read_number32(qp + at_number);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

static __always_inline struct verbs_count *count_of(const struct verbs_count_key *key)
{
	struct verbs_count *count = bpf_map_lookup_elem(&counts, key);
	static const struct verbs_count none;

	if (count)
		return count;
	if (bpf_map_update_elem(&counts, key, &none, BPF_NOEXIST))
		__sync_fetch_and_add(&dropped, 1);
	count = bpf_map_lookup_elem(&counts, key);
	if (count)
		count->visible_pid = visible_pid(bpf_get_current_task_btf());
	return count;
}

static __always_inline __u64 request_bytes(__u64 request, struct verbs_count *count)
{
	__u32 part_count = read_number32(request + at_part_count);
	__u64 parts = read_pointer(request + at_parts), bytes = 0;

	if (part_count > VERBS_SHARED_PARTS_MAX)
		__sync_fetch_and_add(&count->unseen, 1);
	for (__u32 i = 0; i < VERBS_SHARED_PARTS_MAX; i++) {
		if (i >= part_count)
			break;
		bytes += read_number32(
			parts + i * sizeof(struct part) + __builtin_offsetof(struct part, length));
	}
	return bytes;
}

static __always_inline void note_signaled(
	const struct verbs_count_key *queue_pair, __u64 request, __u64 now)
{
	struct request_key key = {.queue_pair = *queue_pair};
	__u64 *known;

	key.id = read_pointer(request);
	known = bpf_map_lookup_elem(&requests, &key);
	if (known)
		*known = 0;
	else
		bpf_map_update_elem(&requests, &key, &now, BPF_ANY);
}

/*
 * Functions that are not static are verified once, by themselves; inlined into their loops they
 * would be looked at too often for the verifier's patience. Returns the bytes of a request.
 */
__noinline __u64 count_request(__u64 request, __u64 context, __u32 number, __u64 now)
{
	struct verbs_count_key key = {.context = context, .number = number};
	struct verbs_count *count;

	key.pid = bpf_get_current_pid_tgid() >> 32;
	count = bpf_map_lookup_elem(&counts, &key);
	if (!count)
		return 0;
	if (read_number32(request + at_flags) & flag_signaled)
		note_signaled(&key, request, now);
	return request_bytes(request, count);
}

SEC("uprobe")
int on_verbs_post(struct pt_regs *ctx)
{
	__u64 qp = PT_REGS_PARM1(ctx), request = PT_REGS_PARM2(ctx), bytes = 0, number = 0;
	struct verbs_count_key key = {};
	struct verbs_count *count;
	__u64 now;

	__sync_fetch_and_add(&hits, 1);
	namespace_level = own_namespace_level;
	if (!is_followed())
		return 0;
	key.context = read_pointer(qp);
	key.pid = bpf_get_current_pid_tgid() >> 32;
	key.number = read_number32(qp + at_number);
	count = count_of(&key);
	if (!count)
		return 0;
	now = bpf_ktime_get_ns();
	for (__u32 i = 0; i < VERBS_SHARED_REQUESTS_MAX; i++) {
		if (!request)
			break;
		number++;
		bytes += count_request(request, key.context, key.number, now);
		request = read_pointer(request + at_next);
	}
	if (request)
		__sync_fetch_and_add(&count->unseen, 1);
	__sync_fetch_and_add(&count->posted_requests, number);
	__sync_fetch_and_add(&count->posted_bytes, bytes);
	return 0;
}

SEC("uprobe")
int on_verbs_poll(struct pt_regs *ctx)
{
	struct open_poll *open;
	__u64 now, interval;

	__sync_fetch_and_add(&hits, 1);
	__sync_fetch_and_add(&poll_hits, 1);
	if (!is_followed())
		return 0;
	open = bpf_task_storage_get(
		&polls, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!open)
		return 0;
	now = bpf_ktime_get_ns();
	interval = now - open->last_ns;
	if (open->last_ns && (!shortest_interval_ns || interval < shortest_interval_ns))
		shortest_interval_ns = interval;
	open->last_ns = now;
	open->context = read_pointer(PT_REGS_PARM1(ctx));
	open->entries = PT_REGS_PARM3(ctx);
	return 0;
}

/* Five steps: a loop over bits has too many paths for the verifier. */
static __always_inline __u32 log2_of(__u64 value)
{
	__u32 result = 0;

	if (value >> 32) {
		value >>= 32;
		result += 32;
	}
	if (value >> 16) {
		value >>= 16;
		result += 16;
	}
	if (value >> 8) {
		value >>= 8;
		result += 8;
	}
	if (value >> 4) {
		value >>= 4;
		result += 4;
	}
	if (value >> 2) {
		value >>= 2;
		result += 2;
	}
	return result + (value >> 1 != 0);
}

static __always_inline void count_latency(
	struct verbs_count *count, const struct verbs_count_key *key, __u64 id, __u64 now)
{
	struct request_key request = {.queue_pair = *key, .id = id};
	__u64 *posted = bpf_map_lookup_elem(&requests, &request), ns;
	__u32 bucket;

	if (!posted || !*posted || *posted > now) {
		__sync_fetch_and_add(&count->latency_unmeasured, 1);
		if (posted)
			bpf_map_delete_elem(&requests, &request);
		return;
	}
	ns = now - *posted;
	bpf_map_delete_elem(&requests, &request);
	bucket = log2_of(ns);
	if (bucket >= VERBS_SHARED_BUCKET_NR)
		bucket = VERBS_SHARED_BUCKET_NR - 1;
	__sync_fetch_and_add(&count->latency[bucket], 1);
	__sync_fetch_and_add(&count->latency_count, 1);
	__sync_fetch_and_add(&count->latency_sum_ns, ns);
	if (ns > count->latency_max_ns)
		count->latency_max_ns = ns;
}

__noinline int count_completion(__u64 context, __u64 entry, __u64 now)
{
	struct completion completion = {};
	struct verbs_count_key key = {};
	struct verbs_count *count;
	__u32 status;

	if (bpf_probe_read_user(&completion, sizeof(completion), (void *)entry))
		return 0;
	key.context = context;
	key.pid = bpf_get_current_pid_tgid() >> 32;
	key.number = completion.number;
	count = count_of(&key);
	if (!count)
		return 0;
	status = completion.status;
	if (status >= VERBS_SHARED_STATUS_NR)
		status = VERBS_SHARED_STATUS_NR - 1;
	__sync_fetch_and_add(&count->statuses[status], 1);
	if (status)
		return 0;
	if (completion.opcode & (1 << 7)) {
		__sync_fetch_and_add(&count->received_requests, 1);
		__sync_fetch_and_add(&count->received_bytes, completion.length);
		return 0;
	}
	__sync_fetch_and_add(&count->completed_sends, 1);
	count_latency(count, &key, completion.id, now);
	return 0;
}

SEC("uretprobe")
int on_verbs_polled(struct pt_regs *ctx)
{
	int number = (int)PT_REGS_RC(ctx);
	struct open_poll *open;
	__u64 now;

	if (number <= 0 || !is_followed())
		return 0;
	namespace_level = own_namespace_level;
	open = bpf_task_storage_get(&polls, bpf_get_current_task_btf(), 0, 0);
	if (!open || !open->entries)
		return 0;
	now = bpf_ktime_get_ns();
	for (int i = 0; i < VERBS_SHARED_COMPLETIONS_MAX; i++) {
		if (i >= number)
			break;
		count_completion(open->context, open->entries + i * sizeof(struct completion), now);
	}
	open->entries = 0;
	return 0;
}
