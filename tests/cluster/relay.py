#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Somebody on the network between probes and their coordinator.

  relay.py relay PORT HOST:PORT FOLDER   passes all on; keeps what each probe sends in FOLDER, and changes
                                         a byte in every seventh message of the coordinator's
  relay.py replay HOST:PORT FILE...      sends what was kept once more, on connections of its own
"""
import os
import socket
import struct
import sys
import threading

HEADER_BYTES = 8  # of nng's TCP transport, at the start of a connection and before each message


def receive(connection, length):
    parts = b""
    while len(parts) < length:
        part = connection.recv(length - len(parts))
        if not part:
            raise ConnectionError
        parts += part
    return parts


def pass_requests(probe, coordinator, path):
    with open(path, "wb") as kept:
        while data := probe.recv(65536):
            kept.write(data)
            kept.flush()
            coordinator.sendall(data)


def pass_replies(coordinator, probe):
    probe.sendall(receive(coordinator, HEADER_BYTES))
    count = 0
    while True:
        header = receive(coordinator, HEADER_BYTES)
        body = bytearray(receive(coordinator, struct.unpack(">Q", header)[0]))
        count += 1
        if count % 7 == 0:
            body[-1] ^= 1
        probe.sendall(header + body)


def quietly(function, *arguments):
    try:
        function(*arguments)
    except OSError:
        pass
    for argument in arguments:
        if isinstance(argument, socket.socket):
            argument.close()


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def relay(port, target, folder):
    server = socket.create_server(("", int(port)))
    number = 0
    while True:
        probe, _ = server.accept()
        try:
            coordinator = socket.create_connection(address(target))
        except OSError:
            probe.close()  # it comes again
            continue
        path = os.path.join(folder, f"{number}.kept")
        number += 1
        threading.Thread(target=quietly, args=(pass_requests, probe, coordinator, path),
                         daemon=True).start()
        threading.Thread(target=quietly, args=(pass_replies, coordinator, probe),
                         daemon=True).start()


def replay(target, *paths):
    """Returns when the coordinator has had time to answer."""
    for path in paths:
        with open(path, "rb") as file:
            kept = file.read()
        with socket.create_connection(address(target)) as connection:
            connection.sendall(kept)
            connection.settimeout(0.3)
            try:
                while connection.recv(65536):
                    pass
            except OSError:
                pass


if __name__ == "__main__":
    {"relay": relay, "replay": replay}[sys.argv[1]](*sys.argv[2:])
