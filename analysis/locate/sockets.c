/* SPDX-License-Identifier: Apache-2.0 */
/* Whose link makes transfers long: by who is in all that are, and by sockets. */
#include <math.h>
#include <stdio.h>

#include "analysis/base/robust_stats.h"
#include "analysis/judge/internal.h"

/* Counters at the ends of long steps are sampled then. */
static int64_t end_within_ns(const struct judge *judge)
{
	return judge->block.time_ns >= SAMPLE_NS ? EVIDENCE_END_NS : 0;
}

/* How busy a rank's sockets were since a step began, and before that. */
static bool busy_since(
	const struct judge *judge, uint32_t rank, int64_t from_ns, int64_t until_ns, double *rate)
{
	const struct rank_state *state = &judge->ranks[rank];

	if (judge->comm->sockets.by_class) {
		*rate = (double)state->busy.inside;
		return state->busy.error >= 0;
	}
	return evidence_rate_since(
		state->evidence, METRIC_TCP_BUSY_NS, from_ns, until_ns, end_within_ns(judge), rate);
}

/* While a verdict holds: before its onset, of which samples are kept for half a minute only. */
static bool busy_before(const struct judge *judge, uint32_t rank, int64_t until_ns, double *rate)
{
	const struct rank_state *state = &judge->ranks[rank];

	if (judge->comm->sockets.by_class) {
		*rate = (double)state->busy.outside;
		return state->busy.error >= 0;
	}
	if (judge->comm->sockets.remembers) {
		*rate = (double)state->busy.before;
		return *rate >= 0;
	}
	return evidence_rate_before(
		state->evidence, METRIC_TCP_BUSY_NS, until_ns, end_within_ns(judge), rate);
}

void judge_comm_remember(struct judge *judge, int64_t onset_ns)
{
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		double rate;

		judge->ranks[r].busy.before =
			busy_before(judge, r, onset_ns, &rate) ? (float)rate : -1.0F;
	}
	judge_busy_noise(judge, onset_ns, &judge->comm->sockets.noise);
	judge->comm->sockets.remembers = true;
}

/* How busy each rank's sockets were, more than before and more than the others'. */
struct busy {
	double usual, most;
	uint32_t rank_count, busiest;
	bool everywhere; /* of most ranks */
	struct busy_noise noise;
};

static double busy_over(const struct judge *judge, uint32_t rank, int64_t from_ns, int64_t until_ns,
	double usual, bool *known)
{
	double now, before;

	*known = busy_since(judge, rank, from_ns, until_ns, &now);
	if (!*known)
		return 0;
	if (busy_before(judge, rank, from_ns, &before) && before > usual)
		usual = before;
	return now > usual ? now - usual : 0;
}

static bool measure_busy(struct judge *judge, int64_t from_ns, int64_t until_ns, struct busy *busy)
{
	uint32_t sampled = 0;

	*busy = (struct busy){0};
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		double rate;
		int64_t value;

		sampled += evidence_value(
			judge->ranks[r].evidence, METRIC_TCP_BUSY_NS, until_ns, &value);
		if (busy_since(judge, r, from_ns, until_ns, &rate))
			judge->scratch[busy->rank_count++] = rate;
	}
	/* Hosts are sampled one after the other; one that was not yet may be the one. */
	if (busy->rank_count < MOST_SHARE * sampled && until_ns - from_ns < SAMPLE_NS)
		return false;
	if (busy->rank_count * 2 < sampled && until_ns - from_ns < 2 * SAMPLE_NS)
		return false;
	busy->usual = lower_median_double(judge->scratch, busy->rank_count);
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		bool known = false;
		double over = busy_over(judge, r, from_ns, until_ns, busy->usual, &known);

		if (known && over > busy->most) {
			busy->most = over;
			busy->busiest = r;
		}
	}
	return busy->rank_count >= 2;
}

