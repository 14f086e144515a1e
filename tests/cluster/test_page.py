#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page live, in a browser, and `slowrank watch` in a terminal beside a real job with a fault: the incident is there soon after its alert."""
import contextlib
import json
import os
import re
import signal
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
import terminal  # noqa: E402
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


NAMED = r"^\*      2 .* named "
INCIDENT = r"^\d+ +rank 2 .* is "
ELSEWHERE = r"incidents? of other ranks"


def start(paths):
    """The job, held before step 20, the page's address, and where alerts are written."""
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
    hold.wait(4, job)
    with open(log, encoding="utf-8") as file:
        address = next(line for line in file if "the job's page is at" in line).split("at ")[1].split(",")[0]
    return job, hold, address, alerts


def check_live(watch):
    """While the incident is there: which ranks are shown is the reader's choice, and so is the size."""
    row = watch.wait(NAMED, "the culprit's row")
    check("1;31" in watch.styles[row], f"the culprit is red: {watch.styles[row]}")
    watch.resize(14, 90)
    watch.wait("^q quit", "it has drawn the other size")
    check(0 < watch.find(INCIDENT) < 7, "the incident stays in the upper half")
    watch.press("r0\r")
    watch.wait(ELSEWHERE, "incidents of others are counted")
    watch.wait(NAMED, "other ranks are gone", gone=True)


def check_record(paths, verdicts):
    """The same job from its record, which has ended, without colour."""
    named = {rank for verdict in verdicts for rank in verdict["ranks"] if not verdict["ended"]}
    watch = terminal.Terminal([paths.slowrank, "watch", os.path.join(paths.directory, "record.slr"), "--ranks", "0,2"], 24, 100,
                              {"NO_COLOR": "1"})
    row = watch.wait("^[* ]      2 ", "the culprit's row, of the record")
    check(watch.styles[row] == "" and watch.find("^[* ]      1 ") < 0 and watch.find("only ranks 0,2") >= 0, "as the options say")
    watch.wait(r"^slowrank \[ended\]", "it has ended")
    watch.press("a")
    watch.wait("^[* ]      1 ", "all ranks")
    check([watch.find(rf"^\*      {rank} .* named ") >= 0 for rank in range(4)] == [rank in named for rank in range(4)],
          f"those are named that open incidents name: {named}")
    watch.press("o")
    for rank in set(range(4)) - named:
        watch.wait(f"^[* ]      {rank} ", f"rank {rank}, which is not named, is gone", gone=True)
    watch.press("an")
    watch.wait(rf"^[* ] \S+ +4 +{len(named)} ", "the node, with 4 ranks, and how many of them are named")
    watch.press("\x03")
    check(watch.end() == -signal.SIGINT and not watch.alternate, "Ctrl-C ends it, and gives the terminal back")


def check_lines(paths, text, status):
    """What was written while the record was, against its report, whose verdicts are returned."""
    record = os.path.join(paths.directory, "record.slr")
    report = [subprocess.run([paths.slowrank, "report", record, "--format", kind], capture_output=True, text=True, check=True).stdout
              for kind in ("json", "text")]
    check(status == 0 and text.rstrip().endswith("; ended"), f"it ends with the record: {status}, {text[-300:]}")
    verdicts = json.loads(report[0])["verdicts"]
    begun = re.findall(r"^\S+ incident (\d+) begins", text, re.M)
    check(sorted(map(int, begun)) == [verdict["id"] for verdict in verdicts], f"each incident begins once: {begun}")
    for verdict in verdicts:
        last = re.findall(rf"^\S+ incident {verdict['id']} (?:ended|goes on as the job ends)[^:]*: (.*?)(?:; what to do: .*)?$", text, re.M)
        check(len(last) == 1 and last[0] + "." in report[1], f"the last line of an incident is the report's: {last}\n{report[1][:2000]}")
    return verdicts


def live(paths):
    job, hold, address, alerts = start(paths)
    watch = terminal.Terminal([paths.slowrank, "watch", address])
    lines = subprocess.Popen([paths.slowrank, "watch", os.path.join(paths.directory, "record.slr"), "--every", "1"],
                             stdout=subprocess.PIPE, text=True)
    with browser.Browser() if browser.find() else contextlib.nullcontext() as tab:
        if tab:
            tab.call("Page.navigate", url=address)
            tab.wait("document.getElementById('incidents') !== null")
        watch.wait("4 ranks on 1 node", "the job is in the terminal")
        hold.end()
        jobs.wait_until(lambda: first_alert(alerts), "an alert of the faulty rank", job, 30)
        told = time.time()
        if tab:
            tab.wait(SHOWN, 30)
            delay = time.time() - told
            print(f"the incident is on the page {delay:.2f} s after its alert was seen in the file")
            check(delay < WITHIN_S, f"the incident came {delay:.2f} s after its alert")
            check(tab.script("document.getElementById('live').className") == "on", "the page says that it is live")
            check_parts(address)
            tab.wait("!!document.getElementById('sampled-about')", 10)
            check("time on CPUs" in tab.script("document.getElementById('rank-charts').innerText"), "what was sampled is there, in a chart or by its name")
        watch.wait(INCIDENT, "the incident is in the terminal")
        print(f"the incident is in the terminal {time.time() - told:.2f} s after its alert was seen in the file")
        check_live(watch)
        check(job.wait(timeout=60) == 0, "the job ends well")
        if tab:
            check_only_news(tab)
        watch.wait(r"\[(no answer|the coordinator does not answer)", "the terminal says that there is nothing newer")
        check(watch.find(ELSEWHERE) >= 0, "what was said last stays")
        watch.press("q")
        check(watch.end() == 0 and not watch.alternate, "it ends, and gives the terminal back")
        check_record(paths, check_lines(paths, lines.communicate(timeout=60)[0], lines.returncode))
        if not tab:
            harness.skip("no chromium here; the terminal was tested")
        tab.wait("document.getElementById('live').className === 'off'", 10)
        check("rank 2 " in tab.script("document.getElementById('incidents').innerText"), "what was said last stays")
        problems = [one for one in tab.problems() if one.get("entry", {}).get("source") != "network"]
        check(not problems, f"the page complains: {problems[:3]}")


if __name__ == "__main__":
    harness.main({"live": live})
