/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decode, analyse, decide: one pass over frames, live or from a record. The same frames with
 * the same receive times give the same verdicts, byte for byte: no clock is read here. One
 * thread.
 */
#ifndef SLOWRANK_COORDINATOR_PIPELINE_H
#define SLOWRANK_COORDINATOR_PIPELINE_H

#include "coordinator/report/model.h"

struct pipeline;

struct pipeline_options {
	/* Called for each alert, update and recovery, in order; may be NULL. */
	void (*on_verdict)(void *context, enum verdict_event event, const struct verdict *verdict);
	void *context;
};

/* Returns 0 or -ENOMEM. The caller owns it. */
int pipeline_create(const struct pipeline_options *options, struct pipeline **pipeline)
	__attribute__((warn_unused_result));
void pipeline_destroy(struct pipeline *pipeline); /* NULL is fine */

/*
 * on_backlog is called once when batches come in late (late: true; latest_ns: by how much), and once when no
 * probe's do any more (latest_ns: by how much at most). coordinator/backlog.h.
 */
void pipeline_watch_backlog(struct pipeline *pipeline,
	void (*on_backlog)(void *context, bool late, int64_t latest_ns), void *context);

/*
 * on_missing is called once, when for PIPELINE_MISSING_MS fewer ranks are known than the world has: count of
 * them, and which ("2-3, 7", cut where there are many).
 */
enum { PIPELINE_MISSING_MS = 30000 };
void pipeline_watch_missing(struct pipeline *pipeline,
	void (*on_missing)(void *context, uint32_t count, uint32_t world_size, const char *which),
	void *context);

/*
 * keep is called for each batch that is taken, before anything is made of it. After a negative errno of keep the
 * batch is not taken: pipeline_push() returns that error, and the same batch may come again.
 */
void pipeline_keep_first(struct pipeline *pipeline, int (*keep)(void *context), void *context);

/* As judge_watch_sheets(): analysis/judge.h. */
struct explanation;
struct gate_sheet;
void pipeline_watch_sheets(struct pipeline *pipeline,
	void (*on_sheet)(
		void *context, const struct gate_sheet *sheet, const struct explanation *why),
	void *context);

/* As judge_watch_steps(). */
struct judged_step;
void pipeline_watch_steps(struct pipeline *pipeline,
	void (*on_step)(void *context, const struct judged_step *step), void *context);

/* Add to job_ns for the time of the epoch; does not change once a step is judged. */
int64_t pipeline_unix_offset_ns(const struct pipeline *pipeline);

/*
 * Batches of other jobs than job_id are refused from now on; NULL: than that of the first batch. A record is
 * taken as it is.
 */
void pipeline_serve_one_job(struct pipeline *pipeline, const char *job_id);

/* Batches are not proven: one that tells of more restarts takes no rank from a probe that is heard. */
void pipeline_doubt_restarts(struct pipeline *pipeline);

/* Alerts within these limits are held back from on_verdict (coordinator/output/alert_gate.h). Before frames. */
void pipeline_limit_alerts(struct pipeline *pipeline, const struct alert_limits *limits);

enum pipeline_result {
	PIPELINE_ACCEPTED = 0,
	PIPELINE_DUPLICATE = 1, /* seen before: acknowledge again, do not record */
	PIPELINE_REFUSED =
		2, /* not decodable, another version or job: reply->why says so; do not record */
};

/*
 * Takes one encoded batch as received at that time. Fills reply (all but reply_sent). Returns
 * an enum pipeline_result or a negative errno (no memory); after an error it can go on.
 */
int pipeline_push(struct pipeline *pipeline, const void *bytes, size_t length,
	struct job_ns received, struct message_reply *reply) __attribute__((warn_unused_result));

/*
 * Answers what somebody asks of the job: a look at a rank (asked_looks.h). What answer borrows is valid until the next
 * call for this pipeline.
 */
void pipeline_ask(struct pipeline *pipeline, const struct message_question *question,
	struct job_ns received, struct message_answer *answer);

/*
 * Whether a probe has told of a rank that the job has: of the world as it was told first, or since by such a probe. One that
 * took it from a probe, as of a rank that was started again, has not while that one is still heard.
 */
bool pipeline_probe_is_of_world(const struct pipeline *pipeline, uint64_t probe_id);

/* True when every probe heard of has sent its final batch. */
bool pipeline_complete(const struct pipeline *pipeline);

/* Analyses what is still open; call once, after the last frame. */
int pipeline_finish(struct pipeline *pipeline) __attribute__((warn_unused_result));

/* The report so far. */
const struct report_model *pipeline_report(struct pipeline *pipeline);

#endif
