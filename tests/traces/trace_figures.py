# SPDX-License-Identifier: Apache-2.0
"""The published what-if figures of a trace, worked out once more, straight from the definitions (OSDI '25, its artifact).

Shares nothing with slowrank. figures(rows) takes the rows of a CSV as dictionaries of strings, whole steps only.
"""
import collections
import statistics

COMPUTES = ("forward-compute", "backward-compute", "optimizer", "gc")
BY_STAGE = ("params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce")
SLACK = 50e-6


class Operation:
    def __init__(self, row):
        self.replica, self.stage, self.step = int(row["dp_rank"]), int(row["stage"]), int(row["step"])
        self.kind, self.sequence = row["optype"], int(row["seq_id"])
        self.start = float(row["start_ts"])
        self.end = self.start + max(float(row["duration"]), 0)
        self.chunk = int(row.get("mc") or -1)
        self.model_chunk = int(row.get("gmc") or -1)
        self.after, self.group = [], [self]
        self.value = self.end - self.start


def link_transfers(worker, kind, compute, send, up, chunk_count):
    """Which computation each message serves; returns those that meet a neighbour's."""
    moves, computes = worker.get(kind, []), worker.get(compute, [])
    if send:
        first = min((c.end for c in computes), default=0)
        used = [m for m in moves if m.end >= first - SLACK]
    else:
        last = max((c.start for c in computes), default=0)
        used = [m for m in moves if m.start <= last + SLACK]
    exists = [0 <= c.model_chunk + (1 if up else -1) < chunk_count for c in computes]
    if len(used) == sum(exists):
        places = [i for i, there in enumerate(exists) if there]
    else:
        places = list(range(len(computes)))[len(computes) - len(used) if not send else 0:]
    effective = []
    for move, i in zip(used, places):
        if send:
            move.after.append(computes[i])
        else:
            computes[i].after.append(move)
            if i:
                move.after.append(computes[i - 1])
        if exists[i]:
            effective.append(move)
    return effective


def link_worker(worker, chunk_count, overlapped):
    chain = sorted(worker.get("forward-compute", []) + worker.get("backward-compute", []), key=lambda o: o.start)
    data = sorted(worker.get("params-all-gather", []) + worker.get("grads-reduce-scatter", []), key=lambda o: o.start)
    lists = [chain, data] + [worker.get(f"{d}-{k}", []) for d in ("forward", "backward") for k in ("send", "recv")]
    for operations in lists:
        for before, after in zip(operations, operations[1:]):
            after.after.append(before)
    effective = {}
    for direction in ("forward", "backward"):
        for way in ("send", "recv"):
            up = (direction == "forward") == (way == "send")
            effective[direction, way] = link_transfers(
                worker, f"{direction}-{way}", f"{direction}-compute", way == "send", up, chunk_count)
    first = next((i for i, o in enumerate(chain) if o.kind == "backward-compute"), 0)
    if first >= 2:
        for kind in ("backward-send", "backward-recv"):
            for move in worker.get(kind, [])[:1]:
                move.after.append(chain[first - 2])
    for chunk in {o.chunk for o in data}:
        forward = [o for o in worker.get("forward-compute", []) if o.chunk == chunk]
        gathers = [o for o in worker.get("params-all-gather", []) if o.chunk == chunk]
        if forward and gathers:
            min(forward, key=lambda o: o.start).after.append(gathers[-1])
        backward = [o for o in worker.get("backward-compute", []) if o.chunk == chunk]
        scatters = [o for o in worker.get("grads-reduce-scatter", []) if o.chunk == chunk]
        if overlapped and backward and scatters:
            scatters[0].after.append(max(backward, key=lambda o: o.end))
    before = [max(chain, key=lambda o: o.end)]
    scatters = worker.get("grads-reduce-scatter", [])
    if overlapped and scatters and worker.get("layernorm-grads-all-reduce"):
        worker["layernorm-grads-all-reduce"][0].after.append(scatters[-1])
    for kind in ("gc", "layernorm-grads-all-reduce", "embedding-grads-all-reduce",
                 "separate-grads-all-reduce" if overlapped else "grads-reduce-scatter",
                 "optimizer-clip-main-grad", "optimizer"):
        for operation in worker.get(kind, []):
            operation.after += before
            before = [operation]
    return effective


