#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no struct of analysis/ has more than FIELDS_MAX fields: what belongs together has a name of its own.

usage: scripts/check_structs.py [--list]    --list: how many each struct has, the largest first

Those of structs inside without a name count, too. Exit status 0 when all are small enough, else 1.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIELDS_MAX = 25
NOT_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)
PARENTHESES = re.compile(r"\([^()]*\)")
BEGIN = re.compile(r"\b(?:struct|union)\s+(\w+)\s*(?:__attribute__\s*)?\{")
HEAD = re.compile(r"(?:struct|union|enum)(?:\s+\w+)?$")  # of one inside: its fields come next


def fields_of(body):
    while PARENTHESES.search(body):
        body = PARENTHESES.sub("", body)
    declarations = (part.strip() for part in re.split(r"[;{}]", body))
    return sum(part.count(",") + 1 for part in declarations if part and not HEAD.match(part))


def structs_of(text):
    """[(name, count of fields)]"""
    text = NOT_CODE.sub(" ", text)
    for begin in BEGIN.finditer(text):
        end, depth = begin.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield begin.group(1), fields_of(text[begin.end():end - 1])


def main():
    found = []
    for folder, _, names in os.walk(os.path.join(ROOT, "analysis")):
        for path in (os.path.join(folder, name) for name in names if name.endswith((".c", ".h"))):
            with open(path, encoding="utf-8") as file:
                found += [(count, name, os.path.relpath(path, ROOT)) for name, count in structs_of(file.read())]
    if not found:
        print("check_structs: no struct found", file=sys.stderr)
        return 1
    status = 0
    for count, name, path in sorted(found, reverse=True):
        if count > FIELDS_MAX:
            print(f"{path}: struct {name} has {count} fields, {FIELDS_MAX} are allowed")
            status = 1
        elif "--list" in sys.argv[1:]:
            print(f"{path}: struct {name} has {count} fields")
    return status


if __name__ == "__main__":
    sys.exit(main())
