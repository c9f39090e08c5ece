"""Skips a test for what only Linux has: /proc, and more than one address of 127.0.0.0/8."""

import errno
import sys
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        if reason := lacking(error, sys.platform):
            pytest.skip(reason)
        raise


def lacking(error: OSError, platform: str) -> str:
    """What a system lacks, if this error says so; empty if it is an error of the code."""
    if platform == "linux":
        return ""
    if isinstance(error, FileNotFoundError) and str(error.filename).startswith("/proc/"):
        return "this system has no /proc"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this system has no loopback address but 127.0.0.1"
    return ""
