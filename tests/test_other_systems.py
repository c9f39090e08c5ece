"""Tests of what only Linux has are skipped elsewhere, and fail on Linux."""

import errno
import os

import pytest

from tests.support.other_systems import lacking

NO_PROC = FileNotFoundError(errno.ENOENT, "No such file or directory", "/proc/1/stat")
NO_ADDRESS = OSError(errno.EADDRNOTAVAIL, "Can't assign requested address")


def test_what_only_linux_has_is_no_failure_elsewhere() -> None:
    assert lacking(NO_PROC, "darwin") == "this system has no /proc"
    assert "127.0.0.1" in lacking(NO_ADDRESS, "darwin")


def test_the_same_errors_fail_on_linux_and_others_everywhere() -> None:
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "/tmp/data")
    assert {lacking(error, "linux") for error in (NO_PROC, NO_ADDRESS, missing)} == {""}
    assert lacking(missing, "darwin") == ""


def test_a_call_that_a_test_makes_is_skipped_where_it_is_missing() -> None:
    call = "only_linux_has_it"
    with pytest.raises(AttributeError) as raised:
        getattr(os, call)
    assert lacking(raised.value, "darwin") == "this system has no os.only_linux_has_it"
    assert lacking(raised.value, "linux") == ""
