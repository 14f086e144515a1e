#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What slowrank costs a training job on GPUs, everything on by default, and what others cost.

    bench/gpu_overhead.py --slowrank build/slowrank [--ranks 2] [--blocks 200] [--only slowrank]
    bench/gpu_overhead.py --together RESULT.json...     what earlier runs say together

Two jobs (tests/gpu/train.py): a realistic step of about 60 ms, and a launch-bound one of about
22 ms. Within one torchrun process group, what is measured works and rests in turn in blocks of
steps, in pairs of random order; the job itself switches, on its own step. What it costs is the mean
of the differences within pairs, over the mean of the steps without, with a 95 % interval (Student).

 - Blocks are short (BLOCK_SECONDS) because a step of Python wanders over seconds: within a pair it
   has not gone far. What slowrank does at intervals (emptying rings, batches, samples once a
   second) goes by a clock of its own, so a block gets its share of it.
 - Means, not medians: what hits one step in fifty counts. A step longer than LONG_STEP times the
   usual one counts as so long; how many there are is told for both kinds.
 - slowrank: `slowrank run`; rests while --pause-file exists: no traps, no events asked of NCCL,
   no samples. The first steps of a block (SETTLE_SECONDS) do not count; `after_switch` shows them.
   The kernel's programs and the plug-in are still loaded while they rest, so
 - whole runs are compared too (`runs`): nothing, slowrank, and the baselines, interleaved: NCCL
   Inspector (where its library is found or named), PyTorch's profiler always on, CUPTI's records of
   all kernels always on (cupti_always.c). As noisy as the machine: ratios of medians, with the
   range over repeats.
 - The cores' own pace wanders too, by what other guests do on them. So each rank takes the time of
   the same few bytecodes before each block of its model. `pace` is how that differs between working
   and resting (by chance, as long as its interval holds 0), `at_same_pace` the cost where it does
   not differ.
 - The ranks keep to a few cores each (--pin-cores), slowrank's own processes do not; what is alive
   after the warm-up is no work for Python's garbage collector.
 - profiler: PyTorch's profiler in blocks, as the first.

Prints one JSON object; exit 77 without two GPUs (--share-gpu: without one). Root for everything that is on by default.
"""
import argparse
import glob
import json
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "gpu"), os.path.join(ROOT, "tests", "gpu", "programs")]
import fault_plan  # noqa: E402
import run as gpu_run  # noqa: E402
import share_gpu  # noqa: E402

BUDGETS = {"realistic": 0.3, "launch-bound": 1.0}  # percent, upper end of the interval
JOBS = {"realistic": {"options": [], "step_ms": 62},
        "launch-bound": {"options": ["--launch-bound"], "step_ms": 24}}
BLOCK_SECONDS = 1.0
# After a switch: the probe sees the pause file within 50 ms, the library the probe's word within 50
# more; what was seen before leaves with the next batch, up to 250 ms later.
SETTLE_SECONDS = 0.4
LONG_STEP = 1.5
LEAST_STEPS = 5  # of a block, to count
BIN_SECONDS = 0.1  # of after_switch
WARM_UP_STEPS = 40
WARM_UP_PAIRS = 2
CUPTI_ALWAYS = "libslowrank_cupti_always.so"


def read_blocks(truth):
    """[(on, [(seconds since the switch, length of the step on rank 0, pace)])] in order.

    The pace is the slowest rank's, or None where the log has none.
    """
    switches = sorted((n["step"], n["monotonic_ns"], n["on"]) for n in truth.notes
                      if n["event"] == "block")
    starts = {step: monotonic for step, monotonic, _ in truth.steps[0]}
    lengths, paces = truth.lengths_ms(0), list(truth.pace_ms.values())

    def pace(step):
        found = [values[step] for values in paces if step in values]
        return max(found) if found else None

    return [(on, [((starts[step] - begun_ns) / 1e9, lengths[step], pace(step))
                  for step in range(first, end) if step in lengths])
            for (first, begun_ns, on), (end, _, _) in zip(switches, switches[1:])]


def pair_up(blocks):
    """[(steps with, steps without)] of neighbours; each step as of read_blocks()."""
    pairs = []
    for first, second in zip(blocks[::2], blocks[1::2]):
        if first[0] == second[0]:
            raise RuntimeError("a pair of blocks is not one with and one without")
        with_it, without = (first, second) if first[0] else (second, first)
        pairs.append((with_it[1], without[1]))
    return pairs


def student_975(freedom):
    """Quantile of Student's distribution (Abramowitz and Stegun 26.7.5); within 0.1 % from 5 on."""
    z = statistics.NormalDist().inv_cdf(0.975)
    return (z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2) +
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3))


