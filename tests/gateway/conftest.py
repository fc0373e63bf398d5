"""Engines on the demo model, and a gateway in front of them."""

import contextlib
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

DEMO = pathlib.Path(__file__).parents[2] / "assets/demo"

# What is waited for is there in a second or two on an idle machine.
LIMIT_S = 120

# Small engines: one reply at a time, and one that waits.
FLAGS = ["--parallel", "1", "--max-queue", "1", "--threads", "1", "--context", "8192", "--force-drafts"]


def pytest_addoption(parser):
    parser.addoption("--binary", required=True, help="the forerunner binary under test")


def wait(is_so, what):
    """Waits until something is so."""
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end, f"not so after {LIMIT_S} s: {what}"
        time.sleep(0.05)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Answer:
    """A whole answer."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode()

    def json(self):
        return json.loads(self.text)


class Endpoint:
    """Something that speaks HTTP on a port of this machine."""

    def __init__(self, port):
        self.port = port

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)

    def get(self, path):
        with contextlib.closing(self.connection()) as connection:
            connection.request("GET", path)
            return Answer(connection.getresponse())

    def chat(self, content, **more):
        """A reply to one message."""
        with contextlib.closing(self.connection()) as connection:
            self.ask(connection, content, more)
            return Answer(connection.getresponse())

    def stream(self, content, **more):
        """The beginning of a streamed reply: its connection and the response, the first piece read."""
        connection = self.connection()
        self.ask(connection, content, {"stream": True, **more})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        # A slow stream begins with comments that keep its connection open.
        while not (line := response.readline()).startswith(b"data: "):
            assert line, "the stream ended before its first piece"
        return connection, response

    def ask(self, connection, content, more):
        messages = [{"role": "user", "content": content}]
        body = {"model": "demo", "messages": messages, "temperature": 0, "max_tokens": 8, **more}
        headers = {"content-type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)

    def is_listening(self):
        try:
            return self.get("/health").status == 200
        except OSError:
            return False

    def gauge(self, name):
        """The sum of a reading over its labels."""
        lines = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics").text, re.MULTILINE)
        assert lines, f"there is no {name}"
        return sum(map(float, lines))

    def running(self):
        return self.gauge("vllm:num_requests_running")

    def waiting(self):
        return self.gauge("vllm:num_requests_waiting")


class Engine(Endpoint):
    """An engine as a process."""

    def __init__(self, binary, port=0):
        command = [binary, "serve", "--port", str(port), *FLAGS]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        found = next(filter(None, map(re.compile(r"^listening on http://.*:(\d+)$").match, self.process.stderr)), None)
        assert found, f"{command} ended with {self.process.wait()}"
        super().__init__(int(found[1]))
        # What else it says must be read, or it would wait for a reader.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        return self.process.wait(LIMIT_S)


class Gateway(Endpoint):
    """SMG in front of engines."""

    def __init__(self, engines):
        super().__init__(free_port())
        self.metrics = Endpoint(free_port())
        command = [
            pathlib.Path(sys.executable).parent / "smg", "launch", "--host", "127.0.0.1", "--port", str(self.port),
            "--prometheus-host", "127.0.0.1", "--prometheus-port", str(self.metrics.port),
            "--worker-urls", *[engine.url for engine in engines], "--policy", "cache_aware",
            "--health-check-interval-secs", "1", "--health-failure-threshold", "1", "--health-success-threshold", "1",
            # An engine that was busy is asked anyway: what comes then is under test.
            "--load-monitor-interval", "3600", "--worker-startup-check-interval", "1", "--log-level", "warn",
        ]
        self.process = subprocess.Popen(command)
        wait(lambda: self.is_listening() and len(self.ready()) == len(engines), "the gateway knows its engines")

    def ready(self):
        """Addresses of the engines that get requests."""
        workers = self.get("/workers").json()["workers"]
        return {worker["url"] for worker in workers if worker["status"] == "ready"}

    def upstream(self, status):
        """Answers of engines with a status, so far."""
        pattern = rf'^smg_router_upstream_responses_total{{[^}}]*status_code="{status}"[^}}]*}} (\d+)$'
        return sum(map(int, re.findall(pattern, self.metrics.get("/metrics").text, re.MULTILINE)))

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def start(request):
    """A function that starts an engine, on a port if one is named."""
    engines = []

    def start_engine(port=0):
        engines.append(Engine(request.config.getoption("--binary"), port))
        return engines[-1]

    yield start_engine
    for engine in engines:
        engine.signal(signal.SIGKILL)
        engine.process.wait()


@pytest.fixture(scope="module")
def fleet(start):
    """Two engines and their gateway."""
    engines = [start(), start()]
    gateway = Gateway(engines)
    yield gateway, engines
    gateway.stop()


@pytest.fixture(scope="session")
def questions():
    """Some of the demo prompts that are one message."""
    lines = (DEMO / "prompts.jsonl").read_text().splitlines()
    plain = [prompt for prompt in map(json.loads, lines) if "tools" not in prompt]
    return [prompt["messages"][-1]["content"] for prompt in plain][:6]
