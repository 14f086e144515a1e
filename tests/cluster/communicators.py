# SPDX-License-Identifier: Apache-2.0
"""Which ranks a record joins, beside which ranks the communicators of the job had."""
import json
import subprocess

ALL_REDUCE = 1  # OPERATION_ALL_REDUCE of analysis/base/step.h
INT_BYTES = 4


def truth(paths):
    """What tests/workload/communicators.c wrote: the ranks that share the n-th, by rank."""
    members, ways = {}, {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for said in map(json.loads, file):
                members.setdefault(said["elements"], {})[said["rank"]] = set(said["members"])
                ways[said["elements"]] = said["way"]
    return members, ways


def joined(record_calls, record):
    """By number of elements and rank: the ranks whose calls have the same communicator id."""
    done = subprocess.run([record_calls, record], capture_output=True, text=True, timeout=60,
                          check=True)
    ids = {}
    for line in done.stdout.splitlines():
        call = json.loads(line)
        if call["operation"] == ALL_REDUCE and call["length_bytes"] % INT_BYTES == 0:
            ids.setdefault(call["length_bytes"] // INT_BYTES, {}).setdefault(
                call["rank"], set()).add(call["communicator"])
    return ids


def differences(paths, record_calls, record, all_joined=False):
    """What is joined otherwise than it was, in words; nothing when all is right. all_joined: also what is
    not, where it was seen being made."""
    members, ways = truth(paths)
    ids, found = joined(record_calls, record), []
    used = {}
    for elements, by_rank in sorted(members.items()):
        for rank, wanted in sorted(by_rank.items()):
            what = f"{ways[elements]}, rank {rank}"
            own = ids.get(elements, {}).get(rank, set())
            if ways[elements] == "not joined" and not all_joined:
                if own != {"0" * 16}:
                    found.append(f"{what}: has ids {own}")
                continue
            if len(own) != 1 or own == {"0" * 16}:
                found.append(f"{what}: has ids {own}")
                continue
            mates = {mate for mate, theirs in ids[elements].items() if theirs == own}
            if mates != wanted:
                found.append(f"{what}: joined with {mates}, not {wanted}")
            identity, = own
            if used.setdefault(identity, (elements, frozenset(wanted))) != (
                    elements, frozenset(wanted)):
                found.append(f"{what}: has the id of {ways[used[identity][0]]}")
    if len(members) < 20:
        found.append(f"only {len(members)} communicators")
    return found
