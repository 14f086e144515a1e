#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks run.py and bench/program_overhead.py where there is no GPU: truth, choice, table, and the faults
that need none, made for real.

    self_test.py [unittest's options]
"""
import argparse
import ast
import contextlib
import importlib.util
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("programs_run", os.path.join(HERE, "run.py"))
run = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(run)
rules, line_windows = run.rules, run.line_windows
sys.path.insert(0, os.path.join(run.ROOT, "bench"))
import gpu_overhead  # noqa: E402
import program_overhead  # noqa: E402

PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
from author import Author
for _ in Author().steps():
    end = time.process_time() + 0.01
    while time.process_time() < end:
        pass
"""


def ranks_of(count, begin=1000.0, length=0.1):
    return {rank: {"pid": 1, "steps": [begin + i * length for i in range(count)], "passes": 0,
                   "saves": []} for rank in range(2)}


class Truths(unittest.TestCase):
    def test_a_fault_is_in_the_steps_that_it_touched(self):
        faults = [{"kind": "sleep", "rank": 1, "begin_s": 1005.05, "end_s": 1008.95, "why": ""},
                  {"kind": "stop", "rank": 0, "begin_s": 1012.02, "end_s": 1013.0, "why": ""},
                  {"kind": "gpu-hog", "rank": 0, "begin_s": 1020.0, "end_s": 1020.1, "why": "no GPU"}]
        truth = run.truth_of(ranks_of(300), faults, "p")
        sleep, stop, hog = truth["windows"]
        self.assertEqual((sleep["first"], sleep["last"], sleep["measured_from"]), (50, 90, 51))
        self.assertEqual((stop["first"], stop["last"]), (120, 130))
        self.assertNotIn("measured_from", stop)
        self.assertEqual((hog["applied"], hog["why"]), (False, "no GPU"))
        self.assertNotIn("ended_s", truth)
        scored = rules.score(truth, None)
        self.assertEqual([w["counted"] for w in scored["windows"]], [False, True, False])

    def test_what_is_done_to_all_ranks_names_nobody_and_is_no_step_to_measure_against(self):
        ranks = ranks_of(300)
        begins = ranks[0]["steps"]
        for i in range(115, 300):  # steps 115 to 144 are half as long again
            begins[i] += 0.05 * min(i - 115, 30)
        faults = [{"kind": "line-lock", "rank": 1, "begin_s": begins[60], "end_s": begins[90], "why": ""},
                  {"kind": "line-lock", "rank": -1, "begin_s": begins[115], "end_s": begins[145], "why": ""}]
        truth = run.truth_of(ranks, faults, "p")
        self.assertEqual(len(truth["windows"]), 1)
        self.assertEqual(truth["slow_alike"], [{"first": 115, "last": 145}])
        self.assertAlmostEqual(rules.Window(truth, truth["windows"][0]).growth, 1.0, 3)

    def test_what_one_rank_saves_and_what_is_no_step_is_told(self):
        ranks = ranks_of(100)
        ranks[0].update(passes=7, saves=[(1002.01, 1002.35)])
        truth = run.truth_of(ranks, [], "p", whole=False)
        self.assertEqual([(s["first"], s["last"], s["ranks"]) for s in truth["disturbed"]],
                         [(20, 24, [0])])
        self.assertEqual(truth["other_passes"], 7)
        self.assertEqual(truth["ended_s"], ranks[0]["steps"][-1])

    def test_a_line_that_is_still_being_written_does_not_count(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "rank-0"), "w", encoding="ascii") as file:
                file.write("pid 42\nstep 1.5\npace 0.4\npass 1.6\nsave 1.7\nsaved 1.9\nstep 2.")
            self.assertEqual(run.read_ranks(folder), {0: {
                "pid": 42, "steps": [1.5], "paces": [0.4], "passes": 1, "saves": [(1.7, 1.9)]}})


