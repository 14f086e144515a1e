#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that does not go on: who is missing, where it is, and who only waits."""
import ctypes
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

LIMIT_S = 5.0  # docs/analysis.md: max(10 x usual, 5 s); the usual here is milliseconds
LOOK_S = 1.0   # the coordinator looks once a second
BATCH_S = 0.6  # a batch, and its way


def descends(pid, leader):
    """Whether leader is among the parents of pid; other jobs may run beside this one."""
    while pid > 1:
        if pid == leader:
            return True
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                pid = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            return False
    return False


def find_rank(leader, rank, program=b"workload"):
    """The pid of a rank below leader."""
    wanted = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                environment = file.read().split(b"\0")
            with open(f"/proc/{name}/comm", "rb") as file:
                is_workload = file.read().startswith(program)
        except OSError:
            continue
        if wanted in environment and is_workload and descends(int(name), leader):
            return int(name)
    return None


class Held:
    """A process that a debugger holds: mpirun lets one go on that SIGSTOP stopped, but not this."""
    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17

    def __init__(self, pid):
        self.pid = pid
        self.libc = ctypes.CDLL(None, use_errno=True)

    def _ptrace(self, request):
        check(self.libc.ptrace(request, self.pid, None, None) == 0,
              f"ptrace {request:#x}: {os.strerror(ctypes.get_errno())}")

    def __enter__(self):
        self._ptrace(self.SEIZE)
        self._ptrace(self.INTERRUPT)
        os.waitpid(self.pid, 0)
        return self

    def __exit__(self, *_):
        self._ptrace(self.DETACH)


def hangs(paths, record):
    done = subprocess.run([paths.slowrank, "report", record, "--format", "json"],
                          capture_output=True, text=True, timeout=60, check=False)
    # Exit 2 while the record is being written: it says so, and reports what is there.
    try:
        return [v for v in json.loads(done.stdout)["verdicts"] if v["class"] == "hang"]
    except ValueError:
        return []


