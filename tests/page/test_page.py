#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a job from disk: whole HTML with no name as markup, and in a browser what it shows and how it answers.

usage: test_page.py --build BUILD disk
       test_page.py --build BUILD large     131,072 ranks, 1,000 steps: size, first paint, zoom (scripts/long.sh)
       test_page.py --build BUILD live      the same, served, with a step more each second: bytes of the first view, of a second, of a zoom
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import browser  # noqa: E402
import markup  # noqa: E402

SKIPPED = 77
HOST = "host\x07<script>"
PAINT_MS, ZOOM_MS, LARGE_BYTES = 2000, 100, 10 << 20
FIRST_BYTES, SECOND_BYTES = 1 << 20, 64 << 10
SERVED_S, WATCHED_S = 60, 10
# A rank of 64 that computes for 30 % longer, from step 60 to 149 of 200.
CULPRIT, FIRST, LAST = 43, 60, 150


def check(condition, text):
    if not condition:
        raise SystemExit("FAILED: " + text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_markup(path):
    page = read(path)
    reader = markup.Reader(page)
    check((reader.problems, reader.open) == ([], []), f"{path}: {reader.problems}, open: {reader.open}")
    check([kind for kind, _ in reader.scripts] == ["application/json", "", ""], f"{path} has scripts of its own alone")
    check((reader.addresses, reader.handlers) == ([], []), f"{path} needs nothing from elsewhere")
    check("default-src 'none'" in page and "'unsafe-inline'; connect-src" in page and "script-src 'sha256-" in page,
          f"{path} has a strict policy")
    check("<" not in reader.scripts[0][1] and page.startswith("<!DOCTYPE html>\n<!-- slowrank.page/1 -->\n"), f"{path}: data, mark")
    check("License" in page or "MIT" in page, f"{path} names the library's licence")
    return json.loads(reader.scripts[0][1])


def simulate(build, folder, name, *options):
    """A record of a job whose truth is known, as a page."""
    record, page = os.path.join(folder, name + ".slr"), os.path.join(folder, name + ".html")
    subprocess.run([os.path.join(build, "bench_simulator"), "-o", record, *options], check=True, stdout=subprocess.DEVNULL)
    begun = time.time()
    subprocess.run([os.path.join(build, "slowrank"), "report", record, "--format", "html", "-o", page], check=True)
    return page, time.time() - begun


def colour_at(tab, rank, step):
    """What the map shows of a rank in a step: red, green, blue; each row is a rank."""
    return tab.script(f"""(() => {{ const map = document.getElementById("heat"), ratio = devicePixelRatio || 1;
        const rows = 64, steps = 200, wide = map.clientWidth - 120 - 14, high = map.clientHeight - 12 - 34;
        const x = 120 + ({step} + 0.5) * wide / steps, y = 12 + ({rank} + 0.5) * high / rows;
        return [...map.getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data].slice(0, 3); }})()""")


def text_of(tab, element):
    return tab.script(f"document.getElementById('{element}').innerText")


def check_course(tab, page):
    """A job with an incident: what is shown at once, by a click, and by an address."""
    tab.open("file://" + page)
    check(f"rank {CULPRIT} on node5 was compute-slow" in text_of(tab, "incidents"), text_of(tab, "incidents"))
    check("What to do" not in text_of(tab, "incidents") and "perf record" in text_of(tab, "incidents"), "what to do is there")
    red, _, blue = colour_at(tab, CULPRIT, 100)
    check(red > blue + 60, f"the culprit's cell is red: {red}, {blue}")
    red, _, blue = colour_at(tab, CULPRIT - 3, 100)
    check(blue > red + 30, f"a victim's cell is blue: {red}, {blue}")
    red, _, blue = colour_at(tab, CULPRIT, 20)
    check(abs(red - blue) < 60, f"a healthy cell is neither: {red}, {blue}")
    check(tab.script("document.querySelectorAll('#steps-chart canvas').length") > 0, "the step time is drawn")
    tab.script("document.querySelector('.incident').click()")
    check(str(CULPRIT) == tab.script("document.getElementById('rank-choice').value"), "a click has the rank in focus")
    check("own work" in text_of(tab, "rank-charts"), f"its evidence is beside its control: {text_of(tab, 'rank-charts')}")
    check(f"Rank {CULPRIT} made others wait" in text_of(tab, "walk-told"), text_of(tab, "walk-told"))
    check(f"rank {CULPRIT}'s own" in text_of(tab, "walk-told"), "the walk ends at the culprit")
    check(tab.script("document.querySelectorAll('#walk-frame .hop').length") > 0, "the walk is drawn")
    check("not measur" in text_of(tab, "stacks-about").lower(), "what is not there is said")
    address = tab.script("location.hash")
    check("incident=1" in address and f"rank={CULPRIT}" in address and "steps=" in address, f"the address keeps it: {address}")
    check_answers(tab, page, address)


def check_answers(tab, page, address):
    """The address opens the same; a click in the map; keys."""
    tab.open("file://" + page + address.replace(f"rank={CULPRIT}", "rank=7"))
    check(tab.script("[document.getElementById('rank-choice').value, location.hash.includes('rank=7')]") == ["7", True],
          "an address opens what it says")
    check("not kept" in text_of(tab, "rank-charts"), "why a rank has no course is said")
    tab.script("document.getElementById('heat-back').click()")
    place = tab.script("""(() => { const map = document.getElementById("heat").getBoundingClientRect();
        return [map.left + 120 + (map.width - 134) / 2, map.top + 12 + (map.height - 46) * (%d + 0.5) / 64]; })()""" % CULPRIT)
    tab.click(*place)
    check(f"rank {CULPRIT} on node5, step 100" in text_of(tab, "heat-told") or "step 99" in text_of(tab, "heat-told"),
          text_of(tab, "heat-told"))
    check(tab.script("document.getElementById('rank-choice').value") == str(CULPRIT), "a cell's rank comes into focus")
    tab.script("document.getElementById('heat').focus()")
    for _ in range(6):
        tab.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter")
    check(tab.script("location.hash").count("steps=") == 1, "Enter zooms in")
    first, last = tab.script("/steps=([0-9]+)-([0-9]+)/.exec(location.hash).slice(1).map(Number)")
    check(first == last, f"at last to one step: {first} to {last}")
    for _ in range(6):
        tab.call("Input.dispatchKeyEvent", type="keyDown", key="Escape", code="Escape")
    check("steps=" not in tab.script("location.hash"), "Escape zooms out")
    tab.call("Input.dispatchKeyEvent", type="keyDown", key="n", code="KeyN", text="n")
    check("steps=" in tab.script("location.hash"), "n goes to the next incident")


def check_hostile(tab, folder):
    """Names that are markup are text; what is missing is said."""
    shown = 0
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".page.html"):
            continue
        check_markup(os.path.join(folder, name))
        tab.open("file://" + os.path.join(folder, name))
        check(tab.script("document.scripts.length === 3 && !document.querySelector('main script')"), f"{name}: a name ran as a script")
        check(text_of(tab, "incidents").strip() and text_of(tab, "coverage").strip(), f"{name} says something")
        shown += "host?<script>" in text_of(tab, "ranks")
    check(shown > 0, "a host with a hostile name is shown as it is")