class Choices(unittest.TestCase):
    def test_each_program_is_there_and_tells_its_steps(self):
        for words in run.PROGRAMS.values():
            with open(os.path.join(HERE, shlex.split(words)[0]), encoding="utf-8") as file:
                text = file.read()
            self.assertTrue(ast.get_docstring(ast.parse(text)))
            self.assertRegex(text, r"Author\(\)|hf_trainer\.train")

    def test_held_out_programs_run_only_when_asked_for(self):
        def names(**options):
            found, not_run = run.chosen(argparse.Namespace(**{
                "only": ["*"], "modes": ["root"], "held_out": False, "ranks": 2, **options}))
            return [name for name, _ in found], not_run
        usual, not_run = names()
        self.assertFalse([name for name in usual if run.is_held_out(name)])
        everything = names(held_out=True, ranks=4)[0]
        self.assertEqual(set(everything), set(run.PROGRAMS))
        held_out = [run.is_held_out(name) for name in everything]
        self.assertEqual(held_out, sorted(held_out, reverse=True))
        self.assertTrue(0.25 < sum(held_out) / len(held_out) < 0.42)
        self.assertEqual({name for name, why in not_run if "GPUs" in why}, set(run.RANKS_LEAST))
        self.assertEqual(len(usual) + len(not_run), len(everything))

    def test_a_program_is_chosen_in_some_modes(self):
        found, _ = run.chosen(argparse.Namespace(
            only=["vision-*", "ddp-user", "accelerate"], modes=["user", "root"], held_out=False, ranks=2))
        self.assertEqual(found, [("accelerate", "user"), ("vision", "user"), ("ddp", "user"),
                                 ("accelerate", "root"), ("vision", "root")])

    def test_faults_hang_on_names_and_seed_alone(self):
        for name in run.PROGRAMS:
            faults = run.draw_faults(name, "root", 1, 2)
            self.assertEqual(faults, run.draw_faults(name, "root", 1, 2))
            self.assertEqual(len({kind for kind, _ in faults}), run.FAULTS)
            self.assertTrue(all(a[1] != b[1] for a, b in zip(faults, faults[1:])))
            self.assertTrue(all(kind in rules.EXPECTED for kind, _ in faults))


class LineFaults(unittest.TestCase):
    """Faults at known lines: drawn, made in real processes, and scored."""

    def test_each_kind_has_a_line_and_a_function(self):
        with open(os.path.join(HERE, "line_faults.py"), encoding="utf-8") as file:
            text = file.read()
        for kind in line_windows.KINDS:
            self.assertTrue(line_windows.LINES["AT", kind])
            self.assertTrue(f"def be_slow_by_{kind}(" in text or kind == "data-loader")

    def test_draws_hang_on_names_and_seed_alone(self):
        kinds = line_windows.kinds_of(run.PROGRAMS["vision"], True)
        self.assertEqual(set(kinds), set(line_windows.KINDS))
        self.assertNotIn("data-loader", line_windows.kinds_of(run.PROGRAMS["ddp"], True))
        self.assertNotIn("native", line_windows.kinds_of(run.PROGRAMS["ddp"], False))
        drawn = line_windows.draw("vision", "root", 1, 2, kinds, 10)
        self.assertEqual(drawn, line_windows.draw("vision", "root", 1, 2, kinds, 10))
        self.assertEqual(len(drawn), 10)
        own = [(kind, rank) for kind, rank, _ in drawn if rank >= 0]
        self.assertEqual((len(own), len(dict(own))), (9, 9))
        self.assertTrue(all(a[1] != b[1] for a, b in zip(own, own[1:])))

    @staticmethod
    def scored(kind, cause, text):
        truth = run.truth_of(ranks_of(300), [{"kind": "line-" + kind, "rank": 1, "begin_s": 1010.0, "end_s": 1019.0, "why": ""},
                                             {"kind": "line-lock", "rank": -1, "begin_s": 1022.0, "end_s": 1025.0, "why": ""}], "p")
        begins = truth["step_begins_s"]
        begins[100:] = [at + 0.1 * min(i, 90) for i, at in enumerate(begins[100:], 1)]
        verdict = {"id": 7, "class": "host-slow", "cause": cause, "ranks": [1], "slowdown": 2.0, "onset_unix_ns": 1010 * 10**9,
                   "alert_unix_ns": 1011 * 10**9, "evidence": [{"where": {"text": text, "frames": []}}] if text else []}
        report = {"job": {"steps": 300}, "verdicts": [verdict]}
        line, = line_windows.score(rules.score(truth, report), report)
        return {key: line[key] for key in ("named", "placed", "frame right", "cause right", "cause unknown", "cause wrong")}

    def test_first_place_and_cause_are_scored(self):
        line = min(line_windows.LINES["AT", "lock"])
        right = {"named": True, "placed": True, "frame right": True, "cause right": True, "cause unknown": False, "cause wrong": False}
        self.assertEqual(self.scored("lock", "lock", f"in Lines.x (line_faults.py:{line}); futex"), right)
        self.assertEqual(self.scored("lock", "lock", f"in train (ddp.py:{line}); futex; meanwhile x: in y (line_faults.py:{line})"),
                         {**right, "frame right": False})
        self.assertEqual(self.scored("lock", "unknown", ""), {**right, "placed": False, "frame right": False, "cause right": False,
                                                              "cause unknown": True})
        self.assertEqual(self.scored("lock", "block-io", f"in Lines.x (line_faults.py:{line})"),
                         {**right, "cause right": False, "cause wrong": True})
        self.assertEqual(self.scored("native", "host-code", "in native_churn (libfault_native.so)"), right)
        self.assertEqual(self.scored("native", "unknown", "in native_churn (libfault_native.so)"),
                         {**right, "cause right": False, "cause unknown": True})


