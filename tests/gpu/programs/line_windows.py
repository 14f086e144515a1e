# SPDX-License-Identifier: Apache-2.0
"""Faults at known lines (line_faults.py) in a program of run.py: when, of whom, and what was said of them."""
import os
import random
import re
import shlex
import statistics
import time

import marked_lines
import rules
from line_faults import EVERY_RANK

LINES = marked_lines.lines_of(os.path.join(os.path.dirname(os.path.abspath(__file__)), "line_faults.py"))
KINDS = tuple(kind.removeprefix("line-") for kind in rules.EXPECTED if kind.startswith("line-"))
NATIVE = {"native": r"native_churn", "mutex": r"native_(enter|hold)"}  # functions that are as good as the lines
OF_TORCH = {"tensor", "checkpoint", "data-loader", "allocator", "copies"}
WITH_LOADER = {"accelerate_loop.py", "hf_trainer.py", "lightning_fit.py", "peft_lora.py", "vision.py"}
FOR_EVERYONE = ("python", "tensor", "lock")  # so long on each rank: nobody is slow
WINDOW_S, GAP_S, LAST_GAP_S = 9.0, 3.0, 3.0
START_S = 45  # until the first one
GROWTHS = (1.2, 2.0)  # of the step's length: less may hide in what the host is ahead of its device
SECONDS = (0.03, 0.8)  # at least, at most
COLUMNS = ("named", "class", "placed", "frame right", "cause right", "cause unknown", "cause wrong")


def kinds_of(command, native):
    """Those that can be made in a program of run.PROGRAMS. native: whether there is the library."""
    file = shlex.split(command)[0]
    return [kind for kind in KINDS if not (kind in NATIVE and not native) and not (kind == "data-loader" and file not in WITH_LOADER)
            and not (kind in OF_TORCH and file.startswith("jax"))]


def draw(name, mode, seed, ranks, kinds, count):
    """[(kind, rank, growth)]: by the names and the seed alone; two in sequence are on different ranks, one is on all."""
    dice, before, faults = random.Random(f"lines/{name}/{mode}/{seed}"), None, []
    for kind in dice.sample(kinds, min(count - 1, len(kinds))):
        before = dice.choice([rank for rank in range(ranks) if rank != before])
        faults.append((kind, before, dice.uniform(*GROWTHS)))
    faults.insert(dice.randrange(1, len(faults)), (dice.choice(FOR_EVERYONE), EVERY_RANK, GROWTHS[0]))
    return faults


def job_s(count):
    """How long a job with so many takes."""
    return START_S + count * (WINDOW_S + GAP_S)


def step_s(ranks):
    """How long a step of the healthy job is."""
    begins = ranks[0]["steps"][-60:]
    return statistics.median(after - now for now, after in zip(begins, begins[1:]))


class Inside:
    """Makes faults in a running job. folder: its $TRUTH."""

    def __init__(self, folder, length_s):
        self.path, self.length_s = os.path.join(folder, "fault"), length_s

    def make(self, kind, rank, growth, seconds=WINDOW_S):
        """Makes one for so long; returns what run.truth_of() needs."""
        hidden = kind == "data-loader"  # its workers load while the step runs
        each_s = min(max((growth + hidden) * self.length_s, SECONDS[0]), SECONDS[1])
        with open(self.path + ".new", "w", encoding="ascii") as file:
            file.write(f"{kind} {rank} {each_s:.6f}")
        begin_s = time.time()
        os.rename(file.name, self.path)
        time.sleep(seconds)
        os.unlink(self.path)
        return {"kind": "line-" + kind, "rank": rank, "begin_s": begin_s, "end_s": time.time(), "why": "",
                "each_ms": round(1e3 * each_s, 1), "lines": sorted(LINES["AT", kind] | LINES.get(("HOLDS", kind), set()))}


def make_all(job, ranks, faults, deadline):
    """Returns those that were made: as many as there is time for, by time.monotonic()."""
    inside, made = Inside(job.truth_folder, step_s(ranks)), []
    for kind, rank, growth in faults:
        if time.monotonic() + GAP_S + WINDOW_S + LAST_GAP_S > deadline:
            break
        if made:
            time.sleep(GAP_S)
        made.append(inside.make(kind, rank, growth))
    time.sleep(LAST_GAP_S)
    return made


def names_line(kind, where):
    """Whether the first place that it tells is right. where: of the report."""
    found = re.search(r"([\w./-]+):(\d+)\)", where["text"])
    right = LINES["AT", kind] | LINES.get(("HOLDS", kind), set())  # who has a lock is as good
    if found and os.path.basename(found.group(1)) == "line_faults.py" and int(found.group(2)) in right:
        return True
    return kind in NATIVE and bool(re.search(NATIVE[kind], where["text"].split(";")[0]))


def score(scored, report):
    """Of each window that counts, what was said of it. scored: by rules.score()."""
    verdicts, lines = {verdict["id"]: verdict for verdict in report["verdicts"]}, []
    for window in scored["windows"]:
        if not window["counted"] or not window["kind"].startswith("line-"):
            continue
        kind, line = window["kind"].removeprefix("line-"), dict.fromkeys(COLUMNS, False)
        line.update(kind=kind, rank=window["rank"], growth=window["growth"], where="")
        if window["named"]:
            where, cause = marked_lines.where_of(verdicts[window["verdict"]["id"]]), window["verdict"]["cause"]
            right = cause in rules.EXPECTED[window["kind"]][1]
            line.update({"named": True, "class": window["class"], "placed": bool(where), "cause": cause,
                         "frame right": bool(where) and names_line(kind, where), "where": where["text"] if where else "",
                         "cause right": right, "cause unknown": cause == "unknown", "cause wrong": not right and cause != "unknown"})
        lines.append(line)
    return lines


def table(results):
    """For people, in Markdown. results: of run.score()."""
    lines = [line for result in results for line in result.get("lines", [])]
    rows = ["| fault at a known line | windows | " + " | ".join(COLUMNS) + " |", "| --- |" + " ---: |" * (1 + len(COLUMNS))]
    for kind in [*KINDS, "all"]:
        of_kind = [line for line in lines if kind in ("all", line["kind"])]
        if of_kind:
            rows.append(f"| {kind} | {len(of_kind)} | " + " | ".join(str(sum(line[key] for line in of_kind)) for key in COLUMNS) + " |")
    said = [verdict for result in results if "lines" in result for verdict in result["host_slow"]]
    rows += ["", f"Of {len(said)} host-slow verdicts {sum(cause == 'unknown' for cause in said)} have no cause; "
             f"{sum(len(result['score']['false']) for result in results if 'lines' in result)} verdicts are false."]
    rows += [f"- {line['kind']} on rank {line['rank']}, {line['growth']} x: {line.get('cause', 'MISSED')}; {line['where']}" for line in lines]
    return "\n".join(rows) + "\n"
