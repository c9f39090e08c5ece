"""`barnabas bench soak`: its verdict finds a leak, and the whole runs on a real cluster."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.bench.server_processes import HAS_PROC
from barnabas.bench.soak import soak_show
from barnabas.bench.soak.soak_load import COUNTED
from barnabas.bench.soak.soak_run import Soak, soak, steady_from_s
from barnabas.bench.soak.soak_verdict import SoakSample, decide_trends, slope

LEVELS = {"memory_bytes": 60e6, "descriptors": 90.0, "threads": 10.0, "p50_s": 0.003}

WORKED = dict.fromkeys(COUNTED, 5)


def samples(minutes: float, growing: Callable[[float], dict[str, float]]) -> list[SoakSample]:
    """A run with noise, in which broker 1 has the level of `growing` at each minute."""
    noise = random.Random(1)
    found = []
    for number in range(int(minutes * 12)):
        for broker in range(3):
            values = LEVELS | (growing(number / 12) if broker == 1 else {})
            noisy = {name: value * noise.uniform(0.9, 1.1) for name, value in values.items()}
            found.append(SoakSample(at_s=5.0 * number, broker=broker, worst_s=0.05, **noisy))
    return found


def growing(found: list[SoakSample], minutes: float) -> list[tuple[int, str]]:
    trends = decide_trends(found, steady_from_s(minutes))
    return [(each.broker, each.measure.key) for each in trends if not each.is_flat]


@pytest.mark.parametrize("minutes", [10, 60])
def test_noise_around_a_level_is_flat(minutes: float) -> None:
    assert growing(samples(minutes, lambda _: {}), minutes) == []


@pytest.mark.parametrize(
    ("key", "each_minute"),
    [("memory_bytes", 0.5e6), ("descriptors", 1.0), ("threads", 0.1), ("p50_s", 0.0002)],
)
def test_a_planted_leak_is_found_within_an_hour(key: str, each_minute: float) -> None:
    leak = samples(60, lambda minute: {key: LEVELS[key] + minute * each_minute})
    assert growing(leak, 60) == [(1, key)]


def test_a_planted_leak_of_memory_is_found_within_ten_minutes() -> None:
    leak = samples(10, lambda minute: {"memory_bytes": 60e6 + minute * 4e6})
    assert growing(leak, 10) == [(1, "memory_bytes")]


def test_growth_before_the_steady_part_is_not_judged() -> None:
    warm = samples(60, lambda minute: {"memory_bytes": 30e6 + min(minute, 9.0) * 4e6})
    assert growing(warm, 60) == []


def test_a_few_outliers_do_not_move_the_slope() -> None:
    points = [(float(n), 5.0 if n % 10 else 500.0) for n in range(100)]
    assert slope(points) == 0


def test_the_verdict_names_the_broker_that_grows() -> None:
    leak = samples(60, lambda minute: {"memory_bytes": 60e6 + minute * 1e6})
    found = Soak(60, 600.0, leak, WORKED, decide_trends(leak, 600.0))
    assert soak_show.verdict(found) == "Growing from minute 10 on: broker 1 MB."
    assert "| 1 | MB |" in soak_show.as_markdown(found, {"cores": 2})
    assert not found.is_flat


@pytest.mark.parametrize("idle", COUNTED)
def test_a_soak_without_a_part_of_its_load_is_no_success(idle: str) -> None:
    found = samples(60, lambda _: {})
    counts = WORKED | {idle: 0, "errors": 3_000}
    ended = Soak(60, 600.0, found, counts, decide_trends(found, 600.0))
    assert not ended.is_flat
    assert soak_show.verdict(ended) == f"No verdict: parts of the load never happened: {idle}."


@pytest.mark.skipif(not HAS_PROC, reason="the memory of a process is read from /proc")
def test_a_short_soak_runs_all_its_load_and_is_drawn(tmp_path: Path) -> None:
    data, results = tmp_path / "data", tmp_path / "results"
    data.mkdir()
    told: list[str] = []
    found = soak(0.15, data, told.append, every_s=1.0)
    assert {each.broker for each in found.samples} == {0, 1, 2}
    assert all(each.memory_bytes and each.descriptors and each.threads for each in found.samples)
    assert {"acknowledged", "consumed", "topics"} <= set(found.counts)
    assert "errors" not in found.counts
    assert "of 0.15 min" in told[-1]
    written = [path.name for path in soak_show.write(found, {"cores": 2}, results)]
    assert written[:2] == ["soak.json", "soak.md"]
