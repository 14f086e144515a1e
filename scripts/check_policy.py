#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no number that decides stands outside of analysis/policy.h, and counts those in it.

    scripts/check_policy.py [--update] [TREE]

docs/policy.md has a table of them, and docs/analysis.md one of their sections, made from policy.h; with --update
they are written, else compared.
Prints how many numbers each section has, and how many are rules of verdicts; what is twice
another one, or the same, is none of its own. Then FILE:LINE for each that stands elsewhere in
analysis/: a macro, a nameless enum, a static const, or a literal with
a point; and each in policy.h that nothing reads. Exits with 1 when there is one, or when the table is another; 2: no such tree. What is no policy is named below.
"""
import collections
import glob
import os
import re
import sys

POLICY = "analysis/policy.h"
PAGE, SECTIONS_PAGE = "docs/policy.md", "docs/analysis.md"
MARKS = ("<!-- policy: made by scripts/check_policy.py --update -->", "<!-- end of policy -->")
FOLDERS = ("analysis/**/*.[ch]",)
READERS = ("analysis/explain/*.def", "coordinator/**/*.[ch]", "probe/**/*.[ch]")  # who else may read a number of it

# Room for things, and what is done at a time: more of it makes no other verdict of what fits.
CAPACITIES = set("""
ASYNCHRONOUS_MAX BESIDE_CELLS_MAX BESIDE_MEMBERS_MAX BESIDE_QUEUE_MAX BLOCK_MEMBERS
BUCKETED_AT_ONCE BUCKETED_MIN BUCKET_COUNT BYTES_MAX CELLS_AHEAD COLUMNS_AT_ONCE COLUMN_GAP COSTS_PER_KIND
COST_LINKS_MAX ENTRY_CYCLES_MAX EVEN_LAYOUTS_MAX EVIDENCE_INTERVALS GRID_GAP_MEMBERS_MIN GRID_MEMBER_GAP
GRID_TIMES_MAX HISTORIES_MAX INSTANCES_AHEAD KERNEL_PROFILE_KERNELS_MAX INSTANCES_MAX KEPT_AT_ONCE
KIND_BITS PERIOD_POWER_NR PERIOD_RING_MAX PERIOD_RING_MIN SLOT_COUNT USUAL_SLOTS_MAX KNOWN_WORDS
LANES_MAX LANE_COUNT LINK_FLOWS_MAX LINK_PAIRS_TOLD LOOKS_KEPT_MAX LOSS_HEIGHTS MEMBERS_MAX
STACK_PROFILE_NODES_MAX STACK_PROFILE_SUMS_MAX STACK_PROFILE_THREADS_MAX STACK_PROFILE_SEGMENTS_MAX STACK_PROFILE_TEXT_MAX
STACK_LOOKS_COMPARED_MAX STACK_LOOKS_KEPT_MAX STACK_LOOKS_OF_RANK_MAX STACK_LOOKS_BYTES_MAX STACK_PROFILE_DEPTH_MAX STACK_PROFILE_NAME_MAX STACK_PROFILE_WHY_LENGTH
NEWS_MAX LINES_MAX TREE_NODES_MAX VERDICT_FRAMES_MAX PERIODICS_MAX PERIOD_LENGTH_MAX PERIOD_SCALE_NR PERIOD_POWER_NR PERIOD_RING_MAX PERIOD_SPAN_NR PLACES_MAX
PACKED_SLOTS_MAX PLACES_TRIED RANK_CHANNELS_MAX ROLES_MAX SAMPLE_COUNT SAMPLE_ENDS SAMPLE_RING_MAX SHAPES_MAX SKETCH_BUCKETS
QUEUES_MAX SORTED_AT_ONCE INCIDENTS_MAX VERDICTS_MAX VERDICT_EVIDENCE_MAX VERDICT_PAIRS_MAX VERDICT_RANKS_MAX
TOLD_CALLS_MAX TOLD_RANKS_MAX VERDICT_VICTIMS_MAX VISITS_MAX gaps
""".split())
# Numbers of formats, codes and sentinels; those in hexadecimal are bits, or hashes.
FORMATS = set("""
CAUSE_ROWS CLOCK_ERROR_UNKNOWN_NS EVIDENCE_SOURCE_NR HASH_MODULUS KERNEL_LAUNCH_BUCKET_NR KERNEL_NAME_LENGTH LOOK_TEXT_LENGTH SECOND_NS STEP_NAME_LENGTH_MAX
STACK_NODE_NONE STACK_THREAD_NAME_LENGTH VERDICT_FRAME_LENGTH STEP_PART_COUNT_MAX STEP_RANK_COUNT_MAX STEP_ROOT_NONE STEP_TASK_NAME_LENGTH VERDICT_DETAIL_LENGTH
""".split())
# Literals that are no policy in a file, and why.
ARITHMETIC = {
    "kernel_profile.c": {"TOLD_MAX"},  # so many kernels are named in a text
    "stack_difference.c": {"FILE_TOLD", "WAITED_TOLD"},  # bytes of a path in a text
    "clock_fit.c": {"1.4826"},  # a normal distribution's deviation, of its median distance
    "evidence.c": {"1.4826"},
    "totals.c": {"1.005"},  # width of a sketch's buckets
}
SECTIONS = ("steps", "join", "scale", "attribute", "detect", "explain", "incident", "costs", "hang",
            "progress")
RULES = ("scale", "attribute", "detect", "explain", "incident", "hang", "progress")  # the sections that make verdicts
PLAIN = {0, 1, 2, 0.5, 1e3, 1e6, 1e9, 1e-3, 1e-6, 1e-9}  # units, and what keeps from dividing by 0
NUMBER = re.compile(r"(?<![\w.])(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
                    r"[uUlLfF]*(?![\w.])")
STATIC = re.compile(r"^[ \t]*static const (?:u?int\w*|size_t|unsigned|double|float)\s+([^;]*);",
                    re.M)
SECTION = re.compile(rf"^(?:/\*|\s\*) ({'|'.join(SECTIONS)}): ")


def without_comments(text):
    """Comments and what strings hold become blanks; lines stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))

    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def joined(text):
    """Lines that a backslash goes on in are one."""
    return re.sub(r"\s*\\\n\s*", " ", text)


