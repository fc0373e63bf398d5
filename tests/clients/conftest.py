"""Starts the binary on the demo model, once for the conversations and anew where a test needs other flags."""

import json
import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

from serving import Server

KEY = "conversation-key"
DEMO = FOLDER.parents[1] / "assets/demo"


def pytest_addoption(parser):
    parser.addoption("--binary", required=True, help="the forerunner binary under test")


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
