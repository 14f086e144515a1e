#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scorer, scored: reporters that say everything, nothing, or it too late earn nothing."""
import copy
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import changes  # noqa: E402
import recuts  # noqa: E402
import replay  # noqa: E402
import rules  # noqa: E402

STEP_S, START_S = 0.1, 1_000_000_000.0
RANKS = range(4)
FAULTS = ({"kind": "sleep", "rank": 1, "first": 100, "last": 140},
          {"kind": "gpu-hog", "rank": 2, "first": 250, "last": 290})


def truth_of(windows=FAULTS, steps=400, growth=1.5, **more):
    begins, now = [], START_S
    for step in range(steps):
        begins.append(now)
        slow = any(w["first"] <= step < w["last"] for w in windows)
        now += STEP_S * (growth if slow else 1)
    return {"program": "made", "step_begins_s": begins, "windows": list(windows), **more}


def verdict_of(truth, window, after_s=0.4, **more):
    """The verdict of a perfect reporter."""
    onset = truth["step_begins_s"][window["first"]]
    classes, causes = rules.EXPECTED[window["kind"]]
    verdict = {"class": sorted(classes)[0], "ranks": [window["rank"]],
               "cause": sorted(causes)[0] if causes else "input-pipeline", "slowdown": 1.5,
               "onset_s": onset, "alert_s": onset + after_s, **more}
    verdict["onset_unix_ns"] = round(verdict.pop("onset_s") * 1e9)
    verdict["alert_unix_ns"] = round(verdict.pop("alert_s") * 1e9)
    return verdict


def report_of(truth, *verdicts, steps=None):
    return {"job": {"steps": len(truth["step_begins_s"]) if steps is None else steps},
            "verdicts": [dict(v, id=i) for i, v in enumerate(verdicts)]}


def score(truth, *verdicts, **more):
    scored = rules.score(truth, report_of(truth, *verdicts, **more))
    return rules.sums([scored])


class Reporters(unittest.TestCase):
    def setUp(self):
        self.truth = truth_of()
        self.right = [verdict_of(self.truth, w) for w in FAULTS]

    def check(self, verdicts, **wanted):
        sums = score(self.truth, *verdicts)
        self.assertEqual({key: sums[key] for key in wanted}, wanted)

    def test_the_perfect_one_has_everything(self):
        sums = score(self.truth, *self.right)
        self.assertEqual(sums, {"windows": 2, **dict.fromkeys(rules.GOOD, 2), "false": 0,
                                "jobs with wrong steps": 0, "jobs": 1})

    def test_nothing_reported_scores_nothing(self):
        self.check([], windows=2, named=0, **{"in time": 0, "slow-down": 0, "false": 0})
        sums = rules.sums([rules.score(self.truth, None)])
        self.assertEqual((sums["windows"], sums["named"], sums["jobs with wrong steps"]), (2, 0, 1))

    def test_all_ranks_named_scores_nothing(self):
        together = [dict(v, ranks=list(RANKS)) for v in self.right]
        self.check(together, named=0, false=2)
        each = [dict(v, ranks=[rank]) for v in self.right for rank in RANKS]
        self.check(each, named=2, false=6)

    def test_every_rank_all_the_time_is_mostly_false(self):
        many = [verdict_of(self.truth, w, ranks=[rank], onset_s=at, alert_s=at + 0.4)
                for w in FAULTS for rank in RANKS for at in self.truth["step_begins_s"][::40]]
        sums = score(self.truth, *many)
        self.assertGreater(sums["false"], 70)

    def test_late_is_not_named_or_not_in_time(self):
        late = [verdict_of(self.truth, w, after_s=3) for w in FAULTS]
        self.check(late, named=2, **{"in time": 0, "slow-down": 2, "false": 0})
        over = [verdict_of(self.truth, w, after_s=20) for w in FAULTS]
        self.check(over, named=0, false=2)
        dated = [verdict_of(self.truth, w, onset_s=self.truth["step_begins_s"][w["first"] + 30])
                 for w in FAULTS]
        self.check(dated, named=0, false=2)

    def test_early_is_not_named(self):
        early = [verdict_of(self.truth, w, onset_s=self.truth["step_begins_s"][w["first"] - 10])
                 for w in FAULTS]
        self.check(early, named=0, false=2)

    def test_a_second_verdict_for_a_window_is_false(self):
        self.check([*self.right, self.right[0]], named=2, false=1)

    def test_wrong_class_cause_slow_down(self):
        for key, value, lost in (("class", "comm-slow", ("class", "cause")),
                                 ("cause", "unknown", ("cause",)), ("slowdown", 1.7, ("slow-down",)),
                                 ("slowdown", None, ("slow-down",))):
            changed = [dict(v, **{key: value}) for v in self.right]
            self.check(changed, named=2, **{k: 0 if k in lost else 2 for k in rules.GOOD[1:]})

    def test_the_slow_down_may_be_off_by_a_fifth_of_the_excess(self):
        self.check([dict(v, slowdown=1.59) for v in self.right], **{"slow-down": 2})
        self.check([dict(v, slowdown=1.61) for v in self.right], **{"slow-down": 0})

    def test_a_verdict_on_a_healthy_job_is_false(self):
        healthy = truth_of(windows=())
        self.assertEqual(score(healthy, self.right[0])["false"], 1)
        self.assertEqual(score(healthy)["false"], 0)

    def test_steps(self):
        for steps, wrong in ((400, 0), (393, 0), (408, 0), (391, 1), (80, 1), (0, 1)):
            self.assertEqual(score(self.truth, steps=steps)["jobs with wrong steps"], wrong, steps)
        cut = dict(self.truth, cut_in_record=True)
        self.assertEqual(score(cut, steps=80)["jobs with wrong steps"], 0)
        evaluated = dict(self.truth, other_passes=40)
        self.assertEqual(score(evaluated, steps=440)["jobs with wrong steps"], 0)
        self.assertEqual(score(evaluated, steps=450)["jobs with wrong steps"], 1)


