# SPDX-License-Identifier: Apache-2.0
"""Reads a page that slowrank wrote, and keeps what must be right in it."""
import html.parser

VOID = {"meta", "input", "br", "link"}


class Reader(html.parser.HTMLParser):
    """Checks that each element ends where it should, and keeps what matters."""

    def __init__(self, page):
        super().__init__()
        self.open, self.problems, self.scripts, self.addresses, self.handlers = [], [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append([dict(attrs).get("type", ""), ""])
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action", "srcset")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1][1] += data
