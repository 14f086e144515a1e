# SPDX-License-Identifier: Apache-2.0
"""One job of the workload over the nodes of a cluster, by each launcher, as its users would start it.

Python's standard library only. LAUNCHERS has them all; each takes a Job and returns what it wrote.
"""
import os
import shutil
import subprocess
import sys
import time

import harness
import jobs
from harness import check

HERE = os.path.dirname(os.path.abspath(__file__))
# What jobs.mpirun() and Cluster.mpirun_options() say on the command line.
OPEN_MPI = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl": "tcp,self",
            "OMPI_MCA_btl_tcp_if_include": "eth0"}
MANAGER_PORT = 7700
# A rank of a launcher that knows nothing of MPI: finds the process manager, and becomes the program.
RANK = f'PMI_ID=${{RANK:-$SLURM_PROCID}} PMI_PORT=node0:{MANAGER_PORT} exec "$@"'


def need_mpich(program):
    if not shutil.which("mpirun.mpich") or not os.path.exists(program):
        harness.skip("MPICH is not installed (mpich, libmpich-dev)")


class Job:
    """What is to be started where, in a cluster that is up. Arguments are the workload's."""

    def __init__(self, paths, nodes, arguments, options=(), truth=None):
        self.paths, self.nodes, self.options = paths, nodes, options
        self.arguments = arguments
        self.truth = truth or jobs.fresh_directory(paths.directory)
        self.rank_count = nodes.node_count * nodes.ranks_per_node
        self.record = os.path.join(paths.directory, "record.slr")

    def watched(self, slowrank=None):
        """slowrank with the record that all nodes are told; one of them is to write it."""
        return [slowrank or self.paths.slowrank, "run", "--record", self.record, *self.options, "--"]

    def open_mpi(self):
        return jobs.workload_command(self.paths.workload, self.truth, **self.arguments)

    def mpich(self):
        need_mpich(self.paths.workload_mpich)
        return jobs.workload_command(self.paths.workload_mpich, self.truth, **self.arguments)

    def rank(self):
        return ["sh", "-c", RANK, "rank", *self.mpich()]

    def steps(self):
        return ["srun", f"-N{self.nodes.node_count}",
                f"--ntasks-per-node={self.nodes.ranks_per_node}"]

    def run(self, command, before=(), **environment):
        """The command on the first node; returns what it wrote."""
        return self.run_all([(0, command, {})], before, **environment)

    def run_here(self, command):
        """On this host, without any node."""
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=90,
                              stderr=subprocess.STDOUT, text=True, check=False)
        check(done.returncode == 0, f"exit {done.returncode}: {done.stdout}")
        return done.stdout

    def run_all(self, commands, before=(), **environment):
        """Commands with environments of their own, each on a node, at the same time."""
        started = [subprocess.Popen(
            [*before, self.nodes.SCRIPT, "exec", f"node{node}", *command], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **environment, **own}) for node, command, own in commands]
        deadline, written, statuses = time.monotonic() + 90, "", []
        try:
            for process in started:
                written += process.communicate(timeout=max(deadline - time.monotonic(), 0.1))[0]
                statuses.append(process.returncode)
        finally:
            for process in started:
                process.kill()
        check(not any(statuses), f"exit {statuses}: {written}")
        return written


