/* SPDX-License-Identifier: Apache-2.0 */
/* From slow flows to the ranks, the pairs and the cause of a comm-slow verdict. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "analysis/explain/explain.h"
#include "analysis/judge/internal.h"

int judge_link(struct judge *judge, const struct link_sample *sample, struct job_ns time)
{
	if (sample->from >= STEP_RANK_COUNT_MAX || sample->to >= STEP_RANK_COUNT_MAX)
		return -EINVAL;
	return link_flows_add(&judge->comm->links, sample, time.value);
}

/* Growth of a counter of a rank's ports, a second; false when it is not more than before. */
static bool grows(const struct judge *judge, uint32_t rank, enum metric metric, int64_t from_ns,
	int64_t until_ns, double least_per_s, double *per_s)
{
	const struct evidence *evidence;
	double now, before = 0;

	if (rank >= judge->rank_end)
		return false;
	evidence = judge->ranks[rank].evidence;
	if (!evidence_rate(evidence, metric, from_ns, until_ns, &now))
		return false;
	(void)evidence_rate(
		evidence, metric, from_ns - EVIDENCE_BEFORE_NS, from_ns - SAMPLE_NS, &before);
	*per_s = now * 1e9;
	return *per_s > least_per_s && now > COUNTER_FACTOR * before;
}

/* Either end's ports may count what was amiss between them. */
static bool pair_grows(const struct judge *judge, const struct link_pair *pair, enum metric sender,
	enum metric receiver, int64_t from_ns, int64_t until_ns, double least_per_s, double *per_s)
{
	return grows(judge, pair->from, sender, from_ns, until_ns, least_per_s, per_s) ||
	       grows(judge, pair->to, receiver, from_ns, until_ns, least_per_s, per_s);
}

/* What the ports count decides between loss, a bad link and a full path. */
static enum cause find_cause(const struct judge *judge, const struct link_finding *finding,
	int64_t from_ns, int64_t until_ns, struct verdict *verdict, char *detail, size_t capacity)
{
	const struct link_pair *worst = &finding->pairs[0];
	double per_s = 0;

	verdict->rejected_count = 0;
	if (finding->retries_exceeded) {
		snprintf(detail, capacity, "; requests ended with retry-exceeded");
		return CAUSE_NIC_RETRANSMIT;
	}
	if (pair_grows(judge, worst, METRIC_RDMA_RETRANSMITS, METRIC_RDMA_OUT_OF_ORDER, from_ns,
		    until_ns, LINK_RETRANSMITS_PER_S_MIN, &per_s)) {
		snprintf(detail, capacity, "; %.1f retransmits/s on the ports", per_s);
		return CAUSE_NIC_RETRANSMIT;
	}
	verdict_reject(
		verdict, CAUSE_NIC_RETRANSMIT, "no more retransmits on the ports than before");
	if (pair_grows(judge, worst, METRIC_RDMA_LINK_ERRORS, METRIC_RDMA_LINK_ERRORS, from_ns,
		    until_ns, ERRORS_PER_S_MIN, &per_s)) {
		snprintf(detail, capacity, "; %.1f link errors/s on the ports", per_s);
		return CAUSE_NIC_LINK;
	}
	if (pair_grows(judge, worst, METRIC_RDMA_CONGESTION, METRIC_RDMA_CONGESTION, from_ns,
		    until_ns, LINK_CONGESTION_PER_S_MIN, &per_s)) {
		snprintf(detail, capacity, "; %.0f congestion marks/s on the ports", per_s);
		return CAUSE_PATH_CONGESTION;
	}
	if (finding->named && finding->all_of_rank) {
		verdict_reject(verdict, CAUSE_PATH_CONGESTION, "all of the rank's traffic is slow");
		return CAUSE_NIC_LINK;
	}
	verdict_reject(verdict, CAUSE_NIC_LINK,
		finding->named ? "the rank's other pairs are as fast as before"
			       : "no one rank is an end of the slow pairs");
	return CAUSE_PATH_CONGESTION;
}

static bool touches(const struct link_pair *pair, uint32_t rank)
{
	return pair->from == rank || pair->to == rank;
}

/*
 * A rank that alone loses packets, and did not before, is whose link it is, if it is an end of the
 * slowest flow: few of the requests that stall for it have times (UCX asks for one completion in 64), so
 * others' may seem as slow. Or if transfers are long since then. But where flows name a rank that it has
 * nothing to do with, it is not known which it is, also when their times have become usual ones.
 */