def disk(build):
    with tempfile.TemporaryDirectory() as folder:
        page, _ = simulate(build, folder, "small", "--ranks", "64", "--steps", "200", "--step-ms", "50", "--ranks-per-host", "8",
                           "--fault", f"compute:{CULPRIT}:0.3:{FIRST}:{LAST}")
        data = check_markup(page)
        check((data["rank_count"], data["trail"]["row_count"], data["trail"]["column_count"]) == (64, 64, 200), "the data is whole")
        check({"rows", "columns/0-199", "heat/0/0-63/0-199", f"track/{CULPRIT}/0-199"} <= set(data["parts"]), f"its parts: {list(data['parts'])}")
        subprocess.run([os.path.join(build, "tests", "golden_reports"), "--pages", folder], check=True)
        if not browser.find():
            print("skipped: no chromium here; what needs none was tested")
            sys.exit(SKIPPED)
        with browser.Browser() as tab:
            check_course(tab, page)
            check_hostile(tab, folder)
            check(not tab.problems(), f"the page complains: {tab.problems()[:3]}")


def script_ms(tab):
    """CPU time of scripts so far."""
    return 1000 * next(one["value"] for one in tab.call("Performance.getMetrics")["metrics"] if one["name"] == "ScriptDuration")


def received(tab):
    """How many bytes came over the network so far, heads of answers included."""
    tab.script("0")
    return sum(one["params"]["encodedDataLength"] for one in tab.events if one.get("method") == "Network.loadingFinished")


