# SPDX-License-Identifier: Apache-2.0
"""What a rank's GPU truly did: CUPTI's full kernel timeline, by PyTorch's profiler, as the truth
for "compute or host?". It is recorded for a few steps before the first fault, and at the end of
each window; slowrank gives way meanwhile (one subscriber), so that its verdict does not know of it.

    tests/gpu/run.py --train-options=--timeline --only 'ddp.*'      records it
    tests/gpu/timeline.py OUT/jobs/*                                prints the confusion table
"""
import collections
import json
import os
import sys

STEPS = 8
REFERENCE = "reference"


def union_ns(intervals):
    """Length of the union of [start, stop) intervals."""
    total, end = 0, None
    for start, stop in sorted(intervals):
        if end is None or start > end:
            total += stop - start
            end = stop
        elif stop > end:
            total += stop - end
            end = stop
    return total


def sums(events, steps):
    """Per step, of (name, start_ns, stop_ns): own work, communication alone, nothing at all."""
    if not events:
        return None
    own = [(start, stop) for name, start, stop in events if "nccl" not in name]
    every = [(start, stop) for _, start, stop in events]
    span = max(stop for _, stop in every) - min(start for start, _ in every)
    busy, any_ns = union_ns(own), union_ns(every)
    return {key: round(ns / 1e6 / steps, 4) for key, ns in (
        ("work_ms", busy), ("comm_ms", any_ns - busy), ("idle_ms", span - any_ns))}


class Timeline:
    """Switches the profiler on and off in step with the plan; one note in the truth log each."""

    def __init__(self, torch, truth, rank, plan):
        self.torch, self.truth, self.rank, self.profiler = torch, truth, rank, None
        self.begins, self.until = {}, -1
        if plan:
            first = plan[0]["first_step"]
            self.begins[max(0, first - 3 * STEPS)] = REFERENCE
        for window in plan:
            self.begins[window["last_step"] - STEPS] = f"{window['first_step']}"

    def at_step(self, step):
        if self.profiler and step == self.until:
            self.stop(step)
        if step in self.begins:
            self.what, self.until = self.begins[step], step + STEPS
            self.profiler = self.torch.profiler.profile(
                activities=[self.torch.profiler.ProfilerActivity.CUDA])
            self.profiler.start()

    def stop(self, step):
        self.profiler.stop()
        results = self.profiler.profiler.kineto_results.events()
        device = self.torch.autograd.DeviceType.CUDA
        events = [(event.name(), event.start_ns(), event.start_ns() + event.duration_ns())
                  for event in results if event.device_type() == device
                  and not event.name().startswith(("Optimizer.", "Distributed", "## "))]
        self.profiler = None
        self.truth.add("note", rank=self.rank, step=step, what="timeline", window=self.what,
                       kernels=len(events), sums=sums(events, STEPS))


def truth_class(reference, window):
    """compute-slow when more own work explains most of what it took longer, else host-slow."""
    work = window["work_ms"] - reference["work_ms"]
    idle = window["idle_ms"] - reference["idle_ms"]
    return "compute-slow" if work > idle else "host-slow"


def confusion(directory):
    """[(kind, truth's class, slowrank's class)] of one job's faults."""
    with open(os.path.join(directory, "truth.jsonl"), encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    notes = {(e["rank"], e["window"]): e["sums"] for e in entries
             if e["event"] == "note" and e.get("what") == "timeline" and e["sums"]}
    with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
        verdicts = json.load(file)["verdicts"]
    found = []
    for fault in (e for e in entries if e["event"] == "fault_begin"):
        rank, window = fault["rank"], notes.get((fault["rank"], str(fault["first_step"])))
        end = next((e["realtime_ns"] for e in entries if e["event"] == "fault_end"
                    and e["first_step"] == fault["first_step"]), None)
        if not window or (rank, REFERENCE) not in notes or end is None:
            continue
        said = [v["class"] for v in verdicts if v["ranks"] == [rank]
                and fault["realtime_ns"] - 5e8 <= v["onset_unix_ns"] <= end]
        found.append((fault["kind"], truth_class(notes[rank, REFERENCE], window),
                      said[0] if said else "not told", notes[rank, REFERENCE], window))
    return found


def main(directories):
    found = [row for directory in directories
             if os.path.exists(os.path.join(directory, "report.json"))
             for row in confusion(directory)]
    counts = collections.Counter((truth, said) for _, truth, said, _, _ in found)
    said = sorted({word for _, word in counts} | {"compute-slow", "host-slow"})
    print("| CUPTI's timeline | " + " | ".join(said) + " |")
    print("| --- |" + " ---: |" * len(said))
    for truth in ("compute-slow", "host-slow"):
        print(f"| {truth} | " + " | ".join(str(counts[truth, word]) for word in said) + " |")
    print()
    for kind, truth, word, reference, window in found:
        print(f"{kind}: {truth}, said {word}; ms a step before {reference}, within {window}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
