/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/looks/host_looks.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/looks/requests.h"
#include "probe/looks/sample_reader.h"

enum {
	RANKS_KEPT = 256, /* of a host */
	DONE_MAX = 2 * HOST_LOOKS_AT_ONCE,
	READS_PER_TICK_MAX = 64,
	READ_BYTES = 65536,
};

/*
 * To open the process and to find names; after its end, to tell what its threads did. Each takes some 0.2 s of CPU time, which
 * lasts a hundred times as long where many programs want the CPUs; a sampler gone wild is ended by its limits before.
 */
#define PATIENCE_NS INT64_C(30000000000)

/* A look that is under way. */
struct host_look {
	pid_t pid, sampler; /* 0: none */
	uint32_t rank, request, steps_wanted;
	struct host_ns asked, stop; /* then it is told to end */
	bool told;		    /* it was */
	int fd;
	struct samples *samples;
	struct sample_reader reader;
};

/* What a rank was looked at. */
struct host_rank {
	pid_t pid;
	struct host_ns ended; /* of the last look */
	int64_t spent_ns;
	uint8_t refused; /* enum stack_result of the last one */
	char why[STACK_PROFILE_WHY_LENGTH];
};

struct host_looks {
	bool wanted;
	struct host_ns now;
	struct host_look looks[HOST_LOOKS_AT_ONCE];
	struct look_requests requests;
	size_t rank_count;
	struct host_rank ranks[RANKS_KEPT];
	size_t done_count, taken_count;
	struct stack_profile *done[DONE_MAX];
	uint8_t last_result;			 /* of the newest look, */
	struct host_ns last;			 /* when it ended; 0: there was none */
	char last_why[STACK_PROFILE_WHY_LENGTH]; /* and what was missing; "" = nothing */
};

struct host_looks *host_looks_create(bool wanted)
{
	struct host_looks *looks = calloc(1, sizeof(*looks));

	if (looks)
		looks->wanted = wanted;
	return looks;
}

/* Returns its status, as waitpid() tells it: one that had ended before keeps its own. */
static int end_sampler(struct host_look *look)
{
	int status = 0;

	if (!look->sampler)
		return 0;
	kill(look->sampler, SIGKILL);
	while (waitpid(look->sampler, &status, 0) < 0 && errno == EINTR)
		;
	close(look->fd);
	look->sampler = 0;
	return status;
}

void host_looks_destroy(struct host_looks *looks)
{
	if (!looks)
		return;
	for (size_t i = 0; i < HOST_LOOKS_AT_ONCE; i++) {
		(void)end_sampler(&looks->looks[i]);
		samples_destroy(looks->looks[i].samples);
	}
	for (size_t i = 0; i < looks->done_count; i++)
		stack_profile_destroy(looks->done[i]);
	free(looks);
}

static struct host_rank *rank_of(struct host_looks *looks, pid_t pid)
{
	struct host_rank *oldest = &looks->ranks[0];

	for (size_t i = 0; i < looks->rank_count; i++) {
		if (looks->ranks[i].pid == pid)
			return &looks->ranks[i];
		if (looks->ranks[i].ended.value < oldest->ended.value)
			oldest = &looks->ranks[i];
	}
	if (looks->rank_count < RANKS_KEPT)
		oldest = &looks->ranks[looks->rank_count++];
	*oldest = (struct host_rank){.pid = pid};
	return oldest;
}

static int64_t spent_ns(const struct host_looks *looks, const struct host_rank *rank)
{
	int64_t back_ns =
		(int64_t)(HOST_LOOKS_SHARE * (double)(looks->now.value - rank->ended.value));

	return rank->spent_ns > back_ns ? rank->spent_ns - back_ns : 0;
}

/* Takes the profile, which may be NULL for want of memory. */
static void put_done(struct host_looks *looks, struct stack_profile *profile)
{
	if (!profile)
		return;
	if (looks->done_count == DONE_MAX) { /* they are sent several times a second */
		stack_profile_destroy(profile);
		return;
	}
	looks->done[looks->done_count++] = profile;
}

static void refuse(struct host_looks *looks, const struct message_directive *directive,
	enum stack_result result, const char *why)
{
	struct stack_profile fields = {.rank = directive->rank,
		.request = directive->request,
		.result = (uint8_t)result,
		.start = looks->now,
		.stop = looks->now};

	snprintf(fields.why, sizeof(fields.why), "%s", why);
	put_done(looks, stack_profile_create(&fields));
}

/* A free place; NULL: none, or the rank is looked at already. */
static struct host_look *find_place(struct host_looks *looks, pid_t pid)
{
	struct host_look *place = NULL;

