#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input: one clear line and exit 2, or the job's own status for run."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check, check_one_line  # noqa: E402


def slowrank(paths, *arguments):
    return subprocess.run([paths.slowrank, *arguments], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)


def make_record(paths):
    """A small real record; without rights it has no steps, but it is a record all the same."""
    record = os.path.join(paths.directory, "record.slr")
    if os.path.exists(record):
        os.unlink(record)
    done = slowrank(paths, "run", "--record", record, "--quiet", "--", *jobs.mpirun(2),
                    paths.workload, "--steps", "60", "--step-ms", "10")
    check(done.returncode == 0, f"run: exit {done.returncode}: {done.stderr}")
    return record


def records(paths):
    whole = make_record(paths)
    broken = os.path.join(paths.directory, "broken.slr")
    with open(whole, "rb") as file:
        content = file.read()
    size = len(content)
    check(size > 200, f"the record has only {size} bytes")

    def report_of(data):
        with open(broken, "wb") as file:
            file.write(data)
        return slowrank(paths, "report", broken, "--format", "json")

    check(report_of(content).returncode == 0, "the whole record is fine")
    for name, data in {"empty": b"", "no record": b"hello world\n" * 50,
                       "only the first bytes": content[:6]}.items():
        done = report_of(data)
        check(done.returncode == 2, f"{name}: exit {done.returncode}: {done.stderr}")
        check_one_line(done.stderr, name)
        check(done.stdout == "", f"{name}: no report is written")
    cut = report_of(content[:size * 2 // 3])
    check(cut.returncode in (0, 2), f"cut: exit {cut.returncode}")
    check_one_line(cut.stderr, "cut")
    check("truncated" in cut.stderr or "cut" in cut.stderr or "end" in cut.stderr,
          f"cut: says so: {cut.stderr!r}")
    missing = slowrank(paths, "report", "/nonexistent/record.slr")
    check(missing.returncode == 2, f"missing: exit {missing.returncode}")
    check_one_line(missing.stderr, "missing")
    check("/nonexistent/record.slr" in missing.stderr, "missing: the file is named")


def usage(paths):
    for arguments in (["report"], ["report", "--format", "papyrus", "x.slr"], ["run"],
                      ["run", "--sources", "crystal-ball", "--", "true"], ["run", "--nonsense"],
                      ["attach"], ["attach", "--pid", "x"], ["frobnicate"]):
        done = slowrank(paths, *arguments)
        check(done.returncode == 2, f"{arguments}: exit {done.returncode}: {done.stderr}")
        check_one_line(done.stderr, str(arguments))


def coordinator(paths):
    """A coordinator that is not there: one line, and the job's own status."""
    for url in ("tcp://127.0.0.1:9", "nonsense://x"):
        done = slowrank(paths, "run", "--quiet", "--coordinator", url, "--", "sh", "-c",
                        "sleep 0.5; exit 6")
        check(done.returncode in ((6,) if url.startswith("tcp") else (2, 6)),
              f"{url}: exit {done.returncode}: {done.stderr}")
        check_one_line(done.stderr, url)
        check("coordinator" in done.stderr, f"{url}: says what is wrong: {done.stderr!r}")


CASES = {"records": records, "usage": usage, "coordinator": coordinator}

if __name__ == "__main__":
    harness.main(CASES)
