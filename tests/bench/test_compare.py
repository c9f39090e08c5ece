"""Comparison runs: order of measurements, failures, results."""

import html
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from barnabas.bench.compare import compare_cases
from barnabas.bench.compare.compare_cases import CASES, Case, CaseMetric, Effort, Turns
from barnabas.bench.compare.compare_cold import StillCached, cached_share, forget
from barnabas.bench.compare.compare_run import Compared, Comparison, compare
from barnabas.bench.compare.compare_show import as_html, cells, draw, tally, write
from barnabas.bench.compare.compare_sites import Site, System
from barnabas.bench.compare.median_interval import Verdict, median_interval
from barnabas.bench.limits.clients_bench import RecordsMissing

EFFORT = Effort(3, 1_000, 0.1, 10, 0.0)
RATE = CaseMetric("rate", "1/s", goal=2.0)
TIME = CaseMetric("time", "ms", less=True, goal=0.5)


def system(name: str) -> System:
    return System(name, lambda folder, brokers: nullcontext(Site(name)))


def silent(_: str) -> None:
    """Nobody watches."""


def test_both_are_measured_in_turn_and_the_first_changes_from_round_to_round(
    tmp_path: Path,
) -> None:
    order: list[str] = []

    def measure(site: Site, effort: Effort) -> tuple[float]:
        order.append(site.bootstrap)
        return (1.0,)

    case = Case("a", (RATE,), measure)
    compare(system("ours"), system("theirs"), [case], EFFORT, tmp_path, silent)
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]


def test_the_ratio_is_the_median_of_the_rounds_ratios(tmp_path: Path) -> None:
    values = {"ours": iter((6.0, 9.0, 20.0)), "theirs": iter((2.0, 1.0, 5.0))}
    case = Case("a", (RATE,), lambda site, _: (next(values[site.bootstrap]),))
    found = compare(system("ours"), system("theirs"), [case], EFFORT, tmp_path, silent)
    (row,) = found.rows
    assert row.ratios == [3.0, 9.0, 4.0]
    assert row.ratio == 4.0


def test_a_goal_is_a_minimal_ratio_or_a_maximal_one_if_less_is_better() -> None:
    assert Compared(RATE, [4.0], [2.0]).met is True
    assert Compared(RATE, [3.0], [2.0]).met is False
    assert Compared(TIME, [1.0], [2.0]).met is True
    assert Compared(TIME, [1.5], [2.0]).met is False
    assert Compared(CaseMetric("no goal", "s"), [1.0], [1.0]).met is None


def test_a_goal_is_shown_with_the_rounds_that_reach_it() -> None:
    reached = Compared(RATE, [4.0, 1.0, 6.0], [2.0, 1.0, 2.0])
    assert cells(reached)[-2:] == ["2.00 (1.00-3.00)", "✓ ≥ 2, 2 of 3 rounds"]
    missed = Compared(TIME, [1.0, 1.0, 0.1], [1.0, 1.0, 1.0])
    assert cells(missed)[-1] == "✗ ≤ 0.5, 1 of 3 rounds"


def test_an_interval_says_whether_a_goal_is_met_missed_or_cannot_be_told() -> None:
    low, high = [0.9, 0.95, 0.97, 0.98, 0.96, 0.99], [1.0, 1.1, 1.2, 1.3, 1.1, 1.0]
    rate = CaseMetric("rate", "MB/s", goal=1.0)
    missed = Compared(rate, [0.97], [1.0], low)
    assert (missed.interval, missed.verdict) == ((0.9, 0.99), Verdict.MISSED)
    assert Compared(rate, [1.1], [1.0], high).verdict is Verdict.MET
    both = Compared(rate, [0.97], [1.0], low[:3] + high[:3])
    assert (both.interval, both.verdict) == ((0.9, 1.2), Verdict.UNDECIDED)
    assert both.met is False, "by the median, whatever the interval says"
    assert cells(both)[-1] == "✗ ≥ 1, 0 of 1 rounds; ≈ 0.90-1.20, 6 pairs"
    less = CaseMetric("latency", "ms", less=True, goal=1.0)
    assert Compared(less, [0.97], [1.0], low).verdict is Verdict.MET
    few = Compared(rate, [0.97], [1.0], low[:5])
    assert (few.interval, few.verdict) == (None, None)
    found = Comparison("ours", "theirs", [missed, both, few], [])
    assert tally(found) == (
        "Of 3 goals 0 are met and 3 missed by the median. By the interval 0 are met, 1 missed, and"
        " 1 cannot be told apart from their goal; 1 have too few pairs."
    )


