"""Records of `__transaction_state` in Kafka's bytes (T3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import TopicPartition
from barnabas.coordinator.result import MalformedRecord
from barnabas.transactions.transaction_metadata import TransactionMetadata
from barnabas.transactions.transaction_records import (
    VALUE,
    decode,
    decode_id,
    encode,
    encode_key,
)
from barnabas.transactions.transaction_state import TransactionState

ONGOING = TransactionMetadata(
    transactional_id="pay",
    producer_id=5,
    producer_epoch=2,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({TopicPartition("b", 1), TopicPartition("a", 3), TopicPartition("a", 0)}),
    last_update_ms=1_700_000_000_000,
    start_ms=1_600_000_000_000,
)


def test_a_key_is_the_version_and_the_id() -> None:
    """T3"""
    assert encode_key("pay").hex() == "0000" + "0003" + b"pay".hex()


def test_a_value_has_version_0_where_the_feature_is_off() -> None:
    """T3"""
    _, value = encode(ONGOING, 0)
    assert value is not None
    assert value.hex() == (
        "0000"  # version
        + "0000000000000005"  # producer id
        + "0002"  # epoch
        + "0000ea60"  # timeout
        + "01"  # Ongoing
        + "00000002"  # topics
        + ("000161" + "00000002" + "00000000" + "00000003")
        + ("000162" + "00000001" + "00000001")
        + "0000018bcfe56800"
        + "00000174876e8000"
    )


def test_a_value_has_version_1_where_the_feature_is_on() -> None:
    """T3"""
    _, value = encode(ONGOING, 2)
    assert value is not None
    assert value[:2].hex() == "0001"
    assert value.hex().endswith("00000174876e8000" + "00")  # no tagged field differs from default


def test_a_producer_without_a_transaction_has_null_for_its_partitions() -> None:
    """T3"""
    metadata = TransactionMetadata(
        transactional_id="t", producer_id=1, producer_epoch=0, timeout_ms=9, last_update_ms=7
    )
    _, value = encode(metadata, 0)
    assert value is not None
    assert b"\xff\xff\xff\xff" + (7).to_bytes(8, "big") in value
    assert decode("t", value) == metadata


def test_a_key_of_an_unknown_version_is_skipped() -> None:
    """T7"""
    assert decode_id(bytes.fromhex("0009000374")) is None


@pytest.mark.parametrize("key", ["", "00", "0000", "00000005", "0000ffff", "00000001ff"])
def test_a_malformed_key_is_reported(key: str) -> None:
    with pytest.raises(MalformedRecord):
        decode_id(bytes.fromhex(key))


def test_a_malformed_value_is_reported() -> None:
    _, value = encode(ONGOING, 0)
    assert value is not None
    for end in range(len(value)):
        with pytest.raises(MalformedRecord):
            decode("pay", value[:end])
    with pytest.raises(MalformedRecord):
        decode("pay", value[:16] + b"\x63" + value[17:])


@given(
    st.sampled_from(list(TransactionState)),
    st.frozensets(st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 9)), max_size=4),
    st.integers(-1, 2**63 - 1),
    st.integers(0, 2),
)
def test_what_is_written_in_version_1_is_read(
    state: TransactionState, partitions: frozenset[TopicPartition], producer_id: int, version: int
) -> None:
    """T3"""
    metadata = TransactionMetadata(
        transactional_id="t",
        producer_id=1,
        producer_epoch=32767,
        timeout_ms=1,
        state=state,
        partitions=frozenset() if state is TransactionState.EMPTY else partitions,
        last_update_ms=2,
        previous_producer_id=producer_id,
        next_producer_id=producer_id,
        client_version=version,
    )
    key, value = encode(metadata, 1)
    assert decode_id(key) == "t"
    assert value is not None
    assert decode("t", value) == metadata
    assert VALUE.encode(VALUE.decode(value), 1) == value
