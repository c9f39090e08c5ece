"""Runs commands in this process, on the Spark session that the tests share."""

import contextlib
import io
from typing import NamedTuple

from barnabas.cli.main import run


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def barnabas(*arguments: object) -> Ended:
    written, err = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(written, "utf-8", write_through=True)  # some commands write bytes
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    return Ended(code, written.getvalue().decode(), err.getvalue())