def test_turns_make_pairs_and_rounds_do_where_a_case_has_no_turns(tmp_path: Path) -> None:
    figures = {"ours": [(6.0,), (8.0,), (9.0,)], "theirs": [(2.0,), (4.0,)]}

    def in_turns(site: Site, effort: Effort) -> Turns:
        yield from figures[site.bootstrap]
        return (5.0,)

    cases = [Case("a", (RATE,), in_turns), Case("b", (RATE,), lambda *_: (7.0,))]
    effort = replace(EFFORT, repeat=2)
    found = compare(system("ours"), system("theirs"), cases, effort, tmp_path, silent)
    turns, rounds = found.rows
    assert turns.pairs == [3.0, 2.0, 3.0, 2.0]
    assert rounds.pairs == rounds.ratios == [1.0, 1.0]


@pytest.mark.parametrize(
    ("count", "ranks"), [(5, None), (6, (0, 5)), (9, (1, 7)), (12, (2, 9)), (20, (5, 14))]
)
def test_an_interval_has_the_ranks_of_the_binomial_table(
    count: int, ranks: tuple[int, int] | None
) -> None:
    assert median_interval([float(each) for each in reversed(range(count))]) == ranks


def test_a_turn_is_followed_by_another_as_long_as_that_would_end_in_time() -> None:
    effort = replace(EFFORT, load_s=4.0)
    assert effort.has_time([])
    assert effort.has_time([1.5])
    assert not effort.has_time([1.5, 1.5])
    assert not effort.has_time([2.5])


def test_a_turn_is_followed_by_another_whatever_its_time_unless_that_is_long() -> None:
    effort = replace(EFFORT, load_s=4.0, least_turns=2)
    assert effort.has_time([2.5])
    assert not effort.has_time([2.5, 2.5])
    assert not effort.has_time([13.0])


def test_turns_alternate_until_both_systems_are_done(tmp_path: Path) -> None:
    order: list[str] = []

    def measure(site: Site, effort: Effort) -> Turns:
        try:
            for _ in range(2 if site.bootstrap == "ours" else 4):
                order.append(site.bootstrap[0])
                yield None
            return (1.0,)
        finally:
            order.append(f"{site.bootstrap} ends")

    effort = replace(EFFORT, repeat=1)
    found = compare(
        system("ours"), system("theirs"), [Case("a", (RATE,), measure)], effort, tmp_path, silent
    )
    assert order == ["o", "t", "o", "t", "ours ends", "t", "t", "theirs ends"]
    assert found.rows[0].ratios == [1.0]


def test_a_failure_in_one_turn_ends_those_of_the_other_system(tmp_path: Path) -> None:
    ended: list[str] = []

    def measure(site: Site, effort: Effort) -> Turns:
        try:
            yield None
            if site.bootstrap == "theirs":
                raise RecordsMissing("gone")
            yield None
            return (1.0,)
        finally:
            ended.append(site.bootstrap)

    effort = replace(EFFORT, repeat=1)
    cases = [Case("a", (RATE,), measure)]
    found = compare(system("ours"), system("theirs"), cases, effort, tmp_path, silent)
    assert found.failures == ["a, theirs: gone"] * 2
    assert sorted(ended) == ["ours", "ours", "theirs", "theirs"]


