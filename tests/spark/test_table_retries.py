"""Retries of `barnabas pipeline table --continuous`."""

import pytest

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.table.table_retries import RETRIED_FOR_S, Retries


class Watch:
    """A stopwatch that a test sets, in seconds."""

    def __init__(self) -> None:
        self.seconds = 0

    def __call__(self) -> int:
        return self.seconds * 1_000_000_000


def fail(retries: Retries, why: str = "no leader") -> None:
    with retries:
        raise CommandFailed(why)


def test_a_failure_is_printed_once_and_suppressed_until_it_lasts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    watch = Watch()
    retries = Retries(lambda: True, watch)
    fail(retries)
    watch.seconds = RETRIED_FOR_S - 1
    fail(retries)
    fail(retries, "no broker")
    assert capsys.readouterr().err == "no leader; trying again\nno broker; trying again\n"
    watch.seconds = RETRIED_FOR_S
    with pytest.raises(CommandFailed, match="no broker"):
        fail(retries, "no broker")


def test_a_success_in_between_starts_the_time_again(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch()
    retries = Retries(lambda: True, watch)
    fail(retries)
    with retries:
        pass
    watch.seconds = RETRIED_FOR_S
    fail(retries)
    assert capsys.readouterr().err == "no leader; trying again\n" * 2


def test_nothing_is_retried_without_spark_and_no_other_error() -> None:
    with pytest.raises(CommandFailed, match="no leader"):
        fail(Retries(lambda: False))
    with pytest.raises(KeyboardInterrupt), Retries(lambda: True):
        raise KeyboardInterrupt
