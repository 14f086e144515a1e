#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics as their users have them: a real Prometheus and Alertmanager, with the rules and the dashboard of
scripts/deploy, beside a job with a fault, while 100 others read as slowly as they can."""
import hmac
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
import test_run  # noqa: E402
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


def check_steps(text):
    """The histogram has each step once, in seconds: as many as were analysed, and their time."""
    def value(name):
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE).group(1))
    name, step_s = "slowrank_job_step_duration_seconds", JOB["step_ms"] / 1000
    steps, took_s = value(name + "_count"), value(name + "_sum")
    for seen, counter in ((steps, "slowrank_job_steps_total"), (took_s, "slowrank_job_step_seconds_total")):
        check(seen > 0 and abs(seen - value(counter)) <= 0.02 * seen, f"{seen} in the histogram, {counter} {value(counter)}")
    check(value(name + '_bucket{le="0.01"}') < steps / 2 and value(name + '_bucket{le="+Inf"}') == steps and
          took_s > step_s * steps / 2, "steps are in seconds")


def check_dashboard(monitoring):
    """Each query of panels, marks and lists to choose from gives something."""
    with open(os.path.join(DEPLOY, "grafana", "slowrank.json"), encoding="utf-8") as file:
        text = file.read()
    dashboard = json.loads(text)
    queries = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [(mark["name"], mark["expr"]) for mark in dashboard["annotations"]["list"]]
    check(len(dashboard["panels"]) > 10 and len(queries) == text.count('"expr"'), "queries of the dashboard that are not tried")
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
            queries.append((variable["name"], f"count by ({label}) ({series})"))
    for what, query in queries:
        expression = query.replace("$__rate_interval", "5s").replace("$instance", ".*").replace("$job", "slowrank")
        jobs.wait_until(lambda asked=expression: monitoring.query(asked), f"'{what}' shows something: {expression}", seconds=10)


class Alerts:
    """The file of alerts, as it grows."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "alerts.jsonl")
        if os.path.exists(self.path):
            os.unlink(self.path)

    def find(self, event, incident=None):
        """The verdict of that incident, or of the first one with the faulty rank: a busy machine has others beside it."""
        with open(self.path, encoding="utf-8") as file:
            found = [json.loads(line) for line in file if line.endswith("\n")]
        return next((alert["verdict"] for alert in found if alert["event"] == event and
                     (alert["verdict"]["id"] == incident or not incident and 2 in alert["verdict"]["ranks"])), None)


def prometheus(paths):
    """An alert fires within a scrape and an evaluation of the verdict, and resolves after it."""
    for program in ("prometheus", "prometheus-alertmanager", "promtool"):
        if not shutil.which(program):
            harness.skip(f"{program} is missing (Debian: prometheus, prometheus-alertmanager)")
    if not jobs.can_throttle():
        harness.skip("no cgroup with the cpu controller")
    promtool("check", "config", os.path.join(DEPLOY, "prometheus", "prometheus.yml"))
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
        jobs.wait_until(lambda: alerts.find("alert"), "an alert", job, 30)
        verdict, told = alerts.find("alert"), time.time()
        delay = told - verdict["alert_unix_ns"] / 1e9
        check(delay < SLACK_S, f"with {SLOW_READERS} slow readers the verdict is told {delay:.2f} s late")
        jobs.wait_until(lambda: receiver.first("firing", verdict["id"]), "the alert fires", job, 20)
        fired, alert = receiver.first("firing", verdict["id"])
        print(f"verdict told after {delay:.2f} s, alert fired {fired - told:.2f} s later")
        # Alertmanager's and the test's own way to here are in it, too.
        check(fired - told < 2 * SCRAPE_S + SLACK_S, f"the alert fired {fired - told:.2f} s after the verdict")
        check(re.fullmatch(r"ranks? .*2.* on .*: host-slow, .+", alert["annotations"]["summary"]),
              f"the alert says: {alert}")
        text = get(f"http://127.0.0.1:{port}/metrics")
        promtool("check", "metrics", input=text)
        check_steps(text)
        check_dashboard(monitoring)
        # At the job's end, at the latest: then the coordinator is gone.
        jobs.wait_until(lambda: alerts.find("recovered", verdict["id"]) or job.poll() is not None, "it is over")
        ended = time.time()
        jobs.wait_until(lambda: receiver.first("resolved", verdict["id"]), "the alert resolves", seconds=20)
        print(f"resolved {receiver.first('resolved', verdict['id'])[0] - ended:.2f} s after the end")
        check(job.wait(timeout=60) == 0, "the job ends well")
        for reader in readers:
            reader.close()


