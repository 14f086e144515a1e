#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slowrank stacks on processes that change, end, lie, or are built in ways that are hard to read. usage: as test_stacks.py."""
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import test_stacks  # noqa: E402
from test_stacks import HERE, find_pythons, look, stacks_of  # noqa: E402

JOB = os.path.join(HERE, "odd_job.py")
PAGE = 4096


def start(*command, **options):
    """A program that says when it is ready."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
    line = process.stdout.readline()
    assert line == "ready\n", line
    return process


class Odd:
    """One of odd_job.py, until the end of the with."""

    def __init__(self, python, *arguments):
        self.process = start(python, JOB, *map(str, arguments))
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def ended(self):
        return self.process.poll() is not None


def lines_of_job():
    with open(JOB, encoding="utf-8") as file:
        return {mark.group(1): number for number, text in enumerate(file, 1) if (mark := re.search(r"# AT (\S+)$", text))}


LINES = lines_of_job()
PLACES = {"bottom": "descend", "generated": "generate"}


def frame(place):
    """How a frame ends that is at a place: names are qualified from 3.11 on."""
    return f"{PLACES.get(place, place)} (odd_job.py:{LINES[place]})"


def calls_of_job():
    """Every function's first and last line: a frame that is told lies within."""
    with open(JOB, encoding="utf-8") as file:
        lines = file.read().splitlines()
    begins = [(number, re.match(r" *(?:async )?def (\w+)", text)) for number, text in enumerate(lines, 1)]
    return {found.group(1): number for number, found in begins if found}


def writable(pid):
    """What the process has of memory that can be written to."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        ranges = [line.split()[:2] for line in file if "[vvar" not in line]
    return [tuple(int(end, 16) for end in area.split("-")) for area, rights in ranges if rights.startswith("rw")]


def checksum(pid):
    total = hashlib.sha256()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for first, end in writable(pid):
            for at in range(first, end, 1 << 20):
                memory.seek(at)
                total.update(memory.read(min(1 << 20, end - at)))
    return total.hexdigest()


class Watch(threading.Thread):
    """Notes what state the process's threads are in, and who traces it, all the time."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.seen, self.looks, self.over = pid, set(), 0, False

    def run(self):
        while not self.over:
            try:
                for tid in os.listdir(f"/proc/{self.pid}/task"):
                    with open(f"/proc/{self.pid}/task/{tid}/status", encoding="utf-8", errors="replace") as file:
                        text = file.read()
                    self.seen.add((re.search(r"State:\t(\S)", text).group(1), re.search(r"TracerPid:\t(\d+)", text).group(1)))
            except (OSError, AttributeError):
                continue  # a thread that ends
            self.looks += 1

    def stop(self):
        self.over = True
        self.join()


