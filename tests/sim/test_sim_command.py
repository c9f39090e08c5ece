"""`barnabas sim`: output and exit codes."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Final

import pytest
import typer

from barnabas.cli.exit_codes import Misused
from barnabas.sim import seed_runner, sim_command
from barnabas.sim.sim_run import Report
from barnabas.sim.world.seed_settings import InEverySeed, settings_of
from barnabas.sim.world.trace import TraceLine

# A search whose process waits for good, after its worker has begun.
SEARCHING: Final = """
import multiprocessing, os, signal
from concurrent.futures import ProcessPoolExecutor
from barnabas.sim.seed_runner import end_with_parent
spawning = multiprocessing.get_context("spawn")
pool = ProcessPoolExecutor(1, spawning, initializer=end_with_parent)
print(pool.submit(os.getpid).result(), flush=True)
signal.pause()
"""


def report(seed: int, *broken: str, steps: int = 100) -> Report:
    lines = (
        TraceLine(0.5, "broker-0", "is killed"),
        TraceLine(0.6, "broker-1", "hums", is_minor=True),
    )
    return Report(seed, broken, Counter({"power lost": 2}), 10, 36.0, steps, "abc", lines)


def test_a_replay_prints_the_trace_and_a_summary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(seed_runner, "run_seed", lambda seed, seconds, **_: report(seed))
    sim_command.sim(seed=42)
    printed = capsys.readouterr().out
    assert "broker-0    is killed" in printed
    assert "hums" not in printed
    assert "power lost  2" in printed
    assert "10 operations checked, history abc" in printed
    assert "no law was broken" in printed
    sim_command.sim(seed=42, verbose=True)
    assert "hums" in capsys.readouterr().out
    sim_command.sim(seed=42, json=True)
    assert json.loads(capsys.readouterr().out)["faults"] == {"power lost": 2}


def test_a_broken_law_is_printed_and_the_exit_code_is_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        seed_runner, "run_seed", lambda seed, seconds, **_: report(seed, "lost write: [1]")
    )
    with pytest.raises(typer.Exit) as ended:
        sim_command.sim(seed=42)
    assert ended.value.exit_code == 1
    assert "BROKEN in seed 42:\n  lost write: [1]" in capsys.readouterr().out


def test_a_search_prints_totals_and_the_shortest_failing_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = seed_runner.Summary(elapsed_s=6.0)
    for each in (report(1), report(2, "long", steps=90), report(3, "short", steps=50)):
        found.add(each)
    monkeypatch.setattr(seed_runner, "search", lambda seeds, **_: found)
    monkeypatch.setattr(seed_runner, "shorten", lambda shortest, **_: (shortest, 4.5))
    for as_json in (False, True):
        with pytest.raises(typer.Exit):
            sim_command.sim(seeds="1..3", json=as_json)
    printed, _, document = capsys.readouterr().out.rpartition("\n{")
    assert "3 seeds run, 6 faults injected, 30 operations checked" in printed
    assert "0.03 h simulated in 6 s: 0.30 simulated hours per minute" in printed
    assert "2 seeds fail: 2, 3" in printed
    assert "BROKEN in seed 3:\n  short" in printed
    assert "barnabas sim --seed 3 --seconds 4.5" in printed
    parsed = json.loads("{" + document)
    assert parsed["failing"] == [{"seed": 2, "broken": ["long"]}, {"seed": 3, "broken": ["short"]}]
    assert parsed["simulated_hours_per_minute"] == 0.3


def test_a_run_with_transactions_that_fails_is_replayed_with_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ran(seed: int, seconds: float | None, *_: object, every: InEverySeed) -> Report:
        return report(seed, *(["torn transaction"] if any(every) else []), steps=0)

    def searched(seeds: range, *, every: InEverySeed, **_: object) -> seed_runner.Summary:
        found = seed_runner.Summary(every=every)
        for seed in seeds:
            found.add(ran(seed, None, every=every))
        return found

    monkeypatch.setattr(seed_runner, "run_seed", ran)
    monkeypatch.setattr(seed_runner, "search", searched)
    sim_command.sim(seed=7)
    with pytest.raises(typer.Exit):
        sim_command.sim(seed=7, transactions=True)
    with pytest.raises(typer.Exit):
        sim_command.sim(seeds="7..8", transactions=True)
    assert "to replay: barnabas sim --seed 7 --transactions\n" in capsys.readouterr().out
    with pytest.raises(typer.Exit):
        sim_command.sim(seeds="7..8", sole_replicas=True)
    assert "to replay: barnabas sim --seed 7 --sole-replicas\n" in capsys.readouterr().out
    with pytest.raises(Misused, match="--without"):
        sim_command.sim(seed=7, without="min_insync_check", transactions=True)
    with pytest.raises(Misused, match="expected one of replicate_markers, flush_before_answer"):
        sim_command.sim(seed=7, without="min_insync_check", sole_replicas=True)


def test_what_was_done_at_once_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    visited = Counter({"EndTxn answered at once": 3})
    found = seed_runner.Summary()
    for seed in (1, 2):
        found.add(replace(report(seed), visited=visited))
    monkeypatch.setattr(seed_runner, "search", lambda seeds, **_: found)
    sim_command.sim(seeds="1..2")
    assert "EndTxn answered at once  6" in capsys.readouterr().out
    sim_command.sim(seeds="1..2", json=True)
    assert json.loads(capsys.readouterr().out)["visited"] == {"EndTxn answered at once": 6}


def test_every_seed_has_transactions_if_asked_and_is_otherwise_the_same() -> None:
    for seed in range(20):
        chosen = settings_of(seed)
        assert settings_of(seed, transactions=True) == replace(chosen, has_transactions=True)
    found = seed_runner.Summary(every=InEverySeed(transactions=True))
    for seed in range(20):
        found.add(report(seed))
    assert found.transactional == found.seeds == 20


@pytest.mark.parametrize("text", ["x", "3..1", "..", "1..", "-1..3", "1...3"])
def test_invalid_seeds_are_rejected(text: str) -> None:
    with pytest.raises(Misused, match="--seeds"):
        sim_command.parse_seeds(text)


def test_seeds_are_an_inclusive_range_or_one_seed() -> None:
    assert sim_command.parse_seeds("1..1000") == range(1, 1001)
    assert sim_command.parse_seeds("7") == range(7, 8)


@pytest.mark.parametrize(("seed", "seeds"), [(None, None), (1, "1..2")])
def test_either_seed_or_seeds_is_required(seed: int | None, seeds: str | None) -> None:
    with pytest.raises(Misused, match="specify either --seed"):
        sim_command.sim(seed=seed, seeds=seeds)


def test_a_search_stops_at_its_time_limit_and_counts_all_runs() -> None:
    summary = seed_runner.search(range(1, 1000), minutes=0, seconds=1.0, processes=1)
    assert 1 <= summary.seeds <= 2
    assert summary.failing == []
    assert summary.elapsed_s > 0


def test_a_failing_run_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[float] = []

    def run_seed(seed: int, seconds: float, safeguards: object, **_: object) -> Report:
        tried.append(seconds)
        return report(seed, *(["lost"] if seconds > 10 else []), steps=int(seconds))

    monkeypatch.setattr(seed_runner, "run_seed", run_seed)
    shorter, seconds = seed_runner.shorten(report(1, "lost"))
    assert seconds == tried[-1] == min(each for each in tried if each > 10)
    assert shorter.steps == int(seconds)
    monkeypatch.setattr(seed_runner, "run_seed", lambda *_, **__: report(1))
    assert seed_runner.shorten(report(1, "lost")) == (report(1, "lost"), None)


def test_the_processes_of_a_search_that_is_killed_end_too() -> None:
    with subprocess.Popen([sys.executable, "-c", SEARCHING], stdout=subprocess.PIPE) as searching:
        assert searching.stdout is not None
        assert int(searching.stdout.readline()) != searching.pid
        searching.kill()
        # The worker has the same standard output: that ends with the last process.
        assert searching.communicate(timeout=30)[0] == b""
