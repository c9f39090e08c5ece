"""The memory of responses with message sets, over all connections, and the wait for one."""

import struct
from pathlib import Path

from barnabas.server.requests.converted_responses import (
    LEAST_CONVERTED,
    MOST_CONVERTED,
    MOST_UNREAD,
    Converted,
    ConvertedResponses,
)
from barnabas.server.requests.old_formats import older_answer
from barnabas.wire.apis import ApiKey
from barnabas.wire.fetch.fetch_codec import PartitionFetched, TopicFetched, write_fetch
from barnabas.wire.records.records import Record, build_batch
from tests.server.raw import Insight, frame, until, with_broker
from tests.server.test_fetch import filled


def test_a_client_that_disconnects_leaves_no_wait(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await filled(insight, "orders", batches=0)
        client = await insight.connect()
        asked = struct.pack(">iqi", 0, 0, 1000)
        name = struct.pack(">h6s", 6, b"orders")
        body = struct.pack(">iii", -1, 2**31 - 1, 1)
        body += struct.pack(">i", 1) + name + struct.pack(">i", 1) + asked
        await client.send(frame(ApiKey.FETCH, 1, body, 7))
        await until(lambda: insight.delayed.waiting == 1)
        client.vanish()
        await insight.is_at_rest()
        await until(lambda: len(insight.state.work) == 0)

    with_broker(tmp_path, scenario)


def test_a_client_that_disconnects_while_its_fetch_is_decoded_leaves_no_partitions(
    tmp_path: Path,
) -> None:
    async def scenario(insight: Insight) -> None:
        await filled(insight, "orders", batches=0)
        name = struct.pack(">h6s", 6, b"orders")
        body = struct.pack(">iii", -1, 0, 1) + struct.pack(">i", 1) + name
        body += struct.pack(">i", 10_000)
        body += b"".join(struct.pack(">iqi", each, 0, 1000) for each in range(10_000))
        for _ in range(10):
            client = await insight.connect()
            await client.send(frame(ApiKey.FETCH, 1, body, 7))
            client.vanish()
            await insight.is_at_rest()
            await until(lambda: len(insight.state.work) == 0)
        assert insight.state.sessions.count.cached == 0

    with_broker(tmp_path, scenario)


def test_partitions_have_their_records_in_turn_where_not_all_can() -> None:
    partitions = 100
    batch = build_batch([Record(0, 1, None, bytes(1000), ())])
    fetched: list[PartitionFetched | bytes] = [
        PartitionFetched(each, 0, 1, 1, 0, batch) for each in range(partitions)
    ]
    answer = b"".join(write_fetch(4, 1, [TopicFetched("orders", None, fetched)]))
    known = {("orders", each): 0 for each in range(partitions)}
    served: set[int] = set()
    for first in range(partitions):
        older = older_answer(ApiKey.FETCH, 2, answer, known, LEAST_CONVERTED, first)
        now = with_records(older)
        assert first in now
        assert len(now) < partitions
        served |= now
    assert served == set(range(partitions))


def with_records(answer: bytes | bytearray) -> set[int]:
    """The partitions of a Fetch response of version 2, with one topic, that have records."""
    at = 4 + 4 + 4 + 4 + len(struct.pack(">h6s", 6, b"orders"))
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    found = set()
    for _ in range(count):
        partition, _code, _high_watermark, size = struct.unpack_from(">ihqi", answer, at)
        at += 18 + size
        if size:
            found.add(partition)
    assert at == len(answer)
    return found


def test_the_more_responses_are_unread_the_less_the_next_one_has() -> None:
    responses, unread, sizes = ConvertedResponses(), [], []
    for _ in range(100):
        sizes.append(responses.most(is_copied=False))
        unread.append(Converted(sizes[-1]))
        responses.count(unread[-1])
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (MOST_CONVERTED, LEAST_CONVERTED)
    assert responses.unread == sum(sizes) <= MOST_UNREAD + 100 * LEAST_CONVERTED


def test_a_response_counts_until_nobody_refers_to_it() -> None:
    responses, response = ConvertedResponses(), Converted(MOST_UNREAD)
    responses.count(response)
    part = memoryview(response)[1:]  # as the transport has it, once a part is sent
    del response
    assert responses.unread == MOST_UNREAD
    del part
    assert (responses.unread, responses.most(is_copied=False)) == (0, MOST_CONVERTED)


def test_over_tls_which_copies_a_response_has_little() -> None:
    assert ConvertedResponses().most(is_copied=True) == LEAST_CONVERTED
