#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One command, one job, one coordinator: launchers that start ranks on two nodes, each a slowrank."""
import glob
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402
from test_mpi import need_mpich, THROTTLED  # noqa: E402
from test_run import check_throttled, fresh, need_throttle, read_report  # noqa: E402

STEP = ["srun", "-N2", "--ntasks-per-node=2"]
# What jobs.mpirun() and Cluster.mpirun_options() say on the command line.
OPEN_MPI = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl": "tcp,self",
            "OMPI_MCA_btl_tcp_if_include": "eth0"}


def cluster(paths):
    """Two nodes; what they share is the tree of the build."""
    need_throttle()
    return jobs.Cluster(paths.directory, 2, 2)


def start_slurm(nodes):
    for program in ("srun", "slurmctld", "slurmd", "munged"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            harness.skip(f"{program} is not installed (slurmctld, slurmd, slurm-client, munge)")
    why = nodes.start_slurm()
    if why:
        harness.skip(why)


def watched(paths, *options):
    """slowrank with the record that all nodes are told; one of them is to write it."""
    record, = fresh(paths.directory, "record.slr")
    return [paths.slowrank, "run", "--record", record, *options, "--"]


def workload(paths, program):
    return jobs.workload_command(program, jobs.fresh_directory(paths.directory), **THROTTLED)


def run(nodes, command, **environment):
    """The command on the first node; returns what it wrote."""
    done = subprocess.run([*nodes.prefix(), *command], stdin=subprocess.DEVNULL, timeout=90,
                          capture_output=True, text=True, check=False,
                          env=dict(os.environ, **environment))
    check(done.returncode == 0, f"exit {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


TWO_NODES = {0: "node0", 1: "node0", 2: "node1", 3: "node1"}


def check_one_job(paths, output, hosts=TWO_NODES):
    """One record with all ranks of both nodes, and the verdict on the second node's rank."""
    check(glob.glob(os.path.join(paths.directory, "*.slr*")) ==
          [os.path.join(paths.directory, "record.slr")], "one record")
    check(output.count("\nCoverage (") == 1, f"one report: {output}")
    for trouble in ("not watched", "refuses", "recording to", "no answer", "were not seen"):
        check(trouble not in output, f"{trouble}: {output}")
    report = read_report(paths, os.path.join(paths.directory, "record.slr"))
    check(report["job"]["ranks"] == 4 and report["job"]["nodes"] == 2, f"{report['job']}")
    check({rank["rank"]: rank["host"] for rank in report["ranks"]} == hosts, f"{report['ranks']}")
    check_throttled(report)


def multi_prog(paths):
    path = os.path.join(paths.directory, "programs")
    with open(path, "w", encoding="utf-8") as file:
        file.write("0 true\n")
    return path


def slurm_pmix(paths):
    """srun of Open MPI's ranks, with slowrank behind it and before it."""
    with cluster(paths) as nodes:
        start_slurm(nodes)
        check_one_job(paths, run(nodes, [*STEP, "--mpi=pmix", *watched(paths),
                                         *workload(paths, paths.workload)], **OPEN_MPI))
        check_one_job(paths, run(nodes, [*watched(paths), *STEP, "--mpi=pmix",
                                         *workload(paths, paths.workload)], **OPEN_MPI))
        output = run(nodes, [*watched(paths), "srun", "--multi-prog", multi_prog(paths)])
        check("write 'srun [OPTION...] slowrank run -- COMMAND'" in output, output)


def slurm_pmi2(paths):
    """srun of MPICH's ranks."""
    need_mpich(paths.workload_mpich)
    with cluster(paths) as nodes:
        start_slurm(nodes)
        check_one_job(paths, run(nodes, [*STEP, "--mpi=pmi2", *watched(paths),
                                         *workload(paths, paths.workload_mpich)]))


def open_mpi(paths):
    with cluster(paths) as nodes:
        check_one_job(paths, run(nodes, [*jobs.mpirun(4, *nodes.mpirun_options()),
                                         *watched(paths), *workload(paths, paths.workload)]))


def mpich(paths):
    need_mpich(paths.workload_mpich)
    with cluster(paths) as nodes:
        check_one_job(paths, run(nodes, [*jobs.mpich(4), *nodes.mpich_options(), *watched(paths),
                                         *workload(paths, paths.workload_mpich)]))


def run_open_mpi(paths):
    """slowrank before mpirun, on a node that runs no rank: a slowrank starts with each rank. Then the
    last node has none: its ranks start as they are."""
    need_throttle()
    with jobs.Cluster(paths.directory, 3, 2) as nodes:
        with open(nodes.hostfile, "w", encoding="utf-8") as file:
            file.write("# first\nnode1 slots=2\nnode2 slots=2\n")
        command = [*watched(paths, "--job", """it's "own" $job"""),
                   *jobs.mpirun(4, *nodes.mpirun_options()), *workload(paths, paths.workload)]
        check_one_job(paths, run(nodes, command),
                      {0: "node1", 1: "node1", 2: "node2", 3: "node2"})
        report = read_report(paths, os.path.join(paths.directory, "record.slr"))
        check(report["job"]["id"] == """it's-"own"-$job""", f"{report['job']}")
        agent = write_program(os.path.join(paths.directory, "agent"), HIDING_AGENT.format(
            script=nodes.SCRIPT, hidden=paths.slowrank))
        command = [*watched(paths), *jobs.mpirun(4, *nodes.mpirun_options(agent)), paths.workload,
                   "--steps", "100", "--step-ms", "10", "--truth",
                   jobs.fresh_directory(paths.directory)]
        output = run(nodes, command)
        check(output.count("slowrank: node2: ") == 1 and "is not there or does not run" in output,
              output)
        check("2 of 4 ranks were not seen" in output, output)
        check(len(jobs.Truth(os.path.join(paths.directory, "truth.jsonl")).ends) == 4,
              "all ranks ran to their ends")


def run_mpich(paths):
    need_mpich(paths.workload_mpich)
    with cluster(paths) as nodes:
        check_one_job(paths, run(nodes, [*watched(paths), *jobs.mpich(4), *nodes.mpich_options(),
                                         *workload(paths, paths.workload_mpich)]))


# It takes its own options, and becomes the program: what the ranks are told is not its part here.
STAND_IN_TORCHRUN = """#!/bin/sh
while [ "$1" != --no-python ]; do shift 2; done
shift
exec "$@"
"""
AGENT = """#!/bin/sh
node=$1
shift
exec {script} exec $node env PATH={folder}:$PATH {slowrank} torchrun --nnodes 2 --nproc-per-node 2 \\
	--rdzv-backend c10d --rdzv-endpoint node1:29400 --rdzv-id test --no-python sh -c "$*"
"""
# A node2 on which slowrank's file is no program.
HIDING_AGENT = """#!/bin/sh
[ "$1" != node2 ] || export HIDDEN={hidden}
node=$1
shift
exec {script} exec $node sh -c '[ -z "$HIDDEN" ] || mount --bind /dev/null "$HIDDEN"; eval "$0"' "$*"
"""
# What torchrun tells a rank; two on each node.
RANK = """export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node1
export LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK MASTER_PORT=29400 TORCHELASTIC_RUN_ID=test
exec "$@"
"""


def write_program(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


def torchrun(paths):
    """slowrank run -- torchrun --nnodes 2, started on each node by hand. Open MPI starts the stand-ins'
    ranks, from a node that runs none: its daemon is the program that torchrun is given."""
    need_throttle()
    with jobs.Cluster(paths.directory, 3, 2) as nodes:
        write_program(os.path.join(paths.directory, "torchrun"), STAND_IN_TORCHRUN)
        agent = write_program(os.path.join(paths.directory, "agent"), AGENT.format(
            script=nodes.SCRIPT, folder=paths.directory, slowrank=" ".join(watched(paths))))
        options = [*nodes.mpirun_options(agent), "--host", "node1:2,node2:2",
                   "--leave-session-attached"]
        check_one_job(paths, run(nodes, [
            *jobs.mpirun(4, *options), "sh", "-c", RANK, "rank",
            *workload(paths, paths.workload)]), {0: "node1", 1: "node1", 2: "node2", 3: "node2"})


def port(job, attempt):
    """As probe/coordinator_process.c chooses them."""
    value = 2166136261
    for byte in job.encode():
        value = (value ^ byte) * 16777619 % 2 ** 32
    return 24000 + (value + attempt * (1 + value // 8000 % 7999)) % 2 ** 32 % 8000


def taken_ports(paths):
    """The first port is a stranger's, the second one another job's coordinator's."""
    with cluster(paths) as nodes:
        stranger = subprocess.Popen([*nodes.prefix(), sys.executable, "-c", f"""if True:
            import socket, time
            listening = socket.create_server(("", {port("own", 0)}))
            time.sleep(100)"""])
        other = subprocess.Popen(
            [*nodes.prefix(), paths.slowrank, "coordinator", "--job", "other", "--quiet", "--listen",
             f"tcp://[::]:{port('own', 1)}", "--record", os.path.join(paths.directory, "other")])
        try:
            output = run(nodes, [*jobs.mpirun(4, *nodes.mpirun_options()), *watched(paths),
                                 *workload(paths, paths.workload)], SLOWRANK_JOB="own")
        finally:
            stranger.kill()
            other.terminate()
            stranger.wait()
            other.wait()
        check_one_job(paths, output)
        check(read_report(paths, os.path.join(paths.directory, "other"))["job"]["ranks"] == 0,
              "nothing in the other job's record")


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
    command = jobs.workload_command(paths.workload, jobs.fresh_directory(paths.directory),
                                    steps=100, step_ms=10)
    for attempt in range(8): # of a race
        job = f"squatted{attempt}"
        with jobs.Cluster(paths.directory, 2, 2) as nodes:
            with subprocess.Popen(
                    [*nodes.prefix(), sys.executable, "-c", SQUATTER, os.path.dirname(jobs.__file__), job,
                     str(port(job, 0))], stdout=subprocess.PIPE, text=True) as squatter:
                output = run(nodes, [*jobs.mpirun(4, *nodes.mpirun_options()), *watched(paths),
                                     *command], SLOWRANK_JOB=job)
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
    command = jobs.workload_command(paths.workload, jobs.fresh_directory(paths.directory),
                                    steps=1800, step_ms=20, compute_ms=1.5)
    with jobs.Cluster(paths.directory, 2, 2) as nodes:
        output = run(nodes, [*jobs.mpirun(4, *nodes.mpirun_options()), "sh", "-c", only_node0, "sh",
                             *watched(paths), *command])
    check(output.count("slowrank: 2 of 4 ranks are not seen since 30 s (2-3): ") == 1, output)
    check("2 of 4 ranks were not seen" in output, output)


CASES = {case.__name__: case for case in (slurm_pmix, slurm_pmi2, open_mpi, mpich, torchrun,
                                          taken_ports, half, run_open_mpi, run_mpich, squatted_port)}

if __name__ == "__main__":
    harness.main(CASES)
