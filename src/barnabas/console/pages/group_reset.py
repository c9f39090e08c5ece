"""The reset of a group's offsets: every scenario of Kafka's tool, after a preview."""

from collections.abc import Mapping
from itertools import islice
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition, by_topic
from barnabas.cli.groups.groups_requests import delete_offsets
from barnabas.cli.groups.groups_reset import (
    Change,
    LogOffsets,
    Scenario,
    Where,
    decide_changes,
    format_plan_file,
    parse_duration_ms,
    parse_plan_file,
)
from barnabas.cli.options import parse_moment
from barnabas.client.metadata import fields
from barnabas.client.retries import error_words
from barnabas.console.cluster.console_client import EARLIEST, LATEST, ClusterFailed, check
from barnabas.console.cluster.groups import GroupDetails, describe_group, group_link
from barnabas.console.cluster.topic_index import TopicIndex, read_partitions
from barnabas.console.cluster.topics import leaders_of
from barnabas.console.web.actions import LONGEST, Form, Plan, WrongInput, action, integer
from barnabas.console.web.page import Context, Page, live_page, parse_integer, sign_in_first
from barnabas.wire.apis import ApiKey

_SHOWN: Final = 200
_LISTED: Final = 2_000
_DELETE: Final = "delete"
SCENARIOS: Final = (
    ("earliest", "log start"),
    ("latest", "log end"),
    ("datetime", "first message at or after a time"),
    ("duration", "first message since a duration, such as PT1H30M"),
    ("shift", "move by a number of messages"),
    ("offset", "one offset"),
    ("current", "where it is; log end where it has none"),
    ("list", "offsets from the list below"),
    (_DELETE, "no offset: forget them"),
)
Offsets = Mapping[TopicPartition, int]


async def gather_reset(page: Page) -> Context:
    name, index = page.argument("name"), await page.cluster.index.get()
    group = await describe_group(page.cluster.client, index, name)
    committed = sorted({each.topic for each in group.partitions})
    others = (topic for topic in index.topics if topic not in committed)
    return {
        "name": name,
        "group": group,
        "topics": [*committed, *islice(others, _LISTED)],
        "scenarios": SCENARIOS,
    }


def _scenario(page: Page, form: Form) -> Scenario:
    value = form.get("value", "").strip()
    match form.get("scenario"):
        case "earliest":
            return Scenario(Where.EARLIEST)
        case "latest":
            return Scenario(Where.LATEST)
        case "current":
            return Scenario(Where.CURRENT)
        case "list":
            return Scenario(Where.FILE)
        case "datetime":
            return Scenario(Where.DATETIME, max(0, parse_moment(value, "")))
        case "duration":
            ago_ms = parse_duration_ms(value, "")
            return Scenario(Where.DURATION, max(0, page.state.clock.now_ms() - ago_ms))
        case "shift":
            return Scenario(Where.SHIFT, integer(form, "value", -(2**62), "The distance", 2**62))
        case "offset":
            return Scenario(Where.OFFSET, integer(form, "value", 0, "The offset", LONGEST))
        case other:
            raise WrongInput(f"“{other}” is no way to reset offsets")


async def plan_reset(page: Page, form: Form) -> Plan:
    name = form.get("name", "")
    index = await page.cluster.index.get()
    group = await describe_group(page.cluster.client, index, name)
    if group.members:
        raise ClusterFailed(
            f"group {name} has {len(group.members)} members; stop them first: only the offsets of"
            " a group without members can be reset"
        )
    committed = committed_of(group)
    if form.get("scenario") == _DELETE:
        return _deletion(page, name, {at: committed[at] for at in _chosen(form, committed, index)})
    scenario = _scenario(page, form)
    requested: Offsets = {}
    if scenario.where is Where.FILE:
        requested = parse_plan_file(form.get("list", ""), [name], "The list")[name]
        _check_exist(requested, index)
    partitions = list(requested) or _chosen(form, committed, index, is_any=True)
    if scenario.where is Where.SHIFT:  # there is nothing to shift elsewhere
        partitions = [at for at in partitions if at in committed] or partitions
    logs = await _logs(page, index, scenario, partitions)
    changes = decide_changes(scenario, partitions, committed, logs, requested)

    async def carry_out() -> str:
        await _commit(page, name, changes)
        return f"{len(changes)} offsets of group {name} were reset."

    effects = [_effect(each) for each in changes[:_SHOWN]] or ["No offset would change."]
    if len(changes) > _SHOWN:
        effects.append(f"And {len(changes) - _SHOWN} more.")
    back = group_link(name)
    return Plan(f"Reset offsets of {name}", effects, "Reset offsets", carry_out, back)


def committed_of(group: GroupDetails) -> dict[TopicPartition, int]:
    return {
        TopicPartition(each.topic, each.partition): each.committed
        for each in group.partitions
        if each.committed is not None
    }


