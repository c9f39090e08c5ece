"""Quotas: rates over windows (S36), eight levels of precedence (S34), the token bucket (S40)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.client_quotas import (
    ABSENT,
    CLIENT_KEYS,
    CONNECTION,
    DEFAULT,
    MOST_METERS,
    MUTATION,
    PRODUCER,
    ClientMeters,
    ClientQuotas,
    QuotaEntity,
    Window,
    levels,
)
from barnabas.security.quota_rate import Meter, QuotaRate, TokenBucket


def quotas(**values: float) -> ClientQuotas:
    return ClientQuotas(Window(), Window())


def test_s34_the_most_specific_of_eight_levels_counts() -> None:
    order = levels("alice", "app")
    assert len(set(order)) == 8
    known = quotas()
    for value, entity in reversed(list(enumerate(order))):
        known.know(entity, {PRODUCER: float(value + 1)})
        assert known.quota("alice", "app", PRODUCER) == (entity, value + 1)
    for value, entity in enumerate(order[:-1]):
        known.know(entity, {})
        assert known.quota("alice", "app", PRODUCER) == (order[value + 1], value + 2)
    known.know(order[-1], {})
    assert known.quota("alice", "app", PRODUCER) is None
    assert not known.is_used


def test_s34_clients_share_a_meter_as_far_as_the_entity_names_them() -> None:
    known = quotas()
    known.know(QuotaEntity("alice"), {PRODUCER: 10})
    known.know(QuotaEntity(ABSENT, DEFAULT), {PRODUCER: 20})
    one, other = known.of("alice", "a", 0), known.of("alice", "b", 0)
    assert one.produce is other.produce
    assert known.of("bob", "a", 0).produce is not known.of("bob", "b", 0).produce
    assert known.of("bob", "a", 0).produce is known.of("carol", "a", 0).produce


def test_s41_meters_out_of_use_are_dropped_and_those_in_use_stay() -> None:
    known = quotas()
    known.know(QuotaEntity(ip=DEFAULT), {CONNECTION: 1})
    known.know(QuotaEntity(ABSENT, DEFAULT), {PRODUCER: 10, MUTATION: 1})
    busy, held = known.of("alice", "busy", 0), known.of("alice", "held", 0)
    assert busy.produce is not None
    assert held.mutations is not None
    for number in range(3 * MOST_METERS):
        now = number / 100
        busy.produce.record(1, now)
        meter = known.connections_of(str(number), now)
        assert meter is not None
        meter.record(1, now)
        known.of("alice", f"{number}", now)
    assert len(known._meters) <= 2 * MOST_METERS
    assert known.of("alice", "busy", 300).produce is busy.produce
    # A connection still refers to these: it gets no second burst by waiting.
    assert known.of("alice", "held", 300).produce is held.produce
    assert known.of("alice", "held", 300).mutations is held.mutations


def test_s34_long_client_ids_have_quotas_and_are_not_kept() -> None:
    known, long = quotas(), "x" * 30_000
    known.know(QuotaEntity("alice", long), {PRODUCER: 10})
    known.know(QuotaEntity(ABSENT, DEFAULT), {PRODUCER: 20})
    one, other = known.of("alice", long, 0).produce, known.of("bob", long, 0).produce
    assert one is not None
    assert other is not None
    assert (one.bound, other.bound) == (10, 20)
    assert known.of("bob", long, 0).produce is other
    assert known.of("bob", long + "y", 0).produce is not other
    assert long not in str([*known._clients, *known._meters])


def test_a_changed_quota_keeps_what_was_recorded() -> None:
    known = quotas()
    known.know(QuotaEntity("alice"), {PRODUCER: 10})
    meter = known.of("alice", "a", 0).produce
    assert meter is not None
    assert meter.record(1_000, 0) > 0
    known.know(QuotaEntity("alice"), {PRODUCER: 1_000_000})
    assert known.of("alice", "a", 0).produce is meter
    assert meter.throttle_ms(0) == 0


def test_s36_a_rate_is_measured_over_eleven_windows() -> None:
    rate = QuotaRate()
    rate.record(1_000, 0.0)
    assert rate.per_second(0.0) == pytest.approx(100)  # over ten windows at least
    assert rate.per_second(10.5) == pytest.approx(1_000 / 10.5)
    assert rate.per_second(11.0) == 0


def test_s36_the_throttle_brings_the_rate_back_to_the_quota() -> None:
    meter = Meter(100)
    assert meter.record(1_000, 0.0) == 0
    ms = meter.record(500, 0.0)
    assert ms == 5_000


def test_s37_one_window_bounds_what_a_fetch_may_have() -> None:
    assert Meter(100).most_at_once(11, 1) == 1_000


@pytest.mark.parametrize("strict", [True, False])
def test_s40_the_bucket_may_be_overdrawn_once(strict: bool) -> None:
    bucket = TokenBucket(2, 10, 1, 0.0)
    assert bucket.try_take(21, 0.0, strict=strict)
    assert bucket.throttle_ms(0.0) == 500
    assert bucket.try_take(1, 0.0, strict=strict) == (not strict)
    assert bucket.try_take(1, 2.0, strict=strict)


def test_the_four_client_quotas_have_kafkas_names() -> None:
    assert set(CLIENT_KEYS) == {
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
    }


@given(
    bound=st.floats(1, 1_000),
    steps=st.lists(st.tuples(st.floats(0, 3), st.floats(0, 4_000), st.booleans()), max_size=60),
)
def test_what_is_spent_without_a_look_at_the_rate_never_exceeds_the_bound(
    bound: float, steps: list[tuple[float, float, bool]]
) -> None:
    """`have_spare` and `spend` record as `record` does, and only while that throttles nobody."""
    fast, exact, now = Meter(bound), Meter(bound), 0.0
    client = ClientMeters()
    client.produce = fast
    for later, value, may_spend in steps:
        now += later
        if may_spend and client.have_spare(True, int(value), now):
            value = int(value)
            client.spend(True, value, 0, 0)
            assert exact.record(value, now) == 0
        else:
            assert fast.record(value, now) == exact.record(value, now)
            assert fast.rate.total == pytest.approx(exact.rate.total)
    assert fast.is_idle(now) == exact.is_idle(now)
    assert fast.rate.total == pytest.approx(exact.rate.total)


def test_a_new_bound_counts_at_once() -> None:
    meter = Meter(1_000)
    assert meter.has_spare(5_000, 0.0)
    meter.bound = 10
    assert not meter.has_spare(5_000, 0.0)
