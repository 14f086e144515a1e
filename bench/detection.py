#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often slowrank names the right rank, class and cause: real jobs, real faults, a truth log.

For every seed, kind of fault and number of ranks one job of the workload runs under slowrank;
its report is scored by tests/corpus/rules.py. Sizes, ranks, windows, step lengths, collectives
and schedules are drawn from the seed. Results are appended to a file, one JSON object a line;
a later call skips what is there, so that the whole can be run in parts.

    bench/detection.py --build build --results detection.jsonl --budget-minutes 60
    bench/detection.py --results detection.jsonl --summary     only the table of what is there

Prints a table in Markdown, then one JSON object. Needs root.
"""
import argparse
import contextlib
import json
import os
import random
import statistics
import sys
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", part) for part in ("cluster", "corpus")]
import jobs  # noqa: E402
import rules  # noqa: E402
import truth as truth_of  # noqa: E402

KINDS = ("compute", "throttle", "contention", "major", "minor", "reclaim", "comm", "none")
RANKS = (4, 8, 16)
NODES = 4
TARGETS = {"named": 95, "class": 90, "cause": 80}  # percent


def draw(kind, rank_count, seed, brief=False):
    """The parameters of one job, from its seed alone."""
    dice = random.Random(f"{seed}/{kind}/{rank_count}")
    # More ranks share the same cores: their steps are longer, and each computes less.
    stretch = {4: 1.0, 8: 1.5, 16: 2.5}[rank_count]
    first = 80 if brief else dice.randrange(100, 160)
    window = 70 if brief else dice.randrange(100, 150)
    fault = {"rank": dice.randrange(rank_count), "kind": kind, "first": first,
             "last": first + window - 1, "size": dice.randrange(30, 81)}
    if kind == "throttle":
        fault["period_ms"] = dice.choice((20, 50, 100))
    options = {
        "steps": first + window + (20 if brief else 50),
        "step_ms": round(stretch * dice.uniform(16, 28), 1),
        "compute_ms": round(dice.uniform(6, 10) / rank_count, 2),
        "collectives": dice.randrange(3, 13),
        "bytes": dice.randrange(32, 257) * 1024,
        "schedule": dice.choice(("ddp", "ddp", "ddp", "accumulate", "nested")),
        "seed": seed,
        "split": kind != "comm" and dice.random() < 0.3,
    }
    if kind == "contention":
        # There must be computing to be held up, in short turns: the scheduler forgives a task
        # that slept long, and the hogs would then cost nothing outside of collectives.
        options["compute_ms"] = round(dice.uniform(10, 13) / rank_count, 2)
        options["turn_ms"] = 0.4
    if kind == "comm":
        options["bytes"] = dice.randrange(256, 769) * 1024 * 4 // rank_count
    on_nodes = kind == "comm" or (kind == "none" and seed % 4 == 0)
    line = " ".join(f"{key}={value}" for key, value in fault.items())
    return options, [] if kind == "none" else [line], on_nodes


def run_case(paths, kind, rank_count, seed, brief=False):
    """Runs and scores one job. Returns the result as one JSON object."""
    options, faults, on_nodes = draw(kind, rank_count, seed, brief)
    directory = os.path.join(paths["work"], f"{kind}-{rank_count}-{seed}")
    result = {"kind": kind, "ranks": rank_count, "seed": seed, "options": options,
              "faults": faults, "nodes": NODES if on_nodes else 1}
    started = time.monotonic()
    os.makedirs(directory, exist_ok=True)
    try:
        with contextlib.ExitStack() as stack:
            cluster = None
            if on_nodes:  # before the injector, which takes its name from the environment
                cluster = stack.enter_context(jobs.Cluster(directory, NODES, rank_count // NODES))
            injector = stack.enter_context(
                jobs.Injector(paths["injector"], directory, jobs.Cluster.SCRIPT))
            truth, run = jobs.run_workload_watched(
                paths["slowrank"], paths["workload"], directory, rank_count, cluster=cluster,
                run_options=["--quiet"], injector=injector.socket, faults=faults,
                work_directory=directory, **options)
        report = run.report(paths["slowrank"])
        with open(os.path.join(directory, "report.json"), "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
        result["score"] = dict(rules.score(truth_of.of_workload(truth), report),
                               ranks_seen=report["job"]["ranks"])
        result["record_bytes"] = os.path.getsize(run.record)
    except Exception as error:  # one job that fails must not end the series; it is counted
        result["error"] = str(error)[-2000:]
    result["seconds"] = round(time.monotonic() - started, 1)
    return result


def percent(part, whole):
    return round(100 * part / whole, 1) if whole else None


def summarise_group(results):
    scores = [r["score"] for r in results if "score" in r]
    faults = [w for s in scores for w in s["windows"] if w["counted"]]
    found = [f for f in faults if f["named"]]
    summary = {
        "jobs": len(results), "failed": sum("error" in r for r in results),
        "faults": len(faults),
        "weak": sum(not w["counted"] for s in scores for w in s["windows"]),
    }
    for key in TARGETS:
        summary[key + "_percent"] = percent(sum(f[key] for f in faults), len(faults))
    summary["false_alarms"] = sum(len(s["false"]) for s in scores)
    summary["healthy_steps"] = sum(s["true_steps"] for s in scores if not s["windows"])
    summary["delay_seconds_median"] = (
        round(statistics.median(f["delay_s"] for f in found), 2) if found else None)
    summary["delay_steps_median"] = (
        statistics.median(f["delay_steps"] for f in found) if found else None)
    summary["slowdown_error_percent_median"] = (
        round(statistics.median(f["slowdown_error_percent"] for f in found), 2) if found else None)
    summary["wrong_steps"] = sum(s["steps_right"] is False for s in scores)
    return summary


def summarise(results):
    groups = {}
    for kind in KINDS:
        for rank_count in (*RANKS, "all"):
            chosen = [r for r in results if r["kind"] == kind and rank_count in (r["ranks"], "all")]
            if chosen:
                groups[f"{kind}/{rank_count}"] = summarise_group(chosen)
    faulty = [r for r in results if r["kind"] != "none"]
    healthy = [r for r in results if r["kind"] == "none"]
    return {"bench": "detection", "targets_percent": TARGETS,
            "compared_against": "the truth log of the same jobs",
            "with_fault": summarise_group(faulty), "healthy": summarise_group(healthy),
            "groups": groups}


def table(summary):
    columns = ("jobs", "failed", "faults", "weak", "named_percent", "class_percent",
               "cause_percent", "false_alarms", "delay_steps_median",
               "delay_seconds_median", "slowdown_error_percent_median")
    heads = ("jobs", "failed", "faults", "weak", "rank %", "class %", "cause %", "false alarms",
             "delay, steps", "delay, s", "slow-down error %")
    lines = ["| fault / ranks | " + " | ".join(heads) + " |",
             "| --- |" + " ---: |" * len(heads)]
    rows = dict(summary["groups"], **{"**any fault**": summary["with_fault"],
                                      "**healthy**": summary["healthy"]})
    for name, group in rows.items():
        cells = ("" if group[column] is None else str(group[column]) for column in columns)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def read_results(path):
    """The results in a file; of several for one job, the last counts."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        results = [json.loads(line) for line in file]
    return list({(r["kind"], r["ranks"], r["seed"]): r for r in results}.values())