class Windows(unittest.TestCase):
    def test_a_small_growth_is_neutral(self):
        truth = truth_of(growth=1.05)
        right = [verdict_of(truth, w) for w in FAULTS]
        sums = score(truth, *right)
        self.assertEqual((sums["windows"], sums["named"], sums["false"]), (0, 0, 0))
        sums = score(truth, *[dict(v, ranks=[3]) for v in right])
        self.assertEqual((sums["windows"], sums["false"]), (0, 2))

    def test_one_that_could_not_be_made_is_neutral(self):
        truth = truth_of([dict(FAULTS[0], applied=False, why="no cgroup")])
        sums = score(truth, verdict_of(truth, FAULTS[0]))
        self.assertEqual((sums["windows"], sums["false"]), (0, 0))

    def test_what_the_record_lost_does_not_count(self):
        truth = truth_of(lost_from_step=200)
        self.assertEqual(score(truth, verdict_of(truth, FAULTS[0]))["windows"], 1)

    def test_growth_is_that_of_the_steps_nearby(self):
        truth = truth_of(FAULTS[:1])
        begins = truth["step_begins_s"]
        truth["step_begins_s"] = begins[:260] + [  # the job becomes slower by itself, later
            begins[260] + 0.3 * i for i in range(len(begins) - 260)]
        self.assertAlmostEqual(rules.score(truth, None)["windows"][0]["growth"], 1.5, 2)

    def test_its_first_step_may_be_left_out(self):
        truth = truth_of(FAULTS[:1])
        for i in range(101, len(truth["step_begins_s"])):
            truth["step_begins_s"][i] += 2  # it took 2 s to set the fault up
        self.assertGreater(rules.score(truth, None)["windows"][0]["growth"], 1.9)
        truth["windows"] = [dict(FAULTS[0], measured_from=101)]
        self.assertAlmostEqual(rules.score(truth, None)["windows"][0]["growth"], 1.5, 2)

    def test_it_may_be_felt_before(self):
        truth = truth_of(FAULTS[:1])
        early = verdict_of(truth, FAULTS[0], onset_s=truth["step_begins_s"][92])
        self.assertEqual(score(truth, early)["named"], 0)
        truth["windows"] = [dict(FAULTS[0], since=90)]
        self.assertEqual(score(truth, early)["named"], 1)

    def test_several_culprits(self):
        both = dict(FAULTS[0], ranks=[0, 1])
        for any_of, named in ((False, {(0, 1)}), (True, {(0, 1), (0,), (1,)})):
            truth = truth_of([dict(both, any_of=any_of)])
            for ranks in ((0, 1), (0,), (1,), (2,), (0, 2), ()):
                sums = score(truth, verdict_of(truth, both, ranks=list(ranks)))
                self.assertEqual((sums["named"], sums["false"]),
                                 (1, 0) if ranks in named else (0, 1), (any_of, ranks))

    def test_a_period_gives_more_time(self):
        every_tenth = {"kind": "checkpoint", "rank": 0, "first": 100, "last": 200}
        truth = truth_of([every_tenth])
        self.assertEqual(score(truth, verdict_of(truth, every_tenth, after_s=2.9))["in time"], 1)
        self.assertEqual(score(truth, verdict_of(truth, every_tenth, after_s=3.2))["in time"], 0)

    def test_a_hang_counts_whatever_the_steps_say(self):
        stop = {"kind": "stop", "rank": 3, "first": 100, "last": 101}
        truth = truth_of([stop], growth=100)
        hang = verdict_of(truth, stop, after_s=5.5, cause="unknown", slowdown=None)
        sums = score(truth, hang)
        self.assertEqual([sums[key] for key in rules.GOOD], [1] * 5)
        self.assertEqual(score(truth, dict(hang, **{"class": "host-slow"}))["class"], 0)
        late = verdict_of(truth, stop, after_s=6.5, cause="unknown")
        self.assertEqual(score(truth, late)["in time"], 0)


