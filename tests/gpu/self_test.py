#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks tests/gpu itself where there is no GPU: plans, truth log, scoring, and every fault that
does not need one, made for real. Those that need root are skipped without it.

    self_test.py [--net-helper PROGRAM] [unittest's options]
"""
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "bench"), os.path.join(ROOT, "tests", "corpus")]
import fault_plan  # noqa: E402
import faults  # noqa: E402
import gpu_overhead  # noqa: E402
import nodes  # noqa: E402
import results_table  # noqa: E402
import rules  # noqa: E402
import run  # noqa: E402
import timeline  # noqa: E402
import train  # noqa: E402
import truth as truth_of  # noqa: E402

NET_HELPER = None
WINDOW = {"kind": "gc", "rank": 1, "first_step": 50, "last_step": 69, "size": 50}


class Timelines(unittest.TestCase):
    def test_what_a_gpu_did_adds_up(self):
        events = [("gemm", 0, 4e6), ("gemm", 3e6, 6e6), ("ncclDevKernel_AllReduce", 5e6, 9e6),
                  ("copy", 10e6, 12e6)]
        self.assertEqual(timeline.sums(events, 2),
                         {"work_ms": 4.0, "comm_ms": 1.5, "idle_ms": 0.5})
        self.assertIsNone(timeline.sums([], 2))

    def test_more_work_is_compute_and_more_nothing_is_host(self):
        usual = {"work_ms": 40, "comm_ms": 5, "idle_ms": 2}
        self.assertEqual(timeline.truth_class(usual, dict(usual, work_ms=60)), "compute-slow")
        self.assertEqual(timeline.truth_class(usual, dict(usual, idle_ms=22)), "host-slow")

    def test_confusion_takes_the_verdict_of_the_fault(self):
        with tempfile.TemporaryDirectory() as directory:
            times = {"realtime_ns": 10**18, "first_step": 50, "rank": 1}
            note = {"event": "note", "what": "timeline", "rank": 1}
            usual = {"work_ms": 40, "comm_ms": 5, "idle_ms": 2}
            lines = [dict(note, window="reference", sums=usual),
                     dict(times, event="fault_begin", kind="gc"),
                     dict(note, window="50", sums=dict(usual, idle_ms=30)),
                     dict(times, event="fault_end", realtime_ns=10**18 + 10**9)]
            with open(os.path.join(directory, "truth.jsonl"), "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            verdicts = [{"ranks": [1], "class": "compute-slow", "onset_unix_ns": 9 * 10**17},
                        {"ranks": [1], "class": "host-slow", "onset_unix_ns": 10**18 + 5}]
            with open(os.path.join(directory, "report.json"), "w", encoding="utf-8") as file:
                json.dump({"verdicts": verdicts}, file)
            self.assertEqual([row[:3] for row in timeline.confusion(directory)],
                             [("gc", "host-slow", "host-slow")])


class Plans(unittest.TestCase):
    def test_drawn_plans_are_valid_and_differ(self):
        seen = set()
        for seed in range(1, 9):
            for ranks in (2, 4):
                windows, steps = fault_plan.draw_plan(fault_plan.KINDS, ranks, seed, 30, 20, 100)
                fault_plan.check_plan(windows, ranks)
                self.assertEqual(sorted(w["kind"] for w in windows), sorted(fault_plan.KINDS))
                self.assertGreaterEqual(steps, windows[-1]["last_step"] + 20)
                self.assertEqual((windows, steps), fault_plan.draw_plan(
                    fault_plan.KINDS, ranks, seed, 30, 20, 100))
                seen.add(json.dumps(windows))
        self.assertEqual(len(seen), 16)

    def test_rounds_hold_every_kind_each(self):
        kinds = ("gc", "gil", "cpu-hog")
        windows, _ = fault_plan.draw_plan(kinds, 4, 1, 50, 20, 100, rounds=5)
        fault_plan.check_plan(windows, 4)
        for first in range(0, 15, 3):
            self.assertEqual({w["kind"] for w in windows[first:first + 3]}, set(kinds))
        self.assertGreater(len({(w["kind"], w["rank"]) for w in windows}), 3)

    def test_senseless_plans_are_refused(self):
        for change in ({"kind": "magic"}, {"rank": 4}, {"last_step": 10}, {"size": 0}):
            with self.assertRaises(ValueError):
                fault_plan.check_plan([dict(WINDOW, **change)], 4)
        with self.assertRaises(ValueError):
            fault_plan.check_plan([WINDOW, dict(WINDOW, rank=0, first_step=69)], 4)
        with self.assertRaises(ValueError):
            fault_plan.check_plan([{"kind": "gc"}], 4)

    def test_every_kind_has_means_and_an_expected_verdict(self):
        self.assertEqual(set(faults.MEANS), set(fault_plan.KINDS))
        self.assertLessEqual(set(fault_plan.KINDS), set(rules.EXPECTED))


class Truths(unittest.TestCase):
    """What becomes of a truth log of 200 steps of 10 ms, 16 ms in the window."""

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.directory.name, "truth.jsonl")

    def tearDown(self):
        self.directory.cleanup()

    def truth(self, extra_ns=6e6, applied=True, steps=200, slow=(), notes=()):
        """slow: steps in which the host of rank 1 takes longer by itself."""
        lines, now = [{"event": "job", "ranks": 2, "mode": "ddp"}], 10**9
        for step in range(steps):
            stamps = {"monotonic_ns": int(now), "realtime_ns": int(now + 10**18)}
            for edge, at in (("begin", WINDOW["first_step"]), ("end", WINDOW["last_step"] + 1)):
                if step == at:
                    lines.append({"event": "fault_" + edge, **WINDOW, "step": step,
                                  "applied": applied, "why": "" if applied else "no", **stamps})
            lines += [{"event": "step", "rank": r, "step": step, **stamps, "host_ms_before":
                       (12.0 if r == 1 and step - 1 in slow else 8.0) if step and slow else None}
                      for r in range(2)]
            now += 10e6 + (extra_ns if 50 <= step < 70 else 0)
        if steps == 200:
            lines += [{"event": "end", "rank": r, **stamps} for r in range(2)]
        with open(self.path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in [*lines, *notes])
        return truth_of.read(self.path)

    def test_window_and_steps(self):
        truth = self.truth()
        self.assertEqual(truth["windows"], [
            {"kind": "gc", "rank": 1, "size": 50, "first": 50, "last": 70, "since": 50,
             "measured_from": 51, "applied": True, "why": ""}])
        self.assertEqual(len(truth["step_begins_s"]), 200)
        self.assertAlmostEqual(truth["step_begins_s"][50], 10**9 + 1.5, 5)
        self.assertEqual(rules.score(truth, None)["windows"][0]["growth"], 1.6)
        self.assertNotIn("ended_s", truth)

    def test_hosts_that_are_slow_in_truth_are_disturbed(self):
        truth = self.truth(slow=range(100, 130))
        self.assertEqual([(d["first"], d["last"], d["ranks"]) for d in truth["disturbed"]],
                         [(100, 130, [1])])
        self.assertEqual(self.truth(slow=range(55, 65))["disturbed"], [])  # its own fault

    def test_a_window_is_felt_where_its_host_was_slow_before(self):
        self.assertEqual(self.truth(slow=range(40, 50))["windows"][0]["since"], 40)

    def test_one_that_could_not_be_made_or_ended(self):
        self.assertFalse(self.truth(applied=False)["windows"][0]["applied"])
        self.assertFalse(self.truth(steps=60)["windows"][0]["applied"])

    def test_a_job_that_was_cut_short_or_a_death_ends_the_truth(self):
        self.assertAlmostEqual(self.truth(steps=100)["ended_s"], 10**9 + 1 + 0.99 + 0.12, 3)
        death = {"event": "note", "what": "death", "rank": 1, "realtime_ns": 10**18 + 2 * 10**9}
        self.assertEqual(self.truth(notes=[death])["ended_s"], 10**9 + 2)

    def test_what_a_record_lacks(self):
        whole = {"true_steps": 600, "report_steps": 610, "steps_right": True, "dropped": 0,
                 "sources": ["device.time: on", "bpf.launches: off (why)"]}
        self.assertEqual(run.missing(whole), [])
        for wrong in ({"steps_right": False}, {"dropped": 1},
                      {"sources": ["device.time: degraded (some were lost)"]}):
            self.assertEqual(len(run.missing(dict(whole, **wrong))), 1)
        result = {"score": {"windows": [], "false": [], "missing": []}}
        self.assertTrue(run.is_right(result))
        result["score"]["missing"] = ["1 events were dropped"]
        self.assertFalse(run.is_right(result))

    def test_table(self):
        truth = self.truth()
        at = truth["step_begins_s"][50] * 1e9
        verdict = {"id": 1, "class": "host-slow", "ranks": [1], "cause": "garbage-collection",
                   "slowdown": 1.6, "onset_unix_ns": at, "alert_unix_ns": at + 33e6}
        scored = rules.score(truth, {"job": {"steps": 200}, "verdicts": [verdict]})
        results = [{"job": "ddp.host", "seed": 1, "score": scored},
                   {"job": "tp_dp.host", "seed": 1, "skipped": "needs 4 GPUs"},
                   {"job": "x", "seed": 1, "error": "a\nb"}]
        text = results_table.table(results)
        self.assertIn("| ddp.host | gc | 1 | 1 | 100 % | 100 % | 100 % | 3, 3 | ", text)
        self.assertIn("needs 4 GPUs", text)
        self.assertIn("Failed: x seed 1: b", text)


def compute(milliseconds):
    """Computes for that much CPU time, in turns that give the GIL away as launches may not."""
    end = time.thread_time() + milliseconds / 1e3
    while time.thread_time() < end:
        sum(range(2000))


class RealFaults(unittest.TestCase):
    """Each fault slows a loop of this process, and only within its window."""

    STEP_MS = 20

    def growth_of(self, kind, size=100, pinned=False, injector=None):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            path = os.path.join(directory, "truth.jsonl")
            truth = fault_plan.TruthWriter(path)
            window = {"kind": kind, "rank": 0, "first_step": 30, "last_step": 54, "size": size}
            context = {"injector": injector, "work": directory, "gpu": 0,
                       "cpu_ms_per_step": lambda: self.STEP_MS}
            runner = faults.FaultRunner([window], 0, context, truth)
            runner.prepare(self.STEP_MS)
            cores = os.sched_getaffinity(0)
            if pinned:
                os.sched_setaffinity(0, {min(cores)})
            try:
                for step in range(85):
                    truth.add("step", at_once=False, rank=0, step=step)
                    runner.at_step(step, self.STEP_MS)
                    runner.each_step()
                    compute(self.STEP_MS)
                runner.close(85)
            finally:
                os.sched_setaffinity(0, cores)
            truth.flush()
            read = fault_plan.Truth(path)
            self.assertEqual(len(read.faults), 1)
            fault = read.faults[0]
            if not fault["applied"]:
                self.skipTest(f"{kind}: {fault['why']}")
            return read.growth(fault)

    def test_input_sleep(self):
        self.assertGreater(self.growth_of("input-sleep"), 1.3)

    def test_gil(self):
        self.assertGreater(self.growth_of("gil"), 1.3)

    def test_gc(self):
        self.assertGreater(self.growth_of("gc"), 1.3)

    def test_minor_fault(self):
        self.assertGreater(self.growth_of("minor-fault"), 1.3)

    def test_major_fault(self):
        self.assertGreater(self.growth_of("major-fault"), 1.3)

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_cgroup_throttle(self):
        with tempfile.TemporaryDirectory() as directory, \
                run.Injector(sys.executable, directory, dict(os.environ)) as injector:
            self.assertGreater(
                self.growth_of("cgroup-throttle", injector=injector.socket), 1.2)
        with open("/proc/self/cgroup", encoding="ascii") as file:
            self.assertNotIn("slowrank-gpu-fault", file.read())

    def test_cpu_hog(self):
        with tempfile.TemporaryDirectory() as directory, \
                run.Injector(sys.executable, directory, dict(os.environ)) as injector:
            self.assertGreater(
                self.growth_of("cpu-hog", pinned=True, injector=injector.socket), 1.2)

    def test_what_cannot_be_made_is_said(self):
        with self.assertRaises(unittest.SkipTest) as raised:
            self.growth_of("cgroup-throttle", injector=None)
        self.assertIn("no injector", str(raised.exception))


def send_for(seconds, pids):
    """In namespace 0: sends to a sink in namespace 1; prints bytes per second without and with a
    limit of 20 MB/s."""
    os.environ["GPU_TEST_NAMESPACE_PIDS"] = pids
    if os.fork() == 0:
        nodes.enter_network(1)
        signal.alarm(30)
        with socket.create_server(("10.77.1.2", 5001)) as server:
            connection, _ = server.accept()
            while connection.recv(1 << 20):
                pass
        os._exit(0)
    device = nodes.enter_network(0)
    for _ in range(100):  # until the sink listens
        try:
            connection = socket.create_connection(("10.77.1.2", 5001), timeout=20)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    context = {"net_helper": NET_HELPER, "net_device": device,
               "sent_bytes_per_step": lambda: 2_000_000}
    fault, rates = faults.CommSlow(context, 100), []
    for limited in (False, True):
        if limited:
            rates.append(fault.begin(50))  # 2 MB in 100 ms
        before, begun = train.sent_bytes(device), time.monotonic()
        while time.monotonic() - begun < seconds:
            connection.send(bytes(1 << 16))
        rates.append((train.sent_bytes(device) - before) / (time.monotonic() - begun))
    rates.append(fault.end())
    connection.close()
    print(json.dumps(rates))


class Networks(unittest.TestCase):
    def test_limit(self):
        if not NET_HELPER or os.geteuid() != 0:
            self.skipTest("needs root and --net-helper")
        done = subprocess.run(
            [NET_HELPER, "run", "2", "--", sys.executable, os.path.abspath(__file__),
             "--net-helper", NET_HELPER, "--send"],
            capture_output=True, text=True, timeout=60, check=False)
        if "Operation not" in done.stderr or "not permitted" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        free, begun, limited, ended = json.loads(done.stdout)
        self.assertEqual((begun, ended), ("", ""))
        self.assertGreater(free, 3 * limited)
        self.assertTrue(10e6 < limited < 24e6, limited)


class Overhead(unittest.TestCase):
    """bench/gpu_overhead.py finds the cost that a truth log of 42 blocks was made with."""

    def test_blocks(self):
        dice, now, lines = random.Random(5), 10**9, [{"event": "job", "ranks": 1}]
        order = []
        for step in range(42 * 50):
            if step % 50 == 0:
                order = order or dice.sample((True, False), 2)
                is_on = order.pop(0)
            stamps = {"monotonic_ns": int(now), "realtime_ns": int(now)}
            if step % 50 == 0:
                lines.append({"event": "block", "on": is_on, "step": step, **stamps})
            lines.append({"event": "step", "rank": 0, "step": step, **stamps})
            # At first it is not known yet that a block has begun; then noise, drift, a few stops.
            settled = is_on if step % 50 >= 12 else not is_on
            now += 30e6 * (1 + 1e-5 * step) * (1.02 if settled else 1) * dice.gauss(1, 0.01)
            now += 500e6 if dice.random() < 0.002 else 0
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "truth.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            pairs = gpu_overhead.pair_up(gpu_overhead.read_blocks(fault_plan.Truth(path)))
        found = gpu_overhead.interval(pairs)
        self.assertEqual(found["pairs"], 20)  # the last block is not closed by another
        low, high = found["interval_95_percent"]
        self.assertTrue(1.3 < low < 2.0 < high < 2.7, found)
        self.assertLess(found["after_switch"]["0.1"], 0, found)
        self.assertGreater(found["after_switch"]["0.8"], 1, found)
        self.assertLess(max(found["long_steps_percent"]), 1, found)

    def test_interval_holds_the_truth(self):
        """Steps that wander over seconds: 19 of 20 intervals, give or take."""
        dice, held, tries = random.Random(3), 0, 200
        for _ in range(tries):
            pairs, wander = [], 0.0
            for _ in range(40):
                sides = {}
                for is_on in dice.sample((True, False), 2):
                    steps = sides[is_on] = []
                    for step in range(40):
                        wander = 0.98 * wander + dice.gauss(0, 0.01)
                        steps.append((step * 0.025, (1.01 if is_on else 1) * 25 *
                                      (1 + wander + dice.gauss(0, 0.02)), None))
                pairs.append((sides[True], sides[False]))
            low, high = gpu_overhead.interval(pairs)["interval_95_percent"]
            held += low <= 1.0 <= high
        self.assertTrue(0.9 * tries <= held < tries, held)

    def test_the_cores_pace_is_taken_out(self):
        """Cores that are slower for seconds: at the same pace intervals are narrower, and hold."""
        dice, held, narrower, tries = random.Random(4), 0, 0, 100
        for _ in range(tries):
            pairs, slower = [], 0.0
            for _ in range(40):
                sides = {}
                for is_on in dice.sample((True, False), 2):
                    steps = sides[is_on] = []
                    for step in range(40):
                        if dice.random() < 0.02:
                            slower = dice.choice((0, 0, 0.3, 0.4))
                        steps.append((step * 0.025, (1.01 if is_on else 1) * 25 *
                                      (1 + slower + dice.gauss(0, 0.02)),
                                      0.1 * (1 + 0.5 * slower + dice.gauss(0, 0.05))))
                pairs.append((sides[True], sides[False]))
            found = gpu_overhead.interval(pairs)
            low, high = found["at_same_pace"]["interval_95_percent"]
            wide = found["interval_95_percent"]
            held += low <= 1.0 <= high
            narrower += high - low < 0.5 * (wide[1] - wide[0])
        self.assertGreaterEqual(held, 0.88 * tries)
        self.assertGreaterEqual(narrower, 0.9 * tries)

    def test_runs_together(self):
        with tempfile.TemporaryDirectory() as directory:
            paths = []
            for middle, half in ((1.0, 1.0), (-2.0, 2.0)):
                paths.append(os.path.join(directory, f"{middle}.json"))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    part = dict(gpu_overhead.in_numbers(middle, half), pairs=9)
                    json.dump({"jobs": {"launch-bound": {"slowrank_blocks": part}}}, file)
            found = gpu_overhead.together(paths)["launch-bound"]
        self.assertEqual(found["slowdown_percent"], 0.4)
        self.assertEqual(found["interval_95_percent"], [-0.494, 1.294])
        self.assertFalse(found["within_budget"])


class Commands(unittest.TestCase):
    def test_every_job_has_a_command(self):
        with tempfile.TemporaryDirectory() as work:
            arguments = run.parse_arguments(["--work", work, "--ranks", "4"])
            with unittest.mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES=""):
                lane = run.Lane(1, 2, 8, 4)
            self.assertEqual(lane.environment["CUDA_VISIBLE_DEVICES"], "4,5,6,7")
            for name, job in run.table_of_jobs().items():
                case = run.Case(arguments, name, job, 1, lane, float("inf"))
                case.net_helper = "net_helper"
                command = case.train_command(None)
                at = next(i for i, word in enumerate(command) if word.endswith("train.py"))
                parsed = train.parse_arguments(command[at + 1:])
                self.assertEqual((parsed.mode, parsed.steps), (job["mode"], case.steps))
                if parsed.plan:
                    self.assertEqual(fault_plan.read_plan(parsed.plan, 4), case.windows)
                self.assertGreater(case.seconds(), run.START_SECONDS)


if __name__ == "__main__":
    if "--net-helper" in sys.argv:
        index = sys.argv.index("--net-helper")
        NET_HELPER = os.path.abspath(sys.argv[index + 1])
        del sys.argv[index:index + 2]
    if "--send" in sys.argv:
        send_for(1.5, os.environ["GPU_TEST_NAMESPACE_PIDS"])
        sys.exit(0)
    unittest.main()