def cases(arguments):
    """Every seed and kind with one number of ranks first, then with the others, so that a part of
    the series is a fair sample. Healthy jobs: one per seed."""
    for shift in range(len(arguments.ranks)):
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            for kind in arguments.kinds:
                if kind != "none" or shift == 0:
                    yield kind, arguments.ranks[(seed + shift) % len(arguments.ranks)], seed


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--slowrank", help="another slowrank than that of the build")
    parser.add_argument("--results", default="detection.jsonl")
    parser.add_argument("--work", default="/var/tmp/slowrank-detection",
                        help="on a disk, for major page faults")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")],
                        default=list(RANKS))
    parser.add_argument("--budget-minutes", type=float, default=1e9)
    parser.add_argument("--brief", action="store_true", help="short jobs, for a quick look")
    parser.add_argument("--retry-failed", action="store_true")
    parser.add_argument("--summary", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    if set(arguments.kinds) - set(KINDS) or set(arguments.ranks) - set(RANKS):
        parser.error(f"kinds are {','.join(KINDS)}; ranks are 4,8,16")
    return arguments


def main():
    arguments = parse_arguments()
    paths = {"slowrank": arguments.slowrank or os.path.join(arguments.build, "slowrank"),
             "workload": os.path.join(arguments.build, "workload_mpi"),
             "injector": os.path.join(arguments.build, "fault_injector"),
             "work": arguments.work}
    paths = {name: os.path.abspath(path) for name, path in paths.items()}
    deadline = time.monotonic() + 60 * arguments.budget_minutes
    results = read_results(arguments.results)
    if arguments.retry_failed:
        results = [r for r in results if "error" not in r]
    done = {(r["kind"], r["ranks"], r["seed"]) for r in results}
    if not arguments.summary and os.geteuid() != 0:
        print("bench/detection.py: needs root, for BPF and for real faults", file=sys.stderr)
        return 77
    for kind, rank_count, seed in () if arguments.summary else cases(arguments):
        if (kind, rank_count, seed) in done:
            continue
        if time.monotonic() > deadline:
            print("bench/detection.py: the time is up; call again to go on", file=sys.stderr)
            break
        jobs.remove_stale_cgroups()
        result = run_case(paths, kind, rank_count, seed, arguments.brief)
        results.append(result)
        with open(arguments.results, "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        print(describe(result), file=sys.stderr, flush=True)
    summary = summarise(results)
    print(table(summary))
    print(json.dumps(summary))
    return 0


def describe(result):
    name = f"{result['kind']} {result['ranks']} ranks seed {result['seed']}"
    if "error" in result:
        return f"{name}: FAILED: {result['error'].splitlines()[-1:]}"
    faults = ", ".join(
        f"{'' if f['counted'] else 'weak, '}rank {f['named']} class {f['class']} "
        f"cause {f['cause']} {f.get('verdict')}" for f in result["score"]["windows"])
    return (f"{name}: {faults or 'healthy'}; false alarms {len(result['score']['false'])}; "
            f"{result['seconds']} s")


if __name__ == "__main__":
    sys.exit(main())
