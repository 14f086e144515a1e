# SPDX-License-Identifier: Apache-2.0
"""A program in a terminal of ours (a pty): what its screen shows, and keys. Knows the sequences that `slowrank watch` writes, and
takes each other one for a failure."""
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

from harness import check

SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Terminal:
    def __init__(self, words, rows=40, columns=140, environment=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm", **(environment or {})})
            os.environ.pop("NO_COLOR", None) if not environment else None
            time.sleep(0.3)  # until it has its size
            os.execv(words[0], words)
        self.rest, self.status = "", None
        self.resize(rows, columns)

    def resize(self, rows, columns):
        """The kernel tells the program."""
        self.lines, self.styles, self.row = [""] * rows, [""] * rows, 0
        self.alternate = False
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def take(self, timeout_s):
        """What the program wrote. False: it has closed its terminal."""
        if not select.select([self.fd], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        self.feed(self.rest + data.decode())
        return bool(data)

    def feed(self, text):
        while text:
            at = text.find("\x1b")
            if at:
                plain = text[:at] if at > 0 else text
                check(plain.isprintable() or not plain.strip("\r\n"), f"control characters: {plain!r}")
                self.lines[self.row] += plain
                text = text[len(plain):]
                continue
            found = SEQUENCE.match(text)
            if not found:
                break
            self.obey(*found.groups())
            text = text[found.end():]
        check(len(text) < 16, f"an unknown sequence: {text[:40]!r}")
        self.rest = text

    def obey(self, private, numbers, letter):
        if private:
            check(numbers in ("1049", "25", "7"), f"unknown mode {numbers}")
            if numbers == "1049":
                self.alternate = letter == "h"
        elif letter == "H":
            self.row = min(int(numbers.split(";")[0]), len(self.lines)) - 1
            self.lines[self.row] = self.styles[self.row] = ""
        elif letter == "J":
            self.lines, self.styles = [""] * len(self.lines), [""] * len(self.lines)
        elif letter == "m":
            self.styles[self.row] += numbers + " "
        else:
            check(letter == "K", f"unknown sequence {letter}")

    def find(self, pattern):
        """The first row that has it; -1: none."""
        for row, line in enumerate(self.lines):
            if re.search(pattern, line):
                return row
        return -1

    def wait(self, pattern, what, timeout_s=30, gone=False):
        """Until a line has the pattern, or none has it any more. Returns its row."""
        until = time.time() + timeout_s
        while (self.find(pattern) < 0) != gone:
            check(self.take(0.1), f"{what}: the program has ended: {self.lines}")
            check(time.time() < until, f"{what}: not there: " + "\n".join(self.lines))
        return self.find(pattern)

    def end(self):
        """Its exit status, when it has ended by itself."""
        until = time.time() + 10
        while self.take(0.1):
            check(time.time() < until, "it does not end")
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