def value_of(literal):
    return float(literal.rstrip("uUlLfF"))


def numbers_in(text):
    found = NUMBER.findall(text.replace("UINT64_C(", "(").replace("INT64_C(", "("))
    return [number for number in found if number[:2] not in ("0x", "0X")]


def count(text):
    """Section -> how many numbers; twice another one is none of its own."""
    counts, section = {}, None
    text = joined(text)
    for line, code in zip(text.split("\n"), without_comments(text).split("\n")):
        found = SECTION.match(line)
        section = found.group(1) if found else section
        define = re.match(r"#define\s+\w+\s+(.+)", code)
        if not define:
            continue
        found = numbers_in(define.group(1))
        if len(found) > 1 or re.search(r"[A-Z]{2}", define.group(1).replace("INT64_C", "")):
            found = [number for number in found if value_of(number) not in (1, 2)]
        counts[section] = counts.get(section, 0) + len(found)
    return counts


def named(code):
    """(offset, name) of each constant that is given a number: macros, enum { }, static const."""
    for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+((?:.*\\\n)*.*)", code, re.M):
        if numbers_in(match.group(2)):
            yield match.start(), match.group(1)
    for match in re.finditer(r"\benum\s*\{([^}]*)\}", code):
        for constant in re.finditer(r"(\w+)\s*=\s*([^,}]*)", match.group(1)):
            if "sizeof" not in constant.group(2) and numbers_in(constant.group(2)):
                yield match.start(1) + constant.start(), constant.group(1)
    for match in STATIC.finditer(code):
        for constant in re.finditer(r"(\w+)(?:\[\w*\])?\s*=\s*(\{[^}]*\}|[^,]*)", match.group(1)):
            if numbers_in(constant.group(2)):
                yield match.start(), constant.group(1)


def literals(code):
    """(offset, literal) of each floating literal that stands in an expression."""
    code = re.sub(r"^[ \t]*#.*(?:\\\n.*)*|\bstatic const [^;]*;",
                  lambda match: re.sub(r"[^\n]", " ", match.group(0)), code, flags=re.M)
    for match in NUMBER.finditer(code):
        text = match.group(0)
        if text[:2] not in ("0x", "0X") and re.search(r"[.eEfF]", text):
            if value_of(text) not in PLAIN:
                yield match.start(), text


def strangers(path):
    with open(path, encoding="utf-8") as file:
        code = without_comments(file.read())
    base = os.path.basename(path)
    for offset, name in named(code):
        if name not in CAPACITIES and name not in FORMATS and name not in ARITHMETIC.get(base, ()):
            yield code.count("\n", 0, offset) + 1, f"{name} is a number that may decide"
    for offset, literal in literals(code):
        if literal not in ARITHMETIC.get(base, ()):
            yield code.count("\n", 0, offset) + 1, f"{literal} may decide"


def plain(text):
    """A comment, or a macro's value, as a cell of a table."""
    text = re.sub(r"\s*\n\s*\*?\s*", " ", text).strip()
    text = re.sub(r"U?INT64_C\((\w+)\)", r"\1", text)
    return re.sub(r"([|*<])", r"\\\1", text)


def resolved(text):
    """Name -> number, of all that can be told without a compiler."""
    values = {}
    for name, value in re.findall(r"^#define (\w+) +((?:[^\n/]|/(?!\*))+)", text, re.M):
        value = re.sub(r"U?INT64_C|\(float\)|(?<=\d)[FuUlL]+\b", "", value)
        try:
            values[name] = eval(value, {"__builtins__": {}}, values)  # arithmetic of numbers and names
        except (NameError, SyntaxError, TypeError):
            pass
    return values


