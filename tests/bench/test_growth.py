"""The section growth: what was measured is reported, also if a later wait did not end."""

from barnabas.bench.clusters.growth_bench import Growth, _rows


def test_waits_that_were_not_measured_are_named_and_have_no_number() -> None:
    rows = _rows([Growth(10_000, stop=1.5, start=3.0)])
    by_name = {row.name: row for row in rows}
    stop = by_name["10,000 partitions: SIGTERM to all until all have ended"]
    assert (stop.ours, stop.numbers) == ("1.50 s", {"seconds": 1.5})
    reassigned = by_name["10,000 partitions: reassignment of all, until done"]
    assert reassigned.ours.startswith("not measured")
    assert not reassigned.numbers
