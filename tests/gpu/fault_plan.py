# SPDX-License-Identifier: Apache-2.0
"""The fault plan and the truth log of a training job. Python's standard library only.

A plan is a JSON list of windows {"kind", "rank", "first_step", "last_step", "size"}: from the
first to the last step, both inclusive, the rank is slowed so that a step grows by about size
percent. The truth log has one JSON object a line, appended by all ranks; times are in ns:

    job          ranks, mode, the options, the measured step ("step_ms"),      rank 0, once
                 the steps before the first one here ("warm_up_steps")
    rank         rank, pid, host, gpu, cores                                   each rank, once
    step         rank, step, monotonic_ns, realtime_ns: when the step began    each rank and step
    fault_begin  rank, kind, first_step, last_step, size, step, applied, why, monotonic_ns,
    fault_end    realtime_ns
    note         what else was done (profiler, communicator made anew, death)
    end          rank, monotonic_ns, realtime_ns
"""
import json
import os
import random
import statistics
import time

KINDS = ("gpu-shared", "extra-kernels", "longer-kernels", "input-sleep", "gil", "gc",
         "cgroup-throttle", "cpu-hog", "minor-fault", "major-fault", "comm-slow")
DEVICE_KINDS = ("gpu-shared", "extra-kernels", "longer-kernels")
COMM_KINDS = ("comm-slow",)
HOST_KINDS = tuple(k for k in KINDS if k not in DEVICE_KINDS + COMM_KINDS)
WINDOWS_MAX = 64
LENGTHS = {"gc": 0.4}  # of a window, for those that make steps several times as long


def check_plan(windows, rank_count):
    """Raises ValueError with one line for a plan that makes no sense."""
    if not isinstance(windows, list) or len(windows) > WINDOWS_MAX:
        raise ValueError(f"a plan is a list of at most {WINDOWS_MAX} windows")
    for window in windows:
        if not isinstance(window, dict) or set(window) != {"kind", "rank", "first_step",
                                                           "last_step", "size"}:
            raise ValueError(f"a window has kind, rank, first_step, last_step, size: {window}")
        if window["kind"] not in KINDS:
            raise ValueError(f"unknown kind {window['kind']!r}; kinds are {', '.join(KINDS)}")
        if not 0 <= window["rank"] < rank_count:
            raise ValueError(f"there is no rank {window['rank']} of {rank_count}")
        if not 0 <= window["first_step"] <= window["last_step"]:
            raise ValueError(f"steps {window['first_step']}..{window['last_step']} are no window")
        if not 0 < window["size"] <= 1000:
            raise ValueError(f"size {window['size']} is not in (0, 1000] percent")
    ordered = sorted(windows, key=lambda window: window["first_step"])
    for earlier, later in zip(ordered, ordered[1:]):
        if later["first_step"] <= earlier["last_step"]:
            raise ValueError("windows overlap: the true slow-down of each would be unknown")


def read_plan(path, rank_count):
    with open(path, encoding="utf-8") as file:
        windows = json.load(file)
    check_plan(windows, rank_count)
    return windows


def draw_plan(kinds, rank_count, seed, length, gap, warm_up, rounds=1):
    """A plan from the seed alone: order, ranks and sizes vary. Returns (windows, steps).

    Each round holds every kind once. Two windows in sequence are on different ranks.
    """
    dice = random.Random(f"{seed}/{rank_count}/{','.join(kinds)}")
    windows, step, before = [], warm_up, None
    for _ in range(rounds):
        for kind in dice.sample(list(kinds), len(kinds)):
            rank = dice.choice([r for r in range(rank_count) if r != before])
            steps = max(20, int(length * LENGTHS.get(kind, 1)))
            windows.append({"kind": kind, "rank": rank, "first_step": step,
                            "last_step": step + steps - 1, "size": dice.randrange(35, 81)})
            step, before = step + steps + gap, rank
    return windows, step


def stamps():
    return {"monotonic_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC),
            "realtime_ns": time.clock_gettime_ns(time.CLOCK_REALTIME)}


class TruthWriter:
    """Appends whole lines; steps are kept back and written in bunches, off the hot path."""

    BUNCH = 256

    def __init__(self, path):
        self.lines = []
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC,
                          0o644) if path else -1

    def add(self, event, at_once=True, **fields):
        self.lines.append(json.dumps({"event": event, **stamps(), **fields}))
        if at_once or len(self.lines) >= self.BUNCH:
            self.flush()

    def flush(self):
        text = "".join(line + "\n" for line in self.lines).encode()
        self.lines = []
        while self.fd >= 0 and text:
            text = text[os.write(self.fd, text):]


