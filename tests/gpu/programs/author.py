# SPDX-License-Identifier: Apache-2.0
"""What the author of a program knows: when each of its steps begins. Python's standard library only.

The folder in $TRUTH gets one file a rank, "rank-N": its first line is "pid PID", the others are "WHAT SECONDS",
since the epoch. WHAT is `step`: an optimizer step begins; `pass`: a pass that is no step, such as one of an
evaluation; `save` and `saved`: this rank alone writes a checkpoint. The file "stop" there has the number
of the step before which all ranks end. With $PACE, `pace` follows each step: how many milliseconds the same
few bytecodes took. With $LINE_FAULTS, line_faults.py may make the step slow. A program imports this last, and goes on when the file "begin" is
there: until then another job may have the GPUs.
"""
import os
import time

from line_faults import Lines

PATIENCE_S = 300
PACE_ROUNDS = 40_000  # about 0.5 ms


def wait_to_begin():
    deadline = time.monotonic() + PATIENCE_S
    while not os.path.exists(os.path.join(os.environ["TRUTH"], "begin")):
        if time.monotonic() > deadline:
            raise TimeoutError("nobody says that this job may begin")
        time.sleep(0.02)


def pace_ms():
    """How fast the core is: it wanders with what other guests of the machine do."""
    begun = time.perf_counter()
    for _ in range(PACE_ROUNDS):
        pass
    return 1e3 * (time.perf_counter() - begun)


class Author:
    def __init__(self):
        folder = os.environ["TRUTH"]
        self.file = os.open(os.path.join(folder, f"rank-{os.environ['RANK']}"),
                            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.stop, self.count = os.path.join(folder, "stop"), 0
        self.takes_pace = "PACE" in os.environ
        self.lines = Lines() if "LINE_FAULTS" in os.environ else None
        os.write(self.file, f"pid {os.getpid()}\n".encode())

    def tell(self, what):
        os.write(self.file, f"{what} {time.time():.6f}\n".encode())

    def step(self):
        self.tell("step")
        if self.takes_pace:
            os.write(self.file, f"pace {pace_ms():.4f}\n".encode())
        if self.lines:
            self.lines.at_step()
        self.count += 1

    def is_over(self, step=None):
        """Whether the job ends before this step (the next one, by default)."""
        try:
            with open(self.stop, encoding="ascii") as file:
                return (self.count if step is None else step) >= int(file.read())
        except FileNotFoundError:
            return False

    def steps(self):
        """Numbers of steps, for the loop of a program that has its own."""
        while not self.is_over():
            self.step()
            yield self.count - 1


wait_to_begin()
