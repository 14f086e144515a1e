/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "analysis/base/version.h"
#include "coordinator/alert_sink.h"
#include "coordinator/commands.h"
#include "coordinator/coordinator_options.h"
#include "coordinator/hooks/hooks.h"
#include "coordinator/listener.h"
#include "coordinator/pipeline.h"
#include "coordinator/record/overflow.h"
#include "coordinator/record/reader.h"
#include "coordinator/record/writer.h"
#include "coordinator/record_keeper.h"
#include "coordinator/report/file.h"
#include "coordinator/report/look.h"
#include "coordinator/report/text.h"
#include "coordinator/web.h"
#include "probe/auth/derived_key.h"
#include "probe/auth/key_file.h"
#include "probe/config/http_address.h"
#include "probe/config/size.h"

enum {
	LATE_PROBE_MS = 300,	   /* time for a probe that starts late, once all others are done */
	LAST_PEER_MS = 2000,	   /* time for probes to come back, once the parent is gone */
	POLL_MS = 200,		   /* how often peers are counted; to a parent, a sign of life */
	SILENCE_MS = 30000,	   /* a probe that is there sends more often than that */
	RECORD_PATIENCE_MS = 1000, /* for one whose job has ended to end its record */
	RECORD_RETRY_MS = 50,
	RECORD_TRY_MS = 10000, /* for a record that cannot be written, and not for want of room */
	MEMORY_TRY_MS =
		1000, /* for a batch that there is no memory for; its probe sends it again */
	TELL_AGAIN_MS = 600000,
	SYNC_MS = 800, /* and POLL_MS: what a power cut may take of the record */
	KEPT_BYTES = 64 * 1024 * 1024,
	RECORD_MAX_FREE_PARTS = 4, /* of the free space a quarter */
	EXIT_BAD_USAGE = 2,
};

/* What is whole of it is the newest hour of 1,000 busy ranks, or days of 8. */
static const uint64_t record_max_default = UINT64_C(10) << 30;

/* The batch that is being taken, as it came. */
struct frame {
	const void *bytes;
	size_t length;
	struct job_ns received;
	int tried_ms;
	bool unwritten; /* for it waits the record, and so do all */
	bool settled;	/* it is in the record, or given up */
};

/*
 * The listener's thread owns pipeline, record and sink from when gate opens until the listener
 * is destroyed; the main thread has them before and after. In between, only the atomics and
 * wake_fd are shared, and the main thread syncs the record.
 */
struct coordinator {
	struct coordinator_options options;
	pthread_mutex_t gate; /* held until the outputs are open */
	bool open;
	struct record_keeper keeper; /* with pipeline and record */
	struct overflow overflow;    /* before the record, while its disk is full */
	struct alert_sink *sink;
	struct web *web;     /* NULL: nobody reads */
	struct hooks *hooks; /* NULL: there are none */
	struct trail *trail; /* of its page */
	struct listener *listener;
	bool refused_told[GATE_REFUSAL_NR];
	struct frame frame;
	bool replaying; /* what the record says was said when it was live, but for its last frame */
	bool last_frame;    /* of the record: perhaps nobody was told what came of it */
	bool record_failed; /* the newest frame was given up */
	int told_error;	    /* the newest one told to the user, what is done, and when */
	const char *told_what;
	int64_t told_ns;
	bool unjudged_told;
	bool sync_told, thin_told;
	int64_t looked_ns; /* of the main thread */
	int signal_fd;	   /* an eventfd: told to end */
	int parent_fd;
	int wake_fd;	      /* an eventfd: complete has changed */
	atomic_bool ending;   /* what is not recorded yet stays with its probe */
	atomic_bool unsynced; /* the record has more than at the last sync */
	atomic_bool complete;
	atomic_int_least64_t last_request_ns;
};

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void on_verdict(void *context, enum verdict_event event, const struct verdict *verdict)
{
	struct coordinator *coordinator = context;
	const struct report_model *model;

	if (coordinator->web)
		web_expect(coordinator->web);
	/* Of a thinned record, it is the next change of the verdict that tells of it. */
	if (coordinator->replaying &&
		(!coordinator->last_frame || coordinator->keeper.history.thinned))
		return;
	verdict = record_keeper_tell(&coordinator->keeper, verdict);
	model = record_keeper_report(&coordinator->keeper);
	alert_sink_verdict(coordinator->sink, event, verdict, model);
	if (coordinator->hooks)
		hooks_tell(coordinator->hooks, event, verdict, model);
}