def after_switch(pairs, most_ms):
    """Percent that steps with it are longer, by time since the switch: what settling hides."""
    bins = {}
    for pair in pairs:
        for side, steps in enumerate(pair):
            for after, length, _ in steps:
                bins.setdefault(int(after / BIN_SECONDS), ([], []))[side].append(
                    min(length, most_ms))
    return {f"{number * BIN_SECONDS:.1f}": round(
        100 * (statistics.fmean(with_it) / statistics.fmean(without) - 1), 2)
        for number, (with_it, without) in sorted(bins.items())
        if min(len(with_it), len(without)) >= LEAST_STEPS}


def of_mean(values):
    """Mean and half of its 95 % interval (Student)."""
    count = len(values)
    return statistics.fmean(values), \
        student_975(count - 1) * statistics.stdev(values) / count**0.5


def at_same_pace(differences, paces):
    """The differences where the pace does not differ: intercept of the line of least squares, and
    half of its 95 % interval."""
    count, middle = len(paces), statistics.fmean(paces)
    slope, intercept = statistics.linear_regression(paces, differences)
    spread = sum((pace - middle)**2 for pace in paces)
    left = sum((difference - intercept - slope * pace)**2
               for difference, pace in zip(differences, paces)) / (count - 2)
    return intercept, student_975(count - 2) * (left * (1 / count + middle**2 / spread))**0.5


def in_numbers(middle, half):
    return {"slowdown_percent": round(middle, 3),
            "interval_95_percent": [round(middle - half, 3), round(middle + half, 3)]}


def percent_in_pairs(pairs, column):
    """[percent that the mean with it is above the one without, of the mean without], by pair; an
    outlier counts as LONG_STEP times the usual value. And what the usual value is, at most."""
    sides = [[[step[column] for step in steps] for steps in pair] for pair in pairs]
    most = LONG_STEP * statistics.median(value for pair in sides for side in pair for value in side)
    means = [[statistics.fmean(min(value, most) for value in side) for side in pair]
             for pair in sides]
    base = statistics.fmean(without for _, without in means)
    return [100 * (with_it - without) / base for with_it, without in means], most


