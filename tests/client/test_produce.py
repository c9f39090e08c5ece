"""Produce on the client's side, by hand, agrees with kio's schemas and with our broker."""

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client.frames import MalformedResponse
from barnabas.client.produce import (
    Produce,
    Produced,
    read_produce_response,
    write_produce_request,
)
from barnabas.wire.apis import ApiKey
from barnabas.wire.produce.produce_codec import PartitionProduced, write_produce
from barnabas.wire.records.records import Record, build_batch
from barnabas.wire.schema import milliseconds, read_as_sent

VERSIONS = (9, 10, 11)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_request_reads_as_kafkas(version: int) -> None:
    batch = bytes(build_batch([Record(0, 5, b"k", b"v" * 300)]))
    frame = write_produce_request(version, 3, "me", Produce("orders", 7, batch, -1, 1_500))

    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    request = read_as_sent(ApiKey.PRODUCE, version, memoryview(frame)[4 + 10 + len("me") + 1 :])
    (asked,) = request.topic_data
    (part,) = asked.partition_data
    assert (request.acks, request.transactional_id) == (-1, None)
    assert milliseconds(request.timeout) == 1_500
    assert (asked.name, part.index, bytes(part.records)) == ("orders", 7, batch)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.not_leader_or_follower])
def test_the_response_is_read_as_brokers_write_it(version: int, code: ErrorCode) -> None:
    frame = write_produce(version, 1, [("orders", [PartitionProduced(7, int(code), 4_711)])])

    assert read_produce_response(version, memoryview(frame)[8:]) == Produced(code, 4_711)


def test_an_error_that_only_newer_brokers_know_is_an_unknown_error() -> None:
    frame = write_produce(9, 1, [("orders", [PartitionProduced(7, 9_999, -1)])])

    produced = read_produce_response(9, memoryview(frame)[8:])
    assert produced.error is ErrorCode.unknown_server_error


def test_a_response_that_is_cut_short_is_refused() -> None:
    with pytest.raises(MalformedResponse, match=r"^PRODUCE v9: "):
        read_produce_response(9, memoryview(b"\0\2\7ord"))
