"""Tells the tests of this folder where the binary is."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))


def pytest_addoption(parser):
    parser.addoption("--binary", required=True, help="the forerunner binary under test")
