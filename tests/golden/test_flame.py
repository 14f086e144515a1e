#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of --format flame: whole HTML, no names as markup, nothing from elsewhere; and in a browser, where there is one.

usage: test_flame.py GOLDEN_REPORTS
"""
import base64
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import markup

GOLDEN_REPORTS = None
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
HOSTILE = "a</script>b\"';\x1b[31mc"
STARTED_S = 120 # a browser on a machine with other work
PAGE_BYTES_MAX = 64 * 1024  # of such a small job


def find_browser():
    for name in BROWSERS:
        if shutil.which(name):
            return shutil.which(name)
    return None


class Flame(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # pylint: disable=consider-using-with
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([GOLDEN_REPORTS, "--pages", cls.folder.name], check=True)
        cls.pages = {}
        for name in ("stacks", "hang"):
            with open(cls.path(name), encoding="utf-8") as file:
                cls.pages[name] = file.read()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name + ".html")

    def test_page_is_whole_and_needs_nothing_else(self):
        for page in self.pages.values():
            reader = markup.Reader(page)
            self.assertEqual((reader.problems, reader.open), ([], []))
            self.assertEqual([kind for kind, _ in reader.scripts], ["application/json", ""])
            self.assertEqual((reader.addresses, reader.handlers), ([], []))
            self.assertIn("default-src 'none'", page)
            self.assertTrue(page.startswith("<!DOCTYPE html>\n<!-- slowrank.flame/1 -->\n"))
            self.assertLess(len(page), PAGE_BYTES_MAX)
            self.assertTrue(page.isascii())

    def test_data_has_what_was_seen(self):
        reader = markup.Reader(self.pages["stacks"])
        data = json.loads(reader.scripts[0][1])
        self.assertIn(HOSTILE, data["names"])
        self.assertNotIn("<", reader.scripts[0][1])
        self.assertEqual([look["rank"] for look in data["looks"]], [2, 0])
        self.assertEqual(data["unit"], "us/step")
        # Of each side, thread by thread: what the suspect has more is what it saves, of 10 steps.
        times = [0.0, 0.0]
        for side, _, thread, *_, microseconds, _ in data["sums"]:
            times[side] += microseconds * (data["threads"][thread][0] == "main")
        self.assertAlmostEqual(times[0] - times[1], (12 + 30 + 2) * 1000 / 10)
        for parent, _, name, short, file, _ in data["nodes"]:
            self.assertLess(max(name, short, file), len(data["names"]))
            self.assertLess(parent, len(data["nodes"]))

    def browse(self, name, script="", fragment=""):
        """The page after its own script, and then after one of the test's."""
        path = self.path(name + "-test")
        allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        page = self.pages[name].replace("script-src ", f"script-src 'sha256-{allowed}' ")
        with open(path, "w", encoding="utf-8") as file:
            file.write(page.replace("</body>", f"<script>{script}</script></body>"))
        done = subprocess.run(
            [self.browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--window-size=1200,900", f"--user-data-dir={self.folder.name}/profile", "--dump-dom", f"file://{path}{fragment}"],
            capture_output=True, text=True, timeout=STARTED_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def need_browser(self):
        self.browser = find_browser()
        if not self.browser:
            self.skipTest("no chromium here")

    def test_browser_draws_and_answers(self):
        """All in one start of the browser: each answer is kept in an attribute of the body."""
        self.need_browser()
        script = """
const told = [], $ = id => document.getElementById(id), boxes = () => [...document.querySelectorAll("svg g")];
const labels = () => boxes().map(one => one.getAttribute("aria-label"));
const find = word => boxes().find(one => one.getAttribute("aria-label").startsWith(word));
const key = (where, name) => where.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true, cancelable: true}));
const shape = () => [boxes().length, document.querySelectorAll(".hatch").length > 0, document.querySelectorAll(".found").length];
told.push(["difference", labels()]);
find("save").dispatchEvent(new MouseEvent("click", {bubbles: true}));
told.push(["zoom", $("status").textContent, location.hash, labels().length]);
key($("graph"), "Escape"); key($("graph"), "Escape"); key($("graph"), "Escape"); key($("graph"), "Escape"); key($("graph"), "Escape");
told.push(["out", $("status").textContent, labels().length]);
key(document, "3");
told.push(["control", labels(), location.hash]);
key(document, "2");
$("search").value = "SERIALIZATION"; $("search").dispatchEvent(new Event("input"));
told.push(["search", $("status").textContent, shape()]);
key($("search"), "Escape");
$("time").value = "run"; $("time").dispatchEvent(new Event("change"));
told.push(["running", labels(), shape()]);
$("time").value = "all"; $("time").dispatchEvent(new Event("change"));
$("segment").value = [...$("segment").options].find(one => one.text === "inside collective 1, all-reduce").value;
$("segment").dispatchEvent(new Event("change"));
told.push(["inside", labels()]);
$("segment").value = ""; $("segment").dispatchEvent(new Event("change"));
$("graph").focus(); key($("graph"), "ArrowDown");
told.push(["down", $("details").textContent]);
key($("graph"), "ArrowRight"); key($("graph"), "ArrowLeft"); key($("graph"), "ArrowDown"); key($("graph"), "Enter");
told.push(["entered", $("status").textContent, window.alerted === undefined]);
document.body.dataset.told = JSON.stringify(told);
"""
        page = self.browse("stacks", "window.alert = () => { window.alerted = 1; };" + script)
        found = re.search(r'data-told="([^"]*)"', page)
        self.assertTrue(found, page[-2000:])
        told = {row[0]: row[1:] for row in json.loads(html.unescape(found.group(1)))}
        difference = " | ".join(told["difference"][0])
        self.assertIn("save (torch/serialization.py:619): suspect 4.20, control 0.000 ms/step (+4.20)", difference)
        self.assertIn("a</script>b\"';?[31mc (script>;x.py:3): suspect 1.20", difference)
        self.assertIn("[on /ckpt/step 100]: suspect 3.00", difference)
        self.assertIn("gemm<float>: suspect 7.50, control 6.75 ms/step", difference)
        self.assertIn("Zoomed to save", told["zoom"][0])
        self.assertIn("zoom=", told["zoom"][1])
        self.assertEqual(told["out"], ["", len(told["difference"][0])])
        self.assertFalse([one for one in told["control"][0] if one.startswith("save")])
        self.assertIn("view=control", told["control"][1])
        self.assertRegex(told["search"][0], r"Found: suspect 4\.20 of .* ms/step, control 0\.000 of")
        self.assertTrue(told["search"][1][1])
        self.assertEqual(told["search"][1][2], 1)
        self.assertFalse(told["running"][1][1])
        self.assertFalse([one for one in told["running"][0] if one.startswith("[waiting")])
        self.assertTrue([one for one in told["inside"][0] if one.startswith("[waiting: futex]")])
        self.assertFalse([one for one in told["inside"][0] if one.startswith("forward")])
        self.assertTrue(told["down"][0])
        self.assertTrue(told["entered"][0].startswith("Zoomed to"))
        self.assertTrue(told["entered"][1], "a name was run as a script")

    def test_browser_opens_where_the_address_says(self):
        self.need_browser()
        page = self.browse("hang", fragment="#view=control&search=all_reduce")
        self.assertIn("Rank 2 beside rank 0: what they hang in", page)
        self.assertRegex(page, r"Found: missing 0\.000 of [0-9.]+ ms, waiting [0-9.]+ of [0-9.]+ ms")
        self.assertIn("opal_progress (libmpi.so.40): missing 0.000", page)


if __name__ == "__main__":
    GOLDEN_REPORTS = os.path.abspath(sys.argv.pop(1))
    unittest.main()
