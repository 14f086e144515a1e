# SPDX-License-Identifier: Apache-2.0
"""A Python program that something is loaded into; as load_program.c: 42 at the end of its input, 1 when disturbed."""
import hashlib
import os
import select
import subprocess
import sys
import time


def check(good, what):
    if not good:
        print(f"load_program.py: disturbed: {what}", file=sys.stderr)
        os._exit(1)


text = bytes(range(256)) * 400
expected = hashlib.sha256(text).digest()
reader, writer = os.pipe()
print("ready", flush=True)
turn = 0
while not select.select([0], [], [], 0)[0]:
    for wait in (lambda: time.sleep(0.02), lambda: check(select.select([reader], [], [], 0.02) == ([], [], []), "select()")):
        began = time.monotonic()
        wait()
        check(time.monotonic() - began >= 0.02, "a wait was too short")
    check(hashlib.sha256(text).digest() == expected, "a sum changed")
    os.write(writer, b"%08d" % turn)
    check(os.read(reader, 8) == b"%08d" % turn, "bytes changed")
    if turn % 8 == 0:
        check(subprocess.run([sys.executable, "-S", "-c", "raise SystemExit(5)"]).returncode == 5, "a child's end")
    turn += 1
sys.exit(42)
