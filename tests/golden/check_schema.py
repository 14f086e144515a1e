#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the expected JSON reports hold every field of slowrank.report/1, with its type.

usage: check_schema.py FOLDER-OR-REPORT...
The schema is docs' (design, section 5), written down once more here: a field that is lost or
changes its type breaks a reader somewhere.
"""
import json
import math
import pathlib
import sys

NUMBER = (int, float, type(None))  # null: not a number was computed
VERDICT = {
    "id": int, "class": str, "ranks": [int], "cause": str, "slowdown": NUMBER, "confidence": NUMBER,
    "share_explained": NUMBER, "first_step": int, "last_step": int, "onset_unix_ns": int,
    "end_unix_ns": int, "alert_unix_ns": int, "clock_error_us": NUMBER, "ended": bool,
    "evidence": [{"kind": str, "overlap_ms_per_step": NUMBER, "control_ms_per_step": NUMBER, "detail": str}],
    "rejected": [{"kind": str, "why": str}], "victims": [int],
}
# Only where stacks said so.
WHERE = {"text": str, "frames": [str], "ms_per_step": NUMBER, "control_ms": NUMBER}
SCHEMA = {
    "schema": str,
    "job": {"id": str, "ranks": int, "nodes": int, "steps": int, "start_unix_ns": int, "end_unix_ns": int},
    "summary": {"step_ms_median": NUMBER, "step_ms_ideal": NUMBER, "slowdown": NUMBER, "wasted_rank_seconds": NUMBER},
    "verdicts": [VERDICT],
    "without": [{"what": str, "name": str, "step_ms_without": NUMBER, "slowdown": NUMBER, "share": NUMBER,
                 "wasted_rank_seconds": NUMBER}],
    "ranks": [{
        "rank": int, "host": str, "pid": int, "role": int,
        "step_ms": {"input": NUMBER, "compute": NUMBER, "host": NUMBER, "comm_wait": NUMBER, "comm_transfer": NUMBER},
        "own_excess_ms_per_step": NUMBER, "inherited_ms_per_step": NUMBER}],
    "coverage": {
        "sources": [{"name": str, "state": str, "why": str}],
        "events": int, "dropped": int, "steps_incomplete": int, "clock_error_us": NUMBER,
        "probe_cpu_percent": NUMBER},
}

# Only with report --explain.
EXPLAIN = {
    "sheets": [{
        "of": str, "first_step": int, "last_step": int, "small": bool, "told": bool, "held_by": str, "why": str,
        "signal": [NUMBER], "signal_at": int,
        "gates": [{"name": str, "passed": bool, "unit": str, "value": NUMBER, "limit": NUMBER}]}],
    "left_out": int, "no_memory": bool,
}


def check(value, schema, where, problems):
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            problems.append(f"{where}: not an object")
            return
        for key, inner in schema.items():
            if key not in value:
                problems.append(f"{where}.{key}: missing")
            else:
                check(value[key], inner, f"{where}.{key}", problems)
    elif isinstance(schema, list):
        if not isinstance(value, list):
            problems.append(f"{where}: not an array")
            return
        for index, item in enumerate(value):
            check(item, schema[0], f"{where}[{index}]", problems)
    else:
        if isinstance(value, bool) != (schema is bool) or not isinstance(value, schema):
            problems.append(f"{where}: {value!r} has the wrong type")
        if isinstance(value, float) and not math.isfinite(value):
            problems.append(f"{where}: not finite")


def refuse(word):
    raise ValueError(f"{word} is no JSON")


def no_doubles(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"a key stands twice in {keys}")
    return dict(pairs)


def main():
    paths = []
    for word in sys.argv[1:]:
        path = pathlib.Path(word)
        paths += sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not paths:
        sys.exit("check_schema: no report to check")
    problems = []
    for path in paths:
        report = json.loads(path.read_bytes().decode("utf-8"), parse_constant=refuse, object_pairs_hook=no_doubles)
        check(report, SCHEMA, path.name, problems)
        for verdict in report["verdicts"]:
            if "where" in verdict:
                check(verdict["where"], WHERE, f"{path.name}.where", problems)
        if "explain" in report:
            check(report["explain"], EXPLAIN, path.name + ".explain", problems)
        if report.get("schema") != "slowrank.report/1":
            problems.append(f"{path.name}: schema is {report.get('schema')!r}")
        if len(report["ranks"]) != report["job"]["ranks"]:
            problems.append(f"{path.name}: {report['job']['ranks']} ranks said, {len(report['ranks'])} listed")
    print("\n".join(problems) or f"{len(paths)} reports are whole")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