static void on_backlog(void *context, bool late, int64_t latest_ns)
{
	const struct coordinator *coordinator = context;

	if (coordinator->web)
		web_late(coordinator->web, late);
	if (coordinator->options.quiet || coordinator->replaying)
		return;
	if (late)
		fprintf(stderr,
			"slowrank: verdicts are late: the coordinator is %.1f s behind the job "
			"(what to do: docs/operations.md, A coordinator that falls behind)\n",
			(double)latest_ns / 1e9);
	else
		fprintf(stderr,
			"slowrank: the coordinator has caught up with the job; it was %.1f s "
			"behind at most\n",
			(double)latest_ns / 1e9);
}

static void on_missing(void *context, uint32_t count, uint32_t world_size, const char *which)
{
	const struct coordinator *coordinator = context;
	const char *url = listener_url(coordinator->listener, 0);

	if (coordinator->options.quiet || coordinator->replaying)
		return;
	fprintf(stderr,
		"slowrank: %" PRIu32 " of %" PRIu32 " ranks are not seen since %d s (%s): start "
		"slowrank with each of them (LAUNCHER slowrank run -- COMMAND)%s%s\n",
		count, world_size, PIPELINE_MISSING_MS / 1000, which,
		strncmp(url, "tcp://", 6) == 0 ? ", and let their nodes reach this coordinator at "
					       : "",
		strncmp(url, "tcp://", 6) == 0 ? url : "");
}

/* Once for each reason, and again when it still stands, or comes back, after a while. */
static void tell_record_error(struct coordinator *coordinator, int error, const char *what_now)
{
	int64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	if (error == coordinator->told_error && what_now == coordinator->told_what &&
		now_ns - coordinator->told_ns < TELL_AGAIN_MS * INT64_C(1000000))
		return;
	coordinator->told_error = error;
	coordinator->told_what = what_now;
	coordinator->told_ns = now_ns;
	fprintf(stderr, "slowrank: cannot write the record %s: %s; the job goes on, %s\n",
		coordinator->options.record, strerror(-error), what_now);
}

/* As long as there is one, it is a full disk's. */
static void tell_overflow(struct coordinator *coordinator)
{
	if (coordinator->overflow.frames)
		tell_record_error(coordinator, -ENOSPC,
			"and alerts with it; what comes is kept elsewhere until it can, 64 MiB");
}

/* There may be room again, and until then the probes' spools have some. Other reasons may stay for good. */
static bool is_worth_waiting(const struct coordinator *coordinator, int error)
{
	return error == -ENOSPC || error == -EDQUOT || error == -ENOMEM ||
	       (!coordinator->record_failed && coordinator->frame.tried_ms < RECORD_TRY_MS);
}

/* Before anything is made of a batch: one that the analysis dies of is in the record. */
static int keep_frame(void *context)
{
	struct coordinator *coordinator = context;
	struct frame *frame = &coordinator->frame;
	int error = 0;

	if (!coordinator->replaying)
		error = overflow_append(&coordinator->overflow, coordinator->keeper.record,
			frame->bytes, frame->length, frame->received);

	frame->unwritten = error && is_worth_waiting(coordinator, error);
	if (frame->unwritten)
		return error;
	if (error) {
		record_writer_lose(coordinator->keeper.record);
		tell_record_error(coordinator, error, "and alerts with it");
	}
	if (!error && !coordinator->replaying)
		tell_overflow(coordinator);
	atomic_store(&coordinator->unsynced, true);
	coordinator->record_failed = error != 0;
	frame->settled = true;
	return 0;
}

/* A batch that cannot be taken now is tried again. False: its probe keeps it. */
static bool wait_to_try_again(struct coordinator *coordinator, int error)
{
	const struct timespec pause = {.tv_nsec = RECORD_RETRY_MS * 1000000};
	struct frame *frame = &coordinator->frame;

	if (frame->unwritten)
		tell_record_error(coordinator, error,
			"and what comes is kept by the probes, 64 MiB at each, until it can; "
			"alerts "
			"wait");
	else if (frame->tried_ms >= MEMORY_TRY_MS)
		return false;
	nanosleep(&pause, NULL);
	frame->tried_ms += RECORD_RETRY_MS;
	return !atomic_load(&coordinator->ending);
}

/* Records and judges one batch. As pipeline_push(); an error: it is not recorded. */
static int take_batch(struct coordinator *coordinator, const void *bytes, size_t length,
	struct job_ns received, struct message_reply *reply)
{
	int result;

