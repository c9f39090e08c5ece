"""The events that a disconnected session missed, from its last seen and current nodes."""

from dataclasses import dataclass

import pytest

from barnabas.znodes.tree import EventKind, WatchEvent
from barnabas.znodes.zookeeper.last_seen import LastSeen


@dataclass
class Seen:
    czxid: int
    mzxid: int
    pzxid: int


BEFORE = Seen(czxid=5, mzxid=7, pzxid=6)
NOW = {
    "the same": BEFORE,
    "set": Seen(5, 9, 6),
    "with another child": Seen(5, 7, 9),
    "made again": Seen(8, 8, 8),
    "gone": None,
}


@pytest.mark.parametrize(
    ("now", "data", "children"),
    [
        ("the same", None, None),
        ("set", EventKind.CHANGED, None),
        ("with another child", None, EventKind.CHILDREN),
        ("made again", EventKind.DELETED, EventKind.DELETED),
        ("gone", EventKind.DELETED, EventKind.DELETED),
    ],
)
def test_the_first_missed_event_is_reported(
    now: str, data: EventKind | None, children: EventKind | None
) -> None:
    seen = LastSeen()
    seen.saw_data("/a", BEFORE)
    seen.saw_children("/a", BEFORE)
    assert seen.missed_data("/a", NOW[now]) == (data and WatchEvent(data, "/a"))
    assert seen.missed_children("/a", NOW[now]) == (children and WatchEvent(children, "/a"))


def test_a_node_that_did_not_exist_can_only_have_been_created() -> None:
    seen = LastSeen()
    seen.saw_data("/a", None)
    assert seen.missed_data("/a", None) is None
    assert seen.missed_data("/a", BEFORE) == WatchEvent(EventKind.CREATED, "/a")


def test_watches_that_have_fired_miss_nothing() -> None:
    seen = LastSeen()
    for path in ("/a", "/b"):
        seen.saw_data(path, BEFORE)
        seen.saw_children(path, BEFORE)
    seen.forget(WatchEvent(EventKind.CHANGED, "/a"))
    assert (seen.data_paths, seen.children_paths) == (["/b"], ["/a", "/b"])
    seen.forget(WatchEvent(EventKind.CHILDREN, "/a"))
    assert (seen.data_paths, seen.children_paths) == (["/b"], ["/b"])
    seen.forget(WatchEvent(EventKind.DELETED, "/b"))
    assert (seen.data_paths, seen.children_paths) == ([], [])
    assert seen.missed_data("/b", None) is None
    assert seen.missed_children("/b", None) is None
