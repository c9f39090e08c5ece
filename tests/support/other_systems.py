"""Skips a test for what only Linux has: /proc, more than one loopback address, some calls."""

import errno
import sys
import traceback
from collections.abc import Generator
from types import ModuleType

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    try:
        yield
    except (OSError, AttributeError) as error:
        if reason := lacking(error, sys.platform):
            pytest.skip(reason)
        raise


def lacking(error: OSError | AttributeError, platform: str) -> str:
    """The thing that a system lacks, if this error says so; empty if it is an error of the code."""
    if platform == "linux":
        return ""
    if isinstance(error, AttributeError):
        return _call_of_a_test(error)
    if isinstance(error, FileNotFoundError) and str(error.filename).startswith("/proc/"):
        return "this system has no /proc"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this system has no loopback address but 127.0.0.1"
    return ""


def _call_of_a_test(error: AttributeError) -> str:
    """The product must not use what a system lacks."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error.obj, ModuleType) and frames and "/tests/" in frames[-1].filename:
        return f"this system has no {error.obj.__name__}.{error.name}"
    return ""
