#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of scripts/deploy that start slowrank: unit, manifests, and what Slurm runs, the last with a real watch.

usage: tests/packaging/test_deploy.py BUILD_DIR
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
DEPLOY = os.path.join(ROOT, "scripts", "deploy")
PROBE_RIGHTS = ["BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH"]  # docs/operations.md, Privileges


def check(condition, text):
    if not condition:
        sys.exit(f"deploy: {text}")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def options(slowrank, command):
    text = subprocess.run([slowrank, command, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"--[a-z][a-z-]+", text))


def check_arguments(slowrank, words, where):
    """COMMAND [OPTION...] of an example are some of this program."""
    known = options(slowrank, words[0])
    for word in words[1:]:
        check(not word.startswith("--") or word in known, f"{where}: {words[0]} has no {word}")


def unit(slowrank, directory):
    source = os.path.join(DEPLOY, "systemd", "slowrank-coordinator@.service")
    text = read(source)
    start = re.search(r"^ExecStart=/usr/bin/slowrank ((?:.*\\\n)*.*)$", text, re.MULTILINE).group(1)
    check_arguments(slowrank, start.replace("\\\n", " ").split(), "unit")
    if not shutil.which("systemd-analyze"):
        return
    path = os.path.join(directory, "slowrank-coordinator@job.service")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("/usr/bin/slowrank", slowrank))
    told = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, check=False)
    check(told.returncode == 0 and not told.stderr, f"systemd-analyze verify: {told.stderr}")
    told = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=15", path],
                          capture_output=True, text=True, check=False)
    check(told.returncode == 0, f"exposed by more than 1.5: {told.stdout[-100:]}{told.stderr}")


