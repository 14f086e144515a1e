# SPDX-License-Identifier: Apache-2.0
"""Scores a report and its alerts against the truth log of the same GPU job. No torch needed.

A fault is found when a verdict whose onset lies in its window names its rank and no other. Class
and cause count only where the rank is right. A verdict that belongs to no window, or that names
another rank, is a false alarm; so is an alert that the report knows nothing of. A fault that
could not be made, that did not come to its end, or that slowed the job by less than 10 %, is
listed and not counted; a verdict that names its rank all the same is no false alarm. Nor is a hang
before the first step of the truth: there, ranks truly stand still for one that prepares its fault
for seconds; nor what is said after a rank has died or the job was cut short.
"""
GROWTH_LEAST = 1.10
DISTURBED_LEAST = 1.10  # by the job's own clock: Truth.host_growth()
GRACE_STEPS = 4  # a verdict's onset may lie that many steps outside of the window

# kind of fault -> class, causes that are right. There is no word for a held GIL in the first set
# of causes: the data loader's thread holds it, so input-pipeline is right, and so is "unknown".
EXPECTED = {
    "gpu-shared": ("compute-slow", {"gpu-shared"}),
    "extra-kernels": ("compute-slow", {"more-kernels"}),
    "longer-kernels": ("compute-slow", {"longer-kernels"}),
    "input-sleep": ("host-slow", {"input-pipeline"}),
    "gil": ("host-slow", {"input-pipeline", "gil", "gil-held", "unknown"}),
    "gc": ("host-slow", {"garbage-collection"}),
    "cgroup-throttle": ("host-slow", {"cgroup-throttle"}),
    "cpu-hog": ("host-slow", {"cpu-contention"}),
    "minor-fault": ("host-slow", {"minor-page-fault"}),
    "major-fault": ("host-slow", {"major-page-fault"}),
    "comm-slow": ("comm-slow", {"nic-link", "nic-retransmit", "path-congestion"}),
}
SHOWN = ("id", "class", "ranks", "cause", "slowdown", "confidence", "first_step", "last_step")


def shown(verdict):
    return {key: verdict.get(key) for key in SHOWN}


def window_ns(truth, fault):
    """From when to when a verdict's onset belongs to the fault."""
    healthy = truth.healthy_near_ms(fault) or 100.0
    growth = truth.growth(fault) or 1.0
    grace = GRACE_STEPS * healthy * max(growth, 1.0) * 1e6
    since = truth.slow_since(fault, DISTURBED_LEAST)
    begin = min([fault["realtime_ns"]] + [step[2] for step in truth.steps[fault["rank"]]
                                          if step[0] == since])
    end = fault["end_realtime_ns"]
    if end is None:  # the rank died in its window
        end = max(steps[-1][2] for steps in truth.steps.values())
    return begin - grace, end + grace


def is_disturbed(truth, verdict):
    """A host that was slow in truth, though nobody made it so."""
    if verdict["class"] != "host-slow" or len(verdict["ranks"]) != 1:
        return False
    steps = [step[0] for step in truth.steps.get(verdict["ranks"][0], [])
             if verdict["onset_unix_ns"] <= step[2] <= verdict["alert_unix_ns"]]
    return bool(steps) and (truth.host_growth(
        verdict["ranks"][0], steps[0], steps[-1]) or 1) >= DISTURBED_LEAST


def score_fault(truth, fault, verdicts, alerts):
    begin, end = window_ns(truth, fault)
    growth = truth.growth(fault)
    inside = [v for v in verdicts if begin <= v["onset_unix_ns"] <= end]
    right = [v for v in inside if v["ranks"] == [fault["rank"]]]
    result = {"kind": fault["kind"], "rank": fault["rank"], "size": fault["size"],
              "first_step": fault["first_step"], "last_step": fault["last_step"],
              "applied": fault["applied"], "why": fault["why"],
              "growth": round(growth, 3) if growth else None,
              "counted": bool(fault["applied"] and fault["end_realtime_ns"] and growth
                              and growth >= GROWTH_LEAST),
              "rank_right": False, "class_right": False, "cause_right": False, "alerted": False}
    if inside:
        main = min(right or inside, key=lambda v: v["alert_unix_ns"])
        result["verdict"] = shown(main)
    for verdict in right:
        verdict["fits"] = True
    if not right:
        return result
    expected_class, expected_causes = EXPECTED[fault["kind"]]
    delay_ns = main["alert_unix_ns"] - fault["realtime_ns"]
    result.update(
        rank_right=True, class_right=main["class"] == expected_class,
        alerted=main.get("id") in {a["verdict"].get("id") for a in alerts},
        delay_seconds=round(delay_ns / 1e9, 3),
        delay_steps=sum(fault["realtime_ns"] <= step[2] <= main["alert_unix_ns"]
                        for step in truth.steps[fault["rank"]]))
    result["cause_right"] = result["class_right"] and main["cause"] in expected_causes
    if growth:
        result["slowdown_error_percent"] = round(100 * abs(main["slowdown"] / growth - 1), 2)
    return result


