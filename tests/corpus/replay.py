#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays the records of this folder and scores the reports against the truth beside them.

    tests/corpus/replay.py --slowrank build/slowrank             compares with score.json
    tests/corpus/replay.py --slowrank build/slowrank --update    and writes what it is now
    tests/corpus/replay.py --slowrank build/slowrank --folder F  of another folder: scores alone
    tests/corpus/replay.py ... jax tensor-parallel               only these jobs
    tests/corpus/replay.py --against OTHER_SLOWRANK              no score: which verdicts differ from another
                                                                 build's; --text: and which reports, in any byte

A job is NAME.slr or NAME.slr.xz and NAME.json; add.py adds one. score.json is what the last run said:
a run that says anything else fails, and tells what is worse and what is better. --update is
for a wanted change; it also writes the table in docs/results.md and its sum in README.md. Exit status: 0 when the score is as
expected, else 1; 2 for what cannot be read.
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import lzma
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import changes  # noqa: E402
import rules  # noqa: E402

EXPECTED = os.path.join(HERE, "score.json")
MARKS = ("<!-- corpus: made by tests/corpus/replay.py --update -->\n", "<!-- end of corpus -->\n")
RECORD_ENDINGS = (".slr", ".slr.xz")
KEPT = ("kind", "rank", "first", "counted", *rules.GOOD)


def jobs_in(folder):
    """name -> path of the record."""
    found = {}
    for ending in RECORD_ENDINGS:
        for path in glob.glob(os.path.join(folder, "*" + ending)):
            found[os.path.basename(path)[:-len(ending)]] = path
    return dict(sorted(found.items()))


def unpacked(record, directory):
    """The path of a plain record; in the directory where it was packed."""
    if not record.endswith(".xz"):
        return record
    plain = os.path.join(directory, os.path.basename(record)[:-3])
    with lzma.open(record) as packed, open(plain, "wb") as file:
        file.write(packed.read())
    return plain


def run_report(slowrank, record, form):
    return subprocess.run([slowrank, "report", record, "--format", form], capture_output=True,
                          timeout=300, check=False)


def report_of(slowrank, record):
    """The report of a plain record, or None and why there is none."""
    done = run_report(slowrank, record, "json")
    try:
        return json.loads(done.stdout), ""
    except ValueError:
        return None, done.stderr.decode(errors="replace").strip()[-200:] or f"exit {done.returncode}"


def score_job(slowrank, name, record):
    with open(os.path.join(os.path.dirname(record), name + ".json"), encoding="utf-8") as file:
        truth = json.load(file)
    with tempfile.TemporaryDirectory() as directory:
        report, why = report_of(slowrank, unpacked(record, directory))
    scored = rules.score(truth, report)
    return dict(scored, program=truth["program"], no_report=why)