class WebhookServer(http.server.ThreadingHTTPServer):
    """Fails twice first; keeps what it was sent, and what came to /slack."""

    def __init__(self):
        outer = self
        self.posts, self.slack = [], []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/slack":
                    outer.slack.append(json.loads(body)["text"])
                else:
                    outer.posts.append((dict(self.headers), body))
                self.send_response(503 if self.path != "/slack" and len(outer.posts) <= 2 else 200)
                self.end_headers()

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def recorder(directory, name):
    """A program that appends what it is told to a file; returns both."""
    program, told = (os.path.join(directory, name + suffix) for suffix in ("", ".told"))
    with open(program, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{{ printf '%s\\n' \"$*\"; [ \"$1\" = taint ] || cat; }} >>'{told}'\n")
    os.chmod(program, 0o755)
    if os.path.exists(told):
        os.unlink(told)
    return program, told


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_webhook(server, secret, told):
    """Three tries of the first event; each is signed. Returns the events: they are what --alerts has, but for updates
    that newer ones took the place of, and the end of those that last."""
    bodies = [body for _, body in server.posts]
    check(len(bodies) >= 4 and bodies[0] == bodies[1] == bodies[2] != bodies[3], f"it is tried again: {bodies}")
    for headers, body in server.posts:
        signed = headers["X-Slowrank-Timestamp"].encode() + b"." + body
        digest = hmac.new(secret.encode(), signed, "sha256").hexdigest()
        check(headers["X-Slowrank-Signature"] == "sha256=" + digest, f"the signature of {headers}")
    events = [json.loads(body) for body in bodies[2:]]
    ends = [event["verdict"]["id"] for event in events if event["event"] in ("recovered", "ended")]
    check(sorted(ends) == sorted(alert["verdict"]["id"] for alert in told if alert["event"] == "alert"),
          f"each incident ends: {events}")
    # Updates may overtake what is told of other incidents; within one, all is in order.
    for incident in ends:
        def of_incident(list_, incident=incident):
            return [event for event in list_ if event["verdict"]["id"] == incident and event["event"] != "ended"]
        wanted, got = of_incident(told), of_incident(events)
        check([event for event in wanted if event in got] == got and
              all(event in got for event in wanted if event["event"] != "update"), f"told {wanted}, delivered {got}")
    return events


def check_kubernetes(told, expected):
    """What kubectl gets: words, and an Event of the API's version 1."""
    decoder, at, events = json.JSONDecoder(), told.find("{"), []
    check(told.startswith("create -f -\n{"), told)
    while at >= 0:
        event, end = decoder.raw_decode(told, at)
        events.append(event)
        at = told.find("{", end)
    for event in events:
        check((event["apiVersion"], event["kind"], event["involvedObject"]["kind"],
               event["involvedObject"]["name"]) == ("v1", "Event", "Node", "node-7"), f"{event}")
        check(event["type"] in ("Warning", "Normal") and event["metadata"]["generateName"] and
              event["metadata"]["namespace"] == "default" and "rank" in event["message"] and
              re.fullmatch(r"[A-Z][A-Za-z]+", event["reason"]), f"{event}")
        check(event["firstTimestamp"] == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.strptime(
            event["firstTimestamp"], "%Y-%m-%dT%H:%M:%SZ")), f"{event}")
    check([event["type"] for event in events].count("Normal") ==
          sum(event["event"] == "recovered" for event in expected), f"types: {events}")
    check("taint --overwrite node node-7 slowrank=" in told and
          "taint node node-7 slowrank:PreferNoSchedule-" in told, told)


def check_manifest(path):
    try:
        import yaml  # pylint: disable=import-outside-toplevel
    except ImportError:
        return
    documents = {document["kind"]: document for document in yaml.safe_load_all(read(path))}
    check(set(documents) == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}, f"kinds: {set(documents)}")
    binding = documents["ClusterRoleBinding"]
    check(binding["roleRef"]["name"] == documents["ClusterRole"]["metadata"]["name"] and
          binding["subjects"][0]["name"] == documents["ServiceAccount"]["metadata"]["name"], f"{binding}")
    check({"apiGroups": [""], "resources": ["events"], "verbs": ["create"]} in documents["ClusterRole"]["rules"],
          "events may be created")


