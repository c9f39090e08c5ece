"""`barnabas bench limits`: options, rows, files and interruption, without a real attack."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from barnabas.bench.attacks import limits_command, limits_document
from barnabas.bench.attacks.attack import MB, Attack, Happened, Target
from barnabas.bench.attacks.attack_probe import Latency, ProbeRounds, Round
from barnabas.bench.attacks.attack_run import QUICK, Attacked, is_as_before, is_given_back
from barnabas.bench.attacks.attack_table import ATTACKS, LimitsRow, LimitsTable, chosen, run
from barnabas.bench.bench_command import app
from barnabas.bench.compare.compare_sites import BrokerProcess, Site, System
from barnabas.bench.server_processes import ServerFailed

ROOT = Path(__file__).parents[2]
LATENCY = Latency(0.001, 0.02, 100, 0)


def found(text: str = "closed 3 of 3", most: int = 60 * MB) -> Attacked:
    happened = Happened(text, 10, {"closed": 3})
    return Attacked(happened, 25 * MB, most, 26 * MB, LATENCY, LATENCY, LATENCY)


def table() -> LimitsTable:
    ours = {"Barnabas": found(), "Apache Kafka": found("closed 0 of 3")}
    down = Attacked(Happened("no writes for 6 s"), MB, 2 * MB, MB, None, None, None)
    return LimitsTable(
        [
            LimitsRow("stall", "3 connections that stall", dict(ours)),
            LimitsRow("killed", "SIGKILL", {"Barnabas": down, "Apache Kafka": "it did not start"}),
        ]
    )


def test_an_unknown_attack_is_rejected_first() -> None:
    refused = CliRunner().invoke(app, ["limits", "--only", "batch,nonsense"])
    assert refused.exit_code == 2
    assert "nonsense" in refused.output


def test_attacks_have_names_of_their_own_and_are_found_by_words() -> None:
    keys = [attack.key for attack in ATTACKS]
    assert len(set(keys)) == len(keys)
    for quick in (False, True):
        titles = [attack.title(quick=quick) for attack in ATTACKS]
        assert len(set(titles)) == len(titles)
    assert [attack.key for attack in chosen(["bomb"])] == [
        "batch bomb plain",
        "batch bomb compacted",
    ]
    assert chosen([]) == list(ATTACKS)


def test_the_help_names_a_word_for_every_attack() -> None:
    told = CliRunner().invoke(app, ["limits", "--help"], terminal_width=200).output
    words = " ".join(told.split()).partition("in their name: ")[2].partition(".")[0].split(", ")
    assert chosen(words) == list(ATTACKS)


def test_the_page_is_a_function_of_the_figures(tmp_path: Path) -> None:
    figures, page = limits_document.write(
        table(), {"cores": 2}, "", tmp_path / "r" / "limits.json", tmp_path / "d" / "limits.md"
    )
    read = limits_document.from_json(figures.read_text())
    assert limits_document.as_markdown(*read) == page.read_text()
    lines = page.read_text().splitlines()
    assert lines[-2] == (
        "| 3 connections that stall | closed 0 of 3 | closed 3 of 3"
        " | 25 → 60 MB (25 → 60 MB) | 1.0, 20 ms (1.0, 20 ms) | yes (yes) |"
    )
    assert "failed: it did not start" in lines[-1]


def test_the_published_page_has_the_measured_figures() -> None:
    read = limits_document.from_json((ROOT / limits_command.FIGURES).read_text())
    assert limits_document.as_markdown(*read) == (ROOT / limits_command.DOCUMENT).read_text()
    measured = [row.key for row in read[0].rows]
    assert measured == [attack.key for attack in ATTACKS if attack.key in measured]


def test_memory_is_given_back_when_most_of_the_growth_is_gone() -> None:
    assert is_given_back(before=30 * MB, most=430 * MB, after=120 * MB)
    assert not is_given_back(before=30 * MB, most=430 * MB, after=200 * MB)
    assert is_given_back(before=30 * MB, most=40 * MB, after=40 * MB)  # allocators keep some


def test_others_are_served_as_before_when_all_are_answered_in_time() -> None:
    assert is_as_before(LATENCY, Latency(0.0025, 0.1, 50, 0))
    assert not is_as_before(LATENCY, Latency(0.005, 0.1, 50, 0))
    assert not is_as_before(LATENCY, Latency(0.001, 0.1, 50, 1))
    assert not is_as_before(LATENCY, Latency(float("nan"), float("nan"), 0, 0))


def test_a_round_counts_for_every_period_that_it_reaches_into() -> None:
    rounds = [Round(1.0, 0.1, True), Round(2.0, 5.0, True), Round(8.0, 0.1, False)]
    probed = ProbeRounds({0: rounds})
    assert probed.latency(4.0, 6.0) == Latency(5.0, 5.0, 1, 0)
    assert probed.latency(7.5, 9.0) == Latency(0.1, 0.1, 1, 1)


def test_a_round_that_is_not_over_counts_as_unserved() -> None:
    probed = ProbeRounds({0: [Round(1.0, 1.0, True)]})
    assert probed.latency(5.0, 12.0) == Latency(10.0, 10.0, 1, 1)


@pytest.mark.parametrize("problem", [ServerFailed("it did not start"), TimeoutError("late")])
def test_an_attack_that_fails_is_a_row_and_the_others_go_on(
    problem: Exception, tmp_path: Path
) -> None:
    shown: list[LimitsRow] = []
    outcome = run_with([fails_with(problem), lambda _: Happened("fine")], tmp_path, shown.append)
    assert outcome.failures == [f"attack 0, ours: {problem}"]
    assert isinstance(outcome.rows[1].found["ours"], Attacked)
    assert shown == outcome.rows


def test_an_interrupted_run_keeps_the_rows_so_far(tmp_path: Path) -> None:
    attacks = [lambda _: Happened("fine"), fails_with(KeyboardInterrupt())]
    outcome = run_with(attacks, tmp_path, lambda _: None)
    assert (len(outcome.rows), outcome.interrupted) == (1, True)


def fails_with(problem: BaseException) -> Callable[[Target], Happened]:
    def perform(_: Target) -> Happened:
        raise problem

    return perform


def run_with(
    performed: list[Callable[[Target], Happened]],
    folder: Path,
    on_row: Callable[[LimitsRow], None],
) -> LimitsTable:
    attacks = [
        Attack(f"attack {number}", f"attack {number}", each, 1, 1, is_probed=False)
        for number, each in enumerate(performed)
    ]
    # A process that is no broker: nothing is asked of it but its memory.
    broker = BrokerProcess(0, ["sleep", "60"], 0, folder / "none")
    try:
        system = System("ours", lambda *_: nullcontext(Site("", (broker,))))
        return run([("ours", lambda _: system)], attacks, QUICK, folder, lambda _: None, on_row)
    finally:
        broker.kill()
