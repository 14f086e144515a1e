#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One command, one job, one coordinator: launchers that start ranks on two nodes, each a slowrank."""
from concurrent import futures
import glob
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
import launchers  # noqa: E402
from harness import check  # noqa: E402
from test_mpi import THROTTLED  # noqa: E402
from test_run import check_throttled, fresh, need_throttle, read_report  # noqa: E402

DEPLOY = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "deploy"))


def cluster(paths, node_count=2, ranks_per_node=2):
    """Nodes that share the tree of the build."""
    need_throttle()
    return jobs.Cluster(paths.directory, node_count, ranks_per_node)


def hosts(nodes, name=""):
    """The node of each rank, as that launcher places them."""
    order = list(range(nodes.node_count))
    if name in launchers.REVERSED:
        order.reverse()
    return {rank: f"node{order[rank // nodes.ranks_per_node]}"
            for rank in range(nodes.node_count * nodes.ranks_per_node)}


def check_one_job(paths, nodes, output, name="", killed=None):
    """One record with all ranks of all nodes, and the verdict on one rank of them; it may have hung for the killed one."""
    check(glob.glob(os.path.join(paths.directory, "*.slr*")) ==
          [os.path.join(paths.directory, "record.slr")], "one record")
    check(output.count("\nCoverage (") == 1, f"one report: {output}")
    trouble = re.search("not watched(?! until)|refuses|recording to|no answer|were not seen", output)
    check(not trouble, output)
    report = read_report(paths, os.path.join(paths.directory, "record.slr"))
    check(report["job"]["ranks"] == 4 and report["job"]["nodes"] == nodes.node_count,
          f"{report['job']}")
    check({rank["rank"]: rank["host"] for rank in report["ranks"]} == hosts(nodes, name),
          f"{report['ranks']}")
    said = [v for v in report["verdicts"] if v["class"] != "hang" or v["ranks"] != [killed]]
    check_throttled({**report, "verdicts": said})


def launched(name):
    """One job of four ranks by that launcher."""
    def case(paths):
        fresh(paths.directory, "record.slr")
        with cluster(paths, *((4, 1) if name in launchers.ONE_RANK_A_NODE else (2, 2))) as nodes:
            output = launchers.LAUNCHERS[name](launchers.Job(paths, nodes, THROTTLED))
            check_one_job(paths, nodes, output, name)
    return case


def slurm_pmix(paths):
    """And the node of the slow rank is drained by the hook of scripts/deploy, while the job goes on."""
    hook = f"DRAIN_CAUSES='cgroup-throttle cpu-contention' {DEPLOY}/hooks/slurm-drain.sh"
    fresh(paths.directory, "record.slr")
    with cluster(paths) as nodes:
        job = launchers.Job(paths, nodes, THROTTLED, ["--on-incident", hook])
        check_one_job(paths, nodes, launchers.slurm_pmix(job))
        told = job.run(["scontrol", "--oneliner", "show", "node"])
    states = {match[1]: (match[2], match[3]) for match in
              re.finditer(r"NodeName=(\S+) .* State=(\S+) .*?(?:Reason=(.*?) \[|\n)", told)}
    check("DRAIN" in states["node1"][0] and re.match("slowrank: [a-z-]+ of rank 2, job ", states["node1"][1]),
          f"node1 is drained: {states} {told}")
    check("DRAIN" not in states["node0"][0], f"node0 is not: {states}")


def run_slurm_pmix(paths):
    """slowrank before srun, which starts one with each rank: by scripts/deploy's stand-in for srun. Without a slowrank it is
    srun, and its exit status is srun's."""
    wrapper = os.path.join(DEPLOY, "slurm", "slowrank-srun")
    found = f"{os.path.dirname(paths.slowrank)}:{os.environ['PATH']}"
    fresh(paths.directory, "record.slr")
    with cluster(paths) as nodes:
        launchers.start_slurm(nodes)
        job = launchers.Job(paths, nodes, THROTTLED)
        output = job.run([wrapper, *job.steps()[1:], "--mpi=pmix", *job.open_mpi()], PATH=found,
                         SLOWRANK_RECORD=job.record, **launchers.OPEN_MPI)
        check_one_job(paths, nodes, output, "run_slurm_pmix")
        for environment in ({}, {"PATH": found, "WITHOUT_SLOWRANK": "1"}):
            output = job.run(["sh", "-c", f"{wrapper} -N2 sh -c 'exit 3' || echo ends with $?"], **environment)
            check("ends with 3" in output and "slowrank: " not in output, f"{environment}: {output}")


