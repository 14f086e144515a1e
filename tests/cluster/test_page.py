#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page live, in a browser beside a real job with a fault: the incident is there soon after its alert."""
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "page"))
import browser  # noqa: E402
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

JOB = {"steps": 200, "step_ms": 20, "compute_ms": 0.5, "faults": ["rank=2 kind=compute first=60 last=199 size=80"]}
WITHIN_S = 2
SHOWN = "[...document.querySelectorAll('.incident .what')].some(one => one.textContent.startsWith('rank 2 '))"


def first_alert(path):
    """When the first alert of the faulty rank was written; None: there is none."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        found = [json.loads(line) for line in file if line.endswith("\n")]
    return time.time() if any(one["verdict"]["ranks"] == [2] for one in found) else None


def ask(address, path, **headers):
    """The status of an answer, its headers, its bytes."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address + path, headers=headers), timeout=10) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def check_parts(address):
    """What is asked for is what comes: who has it already is sent nothing, strangers' questions are refused."""
    status, headers, body = ask(address, "page.json", **{"Accept-Encoding": "deflate"})
    data = json.loads(zlib.decompress(body))
    check((status, headers["Cache-Control"], "parts" in data) == (200, "private, no-cache", False), f"{status} {headers}")
    check(ask(address, "", **{"If-None-Match": ask(address, "")[1]["ETag"]})[0] == 304, "the page itself is sent once")
    trail = data["trail"]
    base, last = f"page/{trail['layout']}/", trail["column_count"] - 1
    status, headers, body = ask(address, f"{base}heat/0/0-3/0-{last}")
    check((status, len(zlib.decompress(body)), headers["Cache-Control"]) == (200, 4 * 2 * (last + 1), "no-store"),
          f"the map, of which the newest column may change: {status} {headers}")
    status, headers, _ = ask(address, f"{base}heat/0/0-3/0-{last - 1}")
    check((status, "immutable" in headers["Cache-Control"]) == (200, True), f"what is finished may be kept: {status} {headers}")
    for path, wanted in ((f"{base}heat/0/0-3", 400), (f"{base}heat/0/0-3/0-{last}/", 400), (f"{base}heat/0/0-300/0-3", 400), (base, 400),
                         (f"{base}heat/x/0-3/0-3", 400), ("page/", 400), ("page/x", 400), (f"{base}../page.json", 400),
                         (f"{base}heat/0/0-4/0-3", 404), (f"{base}heat/0/0-3/300-301", 404), (f"{base}track/9/0-1", 404), ("page/old-1-2/rows", 410)):
        check(ask(address, path)[0] == wanted, f"{path}: {ask(address, path)[0]} instead of {wanted}")


def check_only_news(tab):
    """Of the map the page asked for what was new alone: few columns were asked for more than once."""
    asked = tab.script("performance.getEntriesByType('resource').map(one => one.name)")
    layouts = {}
    for name in asked:
        found = re.search(r"/page/([^/]+)/heat/0/0-3/([0-9]+)-([0-9]+)$", name)
        if found:
            layouts.setdefault(found.group(1), []).append(range(int(found.group(2)), int(found.group(3)) + 1))
    ranges = max(layouts.values(), key=len)
    twice = sum(map(len, ranges)) - len(set().union(*ranges))
    check(len(ranges) > 2 and twice <= len(ranges), f"{twice} columns again in {len(ranges)} questions: {ranges}")


def live(paths):
    if not browser.find():
        harness.skip("no chromium here")
    truth_path = jobs.fresh_directory(paths.directory)
    alerts, log = os.path.join(paths.directory, "alerts.jsonl"), os.path.join(paths.directory, "log")
    for path in (alerts, log):
        if os.path.exists(path):
            os.unlink(path)
    hold = jobs.Hold(paths.directory)
    command = [paths.slowrank, "run", "--http", "127.0.0.1:0", "--alerts", alerts, "--record",
               os.path.join(paths.directory, "record.slr"), "--", *jobs.mpirun(4),
               *jobs.workload_command(paths.workload, truth_path, **JOB), *hold.options]
    with open(log, "w", encoding="utf-8") as file:
        job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=file)
    with browser.Browser() as tab:
        hold.wait(4, job)
        with open(log, encoding="utf-8") as file:
            address = next(line for line in file if "the job's page is at" in line).split("at ")[1].split(",")[0]
        tab.call("Page.navigate", url=address)
        tab.wait("document.getElementById('incidents') !== null")
        hold.end()
        jobs.wait_until(lambda: first_alert(alerts), "an alert of the faulty rank", job, 30)
        told = time.time()
        tab.wait(SHOWN, 30)
        delay = time.time() - told
        print(f"the incident is on the page {delay:.2f} s after its alert was seen in the file")
        check(delay < WITHIN_S, f"the incident came {delay:.2f} s after its alert")
        check(tab.script("document.getElementById('live').className") == "on", "the page says that it is live")
        check_parts(address)
        tab.wait("!!document.getElementById('sampled-about')", 10)
        check("time on CPUs" in tab.script("document.getElementById('rank-charts').innerText"), "what was sampled is there, in a chart or by its name")
        check(job.wait(timeout=60) == 0, "the job ends well")
        check_only_news(tab)
        tab.wait("document.getElementById('live').className === 'off'", 10)
        check("rank 2 " in tab.script("document.getElementById('incidents').innerText"), "what was said last stays")
        problems = [one for one in tab.problems() if one.get("entry", {}).get("source") != "network"]
        check(not problems, f"the page complains: {problems[:3]}")


if __name__ == "__main__":
    harness.main({"live": live})
