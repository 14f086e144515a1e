#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that files do not need each other in circles: who defines a symbol, and who uses it.

usage: scripts/check_cycles.py LIBRARY...    default: those of CIRCLES, in build/

Prints each circle: files of one library of which each needs each other, directly or by way of others. Exit
status 0 when they are as CIRCLES says, else 1: it may only shrink, and what became smaller is to be written
there; 2 for what cannot be read. What an inline function of a header needs, the files that use it need.
"""
import collections
import operator
import os
import re
import subprocess
import sys

BUILD = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build")
# How many files each circle of a library has, the largest first.
CIRCLES = {
    "libslowrank_analysis.a": [],
    "coordinator/libslowrank_coordinator.a": [],
}
SYMBOL = re.compile(r".*:([^:]+)\.o:\s*[0-9a-f]* +(\S) (\S+)$")


def needs_of(library):
    """file -> the files of the library that it needs."""
    defines, uses = {}, collections.defaultdict(set)
    for line in subprocess.run(["nm", "-A", library], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.splitlines():
        file, kind, symbol = SYMBOL.match(line).groups()
        if kind in "Uw":
            uses[file].add(symbol)
        elif kind.isupper() or kind == "i":  # i: chosen by the processor when it is loaded
            defines[symbol] = file
    return {file: {defines[symbol] for symbol in uses[file] if symbol in defines} - {file}
            for file in {*defines.values(), *uses}}


def reached_from(file, needs):
    seen, waiting = set(), [file]
    while waiting:
        new = needs[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def circles_of(needs):
    """[[file]], the largest first."""
    reached = {file: reached_from(file, needs) for file in needs}
    found = {frozenset(other for other in reached[file] if file in reached[other])
             for file in needs if file in reached[file]}
    return sorted(map(sorted, found), key=lambda circle: (-len(circle), circle))


def main():
    allowed = {os.path.basename(name): sizes for name, sizes in CIRCLES.items()}
    status = 0
    for library in sys.argv[1:] or [os.path.join(BUILD, name) for name in CIRCLES]:
        name = os.path.basename(library)
        try:
            circles = circles_of(needs_of(library))
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"check_cycles: {library}: {error}", file=sys.stderr)
            return 2
        sizes, listed = [len(circle) for circle in circles], allowed.get(name, [])
        for circle in circles:
            print(f"{name}: {len(circle)} files: {', '.join(circle)}")
        if sizes != listed:
            smaller = len(sizes) <= len(listed) and all(map(operator.le, sizes, listed))
            print(f"{name}: circles of {sizes} files, {listed} are allowed: "
                  + (f"write what there is now into {sys.argv[0]}" if smaller else "undo what closed one"))
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
