/* SPDX-License-Identifier: Apache-2.0 */
/* Runs and verdicts as episodes to be explained. */
#include "analysis/explain/explain.h"
#include "analysis/judge/internal.h"

/* Causes of links and of the job name who finds them: a row without one does not compile. */
#define RANK_CAUSE(...)
#define LINK_CAUSE(id, number, text, function, ...)                                                \
	_Static_assert(sizeof(&(function)) > 0, text " is found by somebody");
#define JOB_CAUSE LINK_CAUSE
#include "analysis/explain/causes.def"
#undef RANK_CAUSE
#undef LINK_CAUSE
#undef JOB_CAUSE

static struct explain_rank rank_of(const void *job, uint32_t rank)
{
	const struct judge *judge = job;
	const struct rank_state *state = &judge->ranks[rank];

	return (struct explain_rank){
		.evidence = state->evidence,
		.launches = &state->launches,
		.episode_launches = &state->run_launches,
		.pid = state->pid,
		.host = state->host,
		.role = state->totals.role,
		.usual_waits = state->usual.waits,
		.blamed = state->incident != 0,
		.experts_only = judge_experts_only(state),
	};
}

struct explain_context judge_explain_context(const struct judge *judge, int64_t now_ns)
{
	/* Ranks that came since the last block have no part in it yet. */
	bool room = judge->scratch_capacity >= judge->rank_end;

	return (struct explain_context){
		.rank = rank_of,
		.job = judge,
		.rank_count = room ? judge->rank_end : (uint32_t)judge->scratch_capacity,
		.looks = judge->looks,
		.stacks = judge->stacks,
		.missing = judge->missing,
		.now_ns = now_ns,
		.scratch = judge->scratch,
	};
}

void judge_explain_run(const struct judge *judge, uint32_t rank, const struct run *run,
	struct explanation *explanation)
{
	int64_t now_ns = judge_now_ns(judge);
	const struct explain_context context = judge_explain_context(judge, now_ns);
	struct episode_past past;
	const struct episode episode = {
		.ranks = &rank,
		.rank_count = 1,
		.every_steps = run->every,
		.sums = run->sums,
		.onset_ns = now_ns - run_span_ns(run),
		.loud_until_ns = now_ns,
		.past = &past,
	};

	explain_past(&context, rank, episode.onset_ns, &past);
	explain(&context, &episode, explanation);
}

/* Of so few ranks on CPUs, a program may give one more to do. */
static bool may_be_split(const struct judge *judge, const struct excess_sums *sums)
{
	return !sums->on_device && judge->judged.ranks < PEERS_MIN;
}

bool judge_more_than_split(const struct judge *judge, const struct excess_sums *sums, double level,
	const struct explanation *why, struct gate_sheet *sheet)
{
	return !why->computes || cause_says_why(why->cause) || !may_be_split(judge, sums) ||
	       gate_passed(sheet, GATE_SPLIT, level, 2 * MACHINES_DIFFER);
}

static void explain_incident(const struct judge *judge, const struct incident *incident,
	const struct verdict *verdict, struct explanation *explanation)
{
	const struct explain_context context =
		judge_explain_context(judge, incident->loud_until_ns);
	const struct episode episode = {
		.ranks = verdict->ranks,
		.rank_count = verdict->rank_count,
		.every_steps = incident->every,
		.sums = incident->sums,
		.onset_ns = incident->onset_ns,
		.loud_until_ns = incident->loud_until_ns,
		.past = &incident->past,
	};

	explain(&context, &episode, explanation);
}

/* Nothing is left of the cause that it was told with, and what is left would not be told. */
static bool is_gone(const struct judge *judge, const struct incident *incident,
	const struct verdict *verdict, const struct explanation *now)
{
	return incident->kind == INCIDENT_RANKS && cause_says_why(verdict->cause) &&
	       !judge_more_than_split(judge, &incident->sums, incident->level, now, NULL);
}

bool judge_cause_is_gone(const struct judge *judge, const struct incident *incident)
{
	const struct verdict *verdict = &judge->incidents.verdicts[incident->verdict];
	struct explanation now;

	if (!cause_says_why(verdict->cause) || !may_be_split(judge, &incident->sums))
		return false;
	explain_incident(judge, incident, verdict, &now);
	return is_gone(judge, incident, verdict, &now);
}

int64_t judge_tell_cause(
	const struct judge *judge, const struct incident *incident, struct verdict *verdict)
{
	struct explanation now;

	explain_incident(judge, incident, verdict, &now);
	if (is_gone(judge, incident, verdict, &now))
		return 0;
	explain_tell(&now, verdict);
	return now.findings[now.cause].since_ns;
}
