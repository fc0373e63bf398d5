"""Requests made from the OpenAPI document: no 5xx, and no status, type or body that the document does not have."""

import pathlib
import subprocess
import sys

import pytest
from serving import Server

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"

# Of the whole run. An idle machine makes some thousands of requests in it.
SECONDS = "60"


@pytest.fixture
def url(request):
    server = Server(request.config.getoption("--binary"), ["--parallel", "4", "--context", "256"])
    yield server.url
    server.stop()


def test_what_the_document_allows_is_answered_as_it_says(url, tmp_path):
    schemathesis = pathlib.Path(sys.executable).with_name("schemathesis")
    run = subprocess.run(
        [schemathesis, "run", f"{url}/openapi.json", "--checks", CHECKS, "--max-time", SECONDS, "--seed", "1",
         "--request-timeout", "30", "--continue-on-failure", "--generation-database", "none", "--no-color"],
        cwd=tmp_path, capture_output=True, text=True,
    )
    print(run.stdout[-12000:], run.stderr)
    assert run.returncode == 0