def _effect(change: Change) -> str:
    before = "none" if change.before is None else f"{change.before:,}"
    moved = "" if change.difference is None else f" ({change.difference:+,})"
    note = f", {change.note}" if change.note else ""
    return f"{change.partition}: {before} → {change.after:,}{moved}{note}."


def _chosen(
    form: Form, committed: Offsets, index: TopicIndex, *, is_any: bool = False
) -> list[TopicPartition]:
    """The partitions that the person chose: those with an offset, or `is_any` of a topic.

    Raises  WrongInput
    """
    topic = form.get("topic", "").strip()
    texts = form.get("partitions", "").replace(",", " ").split()
    if not topic:
        if texts:
            raise WrongInput("Choose the topic of the partitions")
        return [at for at in committed if not is_any or at.topic in index.topics]
    numbers = [parse_integer(text) for text in texts]
    if None in numbers:
        raise WrongInput(f"Partitions are numbers such as 0, 2; not “{' '.join(texts)[:_SHOWN]}”")
    if not is_any:
        return [
            at for at in committed if at.topic == topic and (not numbers or at.partition in numbers)
        ]
    _check_exist([TopicPartition(topic, number or 0) for number in numbers or [0]], index)
    found = [each.partition for each in read_partitions(index.topics[topic])]
    return [TopicPartition(topic, n) for n in found if not numbers or n in numbers]


def _check_exist(partitions: "Offsets | list[TopicPartition]", index: TopicIndex) -> None:
    for at in partitions:
        row = index.topics.get(at.topic)
        if row is None:
            raise WrongInput(f"There is no topic {at.topic} in this cluster")
        if not 0 <= at.partition < row.partitions:
            raise WrongInput(f"There is no partition {at}: the topic has {row.partitions}")


async def _logs(
    page: Page, index: TopicIndex, scenario: Scenario, partitions: list[TopicPartition]
) -> LogOffsets:
    client = page.cluster.client
    leaders = leaders_of(index.topics[name] for name in by_topic(partitions))
    since = {}
    if scenario.where in (Where.DATETIME, Where.DURATION):
        since = await client.offsets(partitions, leaders, scenario.value)
    return LogOffsets(
        await client.offsets(partitions, leaders, EARLIEST),
        await client.offsets(partitions, leaders, LATEST),
        since,
    )


async def _commit(page: Page, name: str, changes: list[Change]) -> None:
    after = {change.partition: change.after for change in changes}
    request = fields(
        group_id=name,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=tuple(
            fields(
                name=topic,
                partitions=tuple(
                    fields(
                        partition_index=number,
                        committed_offset=after[TopicPartition(topic, number)],
                        committed_leader_epoch=-1,
                        committed_metadata="",
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(after).items()
        ),
    )
    answer = await page.cluster.client.ask_group(name, ApiKey.OFFSET_COMMIT, request)
    for found in answer.topics:
        for each in found.partitions:
            check(each, f"{found.name}-{each.partition_index}")


def _deletion(page: Page, name: str, committed: Offsets) -> Plan:
    """The plan that the group has no offsets of these partitions."""

    async def carry_out() -> str:
        client = page.cluster.client
        for each in await client.checked(delete_offsets(client, name, list(committed))):
            if each.code is not ErrorCode.none:
                raise ClusterFailed(f"{each.partition}: {error_words(each.code, each.message)}")
        return f"{len(committed)} offsets of group {name} were deleted."

    effects = [f"{at}: {offset:,} → none." for at, offset in islice(committed.items(), _SHOWN)]
    if len(committed) > _SHOWN:
        effects.append(f"And {len(committed) - _SHOWN} more.")
    effects.append("Consumers begin there where their auto.offset.reset says.")
    return Plan(
        f"Delete offsets of {name}",
        effects if committed else ["No offset would change."],
        "Delete offsets",
        carry_out,
        group_link(name),
        is_dangerous=True,
    )


async def offsets(request: Request) -> Response:
    """The committed offsets as a list that a reset takes: a way back. Raises ClusterFailed."""
    page = Page(request)
    if not page.is_known:
        return sign_in_first(page)
    name = page.argument("name")
    group = await describe_group(page.cluster.client, await page.cluster.index.get(), name)
    changes = [Change(at, offset, offset) for at, offset in committed_of(group).items()]
    return Response(
        format_plan_file({name: changes}),
        media_type="text/csv",
        headers={"content-disposition": f'attachment; filename="{quote(name, safe="")}.csv"'},
    )


ROUTES: Final = (
    live_page("/group/reset", "group_reset.html", gather_reset, 30.0),
    action("/group/reset", "reset offsets", plan_reset),
    Route("/group/offsets", offsets, methods=["GET"]),
)
