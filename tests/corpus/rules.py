# SPDX-License-Identifier: Apache-2.0
"""Scores what a report says of a job against what truly happened. Python's standard library only.

The truth of a job is one JSON object (truth.py makes it of the logs of tests/workload and tests/gpu):

    program         what ran, for people
    step_begins_s   when each of the author's steps began, seconds since the epoch
    windows         what was done to ranks: [{"kind", "rank", "first", "last"}]; steps, `last` is the
                    first one without it. Where needed: "ranks" (all culprits), "any_of" (naming some of them
                    is right), "since" (the step from which it was felt), "measured_from" (the first step whose
                    length counts), "applied": false and "why" (it could not be made)
    disturbed       [{"first", "last", "ranks", "why"}]: what really happened and nobody injected;
                    with "classes", or "causes", only verdicts of these fit
    slow_alike      [{"first", "last"}]: what was done to all ranks alike; nobody is slow then, and no growth
                    is measured against it
    other_passes    passes that are no steps, such as evaluations: a report may count them or not
    ended_s         what is said after this does not count: a rank died, or the job was cut short
    lost_from_step  from here on the record has no data: later windows do not count
    cut_in_record   the probe that made the record cut its steps: a replay cannot mend them
    no_steps        the program has none that its author would count: step_begins_s are its begin and end
    says            words that the JSON report has somewhere, for instance in its coverage

Growth of a window: the mean step in it over that of up to 60 healthy steps before and 50 after, with a
95 % interval by bootstrap. A window counts where that interval lies above 1.1, and where a rank was
stopped; one that grew by less is neutral: naming its rank is neither right nor false.

Named: a verdict with exactly the window's ranks, an onset near its begin (from max(0.5 s, 3 steps) before
to max(2 s, 10 steps, 2 periods) after), an alert before its end + 1 s; each verdict serves one window. Class and
cause: what EXPECTED says. In time: the alert within max(1 s, 3 steps, 3 periods), a hang within 6 s.
Slow-down: off by at most a fifth of the growth's excess, 0.03, or half the interval.

False: every other verdict; also a second one for the same window, and an alert that the report knows
nothing of. Not false: one that began in a disturbed span and names ranks of it; a hang before the first
step, when ranks wait for one that prepares; one after ended_s. Steps: within 2 % of the author's.
"""
import json
import random

GROWTH_LEAST = 1.1
STEPS_WITHIN = 0.02
HANGS = {"stop", "pause"}
PERIODS = {"checkpoint": 10, "line-checkpoint": 5, "line-data-loader": 8}  # steps
NAMED_CAUSE = None            # any cause but "unknown"

HOST, DEVICE, LINK = {"host-slow"}, {"compute-slow"}, {"comm-slow"}
NETWORK = {"nic-link", "nic-retransmit", "path-congestion"}
STORAGE = {"file-system", "block-io"}
NONE = {"unknown"}  # a loop of the program's own: its line is all there is to say
# kind of fault -> classes, causes that are right. For a held GIL there is no word among the causes: the
# data loader's thread holds it, so input-pipeline is right, and so is "unknown".
EXPECTED = {
    # programs of others
    "sleep": (HOST, NAMED_CAUSE), "python": (HOST, NAMED_CAUSE), "cpu-hog": (HOST, {"cpu-contention"}),
    "checkpoint": (HOST, NAMED_CAUSE), "input": (HOST, NAMED_CAUSE),
    "gpu-hog": (DEVICE, {"gpu-shared"}), "more-kernels": (DEVICE, NAMED_CAUSE),
    "stage": (DEVICE | {"workload-imbalance"}, NAMED_CAUSE),
    "experts": (DEVICE | {"workload-imbalance"}, NAMED_CAUSE),
    "copies": (HOST | DEVICE, NAMED_CAUSE),
    "stop": ({"hang"}, None), "pause": ({"hang"}, None),
    # tests/gpu
    "gpu-shared": (DEVICE, {"gpu-shared"}), "extra-kernels": (DEVICE, {"more-kernels"}),
    "longer-kernels": (DEVICE, {"longer-kernels"}), "input-sleep": (HOST, {"input-pipeline"}),
    "gil": (HOST, {"input-pipeline", "gil", "gil-held", "unknown"}),
    "gc": (HOST, {"garbage-collection"}), "cgroup-throttle": (HOST, {"cgroup-throttle"}),
    "minor-fault": (HOST, {"minor-page-fault"}), "major-fault": (HOST, {"major-page-fault"}),
    "comm-slow": (LINK, NETWORK),
    # tests/gpu/programs, at known lines
    "line-python": (HOST, {"host-code"}), "line-native": (HOST, {"host-code"}), "line-tensor": (HOST, {"host-code"}), "line-lock": (HOST, {"lock"}),
    "line-mutex": (HOST, {"lock"}), "line-read": (HOST, STORAGE), "line-file": (HOST, STORAGE), "line-checkpoint": (HOST, {"checkpoint"}),
    "line-logging": (HOST, {"logging"}), "line-data-loader": (HOST, {"data-loader"}), "line-allocator": (HOST, {"memory-allocator"}),
    "line-copies": (HOST | DEVICE, {"host-to-device-copy", "more-copies"}),
    # tests/workload
    "compute": (DEVICE, {"unknown", "longer-kernels", "more-kernels", "host-code"}),
    "throttle": (HOST, {"cgroup-throttle"}), "contention": (HOST, {"cpu-contention"}),
    "major": (HOST, {"major-page-fault"}), "minor": (HOST, {"minor-page-fault"}),
    "reclaim": (HOST, {"memory-reclaim"}), "comm": (LINK, NETWORK), "kernels": (DEVICE, {"more-kernels"}),
}
GOOD = ("named", "class", "slow-down", "in time", "cause")
COLUMNS = ("windows", *GOOD, "false", "jobs with wrong steps", "jobs")
SHOWN = ("id", "class", "ranks", "cause", "slowdown", "confidence", "first_step", "last_step")