def table(text):
    """The page's lines: a heading for each section, a line for each group, a row for each number."""
    text = joined(text)
    values = resolved(text)
    section, open_table, above, heads = None, False, "", False
    lines = []
    token = re.compile(r"/\*(.*?)\*/\n(\n?)|#define +(\w+) +((?:\\\n|[^\n/]|/(?!\*))+)(?:/\*(.*?)\*/)?\n|\n",
                       re.S)
    for match in token.finditer(text, text.index("#include")):
        comment, blank, name, value, beside = match.groups()
        if comment is not None:
            found = re.match(rf"[\s*]*({'|'.join(SECTIONS)}): ", comment)
            if found and found.group(1) != section:
                section, open_table = found.group(1), False
                lines += ["", f"## {section}"]
            comment = plain(comment[found.end():] if found else comment).lstrip("* ")
            follows = text[match.end():match.end() + 1]
            if blank or follows == "/":  # it is about what comes, not about one number
                lines += ["", comment[:1].upper() + comment[1:]]
                above, open_table = "", False
            else:
                above, heads = comment, bool(found)
        elif name:
            if heads and beside:  # it has a comment of its own
                lines += ["", above[:1].upper() + above[1:]]
                above, open_table = "", False
            heads = False
            if not open_table:
                lines += ["", "| number | value | what it is, and why |", "| --- | ---: | --- |"]
                open_table = True
            what = " ".join(part for part in (above, plain(beside or "")) if part)
            number = re.sub(r"\b(\d[\d.]*)F\b", r"\1", plain(value))
            if re.search(r"[A-Z]{3}", number) and isinstance(values.get(name), (int, float)):
                number = f"{number} = {values[name]:.10g}"
            lines.append(f"| `{name}` | {number} | {what or 'likewise'} |")
            above = ""
        else:
            above = ""
    return lines[1:]


def sections_table(lines, counts):
    """A row for each section: how many numbers it has, and the first sentence of what it says of itself."""
    made = ["| section | numbers | of verdicts | what they decide |", "| --- | ---: | --- | --- |"]
    for at, line in enumerate(lines):
        if line.startswith("## "):
            section = line[3:]
            what = next((text for text in lines[at + 1:at + 3] if text and text[0] not in "|#"), "")
            made.append(f"| [{section}](policy.md#{section}) | {counts[section]} | {'yes' if section in RULES else ''} "
                        f"| {what.partition('. ')[0].rstrip('.')} |")
    return made


def page_differs(path, made, update):
    """Whether the page has another table than was made; it has this one afterwards, when update is set."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    before, begin, rest = page.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        print(f"{path}: no marks for the table of numbers")
        return True
    wanted = "\n".join([before + begin, *made, end + after])
    if update:
        with open(path, "w", encoding="utf-8") as file:
            file.write(wanted)
    elif wanted != page:
        print(f"{path} is not what {POLICY} says: scripts/check_policy.py --update")
        return True
    return False


def unused():
    """Names in policy.h that nothing reads."""
    words = collections.Counter()
    for path in [POLICY, *(path for folder in FOLDERS + READERS
                           for path in glob.glob(folder, recursive=True) if path != POLICY)]:
        with open(path, encoding="utf-8") as file:
            words.update(re.findall(r"\w+", without_comments(file.read())))
    with open(POLICY, encoding="utf-8") as file:
        names = re.findall(r"^#define (\w+) ", file.read(), re.M)
    return [name for name in names if words[name] < 2]


def main():
    update = "--update" in sys.argv[1:2]
    arguments = sys.argv[1 + update:]
    tree = arguments[0] if arguments else os.path.join(os.path.dirname(__file__), "..")
    os.chdir(tree)
    if not os.path.exists(POLICY):
        print(f"check_policy: no {POLICY} in {tree}", file=sys.stderr)
        return 2
    with open(POLICY, encoding="utf-8") as file:
        text = file.read()
    counts, lines = count(text), table(text)
    rules = sum(counts.get(section, 0) for section in RULES)
    print(", ".join(f"{section} {number}" for section, number in counts.items()) + ":",
          f"{sum(counts.values())} numbers, {rules} of them rules of verdicts")
    found = page_differs(PAGE, lines, update)
    found |= page_differs(SECTIONS_PAGE, sections_table(lines, counts), update)
    for path in sorted(path for folder in FOLDERS for path in glob.glob(folder, recursive=True)):
        if path == POLICY:
            continue
        for line, what in strangers(path):
            print(f"{path}:{line}: {what}: it belongs to {POLICY}")
            found = True
    for name in unused():
        print(f"{POLICY}: nothing reads {name}")
        found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
