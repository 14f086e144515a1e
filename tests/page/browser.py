# SPDX-License-Identifier: Apache-2.0
"""A browser without a window, told what to do by the DevTools protocol over a pipe: with Python's own library alone."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ANSWER_S = 60  # on a machine with other work


def find():
    return next((shutil.which(name) for name in NAMES if shutil.which(name)), None)


class Browser:
    """One tab; a context manager."""

    def __init__(self, width=1200, height=900):
        self.width = width
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # pylint: disable=consider-using-with; what it started may still write
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        self.buffer, self.number, self.events, self.session = b"", 0, [], None

        def give_pipes():
            """It reads commands from 3, and writes answers to 4."""
            high = (os.dup(to_read), os.dup(to_write))
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(  # pylint: disable=subprocess-popen-preexec-fn,consider-using-with
            [find(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-pipe", f"--window-size={width},{height}", f"--user-data-dir={self.folder.name}", "about:blank"],
            preexec_fn=give_pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        tab = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=tab["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.folder.cleanup()

    def read(self):
        while b"\0" not in self.buffer:
            if not select.select([self.from_browser], [], [], ANSWER_S)[0]:
                raise SystemExit("FAILED: the browser does not answer")
            got = os.read(self.from_browser, 1 << 20)
            if not got:
                raise SystemExit("FAILED: the browser ended")
            self.buffer += got
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit(f"FAILED: {method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def script(self, text):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"FAILED: {text}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, condition, seconds=ANSWER_S):
        """Until an expression is true: its value."""
        end = time.time() + seconds
        while time.time() < end:
            value = self.script(condition)
            if value:
                return value
            time.sleep(0.02)
        raise SystemExit(f"FAILED: not within {seconds} s: {condition}")

    def open(self, address):
        """Until the page is drawn, with all that is in sight."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)
        self.wait("document.body && document.body.dataset.filled")

    def mouse(self, kind, x, y):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click(self, x, y):
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def picture(self, path, top=0, height=900):
        """Of all the page's width, as wide as those in docs/."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                         clip={"x": 0, "y": top, "width": self.width, "height": height, "scale": 889 / self.width})["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def problems(self):
        """What the page's scripts complained of, and what its policy refused; not what a test's own look at a canvas costs."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        return [event["params"] for event in self.events if event.get("method") in kinds and
                event["params"].get("entry", {}).get("source") != "rendering"]