class Verdicts(unittest.TestCase):
    def test_disturbed_spans(self):
        span = {"first": 195, "last": 205, "ranks": [0, 3], "why": "a backup"}
        truth = truth_of(disturbed=[span])
        at = {"onset_s": truth["step_begins_s"][200], "alert_s": truth["step_begins_s"][203]}
        for ranks, false in (([0], 0), ([0, 3], 0), ([1], 1), ([0, 1], 1)):
            self.assertEqual(
                score(truth, verdict_of(truth, FAULTS[0], ranks=ranks, **at))["false"], false)
        for of in ({"classes": ["compute-slow"]}, {"causes": ["minor-page-fault"]}):
            truth["disturbed"] = [dict(span, **of)]
            self.assertEqual(score(truth, verdict_of(truth, FAULTS[0], ranks=[0], **at))["false"], 1)

    def test_what_is_said_after_a_death_does_not_count(self):
        truth = truth_of()
        truth["ended_s"] = truth["step_begins_s"][350]
        for step, false in ((340, 1), (360, 0)):
            at = truth["step_begins_s"][step]
            verdict = verdict_of(truth, FAULTS[0], ranks=[3], onset_s=at, alert_s=at + 0.1)
            self.assertEqual(score(truth, verdict)["false"], false)

    def test_a_hang_before_the_first_step_is_preparation(self):
        truth = truth_of()
        for at, false in ((START_S - 5, 0), (START_S + 5, 1)):
            hang = verdict_of(truth, FAULTS[0], **{"class": "hang"}, onset_s=at, alert_s=at + 1)
            self.assertEqual(score(truth, hang)["false"], false)

    def test_alerts(self):
        truth = truth_of()
        report = report_of(truth, *[verdict_of(truth, w) for w in FAULTS])
        alerts = [{"event": "alert", "verdict": v} for v in report["verdicts"]]
        scored = rules.score(truth, report, alerts)
        self.assertEqual([w["alerted"] for w in scored["windows"]], [True, True])
        scored = rules.score(truth, report, alerts[:1])
        self.assertEqual([w["alerted"] for w in scored["windows"]], [True, False])
        stray = {"event": "alert", "verdict": dict(report["verdicts"][0], id=77)}
        self.assertEqual(len(rules.score(truth, report, [*alerts, stray])["false"]), 1)
        update = dict(stray, event="update")
        self.assertEqual(len(rules.score(truth, report, [*alerts, update])["false"]), 0)

    def test_words_that_are_to_be_said(self):
        truth = truth_of(says=["gpu-shared", "a word that nobody says"])
        scored = rules.score(truth, report_of(truth, verdict_of(truth, FAULTS[1])))
        self.assertEqual(scored["not_said"], truth["says"][1:])

    def test_a_program_without_steps(self):
        truth = truth_of(windows=(), steps=2, no_steps=True)
        self.assertEqual(score(truth, steps=800)["jobs with wrong steps"], 0)
        self.assertEqual(score(truth, verdict_of(truth_of(), FAULTS[0]))["false"], 1)

    def test_arguments_stay_as_they_are(self):
        truth = truth_of()
        report = report_of(truth, verdict_of(truth, FAULTS[0]))
        kept = copy.deepcopy((truth, report))
        rules.score(truth, report)
        self.assertEqual((truth, report), kept)