static bool name_by_loss(struct judge *judge, const struct loss_finding *loss,
	const struct verdict *told, struct link_finding *finding)
{
	struct loss_watch *watch = &judge->comm->loss;
	bool proven = watch->proven && watch->rank == loss->rank;
	uint32_t kept = 0;

	proven |= told->rank_count && told->ranks[0] == loss->rank;
	proven |= finding->slow_count && touches(&finding->pairs[0], loss->rank);
	if (finding->named && finding->rank != loss->rank &&
		!touches(&finding->pairs[0], loss->rank))
		watch->doubted = true;
	if (watch->doubted)
		finding->named = false;
	if (watch->doubted || !proven)
		return false;
	finding->named = true;
	finding->rank = loss->rank;
	for (uint32_t i = 0; i < finding->pair_count; i++) {
		if (touches(&finding->pairs[i], loss->rank))
			finding->pairs[kept++] = finding->pairs[i];
	}
	finding->pair_count = kept;
	return true;
}

static void tell_loss(const struct loss_finding *loss, const struct link_finding *finding,
	struct verdict *verdict)
{
	struct verdict_evidence *evidence = &verdict->evidence[0];
	const struct link_pair *worst = &finding->pairs[0];
	int length = snprintf(evidence->detail, sizeof(evidence->detail),
		"%s rank %u: %.1f packets/s lost, of others at most %.1f",
		loss->received ? "sent to" : "sent by", loss->rank, loss->per_s,
		loss->others_per_s);

	if (finding->pair_count && worst->usual_ns > 0)
		snprintf(evidence->detail + length, sizeof(evidence->detail) - (size_t)length,
			"; rank %u to rank %u: requests complete after %.2f ms, usually %.2f",
			worst->from, worst->to, worst->now_ns / 1e6, worst->usual_ns / 1e6);
	verdict->cause = CAUSE_NIC_RETRANSMIT;
	verdict->rejected_count = 0;
}

static void tell_slow(const struct judge *judge, const struct link_finding *finding,
	int64_t from_ns, int64_t until_ns, struct verdict *verdict)
{
	struct verdict_evidence *evidence = &verdict->evidence[0];
	const struct link_pair *worst = &finding->pairs[0];
	char more[64] = "";

	verdict->cause =
		(uint8_t)find_cause(judge, finding, from_ns, until_ns, verdict, more, sizeof(more));
	snprintf(evidence->detail, sizeof(evidence->detail),
		"rank %u to rank %u: requests complete after %.2f ms, usually %.2f; other pairs "
		"%.2f%s",
		worst->from, worst->to, worst->now_ns / 1e6, worst->usual_ns / 1e6,
		finding->control_ns / 1e6, more);
}

bool judge_link_locate(struct judge *judge, double share, int64_t from_ns, int64_t until_ns,
	struct verdict *verdict)
{
	double step_ns = run_step_ns(&judge->comm->run);
	struct link_finding finding = {0};
	struct loss_finding loss;
	bool slow = link_flows_find(
		&judge->comm->links, from_ns, until_ns, LINK_SHARE_MIN * share, &finding);
	bool lost = judge_loss_find(judge, from_ns, until_ns, &loss) && loss.fresh &&
		    name_by_loss(judge, &loss, verdict, &finding);

	if (!slow && !lost)
		return false;
	if (lost && !finding.pair_count &&
		link_flows_worst_of(&judge->comm->links, loss.rank, loss.received, from_ns,
			until_ns, &finding.pairs[0], &finding.share))
		finding.pair_count = 1;
	if (!finding.named && verdict->rank_count)
		return true; /* told when it could be told apart */
	verdict->rank_count = finding.named ? 1 : 0;
	verdict->ranks[0] = finding.rank;
	verdict->pairs.count =
		finding.pair_count < VERDICT_PAIRS_MAX ? finding.pair_count : VERDICT_PAIRS_MAX;
	for (uint32_t i = 0; i < verdict->pairs.count; i++)
		verdict->pairs.list[i] =
			(struct verdict_pair){finding.pairs[i].from, finding.pairs[i].to};
	if (lost)
		tell_loss(&loss, &finding, verdict);
	else
		tell_slow(judge, &finding, from_ns, until_ns, verdict);
	verdict->evidence_count = 1;
	verdict->evidence[0].kind = verdict->cause;
	verdict->evidence[0].overlap_ms_per_step = finding.share * step_ns / 1e6;
	verdict->evidence[0].control_ms_per_step = 0;
	verdict->sure.share_explained = fmin(finding.share / fmax(share, 1e-9), 1);
	return true;
}
