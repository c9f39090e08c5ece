"""The log of a partition as a picture: batches by protocol, segments from a data directory."""

from itertools import islice
from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.client.fetch import BY_NAME, Fetch, read_fetch_response, write_fetch_request
from barnabas.client.frames import MalformedResponse
from barnabas.client.retries import error_words
from barnabas.console.cluster.console_client import (
    CLIENT_ID,
    EARLIEST,
    LATEST,
    ClusterFailed,
    ConsoleClient,
)
from barnabas.console.cluster.topic_index import read_partitions
from barnabas.console.pages.segment_picture import PICTURE_WIDTH, find_segments
from barnabas.console.pages.topic_page import topic_row
from barnabas.console.web.page import Context, Page
from barnabas.wire.fetch.fetch_codec import FetchPartition, FetchTopic
from barnabas.wire.records.batch import BatchHeader, check_crc, headers

_BYTES: Final = 1_000_000
_SHOWN: Final = 120
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class ShownBatch(NamedTuple):
    """A batch, with its place in the picture."""

    header: BatchHeader
    is_intact: bool
    codec: str
    x: float
    width: float


async def gather_log(page: Page) -> Context:
    name = page.argument("topic")
    index = await page.cluster.index.get()
    context: Context = {"topics": list(index.topics)[:2000], "topic": name, "row": None}
    if not name:
        return context
    row = await topic_row(page, name)
    partitions = read_partitions(row)
    number = page.integer("partition", 0, 0, len(partitions) - 1)
    at = TopicPartition(name, number)
    leader = partitions[number].leader
    client = page.cluster.client
    earliest = (await client.offsets([at], {at: leader}, EARLIEST)).get(at, 0)
    latest = (await client.offsets([at], {at: leader}, LATEST)).get(at, 0)
    start = min(page.integer("from", earliest, earliest), latest)
    batches, broken = await read_batches(client, at, leader, start)
    segments = await page.state.offload(lambda: find_segments(page.state.options.data, at))
    return context | {
        "row": partitions[number],
        "at": at,
        "partitions": len(partitions),
        "earliest": earliest,
        "latest": latest,
        "from": start,
        "next": batches[-1].header.next_offset if batches else latest,
        "batches": batches,
        "broken": broken,
        "segments": segments,
        "has_data": bool(page.state.options.data),
    }


async def read_batches(
    client: ConsoleClient, at: TopicPartition, leader: int, start: int
) -> tuple[list[ShownBatch], str]:
    """The batches from an offset on, as one Fetch returns them, and why they end early, if so.

    Raises  ClusterFailed
    """
    if leader < 0:
        raise ClusterFailed(f"{at} has no leader")
    wanted = [FetchPartition(at.partition, start, _BYTES, -1, -1, -1)]
    fetch = Fetch(0, 0, _BYTES, [FetchTopic(at.topic, None, wanted)])
    await client.view()
    response = await client.exchange(
        client.address_of(leader),
        lambda number: write_fetch_request(BY_NAME, number, CLIENT_ID, fetch),
        10.0,
    )
    try:
        (fetched,) = read_fetch_response(BY_NAME, response).partitions
    except (MalformedResponse, ValueError) as failure:
        raise ClusterFailed(f"{at}: the log cannot be read: {failure}") from None
    if fetched.error is not ErrorCode.none:
        raise ClusterFailed(f"{at}: {error_words(fetched.error)}")
    found: list[tuple[BatchHeader, bool]] = []
    broken = ""
    try:
        for position, header in islice(headers(fetched.records), _SHOWN):
            batch = fetched.records[position : position + header.size]
            found.append((header, check_crc(batch)))
    except BrokerError as failure:
        broken = str(failure)
    return _placed_batches(found), broken


def _placed_batches(found: list[tuple[BatchHeader, bool]]) -> list[ShownBatch]:
    total = sum(header.size for header, _ in found) or 1
    shown, x = [], 0.0
    for header, is_intact in found:
        width = header.size * PICTURE_WIDTH / total
        codec = _CODECS[header.codec] if header.codec < len(_CODECS) else "unknown"
        place = round(x, 2), round(max(0.5, width - 1), 2)
        shown.append(ShownBatch(header, is_intact, codec, *place))
        x += width
    return shown
