"""Simulated clocks: virtual time, seeded drift, and jumps."""

from barnabas.base.randomness import Random
from barnabas.sim.world.sim_clocks import DRIFT_PPM, EPOCH_MS, OFFSET_MS, SimClock, SimStopwatch
from barnabas.sim.world.sim_loop import SimLoop

HOUR_S = 3600


def test_clocks_drift_apart_within_the_limit() -> None:
    loop = SimLoop()
    clocks = [SimClock(loop, Random(seed)) for seed in range(20)]
    before = [clock.now_ms() for clock in clocks]
    assert all(abs(ms - EPOCH_MS - loop.time() * 1000) <= OFFSET_MS + 1 for ms in before)
    loop._now += HOUR_S
    passed = [clock.now_ms() - ms for clock, ms in zip(clocks, before, strict=True)]
    most = HOUR_S * 1000 * DRIFT_PPM / 1e6
    assert all(abs(ms - HOUR_S * 1000) <= most + 1 for ms in passed)
    assert len(set(passed)) > 10
    loop.close()


def test_a_clock_jumps_and_keeps_running() -> None:
    loop = SimLoop()
    clock = SimClock(loop, Random(1))
    before = clock.now_ms()
    clock.jump(-60_000)
    assert clock.now_ms() == before - 60_000
    loop._now += 1
    assert before - 60_000 < clock.now_ms() < before - 58_000
    loop.close()


def test_a_stopwatch_shows_virtual_time_only() -> None:
    loop = SimLoop()
    stopwatch = SimStopwatch(loop)
    before = stopwatch()
    assert stopwatch() == before
    loop._now += 2
    assert stopwatch() - before == 2_000_000_000
    loop.close()
