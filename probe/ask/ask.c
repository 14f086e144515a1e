/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ask/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "probe/ask/find.h"
#include "probe/auth/credential.h"
#include "probe/auth/key_file.h"
#include "probe/auth/tls_files.h"
#include "probe/ring/host_clock.h"
#include "probe/uplink.h"
#include "probe/uplink_connection.h"
#include "probe/wire/decode.h"

enum {
	FIRST_ANSWER_MS = 5000, /* at one URL; where there are several, */
	EACH_ANSWER_MS = 2000,	/* at each of them */
	LATER_ANSWER_MS = 5000,
	AGAIN_MS = 200, /* from an answer to the next question */
	TELL_MS = 3000, /* beside the look's own time: then one line says what is waited for */
	/* The coordinator gives a probe up before; here other looks are waited for, too. */
	LOOK_MS = 120000,
	SLICE_MS = 50,
	STATUS_FAILED = 2,
};

struct asker {
	const struct probe_options *options;
	const struct message_question *question;
	const char *url;
	struct key_file key; /* its path is "" where none was read */
	struct credential *credential;
	struct nng_tls_config *tls;
	struct uplink *uplink;
	bool answered; /* by whoever is there */
	bool met; /* a coordinator, which cannot be asked: why says more than that nobody is there */
	char why[KEY_FILE_WHY_LENGTH + COORDINATOR_URL_LENGTH + 256];
};

static int64_t now_ms(void)
{
	return host_clock_now_ns() / 1000000;
}

