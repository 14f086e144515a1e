#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What MPICH's ranks ask of their launcher (PMI-1), for launchers that know nothing of MPI.

usage: process_manager.py PORT SIZE      serves until it is killed; says "ready" when it listens

A rank finds it by PMI_PORT=HOST:PORT, and says by PMI_ID who it is. PORT + 1 .. PORT + 3 are for the
same ranks, started again.
"""
import asyncio
import sys

STARTS = 4


class Job:
    """One start of all ranks: their keys, and who waits at the barrier."""

    def __init__(self, size):
        self.size, self.keys, self.waiting = size, {}, []

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

    async def serve(self, reader, writer):
        """One rank, to its end."""
        while line := await reader.readline():
            words = dict(word.split("=", 1) for word in line.decode().split())
            if words["cmd"] == "barrier_in":
                self.barrier(writer)
            else:
                writer.write(f"cmd={self.answer(words)}\n".encode())
        writer.close()


async def main(port, size):
    for start in range(STARTS):
        await asyncio.start_server(Job(size).serve, None, port + start)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
