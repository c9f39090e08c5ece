"""Producing one message, or one that is in the topic already once more."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from barnabas.base.errors import ErrorCode
from barnabas.client.frames import MalformedResponse
from barnabas.client.produce import Produce, read_produce_response, write_produce_request
from barnabas.client.retries import error_words
from barnabas.console.cluster.console_client import CLIENT_ID, ClusterFailed
from barnabas.console.cluster.topic_index import PartitionRow, read_partitions
from barnabas.console.messages.message_view import hexdump
from barnabas.console.messages.record_reader import ReadPlan, RecordReader
from barnabas.console.pages.topic_page import topic_row
from barnabas.console.web.actions import LONGEST, Form, Plan, WrongInput, action, integer, pairs
from barnabas.console.web.page import Page, sign_in_first
from barnabas.wire.records.records import Record, build_batch

_VERSION: Final = 9
_TIMEOUT_S: Final = 20.0
_ALL: Final = -1


async def show(request: Request) -> Response:
    page = Page(request)
    if not page.is_known:
        return sign_in_first(page)
    row = await topic_row(page, request.path_params["topic"])
    given: dict[str, Any] = {
        "topic": row.name,
        "partitions": [each.partition for each in read_partitions(row)],
        "partition": page.argument("partition"),
        "record": None,
        "is_binary": False,
    }
    if page.argument("offset"):
        number, offset = page.integer("partition", 0), page.integer("offset", 0)
        record = await find_record(page, row.name, number, offset)
        given |= {"record": _texts(record), "is_binary": _is_binary(record), "offset": offset}
    return page.render("produce.html", given)


async def find_record(page: Page, topic: str, partition: int, offset: int) -> Record:
    """Raises ClusterFailed if there is none at this offset"""

    async def leaders() -> dict[int, int]:
        row = await topic_row(page, topic)
        return {each.partition: each.leader for each in read_partitions(row)}

    plan = ReadPlan(topic, {partition: offset}, {partition: offset + 1})
    reader = RecordReader(page.cluster.client, page.state.offload, plan, leaders)
    async for batch in reader.batches():
        for message in batch:
            if message.record.offset == offset:
                return message.record
        for bad in reader.take_unreadable():
            raise ClusterFailed(f"{topic}-{partition}, offset {offset}, cannot be read: {bad.why}")
        if not batch:
            break
    raise ClusterFailed(f"{topic}-{partition} has no message at offset {offset}")


def _is_binary(record: Record) -> bool:
    try:
        _ = (record.key or b"").decode(), (record.value or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


def _texts(record: Record) -> dict[str, Any]:
    def text(data: bytes | None) -> str:
        return "" if data is None else data.decode("utf-8", "replace")

    value = hexdump(record.value or b"") if _is_binary(record) else text(record.value)
    lines = [f"{name}={text(value)}" for name, value in record.headers]
    return {"key": text(record.key), "value": value, "headers": "\n".join(lines)}


async def plan_produce(page: Page, form: Form) -> Plan:
    topic = page.request.path_params["topic"]
    row = await topic_row(page, topic)
    rows = {each.partition: each for each in read_partitions(row)}
    partition = _partition(form, rows)
    if form.get("same") == "yes":
        number = integer(form, "from", 0, "The partition")
        offset = integer(form, "offset", 0, "The offset", LONGEST)
        found = await find_record(page, topic, number, offset)
        record = found._replace(offset=0, timestamp=page.state.clock.now_ms())
    else:
        headers = [(name, value.encode()) for name, value in pairs(form.get("headers", ""))]
        record = Record(
            0,
            page.state.clock.now_ms(),
            form.get("key", "").encode() or None,
            None if form.get("tombstone") == "yes" else form.get("value", "").encode(),
            tuple(headers),
        )

    async def carry_out() -> str:
        offset = await _produce(page, topic, rows[partition], record)
        return f"The message is in {topic}-{partition} at offset {offset:,}."

    size = len(record.value or b"")
    what = "a tombstone" if record.value is None else f"{size:,} bytes"
    effects = [
        f"One message goes to {topic}-{partition}: {what},"
        f" key {record.key.decode('utf-8', 'replace') if record.key else 'null'},"
        f" {len(record.headers)} headers.",
        "It is acknowledged by all in-sync replicas. Consumers will see it.",
    ]
    back = f"topics/{topic}/messages"
    return Plan(f"Produce to {topic}", effects, "Produce", carry_out, back)


def _partition(form: Form, rows: dict[int, PartitionRow]) -> int:
    number = integer(form, "partition", 0, "The partition")
    if number not in rows:
        raise WrongInput(f"The topic has no partition {number}")
    return number


async def _produce(page: Page, topic: str, row: PartitionRow, record: Record) -> int:
    client = page.cluster.client
    if row.leader < 0:
        raise ClusterFailed(f"{topic}-{row.partition} has no leader")
    await client.view()
    produce = Produce(topic, row.partition, build_batch([record]), _ALL, 15_000)
    response = await client.exchange(
        client.address_of(row.leader),
        lambda number: write_produce_request(_VERSION, number, CLIENT_ID, produce),
        _TIMEOUT_S,
    )
    try:
        produced = read_produce_response(_VERSION, response)
    except MalformedResponse as failure:
        raise ClusterFailed(str(failure)) from None
    if produced.error is not ErrorCode.none:
        raise ClusterFailed(f"{topic}-{row.partition}: {error_words(produced.error)}")
    return produced.base_offset


ROUTES: Final = (
    Route("/topics/{topic}/produce", show, methods=["GET"]),
    action("/topics/{topic}/produce", "produce", plan_produce),
)