bool judge_comm_began(const struct judge *judge, uint32_t rank, int64_t quiet_ns, int64_t slow_ns,
	int64_t *began_ns)
{
	const struct evidence *evidence = judge->ranks[rank].evidence;
	int64_t until_ns = judge_now_ns(judge);
	double usual, now;

	return busy_before(judge, rank, quiet_ns, &usual) &&
	       evidence_rate(evidence, METRIC_TCP_BUSY_NS, slow_ns, until_ns, &now) &&
	       evidence_began(
		       evidence, METRIC_TCP_BUSY_NS, quiet_ns, until_ns, usual, now, began_ns);
}

static double rate_of(const struct judge *judge, uint32_t rank, unsigned metric, int64_t from_ns,
	int64_t until_ns)
{
	double rate = 0;

	(void)evidence_rate(judge->ranks[rank].evidence, metric, from_ns, until_ns, &rate);
	return rate;
}

static double usual_rate(struct judge *judge, unsigned metric, int64_t from_ns, int64_t until_ns)
{
	size_t count = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		double rate;
		if (judge->ranks[r].in_block &&
			evidence_rate(judge->ranks[r].evidence, metric, from_ns, until_ns, &rate))
			judge->scratch[count++] = rate;
	}
	return lower_median_double(judge->scratch, count);
}

static void tell_link(struct judge *judge, const struct busy *busy, int64_t from_ns,
	int64_t until_ns, struct verdict *verdict)
{
	const struct comm_state *comm = judge->comm;
	double step_ns = comm->sockets.by_class
				 ? (double)comm->run.loud_ns / (double)comm->run.loud_blocks
				 : run_step_ns(&comm->run);
	uint32_t worst = busy->busiest;
	double busy_now = 0;
	double sent = rate_of(judge, worst, METRIC_TCP_BYTES_SENT, from_ns, until_ns);
	double again = rate_of(judge, worst, METRIC_TCP_BYTES_RETRANSMITTED, from_ns, until_ns);
	double usual_again = usual_rate(judge, METRIC_TCP_BYTES_RETRANSMITTED, from_ns, until_ns);
	struct verdict_evidence *evidence = &verdict->evidence[0];
	(void)busy_since(judge, worst, from_ns, until_ns, &busy_now);
	bool lossy = sent > 0 && again > RETRANSMIT_SHARE_MIN * sent &&
		     again > COUNTER_FACTOR * usual_again;

	verdict->cause = lossy ? CAUSE_NIC_RETRANSMIT : CAUSE_NIC_LINK;
	verdict->evidence_count = 1;
	*evidence = (struct verdict_evidence){.kind = verdict->cause,
		.overlap_ms_per_step = busy_now * step_ns / 1e6,
		.control_ms_per_step = busy->usual * step_ns / 1e6};
	snprintf(evidence->detail, sizeof(evidence->detail),
		"sockets of rank %u with data to send; %.1f KiB sent, %.1f KiB sent again a step",
		worst, sent * step_ns / 1024, again * step_ns / 1024);
	verdict->rejected_count = 0;
	verdict_reject(verdict, lossy ? CAUSE_NIC_LINK : CAUSE_NIC_RETRANSMIT,
		lossy ? "explained by what was sent again" : "hardly anything was sent again");
}

/* The rank that leaves collectives late, again and again, when no socket tells. */
static bool locate_by_lag(struct judge *judge, struct verdict *verdict)
{
	const struct comm_state *comm = judge->comm;
	double most = 0, second = 0;
	uint32_t rank = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		double lag = judge->ranks[r].in_block ? judge->ranks[r].comm : 0;

		if (lag > most) {
			second = most;
			most = lag;
			rank = r;
		} else if (lag > second) {
			second = lag;
		}
	}
	if (most < HALF_SHARE * comm->signal.level || most < LAG_FACTOR * second ||
		most < COMM_SHARE_MIN / 2)
		return false;
	verdict->rank_count = 1;
	verdict->ranks[0] = rank;
	verdict->cause = CAUSE_UNKNOWN;
	verdict->evidence_count = 0;
	verdict->sure.share_explained = fmin(most / fmax(comm->signal.level, 1e-9), 1);
	return true;
}

