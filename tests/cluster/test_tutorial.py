#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/tutorial.md do what it says: blocks marked "run", one after the other, as a reader types them."""
import json
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import check  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def blocks(mark):
    found = re.findall(rf"<!-- {re.escape(mark)} -->\n```sh\n(.*?)```\n", read("docs/tutorial.md"), re.DOTALL)
    check(found, f"docs/tutorial.md has no block marked {mark!r}")
    return found


def run(paths, script):
    """In a folder where build/ is the build; ends at the first command that fails."""
    link = os.path.join(paths.directory, "build")
    if not os.path.islink(link):
        os.symlink(os.path.dirname(paths.slowrank), link)
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for _ in range(20):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=paths.directory, text=True, timeout=150,
                              env=environment, capture_output=True, check=False)
        # On a busy machine the record's end may be written after `run` has returned.
        if done.returncode == 0 or not script.startswith("build/slowrank report"):
            break
        time.sleep(0.5)
    check(done.returncode == 0, f"exit status {done.returncode} of {script}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def need_mpi(paths):
    if not os.path.exists(paths.workload):
        harness.skip("needs Open MPI, and what is built with it")


def tutorial(paths):
    need_mpi(paths)
    for line in "".join(blocks("in scripts/quickstart.sh")).splitlines():
        check(line in read("scripts/quickstart.sh"), f"not what scripts/quickstart.sh does: {line}")
    text = "".join(run(paths, script) for script in blocks("run"))
    with open(os.path.join(paths.directory, "tutorial.json"), encoding="utf-8") as file:
        told = [(v["ranks"], v["cause"]) for v in json.load(file)["verdicts"]]
    check(([2], "cgroup-throttle") in told, f"rank 2 was not named for its quota: {told}\n{text}")
    for part in ("What to do", "Evidence", "Job", "Costs", "Ranks", "Coverage", "Why named as late, or not"):
        check(re.search(rf"^{part}", text, re.MULTILINE), f"no part {part!r} in\n{text}")


def hang(paths):
    need_mpi(paths)
    text = "".join(run(paths, script) for script in blocks("run: hang"))
    for words in ("ALERT rank 1", "hang", "entered by 3 of 4", "rank 1 last left all-reduce", "work_spin"):
        check(words in text, f"{words!r} is not in\n{text}")


if __name__ == "__main__":
    harness.main({"tutorial": tutorial, "hang": hang})
