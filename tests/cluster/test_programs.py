#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MPI programs from Debian that know nothing of slowrank: healthy, and with one rank throttled.

hpcc: the HPC Challenge benchmark. examl: maximum-likelihood phylogeny, thousands of all-reduces.
"""
import os
import random
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

THROTTLED_RANK = 1
QUOTA_PERCENT = 25  # of one core


def rank_count():
    """These programs poll without a pause: no more ranks than cores, and at most four."""
    count = min(4, os.cpu_count() or 1)
    if count < 2:
        harness.skip("needs two cores")
    return count


def prepare_hpcc(directory):
    if not shutil.which("hpcc"):
        harness.skip("hpcc is not installed")
    with open("/usr/share/doc/hpcc/examples/_hpccinf.txt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    ranks = rank_count()
    lines[5] = "1200         Ns"
    lines[10] = f"{1 if ranks < 4 else 2}            Ps"
    lines[11] = f"{ranks if ranks < 4 else 2}            Qs"
    with open(os.path.join(directory, "hpccinf.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return ["hpcc"]


def write_alignment(directory, taxa=12, sites=8000):
    """Sequences that evolved along a random tree, and a start tree that is a caterpillar."""
    dice = random.Random(3)
    leaves = [[dice.choice("ACGT") for _ in range(sites)]]
    while len(leaves) < taxa:
        parent = leaves.pop(dice.randrange(len(leaves)))
        for _ in range(2):
            leaves.append([base if dice.random() > 0.06 else dice.choice("ACGT")
                           for base in parent])
    with open(os.path.join(directory, "alignment.phy"), "w", encoding="utf-8") as file:
        file.write(f"{taxa} {sites}\n")
        for i, leaf in enumerate(leaves):
            file.write(f"t{i} {''.join(leaf)}\n")
    tree = "t0:0.1"
    for i in range(1, taxa - 2):
        tree = f"({tree},t{i}:0.1):0.1"
    with open(os.path.join(directory, "start.tree"), "w", encoding="utf-8") as file:
        file.write(f"({tree},t{taxa - 2}:0.1,t{taxa - 1}:0.1);\n")


def prepare_examl(directory):
    program = "/usr/lib/examl/bin/examl-sse3"  # /usr/bin/examl is a script that calls mpirun
    if not os.path.exists(program) or not shutil.which("parse-examl"):
        harness.skip("examl is not installed")
    for name in os.listdir(directory):
        if name.startswith(("ExaML_", "RAxML_", "alignment.")):
            os.unlink(os.path.join(directory, name))
    write_alignment(directory)
    subprocess.run(["parse-examl", "-s", "alignment.phy", "-m", "DNA", "-n", "alignment"],
                   cwd=directory, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return [program, "-s", "alignment.binary", "-t", "start.tree", "-m", "GAMMA", "-n", "run",
            "-D"]


def run(paths, prepare, throttled):
    """Runs the program under slowrank and returns the report's verdicts."""
    if throttled and not jobs.can_throttle():
        harness.skip("no cgroup with the cpu controller")
    os.chdir(paths.directory)  # both programs read and write where they stand
    command = prepare(paths.directory)
    launcher = jobs.mpirun(rank_count())
    if throttled:
        launcher += [os.path.join(jobs.HERE, "throttle_rank.sh"), str(THROTTLED_RANK),
                     str(QUOTA_PERCENT)]
    try:
        watched = jobs.run_watched(paths.slowrank, paths.directory, launcher + command)
    finally:
        jobs.remove_stale_cgroups()
    check(watched.status == 0, f"exit {watched.status}:\n{watched.tail()}")
    report = watched.report(paths.slowrank)
    check(report["job"]["ranks"] == rank_count(), f"{report['job']['ranks']} ranks seen")
    print(f"{report['job']['steps']} steps, median {report['summary']['step_ms_median']} ms")
    for verdict in report["verdicts"]:
        print({key: verdict[key] for key in ("class", "cause", "ranks", "slowdown",
                                             "first_step", "last_step")})
    return report["verdicts"]


def healthy(prepare):
    def case(paths):
        verdicts = run(paths, prepare, False)
        check(not verdicts, f"{len(verdicts)} verdicts on a healthy run")
    return case


def throttled(prepare):
    def case(paths):
        verdicts = run(paths, prepare, True)
        check(verdicts, "no verdict")
        for verdict in verdicts:
            check(verdict["ranks"] == [THROTTLED_RANK], f"names {verdict['ranks']}")
        causes = {verdict["cause"] for verdict in verdicts}
        check("cgroup-throttle" in causes, f"causes: {causes}")
    return case


CASES = {"hpcc_healthy": healthy(prepare_hpcc), "hpcc_throttled": throttled(prepare_hpcc),
         "examl_healthy": healthy(prepare_examl), "examl_throttled": throttled(prepare_examl)}

if __name__ == "__main__":
    harness.main(CASES)