def mean(values):
    return sum(values) / len(values) if values else 0.0


def growth_of(inside, base):
    """How many times as long as the steps in base those inside are, and both ends of the 95 % interval."""
    draw = random.Random(1)
    many = sorted(mean(draw.choices(inside, k=len(inside))) / mean(draw.choices(base, k=len(base)))
                  for _ in range(400))
    return mean(inside) / mean(base), many[10], many[389]


def shown(verdict):
    return {key: verdict.get(key) for key in SHOWN}


class Window:
    """One window of the truth, measured."""

    def __init__(self, truth, told):
        begins, a, b = truth["step_begins_s"], told["first"], told["last"]
        lengths = [after - now for now, after in zip(begins, begins[1:])]
        faulty = {i for w in [*truth["windows"], *truth.get("slow_alike", [])]
                  for i in range(w["first"], w["last"] + 10)}
        near = [*range(max(20, a - 60), a), *range(b + 10, min(len(lengths), b + 60))]
        base = ([lengths[i] for i in near if i not in faulty]
                or [length for i, length in enumerate(lengths) if i > 2 and i not in faulty])
        inside = lengths[min(told.get("measured_from", a), b - 1):b]
        self.told, self.kind, self.step_s = told, told["kind"], mean(base)
        self.ranks = set(told.get("ranks", [told["rank"]]))
        self.hang = self.kind in HANGS
        self.begin_s, self.end_s = begins[min(a, len(begins) - 1)], begins[min(b, len(begins) - 1)]
        self.felt_s = begins[min(told.get("since", a), len(begins) - 1)]
        self.growth, low, high = growth_of(inside, base) if inside and base else (0, 0, 0)
        self.half = (high - low) / 2
        self.period_s = PERIODS.get(self.kind, 1) * self.step_s
        self.counts = (a < truth.get("lost_from_step", len(begins)) and told.get("applied", True)
                       and (self.hang or low > GROWTH_LEAST))

    def is_named_by(self, verdict):
        ranks = set(verdict["ranks"])
        right = bool(ranks) and ranks <= self.ranks if self.told.get("any_of") else ranks == self.ranks
        return (right and verdict["alert"] <= self.end_s + 1
                and verdict["onset"] >= self.felt_s - max(0.5, 3 * self.step_s)
                and verdict["onset"] <= self.begin_s + max(2, 10 * self.step_s, 2 * self.period_s))

    def is_within(self, verdict):
        """For a window that does not count: whatever is said of its ranks meanwhile is no mistake."""
        return (set(verdict["ranks"]) <= self.ranks
                and self.felt_s - 0.5 <= verdict["onset"] <= self.end_s)

    def marks(self, verdict):
        """What is right of a verdict that names this window's ranks."""
        classes, causes = EXPECTED[self.kind]
        cause_right = self.hang or (verdict["cause"] != "unknown" if causes is NAMED_CAUSE
                                    else verdict["cause"] in causes)
        error = abs((verdict["slowdown"] or 0) - self.growth)
        limit_s = 6 if self.hang else max(1, 3 * self.period_s)
        return {"named": True, "class": verdict["class"] in classes,
                "slow-down": self.hang or error <= max(0.2 * (self.growth - 1), 0.03, self.half),
                "in time": verdict["alert"] - self.begin_s <= limit_s,
                "cause": verdict["class"] in classes and cause_right}

    def result(self, truth, verdict):
        result = {**{key: self.told[key] for key in ("kind", "rank", "first", "last", "size", "applied",
                                                   "why")
                     if key in self.told},
                  "counted": self.counts, "growth": round(self.growth, 3),
                  "half": round(self.half, 3), **dict.fromkeys(GOOD, False)}
        if not verdict:
            return result
        delay_s = verdict["alert"] - self.begin_s
        return dict(result, **self.marks(verdict), verdict=shown(verdict), delay_s=round(delay_s, 3),
                    delay_steps=sum(self.begin_s <= at <= verdict["alert"]
                                    for at in truth["step_begins_s"]),
                    slowdown_error_percent=round(
                        100 * abs((verdict["slowdown"] or 0) / self.growth - 1), 2))


