"""What went wrong in Spark, as one sentence: without classes, SQLSTATEs, plans and stack traces."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, TypeVar

from barnabas.cli.exit_codes import CommandFailed

_CLASS: Final = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )*(?:\[[A-Z_0-9.]+\] )?")
_QUERY: Final = re.compile(r"^Query .*?\[id = .*?\] terminated with exception: ")
_AFTER: Final = re.compile(
    r"\s*(?:SQLSTATE: \w+|JVM stacktrace:|Driver stacktrace|== SQL|=== Streaming|\n\s*at |;\n)"
)
# The last line of a traceback of Python: the exception, and what it says.
_PYTHON: Final = re.compile(r"^[ ]*(?:\w+\.)*\w*(?:Error|Exception): (.+)$", re.MULTILINE)
# What our own code raises in Spark's workers is a sentence already.
_OURS: Final = re.compile(r"\bbarnabas\.[\w.]+\.[A-Z]\w+: (.+)$", re.MULTILINE)

# Spark waits ten seconds for a process of Python, which a busy machine may not start in that time.
LATE: Final = "Python worker failed to connect back"
STARTS: Final = 30

Result = TypeVar("Result")


class SparkFailed(CommandFailed):
    """Spark itself failed, and its own log may say more."""


def spark_errors() -> tuple[type[Exception], ...]:
    """All that Spark raises, in sessions of both kinds."""
    from pyspark.errors import PySparkException

    py4j: Any = import_module("py4j.protocol")
    return (PySparkException, py4j.Py4JError)


def explain(error: BaseException) -> str:
    """The sentence that a person can use; of our own code in Spark's workers, what it raised."""
    text = str(getattr(error, "java_exception", None) or error)
    raised = _OURS.findall(text)
    if not raised and "Traceback (most recent call last)" in text:
        raised = _PYTHON.findall(text)
    if raised:
        return str(raised[-1]).strip()
    said = _AFTER.split(_QUERY.sub("", _CLASS.sub("", text.strip())), maxsplit=1)[0]
    return " ".join(said.split()).rstrip(".") or type(error).__name__


@contextmanager
def spark_failures(doing: str = "") -> Iterator[None]:
    """Raises SparkFailed, with `doing` before the reason, for whatever Spark raises inside."""
    try:
        yield
    except spark_errors() as error:
        before = f"{doing}: " if doing else ""
        raise SparkFailed(f"{before}{explain(error)}") from None


def unless_late(work: Callable[[], Result]) -> Result:
    """What `work` returns; it is done again if a process that Spark needs was late to start."""
    for _ in range(STARTS - 1):
        try:
            return work()
        except SparkFailed as failure:
            if LATE not in str(failure):
                raise
    return work()
