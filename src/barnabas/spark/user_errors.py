"""What a person reads when a read or a write cannot go on: one sentence, in Spark's own error."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from barnabas.base.errors import BarnabasError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class SparkFailure(BarnabasError):
    """A query cannot go on; the message says what is wrong and what to do about it."""


class WrongOption(SparkFailure):
    """An option of the data source has a value it cannot have, or is missing."""


class DataLoss(SparkFailure):
    """Records that the query should have read are gone; `failOnDataLoss=false` goes on without."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Have Spark tell our errors without a traceback.

    Spark's Python worker writes the traceback unless its environment says otherwise. It is said
    only when the worker is about to end with this error, so that it hides nobody else's.
    """
    try:
        yield
    except SparkFailure:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def told_plainly(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function with `plain_errors` around it."""

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with plain_errors():
            return function(*args, **kwargs)

    return call