/* Sockets are sampled: what they say about this change may only come with the next sample. */
static bool has_sockets(const struct judge *judge, int64_t until_ns)
{
	int64_t value;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		if (judge->ranks[r].in_block && evidence_value(judge->ranks[r].evidence,
							METRIC_TCP_BUSY_NS, until_ns, &value))
			return true;
	}
	return false;
}

static bool is_suspect(const struct rank_state *state)
{
	return state->in_block && state->link.count && state->link.least >= TRANSFER_SLOW;
}

/*
 * Where no socket tells: the ranks that all transfers to other hosts are slow of. They are named
 * when they are few and on one host; ranks of several hosts that are always in it together cannot
 * be told apart.
 */
static bool locate_by_members(struct judge *judge, double share, struct verdict *verdict)
{
	double step_ns = run_step_ns(&judge->comm->run);
	double least = INFINITY;
	uint32_t known = 0, suspects = 0, host = UINT32_MAX;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *state = &judge->ranks[r];

		known += state->in_block && state->link.count;
		if (!is_suspect(state))
			continue;
		if (suspects++ && state->host != host)
			return false;
		host = state->host;
		least = fmin(least, (double)state->link.least);
	}
	if (!suspects || suspects * 2 > known || suspects > VERDICT_RANKS_MAX)
		return false;
	verdict->rank_count = 0;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		if (is_suspect(&judge->ranks[r]))
			verdict->ranks[verdict->rank_count++] = r;
	}
	verdict->cause = CAUSE_NIC_LINK;
	verdict->sure.share_explained = 1;
	verdict->rejected_count = 0;
	verdict->evidence_count = 1;
	verdict->evidence[0] = (struct verdict_evidence){
		.kind = CAUSE_NIC_LINK, .overlap_ms_per_step = share * step_ns / 1e6};
	snprintf(verdict->evidence[0].detail, sizeof(verdict->evidence[0].detail),
		"all their transfers to other hosts take %.2f times as long as expected, and more",
		least);
	return true;
}

/* By how much busier a rank's sockets are than they were, if clearly; 0 for other ranks. */
static double grown_by(const struct judge *judge, uint32_t rank, int64_t from_ns, int64_t until_ns,
	bool *known, bool *remembered)
{
	double now = 0, before = 0;

	*known = busy_since(judge, rank, from_ns, until_ns, &now);
	*remembered = *known && busy_before(judge, rank, from_ns, &before);
	return *remembered && now >= BUSY_GROWN_FACTOR * before ? now - before : 0;
}

/*
 * Most ranks' sockets became busier than they were, clearly, and by a part of what the worst did
 * that no chance explains: that is no one's link, though roles differ in what they send.
 */
static bool grown_everywhere(
	struct judge *judge, int64_t from_ns, int64_t until_ns, double share, bool *remembered)
{
	double most = 0;
	size_t known_count = 0, count = 0, grown = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		bool known, has_before;
		double growth = grown_by(judge, r, from_ns, until_ns, &known, &has_before);

		known_count += known;
		if (!has_before)
			continue;
		judge->scratch[count++] = growth;
		most = fmax(most, growth);
	}
	for (size_t i = 0; i < count; i++)
		grown += judge->scratch[i] >= BUSY_GROWN_ALIKE * most;
	*remembered = count * 2 > known_count;
	return *remembered && most >= LINK_SHARE_MIN * share && grown * 2 > known_count;
}

/*
 * Of those that go on in step, a sender whose link is limited has data waiting all the time, and the
 * others only while acknowledgements are late: seen, 2.5 times as much more of it at the limited end (two
 * ranks over NCCL's sockets, a token bucket at either). So where one host's ranks stand out of
 * others that send as much, it is their link, though everybody's sockets became busier. Names them.
 */