class Truth:
    """A truth log that was read."""

    def __init__(self, path):
        self.job, self.ranks, self.notes, self.faults, self.ended = None, [], [], [], []
        self.steps = {}  # rank -> [(step, monotonic_ns, realtime_ns)]
        self.host_ms = {}  # rank -> {step: from asking for the batch until all was launched}
        self.usual_ms = {}  # rank -> of host_ms; as far as it was asked for
        self.pace_ms = {}  # rank -> {step: what the same few bytecodes took in it, summed}
        begun = {}
        with open(path, encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                event = entry["event"]
                if event == "job":
                    self.job = entry
                elif event == "rank":
                    self.ranks.append(entry)
                elif event == "step":
                    self.steps.setdefault(entry["rank"], []).append(
                        (entry["step"], entry["monotonic_ns"], entry["realtime_ns"]))
                    if entry.get("host_ms_before") is not None:
                        self.host_ms.setdefault(entry["rank"], {})[entry["step"] - 1] = \
                            entry["host_ms_before"]
                    if entry.get("pace_ms_before") is not None:
                        self.pace_ms.setdefault(entry["rank"], {})[entry["step"] - 1] = \
                            entry["pace_ms_before"]
                elif event == "fault_begin":
                    fault = dict(entry, end_realtime_ns=None)
                    begun[entry["rank"], entry["first_step"]] = fault
                    self.faults.append(fault)
                elif event == "fault_end":
                    fault = begun[entry["rank"], entry["first_step"]]
                    fault["end_realtime_ns"] = entry["realtime_ns"]
                    fault["applied"] = fault["applied"] and entry["applied"]
                    fault["why"] = entry["why"] or fault["why"]
                elif event == "end":
                    self.ended.append(entry["rank"])
                else:
                    self.notes.append(entry)
        self.ranks.sort(key=lambda entry: entry["rank"])
        for steps in self.steps.values():
            steps.sort()

    def lengths_ms(self, rank):
        """step -> its length on that rank; a step lasts until the next one begins."""
        steps = self.steps.get(rank, [])
        return {now[0]: (after[1] - now[1]) / 1e6 for now, after in zip(steps, steps[1:])
                if after[0] == now[0] + 1}

    def is_disturbed(self, step, margin=3):
        """In a fault's window, or so close that its effect may reach here."""
        return any(f["first_step"] - 1 <= step <= f["last_step"] + margin for f in self.faults)

    def healthy_ms(self, rank, skip=10):
        """Median length of the steps outside of all windows, or None."""
        lengths = [length for step, length in self.lengths_ms(rank).items()
                   if step >= skip and not self.is_disturbed(step)]
        return statistics.median(lengths) if lengths else None

    def usual_host_ms(self, rank):
        """Median outside of all windows, or None."""
        if rank not in self.usual_ms:
            usual = [value for step, value in self.host_ms[rank].items()
                     if step >= 10 and not self.is_disturbed(step)]
            self.usual_ms[rank] = statistics.median(usual) if usual else None
        return self.usual_ms[rank]

    def host_growth(self, rank, first_step, last_step):
        """How much longer than usual a rank's own host took for these steps (median), over the same
        of the other rank that grew most; None where the log does not tell. Hosts are disturbed
        from outside too: by other guests of the machine, by a thread of the same physical core."""
        grown = {}
        for other, values in self.host_ms.items():
            during = [values[step] for step in range(first_step, last_step + 1) if step in values]
            if not during or not self.usual_host_ms(other):
                return None
            grown[other] = statistics.median(during) / self.usual_host_ms(other)
        others = [value for other, value in grown.items() if other != rank]
        return grown[rank] / max(1.0, *others) if rank in grown and others else None

    def slow_since(self, fault, least, stretch=5):
        """The first step of the time right before a fault in which its rank's host was that much
        slower already, by stretches of so many steps; the fault's first step when there is none."""
        step = fault["first_step"]
        while step >= stretch and (
                self.host_growth(fault["rank"], step - stretch, step - 1) or 1) >= least:
            step -= stretch
        return step

    def healthy_near_ms(self, fault, near=70, least=20, skip=10):
        """Mean length of the undisturbed steps up to so many before and after a fault, or of all
        healthy ones (median) where these are few: launch-bound steps wander by 10 % in a job. One
        that is twice as long as usual counts as that; None where nothing is known."""
        lengths = [length for step, length in self.lengths_ms(fault["rank"]).items()
                   if fault["first_step"] - near <= step <= fault["last_step"] + near
                   and step >= skip and not self.is_disturbed(step)]
        if len(lengths) < least:
            return self.healthy_ms(fault["rank"])
        most = 2 * statistics.median(lengths)
        return statistics.mean(min(length, most) for length in lengths)

    def growth(self, fault):
        """How much longer steps truly were in the window than near it, or None.

        Mean, without the first step: setting a fault up may itself take time.
        """
        healthy = self.healthy_near_ms(fault)
        during = [length for step, length in self.lengths_ms(fault["rank"]).items()
                  if fault["first_step"] < step <= fault["last_step"]]
        return statistics.mean(during) / healthy if healthy and during else None
