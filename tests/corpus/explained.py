#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What report --explain says of the corpus's records agrees with their verdicts.

usage: explained.py SLOWRANK [JOB...]

Who is named got through every gate, and who is not was held back by one; the verdicts are the same as without.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import replay  # noqa: E402


def report_of(slowrank, record, *options):
    done = subprocess.run([slowrank, "report", record, "--format", "json", *options], capture_output=True,
                          timeout=300, check=False)
    return json.loads(done.stdout)


def problems_of(slowrank, record):
    with tempfile.TemporaryDirectory() as directory:
        plain = replay.unpacked(record, directory)
        report, without = report_of(slowrank, plain, "--explain", "all"), report_of(slowrank, plain)
    verdicts = {verdict["id"]: verdict for verdict in report["verdicts"]}
    sheets = {sheet.get("rank", "transfers"): sheet for sheet in report["explain"]["sheets"]}
    found = [] if report["verdicts"] == without["verdicts"] else ["other verdicts than without"]
    for who, sheet in sheets.items():
        held = [gate["name"] for gate in sheet["gates"] if not gate["passed"]]
        if not sheet["told"] and held[-1:] != [sheet["held_by"]]:
            found.append(f"{who} is held by {sheet['held_by']}, the last gate is of {held}")
        if sheet["told"] and who != "transfers" and who not in verdicts.get(sheet.get("verdict"), {}).get("ranks", []):
            found.append(f"rank {who} is told of, but not by verdict {sheet.get('verdict')}")
    for verdict in report["verdicts"]:
        late = {"host-slow": verdict["ranks"], "compute-slow": verdict["ranks"],
                "comm-slow": ["transfers"]}.get(verdict["class"], [])
        found += [f"{who} is named by verdict {verdict['id']}, and held by {sheets[who]['held_by']}"
                  for who in late if not sheets[who]["told"]]
    return found


def main():
    slowrank, names = sys.argv[1], sys.argv[2:]
    jobs = replay.jobs_in(replay.HERE)
    chosen = {name: record for name, record in jobs.items() if not names or name in names}
    found = replay.for_all(lambda name, record: problems_of(slowrank, record), chosen)
    for name, problems in found.items():
        for problem in problems:
            print(f"{name}: {problem}")
    print(f"{len(found)} jobs, of which {sum(map(bool, found.values()))} disagree")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
