#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a trace as Perfetto and Chrome read it: every slice is on a track that has a name, slices of a track do not
overlap, and every arrow begins and ends in a slice.

    tests/export/check_trace.py TRACE.json

Exit status: 0, or 1 with one line for each problem.
"""
import bisect
import collections
import json
import sys

KINDS = {"M", "X", "s", "f"}
EPSILON_US = 0.0011  # times have three decimals


class Trace:
    def __init__(self, text):
        self.problems = []
        self.whole = json.loads(text)
        self.events = self.whole["traceEvents"]
        self.processes, self.threads = {}, {}
        self.slices = collections.defaultdict(list)
        self.arrows = collections.defaultdict(dict)
        for number, event in enumerate(self.events):
            self.take(number, event)
        for track in self.slices.values():
            track.sort(key=lambda event: (event["ts"], event["ts"] + event["dur"]))
        self.starts = {track: [event["ts"] for event in slices] for track, slices in self.slices.items()}
        self.check_tracks()
        self.check_arrows()

    def complain(self, what, event):
        self.problems.append(f"{what}: {json.dumps(event)}")

    def take(self, number, event):
        if event.get("ph") not in KINDS or not isinstance(event.get("name"), str):
            return self.complain(f"event {number} is of no known kind", event)
        if not all(isinstance(event.get(key), int) and event[key] >= 0 for key in ("pid", "tid")):
            return self.complain(f"event {number} is on no track", event)
        track = (event["pid"], event["tid"])
        if event["ph"] == "M":
            if event["name"] == "process_name":
                self.processes[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                if track in self.threads:
                    self.complain("a track has two names", event)
                self.threads[track] = event["args"]["name"]
            return None
        if not isinstance(event.get("ts"), (int, float)) or event["ts"] < 0:
            return self.complain(f"event {number} has no time", event)
        if event["ph"] == "X":
            if not isinstance(event.get("dur"), (int, float)) or event["dur"] < 0:
                return self.complain(f"slice {number} has no length", event)
            self.slices[track].append(event)
            return None
        if event["ph"] in self.arrows[event["id"]]:
            self.complain("an arrow has an end twice", event)
        self.arrows[event["id"]][event["ph"]] = event
        return None

    def check_tracks(self):
        for track, slices in self.slices.items():
            if track not in self.threads or track[0] not in self.processes:
                self.complain("a track has no name", slices[0])
            for before, after in zip(slices, slices[1:]):
                if after["ts"] < before["ts"] + before["dur"] - EPSILON_US:
                    self.complain("slices overlap", [before, after])

    def slice_at(self, event):
        """The slice of the event's track that it lies in; None: there is none."""
        track = (event["pid"], event["tid"])
        slices, starts = self.slices.get(track, []), self.starts.get(track, [])
        for at in range(bisect.bisect_right(starts, event["ts"] + EPSILON_US) - 1, -1, -1):
            if event["ts"] <= slices[at]["ts"] + slices[at]["dur"] + EPSILON_US:
                return slices[at]
            if slices[at]["dur"] > 0:
                break
        return None

    def check_arrows(self):
        for ends in self.arrows.values():
            if set(ends) != {"s", "f"}:
                self.complain("an arrow has one end", ends)
                continue
            if ends["f"]["ts"] < ends["s"]["ts"]:
                self.complain("an arrow leads back in time", ends)
            for end in ends.values():
                if not self.slice_at(end):
                    self.complain("an arrow hangs in the air", end)

    def named(self, text):
        return [track for track, name in self.threads.items() if text in name]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        trace = Trace(file.read())
    print("\n".join(trace.problems[:20]))
    sys.exit(1 if trace.problems else 0)


if __name__ == "__main__":
    main()