class ProcessManager:
    """On the first node; a context manager."""

    def __init__(self, job):
        self.command = [*job.nodes.prefix(), sys.executable,
                        os.path.join(HERE, "process_manager.py"), str(MANAGER_PORT),
                        str(job.rank_count)]
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        check(self.process.stdout.readline() == "ready\n", "the process manager listens")

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def start_slurm(nodes, *how):
    for program in ("srun", "slurmctld", "slurmd", "munged"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            harness.skip(f"{program} is not installed (slurmctld, slurmd, slurm-client, munge)")
    why = nodes.start_slurm(*how)
    if why:
        harness.skip(why)


def slurm_pmix(job):
    """srun of Open MPI's ranks."""
    start_slurm(job.nodes)
    return job.run([*job.steps(), "--mpi=pmix", *job.watched(), *job.open_mpi()], **OPEN_MPI)


def run_slurm_pmix(job):
    """slowrank before srun, which starts one with each rank."""
    start_slurm(job.nodes)
    return job.run([*job.watched(), *job.steps(), "--mpi=pmix", *job.open_mpi()], **OPEN_MPI)


def slurm_pmi2(job):
    """srun of MPICH's ranks."""
    start_slurm(job.nodes)
    return job.run([*job.steps(), "--mpi=pmi2", *job.watched(), *job.mpich()])


def slurm_arbitrary(job):
    """Rank 0 is on the last node; slowrank's coordinator on the first, as for all nodes to find."""
    start_slurm(job.nodes)
    hosts = os.path.join(job.paths.directory, "hosts")
    with open(hosts, "w", encoding="utf-8") as file:
        for rank in reversed(range(job.rank_count)):
            file.write(f"node{rank // job.nodes.ranks_per_node}\n")
    return job.run(["srun", "-m", "arbitrary", "-n", str(job.rank_count), "--mpi=pmix",
                    *job.watched(), *job.open_mpi()], **OPEN_MPI, SLURM_HOSTFILE=hosts)


def jax(job):
    """JAX takes its ranks from Slurm's variables, and meets by itself."""
    start_slurm(job.nodes)
    with ProcessManager(job):
        return job.run([*job.steps(), "--mpi=none", *job.watched(), *job.rank()])


def open_mpi(job):
    return job.run([*jobs.mpirun(job.rank_count, *job.nodes.mpirun_options()), *job.watched(),
                    *job.open_mpi()])


def open_mpi_5(job):
    """In a tree of its own, on all nodes; slowrank as a bundle."""
    script = os.path.join(HERE, "debian_tree.sh")
    bundle = os.path.join(job.paths.directory, "bundle")
    made = subprocess.run([script, "make", "open-mpi-5", "trixie", "openmpi-bin,hostname"], capture_output=True, text=True, check=False)
    if made.returncode:
        harness.skip(made.stderr.strip())
    if not shutil.which("patchelf"):
        harness.skip("patchelf is missing (scripts/install_dependencies.sh bundle)")
    subprocess.run([os.path.join(HERE, "..", "..", "scripts", "bundle.sh"), bundle], check=True,
                   stdout=subprocess.DEVNULL,
                   env=dict(os.environ, BUILD=os.path.dirname(job.paths.slowrank)))
    return job.run([
        "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n",
        str(job.rank_count), "--hostfile", job.nodes.hostfile, "--prtemca", "plm_ssh_agent",
        job.nodes.SCRIPT + " agent", "--prtemca", "plm_ssh_no_tree_spawn", "1", "--prtemca",
        "prte_if_include", "eth0", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca",
        "btl_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1",
        *job.watched(os.path.join(bundle, "slowrank")), *job.open_mpi()],
        [script, "run", made.stdout.strip()])


def mpich(job):
    return job.run([*jobs.mpich(job.rank_count), *job.nodes.mpich_options(), *job.watched(),
                    *job.mpich()])


def run_mpich(job):
    """slowrank before mpirun, which starts one with each rank."""
    return job.run([*job.watched(), *jobs.mpich(job.rank_count), *job.nodes.mpich_options(),
                    *job.mpich()])


def torchrun_command(job, folder, *node, endpoint="node0:29400"):
    """
    torchrun of that folder, and slowrank with the whole of a node. Without --redirects and --tee, Debian's
    torch 1.13 does not start on Python 3.11.
    """
    return ["env", f"PATH={folder}:{os.environ['PATH']}", *job.watched(), "torchrun", "--nnodes",
            str(job.nodes.node_count), "--nproc_per_node", str(job.nodes.ranks_per_node), *node,
            "--rdzv_backend", "c10d", "--rdzv_endpoint", endpoint, "--rdzv_id", "test",
            "--max_restarts", "1", "--redirects", "1", "--tee", "1", "--no_python", *job.rank()]


def torchrun_on_each(job, folder, **options):
    with ProcessManager(job):
        return job.run_all([
            (node, torchrun_command(job, folder, "--node_rank", str(node), **options), {})
            for node in range(job.nodes.node_count)])


def torchrun_by_srun(job, folder):
    start_slurm(job.nodes)
    with ProcessManager(job):
        return job.run(["srun", f"-N{job.nodes.node_count}", "--ntasks-per-node=1", "--mpi=none",
                        *torchrun_command(job, folder)])


# torchrun as far as it matters here: the ranks' environment.
STAND_IN_TORCHRUN = """#!/usr/bin/env python3
import os, subprocess, sys
words = sys.argv[1:sys.argv.index("--no_python")]
option = dict(zip(words[::2], words[1::2]))
local = int(option["--nproc_per_node"])
first = local * int(option.get("--node_rank", os.environ.get("SLURM_NODEID")))
address, port = option["--rdzv_endpoint"].split(":")
ranks = [subprocess.Popen(sys.argv[len(words) + 2:], env=dict(
    os.environ, RANK=str(first + i), LOCAL_RANK=str(i), LOCAL_WORLD_SIZE=str(local),
    WORLD_SIZE=str(local * int(option["--nnodes"])), MASTER_ADDR=address, MASTER_PORT=port,
    TORCHELASTIC_RUN_ID=option["--rdzv_id"], TORCHELASTIC_RESTART_COUNT="0")) for i in range(local)]
sys.exit(any([rank.wait() for rank in ranks]))
"""


def stand_in_folder(job):
    path = os.path.join(job.paths.directory, "torchrun")
    with open(path, "w", encoding="utf-8") as file:
        file.write(STAND_IN_TORCHRUN)
    os.chmod(path, 0o755)
    return job.paths.directory


def real_folder():
    """Debian's."""
    if not os.path.exists("/usr/bin/torchrun"):
        harness.skip("torchrun is not installed (python3-torch)")
    return "/usr/bin"


def torchrun(job):
    return torchrun_on_each(job, stand_in_folder(job))


def torchrun_real(job):
    return torchrun_on_each(job, real_folder())


def torchrun_elsewhere(job):
    """The endpoint, and so the coordinator, is not on rank 0's node."""
    last = job.nodes.node_count - 1
    return torchrun_on_each(job, real_folder(), endpoint=f"node{last}:29400")


def srun_torchrun(job):
    return torchrun_by_srun(job, stand_in_folder(job))


def srun_torchrun_real(job):
    return torchrun_by_srun(job, real_folder())


def each_rank(job, environment, before=(), slowranks=()):
    """A process for each rank, with an environment of its own, by hand; slowranks: other ones, by node."""
    slowranks = slowranks or [None] * job.nodes.node_count
    with ProcessManager(job):
        nodes = [rank // job.nodes.ranks_per_node for rank in range(job.rank_count)]
        return job.run_all([(node, [*before, *job.watched(slowranks[node]), *job.rank()],
                             environment(rank)) for rank, node in enumerate(nodes)])


def plain(job, before=(), slowranks=(), address="node0"):
    """What torch.distributed reads, and nothing else."""
    return each_rank(job, lambda rank: {
        "RANK": str(rank), "WORLD_SIZE": str(job.rank_count), "MASTER_ADDR": address,
        "MASTER_PORT": "29500"}, before, slowranks)


def pytorch_job(job):
    """Kubeflow's training operator tells the master's pod that it is reached at localhost."""
    return each_rank(job, lambda rank: {
        "RANK": str(rank), "WORLD_SIZE": str(job.rank_count), "MASTER_PORT": "23456",
        "MASTER_ADDR": "localhost" if rank == 0 else "node0", "PYTHONUNBUFFERED": "1",
        "KUBERNETES_SERVICE_HOST": "10.96.0.1", "HOSTNAME": f"node{rank}"})


LAUNCHERS = {launcher.__name__: launcher for launcher in (
    slurm_pmix, run_slurm_pmix, slurm_pmi2, slurm_arbitrary, open_mpi, open_mpi_5, mpich, run_mpich,
    torchrun, torchrun_real, torchrun_elsewhere, srun_torchrun, srun_torchrun_real, plain, pytorch_job, jax)}
REVERSED = ("slurm_arbitrary",)  # the last node has the first ranks
# A pod of these is a rank.
ONE_RANK_A_NODE = ("pytorch_job",)