CHANGE = """(async () => {{ const begun = performance.now(), before = document.body.dataset.filled;
    {}; while (document.body.dataset.filled === before) await new Promise(done => setTimeout(done, 2)); return performance.now() - begun; }})()"""


def live(build):
    """Prints what docs/results.md has."""
    if not browser.find():
        print("skipped: no chromium here")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        record, page = os.path.join(folder, "live.slr"), os.path.join(folder, "live.html")
        subprocess.run([os.path.join(build, "bench_simulator"), "-o", record, "--ranks", "131072", "--steps", "40", "--step-ms", "1000",
                        "--ranks-per-host", "8", "--buckets", "1", "--fault", "compute:70001:0.3:10:40"], check=True, stdout=subprocess.DEVNULL)
        server = subprocess.Popen([os.path.join(build, "bench_page"), record, "1000", str(SERVED_S), "127.0.0.1:0", page],
                                  stdout=subprocess.PIPE, text=True)
        address = server.stdout.readline().strip()
        with browser.Browser() as tab:
            tab.call("Network.enable")
            tab.call("Performance.enable", timeDomain="threadTicks")
            tab.open(address)
            first_ms, first = float(tab.script("document.body.dataset.filledMs")), received(tab)
            time.sleep(WATCHED_S)
            second = (received(tab) - first) / WATCHED_S
            zooms = []
            for script in ("document.querySelector('button.incident').click()", "document.getElementById('heat-back').click()"):
                before, cpu_ms = received(tab), script_ms(tab)
                took_ms = tab.script(CHANGE.format(script))
                zooms.append((took_ms, script_ms(tab) - cpu_ms, received(tab) - before))
            check("rank 70001" in text_of(tab, "incidents"), text_of(tab, "incidents"))
            check(tab.script("document.getElementById('live').className") == "on", "it is live")
            check(not [one for one in tab.problems() if one.get("entry", {}).get("source") != "network"], f"the page complains: {tab.problems()[:3]}")
        done = json.loads(server.communicate(timeout=10 * SERVED_S)[0])
        print(f"first view {first / 1024:.0f} KiB, drawn after {first_ms:.0f} ms; each second {second / 1024:.1f} KiB; "
              + "; ".join(f"{name} {kib / 1024:.0f} KiB, {took:.0f} ms, {cpu:.0f} ms of CPU" for name, (took, cpu, kib) in zip(("an incident", "back"), zooms))
              + f"; a publication takes {done['publication_ms']} ms; {done['resident_max_mib']} MiB resident; as a file {os.path.getsize(page) / 1048576:.2f} MiB")
        check(first <= FIRST_BYTES and second <= SECOND_BYTES and max(zoom[1] for zoom in zooms) <= ZOOM_MS, "within the limits")


def large(build):
    """Prints what docs/results.md has."""
    if not browser.find():
        print("skipped: no chromium here")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        page, took_s = simulate(build, folder, "large", "--ranks", "131072", "--steps", "1000", "--step-ms", "1000",
                                "--ranks-per-host", "8", "--buckets", "1", "--fault", "compute:70001:0.3:400:600")
        size = os.path.getsize(page)
        with browser.Browser() as tab:
            tab.call("Performance.enable", timeDomain="threadTicks")
            tab.open("file://" + page)
            paint_ms = tab.script("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            drawn_ms = tab.script("document.body.dataset.firstMs")
            times = []
            for script in ("document.getElementById('heat-back').click()", "document.querySelector('.incident').click()"):
                before = script_ms(tab)
                tab.script(script)
                times.append(script_ms(tab) - before)
            check("rank 70001" in text_of(tab, "incidents"), text_of(tab, "incidents"))
            check(not tab.problems(), f"the page complains: {tab.problems()[:3]}")
        print(f"report --format html: {took_s:.1f} s; {size / 1048576:.2f} MiB; first paint {paint_ms:.0f} ms, all drawn {drawn_ms} ms; "
              f"CPU time of all that is drawn anew: the whole job {times[0]:.0f} ms, zoomed {times[1]:.0f} ms")
        check(size <= LARGE_BYTES and paint_ms <= PAINT_MS and max(times) <= ZOOM_MS, "within the limits")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("case", choices=("disk", "large", "live"))
    arguments = parser.parse_args()
    {"disk": disk, "large": large, "live": live}[arguments.case](os.path.abspath(arguments.build))