	coordinator->frame = (struct frame){.bytes = bytes, .length = length, .received = received};
	do {
		result =
			pipeline_push(coordinator->keeper.pipeline, bytes, length, received, reply);
	} while (result < 0 && !coordinator->frame.settled &&
		 wait_to_try_again(coordinator, result));
	if (result >= 0 || !coordinator->frame.settled)
		return result;
	if (!coordinator->unjudged_told)
		fprintf(stderr,
			"slowrank: a batch could not be analysed: %s; the record %s has it\n",
			strerror(-result), coordinator->options.record);
	coordinator->unjudged_told = true;
	return PIPELINE_ACCEPTED;
}

static void keep_record_small(struct coordinator *coordinator, struct job_ns now)
{
	int error = record_keeper_keep(&coordinator->keeper, now);

	atomic_store(&coordinator->unsynced, true);
	if (error && !coordinator->thin_told)
		fprintf(stderr,
			"slowrank: the record %s cannot be thinned, and grows beyond its limit: "
			"%s\n",
			coordinator->options.record, strerror(-error));
	coordinator->thin_told |= error != 0;
}

static void publish(struct coordinator *coordinator, struct job_ns received)
{
	int64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	if (coordinator->web && web_is_due(coordinator->web, now_ns))
		web_publish(coordinator->web, record_keeper_report(&coordinator->keeper),
			coordinator->trail, received, now_ns);
}

static int on_request(void *context, const void *bytes, size_t length, struct job_ns received,
	struct message_reply *reply)
{
	struct coordinator *coordinator = context;
	bool open, complete;
	int result;

	pthread_mutex_lock(&coordinator->gate);
	open = coordinator->open;
	pthread_mutex_unlock(&coordinator->gate);
	if (!open)
		return -ECANCELED;
	result = take_batch(coordinator, bytes, length, received, reply);
	if (result < 0)
		return result;
	if (result == PIPELINE_ACCEPTED)
		keep_record_small(coordinator, received);
	publish(coordinator, received);
	complete = pipeline_complete(coordinator->keeper.pipeline);
	atomic_store(&coordinator->last_request_ns, received.value);
	if (atomic_exchange(&coordinator->complete, complete) != complete)
		(void)!write(coordinator->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
	return reply->accepted &&
	       pipeline_probe_is_of_world(coordinator->keeper.pipeline, reply->probe_id);
}

static int on_question(void *context, const struct message_question *question,
	struct job_ns received, struct message_answer *answer)
{
	struct coordinator *coordinator = context;
	bool open;

	pthread_mutex_lock(&coordinator->gate);
	open = coordinator->open;
	pthread_mutex_unlock(&coordinator->gate);
	if (!open)
		return -ECANCELED;
	pipeline_ask(coordinator->keeper.pipeline, question, received, answer);
	return 0;
}

/* Each reason once: strangers cannot fill the terminal. */
static void on_refused(void *context, enum gate_refusal why, const char *peer)
{
	struct coordinator *coordinator = context;

	if (coordinator->refused_told[why])
		return;
	coordinator->refused_told[why] = true;
	fprintf(stderr, "slowrank coordinator: a probe at %s is refused: %s\n", peer,
		gate_refusal_text(why));
}

static int tell(const char *problem)
{
	fprintf(stderr, "slowrank coordinator: %s\n", problem);
	return -EINVAL;
}

/* Where a URL is beyond this host; it lives as long as the process. Returns 0, or an error after telling it. */
static int load_key(const struct coordinator_options *options, struct key_file *key,
	struct listener_options *listener_options)
{
	char why[KEY_FILE_WHY_LENGTH];
	bool beyond = false;

