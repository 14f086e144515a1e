#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input: one clear line and exit 2, or the job's own status for run. Parts that go away."""
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check, check_one_line  # noqa: E402


def slowrank(paths, *arguments):
    return subprocess.run([paths.slowrank, *arguments], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)


def fresh_record(paths):
    """The place of a record; what an earlier run of the test left there is removed."""
    for name in os.listdir(paths.directory):
        if name.startswith("record.slr"):
            os.unlink(os.path.join(paths.directory, name))
    return os.path.join(paths.directory, "record.slr")


def make_record(paths):
    """A small real record; without rights it has no steps, but it is a record all the same."""
    record = fresh_record(paths)
    done = slowrank(paths, "run", "--record", record, "--quiet", "--", *jobs.mpirun(2),
                    paths.workload, "--steps", "60", "--step-ms", "10")
    check(done.returncode == 0, f"run: exit {done.returncode}: {done.stderr}")
    return record


def records(paths):
    whole = make_record(paths)
    broken = os.path.join(paths.directory, "broken.slr")
    with open(whole, "rb") as file:
        content = file.read()
    size = len(content)
    check(size > 200, f"the record has only {size} bytes")

    def report_of(data):
        with open(broken, "wb") as file:
            file.write(data)
        return slowrank(paths, "report", broken, "--format", "json")

    check(report_of(content).returncode == 0, "the whole record is fine")
    for name, data in {"empty": b"", "no record": b"hello world\n" * 50,
                       "only the first bytes": content[:6]}.items():
        done = report_of(data)
        check(done.returncode == 2, f"{name}: exit {done.returncode}: {done.stderr}")
        check_one_line(done.stderr, name)
        check(done.stdout == "", f"{name}: no report is written")
    cut = report_of(content[:size * 2 // 3])
    check(cut.returncode in (0, 2), f"cut: exit {cut.returncode}")
    check_one_line(cut.stderr, "cut")
    check("truncated" in cut.stderr or "cut" in cut.stderr or "end" in cut.stderr,
          f"cut: says so: {cut.stderr!r}")
    missing = slowrank(paths, "report", "/nonexistent/record.slr")
    check(missing.returncode == 2, f"missing: exit {missing.returncode}")
    check_one_line(missing.stderr, "missing")
    check("/nonexistent/record.slr" in missing.stderr, "missing: the file is named")


def usage(paths):
    for arguments in (["report"], ["report", "--format", "papyrus", "x.slr"], ["run"],
                      ["run", "--sources", "crystal-ball", "--", "true"], ["run", "--nonsense"],
                      ["attach"], ["attach", "--pid", "x"], ["frobnicate"],
                      ["run", "--alert-slowdown", "10%", "--", "true"],
                      ["report", "x.slr", "--config", "/nonexistent/x"],
                      ["run", "--http", "nonsense", "--", "true"], ["run", "--webhook", "file:///x", "--", "true"],
                      ["coordinator", "--listen", "ipc:///tmp/none", "--record", "/dev/null", "--http", "1:2:3"],
                      ["key"], ["key", "http", "--key-file", "/nonexistent/x"],
                      ["attach", "--pid", "1", "--verbs", "off"], ["run", "--yes", "--", "true"],
                      ["stacks"], ["stacks", "--rank", "x"], ["stacks", "--rank", "1", "--pid", "1"],
                      ["stacks", "--rank", "1", "--hz", "9"], ["stacks", "--rank", "1", "--seconds", "11"],
                      ["stacks", "--pid", "1", "--job", "x"], ["stacks", "--rank", "1", "--leader", "node0"],
                      ["stacks", "--rank", "1", "--coordinator", "nonsense"], ["kernels"], ["kernels", "--rank"],
                      ["kernels", "--rank", "1", "--steps", "0"],
                      ["stacks", "--rank", "1", "--coordinator", "tls+tcp://node0:1"],
                      ["coordinator", "--listen", "ipc:///tmp/none", "--record", "/nonexistent/x"],
                      ["coordinator", "--listen", "ipc:///tmp/none", "--record", "/dev/null",
                       "--report", "/nonexistent/x"]):
        done = slowrank(paths, *arguments)
        check(done.returncode == 2, f"{arguments}: exit {done.returncode}: {done.stderr}")
        check_one_line(done.stderr, str(arguments))


def alert_limits(paths):
    """What not to alert of reaches the coordinator that run starts, from a file and from options."""
    config = os.path.join(paths.directory, "config")
    live = os.path.join(paths.directory, "live.json")
    if os.path.exists(live):
        os.unlink(live)
    with open(config, "w", encoding="utf-8") as file:
        file.write("alert-slowdown = 1.25\nalert-after = 10s\n")
    job = start(paths.slowrank, "run", "--record", fresh_record(paths), "--report", live,
                "--config", config, "--alert-after", "1m", "--quiet", "--", "sleep", "0.5")
    check(job.wait(timeout=60) == 0, f"exit {job.returncode}")
    jobs.wait_until(lambda: os.path.exists(live), live)
    with open(live, encoding="utf-8") as file:
        limits = json.load(file).get("alert_limits")
    check(limits == {"slowdown": 1.25, "after_s": 60.0}, f"the limits: {limits}")


def coordinator(paths):
    """A coordinator that is not there: one line, and the job's own status."""
    for url in ("tcp://127.0.0.1:9", "nonsense://x"):
        done = slowrank(paths, "run", "--quiet", "--coordinator", url, "--", "sh", "-c",
                        "sleep 0.5; exit 6")
        check(done.returncode in ((6,) if url.startswith("tcp") else (2, 6)),
              f"{url}: exit {done.returncode}: {done.stderr}")
        check_one_line(done.stderr, url)
        check("coordinator" in done.stderr, f"{url}: says what is wrong: {done.stderr!r}")


def coordinator_silent(paths):
    """Nobody answers a job that runs on: told while it runs, and at the end."""
    done = slowrank(paths, "run", "--quiet", "--coordinator", "tcp://127.0.0.1:9", "--", "sh", "-c",
                    "sleep 14; exit 6")
    lines = done.stderr.splitlines()
    check(done.returncode == 6 and len(lines) == 2, f"exit {done.returncode}: {done.stderr!r}")
    check("no answer" in lines[0] and "tcp://127.0.0.1:9" in lines[0], lines[0])
    check("missing" in lines[1], lines[1])


UNTIL_GO = 'until test -e "$0"; do sleep 0.1; done; '  # of sh -c, with the file's name


def fresh_go(paths):
    go = os.path.join(paths.directory, "go")
    if os.path.exists(go):
        os.unlink(go)
    return go


def touch(path):
    with open(path, "w", encoding="utf-8"):
        pass


def start(*command, **options):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, **options)


def coordinator_of(job):
    """The coordinator of a job, once it listens, and its socket."""
    victims = []

    def there():
        victims[:] = jobs.coordinators(job.pid)
        return len(victims) == 1
    jobs.wait_until(there, "one coordinator", job)
    with open(f"/proc/{victims[0]}/cmdline", "rb") as file:
        url = file.read().split(b"\0")[3].decode()
    socket = url[len("ipc://"):]
    jobs.wait_until(lambda: os.path.exists(socket), f"{url} is there", job)
    return victims[0], socket


def told_of_end(job):
    """The line on a coordinator's end; on a busy machine there are others, of a probe that is late."""
    line = job.stderr.readline()
    while line and "the coordinator of this job" not in line:
        line = job.stderr.readline()
    return line


def coordinator_killed(paths):
    """Of a job that runs: told at once, started again, and what both had is in one record."""
    record = fresh_record(paths)
    job = start(paths.slowrank, "run", "--record", record, "--", *jobs.mpirun(2), paths.workload,
                "--steps", "400", "--step-ms", "20", stderr=subprocess.PIPE)
    for _ in range(2):
        size = os.path.getsize(record) if os.path.exists(record) else 0
        jobs.wait_until(lambda size=size: os.path.exists(record) and os.path.getsize(record) > size + 1024,
                        "batches are recorded", job)
        os.kill(coordinator_of(job)[0], signal.SIGKILL)
        line = told_of_end(job)
        check("signal 9" in line and "started again" in line and job.poll() is None, f"told at once: {line!r}")
    socket = coordinator_of(job)[1]
    said = job.communicate(timeout=60)[1]
    # Killed shortly before the job's end, it may finish in the background.
    check(job.returncode == 0 and ("Coverage" in said or "slowrank report " in said), f"exit {job.returncode}: {said!r}")
    report = json.loads(jobs.whole_report(paths.slowrank, record).stdout)
    check(report["job"]["ranks"] == 2 and report["job"]["steps"] >= 390, f"{report['job']}")
    check(not os.path.exists(record + ".1"), "one record")
    jobs.wait_until(lambda: not os.path.exists(socket) and not os.path.exists(socket[:-5] + ".lock"),
                    "its socket and its lock are removed")


def coordinator_dies_again(paths):
    """One that is killed again and again is not started for ever; the job's own status."""
    go, record = fresh_go(paths), fresh_record(paths)
    job = start(paths.slowrank, "run", "--record", record, "--", "sh", "-c", UNTIL_GO + "exit 5", go,
                stderr=subprocess.PIPE)
    jobs.wait_until(lambda: os.path.exists(record) and os.path.getsize(record) > 68, "a batch is recorded", job)
    for again in (True,) * 5 + (False,):
        os.kill(coordinator_of(job)[0], signal.SIGKILL)
        line = told_of_end(job)
        check("signal 9" in line and ("started again" in line) == again and job.poll() is None,
              f"told at once: {line!r}")
    touch(go)
    rest = job.communicate(timeout=60)[1]
    check(job.returncode == 5 and rest == "", f"exit {job.returncode}: {rest!r}")


def coordinator_restarted(paths):
    """By the same command: what it had is kept, and it learns again who is who."""
    record = fresh_record(paths)
    url = "ipc://" + os.path.join(paths.directory, "socket")
    command = [paths.slowrank, "coordinator", "--listen", url, "--record", record,
               "--exit-when-done", "--quiet"]
    first = start(*command)
    job = start(paths.slowrank, "run", "--coordinator", url, "--", *jobs.mpirun(2), paths.workload,
                "--steps", "400", "--step-ms", "20")
    jobs.wait_until(lambda: os.path.exists(record) and os.path.getsize(record) > 0,
                    "something is recorded", job)
    time.sleep(2)
    first.kill()
    first.wait()
    second = start(*command, stderr=subprocess.PIPE)
    check(job.wait(timeout=120) == 0, f"the job: exit {job.returncode}")
    said = second.communicate(timeout=60)[1]
    check(second.returncode == 0, f"exit {second.returncode}")
    check("record.slr.1" in said, f"the first record is kept, and that is said: {said!r}")
    kept = slowrank(paths, "report", record + ".1")
    check(kept.returncode == 2 and "cut short" in kept.stderr, f"the first record: {kept.stderr}")
    report = json.loads(slowrank(paths, "report", record, "--format", "json").stdout)
    check(report["job"]["ranks"] == 2 and report["job"]["steps"] > 50, f"{report['job']}")
    states = {entry["name"]: entry["state"] for entry in report["coverage"]["sources"]}
    check(states.get("bpf.collectives") == "on" and "cgroup" in states, f"sources: {states}")
    check(report["summary"]["step_ms_median"] > 0, "steps have lengths")


def closed_files(paths):
    """Without standard files of its own, slowrank writes its words into none of its others."""
    record = os.path.join(paths.directory, "closed.slr")
    go = fresh_go(paths)
    job = start("sh", "-c", 'exec 0<&- 1>&- 2>&-; exec "$0" run --record "$1" -- sh -c "$3" "$2"',
                paths.slowrank, record, go, UNTIL_GO + "test ! -e /proc/self/fd/1 && exit 7")
    found = []
    while not found and job.poll() is None:
        time.sleep(0.1)
        found = jobs.coordinators(job.pid)
    for pid, expected in ((job.pid, "/dev/null"), *((pid, "pipe:") for pid in found)):
        while not os.path.islink(f"/proc/{pid}/fd/2") and job.poll() is None:
            time.sleep(0.1)
        target = os.readlink(f"/proc/{pid}/fd/2")
        check(target.startswith(expected), f"standard error of {pid}: {target}")
    touch(go)
    status = job.wait(timeout=60)
    check(found and status == 7, f"the command's own files stay closed: exit {status}")
    check(slowrank(paths, "report", record).returncode == 0, "the record is whole")


EVIL = "\x1b[2J\x1b]0;e\x07\r\x9b"  # moves the cursor, names the window; as its bytes C1 as well


def check_printable(said, text):
    bad = sorted({byte for byte in said if (byte < 0x20 and byte not in b"\n\t") or byte == 0x7f})
    check(not bad and b"\xc2\x9b" not in said, f"{text} prints control characters {bad}: {said!r}")
    return said


def control_characters(paths):
    """Names of programs, jobs, files and hosts that would do something to a terminal: nothing of it gets there."""
    def out_of(*words, status=(0,), prefix=(), **options):
        done = subprocess.run([*prefix, paths.slowrank, *words], capture_output=True, stdin=subprocess.DEVNULL,
                              timeout=120, check=False, **options)
        check(done.returncode in status, f"{words}: exit {done.returncode}: {done.stderr}")
        return check_printable(done.stdout + done.stderr, str(words))

    program, record = (os.path.join(paths.directory, name + EVIL) for name in ("p", "r.slr"))
    for path in (program, record):
        if os.path.lexists(path):
            os.unlink(path)
    os.symlink(paths.workload, program)
    said = out_of("run", "--job", "j" + EVIL, "--record", record, "--", *jobs.mpirun(2), program,
                  "--steps", "60", "--step-ms", "10")
    check(b"Coverage" in said, f"it was watched: {said}")
    for words in ([], ["--format", "json"], ["--explain", "all"]):
        out_of("report", *words, record)
    out_of("report", record + EVIL, status=(2,))
    out_of("import", "--from", "whatif", program, "-o", record + EVIL, status=(2,))
    out_of("run", "--", program + EVIL, status=(127,))
    out_of("run", "--sources", EVIL, "--", "true", status=(2,))
    out_of("coordinator", "--listen", "tcp://" + EVIL, "--record", record, status=(2,))
    as_host = ["unshare", "--uts", "sh", "-c", 'printf %s "$0" >/proc/sys/kernel/hostname; exec "$@"', "h" + EVIL]
    out_of("doctor", prefix=as_host, status=(0, 1))
    job = subprocess.Popen([*as_host, "bash", "-c", 'exec -a "$0" sleep 60', "sleep" + EVIL])
    out_of("attach", "--record", record, "--pid", str(job.pid), status=(0, 124),
           prefix=["timeout", "-s", "INT", "3", *as_host])
    job.kill()
    job.wait()
    others = subprocess.Popen([paths.slowrank, "coordinator", "--insecure", "--job", "o" + EVIL, "--listen",
                               "tcp://127.0.0.1:0", "--record", record + "2"], stderr=subprocess.PIPE)
    said = others.stderr.readline()
    url = said.split()[-1].decode()
    out_of("run", "--insecure", "--coordinator", url, "--job", "j" + EVIL, "--", program, status=range(256))
    others.send_signal(signal.SIGTERM)
    check_printable(said + others.communicate(timeout=30)[1], "the coordinator of another job")


def attach_ended(paths):
    """A process that has ended and is not reaped is nothing to watch, and where it is a child, not waited for."""
    parent = subprocess.Popen([sys.executable, "-c", "import os, time; print(os.fork() or os._exit(0), flush=True); time.sleep(4)"],
                              stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    jobs.wait_until(lambda: jobs.arguments(child) == [b""], "the child has ended", parent)
    done = slowrank(paths, "attach", "--pid", str(child))
    check(done.returncode == 2, f"attach: exit {done.returncode}: {done.stderr}")
    check_one_line(done.stderr, "attach")
    check("has ended" in done.stderr, f"says so: {done.stderr!r}")
    done = slowrank(paths, "attach", "--quiet", "--record", fresh_record(paths), "--pid", str(parent.pid))
    check(done.returncode == 0 and not done.stderr, f"attach to its parent: exit {done.returncode}: {done.stderr}")
    parent.wait()


CASES = {"attach_ended": attach_ended, "records": records, "usage": usage, "alert_limits": alert_limits, "coordinator": coordinator,
         "coordinator_silent": coordinator_silent, "coordinator_killed": coordinator_killed,
         "coordinator_dies_again": coordinator_dies_again, "coordinator_restarted": coordinator_restarted, "closed_files": closed_files,
         "control_characters": control_characters}

if __name__ == "__main__":
    harness.main(CASES)