	for (size_t i = 0; i < HOST_LOOKS_AT_ONCE; i++) {
		if (!looks->looks[i].sampler)
			place = &looks->looks[i];
		else if (looks->looks[i].pid == pid)
			return NULL;
	}
	return place;
}

static int begin(struct host_looks *looks, struct host_look *look,
	const struct message_directive *directive, pid_t pid)
{
	uint32_t limit_ms = directive->limit_ms < HOST_LOOKS_LIMIT_MS_MAX ? directive->limit_ms
									  : HOST_LOOKS_LIMIT_MS_MAX;
	const struct sampler_options options = {
		.pid = pid, .limit_ns = directive->steps ? limit_ms * INT64_C(1000000) : 0};

	look->samples = samples_create();
	if (!look->samples)
		return -ENOMEM;
	look->sampler = sampler_start(&options, &look->fd);
	if (look->sampler < 0) {
		int error = look->sampler;

		samples_destroy(look->samples);
		look->samples = NULL;
		look->sampler = 0;
		return error;
	}
	look->pid = pid;
	look->rank = directive->rank;
	look->request = directive->request;
	look->steps_wanted =
		directive->steps < HOST_LOOKS_STEPS_MAX ? directive->steps : HOST_LOOKS_STEPS_MAX;
	look->asked = looks->now;
	look->stop.value = looks->now.value + options.limit_ns + PATIENCE_NS;
	look->told = false;
	sample_reader_init(&look->reader, look->samples);
	return 0;
}

void host_looks_ask(struct host_looks *looks, const struct message_directive *directive, pid_t pid,
	struct host_ns now)
{
	const struct host_rank *rank;
	struct host_look *place;
	bool resting;

	looks->now = now;
	if (directive->kind != DIRECTIVE_STACKS ||
		look_requests_know(&looks->requests, directive->request))
		return;
	place = find_place(looks, pid);
	if (pid && !place)
		return; /* not now: the directive comes again */
	look_requests_add(&looks->requests, directive->request);
	if (!looks->wanted || !pid) {
		refuse(looks, directive, looks->wanted ? STACK_RESULT_ENDED : STACK_RESULT_FAILED,
			looks->wanted ? "" : "not asked for (--sources)");
		return;
	}
	rank = rank_of(looks, pid);
	resting = rank->refused != STACK_RESULT_DONE &&
		  now.value - rank->ended.value < HOST_LOOKS_REST_NS;
	if (resting && rank->refused != STACK_RESULT_NO_STEPS)
		refuse(looks, directive, (enum stack_result)rank->refused, rank->why);
	else if (spent_ns(looks, rank) >= HOST_LOOKS_SPENT_NS_MAX)
		refuse(looks, directive, STACK_RESULT_BUSY, "");
	else if (begin(looks, place, directive, pid) < 0)
		refuse(looks, directive, STACK_RESULT_FAILED, "no process could be started");
}

/* Returns 1 while more may come, 0 when it has told its end, or a negative errno. */
static int read_some(struct host_look *look)
{
	char bytes[READ_BYTES];

	for (int i = 0; i < READS_PER_TICK_MAX; i++) {
		ssize_t got = read(look->fd, bytes, sizeof(bytes));
		int error;

		if (got < 0)
			return errno == EAGAIN || errno == EINTR ? 1 : -errno;
		if (got == 0)
			return -EPIPE;
		error = sample_reader_take(&look->reader, bytes, (size_t)got);
		if (error)
			return error;
		if (look->reader.ended)
			return 0;
	}
	return 1;
}

void host_looks_step(struct host_looks *looks, pid_t pid, const struct step_entry *step)
{
	/* While no period is known, stretches of time are no steps. */
	if (step->flags & STEP_WINDOW)
		return;
	for (size_t i = 0; i < HOST_LOOKS_AT_ONCE; i++) {
		struct host_look *look = &looks->looks[i];

		if (!look->sampler || look->pid != pid || !look->steps_wanted || look->told)
			continue;
		if (samples_step(look->samples, step) < 0)
			look->stop = looks->now; /* no memory: what is there will do */
		if (samples_steps(look->samples) >= look->steps_wanted)
			look->stop = looks->now;
	}
}

/* Why a sampler has not told its end. status: of waitpid(). */
static void say_why_ended(int error, int status, char why[STACK_PROFILE_WHY_LENGTH])
{
	if (error == -ETIMEDOUT)
		snprintf(why, STACK_PROFILE_WHY_LENGTH, "its sampler did not end in time");
	else if (error != -EPIPE)
		snprintf(why, STACK_PROFILE_WHY_LENGTH, "its sampler is not believed: %s",
			strerror(-error));
	else if (WIFSIGNALED(status))
		snprintf(why, STACK_PROFILE_WHY_LENGTH, "its sampler was ended by signal %d",
			WTERMSIG(status));
	else
		snprintf(why, STACK_PROFILE_WHY_LENGTH, "its sampler gave up (%d)",
			WEXITSTATUS(status));
}