def check_pod(slowrank, spec, where):
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    mounted = set()
    check(spec["automountServiceAccountToken"] is False, f"{where}: has a token of the API")
    for container in spec.get("initContainers", []) + spec["containers"]:
        mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
        check(mounts <= volumes, f"{where}: mounts {mounts - volumes}")
        mounted |= mounts
        if not container["image"].startswith("slowrank:"):
            continue
        version = subprocess.run([slowrank, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        check(container["image"] == f"slowrank:{version}", f"{where}: {container['image']} is not version {version}")
        security = container["securityContext"]
        rights = security["capabilities"]
        check(not security.get("privileged") and security["allowPrivilegeEscalation"] is False and rights["drop"] == ["ALL"],
              f"{where}: {security}")
        if "args" in container:
            check(rights.get("add", []) == [], f"{where}: a coordinator needs no rights")
            check_arguments(slowrank, container["args"], where)
        else:
            check(rights["add"] == PROBE_RIGHTS, f"{where}: {rights}")
            check(os.path.basename(container["command"][0]) == "attach-labelled.sh", f"{where}: {container['command']}")
        check("memory" in container["resources"]["limits"], f"{where}: no limit of memory")
    check(mounted == volumes, f"{where}: nobody mounts {volumes - mounted}")


def manifests(slowrank):
    try:
        import yaml  # pylint: disable=import-outside-toplevel
    except ImportError:
        return
    kinds = set()
    for path in glob.glob(os.path.join(DEPLOY, "kubernetes", "*.yml")):
        documents = list(yaml.safe_load_all(read(path)))
        labels = [document["spec"]["template"]["metadata"]["labels"] for document in documents
                  if "template" in document.get("spec", {})]
        for document in documents:
            where = f"{os.path.basename(path)}, {document['kind']}"
            kinds.add(document["kind"])
            check(document["apiVersion"] and document["metadata"]["name"], where)
            spec = document.get("spec", {})
            if document["kind"] in ("DaemonSet", "Job"):
                check_pod(slowrank, spec["template"]["spec"], where)
            elif document["kind"] == "Pod":
                check_pod(slowrank, spec, where)
            selector = spec.get("selector", {})
            selector = selector.get("matchLabels", selector)
            check(not selector or selector in labels, f"{where}: nothing has {selector}")
    check(kinds == {"Namespace", "DaemonSet", "Service", "Job", "Pod"}, f"kinds: {kinds}")


def scripts():
    if not shutil.which("shellcheck"):
        return
    files = [path for path in glob.glob(os.path.join(DEPLOY, "**", "*"), recursive=True)
             if os.path.isfile(path) and read(path).startswith("#!/bin/sh")]
    check(len(files) >= 9, f"scripts: {files}")
    told = subprocess.run(["shellcheck", *files], capture_output=True, text=True, check=False)
    check(told.returncode == 0, told.stdout)


def wait_for(condition, text):
    deadline = time.monotonic() + 60
    while not condition():
        check(time.monotonic() < deadline, text)
        time.sleep(0.1)


def watch(slowrank, directory):
    """Prolog, labelled task, epilog, as slurmd runs them on a node."""
    records, run = os.path.join(directory, "records"), os.path.join(directory, "run")
    environment = dict(os.environ, SLURM_JOB_ID="4711", SLURM_JOB_NUM_NODES="1", RECORDS=records, RUN=run, PERIOD="1",
                       SLOWRANK=slowrank)
    for name in ("SLOWRANK_JOB", "SLOWRANK_LEADER", "SLOWRANK_COORDINATOR"):
        environment.pop(name, None)

    def step(script):
        with subprocess.Popen([os.path.join(DEPLOY, "slurm", script)], env=environment, start_new_session=True,
                              stdout=subprocess.PIPE, text=True) as process:
            told, _ = process.communicate(timeout=30)
            check(process.returncode == 0, f"{script} ends with {process.returncode}")
            try:
                os.killpg(process.pid, signal.SIGKILL)  # as slurmd does with what is left of it
            except ProcessLookupError:
                pass
        return told

    step("prolog.sh")
    try:
        label = step("task_prolog.sh")
        check(label == "export SLOWRANK_JOB=slurm-4711\n", f"label: {label}")
        log = os.path.join(records, "slurm-4711.txt")
        labelled = dict(environment, SLOWRANK_JOB="slurm-4711")
        # Another job, one whose name is no name, and one with a slowrank of its own are not this agent's.
        others = [subprocess.Popen(["sleep", "100"], env=dict(environment, SLOWRANK_JOB=name))
                  for name in ("slurm-4712", "../slurm-4711")]
        with subprocess.Popen(["sh", "-c", "sleep 100 & wait"], env=labelled, start_new_session=True) as task:
            try:
                wait_for(lambda: os.path.exists(log) and "watching" in read(log), "the labelled task is not watched")
                time.sleep(2.5)  # two more looks
            finally:
                os.killpg(task.pid, signal.SIGTERM)
        wait_for(lambda: "Job\n" in read(log), "no report when the task has ended")
    finally:
        step("epilog.sh")
        for other in others:
            other.kill()
            other.wait()
    text = read(log)
    check(text.count("watching") == 1 and "watching 2 processes" in text, f"watched once: {text}")
    check(re.search(r"^  slurm-4711: ", text, re.MULTILINE), f"report: {text}")
    check([name for name in os.listdir(records) if re.fullmatch(r"slurm-4711-\d+T\d+\.slr", name)], f"{os.listdir(records)}")
    check(not os.listdir(run), f"left: {os.listdir(run)}")
    left = subprocess.run(["pgrep", "-f", "attach-labelled.sh --job slurm-4711"], capture_output=True, text=True, check=False)
    check(not left.stdout, f"left: {left.stdout}")


def main():
    slowrank = os.path.join(os.path.abspath(sys.argv[1]), "slowrank")
    with tempfile.TemporaryDirectory() as directory:
        unit(slowrank, directory)
        manifests(slowrank)
        scripts()
        if os.geteuid():
            print("skipped: a watch of Slurm's jobs takes root; the rest is good")
            sys.exit(77)
        watch(slowrank, directory)


if __name__ == "__main__":
    main()
