"""The compaction benchmark."""

from barnabas.bench.limits.compaction_bench import LOADS, measure


def test_a_pass_over_a_small_log_keeps_one_record_of_each_key() -> None:
    for load in LOADS:
        result = measure(load, 300_000)
        assert 0 < result.keys < result.records
        assert 0 < result.bytes_after < result.bytes_before
        assert result.seconds > 0
