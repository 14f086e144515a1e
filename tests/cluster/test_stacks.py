#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a slow rank does, and one that does not arrive: the function is in the record, in the right segment."""
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

PYTHON = "/usr/bin/python3"
JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stack_job.py")
RANKS, CULPRIT = 3, 1
PYTHON_FRAME, SLEEPS = 1, 4  # enum stack_frame_kind, enum stack_state
DONE = 0                     # enum stack_result


def start(paths, record, *arguments, options=()):
    """stack_job.py under slowrank, with a fresh record."""
    if os.path.exists(record):
        os.remove(record)
    probe = subprocess.run([PYTHON, "-c", "import ctypes; ctypes.CDLL('libmpi.so.40')"], check=False,
                           capture_output=True)
    if probe.returncode:
        harness.skip("needs Open MPI 4 and a Python that finds it")
    command = [jobs.OPEN_MPI, "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS), PYTHON, JOB, *map(str, arguments)]
    environment = {**os.environ, "OMPI_MCA_mpi_yield_when_idle": "1"}
    # pylint: disable=consider-using-with
    return subprocess.Popen([paths.slowrank, "run", "--record", record, *options, "--", *command], cwd=paths.directory,
                            env=environment, stdin=subprocess.DEVNULL)


def run(paths, is_enough, *arguments, timeout_s=60):
    """The stack profiles in the record of stack_job.py under slowrank, which is stopped once there are enough."""
    record = os.path.join(paths.directory, "job.slr")
    end = time.monotonic() + timeout_s
    with start(paths, record, *arguments) as job:
        while job.poll() is None and time.monotonic() < end and not is_enough(profiles_of(paths, record)):
            time.sleep(0.2)
        if job.poll() is None:
            job.terminate()  # which ends mpirun, and that its ranks
    return profiles_of(paths, record)


def profiles_of(paths, record):
    done = subprocess.run([paths.record_stacks, record], capture_output=True, text=True, check=False, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def functions_of(entry):
    return [name for kind, name, _, _ in entry["frames"] if kind == PYTHON_FRAME]


def time_in(profile, function, **where):
    return sum(entry["ms"] for entry in profile["sums"] if function in functions_of(entry)
               and all(entry[key] == value for key, value in where.items()))


def of_both(profiles):
    """Those of the culprit, and of others; falsy unless there are both."""
    own = [profile for profile in profiles if profile["rank"] == CULPRIT]
    others = [profile for profile in profiles if profile["rank"] != CULPRIT]
    return (own, others) if own and others else None


def whole(profiles):
    return of_both([profile for profile in profiles if profile["result"] == DONE and profile["steps"] >= 8])


def at_once(profiles):
    return of_both([profile for profile in profiles if profile["steps"] == 0 and profile["sums"]])


def slow(paths):
    """Between its two barriers the culprit reads a shard; the control does not."""
    found = run(paths, whole, 5000, CULPRIT, 120, 30)
    check(whole(found), f"a look at the culprit and one at a control: {[p['rank'] for p in found]}")
    own, others = whole(found)
    profile = max(own, key=lambda profile: profile["looks"])  # a full machine lets the sampler run seldom
    check(profile["python"] >= 9, f"Python's frames are read: {profile['why']}")
    shard_ms = time_in(profile, "read_shard")
    check(shard_ms > 0.2 * profile["length_ms"], f"{shard_ms} of {profile['length_ms']} ms in read_shard()")
    check(time_in(profile, "read_shard", inside=0, state=SLEEPS) > 0.5 * shard_ms, "it sleeps, in no collective")
    check(not any(time_in(other, "read_shard") for other in others), "the control does not read")
    check(time_in(others[0], "forward") > 0, "but it computes")


def hang(paths):
    """It never comes back from there: one look at once says where it is."""
    found = run(paths, at_once, 400, CULPRIT, 100, 3600 * 1000)
    check(at_once(found), f"a look at who did not arrive, and one at who waits: {[p['rank'] for p in found]}")
    own, _ = at_once(found)
    check(any("read_shard" in functions_of(entry) for entry in own[0]["sums"]), "it is in read_shard()")


def ask(paths, *arguments):
    return subprocess.run([paths.slowrank, *arguments], capture_output=True, text=True, check=False, timeout=60)


def check_refused(done, text):
    check(done.returncode == 2 and not done.stdout, f"exit {done.returncode}: {done.stdout!r}")
    harness.check_one_line(done.stderr, text)
    check(text in done.stderr, f"{text}: {done.stderr!r}")


def request(paths):
    """Somebody asks what a rank does, and which kernels it runs, while the job runs, and after its end."""
    record, name = os.path.join(paths.directory, "job.slr"), f"request-{os.getpid()}"
    of_job = ("--job", name)
    with start(paths, record, 100000, CULPRIT, 0, 500, options=("--quiet", *of_job)) as job:
        # Who waits for a coordinator that is not there does so meanwhile.
        with subprocess.Popen([paths.slowrank, "stacks", "--rank", "0", "--coordinator", "ipc:///nonexistent/x"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as lost:
            end = time.monotonic() + 30
            while (found := ask(paths, "stacks", "--rank", str(CULPRIT), *of_job)).returncode and time.monotonic() < end:
                time.sleep(0.2)  # its ranks start
            check(found.returncode == 0, f"exit {found.returncode}: {found.stderr}")
            stacks = found.stdout.split("\n\n")
            check(stacks[0].startswith(f"rank {CULPRIT}: process ") and ", Python 3." in stacks[0], stacks[0])
            check("\n    read_shard (stack_job.py:18)\n    main (stack_job.py" in stacks[1], f"the first: {found.stdout}")
            found = ask(paths, "stacks", "--rank", str(CULPRIT), "--seconds", "1", "--format", "folded", *of_job)
            lines = found.stdout.splitlines()
            check(found.returncode == 0 and "read_shard (stack_job.py:18);clock_nanosleep" in lines[0], f"the first: {found}")
            check(int(lines[0].split()[-1]) > 3, f"counted: {lines[0]}")
            check_refused(ask(paths, "stacks", "--rank", "9", *of_job), "there is no rank 9: 3 ranks are seen")
            check_refused(ask(paths, "kernels", "--rank", "2", *of_job), "no slowrank library")
            output, errors = lost.communicate(timeout=60)
            check_refused(subprocess.CompletedProcess((), lost.returncode, output, errors), "no coordinator is reached at ipc:///nonexistent/x")
        job.terminate()
    check_refused(ask(paths, "stacks", "--rank", str(CULPRIT), *of_job), "no coordinator of yours is found on this host")
    asked = [profile for profile in profiles_of(paths, record) if profile["request"] >= 2 ** 31]
    check([profile["rank"] for profile in asked] == [CULPRIT, CULPRIT] and asked[1]["looks"] > 3, f"in the record: {asked}")
    shown = ask(paths, "report", record, "--format", "flame", "--rank", str(CULPRIT))
    check("read_shard" in shown.stdout, f"the report shows it: {shown.stderr}")


if __name__ == "__main__":
    harness.main({"slow": slow, "hang": hang, "request": request})
