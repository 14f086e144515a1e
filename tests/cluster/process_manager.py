#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What MPICH's ranks ask of their launcher (PMI-1), for launchers that know nothing of MPI.

usage: process_manager.py PORT SIZE      serves until it is killed; says "ready" when it listens

A rank finds it by PMI_PORT=HOST:PORT, and says by PMI_ID who it is. A rank that comes again is the first
of the next start of all of them.
"""
import asyncio
import sys


class Job:
    """One start of all ranks: who is there, their keys, and who waits at the barrier."""

    def __init__(self, size):
        self.size, self.ranks, self.keys, self.waiting = size, set(), {}, []

    def barrier(self, writer):
        self.waiting.append(writer)
        if len(self.waiting) == self.size:
            for waits in self.waiting:
                waits.write(b"cmd=barrier_out\n")
            self.waiting = []

    def answer(self, words):
        keys, size = self.keys, self.size
        if words["cmd"] == "put":
            keys[words["key"]] = words["value"]
        value = keys.get(words.get("key"))
        return {
            "initack": f"initack rc=0\ncmd=set size={size}\ncmd=set rank={words.get('pmiid')}\n"
                       "cmd=set debug=0",
            "init": "response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": "maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
            "get_appnum": "appnum appnum=0",
            "get_universe_size": f"universe_size size={size}",
            "get_my_kvsname": "my_kvsname kvsname=job",
            "put": "put_result rc=0 msg=success",
            "get": f"get_result rc={0 if value else -1} msg=done value={value}",
            "finalize": "finalize_ack",
        }[words["cmd"]]


class Manager:
    """Each rank is of the newest start."""

    def __init__(self, size):
        self.job = Job(size)

    def join(self, rank):
        if rank in self.job.ranks:
            self.job = Job(self.job.size)
        self.job.ranks.add(rank)
        return self.job

    async def serve(self, reader, writer):
        """One rank, to its end."""
        job = None
        while line := await reader.readline():
            words = dict(word.split("=", 1) for word in line.decode().split())
            if words["cmd"] == "initack":
                job = self.join(words["pmiid"])
            if words["cmd"] == "barrier_in":
                job.barrier(writer)
            else:
                writer.write(f"cmd={job.answer(words)}\n".encode())
        writer.close()


async def main(port, size):
    await asyncio.start_server(Manager(size).serve, None, port)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
