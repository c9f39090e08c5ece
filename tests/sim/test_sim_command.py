"""`barnabas sim`: what it prints, and how it ends."""

import json
from collections import Counter

import pytest
import typer

from barnabas.cli.exit_codes import Misused
from barnabas.sim import seed_runner, sim_command
from barnabas.sim.sim_run import Report
from barnabas.sim.trace import Line


def report(seed: int, *broken: str, steps: int = 100) -> Report:
    lines = (Line(0.5, "broker-0", "is killed"), Line(0.6, "broker-1", "hums", is_minor=True))
    return Report(seed, broken, Counter({"power lost": 2}), 10, 36.0, steps, "abc", lines)


def test_a_seed_is_told_with_its_story(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(seed_runner, "play", lambda seed, seconds: report(seed))
    sim_command.sim(seed=42)
    told = capsys.readouterr().out
    assert "broker-0    is killed" in told
    assert "hums" not in told
    assert "power lost  2" in told
    assert "10 operations checked, history abc" in told
    assert "every law was kept" in told
    sim_command.sim(seed=42, verbose=True)
    assert "hums" in capsys.readouterr().out
    sim_command.sim(seed=42, json=True)
    assert json.loads(capsys.readouterr().out)["faults"] == {"power lost": 2}


def test_a_broken_law_is_told_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(seed_runner, "play", lambda seed, seconds: report(seed, "lost write: [1]"))
    with pytest.raises(typer.Exit) as ended:
        sim_command.sim(seed=42)
    assert ended.value.exit_code == 1
    assert "BROKEN in seed 42:\n  lost write: [1]" in capsys.readouterr().out


def test_a_search_tells_what_was_tried_and_the_shortest_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = seed_runner.Summary(elapsed_s=6.0)
    for each in (report(1), report(2, "long", steps=90), report(3, "short", steps=50)):
        found.add(each)
    monkeypatch.setattr(seed_runner, "search", lambda seeds, **_: found)
    monkeypatch.setattr(seed_runner, "shorten", lambda shortest: (shortest, 4.5))
    for as_json in (False, True):
        with pytest.raises(typer.Exit):
            sim_command.sim(seeds="1..3", json=as_json)
    told, _, document = capsys.readouterr().out.rpartition("\n{")
    assert "3 seeds tried, 6 faults injected, 30 operations checked" in told
    assert "0.03 h simulated in 6 s: 0.30 simulated hours per minute" in told
    assert "2 seeds fail: 2, 3" in told
    assert "BROKEN in seed 3:\n  short" in told
    assert "barnabas sim --seed 3 --seconds 4.5" in told
    parsed = json.loads("{" + document)
    assert parsed["failing"] == [{"seed": 2, "broken": ["long"]}, {"seed": 3, "broken": ["short"]}]
    assert parsed["simulated_hours_per_minute"] == 0.3


@pytest.mark.parametrize("text", ["x", "3..1", "..", "1..", "-1..3", "1...3"])
def test_seeds_that_are_none_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(Misused, match="--seeds"):
        sim_command.parse_seeds(text)


def test_seeds_are_a_range_with_both_its_ends_or_one() -> None:
    assert sim_command.parse_seeds("1..1000") == range(1, 1001)
    assert sim_command.parse_seeds("7") == range(7, 8)


@pytest.mark.parametrize(("seed", "seeds"), [(None, None), (1, "1..2")])
def test_one_run_or_several_have_to_be_asked_for(seed: int | None, seeds: str | None) -> None:
    with pytest.raises(Misused, match="--seed 42"):
        sim_command.sim(seed=seed, seeds=seeds)


def test_a_search_stops_at_its_time_and_counts_all_it_tried() -> None:
    summary = seed_runner.search(range(1, 1000), minutes=0, seconds=1.0, processes=1)
    assert 1 <= summary.seeds <= 2
    assert summary.failing == []
    assert summary.elapsed_s > 0


def test_a_run_that_fails_is_made_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[float] = []

    def play(seed: int, seconds: float, safeguards: object) -> Report:
        tried.append(seconds)
        return report(seed, *(["lost"] if seconds > 10 else []), steps=int(seconds))

    monkeypatch.setattr(seed_runner, "play", play)
    shorter, seconds = seed_runner.shorten(report(1, "lost"))
    assert seconds == tried[-1] == min(each for each in tried if each > 10)
    assert shorter.steps == int(seconds)
    monkeypatch.setattr(seed_runner, "play", lambda *_: report(1))
    assert seed_runner.shorten(report(1, "lost")) == (report(1, "lost"), None)