	for (size_t i = 0; i < options->url_count; i++)
		beyond |= key_file_needed(options->urls[i]);
	if (!beyond || options->insecure)
		return 0;
	if (key_file_or_munge(options->key_file, options->munge_socket, key,
		    &listener_options->credential, why))
		return tell(why);
	if (key->path[0])
		listener_options->key = key->key;
	return 0;
}

/* Where a URL asks for it; it lives as long as the process. Returns 0, or an error after telling it. */
static int load_tls(
	const struct coordinator_options *options, struct listener_options *listener_options)
{
	char why[KEY_FILE_WHY_LENGTH];

	for (size_t i = 0; i < options->url_count; i++) {
		if (tls_files_url(options->urls[i]))
			return tls_files_config(&options->tls, true, &listener_options->tls, why)
				       ? tell(why)
				       : 0;
	}
	return 0;
}

/* Over ipc the socket's folder decides, beyond the host the key. */
static bool anybody_may_send(const struct coordinator_options *options)
{
	bool unproven = false;

	for (size_t i = 0; i < options->url_count; i++)
		unproven |= strncmp(options->urls[i], "ipc://", 6) != 0 &&
			    (options->insecure || !key_file_needed(options->urls[i]));
	return unproven;
}

#define TOLD_AGAIN_NS INT64_C(1000000000)

static const int ending_signals[] = {SIGTERM, SIGINT, SIGHUP};
enum { ENDING_SIGNALS = sizeof(ending_signals) / sizeof(ending_signals[0]) };
/* All that the handler below knows. */
static int told_fd = -1; /* an eventfd */
static int64_t told_ns;	 /* when the first signal came; 0: none did */

/*
 * The first asks for the end. One that comes a second later, and not with it (timeout(1), launchers), ends the process:
 * what is being finished may be written to a file that does not answer.
 */
static void on_signal(int number)
{
	const uint64_t one = 1;
	int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	int error = errno;

	if (told_ns && now_ns - told_ns >= TOLD_AGAIN_NS) {
		signal(number, SIG_DFL);
		raise(number);
	}
	told_ns = told_ns ? told_ns : now_ns;
	(void)!write(told_fd, &one, sizeof(one));
	errno = error;
}

/* Until here signals end the process: there is nothing to finish, and a file that is read may be one that never answers. */
static int catch_signals(struct coordinator *coordinator)
{
	struct sigaction action = {.sa_handler = on_signal};

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a record at its limit (ulimit -f) is as on a full disk */
	told_fd = coordinator->signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	coordinator->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (coordinator->signal_fd < 0 || coordinator->wake_fd < 0)
		return -errno;
	for (size_t i = 0; i < ENDING_SIGNALS; i++)
		sigaction(ending_signals[i], &action, NULL);
	return 0;
}

/* While nng makes its threads, so that signals come to this one alone. */
static void mask_signals(int how)
{
	sigset_t signals;

	sigemptyset(&signals);
	for (size_t i = 0; i < ENDING_SIGNALS; i++)
		sigaddset(&signals, ending_signals[i]);
	pthread_sigmask(how, &signals, NULL);
}

static bool was_told_to_end(const struct coordinator *coordinator)
{
	struct pollfd waited = {.fd = coordinator->signal_fd, .events = POLLIN};

	return poll(&waited, 1, 0) > 0;
}

/*
 * A probe is a descriptor: there may be more hosts than the usual soft limit of 1,024. And the ranks of all hosts
 * take more memory than what a probe that started this process has to do with.
 */
static void allow_many_probes(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (getrlimit(RLIMIT_DATA, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_DATA, &limit);
	}
}

static bool colour_wanted(const struct coordinator_options *options)
{
	return report_text_colour_wanted(options->terminal || isatty(STDERR_FILENO));
}

/* The coordinator of a job that has just ended may still be at work on the file. */
static int create_record(struct coordinator *coordinator,
	const struct record_writer_options *options, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	const struct timespec pause = {.tv_nsec = RECORD_RETRY_MS * 1000000};
	int error;

	for (int waited_ms = 0;; waited_ms += RECORD_RETRY_MS) {
		error = record_writer_create(
			coordinator->options.record, options, &coordinator->keeper.record, why);
		if (error != -EBUSY || waited_ms >= RECORD_PATIENCE_MS ||
			was_told_to_end(coordinator))
			return error;
		nanosleep(&pause, NULL);
	}
}

static void on_step(void *context, const struct judged_step *step)
{
	struct coordinator *coordinator = context;

	coordinator->trail->before = history_steps_before(&coordinator->keeper.history);
	trail_take(coordinator->trail, step);
	if (coordinator->web)
		web_take_step(coordinator->web, step);
}

/* Returns 0, or an error after telling it. */
static int create_pipeline(struct coordinator *coordinator)
{
	const struct coordinator_options *options = &coordinator->options;
	struct pipeline_options pipeline_options = {
		.on_verdict = on_verdict, .context = coordinator};
	struct alert_limits limits;
	char problem[ALERT_LIMITS_PROBLEM_LENGTH];

	if (alert_limits_load(&options->alert_settings, &limits, stderr, problem))
		return tell(problem);
	if (pipeline_create(&pipeline_options, &coordinator->keeper.pipeline))
		return tell("no memory");
	pipeline_limit_alerts(coordinator->keeper.pipeline, &limits);
	pipeline_serve_one_job(coordinator->keeper.pipeline, options->job);
	if (anybody_may_send(options))
		pipeline_doubt_restarts(coordinator->keeper.pipeline);
	pipeline_keep_first(coordinator->keeper.pipeline, keep_frame, coordinator);
	pipeline_watch_missing(coordinator->keeper.pipeline, on_missing, coordinator);
	pipeline_watch_backlog(coordinator->keeper.pipeline, on_backlog, coordinator);
	if (options->http && !coordinator->trail && trail_create(&coordinator->trail))
		return tell("no memory");
	if (coordinator->trail)
		pipeline_watch_steps(coordinator->keeper.pipeline, on_step, coordinator);
	return 0;
}

/* What comes next in a record is for a pipeline of its own. */
static int renew_pipeline(struct coordinator *coordinator)
{
	pipeline_destroy(coordinator->keeper.pipeline);
	coordinator->keeper.pipeline = NULL;
	return create_pipeline(coordinator);
}

/* Makes of a record's frames what its coordinator before had made of them, and tells of the last one that is left. */
static int replay_file(struct coordinator *coordinator, const char *path, uint64_t *left)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct record_reader *reader;
	struct message_reply reply;
	struct record_frame frame;
	int error = 0;