def as_slurm_runs(paths, script):
    """That script of scripts/deploy/slurm with what an administrator sets in it: Slurm gives it no environment."""
    path = os.path.join(paths.directory, script)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\nexport SLOWRANK={paths.slowrank} RECORDS=/run/slowrank/records PERIOD=1\n"
                   f"exec {DEPLOY}/slurm/{script}\n")
    os.chmod(path, 0o755)
    return path


def slurm_prolog(paths):
    """A cluster that watches its jobs: plain srun, and the first node has the record of all ranks when epilogs have ended."""
    lines = [f"{name}={as_slurm_runs(paths, script)}" for name, script in (
        ("Prolog", "prolog.sh"), ("TaskProlog", "task_prolog.sh"), ("Epilog", "epilog.sh"))]
    hold = jobs.Hold(paths.directory)
    with cluster(paths) as nodes:
        launchers.start_slurm(nodes, "apart", *lines)
        folders = [f"/run/{nodes.name}-cluster/node{node}/run/records" for node in range(2)]
        job = launchers.Job(paths, nodes, THROTTLED)

        def said(folder):
            """By the agents of all jobs; Slurm's own start is one of them."""
            return "".join(open(path, encoding="utf-8").read() for path in glob.glob(f"{folder}/slurm-*.txt"))

        with futures.ThreadPoolExecutor(1) as pool:
            output = pool.submit(job.run, [*job.steps(), "--mpi=pmix", *job.open_mpi(), *hold.options], **launchers.OPEN_MPI)
            for folder in folders:
                jobs.wait_until(lambda where=folder: "watching" in said(where), f"{folder}: an agent watches")
            hold.wait(4, None)
            hold.end()
            check("slowrank" not in output.result(), f"the user is told nothing: {output.result()}")
        jobs.wait_until(lambda: not glob.glob(f"/run/{nodes.name}-cluster/node*/run/*.pid"), "epilogs have ended the agents")
        records = [glob.glob(f"{folder}/slurm-*.slr") for folder in folders]
        check([len(found) for found in records] == [1, 0], f"one record, on the first node: {records}")
        report = read_report(paths, records[0][0])
        check({rank["rank"]: rank["host"] for rank in report["ranks"]} == hosts(nodes), f"{report['ranks']}")
        check_throttled(report)
        states = re.findall(r" State=(\S+)", job.run(["scontrol", "--oneliner", "show", "node"]))
        check(len(states) == 2 and not any("DRAIN" in state or "DOWN" in state for state in states), f"{states}")