static bool one_stands_out(struct judge *judge, struct busy *busy, int64_t from_ns,
	int64_t until_ns, struct verdict *verdict)
{
	double most = 0, sent;
	uint32_t alike = 0, named = 0;
	bool known, remembered;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		double growth = grown_by(judge, r, from_ns, until_ns, &known, &remembered);

		if (growth > most) {
			most = growth;
			busy->busiest = r;
		}
	}
	sent = rate_of(judge, busy->busiest, METRIC_TCP_BYTES_SENT, from_ns, until_ns);
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		double own = rate_of(judge, r, METRIC_TCP_BYTES_SENT, from_ns, until_ns);
		double growth = grown_by(judge, r, from_ns, until_ns, &known, &remembered);

		if (known && growth < HALF_SHARE * most) {
			alike += own >= sent / 2 && own <= 2 * sent;
			continue;
		}
		if (!known)
			continue;
		if (named == VERDICT_RANKS_MAX ||
			judge->ranks[r].host != judge->ranks[busy->busiest].host)
			return false;
		verdict->ranks[named++] = r;
	}
	if (sent <= 0 || named * 2 > busy->rank_count || alike < named)
		return false;
	verdict->rank_count = named;
	busy->most = most;
	return true;
}

/* Ranks whose sockets became at least half as much busier, beyond the usual, as the worst's. */
static void name_busiest(struct judge *judge, const struct busy *busy, int64_t from_ns,
	int64_t until_ns, struct verdict *verdict)
{
	verdict->rank_count = 0;
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		bool known = false;

		if (busy_over(judge, r, from_ns, until_ns, busy->usual, &known) >=
				HALF_SHARE * busy->most &&
			known && verdict->rank_count < VERDICT_RANKS_MAX)
			verdict->ranks[verdict->rank_count++] = r;
	}
}

/* All alike: no one link. Where there are only two ranks, it is the path between them. */
static void tell_congestion(struct judge *judge, const struct busy *busy, double share,
	int64_t from_ns, int64_t until_ns, struct verdict *verdict)
{
	bool pair = busy->rank_count == 2;
	double rate;

	verdict->rank_count = 0;
	for (uint32_t r = 0; r < judge->rank_end && pair; r++) {
		if (judge->ranks[r].in_block &&
			evidence_rate(judge->ranks[r].evidence, METRIC_TCP_BUSY_NS, from_ns,
				until_ns, &rate))
			verdict->ranks[verdict->rank_count++] = r;
	}
	verdict->cause = CAUSE_PATH_CONGESTION;
	verdict->evidence[0].kind = CAUSE_PATH_CONGESTION;
	verdict->sure.share_explained = fmin((busy->usual + busy->most) / fmax(share, 1e-9), 1);
}

/*
 * Most ranks of two hosts, of more, are named: one slow path between the two is likelier than two slow
 * ports at once. ends[]: the first rank of each.
 */
static bool is_pair(const struct judge *judge, const struct verdict *verdict, uint32_t ends[2])
{
	uint32_t there = 0, elsewhere = 0;

	if (verdict->rank_count < 2)
		return false;
	ends[0] = ends[1] = verdict->ranks[0];
	for (uint32_t i = 1; i < verdict->rank_count; i++) {
		uint32_t host = judge->ranks[verdict->ranks[i]].host;

		if (host == judge->ranks[ends[0]].host || host == judge->ranks[ends[1]].host)
			continue;
		if (ends[1] != ends[0])
			return false;
		ends[1] = verdict->ranks[i];
	}
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		const struct rank_state *state = &judge->ranks[r];
		bool at_end = state->host == judge->ranks[ends[0]].host ||
			      state->host == judge->ranks[ends[1]].host;

		there += state->in_block && at_end;
		elsewhere += state->in_block && !at_end;
	}
	return ends[1] != ends[0] && elsewhere > 0 && verdict->rank_count * 2 > there;
}

