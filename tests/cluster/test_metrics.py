#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics as their users have them: a real Prometheus and Alertmanager, with the rules and the dashboard of
scripts/deploy, beside a job with a fault, while 100 others read as slowly as they can."""
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "deploy")
JOB = {"steps": 300, "step_ms": 20, "compute_ms": 1.5, "faults": ["rank=2 kind=throttle first=80 last=179 size=60"]}
# A batch comes every 250 ms; a scrape and an evaluation every second.
SCRAPE_S, SLACK_S = 1, 1.5
SLOW_READERS = 100


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def answers(url):
    try:
        return bool(get(url))
    except OSError:
        return False


class Receiver(http.server.ThreadingHTTPServer):
    """Takes what Alertmanager sends, with the time when it came."""

    def __init__(self):
        outer = self
        self.alerts = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.alerts += [(time.time(), alert) for alert in body["alerts"]]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def first(self, status, incident):
        """When the first alert of the incident with that status came, and it; None: none did."""
        return next(((when, alert) for when, alert in self.alerts if alert["status"] == status and
                     alert["labels"]["alertname"] == "SlowrankIncident" and
                     alert["labels"]["incident"] == str(incident)), None)


class Monitoring:
    """Prometheus and Alertmanager on ports of their own; a context manager."""

    def __init__(self, directory, target, receiver):
        self.directory = os.path.join(directory, "monitoring")
        shutil.rmtree(self.directory, ignore_errors=True)
        os.makedirs(self.directory)
        port, alert_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.processes = []
        self.commands = {
            f"http://127.0.0.1:{alert_port}/-/ready":
            ["prometheus-alertmanager", "--config.file", self.write("alertmanager.yml", {
                "route": {"receiver": "test", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"},
                "receivers": [{"name": "test", "webhook_configs": [
                    {"url": f"http://127.0.0.1:{receiver}/", "send_resolved": True}]}]}),
             "--storage.path", os.path.join(self.directory, "alerts"), "--cluster.listen-address=",
             f"--web.listen-address=127.0.0.1:{alert_port}"],
            f"{self.url}/-/ready":
            ["prometheus", "--config.file", self.write("prometheus.yml", {
                "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": "1s"},
                "rule_files": [os.path.abspath(os.path.join(DEPLOY, "prometheus", "slowrank.rules.yml"))],
                "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alert_port}"]}]}]},
                "scrape_configs": [{"job_name": "slowrank", "static_configs": [{"targets": [target]}]}]}),
             "--storage.tsdb.path", os.path.join(self.directory, "data"), f"--web.listen-address=127.0.0.1:{port}"],
        }

    def write(self, name, content):
        """JSON is YAML."""
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        return path

    def __enter__(self):
        for command in self.commands.values():
            with open(os.path.join(self.directory, command[0] + ".log"), "w", encoding="utf-8") as log:
                self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        for url, process in zip(self.commands, self.processes):
            jobs.wait_until(lambda url=url: answers(url), url, process)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()

    def query(self, expression, **more):
        question = urllib.parse.urlencode({"query": expression, **more})
        kind = "query_range" if more else "query"
        return json.loads(get(f"{self.url}/api/v1/{kind}?{question}"))["data"]["result"]


def promtool(*arguments, **options):
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False, **options)
    check(done.returncode == 0, f"promtool {' '.join(arguments)}: {done.stdout}{done.stderr}")


def slow_readers(port):
    """They ask, and never read the answer."""
    readers = []
    for _ in range(SLOW_READERS):
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        reader.connect(("127.0.0.1", port))
        reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 16)
        readers.append(reader)
    return readers


def check_dashboard(monitoring):
    """Each panel's queries give something."""
    with open(os.path.join(DEPLOY, "grafana", "slowrank.json"), encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    for panel in panels:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "5s").replace("$instance", ".*").replace(
                "$job", "slowrank")
            jobs.wait_until(lambda asked=expression: monitoring.query(asked),
                            f"panel '{panel['title']}' shows something: {expression}", seconds=10)
    check(len(panels) > 10, "the dashboard has panels")


class Alerts:
    """The file of alerts, as it grows."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "alerts.jsonl")
        if os.path.exists(self.path):
            os.unlink(self.path)

    def find(self, event):
        """The faulty rank's, or None: a busy machine may have others, and other causes."""
        with open(self.path, encoding="utf-8") as file:
            found = [json.loads(line) for line in file if line.endswith("\n")]
        return next((alert["verdict"] for alert in found if alert["event"] == event and
                     alert["verdict"]["ranks"] == [2]), None)

    def wait(self, event, job):
        """The verdict, and when it was there."""
        jobs.wait_until(lambda: self.find(event), event, job, 30)
        return self.find(event), time.time()


def prometheus(paths):
    """An alert fires within a scrape and an evaluation of the verdict, and resolves after it."""
    for program in ("prometheus", "prometheus-alertmanager", "promtool"):
        if not shutil.which(program):
            harness.skip(f"{program} is missing (Debian: prometheus, prometheus-alertmanager)")
    if not jobs.can_throttle():
        harness.skip("no cgroup with the cpu controller")
    promtool("test", "rules", os.path.join(DEPLOY, "prometheus", "slowrank.rules.test.yml"))
    truth_path = jobs.fresh_directory(paths.directory)
    port, receiver = free_port(), Receiver()
    alerts = Alerts(paths.directory)
    hold = jobs.Hold(paths.directory)
    command = [paths.slowrank, "run", "--quiet", "--http", str(port), "--alerts", alerts.path, "--record",
               os.path.join(paths.directory, "record.slr"), "--", *jobs.mpirun(4),
               *jobs.workload_command(paths.workload, truth_path, **JOB), *hold.options]
    job = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    with Monitoring(paths.directory, f"127.0.0.1:{port}", receiver.server_address[1]) as monitoring:
        hold.wait(4, job)
        readers = slow_readers(port)
        hold.end()
        verdict, told = alerts.wait("alert", job)
        delay = told - verdict["alert_unix_ns"] / 1e9
        check(delay < SLACK_S, f"with {SLOW_READERS} slow readers the verdict is told {delay:.2f} s late")
        jobs.wait_until(lambda: receiver.first("firing", verdict["id"]), "the alert fires", job, 20)
        fired, alert = receiver.first("firing", verdict["id"])
        print(f"verdict told after {delay:.2f} s, alert fired {fired - told:.2f} s later")
        # Alertmanager's and the test's own way to here are in it, too.
        check(fired - told < 2 * SCRAPE_S + SLACK_S, f"the alert fired {fired - told:.2f} s after the verdict")
        check(re.fullmatch(r"rank 2 on .*: host-slow, .+", alert["annotations"]["summary"]),
              f"the alert says: {alert}")
        promtool("check", "metrics", input=get(f"http://127.0.0.1:{port}/metrics"))
        check_dashboard(monitoring)
        _, ended = alerts.wait("recovered", job)
        jobs.wait_until(lambda: receiver.first("resolved", verdict["id"]), "the alert resolves", seconds=20)
        print(f"resolved {receiver.first('resolved', verdict['id'])[0] - ended:.2f} s after the end")
        check(job.wait(timeout=60) == 0, "the job ends well")
        for reader in readers:
            reader.close()


if __name__ == "__main__":
    harness.main({"prometheus": prometheus})
