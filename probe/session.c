/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/session.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "probe/auth/credential.h"
#include "probe/auth/key_file.h"
#include "probe/auth/tls_files.h"
#include "probe/device_environment.h"
#include "probe/device_source.h"
#include "probe/host_id.h"
#include "probe/job.h"
#include "probe/library_watch.h"
#include "probe/looks/host_looks.h"
#include "probe/open_calls.h"
#include "probe/process_scan.h"
#include "probe/process_tree.h"
#include "probe/queue_pairs.h"
#include "probe/rights.h"
#include "probe/ring/host_clock.h"
#include "probe/runtime_directory.h"
#include "probe/samplers.h"
#include "probe/socket_looks.h"
#include "probe/sources/bpf_source.h"
#include "probe/uplink.h"
#include "probe/uplink_connection.h"
#include "probe/uplink_watch.h"

enum {
	POLL_MS = 50, /* how often the kernel's ring is emptied */
	LOOKS_END_MS =
		300, /* looks that the job's end cuts short may take so long to tell what they saw */
	BATCH_MS = 250,	  /* how often finished steps are sent, if none is longer than usual */
	SCAN_MS = 500,	  /* a look through /proc, where the kernel tells of no processes */
	SEARCH_MS = 500,  /* for an answer at one of several places, before the next one is tried */
	SAMPLE_MS = 1000, /* counters of cgroup, PSI; sockets: socket_looks.h */
	FLUSH_TIMEOUT_MS = 5000,
	FIRST_ANSWER_TIMEOUT_MS = 500, /* of a coordinator that never answered yet */
	REPORT_TIMEOUT_MS = 20000,
	TLS_TIMEOUT_MS = 600,
	TLS_QUESTIONS_MAX = 5, /* of a coordinator that may come late */
	/* Tables of this size and more get pages of their own, of which those count that are written to; malloc would
	 * raise its limit with the first that is freed, and clear them whole. */
	TABLE_BYTES = 128 * 1024,
};

struct session {
	const struct probe_options *options;
	struct process_scan *scan; /* only where bpf is missing */
	struct bpf_source *bpf;	   /* NULL: no rights or no kernel support; why_no_bpf says it */
	char why_no_bpf[WIRE_DETAIL_LENGTH_MAX + 1];
	struct device_source *device; /* NULL: not asked for */
	char why_no_device[WIRE_DETAIL_LENGTH_MAX + 1];
	bool device_explained;	  /* it was looked for once */
	struct attach_deep *deep; /* NULL: not asked for */
	struct host_looks *host_looks;
	struct job *job;
	struct samplers *samplers;
	struct socket_looks socket_looks;
	struct queue_pairs *queue_pairs; /* NULL: not asked for */
	struct open_calls open_calls;
	struct uplink *uplink;
	struct uplink_watch uplink_watch;
	char url[COORDINATOR_URL_LENGTH];	/* the coordinator's */
	unsigned url_count, url_attempt;	/* until it is found: where it may be */
	char where[WIRE_DETAIL_LENGTH_MAX + 1]; /* the same, for people */
	struct nng_tls_config *tls;		/* of tls+tcp://, else NULL */
	unsigned tls_questions;
	struct uplink_tls_question *tls_question; /* not answered yet, or NULL */
	struct credential *credential;		  /* of MUNGE, or NULL */
	struct key_file key; /* that both sides prove; its path is "" where none does */
	struct job_place place;
	struct probe_options alone_options; /* of a host that is watched alone */
	char *alone_files[3];		    /* their own record, report, alerts */
	char alone_why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct coordinator_child coordinator;
	struct end_hold *hold; /* NULL: nobody stays for the coordinator */
	uint64_t probe_id, host_id, next_number;
	uint64_t events, dropped_seen;
	bool paused;
	bool refusal_told;
	struct library_watch libraries;
	size_t source_count; /* as last sent */
	struct message_source sources[WIRE_SOURCES_MAX];
};

static struct host_ns host_now(void)
{
	return (struct host_ns){host_clock_now_ns()};
}

static int64_t unix_offset_ns(void)
{
	int64_t now_ns = host_clock_now_ns();
	struct timespec real;

	clock_gettime(CLOCK_REALTIME, &real);
	return (int64_t)real.tv_sec * 1000000000 + real.tv_nsec - now_ns;
}