static void tell_pair(const uint32_t ends[2], struct verdict *verdict)
{
	verdict->cause = CAUSE_PATH_CONGESTION;
	verdict->evidence[0].kind = CAUSE_PATH_CONGESTION;
	snprintf(verdict->evidence[0].detail, sizeof(verdict->evidence[0].detail),
		"between the nodes of ranks %u and %u: their sockets have data to send, those of "
		"other nodes do not",
		ends[0], ends[1]);
	verdict->rejected_count = 0;
	verdict_reject(verdict, CAUSE_NIC_LINK, "two nodes are slow, so not one port");
}

/*
 * Where too little is known of the time before: how differently the sockets of those that are not named changed.
 * Named are the largest of as many as there are: the others alone vary a little less than all would.
 */
static void noise_of_others(const struct judge *judge, const struct verdict *verdict,
	int64_t from_ns, int64_t until_ns, struct busy_noise *noise)
{
	double sum = 0, squares = 0, count = 0;

	for (uint32_t r = 0; r < judge->rank_end; r++) {
		double now, before;

		if (verdict_names(verdict, r) || !busy_since(judge, r, from_ns, until_ns, &now) ||
			!busy_before(judge, r, from_ns, &before))
			continue;
		sum += now - before;
		squares += (now - before) * (now - before);
		count++;
	}
	if (count < BUSY_OTHERS_MIN)
		return;
	*noise = (struct busy_noise){
		.deviation = sqrt(fmax(squares - sum * sum / count, 0) / (count - 1)),
		.freedom = count - 1,
		.of_changes = true};
}

/* By how much a rank's sockets are busier than chance makes them; 0 and less: they are not. */
static double surely_busier_by(const struct judge *judge, const struct busy *busy, uint32_t rank,
	int64_t from_ns, int64_t until_ns)
{
	bool known, remembered;
	double growth = busy->everywhere
				? grown_by(judge, rank, from_ns, until_ns, &known, &remembered)
				: busy_over(judge, rank, from_ns, until_ns, busy->usual, &known);

	return growth - judge_busy_chance(judge, &busy->noise, rank, from_ns, until_ns);
}

/* Those that are named are surely busier: on average, of a small change each; where nobody is, most ranks of some. */
static bool is_sure(const struct judge *judge, const struct busy *busy, int64_t from_ns,
	int64_t until_ns, bool small, const struct verdict *verdict)
{
	uint32_t stride = judge->rank_end / RANKS_ENOUGH + 1, looked_at = 0, sure = 0;
	double surely = 0;

	for (uint32_t i = 0; i < verdict->rank_count; i++) {
		uint32_t rank = verdict->ranks[i];

		if (small && !judge_surely_changed(judge, rank, from_ns, until_ns))
			return false;
		surely += surely_busier_by(judge, busy, rank, from_ns, until_ns);
	}
	for (uint32_t r = 0; r < judge->rank_end && !verdict->rank_count; r += stride) {
		if (!judge->ranks[r].in_block)
			continue;
		looked_at++;
		sure += small ? judge_surely_changed(judge, r, from_ns, until_ns)
			      : surely_busier_by(judge, busy, r, from_ns, until_ns) > 0;
	}
	return verdict->rank_count ? small || surely > 0 : sure * 2 > looked_at;
}

/* By how much transfers are longer, in the steps that are looked at. */
static double share_located(const struct comm_state *comm)
{
	return comm->sockets.by_class
		       ? (double)comm->run.sums.delay_ns / fmax((double)comm->run.loud_ns, 1)
		       : run_share(&comm->run);
}

static bool locate_by_sockets(
	struct judge *judge, int64_t from_ns, int64_t until_ns, struct verdict *verdict)
{
	bool by_class = judge->comm->sockets.by_class;
	double share = share_located(judge->comm);
	bool small = by_class || (judge->comm->run.small && share < COMM_SHARE_MIN);
	struct busy busy;

