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
from barnabas.wire.apis import ApiKey
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


def test_the_more_responses_are_unread_the_less_the_next_one_has() -> None:
    responses, unread, sizes = ConvertedResponses(), [], []
    for _ in range(100):
        sizes.append(responses.most)
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
    assert (responses.unread, responses.most) == (0, MOST_CONVERTED)
