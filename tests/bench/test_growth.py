"""The section growth: what was measured is reported, also if a later wait did not end."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.bench.clusters import growth_bench
from barnabas.bench.clusters.growth_bench import Growth, _rows, _Run
from barnabas.bench.clusters.probe import Probe, Probed
from barnabas.bench.clusters.waiting import WaitTimedOut


def test_waits_that_were_not_measured_are_named_and_have_no_number() -> None:
    rows = _rows([Growth(10_000, stop=1.5, start=3.0)])
    by_name = {row.name: row for row in rows}
    stop = by_name["10,000 partitions: SIGTERM to all until all have ended"]
    assert (stop.ours, stop.numbers) == ("1.50 s", {"seconds": 1.5})
    reassigned = by_name["10,000 partitions: reassignment of all, until done"]
    assert reassigned.ours.startswith("not measured")
    assert not reassigned.numbers


def test_the_brokers_are_probed_from_their_launch_on_and_around_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []
    longest = iter([0.04, 0.03, 0.07, 0.05])

    @contextmanager
    def probing(ports: list[int]) -> Any:
        events.append(f"probing {ports}")
        probe = Probe()
        try:
            yield probe
        finally:
            events.append("probed")
            probe.found = [Probed(longest_s=0.01), Probed(longest_s=next(longest))]

    async def led(*_: object) -> float:
        events.append("led")
        return 0.0

    async def late(_: object) -> float:
        raise WaitTimedOut("leaders")

    monkeypatch.setattr(growth_bench, "probing", probing)
    monkeypatch.setattr(growth_bench, "create_topics", lambda *_: None)
    monkeypatch.setattr(growth_bench, "fill", lambda *_, **__: None)
    monkeypatch.setattr(_Run, "_until_led", led)
    monkeypatch.setattr(_Run, "_metadata", led)
    monkeypatch.setattr(_Run, "_reassign_all", late)
    member: Any = SimpleNamespace(
        port=9, launch=lambda: events.append("launched"), wait_ready=lambda _: None
    )
    member.kill = lambda: events.append("killed")
    three: Any = SimpleNamespace(
        members=[member], bootstrap="", stop_together=lambda _: None, session_timeout_ms=0
    )
    bench: Any = SimpleNamespace(say=lambda _: None)
    found = _Run(bench, three, 1).run()
    started = ["probing [9]", "launched", "led", "probed"]
    metadata = ["probing [9]", "led", "probed"]
    assert events == ["led", *metadata, *started, "killed", *started, "probing [9]", "probed"]
    assert (found.answer_metadata, found.answer_starting) == (0.04, 0.07)
    assert found.answer_changing == 0.05, "also of a wait that did not end"
    rows = {row.name: row.ours for row in _rows([found])}
    assert rows["1 partitions: longest ApiVersions answer"] == "70 ms"