	if (record_reader_open(path, &reader, why))
		return tell(why);
	while (!error && !was_told_to_end(coordinator) && !record_reader_frame(reader, &frame)) {
		if (history_take(&coordinator->keeper.history, &frame,
			    record_keeper_pipeline_report, &coordinator->keeper) == HISTORY_GAP)
			error = renew_pipeline(coordinator);
		if (error || frame.kind != RECORD_BATCH)
			continue;
		coordinator->last_frame = --*left == 0;
		alert_sink_doubt(coordinator->sink, coordinator->last_frame);
		(void)take_batch(coordinator, frame.bytes, frame.length, frame.stamp, &reply);
	}
	record_reader_close(reader);
	return error;
}

/* A disk that the job and others need, too, bears so much; the record that is there has its part of it already. */
static uint64_t record_max(const struct coordinator_options *options)
{
	char folder[PATH_MAX];
	struct statvfs status;
	struct stat present;
	uint64_t share;

	if (options->record_max_text)
		return options->record_max;
	snprintf(folder, sizeof(folder), "%s", options->record);
	if (statvfs(dirname(folder), &status))
		return record_max_default;
	share = (uint64_t)status.f_bavail * status.f_frsize;
	if (options->continues && stat(options->record, &present) == 0)
		share += (uint64_t)present.st_size;
	share /= RECORD_MAX_FREE_PARTS;
	if (share > record_max_default)
		return record_max_default;
	return share > RECORD_BYTES_LEAST ? share : RECORD_BYTES_LEAST;
}

/*
 * Of the record, and of what waits for room on its disk. Who was killed had told what came of each frame before it
 * wrote the next one. Returns 0, or an error after telling it.
 */
static int replay(struct coordinator *coordinator, const struct record_writer_state *state)
{
	const struct overflow *overflow = &coordinator->overflow;
	uint64_t left = state->frames_found + overflow->frames + overflow->moved;
	int error = 0;

	coordinator->replaying = true;
	if (state->frames_found)
		error = replay_file(coordinator, coordinator->options.record, &left);
	if (!error && overflow->frames)
		error = replay_file(coordinator, overflow->path, &left);
	coordinator->replaying = coordinator->last_frame = false;
	alert_sink_doubt(coordinator->sink, false);
	if (!error && history_go_on(&coordinator->keeper.history,
			      record_keeper_pipeline_report(&coordinator->keeper)))
		error = tell("no memory");
	atomic_store(&coordinator->complete, pipeline_complete(coordinator->keeper.pipeline));
	return error;
}

static int open_outputs(struct coordinator *coordinator)
{
	const struct coordinator_options *options = &coordinator->options;
	struct alert_sink_options sink_options = {
		.text = options->quiet ? NULL : stderr,
		.json_path = options->alerts,
		.colour = colour_wanted(options),
	};
	struct record_writer_options record_options = {
		.program = "slowrank " SLOWRANK_VERSION,
		.created = {clock_ns(CLOCK_MONOTONIC)},
		.created_unix_ns = clock_ns(CLOCK_REALTIME),
		.continues = options->continues,
		.bytes_max = record_max(options),
	};
	struct record_writer_state state;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	int error = options->report ? report_file_check(options->report, why) : 0;

	record_keeper_options(&coordinator->keeper, &record_options);
	if (!error)
		error = alert_sink_create(&sink_options, &coordinator->sink, why);
	if (!error)
		error = create_record(coordinator, &record_options, why);
	if (error)
		return tell(why);
	record_writer_get_state(coordinator->keeper.record, &state);
	if (overflow_open(
		    &coordinator->overflow, options->overflow, options->continues, state.newest))
		return tell("no memory");
	if (state.kept_number)
		fprintf(stderr,
			"slowrank coordinator: %s had the start of a run; it is %s.%u now\n",
			options->record, options->record, state.kept_number);
	return replay(coordinator, &state);
}