static void open_bpf(struct session *session, bool attached)
{
	unsigned wanted = session->options->sources;
	struct bpf_source_options bpf_options = {
		.collectives = wanted & PROBE_SOURCE_COLLECTIVES,
		.sched = wanted & PROBE_SOURCE_SCHED,
		.faults = wanted & PROBE_SOURCE_FAULTS,
		.launches = wanted & PROBE_SOURCE_LAUNCHES,
		.messages = attached,
	};

	if (!(wanted & (PROBE_SOURCE_COLLECTIVES | PROBE_SOURCE_SCHED | PROBE_SOURCE_FAULTS))) {
		snprintf(session->why_no_bpf, sizeof(session->why_no_bpf), "not asked for");
		return;
	}
	if (bpf_source_create(&bpf_options, &session->bpf, session->why_no_bpf) < 0) {
		session->bpf = NULL;
		fprintf(stderr,
			"slowrank: the job runs, its MPI calls and host events unseen: %s\n",
			session->why_no_bpf);
	}
}

static bool needs_key(const struct session *session)
{
	char url[COORDINATOR_URL_LENGTH];

	if (session->options->insecure)
		return false;
	if (session->options->coordinator)
		return key_file_needed(session->options->coordinator);
	coordinator_process_url(&session->place, 0, url);
	return session->place.several_hosts && session->place.leader_address[0] &&
	       key_file_needed(url);
}

/* On failure *why is one line. */
static int load_key(struct session *session, char why[KEY_FILE_WHY_LENGTH])
{
	const struct probe_options *options = session->options;

	if (!needs_key(session))
		return 0;
	return key_file_or_munge(
		options->key_file, options->munge_socket, &session->key, &session->credential, why);
}

/* What tls+tcp:// needs; it lives as long as the process. Returns 0, or an error after telling it. */
static int load_tls(struct session *session)
{
	char why[KEY_FILE_WHY_LENGTH];
	int error = tls_files_config(&session->options->tls, false, &session->tls, why);

	if (error < 0)
		fprintf(stderr, "slowrank: %s; this node is not watched\n", why);
	return error;
}

/* Finds or starts the coordinator. Returns 0, or an error after telling it. */
static int find_coordinator(struct session *session)
{
	char why[256];
	/* Without a look into ranks there is one line to say, and it was said. */
	int error = coordinator_process_ensure(session->options, &session->place, !session->bpf,
		session->url, &session->url_count, &session->coordinator, why);

	if (error < 0)
		fprintf(stderr, "slowrank: %s; the job is not watched\n", why);
	else
		coordinator_process_where(
			&session->place, session->url_count, session->url, session->where);
	return error;
}

/* A file of the host's own beside the one that all hosts of the job are told. */
static int take_own_file(const char **path, const char *host, char **own)
{
	if (!*path || strncmp(*path, "/dev/", 5) == 0)
		return 0;
	if (asprintf(own, "%s.%s", *path, host) < 0) {
		*own = NULL;
		return -ENOMEM;
	}
	*path = *own;
	return 0;
}

/*
 * Without the job's key this host is watched alone: with a coordinator of its own, which is reached from
 * here only. Returns 0, or an error after telling it.
 */
static int stay_alone(struct session *session, const char *why)
{
	struct probe_options *options = &session->alone_options;
	const char *host = session->place.alone;
	char record[128];
	int error;

	job_place_stay_alone(&session->place);
	job_place_record(&session->place, record);
	*options = *session->options;
	options->coordinator = NULL;
	error = take_own_file(&options->record, host, &session->alone_files[0]);
	if (!error)
		error = take_own_file(&options->report, host, &session->alone_files[1]);
	if (!error)
		error = take_own_file(&options->alerts, host, &session->alone_files[2]);
	if (error) {
		fprintf(stderr, "slowrank: no memory; this host is not watched\n");
		return error;
	}
	session->options = options;
	snprintf(session->alone_why, sizeof(session->alone_why), "%s is watched alone: %.200s",
		host, why);
	error = find_coordinator(session);
	if (!error && session->coordinator.is_ours) /* the first probe of the host */
		fprintf(stderr, "slowrank: %s; %s is watched alone, in %s\n", why, host,
			options->record ? options->record : record);
	return error;
}