def join(*members):
    members = [m for m in members if m]
    for member in members:
        member.group = members


def join_step(workers, effective, replicas, stages):
    for replica in range(replicas):
        for stage in range(stages):
            for direction, way in (("forward", 1), ("backward", -1)):
                sends = effective[replica, stage][direction, "send"]
                receives = effective[replica, (stage + way) % stages][direction, "recv"]
                assert len(sends) == len(receives), (direction, stage, len(sends), len(receives))
                for send, receive in zip(sends, receives):
                    join(send, receive)
        ends = [workers[replica, s].get("embedding-grads-all-reduce", []) for s in {0, stages - 1}]
        for members in zip(*ends):
            join(*members)
    for stage in range(stages):
        for kind in BY_STAGE:
            for members in zip(*(workers[r, stage].get(kind, []) for r in range(replicas))):
                join(*members)
    for members in zip(*(w.get("optimizer-clip-main-grad", []) for w in workers.values())):
        join(*members)


def in_order(operations):
    """What begins together, and what it waits for, in an order in which none waits for a later one."""
    missing, after = {}, collections.defaultdict(list)
    for o in operations:
        missing[o] = len(o.after)
        for before in o.after:
            after[before].append(o)
    ready = [o for o in operations if not o.after]
    started, order = set(), []
    while ready:
        o = ready.pop()
        started.add(o)
        if any(m not in started for m in o.group):
            continue
        order.append((o.group, [b for m in o.group for b in m.after]))
        for member in o.group:
            for waiting in after[member]:
                missing[waiting] -= 1
                if not missing[waiting]:
                    ready.append(waiting)
    assert sum(len(g) for g, _ in order) == len(operations), "the operations wait for each other in a circle"
    return order


def replay(order, length):
    """When the last of them ends; each starts as soon as it may. length: of computations; of transfers since all began."""
    ends, last = {}, 0
    for group, before in order:
        begin = max([ends[b] for b in before], default=0)
        for member in group:
            end = ends[member] = begin + length(member)
            if end > last:
                last = end
    return last


def figures(rows):
    steps = collections.defaultdict(list)
    for operation in (Operation(row) for row in rows):
        steps[operation.step].append(operation)
    replicas = 1 + max(o.replica for step in steps.values() for o in step)
    stages = 1 + max(o.stage for step in steps.values() for o in step)
    overlapped = any(o.kind == "separate-grads-all-reduce" for step in steps.values() for o in step)
    values, orders = collections.defaultdict(list), []
    for step in steps.values():
        workers = collections.defaultdict(lambda: collections.defaultdict(list))
        for o in sorted(step, key=lambda o: o.sequence):
            workers[o.replica, o.stage][o.kind].append(o)
        chunk_count = 1 + max(o.model_chunk for o in step)
        effective = {place: link_worker(worker, chunk_count, overlapped) for place, worker in workers.items()}
        join_step(workers, effective, replicas, stages)
        for o in step:
            o.value = o.end - max(m.start for m in o.group)
            if o.kind not in COMPUTES and o.value <= -0.01:
                o.value = 0
            values[o.kind].append(o.value)
        orders.append(in_order(step))
    ideal = {k: statistics.fmean(v) if k in COMPUTES else statistics.median(v) for k, v in values.items()}

    def mean(real):
        return statistics.fmean(
            replay(order, lambda o: o.value if real(o) else ideal[o.kind]) for order in orders)

    best = mean(lambda o: False)
    return {"S": mean(lambda o: True) / best,
            "step_s_mean_ideal": best,
            "by_dp_rank": {str(r): mean(lambda o, r=r: o.replica == r) / best for r in range(replicas)},
            "by_stage": {str(s): mean(lambda o, s=s: o.stage == s) / best for s in range(stages)}}
