#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""share_gpu.py FILE ARGUMENTS...: a rank that shares the first GPU with all others.

NCCL takes it for a host of its own (NCCL_HOSTID), so that it does not refuse the second rank of a GPU and
goes over sockets; frameworks see one GPU and the first local rank. Which of how many ranks of the machine it
is stays in SHARE_GPU_RANK and SHARE_GPU_RANKS.
"""
import contextlib
import os
import shutil
import subprocess
import sys


@contextlib.contextmanager
def by_kernels(folder, wanted=True):
    """CUDA's multi-process service, where it is wanted and can be had: ranks that share a GPU compute at once, and not
    in turn. Its sockets and logs are in the folder."""
    control = wanted and shutil.which("nvidia-cuda-mps-control")
    if not control:
        if wanted:
            print("ranks take turns on the GPU: there is no nvidia-cuda-mps-control", file=sys.stderr, flush=True)
        yield
        return
    for name in ("PIPE", "LOG"):
        path = os.path.join(folder, f"mps-{name.lower()}")
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o777)
        os.environ[f"CUDA_MPS_{name}_DIRECTORY"] = path
    subprocess.run([control, "-d", "-multiuser-server"], check=True)
    try:
        yield
    finally:
        subprocess.run([control], input="quit\n", text=True, check=False)


def main():
    os.environ.update(
        SHARE_GPU_RANK=os.environ["LOCAL_RANK"], SHARE_GPU_RANKS=os.environ["LOCAL_WORLD_SIZE"],
        NCCL_HOSTID=f"rank-{os.environ['RANK']}", NCCL_SOCKET_IFNAME="lo", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1",
        CUDA_VISIBLE_DEVICES=os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0],
        XLA_PYTHON_CLIENT_PREALLOCATE="false")
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])


if __name__ == "__main__":
    main()