static int open_uplink(struct session *session)
{
	char folder[RUNTIME_DIRECTORY_LENGTH], why[KEY_FILE_WHY_LENGTH];
	struct uplink_options uplink_options = {.url = session->url,
		.spool_name = session->place.job_id,
		.spool_epoch = session->host_id,
		.spool_bytes_max = session->options->spool_max,
		.memory_bytes_max = session->options->spool_max / 8};
	int error, folder_fd = runtime_directory_open_on_disk(folder);

	if (folder_fd >= 0) {
		close(folder_fd);
		uplink_options.spool_folder = folder;
	}

	if (load_key(session, why) < 0) {
		error = stay_alone(session, why);
	} else {
		error = find_coordinator(session);
		uplink_options.key = session->key.path[0] ? session->key.key : NULL;
		uplink_options.credential = session->credential;
	}
	/* nng has threads from here on; this program may be one that root executes only by a right given up here. */
	rights_keep();
	if (error == 0 && tls_files_url(session->url))
		error = load_tls(session);
	if (error < 0)
		return error;
	uplink_options.tls = session->tls;
	uplink_options.may_move = session->url_count > 1;
	/* A coordinator that was started just now is a new run's: what is left is of the one before. */
	uplink_options.spool_takes_over = !session->coordinator.is_ours;
	error = uplink_create(&uplink_options, &session->uplink);
	if (error < 0)
		fprintf(stderr,
			"slowrank: cannot use the coordinator URL %s (%s), so the job is not "
			"watched; use tcp://HOST:PORT or ipc:///PATH\n",
			session->url, strerror(-error));
	else if (uplink_resumed(session->uplink, &session->probe_id, &session->next_number))
		fprintf(stderr, "slowrank: what a probe of this job saw before it was killed is "
				"sent first\n");
	return error;
}

static void on_step(void *context, pid_t pid, const struct step_entry *step)
{
	struct session *session = context;

	if (session->device)
		device_source_step(session->device, pid, step);
	host_looks_step(session->host_looks, pid, step);
}

int session_create(const struct probe_options *options, const struct job_place *place,
	const struct session_job *session_job, struct session **result)
{
	char host[STEP_NAME_LENGTH_MAX + 1] = "";
	struct session *session = calloc(1, sizeof(*session));
	int error;

	if (!session)
		return -ENOMEM;
	mallopt(M_MMAP_THRESHOLD, TABLE_BYTES);
	signal(SIGPIPE, SIG_IGN); /* stderr's reader may go away; */
	signal(SIGXFSZ, SIG_IGN); /* a spool at its limit (ulimit -f) is a full one */
	session->options = options;
	gethostname(host, sizeof(host) - 1);
	session->place = *place;
	if (getrandom(&session->probe_id, sizeof(session->probe_id), 0) < 0)
		session->probe_id = (uint64_t)host_now().value ^ (uint64_t)getpid();
	session->host_id = host_id();
	snprintf(session->why_no_device, sizeof(session->why_no_device), "%s",
		session_job->why_no_device);
	session->deep = session_job->deep;
	session->hold = session_job->hold;
	open_bpf(session, session_job->attached);
	malloc_trim(0); /* the kernel's types, which only the load needed */
	library_watch_init(&session->libraries, session->bpf);
	if (!session->bpf)
		session->scan = process_scan_create();
	error = job_create(&(struct job_options){.host = host, .attached = session_job->attached},
		&session->job);
	if (error == 0)
		error = samplers_create(options->sources, &session->samplers);
	socket_looks_init(&session->socket_looks);
	if (error == 0)
		error = open_calls_init(&session->open_calls);
	if (error == 0 && options->sources & PROBE_SOURCE_RDMA)
		error = queue_pairs_create(session->bpf, &session->queue_pairs);
	if (error == 0 && options->sources & PROBE_SOURCE_DEVICE)
		error = device_source_create(session->job,
			&(struct device_looks_options){.deep = options->deep,
				.attached = session_job->attached,
				.can_count = session->bpf != NULL &&
					     options->sources & PROBE_SOURCE_LAUNCHES},
			&session->device);
	if (error == 0 && session->device && !session->bpf)
		device_source_watch_launchers(session->device);
	session->host_looks = host_looks_create(options->sources & PROBE_SOURCE_STACKS);
	if (error == 0 && !session->host_looks)
		error = -ENOMEM;
	if (error == 0)
		job_watch_steps(session->job, on_step, session);
	for (size_t i = 0; i < session_job->process_count && error == 0; i++)
		samplers_open(session->samplers, session_job->processes[i].pid);
	if (error == 0)
		error = open_uplink(session);
	if (error < 0) {
		session_destroy(session);
		return error;
	}
	*result = session;
	return 0;
}

