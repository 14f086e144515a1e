# SPDX-License-Identifier: Apache-2.0
"""What differs between the verdicts of two reports of one job. Python's standard library only.

A verdict of one report and one of the other are the same fault when they name a rank in common, or are of
one class and name nobody, and their times meet; of several, the most alike are. What is left over came or
went. Times are seconds, of the job's clock.
"""

NEAR_S = 1.0  # verdicts whose times are so near to each other meet


def times(verdict):
    """Begin and end; where the report has no end, at least as far as the alert."""
    begin_s = verdict["onset_unix_ns"] / 1e9
    end_s = verdict.get("end_unix_ns", verdict["alert_unix_ns"]) / 1e9
    return begin_s, max(begin_s, end_s)


def are_one(old, new):
    same_ranks = {*old["ranks"]} & {*new["ranks"]}
    nobody = not old["ranks"] and not new["ranks"] and old["class"] == new["class"]
    (begin, end), (new_begin, new_end) = times(old), times(new)
    return bool(same_ranks or nobody) and new_begin <= end + NEAR_S and begin <= new_end + NEAR_S


def unlikeness(old, new):
    return (old["ranks"] != new["ranks"], old["class"] != new["class"],
            abs(old["onset_unix_ns"] - new["onset_unix_ns"]))


def pairs(old, new):
    """[(verdict of old or None, verdict of new or None)], each verdict once."""
    left = [*range(len(old))], [*range(len(new))]
    found = []
    for i, j in sorted(((i, j) for i in left[0] for j in left[1] if are_one(old[i], new[j])),
                       key=lambda at: unlikeness(old[at[0]], new[at[1]])):
        if i in left[0] and j in left[1]:
            left[0].remove(i)
            left[1].remove(j)
            found.append((old[i], new[j]))
    return [*found, *((old[i], None) for i in left[0]), *((None, new[j]) for j in left[1])]


def described(verdict):
    ranks = ", ".join(map(str, verdict["ranks"]))
    return (f"{'ranks ' + ranks if ranks else 'nobody'}: {verdict['class']}, {verdict['cause']}, "
            f"{verdict['slowdown'] or 0:.2f} x, steps {verdict['first_step']}-{verdict['last_step']}")


def changed(old, new):
    """What differs between two verdicts of one fault, in words."""
    words = [f"{key} {old.get(key)} -> {new.get(key)}"
             for key in ("ranks", "class", "cause", "slowdown", "every_steps", "first_step", "last_step",
                         "ended") if old.get(key) != new.get(key)]
    for name, key in (("begin", "onset_unix_ns"), ("end", "end_unix_ns"), ("alert", "alert_unix_ns")):
        if key in old and key in new and old[key] != new[key]:
            words.append(f"{name} {(new[key] - old[key]) / 1e9:+.3f} s")
    return words


def lines(old, new):
    """[("came", "went" or "changed", a line for people)] of two reports; None is one without verdicts."""
    result = []
    for was, now in pairs(old["verdicts"] if old else [], new["verdicts"] if new else []):
        if was is None or now is None:
            result.append(("went", described(was)) if was else ("came", described(now)))
        elif words := changed(was, now):
            result.append(("changed", f"{described(was)}: {', '.join(words)}"))
    return result
