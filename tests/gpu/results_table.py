# SPDX-License-Identifier: Apache-2.0
"""The results of run.py as a table in Markdown."""


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
    keys = sorted({(r["job"], f["kind"]) for r in scored for f in r["score"]["windows"]})
    for job, kind in keys:
        own = [r for r in scored if r["job"] == job]
        faults = [f for r in own for f in r["score"]["windows"] if f["kind"] == kind]
        counted = [f for f in faults if f["counted"]]
        found = [f for f in counted if f["named"]]
        cells = [job, kind, len(faults), len(counted)]
        cells += [percent(sum(f[key] for f in counted), len(counted))
                  for key in ("named", "class", "cause")]
        for key in ("delay_steps", "delay_s"):
            values = [f[key] for f in found]
            cells.append(f"{middle(values)}, {max(values)}" if values else "")
        cells.append(middle([f["growth"] for f in counted]))
        cells.append(sum(len(r["score"]["false"]) for r in own))
        cells.append(sum(len(r["score"]["disturbed"]) for r in own))
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "| healthy job | runs | steps | report's steps | step, ms | false alarms |",
              "| --- |" + " ---: |" * 5]
    healthy = [r for r in scored if not r["score"]["windows"]]
    for job in sorted({r["job"] for r in healthy}):
        own = [r["score"] for r in healthy if r["job"] == job]
        lines.append(f"| {job} | {len(own)} | {sum(s['true_steps'] for s in own)} | "
                     f"{sum(s['report_steps'] for s in own)} | "
                     f"{middle([s['step_ms_healthy'] for s in own if s['step_ms_healthy']])} | "
                     f"{sum(len(s['false']) for s in own)} |")
    for result in results:
        if result.get("skipped"):
            lines += ["", f"Skipped: {result['job']}: {result['skipped']}"]
        elif "error" in result:
            lines += ["", f"Failed: {result['job']} seed {result['seed']}: "
                      + result["error"].strip().splitlines()[-1]]
    unmade = sorted({f"{r['job']}: {f['kind']}: {f['why']}" for r in scored
                     for f in r["score"]["windows"] if not f["applied"]})
    for line in unmade:
        lines += ["", f"Not made: {line}"]
    return "\n".join(lines) + "\n"
