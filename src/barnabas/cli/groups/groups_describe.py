"""Descriptions of groups: state, committed offsets and lag per partition, members."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from barnabas.base.ids import TopicPartition, by_topic
from barnabas.cli.groups.groups_admin import GroupAdmin, state_of
from barnabas.cli.show import counted, show_table
from barnabas.wire.schema import Message

Group = dict[str, Any]
# Column heading -> key.
_OFFSETS: Final = {
    "topic": "topic",
    "partition": "partition",
    "current-offset": "current_offset",
    "log-end-offset": "log_end_offset",
    "lag": "lag",
    "lag/s": "lag_per_s",
    "client-id": "client_id",
    "host": "host",
    "consumer-id": "member_id",
}
_MEMBERS: Final = {
    "consumer-id": "member_id",
    "instance-id": "instance_id",
    "client-id": "client_id",
    "host": "host",
    "epoch": "epoch",
    "partitions": "count",
    "assignment": "assignment",
    "target": "target",
}
_OPTIONAL: Final = ("lag/s", "instance-id", "epoch", "target")

Table = tuple[list[str], list[list[object]]]


def describe_group(groups: GroupAdmin, group: Any, details: Message | None) -> Group:
    """The description of a group that exists, as `--json` prints it."""
    committed = groups.committed(group.group_id)
    readers = {
        TopicPartition(each.topic, each.partition): member
        for member in group.members
        for each in member.assignment.topic_partitions
    }
    partitions = sorted({**committed, **dict.fromkeys(readers)})
    ends = groups.latest(partitions)
    rows = [_offset(each, committed, ends, readers.get(each)) for each in partitions]
    epochs = {each.member_id: each.member_epoch for each in details.members} if details else {}
    node = group.coordinator
    return {
        "group": group.group_id,
        "state": details.group_state if details else state_of(group),
        "type": group.type.name.capitalize(),
        "assignor": group.partition_assignor or None,
        "coordinator": {"id": node.id, "host": node.host, "port": node.port},
        "epoch": details.group_epoch if details else None,
        "assignment_epoch": details.assignment_epoch if details else None,
        "lag": sum(row["lag"] or 0 for row in rows),
        "partitions": rows,
        "members": [_member(each, epochs.get(each.member_id)) for each in group.members],
    }


def _offset(
    partition: TopicPartition,
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    reader: Any | None,
) -> dict[str, Any]:
    current, end = committed.get(partition), ends.get(partition)
    # An offset committed between the two requests may be ahead of the returned log end offset.
    lag = None if current is None or end is None else max(0, end - current)
    return {
        **partition._asdict(),
        "current_offset": current,
        "log_end_offset": end,
        "lag": lag,
        "client_id": reader.client_id if reader else None,
        "host": _host(reader) if reader else None,
        "member_id": reader.member_id if reader else None,
    }


def _member(member: Any, epoch: int | None) -> dict[str, Any]:
    target = member.target_assignment
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id or None,
        "client_id": member.client_id,
        "host": _host(member),
        "epoch": epoch,
        "assignment": _assignment(member.assignment),
        "target_assignment": None if target is None else _assignment(target),
    }


def _host(member: Any) -> str:
    """The host without the slash that Kafka puts before a bare address."""
    return str(member.host).removeprefix("/")


def _assignment(assignment: Any) -> dict[str, list[int]]:
    return by_topic(sorted((p.topic, p.partition) for p in assignment.topic_partitions))


def headline(group: Group) -> str:
    """`group orders: Stable, classic protocol, assignor range, ...`"""
    node = group["coordinator"]
    facts = [group["state"], f"{group['type'].lower()} protocol"]
    if group["assignor"]:
        facts.append(f"assignor {group['assignor']}")
    if group["epoch"] is not None:
        facts.append(f"epoch {group['epoch']}")
        if group["assignment_epoch"] != group["epoch"]:
            facts.append(f"assignment epoch {group['assignment_epoch']}")
    facts.append(counted(len(group["members"]), "member"))
    facts.append(f"coordinator {node['id']} at {node['host']}:{node['port']}")
    return f"group {group['group']}: {', '.join(facts)}"


def totals(group: Group) -> str:
    """The total lag, and how many partitions it does not count and why."""
    rows = group["partitions"]
    unread = sum(row["current_offset"] is None for row in rows)
    leaderless = sum(row["lag"] is None for row in rows) - unread
    words = [f"total lag {group['lag']}{_trend(group)}"]
    if unread:
        words.append(f"not counting {counted(unread, 'partition')} without a committed offset")
    if leaderless:
        words.append(f"not counting {counted(leaderless, 'partition')} without a leader")
    return ", ".join(words)


def _trend(group: Group) -> str:
    """`, falling by 30.0/s: zero in 4 s`; empty while the lag does not change."""
    rate = group.get("lag_per_s")
    if not rate:
        return ""
    if rate > 0:
        return f", growing by {rate}/s"
    left = f": zero in {group['lag'] / -rate:.0f} s" if group["lag"] else ""
    return f", falling by {-rate}/s{left}"


def offsets_table(group: Group) -> Table:
    return _table(_OFFSETS, group["partitions"])


def members_table(group: Group) -> Table:
    """One row per member; the target only if it differs from the assignment."""
    rows = []
    for member in group["members"]:
        now, target = member["assignment"], member["target_assignment"]
        rows.append(
            {
                **member,
                "count": sum(map(len, now.values())),
                "assignment": _words(now),
                "target": _words(target) if target not in (None, now) else None,
            }
        )
    return _table(_MEMBERS, rows)


def _words(assignment: Mapping[str, Sequence[int]]) -> str | None:
    """`orders:0,1 users:2`, None if it is empty."""
    words = [f"{topic}:{','.join(map(str, each))}" for topic, each in assignment.items()]
    return " ".join(words) or None


def _table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = [
        heading
        for heading, key in columns.items()
        if heading not in _OPTIONAL or any(row.get(key) is not None for row in rows)
    ]
    return shown, [[row.get(columns[heading]) for heading in shown] for row in rows]


def show_groups(described: Iterable[Group], *, members: bool) -> None:
    """Print each group: its headline, then its offsets or its members."""
    for group in described:
        print(headline(group))
        columns, rows = members_table(group) if members else offsets_table(group)
        if rows:
            show_table(columns, rows)
        if not members:
            print(totals(group))
        print(flush=True)