static void tell_sync_error(struct coordinator *coordinator, int error)
{
	if (!error || coordinator->sync_told)
		return;
	coordinator->sync_told = true;
	fprintf(stderr,
		"slowrank: the record %s cannot be synced to its disk: %s; a power cut may take "
		"what it has\n",
		coordinator->options.record, strerror(-error));
}

/* Who waits for it goes on; probes can connect, and are answered once the gate opens. */
static void tell_ready(const struct coordinator *coordinator)
{
	const struct coordinator_options *options = &coordinator->options;

	if (options->ready_fd >= 0) {
		if (write(options->ready_fd, "1", 1) != 1)
			fprintf(stderr, "slowrank coordinator: nobody reads --ready-fd %d\n",
				options->ready_fd);
		close(options->ready_fd);
	} else if (!options->quiet && !options->parent) {
		for (size_t i = 0; i < options->url_count; i++)
			fprintf(stderr, "slowrank coordinator: listening at %s\n",
				listener_url(coordinator->listener, i));
	}
}

/* What others need of the key. False after telling why there is none. */
static bool derive(
	const struct coordinator_options *options, const char *use, char secret[DERIVED_KEY_LENGTH])
{
	char why[KEY_FILE_WHY_LENGTH];
	struct key_file key;

	if (key_file_load(options->key_file, &key, why)) {
		fprintf(stderr, "slowrank coordinator: %s\n", why);
		return false;
	}
	return derived_key(key.key, use, secret) == 0;
}

/* What cannot be had is told, and the job is watched all the same. */
static void start_hooks(struct coordinator *coordinator)
{
	const struct coordinator_options *options = &coordinator->options;
	char secret[DERIVED_KEY_LENGTH], why[WEBHOOK_WHY_LENGTH];
	struct hooks_options hooks_options = {
		.command = options->on_incident, .webhook.url = options->webhook};

	if (!options->on_incident && !options->webhook)
		return;
	if (options->webhook && derive(options, DERIVED_KEY_WEBHOOK, secret))
		hooks_options.webhook.secret = secret;
	else if (options->webhook)
		fprintf(stderr, "slowrank: webhooks are not signed\n");
	if (hooks_create(&hooks_options, &coordinator->hooks, why))
		fprintf(stderr, "slowrank: %s; nobody is told of incidents by hooks\n", why);
}

static bool readers_need_key(const struct coordinator_options *options)
{
	struct http_address address;
	char url[sizeof(address) + 16];

	if (options->insecure || http_address_parse(options->http, &address))
		return false;
	snprintf(url, sizeof(url), strchr(address.host, ':') ? "tcp://[%s]" : "tcp://%s",
		address.host);
	return key_file_needed(url);
}

/* The same. */
static void start_web(struct coordinator *coordinator)
{
	const struct coordinator_options *options = &coordinator->options;
	char token[DERIVED_KEY_LENGTH], why[HTTP_WHY_LENGTH];
	struct web_options web_options = {.address = options->http,
		.anybody = options->insecure,
		.listener = coordinator->listener,
		.hooks = coordinator->hooks};

	if (!options->http)
		return;
	if (readers_need_key(options) && derive(options, DERIVED_KEY_HTTP, token))
		web_options.token = token;
	if (web_create(&web_options, &coordinator->web, why))
		fprintf(stderr, "slowrank: %s; the job is watched without\n", why);
	else if (!options->quiet)
		fprintf(stderr, "slowrank: the job's page is at %s, metrics at %smetrics\n",
			web_url(coordinator->web), web_url(coordinator->web));
}

