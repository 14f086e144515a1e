#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs with a fault over two to four nodes, by each launcher, beside the same job on one host.

Of each seed come the nodes, the ranks of each, the fault, and when it begins. All launchers run the job
of a seed, and it runs on this host alone, too. Results are appended to a file, one JSON object a line; a
later call skips what is there.

    bench/launchers.py --build build --seeds 20 --results launchers.jsonl --budget-minutes 60
    bench/launchers.py --results launchers.jsonl --summary     only the table of what is there

Prints a table in Markdown. Exit status 1: a job was split, or ranks were missing. Needs root.
"""
import argparse
import json
import os
import random
import sys
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", part) for part in ("cluster", "corpus")]
import harness  # noqa: E402
import jobs  # noqa: E402
import launchers  # noqa: E402
import rules  # noqa: E402
import truth as truth_of  # noqa: E402

KINDS = ("compute", "throttle", "contention", "minor")
SHAPES = ((2, 2), (2, 3), (3, 1), (3, 2), (4, 1))
ONE_HOST = "one host"
COLUMNS = ("one record", "all ranks", "fault", "named", "class", "as on one host", "false")


def draw(seed, kinds=KINDS):
    """Nodes, ranks of each, and the workload's options of a job of some 4 s."""
    dice = random.Random(seed)
    shape = dice.choice(SHAPES)
    rank_count = shape[0] * shape[1]
    first, window = dice.randrange(60, 100), dice.randrange(70, 90)
    kind = dice.choice(kinds)
    fault = {"rank": dice.randrange(rank_count), "kind": kind, "first": first,
             "last": first + window - 1, "size": dice.randrange(40, 81)}
    options = {"steps": first + window + 20, "step_ms": round(dice.uniform(18, 26), 1),
               "compute_ms": round(dice.uniform(6, 10) / rank_count, 2), "seed": seed,
               "faults": [" ".join(f"{key}={value}" for key, value in fault.items())]}
    if kind == "contention":  # there must be computing to be held up, in short turns
        options.update(compute_ms=round(dice.uniform(10, 13) / rank_count, 2), turn_ms=0.4)
    return shape, options


def on_one_host(job):
    return job.run_here([*job.watched(), *jobs.mpirun(job.rank_count), *job.open_mpi()])


def score(job, output):
    report = json.loads(jobs.whole_report(job.paths.slowrank, job.record).stdout)
    records = [name for name in os.listdir(job.paths.directory) if ".slr" in name]
    scored = rules.score(truth_of.of_workload(jobs.Truth(job.truth)), report)
    split = any(words in output for words in ("recording to", "refuses", "no answer"))
    return {"one record": len(records) == 1 and not split,
            "all ranks": report["job"]["ranks"] == job.rank_count,
            "windows": scored["windows"], "false": scored["false"],
            "said": sorted([v["class"], v["cause"], v["ranks"]] for v in report["verdicts"])}


def run_case(arguments, name, seed):
    """Runs and scores one job. Returns the result as one JSON object."""
    (node_count, ranks_per_node), options = draw(seed, arguments.kinds)
    if name in launchers.ONE_RANK_A_NODE:
        node_count, ranks_per_node = node_count * ranks_per_node, 1
    directory = os.path.join(os.path.abspath(arguments.work), f"{name.replace(' ', '-')}-{seed}")
    os.makedirs(directory, exist_ok=True)
    for left in os.listdir(directory):
        if ".slr" in left:
            os.unlink(os.path.join(directory, left))
    paths = harness.Paths(os.path.abspath(arguments.build), directory)
    result = {"launcher": name, "seed": seed, "nodes": node_count, "ranks": ranks_per_node * node_count,
              "fault": options["faults"][0]}
    started = time.monotonic()
    start = on_one_host if name == ONE_HOST else launchers.LAUNCHERS[name]
    try:
        with jobs.Cluster(directory, node_count, ranks_per_node) as nodes:
            with jobs.Injector(paths.injector, directory) as injector:
                job = launchers.Job(paths, nodes, {**options, "injector": injector.socket})
                result.update(score(job, start(job)))
    except SystemExit as error:
        result["skipped" if error.code == harness.SKIPPED else "error"] = str(error)[-2000:]
    except Exception as error:  # one job that fails must not end the series; it is counted
        result["error"] = str(error)[-2000:]
    result["seconds"] = round(time.monotonic() - started, 1)
    return result


def table(results):
    """One row a launcher; "as on one host": the same verdicts as those of the same seed there."""
    alone = {r["seed"]: r.get("said") for r in results if r["launcher"] == ONE_HOST}
    lines = ["| launcher | jobs | failed | " + " | ".join(COLUMNS) + " |",
             "| --- |" + " ---: |" * (2 + len(COLUMNS))]
    for name in dict.fromkeys(r["launcher"] for r in results):
        ran = [r for r in results if r["launcher"] == name and "skipped" not in r]
        scored = [r for r in ran if "said" in r]
        windows = [w for r in scored for w in r["windows"] if w["counted"]]
        cells = [len(ran), len(ran) - len(scored), sum(r["one record"] for r in scored),
                 sum(r["all ranks"] for r in scored), len(windows),
                 sum(w["named"] for w in windows), sum(w["class"] for w in windows),
                 sum(r["said"] == alone.get(r["seed"]) for r in scored),
                 sum(len(r["false"]) for r in scored)]
        lines.append(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def read_results(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "launchers"),
                        help="where the nodes find it: below this repository")
    parser.add_argument("--results", default="launchers.jsonl")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--launchers", type=lambda text: text.split(","),
                        default=[ONE_HOST, *launchers.LAUNCHERS])
    parser.add_argument("--budget-minutes", type=float, default=1e9)
    parser.add_argument("--summary", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    results = read_results(arguments.results)
    if not arguments.summary and not jobs.can_throttle():
        print("bench/launchers.py: needs root and cgroups, for nodes and faults", file=sys.stderr)
        return harness.SKIPPED
    done = {(r["launcher"], r["seed"]) for r in results}
    deadline = time.monotonic() + 60 * arguments.budget_minutes
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        for name in () if arguments.summary else arguments.launchers:
            if (name, seed) in done or time.monotonic() > deadline:
                continue
            with jobs.one_by_one():
                results.append(run_case(arguments, name, seed))
            print(json.dumps({k: v for k, v in results[-1].items() if k != "windows"}), flush=True)
            with open(arguments.results, "a", encoding="utf-8") as file:
                file.write(json.dumps(results[-1]) + "\n")
    wrong = ["error" in r or not r.get("one record", True) or not r.get("all ranks", True)
             for r in results]
    print(table(results) + f"\n\n{len(results)} jobs, {sum(wrong)} failed, split or without some ranks")
    return int(any(wrong))


if __name__ == "__main__":
    sys.exit(main())