/* What became of it. error: 0, the sampler has told its end; or why nothing more can come of it. */
static void finish(struct host_looks *looks, struct host_look *look, int error)
{
	struct host_rank *rank = rank_of(looks, look->pid);
	struct stack_profile fields = {.rank = look->rank, .request = look->request}, *profile;
	int status = end_sampler(look);

	if (!error) {
		const struct sampler_end *end = &look->reader.end;

		fields.result = end->result;
		fields.python_minor = end->python_minor;
		fields.incomplete = end->incomplete;
		fields.cost_ns = end->cost_ns;
		memcpy(fields.why, end->why, sizeof(fields.why));
	} else {
		fields.result = STACK_RESULT_FAILED;
		say_why_ended(error, status, fields.why);
	}
	profile = samples_finish(look->samples, &fields, look->steps_wanted != 0);
	samples_destroy(look->samples);
	look->samples = NULL;
	if (!profile)
		return;
	assert(stack_profile_is_valid(profile)); /* samples.h: else its batch would be lost */
	if (!profile->stop.value)
		profile->start = profile->stop = looks->now;
	rank->spent_ns = spent_ns(looks, rank) + looks->now.value - look->asked.value;
	rank->ended = looks->now;
	rank->refused = profile->result;
	memcpy(rank->why, profile->why, sizeof(rank->why));
	looks->last = looks->now;
	looks->last_result = profile->result;
	memcpy(looks->last_why, profile->why, sizeof(looks->last_why));
	put_done(looks, profile);
}

static void tick_look(struct host_looks *looks, struct host_look *look)
{
	int more = read_some(look);

	if (more <= 0) {
		finish(looks, look, more);
		return;
	}
	if (!look->told && looks->now.value >= look->stop.value) {
		kill(look->sampler, SIGTERM);
		look->told = true;
		look->stop.value = looks->now.value + PATIENCE_NS;
	} else if (looks->now.value >= look->stop.value) {
		finish(looks, look, -ETIMEDOUT);
	}
}

void host_looks_tick(struct host_looks *looks, struct host_ns now)
{
	looks->now = now;
	for (size_t i = 0; i < HOST_LOOKS_AT_ONCE; i++) {
		if (looks->looks[i].sampler)
			tick_look(looks, &looks->looks[i]);
	}
}

void host_looks_end(struct host_looks *looks)
{
	for (size_t i = 0; i < HOST_LOOKS_AT_ONCE; i++) {
		if (!looks->looks[i].told)
			looks->looks[i].stop = looks->now;
	}
}

size_t host_looks_take(struct host_looks *looks, struct stack_profile ***profiles)
{
	for (size_t i = 0; i < looks->taken_count; i++)
		stack_profile_destroy(looks->done[i]);
	looks->done_count -= looks->taken_count;
	memmove(looks->done, looks->done + looks->taken_count,
		looks->done_count * sizeof(looks->done[0]));
	looks->taken_count = looks->done_count < WIRE_STACK_PROFILES_PER_BATCH_MAX
				     ? looks->done_count
				     : WIRE_STACK_PROFILES_PER_BATCH_MAX;
	*profiles = looks->done;
	return looks->taken_count;
}

bool host_looks_are_busy(const struct host_looks *looks)
{
	for (size_t i = 0; i < HOST_LOOKS_AT_ONCE; i++) {
		if (looks->looks[i].sampler)
			return true;
	}
	return false;
}

void host_looks_state(const struct host_looks *looks, struct message_source *out)
{
	bool recent =
		looks->last.value && looks->now.value - looks->last.value < HOST_LOOKS_MISSING_NS;
	const char *what = stack_result_text((enum stack_result)looks->last_result);
	enum source_state state = SOURCE_ON;
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";

	if (!looks->wanted) {
		state = SOURCE_OFF;
		snprintf(why, sizeof(why), "not asked for");
	} else if (recent && looks->last_result == STACK_RESULT_NO_RIGHT) {
		state = SOURCE_MISSING;
		snprintf(why, sizeof(why), "%s", what);
	} else if (recent && looks->last_result >= STACK_RESULT_OVER_COST) {
		state = SOURCE_DEGRADED;
		snprintf(why, sizeof(why), "%s%s%s", what, looks->last_why[0] ? ": " : "",
			looks->last_why);
	} else if (looks->last_why[0]) {
		state = SOURCE_DEGRADED;
		snprintf(why, sizeof(why), "%s", looks->last_why);
	}
	snprintf(out->name, sizeof(out->name), "host.stacks");
	out->state = (uint8_t)state;
	snprintf(out->why, sizeof(out->why), "%s", why);
}