static void sleep_ms(int time_ms)
{
	const struct timespec time = {time_ms / 1000, time_ms % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

/* What both sides prove at the URL. Returns 0, or an error with the reason. */
static int open_proofs(struct asker *asker)
{
	const struct probe_options *options = asker->options;
	char why[KEY_FILE_WHY_LENGTH];
	int error = 0;

	if (key_file_needed(asker->url) && !options->insecure)
		error = key_file_or_munge(options->key_file, options->munge_socket, &asker->key,
			&asker->credential, why);
	if (!error && tls_files_url(asker->url))
		error = tls_files_config(&options->tls, false, &asker->tls, why);
	if (error)
		snprintf(asker->why, sizeof(asker->why), "%s", why);
	return error;
}

static int open_uplink(struct asker *asker)
{
	const struct uplink_options options = {.url = asker->url,
		.asks = true,
		.key = asker->key.path[0] ? asker->key.key : NULL,
		.credential = asker->credential,
		.tls = asker->tls};
	int error = uplink_create(&options, &asker->uplink);

	if (error)
		snprintf(asker->why, sizeof(asker->why),
			"cannot use the coordinator URL %s (%s); use tcp://HOST:PORT or "
			"ipc:///PATH",
			asker->url, strerror(-error));
	return error;
}

static void tell_not_reached(struct asker *asker, const struct uplink_state *state)
{
	struct uplink_tls_question *question;
	char why[UPLINK_TLS_WHY_LENGTH] = "";

	if (asker->answered) {
		snprintf(asker->why, sizeof(asker->why),
			"the coordinator at %s does not answer any more: perhaps its job has ended",
			asker->url);
		return;
	}
	if (!state->connected && asker->tls &&
		!uplink_tls_ask(asker->url, asker->tls, EACH_ANSWER_MS, &question))
		uplink_tls_take(question, why);
	snprintf(asker->why, sizeof(asker->why), "%s at %s%s%s",
		state->connected ? "the coordinator does not answer" : "no coordinator is reached",
		asker->url, why[0] ? ": " : "", why);
}

static bool has_other_key(const struct asker *asker)
{
	struct uplink_state state;

	uplink_get_state(asker->uplink, &state);
	return !state.proven && state.replies_unproven;
}

/* Why there is no answer: nobody is there, or somebody who cannot be asked. */
static void tell_silence(struct asker *asker)
{
	struct uplink_state state;

	uplink_get_state(asker->uplink, &state);
	asker->met = state.refused[0] || has_other_key(asker);
	if (state.refused[0])
		snprintf(asker->why, sizeof(asker->why),
			"the coordinator at %s takes no questions, perhaps since it is of another "
			"version: %s",
			asker->url, state.refused);
	else if (has_other_key(asker) && asker->key.path[0])
		snprintf(asker->why, sizeof(asker->why),
			"the coordinator at %s does not have the key in %s: copy that file from "
			"the coordinator's node",
			asker->url, asker->key.path);
	else if (has_other_key(asker))
		snprintf(asker->why, sizeof(asker->why),
			"the coordinator at %s does not share this node's MUNGE: copy "
			"~/.config/slowrank/key from its node",
			asker->url);
	else
		tell_not_reached(asker, &state);
}

/* One question, one answer. NULL: none came; why says it. */
static struct message_answer *exchange(struct asker *asker, int patience_ms)
{
	int64_t until_ms = now_ms() + patience_ms;
	struct message_answer *answer;

	if (uplink_ask(asker->uplink, asker->question)) {
		snprintf(asker->why, sizeof(asker->why), "no memory");
		return NULL;
	}
	while (uplink_flush(asker->uplink, SLICE_MS) && now_ms() < until_ms &&
		!has_other_key(asker))
		;
	answer = uplink_take_answer(asker->uplink);
	if (!answer)
		tell_silence(asker);
	asker->answered |= answer != NULL;
	return answer;
}

/* For whom nothing comes for a while. */
static void tell_wait(const struct asker *asker, const struct message_answer *answer)
{
	fprintf(stderr, "slowrank: waiting for the look at rank %" PRIu32 "%s%s%s%s\n",
		asker->question->rank, answer->host[0] ? " on " : "", answer->host,
		answer->why[0] ? ": " : "", answer->why);
}

/* Until it is no ANSWER_WAIT. NULL: no answer came any more; why says it. */
static struct message_answer *wait_for_look(struct asker *asker, int first_ms)
{
	int64_t tell_ms = now_ms() + asker->question->limit_ms + TELL_MS;
	int64_t until_ms = now_ms() + asker->question->limit_ms + LOOK_MS;
	struct message_answer *answer;
	bool told = false;

	for (;;) {
		answer = exchange(asker, asker->answered ? LATER_ANSWER_MS : first_ms);
		if (!answer || answer->state != ANSWER_WAIT)
			return answer;
		if (now_ms() >= until_ms) {
			snprintf(asker->why, sizeof(asker->why), "no look came in %d s%s%s",
				(int)((asker->question->limit_ms + LOOK_MS) / 1000),
				answer->why[0] ? ": " : "", answer->why);
			message_answer_destroy(answer);
			return NULL;
		}
		if (!told && now_ms() >= tell_ms) {
			tell_wait(asker, answer);
			told = true;
		}
		message_answer_destroy(answer);
		sleep_ms(AGAIN_MS);
	}
}

static bool has_look(const struct asker *asker, const struct message_answer *answer)
{
	return asker->question->kind == DIRECTIVE_DEEP ? answer->kernels != NULL
						       : answer->stacks != NULL;
}

/* Asks at one URL. NULL: there is no look; why says it. */
static struct message_answer *ask_at(struct asker *asker, int first_ms)
{
	struct message_answer *answer = NULL;

	asker->answered = asker->met = false;
	if (open_uplink(asker) == 0)
		answer = wait_for_look(asker, first_ms);
	uplink_destroy(asker->uplink);
	asker->uplink = NULL;
	if (!answer || (answer->state == ANSWER_LOOK && has_look(asker, answer)))
		return answer;
	if (answer->state == ANSWER_OTHER_JOB) {
		asker->answered = false; /* the next port may be this job's */
		asker->met = true;
		snprintf(asker->why, sizeof(asker->why),
			"the coordinator at %s is another job's: %s", asker->url, answer->why);
	} else {
		snprintf(asker->why, sizeof(asker->why), "%s",
			answer->why[0] ? answer->why
				       : "the coordinator had no memory for the look");
	}
	message_answer_destroy(answer);
	return NULL;
}

/* At each URL, until somebody answers who serves the job. */
static struct message_answer *ask_place(struct asker *asker, const struct ask_place *place)
{
	char url[COORDINATOR_URL_LENGTH], met[sizeof(asker->why)] = "";
	struct message_answer *answer = NULL;

	snprintf(url, sizeof(url), "%s", place->url);
	asker->url = url;
	if (open_proofs(asker))
		return NULL;
	for (unsigned attempt = 0; attempt < place->attempts; attempt++) {
		if (attempt)
			coordinator_process_url(&place->job, attempt, url);
		answer = ask_at(asker, place->attempts > 1 ? EACH_ANSWER_MS : FIRST_ANSWER_MS);
		if (answer || asker->answered)
			return answer;
		if (asker->met && !met[0])
			memcpy(met, asker->why, sizeof(met));
	}
	if (met[0])
		memcpy(asker->why, met, sizeof(met));
	else if (place->attempts > 1)
		snprintf(asker->why, sizeof(asker->why),
			"no coordinator of the job %s is reached at %s", place->job.job_id,
			place->where);
	return NULL;
}

int ask_look(const struct probe_options *options, const char *command,
	struct message_question *question, struct message_answer **answer)
{
	struct asker asker = {.options = options, .question = question};
	struct ask_place place;
	char why[ASK_WHY_LENGTH];

	if (ask_place_find(&place, options, why)) {
		fprintf(stderr, "slowrank %s: %s\n", command, why);
		return STATUS_FAILED;
	}
	if (getrandom(&question->asker_id, sizeof(question->asker_id), 0) < 0)
		question->asker_id = (uint64_t)host_clock_now_ns();
	if (options->job)
		message_job_id(question->job_id, options->job);
	else
		snprintf(question->job_id, sizeof(question->job_id), "%s", place.job.job_id);
	*answer = ask_place(&asker, &place);
	credential_close(asker.credential);
	explicit_bzero(&asker.key, sizeof(asker.key));
	if (*answer)
		return 0;
	fprintf(stderr, "slowrank %s: %s\n", command, asker.why);
	return STATUS_FAILED;
}
