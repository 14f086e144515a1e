#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several nodes on one machine: runs a command once on each.

    net_helper run 2 -- nodes.py 2 COMMAND...      {node} in a word of it becomes the node's number

A node has the network namespace that net_helper made for it, a host name, mounts, /tmp and /dev/shm of its
own, and one GPU. Exits with the first status that is not 0, when all have ended. Needs root.
"""
import ctypes
import os
import sys

sys.dont_write_bytecode = True
NEWNS, NEWUTS, NEWNET = 0x20000, 0x4000000, 0x40000000
PRIVATE = 0x4000 | 0x40000  # MS_REC | MS_PRIVATE
DEVICE = "slr0"
# NCCL over the network alone, as between hosts.
SOCKETS = {"NCCL_SOCKET_IFNAME": DEVICE, "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
           "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_NVLS_ENABLE": "0",
           "NCCL_CUMEM_ENABLE": "0", "GLOO_SOCKET_IFNAME": DEVICE}
LIBC = ctypes.CDLL(None, use_errno=True)


def must(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def enter_network(node):
    """Joins the network namespace that net_helper made for this node; NCCL then uses its interface."""
    pids = os.environ.get("GPU_TEST_NAMESPACE_PIDS", "").split(",")
    fd = os.open(f"/proc/{pids[node]}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    must(LIBC.setns(fd, NEWNET), "cannot enter the network namespace")
    os.close(fd)
    os.environ.update(SOCKETS)
    return DEVICE


def enter(node):
    enter_network(node)
    must(LIBC.unshare(NEWNS | NEWUTS), "cannot make a mount namespace")
    must(LIBC.mount(b"none", b"/", None, PRIVATE, None), "cannot make mounts private")
    for folder in (b"/tmp", b"/dev/shm"):
        must(LIBC.mount(b"tmpfs", folder, b"tmpfs", 0, b"mode=1777"), folder.decode())
    name = f"node{node}".encode()
    must(LIBC.sethostname(name, len(name)), "cannot set the host name")
    gpus = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    os.environ.update(CUDA_VISIBLE_DEVICES=gpus[node] if gpus else str(node),
                      NCCL_HOSTID=name.decode())


def main():
    count, command = int(sys.argv[1]), sys.argv[2:]
    children = []
    for node in range(count):
        child = os.fork()
        if child == 0:
            enter(node)
            words = [word.replace("{node}", str(node)) for word in command]
            os.execvp(words[0], words)
        children.append(child)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return next((status if status > 0 else 128 - status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main())
