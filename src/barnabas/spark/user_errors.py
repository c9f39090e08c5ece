"""Errors of the data source and the sink: one sentence, which Spark shows without a traceback."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from barnabas.base.errors import BarnabasError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class SparkFailure(BarnabasError):
    """A query cannot continue; the message says what is wrong and what to do."""


class WrongOption(SparkFailure):
    """An option of the data source is missing or has an invalid value."""


class DataLoss(SparkFailure):
    """Records that the query has not read are lost; `failOnDataLoss=false` skips them."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Make Spark show our errors without a traceback.

    Spark's Python worker prints a traceback unless an environment variable hides it. We set it
    only when the worker is about to end with our error, so no other traceback is hidden.
    """
    try:
        yield
    except SparkFailure:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def without_traceback(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Wrap the function in `plain_errors`."""

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with plain_errors():
            return function(*args, **kwargs)

    return call