/* Waits for the answer, if one was asked for. */
static void tell_tls(struct session *session)
{
	char why[UPLINK_TLS_WHY_LENGTH];

	if (!session->tls_question)
		return;
	uplink_tls_take(session->tls_question, why);
	session->tls_question = NULL;
	if (!why[0])
		return;
	session->tls_questions = TLS_QUESTIONS_MAX;
	fprintf(stderr, "slowrank: the coordinator at %s is not reached: %s\n", session->url, why);
}

void session_destroy(struct session *session)
{
	if (!session)
		return;
	tell_tls(session); /* which has the session's certificates */
	uplink_destroy(session->uplink);
	samplers_destroy(session->samplers);
	open_calls_fini(&session->open_calls);
	queue_pairs_destroy(session->queue_pairs);
	device_source_destroy(session->device);
	host_looks_destroy(session->host_looks);
	process_scan_destroy(session->scan);
	job_destroy(session->job);
	bpf_source_destroy(session->bpf);
	credential_close(session->credential);
	for (size_t i = 0; i < sizeof(session->alone_files) / sizeof(session->alone_files[0]); i++)
		free(session->alone_files[i]);
	free(session);
}

void session_prepare_command(struct session *session, char *const argv[])
{
	library_watch_command(&session->libraries, argv);
}

static void on_new_program(void *context, pid_t pid)
{
	struct session *session = context;

	if (session->device)
		device_source_add_process(session->device, pid);
	library_watch_process(&session->libraries, pid);
}

void session_track(struct session *session, pid_t pid)
{
	if (session->bpf && bpf_source_track(session->bpf, (uint32_t)pid) < 0 &&
		!process_has_ended(pid))
		fprintf(stderr, "slowrank: cannot follow process %d\n", (int)pid);
	if (session->scan)
		process_scan_add_root(session->scan, pid);
	job_add_process(session->job, pid);
	if (process_has_ended(pid)) /* before it was followed: nobody else will tell */
		job_process_ended(session->job, pid);
	else
		on_new_program(session, pid);
}

void session_started_late(struct session *session, pid_t pid)
{
	struct attach_process *tree;
	size_t count = process_tree_find(&pid, 1, &tree);

	job_started_before(session->job);
	for (size_t i = 1; i < count; i++) /* [0] is tracked */
		session_track(session, tree[i].pid);
	free(tree);
}

static void on_found(void *context, pid_t pid)
{
	struct session *session = context;

	job_add_process(session->job, pid);
	on_new_program(session, pid);
}

static void on_ended(void *context, pid_t pid)
{
	job_process_ended(((struct session *)context)->job, pid);
}

/* Without the kernel side, new processes are found by looking. */
static void look_for_processes(struct session *session)
{
	static const struct process_scan_callbacks callbacks = {on_found, on_ended};

	if (session->scan)
		process_scan_look(session->scan, host_now(), &callbacks, session);
}

static void on_event(void *context, const struct event_header *event)
{
	struct session *session = context;

	session->events++;
	if (event->kind == EVENT_COLLECTIVE)
		attach_deep_called(session->deep, (pid_t)event->pid);
	else if (event->kind == EVENT_PROCESS &&
		 ((const struct event_process *)(const void *)event)->action == EVENT_PROCESS_EXIT)
		attach_deep_ended(session->deep, (pid_t)event->pid);
	job_event(session->job, event, on_new_program, session);
}

static void empty_ring(struct session *session)
{
	uint64_t dropped;

	if (!session->bpf)
		return;
	if (bpf_source_poll(session->bpf, on_event, session) < 0)
		return;
	dropped = bpf_source_dropped(session->bpf);
	if (dropped != session->dropped_seen) {
		job_lost(session->job, dropped - session->dropped_seen);
		session->dropped_seen = dropped;
	}
}

/*
 * Rings before the kernel's records, so that a communicator is known before its first call; and after
 * them, so that what the host did before each finished call is there when the two are joined.
 */
