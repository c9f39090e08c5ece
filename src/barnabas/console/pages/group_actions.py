"""Changes to groups: offsets reset after a preview, groups deleted."""

from collections.abc import Callable
from typing import Final

from barnabas.base.ids import TopicPartition
from barnabas.cli.admin.admin_requests import by_topic
from barnabas.cli.groups.groups_reset import (
    Change,
    LogOffsets,
    Scenario,
    Where,
    decide_changes,
    parse_duration_ms,
)
from barnabas.cli.options import parse_moment
from barnabas.client.metadata import fields
from barnabas.console.cluster.console_client import EARLIEST, LATEST, ClusterFailed, check
from barnabas.console.cluster.groups import PartitionLag, describe_group, group_link
from barnabas.console.cluster.topics import leaders_of
from barnabas.console.web.actions import LONGEST, Form, Plan, WrongInput, action, integer
from barnabas.console.web.page import Context, Page, live_page
from barnabas.wire.apis import ApiKey

_SHOWN: Final = 200
SCENARIOS: Final = (
    ("earliest", "log start"),
    ("latest", "log end"),
    ("datetime", "first message at or after a time"),
    ("duration", "first message since a duration, such as PT1H30M"),
    ("shift", "move by a number of messages"),
    ("offset", "one offset"),
)


async def gather_reset(page: Page) -> Context:
    name = page.argument("name")
    group = await describe_group(page.cluster.client, await page.cluster.index.get(), name)
    topics = sorted({each.topic for each in group.partitions})
    return {"name": name, "group": group, "topics": topics, "scenarios": SCENARIOS}


def _scenario(page: Page, form: Form) -> Scenario:
    value = form.get("value", "").strip()
    match form.get("scenario"):
        case "earliest":
            return Scenario(Where.EARLIEST)
        case "latest":
            return Scenario(Where.LATEST)
        case "datetime":
            return Scenario(Where.DATETIME, max(0, parse_moment(value, "")))
        case "duration":
            ago_ms = parse_duration_ms(value)
            return Scenario(Where.DURATION, max(0, page.state.clock.now_ms() - ago_ms))
        case "shift":
            return Scenario(Where.SHIFT, integer(form, "value", -(2**62), "The distance", 2**62))
        case "offset":
            return Scenario(Where.OFFSET, integer(form, "value", 0, "The offset", LONGEST))
        case other:
            raise WrongInput(f"“{other}” is no way to reset offsets")


async def decide_reset(page: Page, form: Form) -> Plan:
    name, chosen = form.get("name", ""), _chosen(form)
    client, index = page.cluster.client, await page.cluster.index.get()
    group = await describe_group(client, index, name)
    if group.members:
        raise ClusterFailed(
            f"group {name} has {len(group.members)} members; stop them first: only the offsets of"
            " a group without members can be reset"
        )
    changes = await _changes(page, _scenario(page, form), name, chosen)

    async def carry_out() -> str:
        await _commit(page, name, changes)
        return f"{len(changes)} offsets of group {name} were reset."

    effects = [_effect(each) for each in changes[:_SHOWN]] or ["No offset would change."]
    if len(changes) > _SHOWN:
        effects.append(f"And {len(changes) - _SHOWN} more.")
    back = group_link(name)
    return Plan(f"Reset offsets of {name}", effects, "Reset offsets", carry_out, back)


def _effect(change: Change) -> str:
    before = "none" if change.before is None else f"{change.before:,}"
    moved = "" if change.difference is None else f" ({change.difference:+,})"
    note = f", {change.note}" if change.note else ""
    return f"{change.partition}: {before} → {change.after:,}{moved}{note}."


def _chosen(form: Form) -> Callable[[PartitionLag], bool]:
    """True for the partitions that the person chose: of all topics, of one, or one partition."""
    topic, text = form.get("topic", ""), form.get("partition", "").strip()
    number = integer(form, "partition", 0, "The partition") if text else None
    if number is not None and not topic:
        raise WrongInput("Choose the topic of the partition")
    return lambda each: topic in ("", each.topic) and number in (None, each.partition)


async def _changes(
    page: Page, scenario: Scenario, name: str, chosen: Callable[[PartitionLag], bool]
) -> list[Change]:
    client, index = page.cluster.client, await page.cluster.index.get()
    group = await describe_group(client, index, name)
    committed = {
        TopicPartition(each.topic, each.partition): each.committed
        for each in group.partitions
        if each.committed is not None and chosen(each)
    }
    rows = [index.topics[name] for name in by_topic(committed) if name in index.topics]
    leaders = leaders_of(rows)
    partitions = [at for at in committed if at in leaders]
    since = {}
    if scenario.where in (Where.DATETIME, Where.DURATION):
        since = await client.offsets(partitions, leaders, scenario.value)
    logs = LogOffsets(
        await client.offsets(partitions, leaders, EARLIEST),
        await client.offsets(partitions, leaders, LATEST),
        since,
    )
    return decide_changes(scenario, partitions, committed, logs)


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


async def decide_delete_group(page: Page, form: Form) -> Plan:
    name = form.get("name", "")
    group = await describe_group(page.cluster.client, await page.cluster.index.get(), name)
    if group.members:
        raise ClusterFailed(f"group {name} has {len(group.members)} members; stop them first")

    async def carry_out() -> str:
        request = fields(groups_names=(name,))
        answer = await page.cluster.client.ask_group(name, ApiKey.DELETE_GROUPS, request)
        check(answer.results[0], f"group {name}")
        return f"Group {name} was deleted."

    effects = [f"Group {name} and its {len(group.partitions)} committed offsets are deleted."]
    return Plan(f"Delete group {name}", effects, "Delete", carry_out, "groups", is_dangerous=True)


ROUTES: Final = (
    live_page("/group/reset", "group_reset.html", gather_reset, 30.0),
    action("/group/reset", "reset offsets", decide_reset),
    action("/group/delete", "delete group", decide_delete_group),
)
