"""Starts the binary on the demo model, once for the conversations and anew where a test needs other flags."""

import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

KEY = "conversation-key"
DEMO = pathlib.Path(__file__).parents[2] / "assets/demo"


def pytest_addoption(parser):
    parser.addoption("--binary", required=True, help="the forerunner binary under test")


class Server:
    """A server on a free port, ended by SIGTERM."""

    def __init__(self, binary, arguments):
        command = [binary, "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.url = None
        for line in self.process.stderr:
            if line.startswith("listening on "):
                self.url = line.removeprefix("listening on ").strip()
                break
        assert self.url, f"{command} ended with {self.process.wait()}"

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=60) == 0


@pytest.fixture
def serve(request):
    """A function that starts a server with flags of its own."""
    servers = []

    def start(*arguments):
        servers.append(Server(request.config.getoption("--binary"), arguments))
        return servers[-1].url

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def url(request, tmp_path_factory):
    """A server that knows one key."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"# of the conversations\n{KEY}\n")
    flags = ["--parallel", "4", "--context", "2048", "--api-key-file", str(keys)]
    server = Server(request.config.getoption("--binary"), flags)
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def prompts():
    """The demo prompts by their ids."""
    lines = (DEMO / "prompts.jsonl").read_text().splitlines()
    return {prompt["id"]: prompt for prompt in map(json.loads, lines)}
