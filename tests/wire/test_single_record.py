"""A batch of one record is what `build_batch` makes of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.wire.records.batch import CONTROL, TRANSACTIONAL
from barnabas.wire.records.records import Record, build_batch
from barnabas.wire.records.single_record import single_record_batch


@given(
    st.binary(max_size=300),
    st.none() | st.binary(max_size=20_000),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**15 - 1),
    st.integers(-1, 2**31 - 1),
    st.booleans(),
)
def test_the_bytes_are_the_same(
    key: bytes,
    value: bytes | None,
    timestamp: int,
    producer_id: int,
    epoch: int,
    sequence: int,
    is_marker: bool,
) -> None:
    numbers: Any = {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "base_sequence": sequence,
    }
    attributes = TRANSACTIONAL | CONTROL if is_marker else 0
    found = single_record_batch(key, value, timestamp, attributes=attributes, **numbers)
    records = [Record(0, timestamp, key, value)]
    assert found == build_batch(records, transactional=is_marker, control=is_marker, **numbers)


def test_a_time_that_does_not_fit_is_refused() -> None:
    with pytest.raises(BrokerError) as refused:
        single_record_batch(b"key", b"value", 2**63)
    assert refused.value.code is ErrorCode.invalid_record