class Comparing(unittest.TestCase):
    def setUp(self):
        self.truth = truth_of()
        right = [verdict_of(self.truth, w) for w in FAULTS]
        self.good = self.summary(*right)
        self.bad = self.summary(right[0], dict(right[1], ranks=[3]), steps=80)

    def summary(self, *verdicts, **more):
        return replay.summary_of({"job": rules.score(
            self.truth, report_of(self.truth, *verdicts, **more))})

    def test_the_same_is_the_same(self):
        self.assertEqual(replay.differences(self.good, self.good), ([], []))

    def test_worse_and_better(self):
        worse, better = replay.differences(self.good, self.bad)
        self.assertEqual((len(worse), len(better)), (7, 0), worse)  # five marks, false, steps
        worse, better = replay.differences(self.bad, self.good)
        self.assertEqual((len(worse), len(better)), (0, 7), better)

    def test_a_job_that_is_gone_or_counts_no_more_is_worse(self):
        nothing = {"total": {}, "jobs": {}}
        self.assertEqual(len(replay.differences(self.good, nothing)[0]), 1)
        weaker = copy.deepcopy(self.good)
        weaker["jobs"]["job"]["windows"][0]["counted"] = False
        self.assertEqual(len(replay.differences(self.good, weaker)[0]), 1)


class Against(unittest.TestCase):
    def setUp(self):
        self.truth = truth_of()
        self.old = [dict(verdict_of(self.truth, w), first_step=w["first"], last_step=w["last"])
                    for w in FAULTS]

    def kinds(self, *new):
        old, new = {"verdicts": self.old}, {"verdicts": list(new)}
        opposite = {"came": "went", "went": "came", "changed": "changed"}
        self.assertEqual(sorted(opposite[kind] for kind, _ in changes.lines(new, old)),
                         sorted(kind for kind, _ in changes.lines(old, new)))
        return [kind for kind, _ in changes.lines(old, new)]

    def test_the_same_is_the_same(self):
        self.assertEqual(self.kinds(*self.old), [])
        self.assertEqual(self.kinds(*reversed(self.old)), [])

    def test_came_and_went(self):
        self.assertEqual(self.kinds(self.old[0]), ["went"])
        self.assertEqual(self.kinds(*self.old, dict(self.old[0], ranks=[3])), ["came"])
        self.assertEqual(changes.lines(None, {"verdicts": self.old})[0][0], "came")
        later = dict(self.old[0], onset_unix_ns=self.old[1]["onset_unix_ns"],
                     alert_unix_ns=self.old[1]["alert_unix_ns"])
        self.assertEqual(self.kinds(later, self.old[1]), ["went", "came"])  # of rank 1, but when?

    def test_changed(self):
        for key, value, words in (
                ("class", "comm-slow", "class host-slow -> comm-slow"),
                ("cause", "gil", "cause input-pipeline -> gil"), ("ranks", [1, 3], "ranks [1] -> [1, 3]"),
                ("slowdown", 1.2, "slowdown 1.5 -> 1.2"), ("last_step", 160, "last_step 140 -> 160"),
                ("alert_unix_ns", self.old[0]["alert_unix_ns"] + 10 ** 9, "alert +1.000 s")):
            new = {"verdicts": [dict(self.old[0], **{key: value}), self.old[1]]}
            (kind, line), = changes.lines({"verdicts": self.old}, new)
            self.assertEqual(kind, "changed")
            self.assertTrue(line.endswith(": " + words), line)

    def test_the_most_alike_are_one(self):
        part = dict(self.old[0], ranks=[1, 2])
        self.assertEqual(self.kinds(part, *self.old), ["came"])
        self.old.append(part)
        self.assertEqual(self.kinds(*self.old[1:], self.old[0]), [])

    def test_of_nobody(self):
        nobody = dict(self.old[0], ranks=[])
        self.old[0] = nobody
        self.assertEqual(self.kinds(dict(nobody, cause="unknown"), self.old[1]), ["changed"])
        self.assertEqual(self.kinds(dict(nobody, **{"class": "comm-slow"}), self.old[1]),
                         ["went", "came"])


