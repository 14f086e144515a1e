"""A program whose threads are at lines that are known: each is marked by a comment. Arguments: threads to add."""
import ctypes
import os
import sys
import threading
import time

lock = threading.Lock()
pipe_end, _other_end = os.pipe()


def busy():
    number = 0
    while True:
        number += 1  # AT busy


def sleeper():
    time.sleep(1000)  # AT sleeper


def locker():
    with lock:  # AT locker
        pass


def reader():
    os.read(pipe_end, 1)  # AT reader


def called_back():
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def compare(_left, _right):
        time.sleep(1000)  # AT compare
        return 0

    numbers = (ctypes.c_int * 4)(4, 3, 2, 1)
    ctypes.CDLL(None).qsort(numbers, 4, 4, compare)  # AT called_back


def generator():
    yield time.sleep(1000)  # AT generator


def in_generator():
    for _ in generator():  # AT in_generator
        pass


def über():
    return (lambda: time.sleep(1000))()  # AT über


def many(count):
    for _ in range(count):
        threading.Thread(target=sleeper, daemon=True).start()


lock.acquire()
targets = [sleeper, locker, reader, called_back, in_generator, über]
for argument in sys.argv[1:]:
    if argument == "busy":
        targets.append(busy)
    elif argument == "fork":
        if os.fork():
            os.wait()
            sys.exit()
        print(os.getpid(), flush=True)
    else:
        many(int(argument))
for target in targets:
    threading.Thread(target=target, name=target.__name__, daemon=True).start()
time.sleep(0.2)
print("ready", flush=True)
sys.stdin.read()  # AT <module>