static int start(struct coordinator *coordinator)
{
	const struct coordinator_options *options = &coordinator->options;
	struct listener_options listener_options = {.urls = options->urls,
		.url_count = options->url_count,
		.on_request = on_request,
		.on_question = on_question,
		.context = coordinator,
		.insecure = options->insecure,
		.on_refused = on_refused};
	struct key_file key;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	int error;

	atomic_store(&coordinator->last_request_ns, clock_ns(CLOCK_MONOTONIC));
	allow_many_probes();
	if (options->parent) {
		coordinator->parent_fd = (int)syscall(SYS_pidfd_open, options->parent, 0);
		if (coordinator->parent_fd < 0 && errno == ESRCH)
			return tell("--parent names no process that runs");
	}
	error = create_pipeline(coordinator);
	if (error)
		return error;
	/* Decoded batches come and go: keep their memory rather than fault it in again each time. */
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	mallopt(M_TOP_PAD, KEPT_BYTES / 8);
	/* Listen first: where another coordinator is at work, its record must not be emptied. */
	error = load_key(options, &key, &listener_options);
	if (!error)
		error = load_tls(options, &listener_options);
	if (error)
		return error;
	if (catch_signals(coordinator))
		return tell("the kernel gives no more file descriptors");
	pthread_mutex_lock(&coordinator->gate);
	mask_signals(SIG_BLOCK);
	error = listener_create(&listener_options, &coordinator->listener, why);
	if (!error)
		start_hooks(coordinator);
	mask_signals(SIG_UNBLOCK);
	if (error == -EADDRINUSE && options->ready_fd >= 0) /* whoever waits knows other ports */
		(void)!write(options->ready_fd, "0", 1);
	else
		error = error ? tell(why) : open_outputs(coordinator);
	coordinator->open = !error;
	if (!error) {
		tell_ready(coordinator);
		mask_signals(SIG_BLOCK);
		start_web(coordinator); /* it may ask for a name: nobody's job waits for that */
		mask_signals(SIG_UNBLOCK);
		tell_sync_error(coordinator, record_writer_settle(coordinator->keeper.record));
	}
	pthread_mutex_unlock(&coordinator->gate);
	return error;
}

static int until_ms(int64_t deadline_ns, int64_t now_ns)
{
	return deadline_ns <= now_ns ? 0 : (int)((deadline_ns - now_ns) / 1000000 + 1);
}

/* How long to wait for the next event, in ms; 0: it is time to end. */
static int time_to_wait_ms(struct coordinator *coordinator, bool parent_gone, int64_t *alone_since)
{
	int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	struct listener_state state;
	bool silent =
		now_ns - atomic_load(&coordinator->last_request_ns) > SILENCE_MS * INT64_C(1000000);

	if (coordinator->options.exit_when_done && atomic_load(&coordinator->complete))
		return until_ms(atomic_load(&coordinator->last_request_ns) +
					LATE_PROBE_MS * INT64_C(1000000),
			now_ns);
	if (!parent_gone)
		return POLL_MS;
	listener_get_state(coordinator->listener, &state);
	if (!*alone_since || (state.peers && !silent))
		*alone_since = now_ns;
	return now_ns - *alone_since >= LAST_PEER_MS * INT64_C(1000000) ? 0 : POLL_MS;
}

/* Once a second. What came is not synced by whoever takes it: a slow disk does not hold the probes up. */
static void look_after(struct coordinator *coordinator)
{
	int64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	if (now_ns - coordinator->looked_ns < SYNC_MS * INT64_C(1000000))
		return;
	coordinator->looked_ns = now_ns;
	listener_look_after(coordinator->listener);
	if (atomic_exchange(&coordinator->unsynced, false))
		tell_sync_error(coordinator, record_writer_sync(coordinator->keeper.record));
}

/* Of a parent that a kernel, or a container's filter of system calls, gives no pidfd of. */
static bool unwatched_parent_is_gone(const struct coordinator *coordinator)
{
	return coordinator->options.parent && coordinator->parent_fd < 0 &&
	       kill(coordinator->options.parent, 0) < 0 && errno == ESRCH;
}

/* Returns when it is time to end. The work happens in the listener's thread. */
static void wait_for_end(struct coordinator *coordinator)
{
	bool parent_gone = false;
	int64_t alone_since = 0;

	for (;;) {
		struct pollfd waited[] = {
			{.fd = coordinator->signal_fd, .events = POLLIN},
			{.fd = coordinator->wake_fd, .events = POLLIN},
			{.fd = parent_gone ? -1 : coordinator->parent_fd, .events = POLLIN},
		};
		int wait_ms = time_to_wait_ms(coordinator, parent_gone, &alone_since);
		uint64_t ignored;

		if (wait_ms == 0)
			return;
		if (poll(waited, 3, wait_ms) < 0 && errno != EINTR)
			return;
		if (waited[0].revents)
			return;
		if (waited[1].revents)
			(void)!read(coordinator->wake_fd, &ignored, sizeof(ignored));
		if (waited[2].revents || unwatched_parent_is_gone(coordinator))
			parent_gone = true;
		look_after(coordinator);
	}
}