def start(paths, *options, **workload):
    truth = jobs.fresh_directory(paths.directory)
    record = os.path.join(paths.directory, "record.slr")
    if os.path.exists(record):
        os.unlink(record)
    hold = jobs.Hold(paths.directory)
    process = subprocess.Popen(
        [paths.slowrank, "run", "--record", record, "--", *jobs.mpirun(4),
         *jobs.workload_command(paths.workload, truth, **workload), *options, *hold.options],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    hold.wait(4, process)
    hold.end()
    return record, process


def wait_for_hang(paths, record, deadline_s):
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        time.sleep(0.5)
        found = hangs(paths, record)
        if found:
            return found
    return []


def stopped(paths):
    """One rank is stopped before a collective; afterwards it goes on, and the job ends well."""
    record, process = start(paths, steps=300, step_ms=20)
    time.sleep(3)
    pid = find_rank(process.pid, 2)
    check(pid is not None, "no rank 2 below mpirun")
    stopped_at = time.time()
    with Held(pid):
        found = wait_for_hang(paths, record, LIMIT_S + 8)
    check(len(found) == 1, f"{len(found)} verdicts of class hang")
    verdict = found[0]
    delay_s = verdict["alert_unix_ns"] / 1e9 - stopped_at
    text = " ".join(one["detail"] for one in verdict["evidence"])
    print(f"told after {delay_s:.2f} s: {text}")
    check(verdict["ranks"] == [2], f"missing: {verdict['ranks']}")
    check(verdict["victims"] == [0, 1, 3], f"waiting: {verdict['victims']}")
    check(LIMIT_S - 0.2 <= delay_s <= LIMIT_S + LOOK_S + BATCH_S,
          f"told {delay_s:.2f} s after the stop")
    check("stopped by a debugger" in text, f"where rank 2 is: {text}")
    check(process.wait(timeout=120) == 0, "the job did not end well")
    verdict, = hangs(paths, record)
    check(verdict["ended"], "the job went on, the verdict did not end")


def busy(paths):
    """One rank's own work takes long: missing, but alive."""
    record, process = start(paths, "--fault", "rank=1 kind=compute first=30 last=30 size=10000",
                            steps=45, step_ms=20, compute_ms=100, collectives=1)
    found = wait_for_hang(paths, record, 60)
    check(len(found) == 1, f"{len(found)} verdicts of class hang")
    text = " ".join(one["detail"] for one in found[0]["evidence"])
    print(text)
    check(found[0]["ranks"] == [1], f"missing: {found[0]['ranks']}")
    check("rank 1 last left" in text and "in its own work" in text, f"where rank 1 is: {text}")
    check(process.wait(timeout=120) == 0, "the job did not end well")


def none(paths):
    """A healthy job with pauses below the limit says nothing."""
    record, process = start(paths, steps=200, step_ms=20)
    time.sleep(2)
    pid = find_rank(process.pid, 3)
    check(pid is not None, "no rank 3 below mpirun")
    with Held(pid):
        time.sleep(3)
    check(process.wait(timeout=120) == 0, "the job did not end well")
    check(not hangs(paths, record), "a pause of three seconds is no hang")


def start_nccl(paths, kind, options=()):
    record = os.path.join(paths.directory, "record.slr")
    os.makedirs(paths.directory, exist_ok=True)
    if os.path.exists(record):
        os.unlink(record)
    process = subprocess.Popen(
        [paths.slowrank, "run", "--record", record, *options, "--", *jobs.mpirun(4), paths.hang_nccl,
         kind, "2", "150"], # the usual step is known by then
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return record, process


def stalls(paths, record):
    """What the record has of ranks that stand still, by rank."""
    done = subprocess.run([paths.slowrank, "report", record, "--format", "json"],
                          capture_output=True, text=True, timeout=60, check=False)
    try:
        return {r["rank"]: r["stall"] for r in json.loads(done.stdout)["ranks"] if "stall" in r}
    except ValueError:
        return {}


def wait_for_stalls(paths, record, ranks, deadline_s=40):
    """Until the ranks are told of, with what their devices have not ended, for four seconds."""
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        time.sleep(0.5)
        found = stalls(paths, record)
        if all(r in found and "device" in found[r] and
               found[r]["device"]["launched_ms_before"] > 7000
               for r in ranks):
            return found
    return stalls(paths, record)


def end(process):
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def nccl(paths, kind, ranks=(0, 1, 3), options=()):
    """What is known of each rank of a job on devices that stands still in this way."""
    record, process = start_nccl(paths, kind, options)
    try:
        if kind in ("none", "ahead"):
            jobs.wait_until(lambda: find_rank(process.pid, 2, b"hang_nccl"), "rank 2", process)
            time.sleep(2)
            with Held(find_rank(process.pid, 2, b"hang_nccl")):
                found = wait_for_stalls(paths, record, ranks)
                paths.told = hangs(paths, record)  # before it goes on
        else:
            found = wait_for_stalls(paths, record, ranks)
            paths.told = hangs(paths, record)
    finally:
        end(process)
    print(json.dumps(found, indent=1))
    calls = {(found[r]["device"]["communicator"], found[r]["device"]["sequence"]) for r in (0, 1, 3)}
    check(len(calls) == 1, f"the others are in one call: {calls}")
    check(all(found[r]["device"]["operation"] == "all-reduce" for r in (0, 1, 3)), "an all-reduce")
    return found


def check_told(paths, *words):
    """The hang is told, of rank 2 alone, with the call that the others are in and what it does."""
    verdict, = paths.told
    text = " ".join(one["detail"] for one in verdict["evidence"])
    print(text)
    check(verdict["ranks"] == [2], f"missing: {verdict['ranks']}")
    check((verdict["hang"]["operation"], verdict["hang"]["entered"], verdict["hang"]["members"]) ==
          ("all-reduce", 3, 4), f"{verdict['hang']}")
    check(all(word in text for word in words), f"what rank 2 does: {text}")


def nccl_loop(paths):
    """A rank in an endless loop has no call on its device, runs, and uses a core."""
    two = nccl(paths, "loop")[2]
    check_told(paths, "in its own work, run", "of CPU time in")
    check("device" not in two and two["call"] == "none", f"rank 2: {two}")
    check(two["state"] == "R" and two["cpu_ms"] > 0.05 * two["over_ms"], f"rank 2: {two}")


def nccl_read(paths):
    """One that waits for what nobody writes sleeps there, and uses nothing."""
    two = nccl(paths, "read")[2]
    check_told(paths, "in its own work, asleep")
    check("device" not in two and two["call"] == "none" and two["state"] == "S", f"rank 2: {two}")
    check("pipe" in two.get("wait_channel", "pipe"), f"rank 2: {two}")
    check(two["cpu_ms"] <= 0.02 * two["over_ms"], f"rank 2: {two}")


def nccl_other(paths):
    """One that called another collective waits as the others do, for that one."""
    found = nccl(paths, "other", ranks=(0, 1, 2, 3))
    two = found[2]
    check_told(paths, "in reduce 0 of communicator")
    check(two["device"]["operation"] == "reduce", f"rank 2: {two}")
    check(two["device"]["communicator"] != found[0]["device"]["communicator"] or
          two["device"]["sequence"] != found[0]["device"]["sequence"], "another call")


def nccl_stopped(paths):
    """One that is stopped says nothing of its device; its state says why."""
    two = nccl(paths, "none")[2]
    check_told(paths, "in its own work, stopped by a debugger")
    check("device" not in two and two["state"] in "tT", f"rank 2: {two}")


def nccl_ahead(paths):
    """The others' hosts run ahead and move on: it is their devices that wait for the stopped one."""
    found = nccl(paths, "ahead")
    check(found[2]["state"] in "tT" and "device" not in found[2], f"rank 2: {found[2]}")
    told = hangs(paths, os.path.join(paths.directory, "record.slr"))
    check([v["ranks"] for v in told] == [[2]], f"verdicts: {told}")
    for rank in (0, 1, 3):
        check(found[rank]["call"] == "unseen" and found[rank]["device"]["calls"] > 100,
              f"rank {rank}: {found[rank]}")


def nccl_unseen_stopped(paths):
    """Nor who stands still in none, but one that is stopped does: it is the one that is missing."""
    found = nccl(paths, "none", options=["--sources", "device,procfs"])
    check(found[2]["call"] == "none" and found[2]["state"] in "tT", f"rank 2: {found[2]}")
    told = hangs(paths, os.path.join(paths.directory, "record.slr"))
    check([v["ranks"] for v in told] == [[2]], f"verdicts: {told}")


def nccl_unseen(paths):
    """Without the kernel side it is not known who is in a call; the devices and /proc are."""
    found = nccl(paths, "read", options=["--sources", "device,procfs"])
    check_told(paths, "in its own work, asleep")
    check(all(found[r]["call"] == "unseen" for r in found), f"{found}")


def nccl_killed(paths):
    """A dead one is told by its exit."""
    record, process = start_nccl(paths, "killed")
    process.wait(timeout=60)
    ranks = json.loads(subprocess.run(
        [paths.slowrank, "report", record, "--format", "json"], capture_output=True, text=True,
        timeout=60, check=True).stdout)["ranks"]
    check(ranks[2]["exited"] and ranks[2]["exit_code"] == 137, f"rank 2: {ranks[2]}")


def works(paths, kind):
    """A rank that works for 20 s while the others wait is no hang."""
    record, process = start_nccl(paths, kind)
    check(process.wait(timeout=120) == 0, "the job did not end well")
    check(stalls(paths, record).get(2, {}).get("still_ms", 0) > 15000, "rank 2 stood still")
    check(not hangs(paths, record), f"{hangs(paths, record)}")


def nccl_checkpoint(paths):
    """It writes two mebibytes a second."""
    works(paths, "checkpoint")


def nccl_evaluate(paths):
    """It computes, and waits for its device once a second."""
    works(paths, "evaluate")


def lines_of(program):
    """The line of each place that the program marks: {"read_token": 22, ...}."""
    with open(program, encoding="utf-8") as file:
        return {line.split("# AT ")[1].strip(): number for number, line in enumerate(file, 1) if "# AT " in line}


def told_with_stacks(alerts):
    """The first update of a hang in which all that were asked about have answered, and the alert before it."""
    alert = None
    try:
        with open(alerts, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file if line.endswith("\n")]
    except OSError:
        return None, None
    for line in lines:
        if line["verdict"]["class"] != "hang":
            continue
        if line["event"] == "alert":
            alert = line["verdict"]
        if {look["part"] for look in line["verdict"].get("stacks", []) if "threads" in look} == {"missing", "waiting"}:
            return alert, line["verdict"]
    return alert, None


def stacks(paths):
    """What a rank that does not come reads, in which function, and where one waits for it, soon after the alert."""
    jobs.fresh_directory(paths.directory)
    record, alerts = (os.path.join(paths.directory, name) for name in ("record.slr", "alerts"))
    for path in (record, alerts):
        if os.path.exists(path):
            os.unlink(path)
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hang_job.py")
    process = subprocess.Popen(
        [paths.slowrank, "run", "--record", record, "--alerts", alerts, "--", *jobs.mpirun(4), sys.executable, program, "2", "60"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        jobs.wait_until(lambda: told_with_stacks(alerts)[1], "an update with stacks", process)
        alert, verdict = told_with_stacks(alerts)
    finally:
        end(process)
    looks = {look["rank"]: look for look in verdict["stacks"]}
    print(json.dumps(list(looks.values()), indent=1))
    check(verdict["ranks"] == [2] and looks[2]["part"] == "missing", f"missing: {verdict['ranks']}")
    frames, at = looks[2]["threads"][0]["frames"], lines_of(program)
    check(any(frame.startswith("[waiting: read pipe:[") for frame in frames), f"what rank 2 waits for: {frames}")
    places = [f"{name} (hang_job.py:{at[name]})" for name in ("read_token", "prepare")]
    check([frame for frame in frames if "hang_job.py" in frame][:2] == places, f"where rank 2 is: {frames}")
    waiting = next(look for look in looks.values() if look["part"] == "waiting")
    check(f"main (hang_job.py:{at['barrier']})" in waiting["threads"][0]["frames"], f"where one waits: {waiting}")
    last_s = max(look["start_unix_ns"] / 1e9 + look["seconds"] for look in looks.values())
    delay_s = last_s - alert["alert_unix_ns"] / 1e9
    print(f"seen {delay_s:.2f} s after the alert")
    check(delay_s < 10, f"seen {delay_s:.2f} s after the alert")
    folded = subprocess.run([paths.slowrank, "report", record, "--format", "folded"], capture_output=True, text=True,
                            timeout=60, check=False).stdout
    check(f";{';'.join(reversed(places))};" in folded, f"folded: {folded}")


CASES = {"stopped": stopped, "stacks": stacks, "busy": busy, "none": none, "nccl_loop": nccl_loop,
         "nccl_read": nccl_read, "nccl_other": nccl_other, "nccl_stopped": nccl_stopped,
         "nccl_ahead": nccl_ahead,
         "nccl_unseen": nccl_unseen, "nccl_unseen_stopped": nccl_unseen_stopped,
         "nccl_killed": nccl_killed,
         "nccl_checkpoint": nccl_checkpoint, "nccl_evaluate": nccl_evaluate}

if __name__ == "__main__":
    harness.main(CASES)