def test_a_failure_during_cleanup_is_reported_and_the_cluster_replaced(tmp_path: Path) -> None:
    started: list[str] = []

    def start(folder: Path, brokers: int) -> AbstractContextManager[Site]:
        started.append("ours")
        return nullcontext(Site("ours"))

    def measure(site: Site, effort: Effort) -> Turns:
        try:
            yield None
            if site.bootstrap == "theirs":
                raise RecordsMissing("gone")
            yield None
            return (1.0,)
        finally:
            if site.bootstrap == "ours":
                raise RecordsMissing("not deleted")

    effort = replace(EFFORT, repeat=1)
    cases = [Case("bad", (RATE,), measure), Case("good", (TIME,), lambda *_: (1.0,))]
    found = compare(System("ours", start), system("theirs"), cases, effort, tmp_path, silent)
    assert found.failures[:2] == ["bad, theirs: gone", "bad, ours: not deleted"]
    assert [len(row.ratios) for row in found.rows] == [0, 1]
    assert started == ["ours"] * 2, "after its own failure the next case got another"


def test_a_cluster_that_cannot_be_stopped_is_reported_and_no_figure_is_lost(tmp_path: Path) -> None:
    @contextmanager
    def start(folder: Path, brokers: int) -> Iterator[Site]:
        yield Site("ours")
        raise OSError("still there")

    effort = replace(EFFORT, repeat=1)
    cases = [Case("a", (RATE,), lambda *_: (1.0,))]
    found = compare(System("ours", start), system("theirs"), cases, effort, tmp_path, silent)
    assert found.failures == ["at the end, ours: still there"]
    assert [len(row.ratios) for row in found.rows] == [1]


def test_a_shared_cluster_is_warmed_up_once_before_it_is_measured(tmp_path: Path) -> None:
    order: list[str] = []

    def measure(site: Site, effort: Effort) -> tuple[float]:
        order.append(site.bootstrap)
        return (1.0,)

    cases = [Case("a", (RATE,), measure), Case("b", (TIME,), measure)]
    effort = replace(EFFORT, repeat=1)
    both = system("ours"), system("theirs")
    compare(*both, cases, effort, tmp_path, silent, lambda s: order.append(f"warm {s.bootstrap}"))
    assert order == ["warm ours", "warm theirs", "ours", "theirs", "ours", "theirs"]


def test_a_failing_case_is_reported_and_retried_and_stops_no_other(tmp_path: Path) -> None:
    def fail(site: Site, effort: Effort) -> tuple[float]:
        raise RecordsMissing("three of four")

    cases = [Case("bad", (TIME,), fail), Case("good", (RATE,), lambda *_: (1.0,), fresh=True)]
    found = compare(system("ours"), system("theirs"), cases, EFFORT, tmp_path, silent)
    assert found.failures == ["bad, ours: three of four", "bad, theirs: three of four"]
    assert [len(row.ratios) for row in found.rows] == [0, 3]
    assert cells(found.rows[0]) == ["time", "", "", "not measured", "≤ 0.5"]
    assert "not measured" in as_html(found, {}, b"")
    assert draw(found)["png"], "a row without a ratio has no bar"
    assert list(tmp_path.iterdir()) == [], "no data is left behind"


def test_a_round_that_failed_once_is_made_up_for(tmp_path: Path) -> None:
    fails = iter([True])

    def measure(site: Site, effort: Effort) -> tuple[float]:
        if next(fails, False):
            raise RecordsMissing("gone")
        return (1.0,)

    cases = [Case("a", (RATE,), measure)]
    found = compare(system("ours"), system("theirs"), cases, EFFORT, tmp_path, silent)
    assert len(found.rows[0].ratios) == EFFORT.repeat
    assert len(found.failures) == 1


def test_after_a_failure_the_next_case_gets_another_cluster(tmp_path: Path) -> None:
    started: list[str] = []

    def start(folder: Path, brokers: int) -> AbstractContextManager[Site]:
        started.append("ours")
        return nullcontext(Site("ours"))

    def fail(site: Site, effort: Effort) -> tuple[float]:
        raise RecordsMissing("gone")

    cases = [Case("bad", (RATE,), fail), Case("good", (TIME,), lambda *_: (1.0,))]
    effort = replace(EFFORT, repeat=1)
    compare(System("ours", start), system("theirs"), cases, effort, tmp_path, silent)
    assert started == ["ours", "ours"]