static void finish_record(struct coordinator *coordinator)
{
	struct record_writer_state state;
	int error;

	overflow_wait_no_more(&coordinator->overflow, coordinator->keeper.record);
	record_keeper_finish(&coordinator->keeper, (struct job_ns){clock_ns(CLOCK_MONOTONIC)});
	record_writer_get_state(coordinator->keeper.record, &state);
	error = record_writer_finish(coordinator->keeper.record);
	coordinator->keeper.record = NULL;
	if (state.frames_lost)
		fprintf(stderr, "slowrank: the record %s misses %llu of %llu frames\n",
			coordinator->options.record, (unsigned long long)state.frames_lost,
			(unsigned long long)(state.frames_lost + state.frames));
	if (error && error != coordinator->told_error)
		fprintf(stderr, "slowrank: cannot end the record %s: %s\n",
			coordinator->options.record, strerror(-error));
}

static void tell_refused(const struct coordinator *coordinator)
{
	struct listener_state state;
	uint64_t refused = 0;

	listener_get_state(coordinator->listener, &state);
	for (int why = 0; why < GATE_REFUSAL_NR; why++)
		refused += state.refused[why];
	if (refused)
		fprintf(stderr, "slowrank coordinator: %llu requests of strangers were refused\n",
			(unsigned long long)refused);
}

/* Who did something about an incident that lasts is told that no more is heard of it. */
static void end_hooks(struct coordinator *coordinator)
{
	const struct report_model *model = record_keeper_report(&coordinator->keeper);

	for (size_t i = 0; coordinator->hooks && i < model->verdict_count; i++) {
		const struct verdict *verdict = &model->verdicts[i];

		if (!verdict->ended && look_hold(model, verdict) == ALERT_HOLD_NONE)
			hooks_tell(coordinator->hooks, VERDICT_EVENT_ENDED, verdict, model);
	}
}

/* Everything that came in is analysed; record, report and alerts are completed. */
static void finish(struct coordinator *coordinator)
{
	const struct coordinator_options *options = &coordinator->options;
	const struct report_model *model;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	int error;

	tell_refused(coordinator);
	atomic_store(&coordinator->ending, true);
	if (coordinator->web)
		web_watch_no_listener(coordinator->web);
	listener_destroy(coordinator->listener);
	coordinator->listener = NULL;
	error = pipeline_finish(coordinator->keeper.pipeline);
	if (error)
		fprintf(stderr, "slowrank: the analysis of the last steps failed: %s\n",
			strerror(-error));
	finish_record(coordinator);
	model = record_keeper_report(&coordinator->keeper);
	if (!options->quiet && !(options->quiet_if_empty && model->totals.steps == 0)) {
		struct report_text_options text_options = {.colour = colour_wanted(options)};

		(void)!report_text_write(model, &text_options, stderr);
	}
	if (options->report && report_file_write(model, options->report,
				       &(struct report_choice){.format = REPORT_JSON}, why) < 0)
		fprintf(stderr, "slowrank: the report: %s\n", why);
	if (alert_sink_errors(coordinator->sink))
		fprintf(stderr, "slowrank: %llu alerts could not be written\n",
			(unsigned long long)alert_sink_errors(coordinator->sink));
	end_hooks(coordinator);
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

int cmd_coordinator(int argc, char **argv)
{
	struct coordinator coordinator = {
		.gate = PTHREAD_MUTEX_INITIALIZER, .signal_fd = -1, .parent_fd = -1, .wake_fd = -1};
	char problem[256];
	int status = EXIT_BAD_USAGE;
	int result = coordinator_options_parse(&coordinator.options, argc, argv, stdout, problem);

	if (result == 1)
		return 0;
	if (result) {
		fprintf(stderr, "slowrank coordinator: %s; see 'slowrank coordinator --help'\n",
			problem);
		return EXIT_BAD_USAGE;
	}
	if (start(&coordinator) == 0) {
		wait_for_end(&coordinator);
		finish(&coordinator);
		status = 0;
	}
	web_destroy(coordinator.web);
	hooks_destroy(coordinator.hooks);
	listener_destroy(coordinator.listener);
	overflow_close(&coordinator.overflow);
	record_writer_destroy(coordinator.keeper.record);
	alert_sink_destroy(coordinator.sink);
	pipeline_destroy(coordinator.keeper.pipeline);
	trail_destroy(coordinator.trail);
	record_keeper_fini(&coordinator.keeper);
	close_if_open(coordinator.signal_fd);
	close_if_open(coordinator.parent_fd);
	close_if_open(coordinator.wake_fd);
	return status;
}