class TestOdd(unittest.TestCase):
    def check(self, answer, *options):
        """It did not crash, and said what it saw and what not."""
        self.assertIn(answer.returncode, options or (0,), answer.stderr)
        self.assertTrue(answer.stderr.startswith("slowrank"), answer.stderr)
        for word in ("Sanitizer", "runtime error"):
            self.assertNotIn(word, answer.stderr)

    def check_frames(self, text):
        """Whatever is told of the job's own file is a line of the function that is named."""
        begins = calls_of_job()
        numbers = sorted(begins.values())
        for name, line in re.findall(r"(?:^|[ ;.])(\w+) \(odd_job\.py:(\d+)\)", text, re.M):
            if name not in begins:
                continue
            later = [number for number in numbers if number > begins[name]]
            self.assertGreaterEqual(int(line), begins[name], (name, line))
            self.assertLess(int(line), (later or [10**6])[0] if name != "in_tasks" else begins["exec_always"], (name, line))

    def each(self, *arguments):
        for (version, _), python in find_pythons().items():
            if version != "3.8":
                with Odd(python, *arguments) as job:
                    yield version, job

    def test_threads_come_and_go(self):
        for _, job in self.each("churn"):
            watch = Watch(job.pid)
            watch.start()
            answer = look(job.pid, "--seconds", "2", "--hz", "200", "--format", "folded")
            watch.stop()
            self.check(answer)
            self.check_frames(answer.stdout)
            self.assertFalse(job.ended())
            resting = [line for line in answer.stdout.splitlines() if frame("rest") in line]
            looks = int(re.search(r"(\d+) looks", answer.stderr).group(1))
            self.assertGreater(sum(int(line.rsplit(" ", 1)[1]) for line in resting), looks * 0.8, answer.stderr)
            self.assertIn("brief (odd_job.py:", answer.stdout)
            self.assertFalse({state for state, _ in watch.seen} & {"T", "t"}, watch.seen)
            self.assertEqual({tracer for _, tracer in watch.seen}, {"0"})

    def test_deep(self):
        """A thousand frames and more: the innermost are told, and that there are others."""
        for depth in (100, 1000, 50000):
            for version, job in self.each("deep", depth):
                answer = look(job.pid)
                self.check(answer)
                stack = [part for part in stacks_of(answer.stdout) if any(frame("bottom") in line for line in part)]
                self.assertEqual(len(stack), 1, (version, answer.stdout[-3000:]))
                python = [line for line in stack[0] if ".py:" in line]
                self.assertIn(frame("rest"), python[0])
                self.assertIn(frame("bottom"), python[1])
                self.assertTrue(all(frame("descend") in line for line in python[2:100]), python)
                if depth == 100:
                    self.assertEqual(len([line for line in python if frame("descend") in line]), 100)
                else:
                    self.assertLessEqual(len(python), 128)
                    self.assertTrue(stack[0][-1].startswith("(its outermost frames are not known"), stack[0][-1])

    def test_up_and_down(self):
        for _, job in self.each("climb", 1000):
            answer = look(job.pid, "--seconds", "1", "--hz", "200", "--format", "folded")
            self.check(answer)
            self.check_frames(answer.stdout)
            self.assertIn("climb (odd_job.py:", answer.stdout)
            self.assertFalse(job.ended())

    def test_code_that_goes(self):
        for _, job in self.each("compile"):
            answer = look(job.pid, "--seconds", "2", "--hz", "200", "--format", "folded")
            self.check(answer)
            self.check_frames(answer.stdout)
            for function, _, line in re.findall(r"(\w+) \((made\d\.py):(\d+)\)", answer.stdout):
                self.assertRegex(function, r"^f\d+$|^module$")
                self.assertIn(int(line), (1, 2, 3))
            self.assertFalse(job.ended())

    def test_coroutines_and_generators(self):
        for version, job in self.each("async"):
            answer = look(job.pid, "--seconds", "1", "--hz", "100")
            self.check(answer)
            self.check_frames(answer.stdout)
            coroutine = [part for part in stacks_of(answer.stdout) if any(frame("inner") in line for line in part)]
            self.assertTrue(coroutine, (version, answer.stdout))
            places = [line for line in coroutine[0] if "odd_job.py" in line]
            for line, place in zip(places, ("rest", "inner", "outer", "<lambda>")):
                self.assertTrue(frame(place) in line if place in LINES else place in line, places)
            generator = [part for part in stacks_of(answer.stdout) if any(frame("generated") in line for line in part)]
            self.assertTrue(generator, (version, answer.stdout))
            self.assertEqual(len([line for line in generator[0] if frame("generate") in line]), 40)

    def test_becomes_another_program(self):
        """exec() while it is looked at: the look ends, with the reason, and nothing of both programs is mixed."""
        for _, job in self.each("exec"):
            for _ in range(8):
                answer = look(job.pid, "--seconds", "20", "--hz", "300", "--format", "folded")
                self.check(answer, 0, 2)
                self.check_frames(answer.stdout)
                self.assertFalse(job.ended())
                self.assertRegex(answer.stderr, "runs another program|cannot be read: there is none")

    def test_ends_at_any_moment(self):
        source = random.Random(1)
        for _ in range(60):
            process = start(sys.executable, JOB, "rest")
            timer = threading.Timer(source.random() * 0.08, process.kill)
            timer.start()
            answer = look(process.pid, "--seconds", "20", "--hz", "1000")
            timer.join()
            process.communicate()
            self.check(answer, 0, 2)
            self.assertRegex(answer.stderr, "it has ended|there is none|No such process")

    def test_not_touched(self):
        """Its memory is the same to the byte after a thousand looks; nobody traced it, and it was never stopped."""
        for _, job in self.each("rest"):
            before = checksum(job.pid)
            watch = Watch(job.pid)
            watch.start()
            answer = look(job.pid, "--seconds", "2", "--hz", "500")
            watch.stop()
            self.check(answer)
            self.assertGreater(watch.looks, 20)
            self.assertEqual(watch.seen, {("S", "0")})
            self.assertEqual(checksum(job.pid), before)

    def test_stopped_by_its_user(self):
        with Odd(sys.executable, "rest") as job:
            os.kill(job.pid, signal.SIGSTOP)
            time.sleep(0.1)
            answer = look(job.pid, "--seconds", "0.5", "--hz", "50")
            self.check(answer)
            self.assertIn(frame("rest"), answer.stdout)
            with open(f"/proc/{job.pid}/stat", encoding="utf-8") as file:
                self.assertEqual(file.read().rsplit(") ", 1)[1][0], "T")

    def test_no_memory(self):
        """A zombie and a thread of the kernel's have none."""
        process = subprocess.Popen(["true"])
        time.sleep(0.3)
        answer = look(process.pid)
        process.wait()
        self.assertEqual(answer.returncode, 2, answer.stdout)
        self.assertRegex(answer.stderr, f"process {process.pid}( cannot be read)?: .")
        with open("/proc/2/stat", encoding="utf-8") as file:
            if "(kthreadd)" in file.read():
                answer = look(2)
                self.assertEqual(answer.returncode, 2)
                self.assertIn("the kernel's own", answer.stderr)

    def pages_read(self, pid):
        """The pages of memory that a look reads."""
        log = os.path.join(tempfile.gettempdir(), f"odd-{os.getpid()}.strace")
        look(pid, before=("strace", "-f", "-o", log, "-e", "trace=pread64"))
        with open(log, encoding="utf-8") as file:
            pages = {int(at) for at in re.findall(r", 4096, (\d+)\) = 4096", file.read())}
        os.unlink(log)
        self.assertGreater(len(pages), 5)
        return pages

    def lie(self, pid, pages, seed, until):
        """Writes what is wrong over what a look reads; the process sleeps, and does not see it."""
        source = random.Random(seed)
        areas = writable(pid)
        pages = [page for page in pages if any(first <= page < end for first, end in areas)]
        self.assertTrue(pages)
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            while not until.is_set():
                first, end = source.choice(areas)
                at = source.choice(pages) + 8 * source.randrange(PAGE // 8)
                word = source.choice((
                    0, at, at - 8, source.choice(pages) + 8 * source.randrange(PAGE // 8), source.randrange(first, end), source.getrandbits(64),
                    2**64 - 1, 2**63, 2**47 - 8, source.getrandbits(12), first, end - 1))
                memory.seek(at)
                memory.write(word.to_bytes(8, "little"))

    @unittest.skipUnless(shutil.which("strace"), "needs strace")
    def test_memory_that_lies(self):
        for number, (version, job) in enumerate(self.each("rest")):
            pages = self.pages_read(job.pid)
            over = threading.Event()
            liar = threading.Thread(target=self.lie, args=(job.pid, pages, number, over), daemon=True)
            looking = subprocess.Popen(
                [test_stacks.SLOWRANK, "stacks", "--pid", str(job.pid), "--seconds", "2", "--hz", "1000", "--format", "folded"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="strict")
            time.sleep(0.5)
            liar.start()
            out, errors = looking.communicate(timeout=60)
            self.assertEqual(looking.returncode, 0, (version, errors))
            self.assertRegex(errors, r"\d+ looks")
            for _ in range(10):  # from its begin
                answer = look(job.pid)
                self.check(answer)
                self.assertRegex(answer.stdout, "^process .*(Python 3|no Python frames: .)")
            over.set()
            liar.join()
            self.assertFalse(job.ended())
            self.assertFalse([c for c in out if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)])

    def test_stripped_interpreter(self):
        """Without .symtab the interpreter is found by what its dynamic table has."""
        with tempfile.TemporaryDirectory() as folder:
            for (version, _), python in find_pythons().items():
                copy = os.path.join(folder, f"python{version}")
                real = os.path.realpath(python)
                if version == "3.8" or not shutil.which("strip") or subprocess.run(["strip", "-o", copy, real], check=False).returncode:
                    continue
                # The copy's own folder says nothing of where its modules are.
                home = subprocess.run([real, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, check=True).stdout.strip()
                with self.subTest(version=version):
                    process = start(copy, JOB, "rest", env=dict(os.environ, PYTHONHOME=home))
                    answer = look(process.pid)
                    process.kill()
                    process.communicate()
                    self.check(answer)
                    self.assertIn(frame("rest"), answer.stdout)

    def test_native_builds(self):
        """Stripped, statically linked, without frame pointers, of another C library: what can be known of it is told."""
        compiler = shutil.which("cc")
        if not compiler:
            self.skipTest("needs cc")
        source = os.path.join(HERE, "odd_native.c")
        tried = []
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "odd_native")
            # Statically linked programs without relocation have no table for unwinding in memory.
            for name, command, whole, named in (
                ("plain", [compiler, "-O2", "-pthread"], True, True),
                ("frame pointers alone", [compiler, "-O2", "-pthread", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"], True, True),
                ("stripped", [compiler, "-O2", "-pthread", "-s"], True, False),
                ("static", [compiler, "-O2", "-pthread", "-static"], False, True),
                ("static and stripped", [compiler, "-O2", "-pthread", "-static", "-s"], False, False),
                ("static, position-independent, stripped", [compiler, "-O2", "-pthread", "-static-pie", "-s"], True, False),
                ("musl", ["musl-gcc", "-O2", "-static", "-s"], False, False),
            ):
                if not shutil.which(command[0]) or subprocess.run([*command, "-o", program, source], capture_output=True, check=False).returncode:
                    continue
                process = start(program)
                answer = look(process.pid, "--seconds", "0.3")
                process.kill()
                process.communicate()
                with self.subTest(build=name):
                    self.check(answer)
                    self.assertIn("no Python interpreter was found", answer.stdout)
                    stacks = stacks_of(answer.stdout)
                    self.assertEqual(len(stacks), 2, answer.stdout)
                    for stack in stacks:
                        self.assertRegex(stack[0], r"pause")
                        if "no BPF" in answer.stderr:
                            continue
                        if not whole:  # and that is said
                            self.assertEqual(stack[-1], "(its outermost frames are not known)", stack)
                        elif named:
                            self.assertIn("native_inner (odd_native)", stack)
                            self.assertIn("native_outer (odd_native)", stack)
                        else:
                            self.assertGreater(len([line for line in stack if line.startswith("odd_native+0x")]), 2, stack)
                    tried.append(name)
        print("builds:", ", ".join(tried))

    def test_waits_in_vfork(self):
        """A parent that cannot be woken until its child ends; the two have one memory."""
        if not shutil.which("cc"):
            self.skipTest("needs cc")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "odd_native")
            subprocess.run(["cc", "-O2", "-pthread", "-o", program, os.path.join(HERE, "odd_native.c")], check=True)
            process = start(program, "vfork", start_new_session=True)
            time.sleep(0.3)
            answers = [look(process.pid), *(look(int(child)) for child in self.children(process.pid))]
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        self.assertEqual(len(answers), 2)
        for answer in answers:
            self.check(answer)
        self.assertIn("vfork", answers[0].stdout)
        self.assertIn("pause", answers[1].stdout)

    @staticmethod
    def children(pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return file.read().split()


if __name__ == "__main__":
    test_stacks.SLOWRANK = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