def test_every_case_has_a_round_and_no_round_starts_too_late(tmp_path: Path) -> None:
    cases = [Case(name, (RATE,), lambda *_: (1.0,), fresh=name == "b") for name in "abc"]
    effort = replace(EFFORT, minutes=1e-9)
    found = compare(system("ours"), system("theirs"), cases, effort, tmp_path, silent)
    assert [len(row.ours) for row in found.rows] == [1, 1, 1]


def test_a_slow_case_has_fewer_rounds(tmp_path: Path) -> None:
    order: list[str] = []

    def measure(name: str, site: Site, effort: Effort) -> tuple[float]:
        order.append(name)
        return (1.0,)

    cases = [
        Case("a", (RATE,), partial(measure, "a")),
        Case("b", (TIME,), partial(measure, "b"), most=1),
    ]
    compare(system("ours"), system("theirs"), cases, EFFORT, tmp_path, silent)
    assert "".join(order) == "aabbaaaa"


@pytest.mark.parametrize("how", [KeyboardInterrupt, SystemError])
def test_a_signal_ends_the_run_and_keeps_the_figures(
    tmp_path: Path, how: type[BaseException]
) -> None:
    stopped: list[str] = []

    @contextmanager
    def ending(folder: Path, brokers: int) -> Iterator[Site]:
        try:
            yield Site("ours")
        finally:
            stopped.append("ours")

    def interrupted(site: Site, effort: Effort) -> tuple[float]:
        raise how

    cases = [Case("a", (RATE,), lambda *_: (1.0,)), Case("b", (TIME,), interrupted)]
    found = compare(System("ours", ending), system("theirs"), cases, EFFORT, tmp_path, silent)
    assert found.interrupted
    assert [(row.metric, row.ours) for row in found.rows] == [(RATE, [1.0])]
    assert stopped == ["ours"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="others do not say what is cached")
def test_an_evicted_file_is_read_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "00.log"
    path.write_bytes(b"v" * 8_000_000)
    with path.open("rb") as file:
        if cached_share(file.fileno()) == 0.0:
            pytest.skip("this file system has no page cache")
        try:
            forget(path)
        except StillCached:
            pytest.skip("this file system is the page cache")
        assert cached_share(file.fileno()) < 0.05
        file.read()
        assert cached_share(file.fileno()) > 0.5


def test_a_comparison_is_written_as_json_table_page_and_picture(tmp_path: Path) -> None:
    case = Case("a", (RATE, TIME), lambda site, _: (2.0, 1.0))
    found = compare(system("<ours>"), system("theirs"), [case], EFFORT, tmp_path, silent)
    paths = write(found, {"cores": 2}, tmp_path / "results")
    data, table, page_file, picture = paths
    assert [path.suffix for path in paths] == [".json", ".md", ".html", ".png"]
    content = json.loads(data.read_text())
    assert [row["ratios"] for row in content["rows"]] == [[1.0] * 3] * 2
    assert (
        "| rate | 2 1/s | 2 1/s | 1.00 (1.00-1.00) | ✗ ≥ 2, 0 of 3 rounds |\n" in table.read_text()
    )
    for told in (table.read_text(), html.unescape(page_file.read_text())):
        assert "A ratio is what <ours> had in a round divided by what theirs had in it:" in told
    page = page_file.read_text()
    assert "&lt;ours&gt; beside theirs" in page
    assert "<svg" in page
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "<svg" not in as_html(found, {}, b""), "a page without a picture is a page"


def test_every_measure_has_a_row_of_its_own() -> None:
    names = [metric.name for case in CASES for metric in case.metrics]
    assert len(names) == len(set(names))
    assert len({case.key for case in CASES}) == len(CASES)


def test_warm_up_ends_after_two_rounds_without_a_speedup() -> None:
    rates = iter([1.0, 2.0, 2.1, 2.4, 2.0, 2.5, 9.0])
    compare_cases._warm(lambda: next(rates), most_s=60.0)
    assert next(rates) == 9.0
    once = iter([1.0, 9.0])
    compare_cases._warm(lambda: next(once), most_s=0.0)
    assert next(once) == 9.0