def for_all(work, chosen):
    """name -> what the work says of (name, record), in the order of the names."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = {name: pool.submit(work, name, record) for name, record in chosen.items()}
        return {name: future.result() for name, future in waiting.items()}


def changes_of(old, new, record, text):
    """[(kind, line)] of what two builds say differently of a record."""
    with tempfile.TemporaryDirectory() as directory:
        plain = unpacked(record, directory)
        (was, why), (now, new_why) = report_of(old, plain), report_of(new, plain)
        found = changes.lines(was, now)
        if bool(was) != bool(now):
            found.append(("report", f"no report{' any more' if was else ' before'}: {why or new_why}"))
        for form in ("json", "text") if text else ():
            if run_report(old, plain, form).stdout != run_report(new, plain, form).stdout:
                found.append((form, "the report is another"))
        return found


def print_changes(old, new, chosen, text):
    """Prints which verdicts of the jobs differ. Returns the exit status."""
    found = for_all(lambda name, record: changes_of(old, new, record, text), chosen)
    count = collections.Counter(kind for job in found.values() for kind, _ in job)
    for name, job in found.items():
        for kind, line in job:
            print(f"{name:28s} {kind + ':':8s} {line}")
    print(f"{len(found)} jobs, of which {sum(map(bool, found.values()))} differ"
          + "".join(f", {kind} {number}" for kind, number in sorted(count.items())))
    return 1 if count else 0


def summary_of(scores):
    """What score.json holds of it: what is right, not by how much."""
    return {"total": rules.sums(scores.values()), "jobs": {
        name: {"windows": [{key: w[key] for key in KEPT if key in w} for w in scored["windows"]],
               "false": len(scored["false"]), "steps_right": scored["steps_right"],
               "not_said": scored["not_said"]}
        for name, scored in scores.items()}}


def differences(old, new):
    """(lines on what is worse, lines on what is better); other changes count as worse."""
    worse, better = [], []
    for name in sorted({*old["jobs"], *new["jobs"]}):
        was, now = old["jobs"].get(name), new["jobs"].get(name)
        if was is None or now is None:
            worse.append(f"{name}: {'is new' if was is None else 'is gone'}")
            continue
        if was["false"] != now["false"]:
            (worse if now["false"] > was["false"] else better).append(
                f"{name}: {now['false']} false verdicts, {was['false']} before")
        if was["steps_right"] != now["steps_right"]:
            (better if now["steps_right"] else worse).append(
                f"{name}: steps right {now['steps_right']}, {was['steps_right']} before")
        for words in {*was["not_said"]} ^ {*now["not_said"]}:
            (worse if words in now["not_said"] else better).append(f"{name}: not said: {words}")
        if len(was["windows"]) != len(now["windows"]):
            worse.append(f"{name}: {len(now['windows'])} windows, {len(was['windows'])} before")
        for one, other in zip(was["windows"], now["windows"]):
            for key in one:
                if one[key] != other.get(key):
                    is_better = key in rules.GOOD and other.get(key) is True
                    (better if is_better else worse).append(
                        f"{name}: {one['kind']} of rank {one['rank']} at step {one['first']}: "
                        f"{key} {other.get(key)}, {one[key]} before")
    return worse, better


def table_of(scores):
    """Markdown: a row a job, and their sum."""
    lines = ["| job | program | " + " | ".join(rules.COLUMNS[:7]) + " | steps, of true |",
             "| --- | --- |" + " ---: |" * 8]
    for name, scored in scores.items():
        row = rules.sums([scored])
        steps = f"{scored['report_steps']} of {scored['true_steps']}"
        lines.append(f"| {name} | {scored['program']} | " + " | ".join(
            str(row[column]) for column in rules.COLUMNS[:7]) + f" | {steps} |")
    total = rules.sums(scores.values())
    lines.append("| **sum** | | " + " | ".join(f"**{total[c]}**" for c in rules.COLUMNS[:7])
                 + f" | wrong in {total['jobs with wrong steps']} of {total['jobs']} jobs |")
    return "\n".join(lines) + "\n"


def sentence_of(scores):
    """The same for README.md: the sum."""
    total = rules.sums(scores.values())
    return (f"{total['jobs']} recorded real jobs, judged again with each commit: {total['named']} of {total['windows']} faults named (goal: 97 %), "
            f"{total['class']} with the right class, {total['cause']} with the right cause, {total['in time']} told in time (all); "
            f"{total['false']} false verdicts (none).\n")


def pages_with(scores):
    """Of each page that has the marks: its path, what it is, and what it would be with these scores."""
    pages = []
    for name, made_of in (("docs/results.md", table_of), ("README.md", sentence_of)):
        path = os.path.join(ROOT, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        before, rest = text.split(MARKS[0])
        pages.append((path, text, before + MARKS[0] + made_of(scores) + MARKS[1] + rest.split(MARKS[1])[1]))
    return pages


def compare(scores, update):
    """Prints what differs from score.json and the pages. Returns the exit status."""
    new, pages = summary_of(scores), pages_with(scores)
    if update:
        with open(EXPECTED, "w", encoding="utf-8") as file:
            json.dump(new, file, indent=1)
            file.write("\n")
        for path, _, wanted_text in pages:
            with open(path, "w", encoding="utf-8") as file:
                file.write(wanted_text)
        return 0
    with open(EXPECTED, encoding="utf-8") as file:
        worse, better = differences(json.load(file), new)
    other = [path for path, is_text, wanted_text in pages if is_text != wanted_text]
    for line in worse:
        print("WORSE:", line)
    for line in better:
        print("better:", line)
    for path in other:
        print(f"{os.path.relpath(path, ROOT)} has other numbers than this run")
    if not worse and (better or other):
        print("nothing is worse: run again with --update, and commit what it writes")
    return 1 if worse or better or other else 0


def settle(path, new, update, differ):
    """Of scores kept in a file beside this: writes them, or prints what differ(old, new) says is worse and better.
    Returns the exit status."""
    if update:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(new, file, indent=1)
            file.write("\n")
        return 0
    with open(path, encoding="utf-8") as file:
        worse, better = differ(json.load(file), new)
    for line in worse:
        print("WORSE:", line)
    for line in better:
        print("better:", line)
    if better and not worse:
        print("run again with --update, and commit what it writes")
    return 1 if worse else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slowrank", default=os.path.join(ROOT, "build", "slowrank"))
    parser.add_argument("--folder", default=HERE)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--against", metavar="OTHER_SLOWRANK")
    parser.add_argument("--text", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    found = jobs_in(arguments.folder)
    missing = [name for name in arguments.names if name not in found]
    if missing or not found:
        parser.error(f"no such job: {', '.join(missing) or arguments.folder}")
    chosen = {name: record for name, record in found.items()
              if not arguments.names or name in arguments.names}
    if arguments.against:
        return print_changes(arguments.against, arguments.slowrank, chosen, arguments.text)
    scores = for_all(lambda name, record: score_job(arguments.slowrank, name, record), chosen)
    for name, scored in scores.items():
        if scored["no_report"]:
            print(f"{name:28s} NO REPORT: {scored['no_report']}")
        for line in rules.describe(name, scored):
            print(line)
    print(", ".join(f"{key} {value}" for key, value in rules.sums(scores.values()).items()))
    if arguments.names or os.path.abspath(arguments.folder) != HERE:
        return 0
    return compare(scores, arguments.update)


if __name__ == "__main__":
    sys.exit(main())
