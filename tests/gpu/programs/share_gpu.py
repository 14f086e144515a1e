#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""share_gpu.py FILE ARGUMENTS...: a rank that shares the first GPU with all others.

NCCL takes it for a host of its own (NCCL_HOSTID), so that it does not refuse the second rank of a GPU and
goes over sockets; frameworks see one GPU and the first local rank.
"""
import os
import sys

os.environ.update(
    NCCL_HOSTID=f"rank-{os.environ['RANK']}", NCCL_SOCKET_IFNAME="lo", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1",
    CUDA_VISIBLE_DEVICES=os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0],
    XLA_PYTHON_CLIENT_PREALLOCATE="false")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
