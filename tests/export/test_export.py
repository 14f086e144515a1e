#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `slowrank export` and `slowrank history` write, against the record and the report.

    tests/export/test_export.py --build build [--all] [NAME...]

Each record is exported in each format. Cell by cell: what a rank's rows have of its phases is, step after step, what
the entries say that its probe sent. In sum: the tables say what `slowrank report --format json` says. The queries of
docs/export.md run, and those of nodes say what `slowrank history` says. Records are of tests/corpus (some, or --all),
simulated, and thinned. Exit status: 0, or 1 with one line for each problem.
"""
import argparse
import csv
import glob
import io
import itertools
import json
import lzma
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import check_trace  # noqa: E402

CORPUS = ("gpu-nodes", "garbage", "steps-accumulate", "program-pipeline-1f1b-root", "attach-late-host", "hang-busy")
PHASES = ("input_ns", "compute_ns", "host_ns", "comm_ns")
TABLES = ("rank_steps", "steps", "ranks", "records", "incidents", "incident_ranks", "evidence", "sources", "gaps")
ROUNDED_MS = 0.00006  # the report's times have four decimals


class Test:
    def __init__(self, build, folder):
        self.slowrank = os.path.join(build, "slowrank")
        self.cells = os.path.join(build, "tests", "record_cells")
        self.folder = folder
        self.problems = []

    def expect(self, condition, what):
        if not condition:
            self.problems.append(what)

    def run(self, *words, status=0):
        done = subprocess.run([self.slowrank, *words], capture_output=True, check=False)
        self.expect(done.returncode == status,
                    f"{' '.join(words)}: exit {done.returncode}, not {status}: {done.stderr.decode()[:300]}")
        return done

    def path(self, name):
        return os.path.join(self.folder, name)

    def database(self, records, name, status=0):
        path = self.path(name)
        self.run("export", *records, "--format", "sqlite", "-o", path, status=status)
        return sqlite3.connect(path)

    def entries(self, record):
        """Of each rank, its entries' phases in order of their starts."""
        lines = subprocess.run([self.cells, record], capture_output=True, check=True, text=True).stdout.splitlines()
        ranks = {}
        for rank, start, *phases in (map(int, line.split()) for line in lines):
            ranks.setdefault(rank, {})[start] = phases
        return {rank: [phases for _, phases in sorted(of_rank.items())] for rank, of_rank in ranks.items()}

    def check_cells(self, name, record, database):
        """What a rank's rows have so far is at each of them what some first ones of its entries have."""
        columns = ", ".join(PHASES)
        for rank, entries in self.entries(record).items():
            sums = set(itertools.accumulate(map(tuple, entries), lambda one, other: tuple(map(sum, zip(one, other)))))
            rows = database.execute(f"SELECT {columns} FROM rank_steps WHERE rank = ? AND step IS NOT NULL"
                                    " ORDER BY stretch, step", (rank,)).fetchall()
            rest = database.execute(f"SELECT {columns} FROM rank_steps WHERE rank = ? AND step IS NULL",
                                    (rank,)).fetchone() or (0, 0, 0, 0)
            so_far = (0, 0, 0, 0)
            for step, row in enumerate(rows):
                so_far = tuple(map(sum, zip(so_far, row)))
                if so_far not in sums and so_far != (0, 0, 0, 0):
                    self.problems.append(f"{name}: rank {rank}: the first {step + 1} rows have {so_far}, which no"
                                         f" first entries have")
                    break
            whole = tuple(map(sum, zip(so_far, rest)))
            told = tuple(map(sum, zip(*entries)))
            self.expect(whole == told, f"{name}: rank {rank}: {whole} exported, {told} sent")

    def check_sums(self, name, record, database):
        report = json.loads(self.run("report", record, "--format", "json").stdout)
        sums = {row[0]: row[1:] for row in database.execute(
            "SELECT rank, input_ns, compute_ns, host_ns, comm_ns * wait_share, comm_ns * (1 - wait_share),"
            " own_delay_ns, inherited_ns FROM rank_sums")}
        totals = {row[0]: row[1:] for row in database.execute("SELECT rank, steps, node, pid FROM ranks")}
        thinned = database.execute("SELECT thinned FROM records").fetchone()[0]
        if not thinned:  # what ranks are charged with is of steps
            self.expect(not database.execute("SELECT * FROM rank_steps WHERE step IS NULL"
                                             " AND (own_delay_ns <> 0 OR inherited_ns <> 0)").fetchall(),
                        f"{name}: delays of no step")
        self.expect(set(totals) == {rank["rank"] for rank in report["ranks"]}, f"{name}: other ranks")
        for rank in report["ranks"]:
            steps, node, pid = totals[rank["rank"]]
            told = [*rank["step_ms"].values(), rank["own_excess_ms_per_step"], rank["inherited_ms_per_step"]]
            had = [(value or 0) / max(steps, 1) / 1e6 for value in sums.get(rank["rank"], [0] * 7)]
            if thinned:  # how much of the time in collectives was waiting is not in what was summed
                told[3:5], had[3:5] = [told[3] + told[4]], [had[3] + had[4]]
            self.expect((steps, node, pid) == (rank["steps"], rank["host"], rank["pid"]),
                        f"{name}: rank {rank['rank']} is another one")
            for one, other in zip(told, had if steps else told):
                self.expect(abs(one - other) <= 2 * ROUNDED_MS, f"{name}: rank {rank['rank']}: {told} told, {had} had")
        self.check_incidents(name, report, database)

    def check_incidents(self, name, report, database):
        rows = {row[0]: row[1:] for row in database.execute(
            "SELECT incident, class, cause, first_step, last_step, onset_unix_ns, victim_count,"
            " unmeasured_since_step FROM incidents")}
        for told in report["verdicts"]:
            self.expect(rows.get(told["id"]) == (told["class"], told["cause"], told["first_step"], told["last_step"],
                                                 told["onset_unix_ns"], told["victim_count"],
                                                 told.get("unmeasured_since_step")),
                        f"{name}: incident {told['id']}: {rows.get(told['id'])}")
            for named_as, key in (("culprit", "ranks"), ("victim", "victims")):
                ranks = [row[0] for row in database.execute(
                    "SELECT rank FROM incident_ranks WHERE incident = ? AND named_as = ? ORDER BY rank",
                    (told["id"], named_as))]
                self.expect(ranks == sorted(told[key]), f"{name}: incident {told['id']}: {named_as}s {ranks}")
            evidence = [row for row in database.execute(
                "SELECT kind, detail, rejected FROM evidence WHERE incident = ? ORDER BY number", (told["id"],))]
            self.expect(evidence == [(one["kind"], one["detail"], 0) for one in told["evidence"]] +
                        [(one["kind"], one["why"], 1) for one in told["rejected"]],
                        f"{name}: incident {told['id']}: evidence {evidence}")
        self.expect(len(rows) == len(report["verdicts"]), f"{name}: {len(rows)} incidents")
        sources = [tuple(source[key] for key in ("name", "state", "why", "probes", "probes_on"))
                   for source in report["coverage"]["sources"]]
        self.expect(database.execute("SELECT name, state, why, probes, probes_on FROM sources").fetchall() == sources,
                    f"{name}: other sources")

    def check_csv(self, name, record, database):
        for table in TABLES:
            text = self.run("export", record, "--format", "csv", "--table", table).stdout.decode()
            self.expect(text.count("\n") == text.count("\r\n"), f"{name}: {table}: lines end otherwise")
            rows = list(csv.reader(io.StringIO(text, newline="")))
            cursor = database.execute(f"SELECT * FROM {table}")
            self.expect(rows[0] == [column[0] for column in cursor.description], f"{name}: {table}: other columns")
            other = cursor.fetchall()
            self.expect(len(other) == len(rows) - 1, f"{name}: {table}: {len(rows) - 1} lines, {len(other)} rows")
            if table == "rank_steps":  # in the order in which they were written
                self.expect([["" if value is None else str(value) for value in row] for row in other] == rows[1:],
                            f"{name}: {table}: CSV and database differ")

    def check_trace(self, name, record, database):
        path = self.path("trace.json")
        self.run("export", record, "--format", "perfetto", "-o", path)
        with open(path, encoding="utf-8") as file:
            trace = check_trace.Trace(file.read())
        self.problems += [f"{name}: trace: {problem}" for problem in trace.problems[:5]]
        steps = sum(event.get("cat") == "step" for event in trace.events)
        rows = database.execute("SELECT COUNT(*) FROM rank_steps WHERE step IS NOT NULL").fetchone()[0]
        self.expect(steps == rows, f"{name}: trace: {steps} slices of steps, {rows} rows")
        incidents = sum(event.get("cat") == "incident" for event in trace.events)
        self.expect(incidents == database.execute("SELECT COUNT(*) FROM incidents").fetchone()[0],
                    f"{name}: trace: {incidents} incidents")
        return trace

    def check_record(self, name, record, cells=True):
        database = self.database([record], name + ".db")
        if cells:
            self.check_cells(name, record, database)
        self.check_sums(name, record, database)
        self.check_csv(name, record, database)
        trace = self.check_trace(name, record, database)
        database.close()
        return trace

    def check_ranges(self, record):
        def rows(*words):
            text = self.run("export", record, "--format", "csv", *words).stdout.decode()
            return list(csv.DictReader(io.StringIO(text, newline="")))

        every = rows()
        some = rows("--from", "100", "--to", "102", "--ranks", "1")
        self.expect([(row["step"], row["rank"]) for row in some] == [("100", "1"), ("101", "1"), ("102", "1")],
                    f"ranges: {[(row['step'], row['rank']) for row in some]}")
        middle = [row for row in every if row["step"] == "100"][0]
        when = sqlite3.connect(":memory:").execute(
            "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', ? / 1e9, 'unixepoch')", (int(middle["end_unix_ns"]),)).fetchone()[0]
        some = rows("--from", when, "--table", "steps")
        self.expect(some and 98 <= int(some[0]["step"]) <= 101 and len(some) < len(every),
                    f"ranges: from {when}: {some[:1]}")

    def check_several(self, records):
        """All jobs in one database: the queries of the page, and the list of nodes."""
        folder = self.path("month")
        os.mkdir(folder)
        for record in records:
            shutil.copy(record, folder)
        names = sorted(os.path.join(folder, os.path.basename(record)) for record in records)
        database = self.database(names, "month.db")
        with open(os.path.join(ROOT, "docs", "export.md"), encoding="utf-8") as file:
            queries = re.findall(r"```sql\n(.*?)```", file.read(), re.S)
        self.expect(len(queries) >= 4, "docs/export.md: few queries")
        for query in queries:
            try:
                database.executescript(query) if query.startswith("CREATE") else database.execute(query).fetchall()
            except sqlite3.Error as error:
                self.problems.append(f"docs/export.md: {error}: {query}")
        history = json.loads(self.run("history", folder, "--format", "json").stdout)
        self.expect([record["path"] for record in history["records"]] == names, "history: other records")
        told = {node["node"]: (node["jobs"], node["jobs_named"]) for node in history["nodes"]}
        self.expect(told == {row[0]: row[1:] for row in database.execute("SELECT node, jobs, jobs_named FROM nodes")},
                    f"history: {told} is not what the database says")
        named = {(node["node"], one["class"], one["cause"]): one["jobs"]
                 for node in history["nodes"] for one in node["as"] if one["class"] != "workload-imbalance"}
        self.expect(named == {row[:3]: row[3] for row in database.execute(
            "SELECT node, class, cause, COUNT(DISTINCT record) FROM node_named GROUP BY node, class, cause")},
            f"history: {named} is not what the database says")
        self.expect(history["nodes"][0]["jobs_named"] > 1, f"history: {history['nodes'][:1]}")
        os.symlink(folder, self.path("link"))  # of the folder itself, a link is followed
        self.expect("several jobs" in self.run("history", self.path("link")).stdout.decode(), "history: text")
        database.close()

    def check_broken(self, record):
        """Cut short, no record, nothing to write to."""
        cut, no_record = self.path("cut.slr"), self.path("no.slr")
        with open(record, "rb") as file:
            whole = file.read()
        with open(cut, "wb") as file:
            file.write(whole[:len(whole) * 2 // 3])
        with open(no_record, "w", encoding="utf-8") as file:
            file.write("something else\n")
        database = self.database([no_record, cut, record], "broken.db", status=2)
        self.expect([row for row in database.execute("SELECT record, whole FROM records")] == [(1, 0), (2, 1)],
                    "broken: the record that is whole, or the one that is cut, is not there")
        database.close()
        for form in ("csv", "perfetto"):  # one line says it
            done = self.run("export", cut, "--format", form, "-o", self.path("cut." + form), status=2)
            self.expect(done.stderr.count(b"cut short") == 1, f"cut short, {form}: {done.stderr.decode()}")
        for words in (["--format", "sqlite"], ["--format", "sqlite", "-o", no_record], ["--format", "xml"],
                      ["--format", "csv", "--table", "none"], ["--format", "csv", "--from", "yesterday"],
                      ["--format", "csv", "--ranks", "3-1"], ["--format", "csv", "-o", "/dev/full"]):
            done = self.run("export", record, *words, status=2)
            self.expect(done.stderr.count(b"\n") == 1, f"{words}: {done.stderr.decode()}")
        for other in (self.path("no.db"), self.path("no.csv")):
            self.run("export", no_record, "--format", other[-3:].replace("db", "csv"), "-o", other, status=2)
            self.expect(not os.path.exists(other), f"{other} is there")
        with open(no_record, encoding="utf-8") as file:
            self.expect(file.read() == "something else\n", "what is not slowrank's was written to")
        trace = self.path("again.json")
        for _ in range(2):  # an earlier export may be written over
            self.run("export", record, "--format", "perfetto", "-o", trace)
        folder = self.path("broken")
        os.mkdir(folder)
        for path in (cut, no_record, record):
            shutil.copy(path, folder)
        history = json.loads(self.run("history", folder, "--format", "json", status=2).stdout)
        state = [(one["readable"], one.get("whole", False)) for one in history["records"]]
        self.expect(sorted(state) == [(False, False), (True, False), (True, True)], f"history: {state}")
        self.run("history", self.path("nowhere"), status=2)


def corpus_records(names, folder):
    for name in names:
        path = os.path.join(folder, name + ".slr")
        with lzma.open(os.path.join(ROOT, "tests", "corpus", name + ".slr.xz")) as packed, open(path, "wb") as out:
            shutil.copyfileobj(packed, out)
        yield name, path


def simulated(build, folder):
    simulator = os.path.join(build, "bench_simulator")
    for name, words in (("sim-throttle", ["--ranks", "32", "--fault", "throttle:5:0.3"]),
                        ("sim-hybrid", ["--ranks", "32", "--tensor", "2", "--pipeline", "4", "--device-time",
                                        "--fault", "compute:9:0.3"])):
        path = os.path.join(folder, name + ".slr")
        subprocess.run([simulator, "-o", path, "--steps", "120", "--ranks-per-host", "8", *words], check=True,
                       stdout=subprocess.DEVNULL)
        yield name, path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    names = options.names or CORPUS
    if options.all:
        names = sorted(os.path.basename(path)[:-7] for path in glob.glob(os.path.join(ROOT, "tests/corpus/*.slr.xz")))
    with tempfile.TemporaryDirectory() as folder:
        test = Test(options.build, folder)
        records = [*corpus_records(names, folder), *simulated(options.build, folder)]
        arrows = 0
        for name, record in records:
            arrows += len(test.check_record(name, record).arrows)
        test.expect(arrows > 0, "no trace has arrows")
        thinned = os.path.join(folder, "thinned.slr")
        subprocess.run([os.path.join(options.build, "bench_month"), thinned, os.path.join(folder, "live.json"), "8",
                        "0.01", "100", "1"], check=True, stdout=subprocess.DEVNULL)
        test.check_record("thinned", thinned, cells=False)
        if not options.names:
            test.check_ranges(dict(records)["steps-accumulate"])
            test.check_several([record for _, record in records] + [thinned])
            test.check_broken(dict(records)["gpu-nodes"])
    print("\n".join(test.problems[:40]) or f"{len(records) + 1} records: as recorded, as reported")
    sys.exit(1 if test.problems else 0)


if __name__ == "__main__":
    main()