def interval(pairs):
    """What it costs: mean difference within pairs over the mean without, and its 95 % interval."""
    settled = [[[step for step in steps if step[0] >= SETTLE_SECONDS] for steps in pair]
               for pair in pairs]
    settled = [pair for pair in settled if min(map(len, pair)) >= LEAST_STEPS]
    if len(settled) < 6:
        raise RuntimeError("too few blocks")
    sides = [[step[1] for pair in settled for step in pair[side]] for side in range(2)]
    differences, most_ms = percent_in_pairs(settled, 1)
    found = dict(
        in_numbers(*of_mean(differences)), pairs=len(differences),
        pair_deviation_percent=round(statistics.stdev(differences), 3),
        median_of_pairs_percent=round(statistics.median(differences), 3),
        step_ms_with=round(statistics.median(sides[0]), 3),
        step_ms_without=round(statistics.median(sides[1]), 3),
        long_steps_percent=[round(100 * statistics.fmean(length > most_ms for length in side), 3)
                            for side in sides],
        after_switch=after_switch(pairs, most_ms))
    if all(step[2] is not None for pair in settled for steps in pair for step in steps):
        paces, _ = percent_in_pairs(settled, 2)
        found["pace"] = in_numbers(*of_mean(paces))
        found["at_same_pace"] = in_numbers(*at_same_pace(differences, paces))
    return found


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.size = {}  # job -> options that fix layers and batch, once calibrated
        self.deadline = time.monotonic() + arguments.budget_seconds

    def start(self, job, steps, prefix=(), environment=(), options=()):
        """Runs one training job to its end; returns its truth."""
        directory = self.arguments.work
        truth_path = os.path.join(directory, "truth.jsonl")
        if os.path.exists(truth_path):
            os.unlink(truth_path)
        if time.monotonic() > self.deadline:
            raise RuntimeError("the time is up")
        command = [*prefix, *gpu_run.launcher(self.arguments.python), "--standalone",
                   "--nproc-per-node", str(self.arguments.ranks),
                   *([share_gpu.__file__] if self.arguments.share_gpu else ()),
                   os.path.join(ROOT, "tests", "gpu", "train.py"), "--mode",
                   self.arguments.mode, "--steps", str(steps), "--truth", truth_path,
                   "--pin-cores", str(self.arguments.pin_cores), "--freeze",
                   *JOBS[job]["options"], *self.size.get(job, ()), *options]
        log_path = os.path.join(directory, "log.txt")
        with open(log_path, "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env=dict(os.environ, OMP_NUM_THREADS="1", **dict(environment)),
                start_new_session=True)
            status = gpu_run.wait_or_end(process, 180 + 4 * steps * JOBS[job]["step_ms"] / 1e3)
        if status != 0:
            with open(log_path, encoding="utf-8", errors="replace") as log:
                raise RuntimeError(f"status {status}: " + "".join(log.readlines()[-20:]))
        truth = fault_plan.Truth(truth_path)
        self.size[job] = ["--layers", str(truth.job["layers"]), "--batch",
                          str(truth.job["batch"])]
        return truth

    def log(self):
        path = os.path.join(self.arguments.work, "log.txt")
        with open(path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def slowrank(self, *extra):
        return [self.arguments.slowrank, "run", "--record",
                os.path.join(self.arguments.work, "record.slr"), "--quiet",
                *self.arguments.run_options, *extra, "--"]

    def block_steps(self, job):
        return self.arguments.block_steps or round(BLOCK_SECONDS * 1e3 / JOBS[job]["step_ms"])

    def blocks(self, job, what):
        """What is measured works and rests within one job."""
        length = self.block_steps(job)
        options = ["--block-steps", str(length), "--seed", str(self.arguments.seed)]
        prefix = ()
        if what == "slowrank":
            pause_file = os.path.join(self.arguments.work, "pause")
            prefix = self.slowrank("--pause-file", pause_file)
            options += ["--switch", "pause-file", "--pause-file", pause_file]
        else:
            options += ["--switch", "profiler"]
        # One more block at the end, so that the last pair is closed by a switch.
        truth = self.start(job, (self.arguments.blocks + 1) * length, prefix, (), options)
        # The first pairs are warm-up: attaching, finding the period.
        return dict(interval(pair_up(read_blocks(truth)[2 * WARM_UP_PAIRS:])), block_steps=length)

    def inspector(self):
        """NCCL Inspector's library: named, or where it may be."""
        places = [self.arguments.inspector, "/usr/lib/**/libnccl-profiler-inspector.so",
                  "/opt/**/libnccl-profiler-inspector.so"]
        for place in filter(None, places):
            found = glob.glob(place, recursive=True)
            if found:
                return found[0]
        return None

    def cupti_always(self):
        """The library that is built with slowrank, beside it or in the build's bench folder."""
        beside = os.path.dirname(self.arguments.slowrank)
        for place in (self.arguments.cupti_always, os.path.join(beside, CUPTI_ALWAYS),
                      os.path.join(beside, "bench", CUPTI_ALWAYS)):
            if place and os.path.exists(place):
                return os.path.abspath(place)
        return None

    def variants(self):
        """name -> keyword arguments of start()."""
        found = {"nothing": {}, "slowrank": {"prefix": self.slowrank()},
                 "profiler": {"options": ["--profile-steps", f"{WARM_UP_STEPS - 20}:1000000"]}}
        if self.cupti_always():
            found["cupti-always"] = {
                "environment": {"CUDA_INJECTION64_PATH": self.cupti_always()}.items()}
        inspector = self.inspector()
        if inspector:
            dump = os.path.join(self.arguments.work, "inspector")
            found["nccl-inspector"] = {"environment": {
                "NCCL_PROFILER_PLUGIN": inspector, "NCCL_INSPECTOR_ENABLE": "1",
                "NCCL_INSPECTOR_DUMP_DIR": dump,
                "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS": "1000000"}.items()}
        return found

    def runs(self, job):
        """Whole jobs in turn; the order changes from round to round."""
        variants, medians, errors = self.variants(), {}, {}
        steps = WARM_UP_STEPS + self.arguments.run_steps
        dice = random.Random(self.arguments.seed)
        for _ in range(self.arguments.repeats):
            for name in dice.sample(list(variants), len(variants)):
                if name in errors:
                    continue
                try:
                    lengths = self.start(job, steps, **variants[name]).lengths_ms(0)
                    if name == "cupti-always" and "bytes of records" not in self.log():
                        raise RuntimeError("no kernel was recorded: " + self.log()[-300:])
                except RuntimeError as error:
                    errors[name] = str(error)[-600:]
                    continue
                medians.setdefault(name, []).append(statistics.median(
                    length for step, length in lengths.items() if step >= WARM_UP_STEPS))
        result = {"errors": errors, "variants": {}}
        if not self.inspector():
            result["errors"]["nccl-inspector"] = "its library was not found (--inspector)"
        if not self.cupti_always():
            result["errors"]["cupti-always"] = f"{CUPTI_ALWAYS} was not found (--cupti-always)"
        base = statistics.median(medians["nothing"]) if "nothing" in medians else None
        for name, values in medians.items():
            result["variants"][name] = {
                "step_ms": [round(value, 3) for value in values],
                "slowdown_percent": round(100 * (statistics.median(values) / base - 1), 2)
                if base else None}
        return result


def measure(arguments):
    bench = Bench(arguments)
    jobs = {}
    for job in arguments.jobs:
        result = jobs[job] = {"budget_percent": BUDGETS[job]}
        for what in ("slowrank", "profiler"):
            if what in arguments.only:
                result[what + "_blocks"] = attempt(bench.blocks, job, what)
        if "runs" in arguments.only:
            result["runs"] = attempt(bench.runs, job)
        if "launches" in arguments.only:
            result["launches"] = attempt(launches, bench, job)
        blocks = result.get("slowrank_blocks", {})
        if "pairs" in blocks:
            ends = what_counts(blocks)["interval_95_percent"]
            result["within_budget"] = ends[1] <= BUDGETS[job]
        print(json.dumps({job: result}), file=sys.stderr, flush=True)
    return jobs


def what_counts(blocks):
    """Of a result of blocks: at the same pace, unless what was measured slows the cores itself."""
    if "pace" in blocks and blocks["pace"]["interval_95_percent"][0] <= 0:
        return blocks["at_same_pace"]
    return blocks


def together(paths):
    """job -> cost by all of these results: each weighs by its interval (inverse variance)."""
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for job, result in json.load(file)["jobs"].items():
                blocks = result.get("slowrank_blocks", {})
                if "pairs" in blocks:
                    found.setdefault(job, []).append(what_counts(blocks))
    jobs = {}
    for job, parts in found.items():
        halves = [(part["interval_95_percent"][1] - part["interval_95_percent"][0]) / 2
                  for part in parts]
        weights = [half**-2 for half in halves]
        middle = sum(weight * part["slowdown_percent"] for weight, part in zip(weights, parts)) / \
            sum(weights)
        jobs[job] = dict(in_numbers(middle, sum(weights)**-0.5), runs=len(parts),
                         budget_percent=BUDGETS[job])
        jobs[job]["within_budget"] = jobs[job]["interval_95_percent"][1] <= BUDGETS[job]
    return jobs


def launches(bench, job):
    truth = bench.start(job, 20, options=["--count-launches"])
    counts = [note["count"] for note in truth.notes if note.get("what") == "launches"]
    return {"per_step": counts, "gpu": truth.job["gpu"], "torch": truth.job["torch"],
            "nccl": truth.job["nccl"], "layers": truth.job["layers"],
            "batch": truth.job["batch"], "parameters": truth.job["parameters"]}


def attempt(call, *arguments):
    """One part that fails is said, and does not take the others with it."""
    try:
        return call(*arguments)
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        return {"error": str(error)[-1500:] or repr(error)}


def parse_arguments(argv=None):
    def words(text):
        return [word for word in text.split(",") if word]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slowrank", default=os.path.join(ROOT, "build", "slowrank"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--work", default="/var/tmp/slowrank-gpu-overhead")
    parser.add_argument("--mode", default="ddp", choices=("ddp", "fsdp", "tp_dp"))
    parser.add_argument("--ranks", type=int, default=0, help="default: one for each GPU, 8 at most")
    parser.add_argument("--share-gpu", action="store_true",
                        help="all ranks on the first GPU, over sockets (--ranks; default: 2)")
    parser.add_argument("--jobs", type=words, default=list(JOBS))
    parser.add_argument("--only", type=words,
                        default=["launches", "slowrank", "profiler", "runs"])
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--block-steps", type=int, default=0)
    parser.add_argument("--pin-cores", type=int, default=2, help="of each rank; 0 = any")
    parser.add_argument("--repeats", type=int, default=3, help="of whole runs")
    parser.add_argument("--run-steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget-seconds", type=float, default=1e9)
    parser.add_argument("--run-options", type=shlex.split, default=[], help="for slowrank run")
    parser.add_argument("--cupti-always", help=CUPTI_ALWAYS + ", where it is elsewhere")
    parser.add_argument("--inspector", help="libnccl-profiler-inspector.so")
    parser.add_argument("--together", nargs="+", metavar="RESULT.json", help="runs nothing")
    arguments = parser.parse_args(argv)
    if set(arguments.jobs) - set(JOBS):
        parser.error(f"jobs are {', '.join(JOBS)}")
    arguments.slowrank = os.path.abspath(arguments.slowrank)
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.together:
        try:
            jobs = together(arguments.together)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"bench/gpu_overhead.py: no results of this program: {error}", file=sys.stderr)
            return 2
        print(json.dumps({"bench": "gpu_overhead", "jobs": jobs}))
        return 0
    gpus, why = gpu_run.count_gpus(arguments.python, 1 if arguments.share_gpu else 2)
    if why:
        print(f"bench/gpu_overhead.py: {why}", file=sys.stderr)
        return 77
    arguments.ranks = arguments.ranks or (2 if arguments.share_gpu else min(gpus, 8))
    shutil.rmtree(arguments.work, ignore_errors=True)
    os.makedirs(arguments.work)
    with share_gpu.by_kernels(arguments.work, arguments.share_gpu):
        jobs = measure(arguments)
    print(json.dumps({
        "bench": "gpu_overhead", "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "compared_against": "the same job with slowrank resting, and whole jobs with nothing, "
        "PyTorch's profiler, CUPTI always on, NCCL Inspector", "mode": arguments.mode,
        "ranks": arguments.ranks, "share_gpu": arguments.share_gpu, "jobs": jobs,
        "machine": {"cores": os.cpu_count(), "kernel": os.uname().release,
                    "root": os.geteuid() == 0}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
