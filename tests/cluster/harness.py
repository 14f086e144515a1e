# SPDX-License-Identifier: Apache-2.0
"""What the tests of tests/cluster share: the command line, skipping, checks."""
import argparse
import os
import sys

SKIPPED = 77  # ctest's SKIP_RETURN_CODE


class Paths:
    """Where the programs under test are, and where a test may write."""

    def __init__(self, build, directory):
        self.slowrank = os.path.join(build, "slowrank")
        self.workload = os.path.join(build, "workload_mpi")
        self.workload_nccl = os.path.join(build, "workload_nccl")
        self.hang_nccl = os.path.join(build, "hang_nccl")
        self.injector = os.path.join(build, "fault_injector")
        self.workload_mpich = os.path.join(build, "workload_mpich")
        self.communicators = os.path.join(build, "communicators")
        self.communicators_mpich = os.path.join(build, "communicators_mpich")
        self.record_calls = os.path.join(build, "tests", "record_calls")
        self.record_stacks = os.path.join(build, "tests", "record_stacks")
        self.directory = directory


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIPPED)


def check(condition, text):
    if not condition:
        raise SystemExit("FAILED: " + text)


def check_one_line(stderr, text):
    """Exactly one line of slowrank's, and it says something."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    check(len(lines) == 1 and len(lines[0]) > 15, f"{text}: one clear line expected: {stderr!r}")


def main(cases, need_root=True):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("case", choices=list(cases))
    arguments = parser.parse_args()
    if need_root and os.geteuid() != 0:
        skip("needs root, for BPF, cgroups and network namespaces")
    directory = os.path.join(os.path.abspath(arguments.directory), arguments.case)
    os.makedirs(directory, exist_ok=True)
    cases[arguments.case](Paths(os.path.abspath(arguments.build), directory))
