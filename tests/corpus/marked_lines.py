# SPDX-License-Identifier: Apache-2.0
"""Lines of a program where something is slow in truth, and where a verdict says that it is. Python's standard library only."""
import json
import re


def lines_of(path):
    """{(mark, kind): line numbers}. Marks: AT, where something is slow; HOLDS, where a lock is held that it waits for."""
    lines = {}
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            mark = re.search(r"# (AT|HOLDS) (.*)$", text)
            for kind in mark.group(2).split() if mark else ():
                lines.setdefault((mark.group(1), kind), set()).add(number)
    return lines


def where_of(verdict):
    """What it says of the place, or None: itself, else its first evidence with one."""
    for told in (verdict, *verdict.get("evidence", [])):
        if told.get("where"):
            return told["where"]
    return None
