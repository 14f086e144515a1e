/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/explain/causes.h"

#include "analysis/base/evidence_source.h"
#include "analysis/policy.h"

static const struct cause_rule rules[CAUSE_NR] = {
#define RANK_CAUSE(id, number, text, class, before, proves, needs, least, certain, function,       \
	words, means, what_to_do)                                                                  \
	[CAUSE_##id] = {.name = (text),                                                            \
		.phrase = (words),                                                                 \
		.meaning = (means),                                                                \
		.advice = (what_to_do),                                                            \
		.verdict_class = (class),                                                          \
		.subject = SUBJECT_RANK,                                                           \
		.precedence = (before),                                                            \
		.proof = (proves),                                                                 \
		.sources = (needs),                                                                \
		.share_min = (least),                                                              \
		.share_certain = (certain)},
#define FOUND_CAUSE(id, text, class, of, words, means, what_to_do)                                 \
	[CAUSE_##id] = {.name = (text),                                                            \
		.phrase = (words),                                                                 \
		.meaning = (means),                                                                \
		.advice = (what_to_do),                                                            \
		.verdict_class = (class),                                                          \
		.subject = (of)},
#define LINK_CAUSE(id, number, text, function, words, means, what_to_do)                           \
	FOUND_CAUSE(id, text, VERDICT_COMM_SLOW, SUBJECT_LINK, words, means, what_to_do)
#define JOB_CAUSE(id, number, text, function, words, means, what_to_do)                            \
	FOUND_CAUSE(id, text, VERDICT_WORKLOAD_IMBALANCE, SUBJECT_JOB, words, means, what_to_do)
#include "analysis/explain/causes.def"
#undef RANK_CAUSE
#undef LINK_CAUSE
#undef JOB_CAUSE
};

const uint8_t cause_order[CAUSE_ROWS] = {
#define RANK_CAUSE(id, ...) CAUSE_##id,
#define LINK_CAUSE(id, ...) CAUSE_##id,
#define JOB_CAUSE(id, ...) CAUSE_##id,
#include "analysis/explain/causes.def"
#undef RANK_CAUSE
#undef LINK_CAUSE
#undef JOB_CAUSE
};

const struct cause_rule *cause_rule(enum cause cause)
{
	return &rules[(size_t)cause < CAUSE_NR ? cause : CAUSE_UNKNOWN];
}

const char *cause_name(enum cause cause)
{
	const struct cause_rule *rule = cause_rule(cause);

	return rule->name ? rule->name : "unknown";
}
