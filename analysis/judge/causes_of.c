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

int64_t judge_tell_cause(
	const struct judge *judge, const struct incident *incident, struct verdict *verdict)
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
	struct explanation explanation;

	explain(&context, &episode, &explanation);
	explain_tell(&explanation, verdict);
	return explanation.findings[explanation.cause].since_ns;
}