	if (!measure_busy(judge, from_ns, until_ns, &busy))
		/* Where queue pairs are seen and none is slow, leaving late is no link's doing: seen with
		 * ranks that take the CPU from each other. */
		return !by_class && !has_sockets(judge, until_ns) &&
		       judge->comm->links.count == 0 && !small &&
		       (locate_by_lag(judge, verdict) || locate_by_members(judge, share, verdict));
	bool remembered;

	busy.everywhere = grown_everywhere(judge, from_ns, until_ns, share, &remembered);
	if (!busy.everywhere && busy.most < LINK_SHARE_MIN * share)
		return false;
	bool alone = busy.everywhere && one_stands_out(judge, &busy, from_ns, until_ns, verdict);

	if (!busy.everywhere)
		name_busiest(judge, &busy, from_ns, until_ns, verdict);
	tell_link(judge, &busy, from_ns, until_ns, verdict);
	verdict->sure.share_explained = fmin(busy.most / fmax(share, 1e-9), 1);
	uint32_t ends[2];

	if (!busy.everywhere && is_pair(judge, verdict, ends))
		tell_pair(ends, verdict);
	else if (!alone && (busy.everywhere || verdict->rank_count * 2 > busy.rank_count))
		tell_congestion(judge, &busy, share, from_ns, until_ns, verdict);
	if (judge->comm->sockets.remembers)
		busy.noise = judge->comm->sockets.noise;
	else
		judge_busy_noise(judge, from_ns, &busy.noise);
	if (busy.noise.freedom < BUSY_FREEDOM_MIN)
		noise_of_others(judge, verdict, from_ns, until_ns, &busy.noise);
	return is_sure(judge, &busy, from_ns, until_ns, small, verdict);
}

/* What sockets do in the steps of a run's class, and in others. False when few of them tell. */
static bool split_by_class(struct judge *judge, int64_t until_ns)
{
	const struct run *run = &judge->comm->run;
	struct evidence_span spans[STEP_HISTORY];
	uint32_t known = 0, sampled = 0;
	size_t count = 0;
	uint64_t first = judge->times.next > STEP_HISTORY ? judge->times.next - STEP_HISTORY : 0;

	for (uint64_t s = first > run->first_step ? first : run->first_step; s < judge->times.next;
		s++) {
		int64_t start_ns = step_start_ns(&judge->times, s);

		if (s % run->every == run->phase)
			spans[count++] = (struct evidence_span){
				start_ns, start_ns + judge->times.lengths_ns[(s) % STEP_HISTORY]};
	}
	for (uint32_t r = 0; r < judge->rank_end; r++) {
		struct rank_state *state = &judge->ranks[r];
		struct evidence_split split = {.error = -1};
		int64_t value;

		sampled += evidence_value(state->evidence, METRIC_TCP_BUSY_NS, until_ns, &value);
		known += evidence_split_rate(
			state->evidence, METRIC_TCP_BUSY_NS, spans, count, until_ns, &split);
		state->busy.inside = (float)split.inside;
		state->busy.outside = (float)split.outside;
		state->busy.error = (float)split.error;
	}
	return known >= 2 && known >= MOST_SHARE * sampled;
}

bool judge_comm_locate(
	struct judge *judge, int64_t from_ns, int64_t until_ns, struct verdict *result)
{
	struct comm_state *comm = judge->comm;
	struct verdict verdict = *result;
	bool located = judge_link_locate(judge, run_share(&comm->run), from_ns, until_ns, result);

	if (located)
		return true;
	comm->sockets.by_class = comm->run.every && split_by_class(judge, until_ns);
	located = locate_by_sockets(judge, from_ns, until_ns, &verdict);
	if (comm->sockets.by_class && !located) {
		comm->sockets.by_class = false;
		verdict = *result;
		located = locate_by_sockets(judge, from_ns, until_ns, &verdict);
	}
	comm->sockets.by_class = false;
	if (located)
		*result = verdict;
	return located;
}