def hooks(paths):
    """The examples of scripts/deploy/hooks and a webhook, beside one job."""
    if not jobs.can_throttle():
        harness.skip("no cgroup with the cpu controller")
    for program in ("jq", "curl"):
        if not shutil.which(program):
            harness.skip(f"{program} is missing")
    key = os.path.join(paths.directory, "key")
    with open(key, "w", encoding="ascii") as file:
        file.write("ab" * 32 + "\n")
    os.chmod(key, 0o600)
    alerts, = test_run.fresh(paths.directory, "alerts.jsonl")
    server = WebhookServer()
    mailer, mail = recorder(paths.directory, "sendmail")
    kubectl, kubernetes = recorder(paths.directory, "kubectl")
    examples = os.path.abspath(os.path.join(DEPLOY, "hooks"))
    url = f"http://127.0.0.1:{server.server_address[1]}"
    environment = {**os.environ, "SENDMAIL": mailer, "MAIL_TO": "ops@example.org", "SLACK_URL": url + "/slack",
                   "KUBECTL": kubectl, "NODE_NAME": "node-7", "TAINT": "1", "SLOWRANK_WEBHOOK": url + "/hook"}
    command = " || exit; ".join(f"<&3 '{examples}/{name}.sh'" for name in ("mail", "slack", "kubernetes-event"))
    truth_path = jobs.fresh_directory(paths.directory)
    done = subprocess.run(
        [paths.slowrank, "run", "--key-file", key, "--on-incident",
         f'exec 3<&0; {command}', "--alerts", alerts, "--record", os.path.join(paths.directory, "record.slr"), "--", *jobs.mpirun(4),
         *jobs.workload_command(paths.workload, truth_path, **test_run.THROTTLED)],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment, timeout=90, check=False)
    check(done.returncode == 0, f"the job ends well: {done.stderr}")
    # The fault lasts almost to the end: nobody says that it is over, but that nobody watches any more.
    with open(alerts, encoding="utf-8") as file:
        told = [json.loads(line) for line in file]
    begun = sum(alert["event"] == "alert" for alert in told)
    jobs.wait_until(lambda: sum(body.startswith((b'{"event": "recovered"', b'{"event": "ended"'))
                                for _, body in server.posts) == begun, "all webhooks", seconds=20)
    jobs.wait_until(lambda: read(kubernetes).count(":PreferNoSchedule-\n") == begun, "all commands", seconds=20)
    check("on-incident" not in done.stderr and "webhook" not in done.stderr, done.stderr)
    secret = subprocess.run([paths.slowrank, "key", "webhook", "--key-file", key], capture_output=True, text=True,
                            check=True).stdout.strip()
    events = check_webhook(server, secret, told)
    # The faulty rank's; a busy machine may have others.
    check(any(event["event"] == "alert" and 2 in event["verdict"]["ranks"] for event in events), f"rank 2: {events}")
    ends = sum(event["event"] != "update" for event in events)
    check(len(server.slack) == ends and re.fullmatch(r"\*.+\*: ALERT rank.* host-slow.*", server.slack[0]),
          f"Slack: {server.slack}")
    sent = read(mail)
    check(sent.startswith("-t\nTo: ops@example.org\nSubject: slowrank: host-slow of job ") and
          len(re.findall("\n(ALERT|RECOVERED|ENDED) rank", sent)) == ends, sent)
    check_kubernetes(read(kubernetes), events)
    check_manifest(os.path.join(examples, "kubernetes-rights.yml"))


if __name__ == "__main__":
    harness.main({"prometheus": prometheus, "hooks": hooks})