def port(job, attempt):
    """As probe/coordinator_process.c chooses them."""
    value = 2166136261
    for byte in job.encode():
        value = (value ^ byte) * 16777619 % 2 ** 32
    return 24000 + (value + attempt * (1 + value // 8000 % 7999)) % 2 ** 32 % 8000


def taken_ports(paths):
    """The first port is a stranger's, the second one another job's coordinator's."""
    fresh(paths.directory, "record.slr")
    with cluster(paths) as nodes:
        stranger = subprocess.Popen([*nodes.prefix(), sys.executable, "-c", f"""if True:
            import socket, time
            listening = socket.create_server(("", {port("own", 0)}))
            time.sleep(100)"""])
        other = subprocess.Popen(
            [*nodes.prefix(), paths.slowrank, "coordinator", "--job", "other", "--quiet", "--listen",
             f"tcp://[::]:{port('own', 1)}", "--record", os.path.join(paths.directory, "other")])
        try:
            output = launchers.open_mpi(launchers.Job(paths, nodes, THROTTLED, ["--job", "own"]))
        finally:
            stranger.kill()
            other.terminate()
            stranger.wait()
            other.wait()
        check_one_job(paths, nodes, output)
        check(read_report(paths, os.path.join(paths.directory, "other"))["job"]["ranks"] == 0,
              "nothing in the other job's record")


def not_by_slurm(paths):
    """slowrank run -- srun of several programs: one line says what to write instead."""
    with cluster(paths) as nodes:
        launchers.start_slurm(nodes)
        programs = os.path.join(paths.directory, "programs")
        with open(programs, "w", encoding="utf-8") as file:
            file.write("0 true\n")
        output = launchers.Job(paths, nodes, {}).run(
            [paths.slowrank, "run", "--", "srun", "--multi-prog", programs])
        check("write 'srun [OPTION...] slowrank run -- COMMAND'" in output, output)


# A node2 on which slowrank's file is no program.
HIDING_AGENT = """#!/bin/sh
[ "$1" != node2 ] || export HIDDEN='{hidden}'
node=$1
shift
exec '{script}' exec $node sh -c '[ -z "$HIDDEN" ] || mount --bind /dev/null "$HIDDEN"; eval "$0"' "$*"
"""


def run_open_mpi(paths):
    """slowrank before mpirun, on a node that runs no rank: a slowrank starts with each rank. Then the
    last node has none: its ranks start as they are."""
    fresh(paths.directory, "record.slr")
    with cluster(paths, 3, 2) as nodes:
        with open(nodes.hostfile, "w", encoding="utf-8") as file:
            file.write("# first\nnode1 slots=2\nnode2 slots=2\n")
        job = launchers.Job(paths, nodes, THROTTLED, ["--job", """it's "own" $job"""])
        output = job.run([*job.watched(), *jobs.mpirun(4, *nodes.mpirun_options()), *job.open_mpi()])
        report = read_report(paths, job.record)
        check(output.count("\nCoverage (") == 1 and "not watched" not in output, output)
        check({rank["rank"]: rank["host"] for rank in report["ranks"]} ==
              {0: "node1", 1: "node1", 2: "node2", 3: "node2"}, f"{report['ranks']}")
        check(report["job"]["id"] == """it's-"own"-$job""", f"{report['job']}")
        check_throttled(report)
        agent = f"/run/{nodes.name}-cluster/hiding"
        with open(agent, "w", encoding="utf-8") as file:
            file.write(HIDING_AGENT.format(script=nodes.SCRIPT, hidden=paths.slowrank))
        os.chmod(agent, 0o755)
        job = launchers.Job(paths, nodes, {"steps": 100, "step_ms": 10})
        output = job.run([*job.watched(), *jobs.mpirun(4, *nodes.mpirun_options(agent)),
                          *job.open_mpi()])
        check(output.count("slowrank: node2: ") == 1 and "is not there or does not run" in output,
              output)
        check("2 of 4 ranks were not seen" in output, output)
        check(len(jobs.Truth(job.truth).ends) == 4,
              "all ranks ran to their ends")


SQUATTER = """
import os, signal, socket, sys, time
sys.path.insert(0, sys.argv[1])
import jobs
found, others = [], set(os.listdir("/proc"))
while not found: # as it comes, before it listens
    for name in set(os.listdir("/proc")) - others:
        words = jobs.arguments(name)
        if words[:2] == [b"slowrank", b"coordinator"] and sys.argv[2].encode() in words:
            found.append(int(name))
        elif words and words[0] and b"slowrank" not in words[0]:
            others.add(name)
os.kill(found[0], signal.SIGSTOP)
try:
    listening = socket.create_server(("", int(sys.argv[3])))
    print("taken", flush=True)
except OSError as error:
    print("too late", flush=True)
os.kill(found[0], signal.SIGCONT)
time.sleep(100)
"""


def squatted_port(paths):
    """The first port is taken between the look at it and the coordinator's: that one goes to the next."""
    for attempt in range(8):  # of a race
        fresh(paths.directory, "record.slr")
        job = f"squatted{attempt}"
        with jobs.Cluster(paths.directory, 2, 2) as nodes:
            with subprocess.Popen(
                    [*nodes.prefix(), sys.executable, "-c", SQUATTER, os.path.dirname(jobs.__file__), job,
                     str(port(job, 0))], stdout=subprocess.PIPE, text=True) as squatter:
                output = launchers.open_mpi(launchers.Job(
                    paths, nodes, {"steps": 100, "step_ms": 10}, ["--job", job]))
                done = squatter.stdout.readline().strip()
                squatter.kill()
        check("not watched" not in output and "cannot listen" not in output, output)
        report = read_report(paths, os.path.join(paths.directory, "record.slr"))
        check(report["job"]["ranks"] == 4, f"{report['job']}: {output}")
        if done == "taken":
            return
    raise SystemExit("FAILED: the port was never taken in time")


def half(paths):
    """The second node runs its ranks without slowrank: told while the job runs."""
    only_node0 = 'while [ "$1" != -- ] && [ "$(hostname)" = node1 ]; do shift; done; ' \
                 '[ "$1" != -- ] || shift; exec "$@"'
    fresh(paths.directory, "record.slr")
    with cluster(paths) as nodes:
        job = launchers.Job(paths, nodes, {"steps": 1800, "step_ms": 20, "compute_ms": 1.5})
        output = job.run([*jobs.mpirun(4, *nodes.mpirun_options()), "sh", "-c", only_node0, "sh",
                          *job.watched(), *job.open_mpi()])
    check(output.count("slowrank: 2 of 4 ranks are not seen since 30 s (2-3): ") == 1, output)
    check("2 of 4 ranks were not seen" in output, output)


PORTS = "24000-31999"  # of coordinators


def ipv6(paths):
    """The coordinator is reached over IPv6 alone, by name and by address; another interface is there."""
    for address in ("node0-ipv6", "fd00:213::1"):
        fresh(paths.directory, "record.slr")
        with cluster(paths) as nodes:
            nodes.change("ipv6")
            nodes.change("close", "node0", PORTS)
            output = launchers.plain(launchers.Job(paths, nodes, THROTTLED), address=address)
            check_one_job(paths, nodes, output)


def firewall(paths):
    """The second node cannot reach the first: the job runs, and one line says what to open."""
    fresh(paths.directory, "record.slr")
    with cluster(paths) as nodes:
        nodes.change("close", "node0", PORTS)
        output = launchers.torchrun(launchers.Job(
            paths, nodes, {"steps": 700, "step_ms": 20, "compute_ms": 1}))
    lines = [line for line in output.splitlines() if "must be open there" in line]
    check(len(lines) == 1 and "node0, port " in lines[0], output)
    check("2 of 4 ranks were not seen (2-3): they are excluded from the analysis" in output, output)


def head_node(paths):
    """mpirun of Open MPI on a node that runs no rank, as a log-in node or MPIJob's launcher."""
    fresh(paths.directory, "record.slr")
    with cluster(paths, 3, 2) as nodes:
        job = launchers.Job(paths, nodes, THROTTLED)
        options = [*nodes.mpirun_options(), "--host", "node1:2,node2:2"]
        output = job.run([*jobs.mpirun(4, *options), *job.watched(), *job.open_mpi()])
    check(output.count("\nCoverage (") == 1 and "not watched" not in output, output)
    report = read_report(paths, job.record)
    check({rank["rank"]: rank["host"] for rank in report["ranks"]} ==
          {0: "node1", 1: "node1", 2: "node2", 3: "node2"}, f"{report['ranks']}")
    check_throttled(report)


def no_address(paths):
    """Where no node is known to all, one line says what to pass."""
    fresh(paths.directory, "record.slr")
    with cluster(paths) as nodes:
        job = launchers.Job(paths, nodes, {"steps": 1})
        output = job.run(["env", f"PATH={launchers.stand_in_folder(job)}:{os.environ['PATH']}",
                          *job.watched(), "torchrun", "--nnodes", "2", "--nproc_per_node", "1",
                          "--node_rank", "0", "--rdzv_backend", "etcd-v2", "--rdzv_endpoint",
                          "etcd:2379", "--rdzv_id", "test", "--no_python", "true"])
    lines = [line for line in output.splitlines() if "slowrank" in line]
    check(len(lines) == 1 and "--coordinator tcp://HOST:PORT" in lines[0], output)


def versions(paths):
    """The slowrank that OTHER_SLOWRANK names, of another version, on one node: served, or told why not."""
    other = os.environ.get("OTHER_SLOWRANK")
    if not other:
        harness.skip("OTHER_SLOWRANK names no slowrank of another version (scripts/long.sh)")
    for slowranks in ((None, other), (other, None)):
        fresh(paths.directory, "record.slr")
        with cluster(paths) as nodes:
            output = launchers.plain(launchers.Job(paths, nodes, THROTTLED), slowranks=slowranks)
            if "use the same slowrank version everywhere" not in output:
                check_one_job(paths, nodes, output)


def late(paths):
    """The second node's ranks start 40 s after the first's: told meanwhile, one job in the end."""
    wait = ["sh", "-c", '[ "$(hostname)" = node0 ] || sleep 40; exec "$@"', "sh"]
    fresh(paths.directory, "record.slr")
    with cluster(paths) as nodes:
        output = launchers.plain(launchers.Job(paths, nodes, THROTTLED), wait)
        check_one_job(paths, nodes, output)


def first_node_first(job, on_first, on_others):
    """srun of a job that goes on, after the program's end, with these words of a shell."""
    then = f'"$@" || exit; if [ "$(hostname)" = node0 ]; then {on_first}; else {on_others}; fi'
    return job.run([*job.steps(), "--mpi=pmix", *job.watched(), "sh", "-c", then, "sh",
                    *job.open_mpi()], **launchers.OPEN_MPI)


def slurm_first_node_first(paths):
    """Slurm kills what is left on a node when its tasks have ended: not the coordinator that others need."""
    fresh(paths.directory, "record.slr")
    with cluster(paths) as nodes:
        launchers.start_slurm(nodes)
        output = first_node_first(launchers.Job(paths, nodes, THROTTLED), "true", "sleep 5")
        check_one_job(paths, nodes, output)


def ended(pid):
    return not any(jobs.arguments(pid))


def slurm_first_node_ends(paths):
    """The first node's task does not stay for a coordinator that stands still, after a signal, or where its
    command failed."""
    go, told = (os.path.join(paths.directory, name) for name in ("go", "run"))
    with cluster(paths, 2, 1) as nodes:
        launchers.start_slurm(nodes)
        for name, status in (("stopped", 0), ("terminated", 0), ("failed", 3)):
            fresh(paths.directory, "record.slr", "go", "run")
            job = launchers.Job(paths, nodes, {"steps": 50, "step_ms": 20})
            with futures.ThreadPoolExecutor(1) as pool:
                pool.submit(first_node_first, job,
                            f"echo $PPID >{told}.part; mv {told}.part {told}; exit {status}",
                            f"until test -e {go}; do sleep 0.1; done")
                try:
                    jobs.wait_until(lambda: os.path.exists(told), "the first node's command ends")
                    with open(told, encoding="ascii") as file:
                        run = int(file.read())
                    time.sleep(3 if status == 0 else 1)
                    check(ended(run) == (status != 0), f"{name}: it stays for a job that goes on")
                    if name == "stopped":
                        for pid in filter(str.isdigit, os.listdir("/proc")):
                            if {b"coordinator", job.record.encode()} <= set(jobs.arguments(pid)):
                                os.kill(int(pid), signal.SIGSTOP)
                    elif name == "terminated":
                        os.kill(run, signal.SIGTERM)
                    started = time.monotonic()
                    jobs.wait_until(lambda: ended(run), f"{name}: it ends")
                    seconds = time.monotonic() - started
                    print(f"{name}: ended {seconds:.2f} s later")
                    check(seconds < 1.2, f"{name}: it ends {seconds:.2f} s later")
                finally:
                    with open(go, "w", encoding="ascii"):
                        pass


def ranks_of(name, record):
    """Process ids of that program's ranks for that record, by rank."""
    found = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = dict(word.split(b"=", 1) for word in file.read().split(b"\0") if b"=" in word)
        except OSError:
            continue
        words = jobs.arguments(pid)
        if words[0].decode().endswith(name) and record.encode() in words and b"RANK" in environment:
            found[int(environment[b"RANK"])] = pid
    return found


def restart(paths):
    """
    torchrun starts all ranks again when one is killed: the same record, and the ranks are the new ones. It may take
    longer to see that than a hang takes to be told: of the rank that was killed, not of those that torchrun ended then.
    """
    fresh(paths.directory, "record.slr")
    hold = jobs.Hold(paths.directory)
    with cluster(paths) as nodes:
        job = launchers.Job(paths, nodes, THROTTLED)
        command = job.mpich()
        job.mpich = lambda: [*command, *hold.options]
        with futures.ThreadPoolExecutor(1) as pool:
            output = pool.submit(launchers.torchrun_real, job)
            jobs.wait_until(lambda: os.path.exists(hold.path) and os.path.getsize(hold.path) == 4,
                            "all ranks reach step 20", seconds=200)
            first = ranks_of("workload_mpich", hold.path)
            os.kill(first[3], signal.SIGKILL)
            jobs.wait_until(lambda: os.path.getsize(hold.path) == 8, "they do so again", seconds=200)
            second = ranks_of("workload_mpich", hold.path)
            hold.end()
            check_one_job(paths, nodes, output.result(), killed=3)
    report = read_report(paths, os.path.join(paths.directory, "record.slr"))
    check({rank["rank"]: rank["pid"] for rank in report["ranks"]} == second,
          f"first {first}, then {second}: {report['ranks']}")


def asked(paths):
    """What a rank on the other node does, asked on each node: with the key, and not with another one."""
    fresh(paths.directory, "record.slr")
    other_key = os.path.join(paths.directory, "other-key")
    with open(os.open(other_key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write("ab" * 32)
    hold = jobs.Hold(paths.directory)
    with cluster(paths) as nodes:
        def ask(node, *arguments, **environment):
            return subprocess.run([nodes.SCRIPT, "exec", node, paths.slowrank, "stacks", *arguments], capture_output=True,
                                  text=True, check=False, timeout=60, env={**os.environ, **environment})

        job = launchers.Job(paths, nodes, {"steps": 25, "step_ms": 20, "compute_ms": 1.5}, ("--job", "asked"))
        command = job.open_mpi()
        job.open_mpi = lambda: [*command, *hold.options]
        from_afar = ("--leader", "node0", "--job", "asked")
        with futures.ThreadPoolExecutor(1) as pool:
            output = pool.submit(launchers.LAUNCHERS["open_mpi"], job)
            jobs.wait_until(lambda: os.path.exists(hold.path) and os.path.getsize(hold.path) == 4,
                            "all ranks reach step 20")
            found = {"here": ask("node0", "--rank", "3"), "afar": ask("node1", "--rank", "0", *from_afar),
                     "pod": ask("node1", "--rank", "1", "--job", "asked", MASTER_ADDR="node0", MASTER_PORT="29500",
                                RANK="2", WORLD_SIZE="4")}
            stranger = ask("node1", "--rank", "0", *from_afar, "--key-file", other_key)
            lost = ask("node1", "--rank", "0")
            hold.end()
            check("not watched" not in output.result(), output.result())
    for where, node in (("here", "node1"), ("afar", "node0"), ("pod", "node0")):
        check(found[where].returncode == 0 and f" on {node}" in found[where].stdout.splitlines()[0] and
              "nanosleep" in found[where].stdout, f"{where}: {found[where]}")
    for done, text in ((stranger, "does not have the key in"), (lost, "no coordinator of yours is found")):
        check(done.returncode == 2 and not done.stdout and text in done.stderr, f"{text}: {done}")


CASES = {**{name: launched(name) for name in launchers.LAUNCHERS},
         **{case.__name__: case for case in (slurm_pmix, run_slurm_pmix, slurm_prolog, taken_ports, not_by_slurm, half,
                                               head_node, no_address, versions, late,
                                               restart, ipv6, firewall, run_open_mpi,
                                               squatted_port, asked, slurm_first_node_first,
                                               slurm_first_node_ends)}}

if __name__ == "__main__":
    harness.main(CASES)
