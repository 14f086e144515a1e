#!/usr/bin/env python3
"""slowrank stacks on programs that are there: each CPython that is found, with threads at known lines.

usage: test_stacks.py SLOWRANK [TEST...]. More interpreters: STACKS_PYTHONS, paths with colons between them.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = os.path.join(HERE, "threads_job.py")
SLOWRANK = None
LIMIT_S = 60


def find_pythons():
    """Paths by version: of each that runs, the first of its minor version, and those that were asked for."""
    names = ["/usr/bin/python3"] + [f"python3.{minor}" for minor in range(9, 15)] + ["python3"]
    asked = [path for path in os.environ.get("STACKS_PYTHONS", "").split(":") if path]
    found = {}
    for path in [shutil.which(name) for name in names] + asked:
        if not path:
            continue
        code = "import sys, ctypes; print('%d.%d' % sys.version_info[:2]); print(sys.executable)"
        answer = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        lines = answer.stdout.split()
        if answer.returncode == 0 and (path in asked or lines[0] not in [key[0] for key in found]):
            found[(lines[0], lines[1])] = lines[1]
    return found


def lines_of_job():
    """The line of each place: {"sleeper": 20, ...}."""
    lines = {}
    with open(JOB, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            mark = re.search(r"# AT (\S+)$", text)
            if mark:
                lines[mark.group(1)] = number
    return lines


class Job:
    """The program, from when it is ready until the end of the with."""

    def __init__(self, python, *arguments, before=()):
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen([*before, python, JOB, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        line = self.process.stdout.readline()
        if line.strip().isdigit():  # its child does the work
            self.pid = int(line)
            line = self.process.stdout.readline()
        assert line == "ready\n", line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pid != self.process.pid:
            os.kill(self.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def look(pid, *options, before=()):
    return subprocess.run([*before, SLOWRANK, "stacks", "--pid", str(pid), *options], capture_output=True, text=True, timeout=LIMIT_S, check=False)


def stacks_of(text):
    """The frames of each thread, the innermost first."""
    stacks = []
    for part in text.split("\n\n")[1:]:
        stacks.append([line.strip() for line in part.splitlines()[1:]])
    return stacks


def as_root():
    return os.geteuid() == 0


class Stacks(unittest.TestCase):
    def find(self, stacks, function):
        """The stack with a function, and the index of its first frame; names are qualified from 3.11 on."""
        line = lines_of_job()[function]
        wanted = re.compile(rf"(\S*\.)?({re.escape(function)}|<lambda>) \(threads_job\.py:{line}\)")
        for stack in stacks:
            for index, frame in enumerate(stack):
                if wanted.fullmatch(frame):
                    return stack, index
        self.fail(f"no {function} at line {line} in {stacks}")
        return None

    def check_places(self, text):
        stacks = stacks_of(text)
        for function, waits in (
            ("sleeper", "clock_nanosleep|select"),
            ("locker", "futex"),
            ("reader", r"read\(\d+\) pipe:"),
            ("compare", "clock_nanosleep|select"),
            ("<module>", r"read\(0\) "),
            ("generator", "clock_nanosleep|select"),
            ("über", "clock_nanosleep|select"),
        ):
            stack, index = self.find(stacks, function)
            self.assertRegex(stack[0], rf"^\[waiting: .*({waits})")
            self.assertGreater(index, 0)
        stack, index = self.find(stacks, "in_generator")
        inner = self.find([stack], "generator")[1]
        self.assertLess(inner, index)
        self.assertFalse(any(".py:" in frame for frame in stack[inner + 1 : index]), stack)
        return stacks

    def check_native(self, stacks):
        """C's qsort() lies between the two Python frames, and a thread's begin is the last."""
        stack, inner = self.find(stacks, "compare")
        _, outer = self.find([stack], "called_back")
        between = stack[inner + 1 : outer]
        self.assertTrue(any("qsort" in frame for frame in between), stack)
        self.assertTrue(any("libffi" in frame for frame in between), stack)
        self.assertFalse(any(".py:" in frame for frame in between), stack)
        stack, index = self.find(stacks, "sleeper")
        self.assertIn("libc", stack[-1])
        self.assertTrue(any("libc" in frame for frame in stack[:index]), stack)

    def test_each_version(self):
        tried = []
        for (version, _), python in find_pythons().items():
            with self.subTest(version=version, python=python), Job(python) as job:
                answer = look(job.pid)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                if version == "3.8":
                    self.assertIn("3.8 is not known", answer.stdout)
                    continue
                self.assertIn(f"Python {version}", answer.stdout)
                stacks = self.check_places(answer.stdout)
                if "no BPF" not in answer.stderr and os.uname().machine == "x86_64":
                    self.check_native(stacks)
                tried.append(version)
        print("versions:", *tried)
        self.assertTrue(tried)

    def test_without_rights(self):
        """An ordinary user sees its own process by /proc alone."""
        if not as_root() or not shutil.which("setpriv"):
            self.skipTest("needs root and setpriv")
        user = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        for path in (SLOWRANK, JOB):
            if subprocess.run([*user, "test", "-r", path], check=False).returncode:
                self.skipTest(f"{path} cannot be read by others")
        with Job("/usr/bin/python3", before=user) as job:
            answer = look(job.pid, before=user)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn("no BPF", answer.stderr)
            self.check_places(answer.stdout)
        answer = look(os.getpid(), before=user)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("ermi", answer.stderr)

    def test_forked(self):
        """A child that was forked has its parent's thread structures, with other numbers."""
        with Job(sys.executable, "fork") as job:
            self.check_places(look(job.pid).stdout)

    def test_counts(self):
        """Many looks: a thread that sleeps has one stack, one that runs is seen at its line, and looks are as often as was asked."""
        with Job(sys.executable, "busy") as job:
            answer = look(job.pid, "--seconds", "2", "--hz", "20", "--format", "folded")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        counts = {}
        for line in answer.stdout.splitlines():
            stack, times = line.rsplit(" ", 1)
            for function in ("sleeper", "busy"):
                if f";{function} (threads_job.py:" in stack:
                    counts[function] = counts.get(function, 0) + int(times)
        looks = int(re.search(r"(\d+) looks", answer.stderr).group(1))
        self.assertGreaterEqual(looks, 10)
        self.assertLessEqual(looks, 41)
        self.assertEqual(counts["sleeper"], looks)
        self.assertGreater(counts["busy"], looks / 2)
        sleeping = [line for line in answer.stdout.splitlines() if ";sleeper (" in line]
        self.assertEqual(len(sleeping), 1, sleeping)
        frames = sleeping[0].split(";")
        self.assertTrue(frames[-1].startswith("[waiting: "), frames)

    def test_never_held_up(self):
        """No thread is stopped, traced, or comes to run for it: sleeping threads' switches do not grow by a thousand looks."""
        with Job(sys.executable) as job:
            time.sleep(0.5)  # the main thread goes to sleep, too

            def switches():
                counts = []
                for tid in sorted(os.listdir(f"/proc/{job.pid}/task")):
                    with open(f"/proc/{job.pid}/task/{tid}/status", encoding="ascii") as file:
                        counts.append([line for line in file if "ctxt_switches" in line or line.startswith("TracerPid")])
                return counts

            before = switches()
            answer = look(job.pid, "--seconds", "2", "--hz", "500")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertGreater(int(re.search(r"(\d+) looks", answer.stderr).group(1)), 100)
            self.assertEqual(switches(), before)
            for line in sum(before, []):
                if line.startswith("TracerPid"):
                    self.assertEqual(line.split()[1], "0")
            with open(f"/proc/{job.pid}/stat", encoding="utf-8") as file:
                self.assertEqual(file.read().rsplit(") ", 1)[1][0], "S")

    def test_no_forbidden_calls(self):
        """What slowrank asks of the kernel: no trace, no signal, no write to the process's memory."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        log = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"stacks-{os.getpid()}.strace")
        with Job(sys.executable) as job:
            answer = look(job.pid, before=("strace", "-f", "-o", log, "-e", "trace=ptrace,kill,tgkill,tkill,process_vm_writev,pidfd_send_signal,openat"))
            pid = job.pid
        self.assertEqual(answer.returncode, 0, answer.stderr)
        with open(log, encoding="utf-8", errors="replace") as file:
            calls = file.read()
        os.unlink(log)
        for call in ("ptrace(", "process_vm_writev(", "pidfd_send_signal("):
            self.assertNotIn(call, calls)
        for number in re.findall(r"\bt?g?kill\((\d+)", calls):
            self.assertNotEqual(int(number), pid)  # its own helper it may end
        opened = [line for line in calls.splitlines() if f'"/proc/{pid}/' in line]
        self.assertTrue(any("/mem" in line for line in opened))
        for line in opened:
            self.assertNotRegex(line, "O_WRONLY|O_RDWR")

    def test_ends_meanwhile(self):
        with Job(sys.executable) as job:
            looking = subprocess.Popen([SLOWRANK, "stacks", "--pid", str(job.pid), "--seconds", "30", "--hz", "200"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            time.sleep(1)
            os.kill(job.pid, signal.SIGKILL)
            started = time.monotonic()
            out, errors = looking.communicate(timeout=LIMIT_S)
        self.assertLess(time.monotonic() - started, 5)
        self.assertEqual(looking.returncode, 0, errors)
        self.assertIn("sleeper (threads_job.py:", out)
        self.assertIn("it has ended", errors)

    def test_refused(self):
        """Wrong options, no process, and one that is no Python program."""
        for options in (["--pid", "x"], ["--hz", "0", "--pid", "1"], ["--format", "xml", "--pid", "1"], ["--what"], []):
            answer = subprocess.run([SLOWRANK, "stacks", *options], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(answer.returncode, 2, options)
            self.assertIn("slowrank stacks:", answer.stderr)
        self.assertEqual(look(2**22 + 1).returncode, 2)
        with subprocess.Popen(["sleep", "1000"]) as sleeper:
            time.sleep(0.3)
            answer = look(sleeper.pid)
            sleeper.kill()
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("no Python frames: no Python interpreter was found", answer.stdout)
        self.assertRegex(answer.stdout, r"\[waiting: clock_nanosleep")

    def test_many_threads(self):
        with Job(sys.executable, "600") as job:
            answer = look(job.pid)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        stacks = self.check_places(answer.stdout)
        line = lines_of_job()["sleeper"]
        self.assertEqual(len([stack for stack in stacks if f"sleeper (threads_job.py:{line})" in stack]), 601)

    def test_too_many_threads(self):
        with Job(sys.executable, "2100") as job:
            answer = look(job.pid)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(len(stacks_of(answer.stdout)), 2048)
        self.assertRegex(answer.stderr, r"; 5\d threads are left out")
        self.assertIn("no Python frames: it has more than 2048 threads", answer.stdout)

    def test_names_steer_no_terminal(self):
        """The program's file has a name with control characters."""
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "odd\x1b[2J.py")
            with open(program, "w", encoding="utf-8") as file:
                file.write("import time\nprint('ready', flush=True)\ntime.sleep(1000)\n")
            with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as process:
                self.assertEqual(process.stdout.readline(), "ready\n")
                time.sleep(0.2)
                answer = look(process.pid)
                process.kill()
        self.assertIn("(odd?[2J.py:3)", answer.stdout)
        self.assertFalse([c for c in answer.stdout if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)])

    def test_in_container(self):
        """A process with a pid namespace of its own has other numbers for its threads, with BPF and without."""
        if not as_root() or not shutil.which("unshare"):
            self.skipTest("needs root and unshare")
        with Job(sys.executable, before=("unshare", "--pid", "--fork", "--kill-child")) as job:
            with open(f"/proc/{job.pid}/task/{job.pid}/children", encoding="ascii") as file:
                child = int(file.read().split()[0])
            self.check_places(look(child).stdout)
            without = ("setpriv", "--bounding-set=-bpf,-sys_admin", "--inh-caps=-bpf,-sys_admin")
            if shutil.which("setpriv"):
                answer = look(child, before=without)
                self.assertIn("no BPF", answer.stderr)
                self.check_places(answer.stdout)


if __name__ == "__main__":
    SLOWRANK = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