class Recuts(unittest.TestCase):
    def setUp(self):
        self.old = verdict_of(truth_of(), FAULTS[0], id=1)
        self.old["end_unix_ns"] = self.old["onset_unix_ns"] + 5 * 10 ** 9

    def said(self, step_s=0.1, **more):
        return [key for key in recuts.SAID
                if recuts.is_said(key, self.old, dict(self.old, **more), step_s)]

    def later(self, key, seconds):
        return self.said(**{key: self.old[key] + int(seconds * 1e9)})

    def test_what_is_the_same(self):
        self.assertEqual(self.said(), list(recuts.SAID))
        self.assertEqual(self.said(slowdown=9), list(recuts.SAID))
        for key, value in (("ranks", [3]), ("class", "comm-slow"), ("cause", "gil")):
            self.assertEqual(self.said(**{key: value}), [k for k in recuts.SAID if k != key])
        for key, name in (("begin", "onset_unix_ns"), ("end", "end_unix_ns"), ("alert", "alert_unix_ns")):
            without = [k for k in recuts.SAID if k != key]
            self.assertEqual(self.later(name, 0.9), list(recuts.SAID))
            self.assertEqual(self.later(name, 1.1), without)
            self.assertEqual(self.later(name, -1.1), list(recuts.SAID) if key == "alert" else without)

    def test_what_a_long_step_holds_is_known_when_it_has_ended(self):
        self.old["slowdown"] = 1.5
        for seconds, said in ((2.9, recuts.SAID), (3.1, [k for k in recuts.SAID if k != "alert"])):
            later = self.old["alert_unix_ns"] + int(seconds * 1e9)
            self.assertEqual(self.said(step_s=2, alert_unix_ns=later), list(said))

    def test_only_what_names_a_window_counts(self):
        other = dict(self.old, id=2, ranks=[3])
        summary = {"step_ms_median": 100}
        old = {"verdicts": [self.old, other], "summary": summary}
        count = recuts.compare({1}, old, old)
        self.assertEqual([count[column] for column in recuts.COLUMNS], [1] * 8 + [0, 0])
        count = recuts.compare({1}, old, {"verdicts": [other], "summary": summary})
        self.assertEqual([count[column] for column in recuts.COLUMNS], [1] + [0] * 7 + [1, 0])

    def test_worse_and_better(self):
        old = {cut: dict.fromkeys(recuts.COLUMNS, 5) for cut in recuts.CUTS}
        for column, change, worse, better in (("ranks", -1, 1, 0), ("alert", 1, 0, 1), ("came", 1, 1, 0),
                                              ("went", -1, 0, 1), ("same", 0, 0, 0)):
            new = copy.deepcopy(old)
            new["split"][column] += change
            self.assertEqual(tuple(map(len, recuts.worse_and_better(old, new))), (worse, better))


if __name__ == "__main__":
    unittest.main()