def score(truth, report, alerts):
    """One JSON-able object; the arguments stay as they are."""
    verdicts = [dict(v) for v in report["verdicts"]]
    begun = [a for a in alerts if a["event"] == "alert"]
    faults = [score_fault(truth, fault, verdicts, begun) for fault in truth.faults]
    ends = [note["realtime_ns"] for note in truth.notes if note.get("what") == "death"]
    if not truth.ended:
        ends.append(max((steps[-1][2] for steps in truth.steps.values()), default=0))
    for verdict in verdicts:
        if ends and verdict["alert_unix_ns"] >= min(ends):
            verdict["fits"] = True
    first = min((steps[0][2] for steps in truth.steps.values()), default=0)
    for verdict in verdicts:  # before the first step ranks wait for those that prepare their faults
        if verdict["class"] == "hang" and verdict["onset_unix_ns"] < first:
            verdict["fits"] = True
    unfitting = [v for v in verdicts if "fits" not in v]
    disturbed = [v for v in unfitting if is_disturbed(truth, v)]
    false = [shown(v) for v in unfitting if v not in disturbed]
    known = {v.get("id") for v in verdicts}
    false += [dict(shown(a["verdict"]), only_alerted=True) for a in begun
              if a["verdict"].get("id") not in known]
    coverage = report["coverage"]
    true_steps = max((len(steps) for steps in truth.steps.values()), default=0)
    healthy = truth.healthy_ms(0)
    return {
        "ranks": truth.job["ranks"], "ranks_seen": report["job"]["ranks"],
        "true_steps": true_steps, "report_steps": report["job"]["steps"],
        "step_ms_healthy": round(healthy, 3) if healthy else None,
        "faults": faults, "false_alarms": len(false), "false_verdicts": false,
        "disturbed": [shown(v) for v in disturbed],
        "dropped": coverage.get("dropped"), "clock_error_us": coverage.get("clock_error_us"),
        "probe_cpu_percent": coverage.get("probe_cpu_percent"),
        "sources": [f"{s['name']}: {s['state']}" + (f" ({s['why']})" if s.get("why") else "")
                    for s in coverage.get("sources", [])],
    }


def percent(part, whole):
    return f"{round(100 * part / whole)} %" if whole else ""


def middle(values, digits=2):
    values = sorted(values)
    return round(values[len(values) // 2], digits) if values else ""


def table(results):
    """Markdown: one row per mode and kind, then the healthy jobs, then what was not run."""
    lines = ["| job | fault | windows | counted | rank | class | cause | delay, steps: middle, "
             "worst | delay, s: middle, worst | growth, middle | false alarms of these jobs | "
             "hosts slow by themselves |",
             "| --- | --- |" + " ---: |" * 10]
    scored = [r for r in results if "score" in r]
    keys = sorted({(r["job"], f["kind"]) for r in scored for f in r["score"]["faults"]})
    for job, kind in keys:
        own = [r for r in scored if r["job"] == job]
        faults = [f for r in own for f in r["score"]["faults"] if f["kind"] == kind]
        counted = [f for f in faults if f["counted"]]
        found = [f for f in counted if f["rank_right"]]
        cells = [job, kind, len(faults), len(counted)]
        cells += [percent(sum(f[key] for f in counted), len(counted))
                  for key in ("rank_right", "class_right", "cause_right")]
        for key in ("delay_steps", "delay_seconds"):
            values = [f[key] for f in found]
            cells.append(f"{middle(values)}, {max(values)}" if values else "")
        cells.append(middle([f["growth"] for f in counted]))
        cells.append(sum(r["score"]["false_alarms"] for r in own))
        cells.append(sum(len(r["score"].get("disturbed", ())) for r in own))
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "| healthy job | runs | steps | report's steps | step, ms | false alarms |",
              "| --- |" + " ---: |" * 5]
    healthy = [r for r in scored if not r["score"]["faults"]]
    for job in sorted({r["job"] for r in healthy}):
        own = [r["score"] for r in healthy if r["job"] == job]
        lines.append(f"| {job} | {len(own)} | {sum(s['true_steps'] for s in own)} | "
                     f"{sum(s['report_steps'] for s in own)} | "
                     f"{middle([s['step_ms_healthy'] for s in own if s['step_ms_healthy']])} | "
                     f"{sum(s['false_alarms'] for s in own)} |")
    for result in results:
        if result.get("skipped"):
            lines += ["", f"Skipped: {result['job']}: {result['skipped']}"]
        elif "error" in result:
            lines += ["", f"Failed: {result['job']} seed {result['seed']}: "
                      + result["error"].strip().splitlines()[-1]]
    unmade = sorted({f"{r['job']}: {f['kind']}: {f['why']}" for r in scored
                     for f in r["score"]["faults"] if not f["applied"]})
    for line in unmade:
        lines += ["", f"Not made: {line}"]
    return "\n".join(lines) + "\n"