static void empty_rings(struct session *session)
{
	if (session->device)
		session->events += device_source_poll(session->device, host_now());
	empty_ring(session);
	if (!session->device)
		return;
	session->events += device_source_poll(session->device, host_now());
	job_match_times(session->job, host_now());
	job_join_device_calls(session->job);
	device_looks_tick(device_source_looks(session->device), host_now());
}

static void follow_pause_file(struct session *session)
{
	bool paused;

	if (!session->options->pause_file)
		return;
	paused = access(session->options->pause_file, F_OK) == 0;
	if (paused != session->paused) {
		if (session->bpf)
			(void)bpf_source_pause(session->bpf, paused);
		if (session->device)
			device_source_pause(session->device, paused);
		session->paused = paused;
	}
}

static void fill_counters(const struct session *session, struct message_counters *counters)
{
	struct uplink_state state;
	struct rusage usage;

	uplink_get_state(session->uplink, &state);
	getrusage(RUSAGE_SELF, &usage);
	*counters = (struct message_counters){
		.events = session->events,
		.dropped = session->dropped_seen + job_dropped(session->job) +
			   session->open_calls.dropped +
			   (session->device ? device_source_dropped(session->device) : 0),
		.steps_incomplete = job_steps_incomplete(session->job),
		.batches_spooled = state.batches_spooled,
		.batches_lost = state.batches_lost,
		.cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
			  (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u,
		.resident_bytes = (uint64_t)usage.ru_maxrss * 1024u,
	};
}

static void put_source(
	struct message_source *source, const char *name, enum source_state state, const char *why)
{
	snprintf(source->name, sizeof(source->name), "%s", name);
	source->state = (uint8_t)state;
	snprintf(source->why, sizeof(source->why), "%s", why);
}

/* Calls that are seen but cannot be joined are seen in part. */
static void add_not_joined(const struct session *session, struct message_source *collectives)
{
	char text[sizeof(collectives->why)];

	job_say_not_joined(session->job, text, sizeof(text));
	if (*text && collectives->state == SOURCE_ON)
		put_source(collectives, "bpf.collectives", SOURCE_DEGRADED, text);
}

/* Once it is known that calls come without device times: of the first rank that still lives. */
static void explain_no_device(struct session *session)
{
	struct job_rank ranks[16];
	size_t count = job_ranks(session->job, ranks, sizeof(ranks) / sizeof(ranks[0]));

	for (size_t i = 0; i < count && !session->device_explained; i++) {
		if (ranks[i].exited)
			continue;
		session->device_explained = true;
		(void)device_environment_explain(ranks[i].pid, session->why_no_device);
	}
}

/* What every source sees now; compared with what was sent last. */
static size_t gather_sources(struct session *session, struct message_source *sources)
{
	static const char *const bpf_names[] = {
		"bpf.collectives", "bpf.sched", "bpf.throttle", "bpf.faults"};
	size_t count = 0;

	if (session->bpf) {
		count = bpf_source_states(session->bpf, sources, WIRE_SOURCES_MAX);
		add_not_joined(session, &sources[0]);
	} else {
		for (; count < sizeof(bpf_names) / sizeof(bpf_names[0]); count++)
			put_source(&sources[count], bpf_names[count], SOURCE_MISSING,
				session->why_no_bpf);
	}
	count += samplers_states(session->samplers, sources + count, WIRE_SOURCES_MAX - count);
	if (session->queue_pairs)
		count += queue_pairs_states(
			session->queue_pairs, sources + count, WIRE_SOURCES_MAX - count);
	if (session->device && !session->deep && !session->why_no_device[0] &&
		!session->device_explained && job_enqueue_only(session->job))
		explain_no_device(session);
	if (count < WIRE_SOURCES_MAX && device_source_state(session->device, session->why_no_device,
						job_enqueue_only(session->job), &sources[count]))
		count++;
	if (session->device && count < WIRE_SOURCES_MAX &&
		device_looks_state(device_source_looks(session->device), &sources[count]))
		count++;
	if (session->device && count < WIRE_SOURCES_MAX &&
		device_source_launchers_state(session->device, &sources[count]))
		count++;
	if (count < WIRE_SOURCES_MAX)
		host_looks_state(session->host_looks, &sources[count++]);
	if (session->place.alone[0] && count < WIRE_SOURCES_MAX)
		put_source(
			&sources[count++], "coordinator.key", SOURCE_DEGRADED, session->alone_why);
	else if (key_file_needed(session->url) && count < WIRE_SOURCES_MAX)
		put_source(&sources[count++], "coordinator.key",
			session->options->insecure ? SOURCE_OFF : SOURCE_ON,
			session->options->insecure
				? "--insecure: whoever reaches the coordinator is believed"
				: "");
	if (session->deep && count < WIRE_SOURCES_MAX)
		attach_deep_state(session->deep, &sources[count++]);
	return count;
}

static void send_batch(struct session *session, bool final)
{
	static struct message_source now_sources[WIRE_SOURCES_MAX];
	struct message_batch batch = {
		.probe_id = session->probe_id,
		.host_id = session->host_id,
		.unix_offset_ns = unix_offset_ns(),
		.final = final,
	};
	memset(now_sources, 0, sizeof(now_sources)); /* compared as bytes below */
	size_t source_count = gather_sources(session, now_sources);
	bool content = job_fill_batch(session->job, &batch);

	batch.sample_count = samplers_take(session->samplers, &batch.samples);
	if (session->queue_pairs)
		batch.queue_pair_count = queue_pairs_take(session->queue_pairs, &batch.queue_pairs);
	if (session->device)
		batch.kernel_profile_count = device_looks_take(
			device_source_looks(session->device), &batch.kernel_profiles);
	batch.stack_profile_count = host_looks_take(session->host_looks, &batch.stack_profiles);
	if (!final)
		open_calls_look(&session->open_calls, session->bpf, session->device, session->job,
			host_now());
	batch.open_call_count = final ? 0 : session->open_calls.count;
	batch.open_calls = session->open_calls.calls;
	if (source_count != session->source_count ||
		memcmp(now_sources, session->sources, source_count * sizeof(now_sources[0]))) {
		memcpy(session->sources, now_sources, source_count * sizeof(now_sources[0]));
		session->source_count = source_count;
		batch.sources = session->sources;
		batch.source_count = source_count;
	}
	if (content || batch.sample_count || batch.queue_pair_count || batch.source_count ||
		batch.kernel_profile_count || batch.stack_profile_count || batch.open_call_count ||
		final) {
		snprintf(batch.job_id, sizeof(batch.job_id), "%s", session->place.job_id);
		fill_counters(session, &batch.counters);
		batch.number = session->next_number++;
		uplink_send(session->uplink, &batch, host_now()); /* counts what it loses */
	}
	job_batch_done(session->job);
}

static void follow_directive(struct session *session, const struct message_directive *directive)
{
	if (directive->kind == DIRECTIVE_INTRODUCE) {
		job_introduce(session->job);
		session->source_count = 0; /* nothing counts as sent */
	} else if (directive->kind == DIRECTIVE_STACKS) {
		host_looks_ask(session->host_looks, directive,
			job_pid_of_rank(session->job, directive->rank), host_now());
	} else if (session->device) {
		device_looks_ask(device_source_looks(session->device), directive, host_now());
	}
}

static void take_replies(struct session *session)
{
	struct message_reply reply;

	while (uplink_take_reply(session->uplink, &reply)) {
		if (!reply.accepted && !session->refusal_told) {
			fprintf(stderr, "slowrank: the coordinator refuses our batches: %s\n",
				reply.why);
			session->refusal_told = true;
		}
		for (size_t i = 0; i < reply.directive_count; i++)
			follow_directive(session, &reply.directives[i]);
	}
}

static void on_launches(
	void *context, pid_t pid, uint64_t launches, struct host_ns from, struct host_ns until)
{
	struct session *session = context;

	if (session->device)
		device_source_launches(
			session->device, pid, &(struct launch_count){launches, from, until});
}

static void count_launches(struct session *session)
{
	const struct bpf_launch_wish wish = {.steps = job_wants_launches(session->job),
		.suspected = job_is_suspected(session->job),
		.rates = session->device && device_source_wants_launches(session->device),
		.step_ns = job_step_ns(session->job),
		.on_count = on_launches,
		.context = session};

	if (session->bpf)
		bpf_source_launches_tick(session->bpf, host_now(), &wish);
}

/* Until a coordinator has taken a batch: the next place, where there is none, or another job's. */
static void search_coordinator(struct session *session, const struct uplink_state *state)
{
	if (session->url_count > 1 && state->batches_acknowledged) {
		session->url_count = 1;
		coordinator_process_where(&session->place, 1, session->url, session->where);
	}
	if (session->url_count == 1 || !state->batches_pending ||
		(state->connected && !state->other_job))
		return;
	coordinator_process_url(&session->place, ++session->url_attempt, session->url);
	if (uplink_move(session->uplink, session->url) < 0)
		session->url_count = 1;
}

/*
 * Whoever answers does not have our key; where ports were searched, nobody did who has it, twice around: a
 * coordinator may come late.
 */
static bool has_other_key(const struct session *session, const struct uplink_state *state)
{
	return !state->proven && state->replies_unproven &&
	       (session->url_count == 1 || session->url_attempt >= 2 * session->url_count);
}

/* The batches that wait go to this host's own coordinator. */
static void leave_other_key(struct session *session)
{
	char why[KEY_FILE_WHY_LENGTH + COORDINATOR_URL_LENGTH + 128];

	if (session->key.path[0])
		snprintf(why, sizeof(why),
			"the coordinator at %s does not have the key in %s: copy that file from "
			"the coordinator's node",
			session->where, session->key.path);
	else
		snprintf(why, sizeof(why),
			"the coordinator at %s does not share this node's MUNGE, and there is no "
			"key here: copy ~/.config/slowrank/key from the coordinator's node",
			session->where);
	session->key.path[0] = '\0';
	session->url_count = 1;
	if (stay_alone(session, why) == 0 && uplink_move(session->uplink, session->url) < 0)
		fprintf(stderr, "slowrank: no memory; this host is not watched\n");
}

/* A connection that fails by its certificates looks like none. The loop does not wait for what a look finds. */
static void look_at_tls(struct session *session, const struct uplink_state *state)
{
	if (session->tls_question) {
		if (uplink_tls_answered(session->tls_question))
			tell_tls(session);
		return;
	}
	if (!tls_files_url(session->url) || state->connected || !state->batches_pending ||
		session->tls_questions == TLS_QUESTIONS_MAX)
		return;
	session->tls_questions++;
	if (uplink_tls_ask(session->url, session->tls, TLS_TIMEOUT_MS, &session->tls_question) < 0)
		session->tls_question = NULL; /* no memory, or no thread: asked again */
}

static bool coordinator_is_gone(struct session *session)
{
	return coordinator_process_ended(&session->coordinator, session->options, &session->place);
}

static void look_at_coordinator(struct session *session)
{
	struct uplink_state state;

	uplink_get_state(session->uplink, &state);
	if (has_other_key(session, &state)) {
		leave_other_key(session);
		return;
	}
	search_coordinator(session, &state);
	look_at_tls(session, &state);
	if (!coordinator_is_gone(session)) /* which says so itself */
		uplink_watch_tell(&session->uplink_watch, &state, host_now(), session->where);
}

static int64_t cpu_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void look_at_sockets(struct session *session, const struct job_news *news)
{
	int64_t start_ns;

	if (!socket_looks_due(&session->socket_looks, news, host_now()))
		return;
	start_ns = cpu_now_ns();
	samplers_sample(session->samplers, session->job, SOCKET_LOOK_SOURCES, host_now());
	socket_looks_done(&session->socket_looks, cpu_now_ns() - start_ns);
}

static void look_at_counters(struct session *session, bool slower, bool due)
{
	const struct samplers_turn turn = {
		.now = host_now(), .due = due, .slower = slower, .unseen = !session->bpf};
	unsigned sources = samplers_due(session->samplers, &turn);
	int64_t start_ns = cpu_now_ns();

	if (!sources)
		return;
	samplers_sample(session->samplers, session->job, sources, turn.now);
	samplers_done(session->samplers, cpu_now_ns() - start_ns);
}

static void look_at_host(struct session *session, bool sample_due)
{
	struct job_news news = job_take_news(session->job);
	bool slower = news.slower || (news.long_step_ended && job_is_urgent(session->job));

	look_at_sockets(session, &news);
	look_at_counters(session, slower, sample_due);
	if (sample_due && session->queue_pairs)
		queue_pairs_look(session->queue_pairs, session->job, host_now());
}

/* One turn of the loop, POLL_MS after the last. */
static void turn(struct session *session, int64_t tick)
{
	follow_pause_file(session);
	empty_rings(session);
	attach_deep_poll(session->deep);
	count_launches(session);
	host_looks_tick(session->host_looks, host_now());
	library_watch_look(&session->libraries, host_now());
	if (tick % (SCAN_MS / POLL_MS) == 0)
		look_for_processes(session);
	if (tick % ((session->url_count > 1 ? SEARCH_MS : SAMPLE_MS) / POLL_MS) == 0)
		look_at_coordinator(session);
	if (!session->paused)
		look_at_host(session, tick % (SAMPLE_MS / POLL_MS) == 0);
	if (tick % (BATCH_MS / POLL_MS) == 0 || job_is_urgent(session->job)) {
		job_tick(session->job, host_now());
		send_batch(session, false);
		take_replies(session);
	}
}

void session_run(struct session *session, pid_t leader, const volatile int *stop)
{
	int leader_fd = leader > 0 ? (int)syscall(SYS_pidfd_open, leader, 0) : -1;
	int64_t tick = 0, next_ms = host_now().value / 1000000;

	for (;;) {
		struct pollfd waiter = {.fd = leader_fd, .events = POLLIN};

		next_ms += POLL_MS;
		int64_t wait_ms = next_ms - host_now().value / 1000000;
		if (wait_ms < 1) { /* late: do not try to catch up */
			wait_ms = 1;
			next_ms = host_now().value / 1000000;
		}
		int ready = poll(&waiter, 1, (int)wait_ms);
		turn(session, tick++);
		if (*stop || ready > 0)
			break;
		if (leader_fd < 0 && job_process_count(session->job) == 0)
			break;
		if (leader_fd < 0 && leader > 0 && kill(leader, 0) < 0 && errno == ESRCH)
			break;
	}
	if (leader_fd >= 0)
		close(leader_fd);
}

/* A short job may end before its coordinator is found. */
static int flush(struct session *session, struct uplink_state *state)
{
	uplink_get_state(session->uplink, state);
	if (!state->batches_acknowledged && !state->proven) {
		if (uplink_flush(session->uplink, FIRST_ANSWER_TIMEOUT_MS / 4) == 0)
			return 0;
		look_at_coordinator(session);
	}
	for (unsigned i = session->url_count; i > 1 && !state->batches_acknowledged; i--) {
		if (uplink_flush(session->uplink, FIRST_ANSWER_TIMEOUT_MS / 4) == 0)
			return 0;
		uplink_get_state(session->uplink, state);
		search_coordinator(session, state);
	}
	return uplink_flush(session->uplink,
		state->batches_acknowledged ? FLUSH_TIMEOUT_MS : FIRST_ANSWER_TIMEOUT_MS);
}

/* What was seen until the job's end is all there is of what became slow shortly before. */
static void end_looks(struct session *session)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	int64_t end_ns = host_now().value + LOOKS_END_MS * INT64_C(1000000);

	host_looks_end(session->host_looks);
	host_looks_tick(session->host_looks, host_now());
	while (host_looks_are_busy(session->host_looks) && host_now().value < end_ns) {
		nanosleep(&pause, NULL);
		host_looks_tick(session->host_looks, host_now());
	}
}

void session_finish(struct session *session)
{
	bool alone = coordinator_is_gone(session);
	struct uplink_state state;

	empty_rings(session);
	samplers_sample(session->samplers, session->job, ~0u, host_now());
	if (session->queue_pairs)
		queue_pairs_look(session->queue_pairs, session->job, host_now());
	job_finish(session->job, host_now());
	end_looks(session);
	send_batch(session, true);
	if (!alone && flush(session, &state) < 0) {
		alone = true;
		look_at_coordinator(session);
		tell_tls(session);
		fprintf(stderr,
			"slowrank: the coordinator does not answer; %s of the record is missing\n",
			state.batches_acknowledged ? "the end" : "all");
	}
	take_replies(session);
	if (!alone && end_hold_ask(session->hold, session->coordinator.pid))
		coordinator_process_leave(&session->coordinator);
	else
		coordinator_process_wait(&session->coordinator, session->options, &session->place,
			REPORT_TIMEOUT_MS);
}