def match(windows, verdicts):
    """window -> the verdict that names it, for those that count; and the numbers of the verdicts that are
    no mistake."""
    used, hits = set(), {}
    for window in sorted(windows, key=lambda window: window.counts):
        near = [i for i, v in enumerate(verdicts) if i not in used and window.is_named_by(v)]
        hit = min(near, key=lambda i: abs(verdicts[i]["onset"] - window.begin_s), default=None)
        if hit is not None:
            used.add(hit)
        if window.counts:
            hits[window] = verdicts[hit] if hit is not None else None
        else:
            used.update(i for i, v in enumerate(verdicts) if window.is_within(v))
    return hits, used


def disturbed_by(truth, verdict):
    """The span of what nobody injected to which a verdict belongs, or None."""
    begins = truth["step_begins_s"]
    for span in truth.get("disturbed", []):
        last = min(span["last"], len(begins) - 1)
        if (set(verdict["ranks"]) <= set(span["ranks"])
                and verdict["class"] in span.get("classes", [verdict["class"]])
                and verdict["cause"] in span.get("causes", [verdict["cause"]])
                and begins[span["first"]] - 0.5 <= verdict["onset"] <= begins[last] + 0.5):
            return span
    return None


def is_outside(truth, verdict):
    """Before the first step, or after the end that counts."""
    return (verdict["alert"] >= truth.get("ended_s", float("inf"))
            or verdict["class"] == "hang" and verdict["onset"] < truth["step_begins_s"][0])


def steps_right(truth, found):
    """Whether the report counts the author's steps; None where the truth says that it cannot."""
    count = len(truth["step_begins_s"])
    if (truth.get("lost_from_step", count) < count or truth.get("cut_in_record")
            or truth.get("no_steps")):
        return None
    nearest = min(max(found, count), count + truth.get("other_passes", 0))
    return abs(found - nearest) <= STEPS_WITHIN * count


def score(truth, report, alerts=None):
    """One JSON-able object; the arguments stay as they are. report: None scores as one that names
    nothing. alerts: what was told live, where that is known."""
    told = report["verdicts"] if report else []
    verdicts = [dict(v, onset=v["onset_unix_ns"] / 1e9, alert=v["alert_unix_ns"] / 1e9)
                for v in told]
    windows = [Window(truth, w) for w in truth["windows"]]
    hits, used = match(windows, verdicts)
    left = [v for i, v in enumerate(verdicts) if i not in used and not is_outside(truth, v)]
    disturbed = [v for v in left if disturbed_by(truth, v)]
    false = [shown(v) for v in left if not disturbed_by(truth, v)]
    begun = [a["verdict"] for a in alerts or [] if a["event"] == "alert"]
    known = {v.get("id") for v in verdicts}
    false += [dict(shown(v), only_alerted=True) for v in begun if v.get("id") not in known]
    results = [window.result(truth, hits.get(window)) for window in windows]
    if alerts is not None:
        live = {v.get("id") for v in begun}
        for result in results:
            result["alerted"] = "verdict" in result and result["verdict"]["id"] in live
    found = report["job"]["steps"] if report else 0
    text = json.dumps(report)
    return {"true_steps": len(truth["step_begins_s"]), "report_steps": found,
            "steps_right": steps_right(truth, found), "windows": results, "false": false,
            "not_said": [words for words in truth.get("says", []) if words not in text],
            "disturbed": [shown(v) for v in disturbed]}


def sums(scores):
    """What several jobs' scores add up to, by COLUMNS."""
    scores = list(scores)
    counted = [w for s in scores for w in s["windows"] if w["counted"]]
    return {"windows": len(counted), **{key: sum(w[key] for w in counted) for key in GOOD},
            "false": sum(len(s["false"]) for s in scores),
            "jobs with wrong steps": sum(s["steps_right"] is False for s in scores),
            "jobs": len(scores)}


def describe(name, scored):
    """Lines for people: each window that counts, and each mistake."""
    lines = []
    for w in scored["windows"]:
        if not w["counted"]:
            continue
        text = f"{name:28s} {w['kind']:10s} rank {w['rank']} grew {w['growth']:.2f} +- {w['half']:.2f}: "
        if not w["named"]:
            lines.append(text + "MISSED")
            continue
        v = w["verdict"]
        lines.append(f"{text}{v['class']}, {v['cause']}, {v['slowdown'] or 0:.2f} x, after {w['delay_s']:.1f} s"
                     + "".join(f"  not right: {key}" for key in GOOD if not w[key]))
    for v in scored["false"]:
        lines.append(f"{name:28s} FALSE: ranks {v['ranks']} {v['class']}, {v['cause']}, "
                     f"{v['slowdown'] or 0:.2f} x")
    for words in scored["not_said"]:
        lines.append(f"{name:28s} NOT SAID: {words}")
    if scored["steps_right"] is False:
        lines.append(f"{name:28s} STEPS: {scored['report_steps']} of {scored['true_steps']}")
    return lines