class Tables(unittest.TestCase):
    def test_a_job_that_failed_is_in_the_table(self):
        truth = run.truth_of(ranks_of(300), [], "p")
        good = {"name": "ddp", "mode": "root", "error": "", "joined": 299, "lost": 3,
                "not_seen": {"rdma": "not measurable: no port"},
                "score": rules.score(truth, {"job": {"steps": 300}, "verdicts": []})}
        bad = {"name": "vision", "mode": "root", "error": "the job ended with 1:\nTraceback"}
        other = dict(good, name="vision", not_seen=dict(good["not_seen"], nvml="not measurable: none"))
        *lines, _, everywhere = run.table([good, other, bad],
                                          [("dp-tp", "not run: needs 4 GPUs")]).splitlines()
        self.assertEqual(len({line.count("|") for line in lines}), 1)
        self.assertIn("300 of 300 | 299 | 3 |", lines[2])
        self.assertTrue(lines[3].endswith("| nvml |"))
        self.assertTrue(everywhere.endswith(": rdma."))
        self.assertTrue(run.is_right(good))
        self.assertFalse(run.is_right(bad))


class Ranks(unittest.TestCase):
    """Two real processes, each by itself; what is done to one of them is in its own steps."""

    more = {}

    def setUp(self):
        with contextlib.ExitStack() as stack:
            self.folder = stack.enter_context(tempfile.TemporaryDirectory())
            self.injector = stack.enter_context(run.Injector(sys.executable, self.folder,
                                                             dict(os.environ)))
            with open(os.path.join(self.folder, "begin"), "w", encoding="ascii"):
                pass
            self.ranks = []
            stack.callback(self.end)
            for rank in range(2):
                self.ranks.append(subprocess.Popen(
                    [sys.executable, "-c", PROGRAM, HERE],
                    env=dict(os.environ, TRUTH=self.folder, RANK=str(rank), HOME=self.folder, **self.more)))
            self.until(lambda told: len(told) == 2 and all(r["steps"] for r in told.values()))
            self.addCleanup(stack.pop_all().close)
        self.outside = run.Outside(run.Client(self.injector.socket),
                                   {rank: told["pid"] for rank, told in self.told().items()},
                                   os.sched_getaffinity(0))

    def end(self):
        for process in self.ranks:
            process.kill()
            process.wait()

    def told(self):
        return run.read_ranks(self.folder)

    def until(self, done):
        deadline = time.monotonic() + 20
        while not done(self.told()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def made(self, kind, rank, seconds):
        """The fault, and how many steps each rank began in it."""
        time.sleep(0.3)
        fault = self.outside.make(kind, rank, seconds)
        self.assertEqual(fault["why"], "")
        self.until(lambda told: told[rank]["steps"][-1] > fault["end_s"])
        return fault, [sum(fault["begin_s"] < at < fault["end_s"] for at in self.told()[r]["steps"])
                       for r in range(2)]


class Faults(Ranks):
    def test_a_stopped_rank_begins_no_step(self):
        fault, begun = self.made("stop", 1, 0.5)
        self.assertLessEqual(begun[1], 1)
        self.assertGreater(begun[0], 1)
        window, = run.truth_of({0: self.told()[1]}, [fault], "p")["windows"]
        # a slow machine leaves it time for one between the fault's begin and the signal, or the other signal and the end
        self.assertEqual(window["last"], window["first"] + 1 + begun[1])

    def test_sleep_leaves_a_part_of_the_time(self):
        _, begun = self.made("sleep", 0, 1.5)
        self.assertGreater(begun[0], 0)
        self.assertLess(begun[0], begun[1])

    def test_a_rank_beside_hogs_gets_its_cores_back(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("there is one core")
        pid = self.outside.pids[1]
        before = os.sched_getaffinity(pid)
        self.made("cpu-hog", 1, 1.0)
        self.assertEqual(os.sched_getaffinity(pid), before)

    def test_all_ranks_end_before_the_same_step(self):
        job = run.Job.__new__(run.Job)
        job.folder = job.truth_folder = self.folder
        job.end()
        for process in self.ranks:
            self.assertEqual(process.wait(20), 0)
        self.assertEqual(*(len(told["steps"]) for told in self.told().values()))

    def test_a_fault_that_cannot_be_made_says_why(self):
        self.outside.injector = run.Client("")
        self.assertIn("injector", self.outside.make("gpu-hog", 0, 0.1)["why"])


class FaultsAtLines(Ranks):
    """The same, where the ranks make them themselves."""

    more = {"LINE_FAULTS": ""}

    def test_steps_of_one_rank_or_of_all_are_longer(self):
        inside = line_windows.Inside(self.folder, 0.01)
        for kind, rank in (("lock", 1), ("read", 0), ("python", -1)):
            fault = inside.make(kind, rank, 5.0, seconds=0.5)
            self.assertTrue(set(fault["lines"]) >= line_windows.LINES["AT", kind])
            self.until(lambda told: all(r["steps"][-1] > fault["end_s"] for r in told.values()))
            begun = [sum(fault["begin_s"] < at < fault["end_s"] for at in self.told()[r]["steps"]) for r in range(2)]
            if rank < 0:
                self.assertLess(max(begun), 15)
            else:
                self.assertLess(begun[rank], begun[1 - rank])


class Begins(unittest.TestCase):
    def test_a_program_that_has_imported_waits_until_it_may_begin(self):
        with tempfile.TemporaryDirectory() as folder:
            job = run.Job.__new__(run.Job)
            job.folder = job.truth_folder = folder
            job.end_at(3)
            process = subprocess.Popen([sys.executable, "-c", PROGRAM, HERE],
                                       env=dict(os.environ, TRUTH=folder, RANK="0"))
            self.addCleanup(process.kill)
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(1)
            self.assertFalse(run.read_ranks(folder))
            job.begin()
            self.assertEqual(process.wait(20), 0)
            self.assertEqual(len(run.read_ranks(folder)[0]["steps"]), 3)


class Overhead(unittest.TestCase):
    """bench/program_overhead.py finds the cost that made steps have."""

    @staticmethod
    def made(dice, cost, wander):
        """Ranks and switches of 60 pairs; wander: how much slower the core is from block to block, at most."""
        now, begins, paces, switches = 1e9, [], [], []
        for _ in range(60):
            for on in dice.sample((True, False), 2):
                switches.append((now, on))
                end, slower = now + 1, 1 + dice.uniform(0, wander)
                while now < end:
                    begins.append(now)
                    paces.append(0.4 * slower * dice.gauss(1, 0.01))
                    now += 0.06 * slower * (cost if on else 1) * dice.gauss(1, 0.01)
        return {0: {"steps": begins, "paces": paces}, 1: {"steps": begins, "paces": [0.0] * len(paces)}}, \
            [*switches, (now, None)]

    def test_cost_of_made_steps(self):
        ranks, switches = self.made(random.Random(3), 1.02, 0)
        pairs = gpu_overhead.pair_up(program_overhead.read_blocks(switches, ranks))
        low, high = gpu_overhead.interval(pairs)["interval_95_percent"]
        self.assertTrue(1.5 < low < 2 < high < 2.5, (low, high))

    def test_cores_that_wander_hide_no_cost(self):
        ranks, switches = self.made(random.Random(4), 1.02, 0.2)
        found = gpu_overhead.interval(gpu_overhead.pair_up(program_overhead.read_blocks(switches, ranks)))
        width = [high - low for low, high in (part["interval_95_percent"]
                                              for part in (found, found["at_same_pace"]))]
        self.assertGreater(width[0], 3 * width[1])
        low, high = found["at_same_pace"]["interval_95_percent"]
        self.assertTrue(1.4 < low < 2 < high < 2.6, (low, high))


if __name__ == "__main__":
    unittest.main()
