"""The progress display of a pipeline, and Spark's errors as sentences."""

import pytest

from barnabas.spark.spark_errors import explain
from barnabas.spark.terminal import PipelineProgress, Rate, progress_line, show_progress

A_SECOND = 1_000_000_000


class Stopwatch:
    """A stopwatch that the test sets."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def test_a_rate_is_since_the_last_call_or_overall() -> None:
    stopwatch = Stopwatch()
    rate = Rate(stopwatch)
    stopwatch.now = 2 * A_SECOND
    assert rate.since_last(100) == 50
    stopwatch.now = 3 * A_SECOND
    assert (rate.since_last(400), rate.overall(600), rate.seconds) == (300, 200, 3)


def test_a_line_has_records_rate_lag_and_a_note() -> None:
    assert progress_line(PipelineProgress(12_000, 7), 4000.4) == "12,000 records, 4,000/s, lag 7"
    assert progress_line(PipelineProgress(1, 0), 0) == "1 records, 0/s, lag 0"
    assert progress_line(PipelineProgress(1, None, "3 bad"), 0) == "1 records, 0/s, 3 bad"


def test_without_a_terminal_a_line_is_printed_every_few_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stopwatch = Stopwatch()
    with show_progress("copying", stopwatch) as show:
        for second in range(11):
            stopwatch.now = second * A_SECOND
            show(PipelineProgress(10 * second, 0))
    assert capsys.readouterr().err.splitlines() == [
        "copying: 50 records, 10/s, lag 0",
        "copying: 100 records, 10/s, lag 0",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `x` cannot be found. SQLSTATE: 42P01; line"
            " 1 pos 14;\n'Project [*]\n+- 'UnresolvedRelation [x]",
            "The table or view `x` cannot be found",
        ),
        (
            "An exception was thrown from Python:\n  Traceback (most recent call last):\n"
            '    File "source.py", line 3, in f\n'
            "  barnabas.spark.user_errors.WrongOption: option subscribe is missing\n",
            "option subscribe is missing",
        ),
        ("java.io.IOException: disk full\n\tat org.apache.Foo.bar(Foo.java:1)", "disk full"),
        (
            "[STREAM_FAILED] Query [id = 59ed, runId = 8033] terminated with exception: Disk full"
            " SQLSTATE: XXKST",
            "Disk full",
        ),
        ("", "ValueError"),
    ],
)
def test_failures_of_spark_become_one_sentence(text: str, said: str) -> None:
    assert explain(ValueError(text)) == said
