"""Spark's errors as one sentence: without class names, SQLSTATEs, plans and stack traces."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

from barnabas.cli.exit_codes import CommandFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS: Final = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )*(?:\[[A-Z_0-9.]+\] )?")
_QUERY: Final = re.compile(r"^Query .*?\[id = .*?\] terminated with exception: ")
_AFTER: Final = re.compile(
    r"\s*(?:SQLSTATE: \w+|JVM stacktrace:|Driver stacktrace|== SQL|=== Streaming|\n\s*at |;\n)"
)
# The last line of a Python traceback: the exception and its message.
_PYTHON: Final = re.compile(r"^[ ]*(?:\w+\.)*\w*(?:Error|Exception): (.+)$", re.MULTILINE)
# The errors that our code raises in Spark's workers are sentences already.
_OURS: Final = re.compile(r"\bbarnabas\.[\w.]+\.[A-Z]\w+: (.+)$", re.MULTILINE)

# Spark waits ten seconds for a Python process to start, which is too short on a busy machine.
LATE: Final = "Python worker failed to connect back"
STARTS: Final = 30

Result = TypeVar("Result")


class SparkCommandFailed(CommandFailed):
    """Spark itself failed; its log may contain more."""


def spark_errors() -> tuple[type[Exception], ...]:
    """Every exception that Spark raises, in classic and in Connect sessions."""
    from pyspark.errors import PySparkException

    py4j: Any = import_module("py4j.protocol")
    return (PySparkException, py4j.Py4JError)


def explain(error: BaseException) -> str:
    """The message for the user: the one that our code raised in a worker, else Spark's."""
    text = str(getattr(error, "java_exception", None) or error)
    raised = _OURS.findall(text)
    if not raised and "Traceback (most recent call last)" in text:
        raised = _PYTHON.findall(text)
    if raised:
        return str(raised[-1]).strip()
    message = _AFTER.split(_QUERY.sub("", _CLASS.sub("", text.strip())), maxsplit=1)[0]
    return " ".join(message.split()).rstrip(".") or type(error).__name__


@contextmanager
def spark_failures(doing: str = "") -> Iterator[None]:
    """Turn every exception of Spark into SparkCommandFailed, with `doing` before the reason."""
    before = f"{doing}: " if doing else ""
    try:
        yield
    except spark_errors() as error:
        raise SparkCommandFailed(f"{before}{explain(error)}") from None
    except (ConnectionRefusedError, ConnectionResetError):  # Py4J lets these out as they are
        raise SparkCommandFailed(f"{before}Spark's driver has ended") from None


def answers(spark: "SparkSession") -> bool:
    """Return true if the driver, or the Connect server, still answers."""
    with suppress(*spark_errors(), OSError):
        spark.conf.get("spark.sql.session.timeZone")
        return True
    return False


def unless_late(work: Callable[[], Result]) -> Result:
    """Return the result of `work`; retry it if a Python worker of Spark started too late."""
    for attempt in range(2, STARTS + 1):
        try:
            return work()
        except SparkCommandFailed as failure:
            if LATE not in str(failure):
                raise
        report_late(attempt)
    return work()


def report_late(attempt: int) -> None:
    """Print why the command takes so long: no setting of Spark makes it wait longer."""
    print(
        "Spark did not wait for its own Python process, which took more than 10 s to start on this"
        f" busy machine; attempt {attempt} of {STARTS}",
        file=sys.stderr,
        flush=True,
    )
